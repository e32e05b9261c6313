/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sequences of calls of rdma_cm in any order, good and bad, by one thread that owns both ends of
 * every connection, against an oracle:
 *
 *	a call works, or fails with an errno, and none blocks, as all channels are non-blocking;
 *	an event names an id that exists, on the id's channel;
 *	a request for a connection names a listener, and carries what some connect sent;
 *	an id is established at most once, and disconnected only after that;
 *	what is destroyed brings no event.
 *
 * The input is a program of one-byte steps with operands. At its end everything is destroyed, which
 * must work.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include "fuzz/fuzz.h"
#include "fuzz/input.h"

enum {
	CHANNELS = 2,
	SLOTS = 6,
	PENDING = 6,	/* events that are not acknowledged yet */
	LEN = 256,
	PORT = 7000,
	PORTS = 2,
	WAIT_MS = 2,
	DRAINS = 64,	/* looks for late events before everything is destroyed */
};

/* What comes next on the way to a connection, as events have it. */
enum next { NOTHING, ROUTE, CONNECT, ACCEPT, DISCONNECT };

struct slot {
	struct rdma_cm_id *id;
	int channel;
	enum next next;
	bool listens, established, disconnected, has_qp;
	unsigned int pending;	/* its events that are not acknowledged */
};

static struct rdma_event_channel *channels[CHANNELS];
static struct slot slots[SLOTS];
static struct rdma_cm_event *pending[PENDING];
static uint8_t memory[LEN];

static unsigned int asked;	/* for what has an event as its answer */

/* The first byte of private data: only these are sent. */
static const uint8_t marks[] = { 0x5a, 0xa5 };

static struct slot *slot(struct input *in)
{
	return &slots[byte(in) % SLOTS];
}

static struct slot *find(const struct rdma_cm_id *id)
{
	for (int i = 0; i < SLOTS; i++)
		if (slots[i].id && slots[i].id == id)
			return &slots[i];
	return NULL;
}

static struct slot *free_slot(void)
{
	for (int i = 0; i < SLOTS; i++)
		if (!slots[i].id)
			return &slots[i];
	return NULL;
}

/* True if it worked. */
static bool answered(int answer)
{
	FUZZ_CHECK(answer == 0 || (answer == -1 && errno > 0));
	return answer == 0;
}

/* The same for what an event answers. */
static void ask(int answer)
{
	asked += answered(answer);
}

static union {
	struct sockaddr sa;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct sockaddr_storage any;
} address;

static struct sockaddr *some_address(struct input *in)
{
	static const char *const v4[] = { "127.0.0.1", "0.0.0.0", "127.0.0.9", "224.0.0.77",
					  "203.0.113.1" };
	static const char *const v6[] = { "::1", "::", "ff02::77", "2001:db8::1" };
	unsigned int choice = byte(in) % 12;

	memset(&address, 0, sizeof(address));
	if (choice < 7) {
		address.v4.sin_family = AF_INET;
		address.v4.sin_port = htons((uint16_t)(PORT + byte(in) % PORTS));
		inet_pton(AF_INET, v4[choice < 5 ? choice : 0], &address.v4.sin_addr);
	} else if (choice < 11) {
		address.v6.sin6_family = AF_INET6;
		address.v6.sin6_port = htons((uint16_t)(PORT + byte(in) % PORTS));
		inet_pton(AF_INET6, v6[choice - 7], &address.v6.sin6_addr);
	} else {
		memset(&address, byte(in), sizeof(address));
	}
	return &address.sa;
}

static void create_step(struct input *in)
{
	static const enum rdma_port_space spaces[] = { RDMA_PS_TCP, RDMA_PS_TCP, RDMA_PS_UDP,
						       RDMA_PS_IB };
	struct slot *s = slot(in);
	int channel = byte(in) % CHANNELS;

	if (s->id)
		return;
	*s = (struct slot){ .channel = channel };
	FUZZ_CHECK(rdma_create_id(channels[channel], &s->id, s, spaces[byte(in) % 4]) == 0);
}

static void acknowledge(int i)
{
	struct slot *s = find(pending[i]->id), *listener = find(pending[i]->listen_id);

	/* The kernel counts a request for the listener. */
	if (pending[i]->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		s = listener;
	FUZZ_CHECK(s && s->pending);
	s->pending--;
	FUZZ_CHECK(rdma_ack_cm_event(pending[i]) == 0);
	pending[i] = NULL;
}

static void acknowledge_all(const struct slot *s)
{
	for (int i = 0; i < PENDING; i++)
		if (pending[i] && (!s || find(pending[i]->id) == s ||
				   find(pending[i]->listen_id) == s))
			acknowledge(i);
}

static void destroy(struct slot *s)
{
	acknowledge_all(s);
	FUZZ_CHECK(!s->pending);
	if (s->has_qp)
		rdma_destroy_qp(s->id);
	FUZZ_CHECK(rdma_destroy_id(s->id) == 0);
	*s = (struct slot){ .id = NULL };
}

static void destroy_step(struct input *in)
{
	struct slot *s = slot(in);

	if (s->id)
		destroy(s);
}

static void bind_step(struct input *in)
{
	struct slot *s = slot(in);

	if (s->id)
		answered(rdma_bind_addr(s->id, some_address(in)));
}

static void resolve_step(struct input *in)
{
	struct slot *s = slot(in);

	if (s->id)
		ask(rdma_resolve_addr(s->id, NULL, some_address(in), 1 + byte(in)));
}

static void route_step(struct input *in)
{
	struct slot *s = slot(in);

	if (s->id)
		ask(rdma_resolve_route(s->id, 1 + byte(in)));
}

static void listen_step(struct input *in)
{
	struct slot *s = slot(in);

	if (s->id && answered(rdma_listen(s->id, (int8_t)byte(in))))
		s->listens = true;
}

static struct rdma_conn_param some_param(struct input *in)
{
	memory[0] = marks[byte(in) % 2];
	return (struct rdma_conn_param){
		.private_data = memory,
		.private_data_len = byte(in),
		.responder_resources = byte(in),
		.initiator_depth = byte(in),
		.flow_control = byte(in),
		.retry_count = byte(in),
		.rnr_retry_count = byte(in),
		.srq = byte(in),
		.qp_num = word(in),
	};
}

static void connect_step(struct input *in)
{
	struct slot *s = slot(in);
	bool none = byte(in) % 4 == 0;
	struct rdma_conn_param param = some_param(in);

	if (s->id)
		ask(rdma_connect(s->id, none ? NULL : &param));
}

static void accept_step(struct input *in)
{
	struct slot *s = slot(in);
	bool none = byte(in) % 4 == 0;
	struct rdma_conn_param param = some_param(in);

	if (s->id)
		ask(rdma_accept(s->id, none ? NULL : &param));
}

static void reject_step(struct input *in)
{
	struct slot *s = slot(in);

	if (s->id)
		ask(rdma_reject(s->id, memory, byte(in)));
}

static void end_step(struct input *in)
{
	struct slot *s = slot(in);

	if (!s->id)
		return;
	switch (byte(in) % 4) {
	case 0:
		answered(rdma_establish(s->id));
		break;
	case 1:
		answered(rdma_notify(s->id, (enum ibv_event_type)byte(in)));
		break;
	default:
		ask(rdma_disconnect(s->id));
	}
}

/* A device is known once an address is resolved, or a request has come. */
static void qp_step(struct input *in)
{
	struct ibv_qp_init_attr init = {
		.cap = { byte(in) % 8, byte(in) % 8, byte(in) % 4, byte(in) % 4, byte(in) % 64 },
		.qp_type = byte(in) % 2 ? IBV_QPT_RC : IBV_QPT_UD,
	};
	struct slot *s = slot(in);

	if (!s->id)
		return;
	if (s->has_qp) {
		rdma_destroy_qp(s->id);
		s->has_qp = false;
	} else {
		s->has_qp = answered(rdma_create_qp(s->id, NULL, &init));
	}
}

static void post_step(struct input *in)
{
	struct slot *s = slot(in);
	struct ibv_wc wc[4];

	if (!s->id || !s->has_qp || s->id->qp->qp_type != IBV_QPT_RC)
		return;
	switch (byte(in) % 3) {
	case 0:
		answered(rdma_post_send(s->id, NULL, memory, byte(in) % 32, NULL, IBV_SEND_INLINE));
		break;
	case 1:
		answered(rdma_post_recvv(s->id, NULL, NULL, 0));
		break;
	default:
		FUZZ_CHECK(ibv_poll_cq(s->id->send_cq, 4, wc) >= 0);
		FUZZ_CHECK(ibv_poll_cq(s->id->recv_cq, 4, wc) >= 0);
	}
}

static void option_step(struct input *in)
{
	struct slot *s = slot(in);
	int level = byte(in) % 3, name = byte(in) % 5;
	size_t len = byte(in) % 20;

	memset(memory + 1, byte(in), sizeof(int));
	if (s->id)
		answered(rdma_set_option(s->id, level, name, memory + 1, len));
}

static void migrate_step(struct input *in)
{
	struct slot *s = slot(in);
	int channel = byte(in) % CHANNELS;

	if (!s->id)
		return;
	acknowledge_all(s);	/* it waits for them, as rdma_destroy_id() does */
	if (answered(rdma_migrate_id(s->id, channels[channel])))
		s->channel = channel;
}

static void multicast_step(struct input *in)
{
	struct slot *s = slot(in);

	if (!s->id)
		return;
	if (byte(in) % 3) {
		answered(rdma_join_multicast(s->id, some_address(in), s));
		return;
	}
	acknowledge_all(s);
	answered(rdma_leave_multicast(s->id, some_address(in)));
}

/* What is known in any state. */
static void query_step(struct input *in)
{
	struct slot *s = slot(in);
	struct ibv_qp_attr attr = { .qp_state = byte(in) % 8 };
	int mask;

	if (!s->id)
		return;
	answered(rdma_init_qp_attr(s->id, &attr, &mask));
	rdma_get_src_port(s->id);
	rdma_get_dst_port(s->id);
	FUZZ_CHECK(rdma_get_local_addr(s->id) && rdma_get_peer_addr(s->id));
}

static void no_address_step(struct input *in)
{
	struct rdma_addrinfo hints = { .ai_flags = byte(in) % 16, .ai_family = byte(in) % 32,
				       .ai_qp_type = byte(in) % 8,
				       .ai_port_space = byte(in) % 2 ? RDMA_PS_TCP : byte(in) };
	static const char *const names[] = { NULL, "127.0.0.1", "::1", "", "0.0.0.0" };
	static const char *const services[] = { NULL, "7001", "http", "70000", "" };
	struct rdma_addrinfo *found = NULL;
	const char *name = names[byte(in) % 5], *service = services[byte(in) % 5];

	/* Names are not asked for by way of the network. */
	hints.ai_flags |= RAI_NUMERICHOST;
	if (rdma_getaddrinfo(name, service, &hints, &found) == 0) {
		FUZZ_CHECK(found);
		rdma_freeaddrinfo(found);
	}
}

/* Takes the id of a request; without a free slot it is refused. */
static void take_request(const struct rdma_cm_event *e, const struct slot *listener)
{
	struct slot *s = free_slot();

	FUZZ_CHECK(listener && listener->listens && e->id != e->listen_id);
	if (e->id->ps != RDMA_PS_UDP && e->param.conn.private_data_len)
		FUZZ_CHECK(memchr(marks, *(const uint8_t *)e->param.conn.private_data,
				  sizeof(marks)) ||
			   *(const uint8_t *)e->param.conn.private_data == 0);
	if (s)
		*s = (struct slot){ .id = e->id, .channel = listener->channel, .next = ACCEPT };
}

static void note(const struct rdma_cm_event *e, struct slot *s)
{
	switch (e->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		s->next = ROUTE;
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		s->next = CONNECT;
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		s->next = DISCONNECT;
		FUZZ_CHECK(!s->disconnected && (!s->established || s->id->ps == RDMA_PS_UDP));
		s->established = true;
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		FUZZ_CHECK(!s->disconnected);
		s->disconnected = true;
		break;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_CONNECT_ERROR:
		FUZZ_CHECK(!s->disconnected);
		break;
	default:
		break;
	}
}

/* False if there was none. */
static bool take_event(int channel, bool keep)
{
	struct slot *s, *listener;
	struct rdma_cm_event *e;
	int i;

	if (!answered(rdma_get_cm_event(channels[channel], &e))) {
		FUZZ_CHECK(errno == EAGAIN);
		return false;
	}
	FUZZ_CHECK(e->event <= RDMA_CM_EVENT_TIMEWAIT_EXIT && rdma_event_str(e->event));
	s = find(e->id);
	if (e->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		listener = find(e->listen_id);
		take_request(e, listener);
		s = find(e->id);
		if (!s) {
			struct rdma_cm_id *refused = e->id;

			FUZZ_CHECK(rdma_ack_cm_event(e) == 0 && rdma_destroy_id(refused) == 0);
			return true;
		}
		s = listener;
	} else {
		FUZZ_CHECK(s && s->channel == channel);
		note(e, s);
	}
	s->pending++;
	for (i = 0; i < PENDING - 1 && pending[i]; i++)
		;
	if (pending[i])
		acknowledge(i);
	pending[i] = e;
	if (!keep)
		acknowledge(i);
	return true;
}

static void event_step(struct input *in)
{
	struct pollfd fds[CHANNELS];
	int channel = byte(in) % CHANNELS;
	bool keep = byte(in) % 2;

	for (int i = 0; i < CHANNELS; i++)
		fds[i] = (struct pollfd){ .fd = channels[i]->fd, .events = POLLIN };
	/* Once for each thing asked for, which may bring no event. */
	if (asked && poll(fds, CHANNELS, WAIT_MS) >= 0)
		asked--;
	if (!fds[channel].revents)
		channel = (channel + 1) % CHANNELS;
	for (int i = byte(in) % 4; i >= 0 && take_event(channel, keep); i--)
		;
}

static void ack_step(struct input *in)
{
	int i = byte(in) % PENDING;

	if (pending[i])
		acknowledge(i);
}

static void no_id_step(struct input *in)
{
	struct rdma_cm_id *id;

	errno = 0;
	switch (byte(in) % 4) {
	case 0:
		FUZZ_CHECK(rdma_create_id(channels[0], &id, NULL, (enum rdma_port_space)0) == -1);
		break;
	case 1:
		FUZZ_CHECK(rdma_create_id(channels[0], NULL, NULL, RDMA_PS_TCP) == -1);
		break;
	case 2:
		FUZZ_CHECK(rdma_get_cm_event(channels[0], NULL) == -1);
		break;
	default:
		FUZZ_CHECK(rdma_get_cm_event(NULL, NULL) == -1);
	}
	FUZZ_CHECK(errno > 0);
}

static struct slot *some_listener(struct input *in)
{
	int first = byte(in);

	for (int i = 0; i < SLOTS; i++)
		if (slots[(first + i) % SLOTS].listens)
			return &slots[(first + i) % SLOTS];
	return NULL;
}

/* An id on its way to a listener. */
static void pair_step(struct input *in)
{
	struct slot *s = slot(in), *l = some_listener(in);

	memset(&address, 0, sizeof(address));
	address.v4.sin_family = AF_INET;
	inet_pton(AF_INET, "127.0.0.1", &address.v4.sin_addr);
	if (l && s->id && s != l) {
		address.v4.sin_port = rdma_get_src_port(l->id);
		ask(rdma_resolve_addr(s->id, NULL, &address.sa, 100));
	} else if (!l && s->id && answered(rdma_bind_addr(s->id, &address.sa))) {
		s->listens = answered(rdma_listen(s->id, 4));
	}
}

/* The next step of a connection, which others rarely find. */
static void advance_step(struct input *in)
{
	struct slot *s = slot(in);
	struct ibv_qp_init_attr init = { .cap = { 2, 2, 1, 1, 32 }, .qp_type = IBV_QPT_RC };
	struct rdma_conn_param param = { .retry_count = 7, .private_data = memory,
					 .private_data_len = 9 };
	enum next next = s->next;

	memory[0] = marks[0];
	if (!s->id)
		return;
	if (s->id->ps == RDMA_PS_UDP)
		init.qp_type = IBV_QPT_UD;
	s->next = NOTHING;
	if ((next == CONNECT || next == ACCEPT) && !s->has_qp && byte(in) % 8)
		s->has_qp = answered(rdma_create_qp(s->id, NULL, &init));
	switch (next) {
	case ROUTE:
		ask(rdma_resolve_route(s->id, 100));
		break;
	case CONNECT:
		ask(rdma_connect(s->id, &param));
		break;
	case ACCEPT:
		ask(rdma_accept(s->id, &param));
		break;
	case DISCONNECT:
		ask(rdma_disconnect(s->id));
		break;
	case NOTHING:
		break;
	}
}

/* A connection's own steps come as often as all others. */
static void (*const steps[])(struct input *) = {
	create_step,  create_step,  destroy_step, bind_step,	   resolve_step,   route_step,
	listen_step,  connect_step, accept_step,  reject_step,	   end_step,	   qp_step,
	post_step,    option_step,  migrate_step, multicast_step,  query_step,	   no_address_step,
	no_id_step,   ack_step,	    create_step,  create_step,	   pair_step,	   pair_step,
	advance_step, advance_step, advance_step, advance_step,	   event_step,	   event_step,
	event_step,   event_step,   advance_step, advance_step,	   event_step,	   event_step,
};

static void start(void)
{
	for (int i = 0; i < CHANNELS; i++) {
		channels[i] = rdma_create_event_channel();
		FUZZ_CHECK(channels[i] && fcntl(channels[i]->fd, F_SETFL, O_NONBLOCK) == 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };

	if (!channels[0])
		start();
	asked = 0;
	while (more(&in))
		steps[byte(&in) % (sizeof(steps) / sizeof(steps[0]))](&in);
	for (int i = 0; i < DRAINS && (take_event(0, false) | take_event(1, false)); i++)
		;
	acknowledge_all(NULL);
	for (int i = 0; i < SLOTS; i++)
		if (slots[i].id)
			destroy(&slots[i]);
	/* Requests that still came for the listeners went with them. */
	for (int i = 0; i < CHANNELS; i++)
		FUZZ_CHECK(!take_event(i, false));
	return 0;
}
