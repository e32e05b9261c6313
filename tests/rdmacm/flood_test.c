/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Forged MADs with valid ICRCs: floods of requests from every address of the loopback interface,
 * during which programs must still be able to connect, and forged messages with unknown ids, which
 * must not end a connection. Forged MADs need UDP, so the test is empty with the local transport.
 */
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "../unit/place.h"
#include "cm/msg.h"
#include "forge.h"
#include "util/atomic.h"
#include "world.h"

enum {
	BACKLOG = 1024,
	LOUD = 300,
	QUIET = 3,
	FRONT = 100, /* of the queue: CM_FEW_REQUESTS in order of arrival, and some more */
	FLOOD = 20000,
	CONNECTS = 8,
	WARM_UP = 1000,
	FORGED = 2000,
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	PAUSE_US = 2500, /* between bursts: a sanitized library is many times slower */
#else
	PAUSE_US = 0,
#endif
};

static uint64_t service_of(const struct rdma_cm_id *listener)
{
	return cm_service_id(RDMA_PS_TCP, ntohs(listener->route.addr.src_sin.sin_port));
}

/* Returns how many events are pending: a channel's descriptor is an eventfd that counts them. */
static unsigned int queued(const struct rdma_event_channel *ch)
{
	char path[64], line[100];
	unsigned int n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", ch->fd);
	CHECK((f = fopen(path, "r")));
	while (fgets(line, sizeof(line), f))
		sscanf(line, "eventfd-count: %x", &n);
	fclose(f);
	return n;
}

/* If the program fetches no events, at most its backlog of requests is kept. */
static void state_is_bounded(uint64_t seed)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *listener;
	unsigned int n = 0;

	CHECK(ch);
	listener = world_listen(ch, RDMA_PS_TCP, LOOPBACK);
	for (int i = 0; i < FLOOD; i++) {
		struct cm_msg m = forge_request(i % FORGE_SOURCES, service_of(listener), &seed);

		forge_send(i % FORGE_SOURCES, &m);
		CHECK(i % 1000 || queued(ch) <= BACKLOG);
	}
	world_wait(ch);
	CHECK(queued(ch) <= BACKLOG);
	for (struct pollfd fd = { .fd = ch->fd, .events = POLLIN }; poll(&fd, 1, 200) == 1; n++) {
		struct rdma_cm_event *e;
		struct rdma_cm_id *id;

		CHECK_EQ(rdma_get_cm_event(ch, &e), 0);
		CHECK_EQ(e->event, RDMA_CM_EVENT_CONNECT_REQUEST);
		id = e->id;
		CHECK_EQ(rdma_ack_cm_event(e), 0);
		CHECK_EQ(rdma_destroy_id(id), 0);
	}
	printf("%u of %d forged requests reached the program\n", n, FLOOD);
	CHECK_EQ(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(ch);
}

/* Sends a request and waits until it is queued. */
static void send_and_wait(struct rdma_event_channel *ch, struct rdma_cm_id *listener, int from,
			  uint64_t *seed)
{
	unsigned int before = queued(ch);
	struct cm_msg m = forge_request(from, service_of(listener), seed);

	forge_send(from, &m);
	while (queued(ch) == before)
		sched_yield();
}

static uint32_t source_of(const struct rdma_cm_id *id)
{
	return id->route.addr.dst_sin.sin_addr.s_addr;
}

/*
 * Of many pending requests, those of a source with few requests come first. Sources are told apart
 * by a hash: of three sources at least one shares no bucket with the flooding one.
 */
static void quiet_sources_come_first(uint64_t seed)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *listener;
	unsigned int found = 0;
	uint32_t loud = 0;

	CHECK(ch);
	listener = world_listen(ch, RDMA_PS_TCP, LOOPBACK);
	for (int i = 0; i < LOUD + QUIET; i++)
		send_and_wait(ch, listener, i < LOUD ? 0 : 1 + i - LOUD, &seed);
	for (unsigned int n = 0; n < LOUD + QUIET; n++) {
		struct rdma_cm_event *e;
		struct rdma_cm_id *id;

		CHECK_EQ(rdma_get_cm_event(ch, &e), 0);
		CHECK_EQ(e->event, RDMA_CM_EVENT_CONNECT_REQUEST);
		id = e->id;
		loud = n ? loud : source_of(id);
		found += n < FRONT && source_of(id) != loud;
		CHECK_EQ(rdma_ack_cm_event(e), 0);
		CHECK_EQ(rdma_destroy_id(id), 0);
	}
	CHECK(found >= 1);
	CHECK_EQ(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(ch);
}

/*
 * The addresses in a request's IP header, which the program takes for its peer's and its own, must
 * be those of its packet.
 */
static void peers_are_who_they_say(uint64_t seed)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *listener, *id;
	struct rdma_cm_event *e;

	CHECK(ch);
	listener = world_listen(ch, RDMA_PS_TCP, "0.0.0.0");
	for (int lie = 0; lie < 3; lie++) {
		struct cm_msg m = forge_request(0, service_of(listener), &seed);
		struct cm_ip_header ip;

		cm_ip_header_decode(&ip, m.req.private_data);
		ip.src_port = (uint16_t)(100 + lie);
		ip.src.raw[15] ^= lie == 0;
		ip.dst.raw[15] ^= lie == 1;
		cm_ip_header_encode(m.req.private_data, &ip);
		forge_send(0, &m);
	}
	/* They came in order: the first to be taken is the honest one. */
	e = world_event(ch, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	id = e->id;
	CHECK_EQ(ntohs(rdma_get_dst_port(id)), 102);
	CHECK_EQ(rdma_ack_cm_event(e), 0);
	world_no_event(ch);
	CHECK_EQ(rdma_destroy_id(id), 0);
	CHECK_EQ(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(ch);
}

struct flood {
	uint64_t service, seed;
	uint32_t stop, sent;
	struct timespec cpu; /* CPU time of the flooding thread */
};

/* Sends as many as this thread can; only a sanitized library gets pauses. */
static void *flood(void *arg)
{
	struct flood *f = arg;

	for (int i = 0; !load_relaxed(&f->stop); i = (i + 1) % FORGE_SOURCES) {
		fetch_add_relaxed(&f->sent, forge_burst(i, f->service, &f->seed));
		if (PAUSE_US)
			usleep(PAUSE_US);
	}
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &f->cpu);
	return NULL;
}

/* The server recognizes its clients by their private data and rejects all other requests. */
static bool serve_one(struct rdma_event_channel *ch, struct rdma_cm_id **accepted)
{
	struct rdma_conn_param param = { .qp_num = 0 };
	static uint32_t qpn = 0x2000;
	struct rdma_cm_event *e;
	struct rdma_cm_id *id;
	bool ours;

	CHECK_EQ(rdma_get_cm_event(ch, &e), 0);
	id = e->id;
	if (e->event != RDMA_CM_EVENT_CONNECT_REQUEST) {
		ours = e->event == RDMA_CM_EVENT_ESTABLISHED;
		CHECK_EQ(rdma_ack_cm_event(e), 0);
		return ours && id == *accepted;
	}
	ours = !memcmp(e->param.conn.private_data, "ours", 4);
	CHECK_EQ(rdma_ack_cm_event(e), 0);
	if (!ours) {
		CHECK_EQ(rdma_destroy_id(id), 0);
		return false;
	}
	param.qp_num = qpn++;
	*accepted = id;
	/* the client may have abandoned this attempt */
	if (rdma_accept(id, &param))
		CHECK_EQ(errno, EINVAL);
	return false;
}

static void connect_one(struct rdma_event_channel *server, struct rdma_cm_id *listener)
{
	static uint32_t qpn = 0x1000;
	struct rdma_conn_param param = { .qp_num = qpn++,
					 .private_data = "ours",
					 .private_data_len = 4 };
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *id, *accepted = NULL;
	struct pollfd fds[2] = { { .fd = server->fd, .events = POLLIN }, { .events = POLLIN } };
	bool up = false;

	CHECK(ch);
	id = world_route(ch, listener, LOOPBACK);
	CHECK_EQ(rdma_connect(id, &param), 0);
	fds[1].fd = ch->fd;
	while (!up) {
		CHECK(poll(fds, 2, WORLD_LIMIT_S * 1000) > 0);
		if (fds[1].revents) {
			world_expect(ch, RDMA_CM_EVENT_CONNECT_RESPONSE);
			CHECK_EQ(rdma_establish(id), 0);
		}
		if (fds[0].revents)
			up = serve_one(server, &accepted);
	}
	CHECK_EQ(rdma_destroy_id(accepted), 0);
	CHECK_EQ(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
}

static double seconds(struct timespec t)
{
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/*
 * Each connects within a few of its 16 attempts, which are 4.3 s apart: most at the first one,
 * since requests of quiet sources come first, and replies are never dropped along with requests.
 */
static void programs_connect_during_flood(uint64_t seed)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct flood f = { .seed = seed };
	struct timespec start, end;
	struct rdma_cm_id *listener;
	pthread_t thread;

	CHECK(ch);
	listener = world_listen(ch, RDMA_PS_TCP, LOOPBACK);
	f.service = service_of(listener);
	CHECK_EQ(pthread_create(&thread, NULL, flood, &f), 0);
	while (load_relaxed(&f.sent) < WARM_UP)
		sched_yield();
	clock_gettime(CLOCK_MONOTONIC, &start);
	for (int i = 0; i < CONNECTS; i++)
		connect_one(ch, listener);
	clock_gettime(CLOCK_MONOTONIC, &end);
	store_relaxed(&f.stop, 1);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	printf("%d connections in %.2f s beside %u forged requests, %.0f/s; the flood alone makes "
	       "%.0f/s\n",
	       CONNECTS, seconds(end) - seconds(start), f.sent,
	       f.sent / (seconds(end) - seconds(start)), f.sent / seconds(f.cpu));
	CHECK_EQ(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(ch);
}

/* Messages with guessed ids end no connection, whatever their sender. */
static void forged_ends(uint64_t seed)
{
	struct pair p;

	pair_connect(&p, NULL);
	for (int i = 0; i < FORGED; i++) {
		uint32_t ours = (uint32_t)place_next(&seed), theirs = (uint32_t)place_next(&seed);
		struct cm_msg dreq = { .type = CM_DREQ };
		struct cm_msg rej = { .type = CM_REJ };

		dreq.dreq.local_id = rej.rej.local_id = theirs;
		dreq.dreq.remote_id = rej.rej.remote_id = ours;
		dreq.dreq.remote_qpn = p.id[i & 1]->qp->qp_num;
		rej.rej.reason = CM_REJ_CONSUMER;
		forge_send(i % FORGE_SOURCES, &dreq);
		forge_send(i % FORGE_SOURCES, &rej);
	}
	world_no_event(p.ch[0]);
	world_no_event(p.ch[1]);
	pair_disconnect(&p);
	pair_destroy(&p);
}

int main(void)
{
	const char *transport = getenv("VERBENA_TRANSPORT");
	uint64_t seed = place_seed();

	if (transport && !strcmp(transport, "local")) {
		printf("left out: 5: the local transport receives no packets from the network\n");
		return 0;
	}
	forge_open((uint16_t)atoi(getenv("VERBENA_UDP_PORT")));
	peers_are_who_they_say(seed + 4);
	quiet_sources_come_first(seed + 3);
	state_is_bounded(seed);
	programs_connect_during_flood(seed + 1);
	forged_ends(seed + 2);
	return 0;
}
