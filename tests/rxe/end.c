/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "end.h"

enum {
	TIMEOUT = 15,		/* 134 ms: software emulation is slow */
	RETRIES = 6,		/* 7 is for ever at soft RoCE */
	MIN_RNR_TIMER = 12,	/* 640 us */
	CONNECT_TRIES = 100,
	RD_ATOMIC = 16,
};

/* ---- the other end --------------------------------------------------------------------------- */

static int accept_one(const char *port)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6,
				    .sin6_port = htons((uint16_t)atoi(port)) };
	int listener = socket(AF_INET6, SOCK_STREAM, 0), on = 1, sock;

	CHECK(listener >= 0);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	CHECK(bind(listener, (struct sockaddr *)&any, sizeof(any)) == 0);
	CHECK(listen(listener, 1) == 0);
	sock = accept(listener, NULL, NULL);
	close(listener);
	return sock;
}

static int call(const char *host, const char *port)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found;
	int sock;

	CHECK(getaddrinfo(host, port, &hints, &found) == 0);
	sock = socket(found->ai_family, SOCK_STREAM, 0);
	CHECK(sock >= 0);
	CHECK(connect(sock, found->ai_addr, found->ai_addrlen) == 0);
	freeaddrinfo(found);
	return sock;
}

static void transfer(int sock, char *buf, size_t len, bool out)
{
	while (len > 0) {
		ssize_t n = out ? send(sock, buf, len, MSG_NOSIGNAL) : recv(sock, buf, len, 0);

		CHECK(n > 0);
		buf += n;
		len -= (size_t)n;
	}
}

void end_swap(struct end *e, const void *mine, void *theirs, size_t len)
{
	transfer(e->sock, (char *)mine, len, true);
	transfer(e->sock, theirs, len, false);
}

void end_meet(struct end *e)
{
	char byte = 1;

	end_swap(e, &byte, &byte, 1);
}

/* ---- the device ------------------------------------------------------------------------------ */

void end_open(struct end *e, const struct end_place *place)
{
	int n, on = 1;
	struct ibv_device **list = ibv_get_device_list(&n);

	*e = (struct end){ .place = *place, .client = place->host };
	for (int i = 0; i < n; i++)
		if (!strcmp(ibv_get_device_name(list[i]), place->device))
			e->ctx = ibv_open_device(list[i]);
	CHECK(e->ctx);
	ibv_free_device_list(list);
	CHECK(fcntl(e->ctx->async_fd, F_SETFL, O_NONBLOCK) == 0);
	e->pd = ibv_alloc_pd(e->ctx);
	e->channel = ibv_create_comp_channel(e->ctx);
	CHECK(e->pd && e->channel);
	e->cq = ibv_create_cq(e->ctx, 4 * END_DEPTH, NULL, e->channel, 0);
	e->buf = calloc(1, END_SIZE);
	CHECK(e->cq && e->buf);
	CHECK(ibv_query_gid(e->ctx, 1, place->gid_index, &e->mine.gid) == 0);
	e->sock = place->host ? call(place->host, place->port) : accept_one(place->port);
	CHECK(e->sock >= 0);
	setsockopt(e->sock, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static struct ibv_ah_attr path(const struct end *e)
{
	return (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = 1,
		.grh = { .dgid = e->theirs.gid,
			 .sgid_index = (uint8_t)e->place.gid_index,
			 .hop_limit = 64 },
	};
}

static void create(struct end *e, const struct end_setup *setup)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = e->cq,
		.recv_cq = e->cq,
		.qp_type = setup->type,
		.sq_sig_all = 1,
		.cap = { .max_send_wr = END_DEPTH,
			 .max_recv_wr = END_DEPTH,
			 .max_send_sge = 2,
			 .max_recv_sge = 2,
			 .max_inline_data = 64 },
		.comp_mask = IBV_QP_INIT_ATTR_PD |
			     (setup->send_ops ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
		.pd = e->pd,
		.send_ops_flags = setup->send_ops,
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qkey = END_QKEY,
		.qp_access_flags = setup->qp_access ? setup->qp_access : END_ALL_ACCESS,
	};

	e->mr = ibv_reg_mr(e->pd, e->buf, END_SIZE,
			   (int)(setup->mr_access ? setup->mr_access
						  : END_ALL_ACCESS | IBV_ACCESS_MW_BIND));
	e->qp = ibv_create_qp_ex(e->ctx, &init);
	if (!e->qp && setup->send_ops) {
		printf("not supported: %s\n", strerror(errno));
		exit(END_NOT_SUPPORTED);
	}
	CHECK(e->mr && e->qp);
	CHECK_EQ(ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
		(setup->type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)), 0);
}

static void to_rtr(struct end *e, const struct end_setup *setup)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.ah_attr = path(e),
		.path_mtu = e->place.mtu,
		.dest_qp_num = e->theirs.qpn,
		.rq_psn = e->theirs.psn,
		.max_dest_rd_atomic =
			setup->max_dest_rd_atomic ? setup->max_dest_rd_atomic : RD_ATOMIC,
		.min_rnr_timer = MIN_RNR_TIMER,
	};
	int mask = IBV_QP_STATE;

	if (setup->type != IBV_QPT_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (setup->type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	CHECK_EQ(ibv_modify_qp(e->qp, &attr, mask), 0);
}

static void to_rts(struct end *e, const struct end_setup *setup)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = e->mine.psn,
		.timeout = TIMEOUT,
		.retry_cnt = RETRIES,
		.rnr_retry = setup->rnr_retry_limit ? setup->rnr_retry_limit : 7,
		.max_rd_atomic = setup->max_rd_atomic ? setup->max_rd_atomic : RD_ATOMIC,
	};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (setup->type == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	CHECK_EQ(ibv_modify_qp(e->qp, &attr, mask), 0);
}

void end_connect(struct end *e, const struct end_setup *setup)
{
	create(e, setup);
	e->mine.addr = (uintptr_t)e->buf;
	e->mine.rkey = e->mr->rkey;
	e->mine.qpn = e->qp->qp_num;
	e->mine.psn = e->client ? 0xfffff0 : 0xfffff8;	/* it wraps */
	end_swap(e, &e->mine, &e->theirs, sizeof(e->mine));
	to_rtr(e, setup);
	to_rts(e, setup);
	if (setup->type == IBV_QPT_UD) {
		struct ibv_ah_attr attr = path(e);

		e->ah = ibv_create_ah(e->pd, &attr);
		CHECK(e->ah);
	}
	end_meet(e);
}

void end_close(struct end *e)
{
	if (e->ah)
		CHECK_EQ(ibv_destroy_ah(e->ah), 0);
	CHECK_EQ(ibv_destroy_qp(e->qp), 0);
	CHECK_EQ(ibv_dereg_mr(e->mr), 0);
	CHECK_EQ(ibv_destroy_cq(e->cq), 0);
	CHECK_EQ(ibv_destroy_comp_channel(e->channel), 0);
	CHECK_EQ(ibv_dealloc_pd(e->pd), 0);
	CHECK_EQ(ibv_close_device(e->ctx), 0);
	free(e->buf);
	close(e->sock);
}

/* ---- the queues ------------------------------------------------------------------------------ */

void end_recv(struct end *e, uint64_t wr_id, size_t offset, size_t len)
{
	struct ibv_sge sge = { .addr = (uintptr_t)e->buf + offset,
			       .length = (uint32_t)len,
			       .lkey = e->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK_EQ(ibv_post_recv(e->qp, &wr, &bad), 0);
}

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

bool end_poll(struct end *e, struct ibv_wc *wc, unsigned ms)
{
	uint64_t deadline = now_ms() + ms;
	int n;

	do {
		n = ibv_poll_cq(e->cq, 1, wc);
		CHECK(n >= 0);
	} while (n == 0 && now_ms() < deadline);
	return n == 1;
}

int end_event(struct end *e)
{
	struct ibv_async_event event;

	if (ibv_get_async_event(e->ctx, &event))
		return -1;
	ibv_ack_async_event(&event);
	return event.event_type;
}
