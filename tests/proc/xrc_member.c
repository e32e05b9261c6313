/* SPDX-License-Identifier: BSD-2-Clause */
/* See xrc_group.h: the home and the owners. */
#include "xrc_group.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

bool member_has_command(int sock)
{
	struct pollfd p = { .fd = sock, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

char stream_pattern(uint32_t seq, uint32_t i)
{
	return (char)(seq * 31 + i * 7 + (i >> 8));
}

uint32_t stream_length(uint32_t seq)
{
	static const uint32_t lens[] = { 0, 1, 64, 1024, 1025, 5000, 20000, XRC_SLOT };

	return lens[(seq * 2654435761u >> 13) % 8];
}

/* The immediate data of a message holds its sequence number at this receiver. */
static void check_message(struct xrc *x, const struct ibv_wc *wc, uint32_t qpn, uint32_t *seq)
{
	const char *p = xrc_buffer(x, (unsigned int)wc->wr_id);
	uint32_t n = wc->imm_data >> 8;

	if (group_kills && wc->status == IBV_WC_WR_FLUSH_ERR)
		return;
	CHECK_EQ(wc->status, IBV_WC_SUCCESS);
	CHECK_EQ(wc->qp_num, qpn);
	CHECK(wc->wc_flags & IBV_WC_WITH_IMM);
	CHECK_EQ(n, *seq);
	CHECK_EQ(wc->byte_len, stream_length(n));
	for (uint32_t i = 0; i < wc->byte_len; i++)
		if (p[i] != stream_pattern(n, i)) {
			printf("message %u, byte %u\n", n, i);
			CHECK(p[i] == stream_pattern(n, i));
		}
	++*seq;
}

static void receive_stream(struct xrc *x, int sock, uint32_t qpn)
{
	uint32_t seq = 0, least;
	struct ibv_wc wc;
	enum command o;
	int n;

	for (unsigned int i = 0; i < group_recvs; i++)
		xrc_post(x, i);
	rc_barrier(sock);
	while (!member_has_command(sock)) {
		while (ibv_poll_cq(x->cq, 1, &wc) == 1) {
			check_message(x, &wc, qpn, &seq);
			xrc_post(x, (unsigned int)wc.wr_id);
		}
	}
	child_recv(sock, &o, sizeof(o));
	CHECK_EQ(o, STOP);
	child_recv(sock, &least, sizeof(least));
	/* A message is acknowledged before its completion is shown. */
	while ((n = ibv_poll_cq(x->cq, 1, &wc)) == 1 || seq < least)
		if (n)
			check_message(x, &wc, qpn, &seq);
	child_send(sock, &seq, sizeof(seq));
}

static void wait_limit_event(struct xrc *x)
{
	struct ibv_async_event ev;

	CHECK(ibv_get_async_event(x->rc.ctx, &ev) == 0);
	CHECK_EQ(ev.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
	CHECK(ev.element.srq == x->srq);
	ibv_ack_async_event(&ev);
}

static void wait_cq_event(struct xrc *x)
{
	struct ibv_cq *cq;
	void *arg;

	CHECK(ibv_get_cq_event(x->rc.channel, &cq, &arg) == 0);
	CHECK(cq == x->cq);
	ibv_ack_cq_events(cq, 1);
}

static struct ibv_qp *open_by_number(struct xrc *x, struct ibv_xrcd *xrcd, uint32_t qpn)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE |
			     IBV_QP_OPEN_ATTR_CONTEXT,
		.qp_num = qpn, .xrcd = xrcd, .qp_type = IBV_QPT_XRC_RECV, .qp_context = x,
	};

	return ibv_open_qp(x->rc.ctx, &attr);
}

static void open_qp(struct xrc *x, uint32_t qpn)
{
	struct ibv_xrcd *other = xrc_open_domain(x, -1, O_CREAT);

	CHECK(!open_by_number(x, x->xrcd, qpn ^ 1));
	CHECK_EQ(errno, EINVAL);
	CHECK(!open_by_number(x, other, qpn));
	CHECK_EQ(errno, EINVAL);
	CHECK(ibv_close_xrcd(other) == 0);
	x->qp = open_by_number(x, x->xrcd, qpn);
	CHECK(x->qp);
	CHECK_EQ(x->qp->qp_num, qpn);
	CHECK(x->qp->qp_context == x);
}

static void send_state(struct xrc *x, int sock)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	int state = ibv_query_qp(x->qp, &attr, IBV_QP_STATE, &init) ? -1 : (int)attr.qp_state;

	if (state >= 0)
		CHECK_EQ(init.qp_type, IBV_QPT_XRC_RECV);
	child_send(sock, &state, sizeof(state));
}

static void send_event(struct xrc *x, int sock)
{
	struct ibv_async_event ev;
	int type;

	CHECK(ibv_get_async_event(x->rc.ctx, &ev) == 0);
	CHECK(ev.element.qp == x->qp);
	type = ev.event_type;
	ibv_ack_async_event(&ev);
	child_send(sock, &type, sizeof(type));
}

static void reopen_domain(struct xrc *x, int sock)
{
	CHECK(ibv_destroy_srq(x->srq) == 0);
	CHECK(ibv_close_xrcd(x->xrcd) == 0);
	x->xrcd = xrc_open_domain(x, group_file, 0);
	CHECK(x->xrcd);
	xrc_create_srq(x);
	child_send(sock, &x->srqn, sizeof(x->srqn));
}

/* Executes commands until END. */
static void serve(struct xrc *x, int sock, uint32_t qpn)
{
	unsigned int posted = 0;
	enum command o;

	for (;;) {
		child_recv(sock, &o, sizeof(o));
		switch (o) {
		case RECEIVE:
			receive_stream(x, sock, qpn);
			break;
		case POST:
			xrc_post(x, posted++ % XRC_RECVS);
			rc_barrier(sock);
			break;
		case TAKE: {
			struct ibv_wc wc = xrc_wait(x->cq);

			child_send(sock, &wc, sizeof(wc));
			break;
		}
		case ARM_LIMIT: {
			struct ibv_srq_attr attr = { .srq_limit = 1 };

			CHECK(ibv_modify_srq(x->srq, &attr, IBV_SRQ_LIMIT) == 0);
			rc_barrier(sock);
			wait_limit_event(x);
			rc_barrier(sock);
			break;
		}
		case SHOW:
			child_send(sock, x->rc.buf, 64);
			break;
		case SLEEP:
			CHECK(ibv_req_notify_cq(x->cq, 1) == 0);
			rc_barrier(sock);
			wait_cq_event(x);
			rc_barrier(sock);
			break;
		case DROP_SRQ:
			CHECK(ibv_destroy_srq(x->srq) == 0);
			x->srq = NULL;
			rc_barrier(sock);
			break;
		case REOPEN:
			reopen_domain(x, sock);
			break;
		case OPEN:
			open_qp(x, qpn);
			rc_barrier(sock);
			break;
		case STATE:
			send_state(x, sock);
			break;
		case EVENT:
			send_event(x, sock);
			break;
		case TO_ERROR: {
			struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

			CHECK_EQ(ibv_modify_qp(x->qp, &attr, IBV_QP_STATE), 0);
			CHECK_EQ(x->qp->state, IBV_QPS_ERR);
			rc_barrier(sock);
			break;
		}
		case CLOSE:
			CHECK_EQ(ibv_destroy_qp(x->qp), 0);
			x->qp = NULL;
			rc_barrier(sock);
			break;
		case STOP:
		case END:
			return;
		}
	}
}

static struct member_info info_of(const struct xrc *x, const struct ibv_qp *qp)
{
	return (struct member_info){ .addr = rc_address(&x->rc, qp), .srqn = x->srqn };
}

void member_owner(int sock)
{
	struct member_info info;
	struct xrc x;
	uint32_t qpn;

	alarm(RC_LIMIT_S);
	xrc_open(&x, group_file, 0);
	info = info_of(&x, x.rc.qp);
	child_send(sock, &info, sizeof(info));
	child_recv(sock, &qpn, sizeof(qpn));
	serve(&x, sock, qpn);
	xrc_close(&x);
}

void member_home(int sock)
{
	struct member_info info;
	struct rc_addr peer;
	struct xrc x;

	alarm(RC_LIMIT_S);
	if (group_home_polls)
		setenv("VERBENA_PROGRESS", "none", 1);
	xrc_open(&x, group_file, O_CREAT | O_EXCL);
	x.qp = xrc_recv_qp(&x);
	info = info_of(&x, x.qp);
	child_send(sock, &info, sizeof(info));
	child_recv(sock, &peer, sizeof(peer));
	if (group_home_in_rtr)
		rc_to_rtr(&x.rc, x.qp, &peer);
	else
		rc_connect(&x.rc, x.qp, &peer, TIMEOUT, RETRIES);
	rc_barrier(sock);
	serve(&x, sock, x.qp->qp_num);
	xrc_close(&x);
}
