/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams to a process of this host that does not take them, because it is stopped.
 *
 *	STOPPED	It has a receive for each, and continues after more than a second. It must get all,
 *		though its lane could not hold them.
 *	IN_TURN	The same QP sends to another process in turn, which must get its datagrams without
 *		waiting for each of the others. Then the stopped one continues and must get all of
 *		its own.
 *	CLOSED	Then the sender closes its device, and is stopped, too, for a minute by its clock.
 *	GROUP	Both are members of a multicast group.
 *	MUCH	In turn, so many that not all can be kept: the first ones are.
 *	SUCCESSOR
 *		It still has to clear its lane of a process that has ended, whose slot the sender
 *		has got. It must get both processes' datagrams.
 *
 * There is no progress thread and no UDP, so a process that does not poll is as good as stopped.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "child.h"
#include "local/layout.h"
#include "rc.h"
#include "util/tuning.h"

enum {
	DEPTH = 256,
	QKEY = 77,
	GRH = 40,
	DATAGRAMS = 200,	/* more than the slots of a lane; a second for each is too long */
	SMALL = 8,
	LARGE = 1000,		/* few fit into a lane */
	STOPPED_MS = 1500,
	MUCH = 2 * (LIMIT_BACKLOG_PEER_MIB << 20) / LARGE,
	GROUP_QPN = 0xffffff,
	READS = 1000,		/* of the clock, by which a close waits for room */
};

static const uint32_t last = 0xffffffff;	/* immediate data: no more will come */

/* A process that closes its device. Each of its looks at the clock takes a microsecond. */
static struct {
	const struct child *peer;	/* stopped, as this process is; NULL: it does not close */
	struct timespec begin;
	int reads;
} closing;

__attribute__((visibility("default"))) int clock_gettime(clockid_t id, struct timespec *t)
{
	if (!closing.peer)
		return (int)syscall(SYS_clock_gettime, id, t);
	*t = closing.begin;
	t->tv_sec += closing.reads / 1000000 + (closing.reads >= READS ? 60 : 0);
	t->tv_nsec = closing.reads++ % 1000000 * 1000L;
	if (closing.reads == 2 * READS)
		child_send(closing.peer->sock, "G", 1);
	return 0;
}

static const union ibv_gid group = { .raw = { [10] = 0xff, [11] = 0xff, 239, 7, 7, 7 } };

static uint32_t datagrams = DATAGRAMS;	/* set before the receivers start */
static bool in_group;

static struct ibv_qp *new_ud_qp(struct rc *rc)
{
	struct ibv_qp_init_attr init = {
		.send_cq = rc->cq, .recv_cq = rc->cq, .qp_type = IBV_QPT_UD,
		.cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.sq_sig_all = 1,
	};
	struct ibv_qp_attr attr = { .port_num = 1, .qkey = QKEY };
	struct ibv_qp *qp = ibv_create_qp(rc->pd, &init);

	CHECK(qp);
	attr.qp_state = IBV_QPS_INIT;
	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			       IBV_QP_QKEY), 0);
	attr.qp_state = IBV_QPS_RTR;
	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	attr.qp_state = IBV_QPS_RTS;
	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
	return qp;
}

/* ---- receivers ---- */

static void open_receiver(struct rc *rc)
{
	alarm(RC_LIMIT_S);
	rc_open(rc, GRH + LARGE);
	CHECK_EQ(ibv_destroy_qp(rc->qp), 0);
	rc->qp = new_ud_qp(rc);
	if (in_group)
		CHECK_EQ(ibv_attach_mcast(rc->qp, &group, 0), 0);
	for (int i = 0; i < DATAGRAMS; i++)
		rc_post_recv(rc, rc->qp, i);
}

static void show_number(const struct rc *rc, int sock)
{
	child_send(sock, &rc->qp->qp_num, sizeof(rc->qp->qp_num));
}

/* Returns the immediate data. */
static uint32_t receive(struct rc *rc)
{
	struct ibv_wc wc = rc_wait(rc);

	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	rc_post_recv(rc, rc->qp, wc.wr_id);
	return wc.imm_data;
}

/* Receives when it is told to: all, or the first ones until the last. Tells of their number. */
static void stopped_receiver(int sock)
{
	struct rc rc;
	uint32_t n;
	char go;

	open_receiver(&rc);
	show_number(&rc, sock);
	child_recv(sock, &go, 1);
	for (n = 0; n < datagrams; n++) {
		uint32_t i = receive(&rc);

		if (i == last)
			break;
		CHECK_EQ(i, n);
	}
	child_send(sock, &n, sizeof(n));
	child_recv(sock, &go, 1);
}

/* Tells of each datagram. */
static void live_receiver(int sock)
{
	struct rc rc;
	char go;

	open_receiver(&rc);
	show_number(&rc, sock);
	for (uint32_t i = 0; i < datagrams; i++) {
		CHECK_EQ(receive(&rc), i);
		child_send(sock, "R", 1);
	}
	child_recv(sock, &go, 1);
}

/* ---- the sender ---- */

struct sender {
	struct rc rc;
	struct ibv_ah *ah, *to_group;
	struct ibv_qp *qp;
	uint32_t open;		/* requests without their completions */
};

static void open_sender(struct sender *s)
{
	struct ibv_ah_attr ah = { .is_global = 1, .port_num = 1, .grh.hop_limit = 1 };

	alarm(RC_LIMIT_S);
	rc_open(&s->rc, LARGE);
	ah.grh.dgid = s->rc.gid;
	ah.grh.sgid_index = (uint8_t)s->rc.gid_index;
	s->ah = ibv_create_ah(s->rc.pd, &ah);
	CHECK(s->ah);
	ah.grh.dgid = group;
	s->to_group = ibv_create_ah(s->rc.pd, &ah);
	CHECK(s->to_group);
	s->qp = new_ud_qp(&s->rc);
}

static void close_sender(struct sender *s)
{
	CHECK_EQ(ibv_destroy_qp(s->qp), 0);
	CHECK_EQ(ibv_destroy_ah(s->to_group), 0);
	CHECK_EQ(ibv_destroy_ah(s->ah), 0);
	rc_close(&s->rc);
}

static void send_datagram(struct sender *s, uint32_t qpn, uint32_t len, uint32_t imm)
{
	struct ibv_sge sge = { (uintptr_t)s->rc.buf, len, s->rc.mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM, .imm_data = imm,
		.wr.ud = { qpn == GROUP_QPN ? s->to_group : s->ah, qpn, QKEY },
	};

	CHECK_EQ(ibv_post_send(s->qp, &wr, &bad), 0);
	s->open++;
}

static void take_completions(struct sender *s)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(s->rc.cq, 1, &wc) == 1) {
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		s->open--;
	}
}

static void wait_for(struct sender *s, const struct child *child)
{
	char what;

	while (recv(child->sock, &what, 1, MSG_DONTWAIT) != 1) {
		CHECK_EQ(errno, EAGAIN);
		take_completions(s);
	}
}

static uint32_t number_of(const struct child *child)
{
	uint32_t qpn;

	child_recv(child->sock, &qpn, sizeof(qpn));
	return qpn;
}

static void proceed(const struct child *child)
{
	child_send(child->sock, "G", 1);
}

/* How many the process that was stopped has got. */
static uint32_t count_of(struct sender *s, const struct child *stopped)
{
	uint32_t n;

	while (recv(stopped->sock, &n, sizeof(n), MSG_DONTWAIT) != sizeof(n)) {
		CHECK_EQ(errno, EAGAIN);
		take_completions(s);
	}
	return n;
}

static void test_stopped(void)
{
	struct child child = child_fork(stopped_receiver);
	uint32_t qpn = number_of(&child);
	struct sender s = { 0 };
	uint64_t until;

	open_sender(&s);
	for (uint32_t i = 0; i < DATAGRAMS; i++)
		send_datagram(&s, qpn, SMALL, i);
	for (until = ms_now() + STOPPED_MS; ms_now() < until;)
		take_completions(&s);
	proceed(&child);
	CHECK_EQ(count_of(&s, &child), DATAGRAMS);
	while (s.open)
		take_completions(&s);
	child_kill(&child);
	close_sender(&s);
}

/* A process that is stopped and one that is not, and their QPs. */
struct two {
	struct child stopped, live;
	uint32_t to_stopped, to_live;
};

static struct two start_two(struct sender *s)
{
	struct two t = { child_fork(stopped_receiver), child_fork(live_receiver), 0, 0 };

	t.to_stopped = number_of(&t.stopped);
	t.to_live = number_of(&t.live);
	open_sender(s);
	return t;
}

static void end_two(struct two *t, struct sender *s)
{
	child_kill(&t->stopped);
	child_kill(&t->live);
	close_sender(s);
}

static void send_in_turn(struct sender *s, const struct two *t)
{
	for (uint32_t i = 0; i < datagrams; i++) {
		send_datagram(s, t->to_stopped, LARGE, i);
		send_datagram(s, t->to_live, LARGE, i);
		wait_for(s, &t->live);
	}
}

static void test_in_turn(void)
{
	struct sender s = { 0 };
	struct two t = start_two(&s);

	send_in_turn(&s, &t);
	proceed(&t.stopped);
	CHECK_EQ(count_of(&s, &t.stopped), DATAGRAMS);
	end_two(&t, &s);
}

static void test_closed(void)
{
	struct sender s = { 0 };
	struct two t = start_two(&s);
	uint32_t n;

	send_in_turn(&s, &t);
	while (s.open)
		take_completions(&s);
	CHECK_EQ(clock_gettime(CLOCK_MONOTONIC, &closing.begin), 0);
	closing.begin.tv_sec++;
	closing.peer = &t.stopped;
	close_sender(&s);
	closing.peer = NULL;
	child_recv(t.stopped.sock, &n, sizeof(n));
	CHECK_EQ(n, DATAGRAMS);
	child_kill(&t.stopped);
	child_kill(&t.live);
}

static void test_group(void)
{
	struct sender s = { 0 };
	struct two t;

	in_group = true;
	t = start_two(&s);
	for (uint32_t i = 0; i < DATAGRAMS; i++) {
		send_datagram(&s, GROUP_QPN, LARGE, i);
		wait_for(&s, &t.live);
	}
	proceed(&t.stopped);
	CHECK_EQ(count_of(&s, &t.stopped), DATAGRAMS);
	end_two(&t, &s);
}

/* Sends the last again until it has come: there may not be room for it yet. */
static void test_much(void)
{
	struct sender s = { 0 };
	struct two t;
	uint32_t n;

	datagrams = MUCH;
	t = start_two(&s);
	send_in_turn(&s, &t);
	proceed(&t.stopped);
	while (recv(t.stopped.sock, &n, sizeof(n), MSG_DONTWAIT) != sizeof(n)) {
		CHECK_EQ(errno, EAGAIN);
		if (!s.open)
			send_datagram(&s, t.to_stopped, SMALL, last);
		take_completions(&s);
	}
	CHECK(n * LARGE > (LIMIT_BACKLOG_PEER_MIB << 20) / 2);
	CHECK(n * LARGE <= (LIMIT_BACKLOG_PEER_MIB << 20) + LANE_BYTES);
	end_two(&t, &s);
}

/* Tells of the post. */
static void single_sender(int sock)
{
	struct sender s = { 0 };
	uint32_t to[2];

	child_recv(sock, to, sizeof(to));
	open_sender(&s);
	send_datagram(&s, to[0], SMALL, to[1]);
	child_send(sock, "P", 1);
	while (s.open)
		take_completions(&s);
}

static void let_send(const struct child *child, const struct rc *rc, uint32_t imm)
{
	const uint32_t to[2] = { rc->qp->qp_num, imm };
	char posted;

	child_send(child->sock, to, sizeof(to));
	child_recv(child->sock, &posted, 1);
}

static void test_successor(void)
{
	struct child child[2] = { child_fork(single_sender), child_fork(single_sender) };
	struct rc rc;

	open_receiver(&rc);
	let_send(&child[0], &rc, 0);
	child_join(&child[0]);
	let_send(&child[1], &rc, 1);
	for (uint32_t i = 0; i < 2; i++)
		CHECK_EQ(receive(&rc), i);
	child_join(&child[1]);
	rc_close(&rc);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {
		{ "STOPPED", test_stopped },
		{ "IN_TURN", test_in_turn },
		{ "CLOSED", test_closed },
		{ "GROUP", test_group },
		{ "MUCH", test_much },
		{ "SUCCESSOR", test_successor },
	};

	CHECK_EQ(argc, 2);
	setenv("VERBENA_PROGRESS", "none", 1);
	setenv("VERBENA_TRANSPORT", "local", 1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!strcmp(cases[i].name, argv[1]))
			cases[i].run();
	return 0;
}
