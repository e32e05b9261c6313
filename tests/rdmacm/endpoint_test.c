/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Endpoints and synchronous ids: each side runs in a thread of its own, as in programs that use
 * them.
 */
#include <arpa/inet.h>
#include <pthread.h>

#include "world.h"

static const struct ibv_qp_init_attr qp_attr = {
	.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
	.sq_sig_all = 1,
};

/* Of the QPs of both sides. */
static enum ibv_qp_type type = IBV_QPT_RC;

static struct rdma_addrinfo *info(const char *service, int flags)
{
	struct rdma_addrinfo hints = {
		.ai_flags = flags,
		.ai_qp_type = type,
		.ai_port_space = type == IBV_QPT_RC ? RDMA_PS_TCP : RDMA_PS_IB,
	}, *res;

	CHECK_EQ(rdma_getaddrinfo(LOOPBACK, service, &hints, &res), 0);
	return res;
}

static struct rdma_cm_id *listening(void)
{
	struct rdma_addrinfo *res = info("0", RAI_PASSIVE);
	struct ibv_qp_init_attr attr = qp_attr;
	struct rdma_cm_id *id;

	CHECK_EQ(rdma_create_ep(&id, res, NULL, &attr), 0);
	CHECK_EQ(rdma_listen(id, 0), 0);
	rdma_freeaddrinfo(res);
	return id;
}

static struct rdma_cm_id *connecting(const struct rdma_cm_id *listener)
{
	struct ibv_qp_init_attr attr = qp_attr;
	struct rdma_addrinfo *res;
	struct rdma_cm_id *id;
	char port[8];

	snprintf(port, sizeof(port), "%u", ntohs(listener->route.addr.src_sin.sin_port));
	res = info(port, 0);
	CHECK_EQ(rdma_create_ep(&id, res, NULL, &attr), 0);
	CHECK(id->qp && id->verbs && id->route.num_paths == 1);
	CHECK_EQ(id->qp->qp_type, type);
	rdma_freeaddrinfo(res);
	return id;
}

static void *serve(void *arg)
{
	struct rdma_conn_param answer = { .private_data = "yes", .private_data_len = 3 };
	struct rdma_cm_id *id;
	char text[8];
	struct ibv_mr *mr;
	struct ibv_wc wc;

	CHECK_EQ(rdma_get_request(arg, &id), 0);
	CHECK(id->qp && id->channel != ((struct rdma_cm_id *)arg)->channel);
	CHECK_EQ(id->qp->qp_type, type);
	CHECK_EQ(id->event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
	CHECK_MEM(id->event->param.conn.private_data, "may I?", 7);
	mr = rdma_reg_msgs(id, text, sizeof(text));
	CHECK_EQ(rdma_post_recv(id, NULL, text, sizeof(text), mr), 0);
	CHECK_EQ(rdma_accept(id, &answer), 0);
	CHECK_EQ(id->event->event, RDMA_CM_EVENT_ESTABLISHED);
	CHECK_EQ(rdma_get_recv_comp(id, &wc), 1);
	CHECK_MEM(text, "message", 8);
	CHECK_EQ(rdma_disconnect(id), 0);
	CHECK_EQ(rdma_dereg_mr(mr), 0);
	rdma_destroy_ep(id);
	return NULL;
}

static void served(void)
{
	struct rdma_conn_param ask = { .private_data = "may I?",
				       .private_data_len = 6,
				       .retry_count = 7,
				       .rnr_retry_count = 7 };
	struct rdma_cm_id *listener = listening(), *id;
	static char text[8] = "message";
	struct ibv_mr *mr;
	struct ibv_wc wc;
	pthread_t thread;

	CHECK_EQ(pthread_create(&thread, NULL, serve, listener), 0);
	id = connecting(listener);
	CHECK_EQ(rdma_connect(id, &ask), 0);
	CHECK_EQ(id->event->event, RDMA_CM_EVENT_ESTABLISHED);
	CHECK_MEM(id->event->param.conn.private_data, "yes", 4);
	mr = rdma_reg_msgs(id, text, sizeof(text));
	CHECK_EQ(rdma_post_send(id, NULL, text, sizeof(text), mr, 0), 0);
	CHECK_EQ(rdma_get_send_comp(id, &wc), 1);
	CHECK_EQ(rdma_disconnect(id), 0);
	CHECK_EQ(id->event->event, RDMA_CM_EVENT_DISCONNECTED);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(rdma_dereg_mr(mr), 0);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
}

static void *refuse(void *arg)
{
	struct rdma_cm_id *id;

	CHECK_EQ(rdma_get_request(arg, &id), 0);
	CHECK_EQ(rdma_reject(id, NULL, 0), 0);
	rdma_destroy_ep(id);
	return NULL;
}

static void refused(void)
{
	struct rdma_cm_id *listener = listening(), *id = connecting(listener);
	pthread_t thread;

	CHECK_EQ(pthread_create(&thread, NULL, refuse, listener), 0);
	CHECK_FAILS(rdma_connect(id, NULL), ECONNREFUSED);
	CHECK_EQ(id->event->event, RDMA_CM_EVENT_REJECTED);
	CHECK_EQ(id->event->status, 28);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
}

/* A port space that leaves the type to the program has connections of each, but not mixed ones. */
static void unreliable(void)
{
	struct rdma_cm_id *listener, *id;

	type = IBV_QPT_UC;
	served();
	listener = listening();
	type = IBV_QPT_RC;
	id = world_id(NULL, RDMA_PS_IB);
	CHECK_EQ(rdma_resolve_addr(id, NULL, rdma_get_local_addr(listener), WORLD_TIMEOUT_MS), 0);
	CHECK_EQ(rdma_resolve_route(id, WORLD_TIMEOUT_MS), 0);
	world_qp(id);
	CHECK_FAILS(rdma_connect(id, NULL), ECONNREFUSED);
	CHECK_EQ(id->event->status, 28);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
}

/* The program fetches the request itself: its id is synchronous, too. */
static void fetched_as_event(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *listener = world_listen(NULL, RDMA_PS_TCP, LOOPBACK),
			  *id = world_route(ch, listener, LOOPBACK), *child;
	struct rdma_cm_event *e;

	world_qp(id);
	CHECK_EQ(rdma_connect(id, NULL), 0);
	e = world_event(listener->channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	child = e->id;
	CHECK(child->channel && child->channel != listener->channel);
	CHECK_EQ(rdma_ack_cm_event(e), 0);
	CHECK_EQ(rdma_reject(child, NULL, 0), 0);
	CHECK_EQ(rdma_ack_cm_event(world_event(ch, RDMA_CM_EVENT_REJECTED, 28)), 0);
	rdma_destroy_ep(child);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
	rdma_destroy_event_channel(ch);
}

static void *look_up_service(void *listener)
{
	struct rdma_cm_id *id = world_id(NULL, RDMA_PS_UDP);
	struct sockaddr_storage a =
		world_addr(LOOPBACK, ntohs(rdma_get_src_port((struct rdma_cm_id *)listener)));

	CHECK_EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&a, WORLD_TIMEOUT_MS), 0);
	CHECK_EQ(rdma_resolve_route(id, WORLD_TIMEOUT_MS), 0);
	CHECK_EQ(rdma_connect(id, NULL), 0);
	CHECK_EQ(id->event->event, RDMA_CM_EVENT_ESTABLISHED);
	rdma_destroy_ep(id);
	return NULL;
}

/* rdma_accept() releases the request of a datagram service, so its listener can be destroyed. */
static void datagrams(void)
{
	struct rdma_cm_id *listener = world_listen(NULL, RDMA_PS_UDP, LOOPBACK), *id;
	pthread_t thread;

	CHECK_EQ(pthread_create(&thread, NULL, look_up_service, listener), 0);
	CHECK_EQ(rdma_get_request(listener, &id), 0);
	CHECK_EQ(id->event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
	world_qp(id);
	CHECK_EQ(rdma_accept(id, NULL), 0);
	CHECK(!id->event);
	rdma_destroy_ep(listener);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	/* Nothing ends that could be waited for. */
	CHECK_EQ(rdma_disconnect(id), 0);
	rdma_destroy_ep(id);
}

/* Fetches a request for a listener that has QP attributes, and refuses it. */
static void check_request(struct rdma_cm_id *listener, const struct ibv_pd *pd)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *id = world_route(ch, listener, LOOPBACK), *child;

	world_qp(id);
	CHECK_EQ(rdma_connect(id, NULL), 0);
	CHECK_EQ(rdma_get_request(listener, &child), 0);
	CHECK(child->pd == pd && child->qp->pd == pd);
	rdma_destroy_ep(child);
	CHECK_EQ(rdma_ack_cm_event(world_event(ch, RDMA_CM_EVENT_REJECTED, 28)), 0);
	rdma_destroy_ep(id);
	rdma_destroy_event_channel(ch);
}

/* The listener's PD is that of its requests: as passed, or as the program sets it later. */
static void domains(void)
{
	struct rdma_addrinfo *res = info("0", RAI_PASSIVE);
	struct ibv_context **list = rdma_get_devices(NULL);
	struct ibv_qp_init_attr attr = qp_attr;
	struct rdma_cm_id *listener, *id;
	struct ibv_pd *pd;

	CHECK(list);
	id = world_id(NULL, RDMA_PS_TCP);
	CHECK_EQ(rdma_resolve_addr(id, NULL, res->ai_src_addr, WORLD_TIMEOUT_MS), 0);
	pd = ibv_alloc_pd(id->verbs);
	CHECK(pd);
	CHECK_EQ(rdma_create_ep(&listener, res, pd, NULL), 0);
	CHECK(listener->pd == pd);
	rdma_destroy_ep(listener);
	for (int later = 0; later < 2; later++) {
		CHECK_EQ(rdma_create_ep(&listener, res, later ? NULL : pd, &attr), 0);
		if (later)
			listener->pd = pd;
		CHECK(listener->pd == pd);
		CHECK_EQ(rdma_listen(listener, 0), 0);
		check_request(listener, pd);
		rdma_destroy_ep(listener);
	}
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
	rdma_destroy_ep(id);
	rdma_free_devices(list);
	rdma_freeaddrinfo(res);
}

/* Without a type, as in results from hints only, that of the port space. */
static void no_type(void)
{
	static const struct {
		enum rdma_port_space ps;
		enum ibv_qp_type type;
	} row[] = { { RDMA_PS_TCP, IBV_QPT_RC }, { RDMA_PS_UDP, IBV_QPT_UD } };
	struct sockaddr_storage a = world_addr(LOOPBACK, 0);

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct rdma_addrinfo hints = {
			.ai_flags = RAI_PASSIVE,
			.ai_port_space = row[i].ps,
			.ai_src_addr = (struct sockaddr *)&a,
			.ai_src_len = sizeof(struct sockaddr_in),
		}, *res;
		struct rdma_cm_id *id;

		CHECK_EQ(rdma_getaddrinfo(NULL, NULL, &hints, &res), 0);
		CHECK_EQ(rdma_create_ep(&id, res, NULL, NULL), 0);
		CHECK_EQ(id->qp_type, row[i].type);
		rdma_destroy_ep(id);
		rdma_freeaddrinfo(res);
	}
}

static void wrong(void)
{
	struct rdma_addrinfo *res = info("0", RAI_PASSIVE);
	struct sockaddr_in *to = (struct sockaddr_in *)res->ai_src_addr;
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *id, *other = world_id(ch, RDMA_PS_TCP), *got;

	/* A failed call leaves nothing behind. */
	CHECK_EQ(inet_aton("192.0.2.77", &to->sin_addr), 1);
	CHECK_FAILS(rdma_create_ep(&id, res, NULL, NULL), EADDRNOTAVAIL);
	CHECK_FAILS(rdma_create_ep(NULL, res, NULL, NULL), EINVAL);
	CHECK_FAILS(rdma_create_ep(&id, NULL, NULL, NULL), EINVAL);
	/* Requests to a listener with a channel are events on that channel. */
	CHECK_FAILS(rdma_get_request(other, &got), EINVAL);
	CHECK_EQ(rdma_destroy_id(other), 0);
	rdma_destroy_event_channel(ch);
	rdma_freeaddrinfo(res);
}

int main(void)
{
	served();
	unreliable();
	refused();
	fetched_as_event();
	datagrams();
	domains();
	no_type();
	wrong();
	return 0;
}
