/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lanes that are full, between the three processes of an XRC connection: the requester, the home of
 * the target QP, and the owner of the SRQ that a request names. Each lane has room again later, but
 * then nobody sends or repeats anything: there is no ACK timeout. The requester must get the
 * completions of all its requests all the same.
 *
 *	OUTPUT	An ACK of the home waits for room in its lane to the requester, and the delegation
 *		to the owner must wait for that.
 *	DELEGATE
 *		The delegation to the owner waits for room in the home's lane to it.
 *	REQUEST	A request that the home passes on to the owner, which has the state, does.
 *	MANY	More requests than fit into a lane wait at the home, until the owner has answered.
 *	ANSWER	The answer of the owner waits for room in the home's lane to the requester.
 *	ANSWERS	More answers than fit into a lane do.
 *
 * The test's first process is the home. There is no progress thread and no UDP, so that a process
 * does nothing while it does not poll.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "xrc.h"

enum {
	/* RC_DEPTH SENDs, of which the first few are large, do not fit into a lane */
	LARGE = 3,
	LARGE_SIZE = 4000,
	SMALL_SIZE = 100,
	NO_TIMEOUT = 0,
	RETRIES = 7,
	POLLS = 1000,	/* by then all that has been sent has been taken */
	TINY = 8,
	REQUESTS = 100,
	OPENING = 4,
	LITTLE = 500,
	MUCH = 800000,
};

/* What the owner and the home tell the requester. */
struct target {
	struct rc_addr addr;
	uint32_t srqn;
};

/* The owner tells of each message, before it polls again. */
enum { TAKEN = 'T' };

/* Commands of the home: the requester posts a request, polls for all that it has posted, ends. */
enum {
	WRITE_TO_HOME = 'W',
	SEND_TO_OWNER = 'S',
	READ_OWNER = 'R',
	READ_MUCH = 'M',
	COMPLETE = 'C',
	END = 'E',
};

static int domain_file;

/* With an RC connection to the home. */
static void open_member(struct xrc *x, int sock)
{
	struct rc_addr peer;

	alarm(RC_LIMIT_S);
	xrc_open(x, domain_file, O_CREAT);
	x->rc.mtu = IBV_MTU_512;
	for (int i = 0; i < RC_DEPTH; i++)
		rc_post_recv(&x->rc, x->rc.qp, i);
	rc_pair(&x->rc, sock, &peer, NO_TIMEOUT, RETRIES);
}

static bool told(int sock, char *what)
{
	if (recv(sock, what, 1, MSG_DONTWAIT) == 1)
		return true;
	CHECK_EQ(errno, EAGAIN);
	return false;
}

/* ---- the owner of the SRQ ---- */

static struct target target_of(const struct xrc *x, const struct ibv_qp *qp)
{
	return (struct target){ .addr = rc_address(&x->rc, qp), .srqn = x->srqn };
}

static void serve(struct xrc *x, int sock)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(x->rc.cq, 1, &wc))
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	while (ibv_poll_cq(x->cq, 1, &wc)) {
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		child_send(sock, &(char){ TAKEN }, 1);
	}
}

/* Polls from one command to the next, but not before the first, or it would hold a byte. */
static void owner(int sock)
{
	struct target own;
	char what = 0;
	struct xrc x;

	open_member(&x, sock);
	for (unsigned int i = 0; i < XRC_RECVS; i++)
		xrc_post(&x, i);
	own = target_of(&x, x.rc.qp);
	child_send(sock, &own, sizeof(own));
	for (;;) {
		child_recv(sock, &what, 1);
		if (what == END)
			break;
		while (!told(sock, &what))
			serve(&x, sock);
		for (int i = 0; i < POLLS; i++)
			serve(&x, sock);
		child_send(sock, &what, 1);
	}
}

/* ---- the requester ---- */

static void complete(struct xrc *x, unsigned int *posted)
{
	struct ibv_wc wc;

	while (*posted) {
		wc = rc_wait(&x->rc);
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		*posted -= wc.opcode != IBV_WC_RECV;
	}
}

static void requester(int sock)
{
	struct target own, home, owner;
	unsigned int posted = 0;
	struct xrc x;
	char what;

	open_member(&x, sock);
	x.qp = xrc_send_qp(&x);
	own = target_of(&x, x.qp);
	child_send(sock, &own, sizeof(own));
	child_recv(sock, &home, sizeof(home));
	child_recv(sock, &owner, sizeof(owner));
	rc_connect(&x.rc, x.qp, &home.addr, NO_TIMEOUT, RETRIES);
	do {
		child_recv(sock, &what, 1);
		if (what == WRITE_TO_HOME)
			xrc_send(&x, IBV_WR_RDMA_WRITE, home.srqn, 0, TINY, &home.addr, ++posted,
				 0);
		else if (what == SEND_TO_OWNER)
			xrc_send(&x, IBV_WR_SEND, owner.srqn, 0, TINY, NULL, ++posted, 0);
		else if (what == READ_OWNER || what == READ_MUCH)
			xrc_send(&x, IBV_WR_RDMA_READ, owner.srqn, 0,
				 what == READ_MUCH ? MUCH : LITTLE, &owner.addr, ++posted, 0);
		else if (what == COMPLETE)
			complete(&x, &posted);
		child_send(sock, &what, 1);
	} while (what != END);
}

/* ---- the home ---- */

struct home {
	struct xrc x;
	struct ibv_qp *to_owner;	/* RC; x.rc.qp: to the requester */
	struct child owner, requester;
};

static void take_completions(struct home *h)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(h->x.rc.cq, 1, &wc) == 1)
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
}

static void poll_some(struct home *h)
{
	for (int i = 0; i < POLLS; i++)
		take_completions(h);
}

/* Polls until a child has done as told, or has taken a message. */
static void poll_until(struct home *h, const struct child *child, char done)
{
	char what;

	do {
		while (!told(child->sock, &what))
			take_completions(h);
	} while (what != done && what == TAKEN);
	CHECK_EQ(what, done);
}

static void tell(const struct child *child, char what)
{
	child_send(child->sock, &what, 1);
}

/* The requester posts; it is in the lane afterwards, and the home has not polled. */
static void request(struct home *h, char what)
{
	char done;

	tell(&h->requester, what);
	child_recv(h->requester.sock, &done, 1);
	CHECK_EQ(done, what);
}

static void send_some(struct home *h, struct ibv_qp *qp, int n, uint32_t len)
{
	static const struct rc_addr none;

	for (int i = 0; i < n; i++)
		CHECK_EQ(rc_post_send(&h->x.rc, qp, IBV_WR_SEND, len, &none, i), 0);
}

/* Leaves no room that any packet could use, and more waits for it. */
static void fill_lane(struct home *h, struct ibv_qp *qp)
{
	send_some(h, qp, LARGE, LARGE_SIZE);
	send_some(h, qp, RC_DEPTH - 1 - LARGE, SMALL_SIZE);
}

/* All lanes exist afterwards, and the owner has the responder's state if `delegated`. */
static void set_up(struct home *h, bool delegated)
{
	struct target own, request_from, target;
	struct rc_addr peer;
	struct ibv_qp *first;

	setenv("VERBENA_PROGRESS", "none", 1);
	setenv("VERBENA_TRANSPORT", "local", 1);
	h->owner = child_fork(owner);
	h->requester = child_fork(requester);
	alarm(RC_LIMIT_S);
	xrc_open(&h->x, domain_file, O_CREAT);
	h->x.rc.mtu = IBV_MTU_512;
	h->x.qp = xrc_recv_qp(&h->x);
	rc_pair(&h->x.rc, h->requester.sock, &peer, NO_TIMEOUT, RETRIES);
	first = h->x.rc.qp;
	h->to_owner = h->x.rc.qp = rc_new_qp(&h->x.rc);
	rc_pair(&h->x.rc, h->owner.sock, &peer, NO_TIMEOUT, RETRIES);
	h->x.rc.qp = first;
	child_recv(h->owner.sock, &target, sizeof(target));
	child_recv(h->requester.sock, &request_from, sizeof(request_from));
	rc_connect(&h->x.rc, h->x.qp, &request_from.addr, NO_TIMEOUT, RETRIES);
	own = target_of(&h->x, h->x.qp);
	child_send(h->requester.sock, &own, sizeof(own));
	child_send(h->requester.sock, &target, sizeof(target));
	tell(&h->owner, 'P');
	send_some(h, h->to_owner, 1, TINY);
	request(h, WRITE_TO_HOME);
	if (delegated) {
		request(h, SEND_TO_OWNER);
		poll_until(h, &h->owner, TAKEN);
	}
	tell(&h->requester, COMPLETE);
	poll_until(h, &h->requester, COMPLETE);
}

/* From now on the owner does not poll. */
static void stop_owner(struct home *h)
{
	tell(&h->owner, 'Q');
	poll_until(h, &h->owner, 'Q');
}

static void start_owner(struct home *h)
{
	tell(&h->owner, 'P');
}

static void finish(struct home *h)
{
	tell(&h->requester, COMPLETE);
	poll_until(h, &h->requester, COMPLETE);
	stop_owner(h);
	tell(&h->requester, END);
	poll_until(h, &h->requester, END);
	child_join(&h->requester);
	tell(&h->owner, END);
	child_join(&h->owner);
	CHECK_EQ(ibv_destroy_qp(h->to_owner), 0);
	xrc_close(&h->x);
}

static void test_output(struct home *h)
{
	set_up(h, false);
	fill_lane(h, h->x.rc.qp);
	request(h, WRITE_TO_HOME);
	request(h, SEND_TO_OWNER);
	poll_some(h);
	finish(h);
}

static void send_through_full_lane(struct home *h)
{
	stop_owner(h);
	fill_lane(h, h->to_owner);
	request(h, SEND_TO_OWNER);
	poll_some(h);
	start_owner(h);
	finish(h);
}

static void test_delegate(struct home *h)
{
	set_up(h, false);
	send_through_full_lane(h);
}

static void test_request(struct home *h)
{
	set_up(h, true);
	send_through_full_lane(h);
}

/* Each opens the requester's window. */
static void write_many(struct home *h)
{
	for (int i = 0; i < REQUESTS; i++)
		request(h, WRITE_TO_HOME);
	tell(&h->requester, COMPLETE);
	poll_until(h, &h->requester, COMPLETE);
}

static void test_many(struct home *h)
{
	set_up(h, true);
	for (int i = 0; i < OPENING; i++)
		write_many(h);
	stop_owner(h);
	request(h, SEND_TO_OWNER);
	for (int i = 0; i < REQUESTS; i++)
		request(h, WRITE_TO_HOME);
	poll_some(h);
	start_owner(h);
	finish(h);
}

static void answer(struct home *h, char what)
{
	set_up(h, true);
	fill_lane(h, h->x.rc.qp);
	request(h, what);
	poll_some(h);
	stop_owner(h);
	poll_some(h);
	start_owner(h);
	finish(h);
}

static void test_answer(struct home *h)
{
	answer(h, READ_OWNER);
}

static void test_answers(struct home *h)
{
	answer(h, READ_MUCH);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(struct home *h);
	} cases[] = {
		{ "OUTPUT", test_output },
		{ "DELEGATE", test_delegate },
		{ "REQUEST", test_request },
		{ "MANY", test_many },
		{ "ANSWER", test_answer },
		{ "ANSWERS", test_answers },
	};
	char name[] = "/tmp/verbena-xrc-XXXXXX";
	struct home h = { 0 };

	CHECK_EQ(argc, 2);
	domain_file = mkstemp(name);
	CHECK(domain_file >= 0);
	unlink(name);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!strcmp(cases[i].name, argv[1]))
			cases[i].run(&h);
	return 0;
}
