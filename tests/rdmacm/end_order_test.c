/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a peer sent before it disconnected is complete when the program learns that it has. A
 * program that sleeps on both channels looks at the completions once more then, and ends.
 *
 * Two processes fill their lanes to this one, which does not look meanwhile. Behind all of that the
 * first one sends a message on another connection, and ends that connection. There is no progress
 * thread here, so rdma_get_cm_event() takes all that comes, and nothing does after it. Signals come
 * all the time.
 */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "world.h"

enum {
	PEERS = 2,
	FILLERS = 2,	/* connections of each peer; */
	FILLS = 60,	/* messages on each of them: a lane holds them, a round takes fewer */
	DEPTH = 64,
	LEN = 8,
	LAST = 'L',	/* private data: of the connection that ends, and of the others */
	FILLER = 'F',
};

struct peer {
	pid_t pid;
	int sock;
};

static void tell(int sock)
{
	CHECK_EQ(write(sock, "T", 1), 1);
}

static void told(int sock)
{
	char what;

	CHECK_EQ(read(sock, &what, 1), 1);
}

static void make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1,
			 .max_recv_sge = 1, .max_inline_data = LEN },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};

	CHECK_EQ(rdma_create_qp(id, NULL, &attr), 0);
}

/* ---- the peers ---- */

static struct rdma_cm_id *connect_to(struct rdma_event_channel *ch, uint16_t port, char what)
{
	struct rdma_conn_param param = { .private_data = &what, .private_data_len = 1 };
	struct sockaddr_storage a = world_addr(LOOPBACK, port);
	struct rdma_cm_id *id = world_id(ch, RDMA_PS_TCP);

	CHECK_EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&a, WORLD_TIMEOUT_MS), 0);
	world_expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK_EQ(rdma_resolve_route(id, WORLD_TIMEOUT_MS), 0);
	world_expect(ch, RDMA_CM_EVENT_ROUTE_RESOLVED);
	make_qp(id);
	CHECK_EQ(rdma_connect(id, &param), 0);
	world_expect(ch, RDMA_CM_EVENT_ESTABLISHED);
	return id;
}

static void send_some(struct rdma_cm_id *id, int n)
{
	char data[LEN] = { 0 };

	for (int i = 0; i < n; i++)
		CHECK_EQ(rdma_post_send(id, NULL, data, LEN, NULL, IBV_SEND_INLINE), 0);
}

static void peer(int sock, bool ends)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *filler[FILLERS], *last = NULL;
	uint16_t port;

	CHECK(ch);
	CHECK_EQ(read(sock, &port, sizeof(port)), sizeof(port));
	for (int i = 0; i < FILLERS; i++)
		filler[i] = connect_to(ch, port, FILLER);
	if (ends)
		last = connect_to(ch, port, LAST);
	told(sock);
	for (int i = 0; i < FILLERS; i++)
		send_some(filler[i], FILLS);
	if (ends) {
		send_some(last, 1);
		CHECK_EQ(rdma_disconnect(last), 0);
	}
	tell(sock);
	told(sock);
}

static struct peer start_peer(bool ends)
{
	struct peer p;
	int sock[2];

	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sock), 0);
	p.pid = fork();
	CHECK(p.pid >= 0);
	if (!p.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(sock[0]);
		peer(sock[1], ends);
		exit(0);
	}
	close(sock[1]);
	p.sock = sock[0];
	return p;
}

static void end_peer(const struct peer *p)
{
	int status;

	tell(p->sock);
	CHECK_EQ(waitpid(p->pid, &status, 0), p->pid);
	CHECK_EQ(status, 0);
}

/* ---- this process ---- */

static bool signals;

/* Replaces that of the C library: a signal may also end a call that does not wait. */
__attribute__((visibility("default"))) int poll(struct pollfd *fds, nfds_t n, int timeout)
{
	static unsigned int calls;
	int (*next)(struct pollfd *, nfds_t, int) = (__typeof__(next))dlsym(RTLD_NEXT, "poll");

	if (!signals || calls++ % 2)
		return next(fds, n, timeout);
	errno = EINTR;
	return -1;
}

static char buffer[LEN];

static struct rdma_cm_event *next_event(struct rdma_event_channel *ch,
					enum rdma_cm_event_type type)
{
	struct rdma_cm_event *e;

	CHECK_EQ(rdma_get_cm_event(ch, &e), 0);
	CHECK_EQ(e->event, type);
	return e;
}

/* Returns the id. */
static struct rdma_cm_id *accept_next(struct rdma_event_channel *ch, char *what)
{
	struct rdma_cm_event *e = next_event(ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	struct rdma_cm_id *id = e->id;
	struct ibv_mr *mr;

	*what = *(const char *)e->param.conn.private_data;
	CHECK_EQ(rdma_ack_cm_event(e), 0);
	make_qp(id);
	mr = rdma_reg_msgs(id, buffer, LEN);
	CHECK(mr);
	for (int i = 0; i < DEPTH; i++)
		CHECK_EQ(rdma_post_recv(id, NULL, buffer, LEN, mr), 0);
	CHECK_EQ(ibv_req_notify_cq(id->recv_cq, 0), 0);
	CHECK_EQ(rdma_accept(id, NULL), 0);
	CHECK_EQ(rdma_ack_cm_event(next_event(ch, RDMA_CM_EVENT_ESTABLISHED)), 0);
	return id;
}

/* Accepts all; returns the connection that will end. */
static struct rdma_cm_id *accept_all(struct rdma_event_channel *ch, const struct peer p[PEERS],
				     uint16_t port)
{
	struct rdma_cm_id *last = NULL, *id;
	char what;

	for (int i = 0; i < PEERS; i++) {
		CHECK_EQ(write(p[i].sock, &port, sizeof(port)), sizeof(port));
		for (int k = 0; k < FILLERS + (i == 0); k++) {
			id = accept_next(ch, &what);
			if (what == LAST)
				last = id;
		}
	}
	return last;
}

int main(void)
{
	struct peer p[PEERS] = { start_peer(true), start_peer(false) };
	struct rdma_event_channel *ch;
	struct rdma_cm_id *listener, *last;
	struct rdma_cm_event *e;
	struct pollfd completions = { .events = POLLIN };

	alarm(5 * WORLD_LIMIT_S * test_slower());
	setenv("VERBENA_PROGRESS", "none", 1);
	signals = true;
	ch = rdma_create_event_channel();
	CHECK(ch);
	listener = world_listen(ch, RDMA_PS_TCP, LOOPBACK);
	last = accept_all(ch, p, ntohs(listener->route.addr.src_sin.sin_port));
	CHECK(last);
	for (int i = PEERS - 1; i >= 0; i--) {
		tell(p[i].sock);
		told(p[i].sock);
	}
	e = next_event(ch, RDMA_CM_EVENT_DISCONNECTED);
	CHECK(e->id == last);
	signals = false;
	completions.fd = last->recv_cq_channel->fd;
	CHECK_EQ(poll(&completions, 1, 0), 1);
	CHECK_EQ(rdma_ack_cm_event(e), 0);
	for (int i = 0; i < PEERS; i++)
		end_peer(&p[i]);
	return 0;
}
