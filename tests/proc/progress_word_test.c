/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The receiver's ACK of a message is the progress word of its QP, in shared memory. The QP or its
 * process may end before the sender reads the word: the sender must still get the completion of
 * every message that was executed.
 *
 *	argument	the receiver receives the messages, and then
 *	RESET		resets its QP
 *	DESTROY		destroys the QP
 *	ERROR		moves the QP to ERR
 *	CLOSE		closes all its objects and goes on
 *	EXIT		exits
 *	EXEC		executes another program
 *	KILL		is killed
 *	STEP		is killed after a random instruction, while it receives them
 *			(VERBENA_RUNS times; VERBENA_SEED repeats a sequence)
 *	SHOWN		is stopped at the instruction by which its program could see a completion
 *	AGAIN		is killed, and another process gets its slot
 *	FULL		fills its lane to the sender, and destroys the QP: the ACK that replaces its
 *			word must wait for room
 *	LEAVE		the same, and exits before there is room
 *	BLOCKED		had filled its lane before, and exits with its QP
 *
 * With a second argument the messages are large: they are packets, whose ACKs wait for the
 * receiver's next poll.
 *
 * The sender has no other source of ACKs: no ACK timeout (except in STEP and with large messages),
 * no progress thread and no UDP. The receiver has no progress thread either, so it receives only
 * when it polls.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "core/cq/cq.h"
#include "rc.h"
#include "rnd.h"

enum {
	SMALL = 64,
	LARGE = 1 << 16,
	MESSAGES = 2, /* a third one could wait in the sender for more */
	RUNS = 40,
	TIMEOUT = 6, /* in STEP: with 3 retries, requests fail after some milliseconds */
	RETRIES = 3,
	RECV_ID = 1000,
	SHOWN_RUNS = 2,
	POLLS = 1000,
	FILLERS = 3,   /* with fewer than RC_DEPTH messages each, they take all slots of a lane */
	FILLS = RC_DEPTH - 1,
	FULL_TRIES = 10,
};

/* The receiver writes it; the memory outlives the receiver. Both know its address. */
struct results {
	uint32_t rkey;
	void *cq;                         /* in its memory */
	uint32_t completions;             /* that its program has polled */
	volatile uint8_t probe;           /* FULL: has come */
	volatile bool destroyed;          /* FULL: its QP */
	uint8_t data[1 + MESSAGES][LARGE]; /* the first one only sets up the lane */
};

static const char *what;
static uint32_t size = SMALL;
static uint8_t timeout_of_end;
static struct results *results;

/*
 * rc_barrier() for a process without a progress thread, which must poll to send a delayed ACK. The
 * last poll has returned before the other end goes on.
 */
static void barrier_polling(struct rc *rc, int sock)
{
	struct ibv_wc wc;
	char byte;

	while (recv(sock, &byte, 1, MSG_DONTWAIT) != 1) {
		CHECK_EQ(errno, EAGAIN);
		CHECK_EQ(ibv_poll_cq(rc->cq, 1, &wc), 0);
	}
	CHECK_EQ(send(sock, &byte, 1, 0), 1);
}

/* Until the first message has come. */
static void begin_receiver(struct rc *rc, int sock, uint8_t timeout)
{
	struct rc_addr peer;
	struct ibv_mr *mr;

	alarm(RC_LIMIT_S);
	rc_open(rc, size);
	mr = ibv_reg_mr(rc->pd, results, sizeof(*results),
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	CHECK(mr);
	results->rkey = mr->rkey;
	results->cq = rc->cq;
	for (int i = 0; i <= MESSAGES; i++) {
		struct ibv_sge sge = { (uintptr_t)results->data[i], size, mr->lkey };
		struct ibv_recv_wr wr = { .wr_id = RECV_ID, .sg_list = &sge, .num_sge = 1 }, *bad;

		CHECK_EQ(ibv_post_recv(rc->qp, &wr, &bad), 0);
	}
	rc_pair(rc, sock, &peer, timeout, RETRIES);
	CHECK_EQ(rc_wait(rc).status, IBV_WC_SUCCESS);
}

static void open_receiver(struct rc *rc, int sock, uint8_t timeout)
{
	begin_receiver(rc, sock, timeout);
	barrier_polling(rc, sock);
}

/* Connects and sets up the lane: from now on posting a message puts it into the lane at once. */
static void open_sender(struct rc *rc, int sock, struct rc_addr *peer, uint8_t timeout)
{
	rc_pair(rc, sock, peer, timeout, RETRIES);
	CHECK_EQ(rc_post_send(rc, rc->qp, IBV_WR_SEND, size, peer, 0), 0);
	CHECK_EQ(rc_wait(rc).status, IBV_WC_SUCCESS);
	rc_barrier(sock);
}

static void receive_all(struct rc *rc)
{
	struct ibv_wc wc;

	while (results->completions < MESSAGES) {
		if (ibv_poll_cq(rc->cq, 1, &wc) == 0)
			continue;
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		results->completions++;
	}
}

static void end_receiver(struct rc *rc)
{
	struct ibv_qp_attr attr = { .qp_state =
					    strcmp(what, "ERROR") ? IBV_QPS_RESET : IBV_QPS_ERR };

	if (strcmp(what, "DESTROY") == 0)
		CHECK_EQ(ibv_destroy_qp(rc->qp), 0);
	else if (strcmp(what, "RESET") == 0 || strcmp(what, "ERROR") == 0)
		CHECK_EQ(ibv_modify_qp(rc->qp, &attr, IBV_QP_STATE), 0);
	else if (strcmp(what, "CLOSE") == 0)
		CHECK_EQ(ibv_close_device(rc->ctx), 0);
	else if (strcmp(what, "EXIT") == 0)
		exit(0);
	else if (strcmp(what, "EXEC") == 0)
		execl("/bin/true", "true", NULL);
	else
		raise(SIGKILL);
}

static void receiver(int sock)
{
	struct rc rc;
	char go;

	open_receiver(&rc, sock, timeout_of_end);
	child_recv(sock, &go, 1);
	receive_all(&rc);
	end_receiver(&rc);
	child_send(sock, &go, 1);
	for (;;)
		pause();
}

/* A SEND, and a WRITE with immediate to where its receive would be. */
static void send_all(struct rc *rc)
{
	for (int i = 0; i < MESSAGES; i++) {
		struct rc_addr to = { .addr = (uintptr_t)results->data[1 + i],
				      .rkey = results->rkey };

		memset(rc->buf, i + 1, size);
		CHECK_EQ(rc_post_send(rc, rc->qp, i % 2 ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_SEND,
				      size, &to, i), 0);
	}
}

static void test_end(void)
{
	struct child child = child_fork(receiver);
	struct rc_addr peer;
	struct rc rc;
	char done = 'D';

	rc_open(&rc, size);
	open_sender(&rc, child.sock, &peer, timeout_of_end);
	send_all(&rc);
	child_send(child.sock, &done, 1);
	CHECK(read(child.sock, &done, 1) >= 0); /* 0: it has ended */
	CHECK_EQ(results->completions, MESSAGES);
	for (int i = 0; i < MESSAGES; i++) {
		struct ibv_wc wc = rc_wait(&rc);

		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		CHECK_EQ(wc.wr_id, i);
	}
	child_kill(&child);
	rc_close(&rc);
}

/* ---- STEP ---- */

static void stepped_receiver(int sock)
{
	struct rc rc;

	open_receiver(&rc, sock, TIMEOUT);
	CHECK_EQ(ptrace(PTRACE_TRACEME, 0, NULL, NULL), 0);
	raise(SIGSTOP);
	receive_all(&rc);
	for (;;)
		pause();
}

static void step(const struct child *child)
{
	int status;

	CHECK_EQ(ptrace(PTRACE_SINGLESTEP, child->pid, NULL, NULL), 0);
	CHECK(waitpid(child->pid, &status, 0) == child->pid && WIFSTOPPED(status));
}

/* Executes `steps` instructions of it; returns how many remain when it has polled all messages. */
static uint32_t run_steps(const struct child *child, uint32_t steps)
{
	for (; steps && results->completions < MESSAGES; steps--)
		step(child);
	return steps;
}

/*
 * All messages that its program polled must be acknowledged; all acknowledged ones must be there.
 */
static void expect_true_acks(struct rc *rc)
{
	uint32_t ok = 0;

	for (int i = 0; i < MESSAGES; i++) {
		struct ibv_wc wc = rc_wait(rc);

		CHECK_EQ(wc.wr_id, i);
		if (wc.status != IBV_WC_SUCCESS)
			continue;
		CHECK_EQ(ok, i);
		CHECK_EQ(results->data[++ok][size - 1], i + 1);
	}
	CHECK(ok >= results->completions);
}

static uint32_t run_killed(struct rc *rc, uint32_t steps)
{
	struct rc_addr peer;
	struct child child;
	uint32_t left;

	memset(results, 0, sizeof(*results));
	child = child_fork(stepped_receiver);
	rc->qp = rc_new_qp(rc);
	open_sender(rc, child.sock, &peer, TIMEOUT);
	CHECK(waitpid(child.pid, NULL, WUNTRACED) == child.pid);
	send_all(rc);
	left = run_steps(&child, steps);
	child_kill(&child);
	expect_true_acks(rc);
	CHECK_EQ(ibv_destroy_qp(rc->qp), 0);
	return left;
}

static void test_step(void)
{
	const char *runs = getenv("VERBENA_RUNS");
	struct ibv_qp *first;
	uint32_t total = 10u << 20;
	struct rc rc;

	rnd_start();
	rc_open(&rc, size);
	first = rc.qp;
	total -= run_killed(&rc, total);
	printf("%u instructions\n", total);
	for (long n = runs ? strtol(runs, NULL, 0) : RUNS; n; n--) {
		alarm(RC_LIMIT_S);
		run_killed(&rc, rnd(total));
	}
	rc.qp = first;
	rc_close(&rc);
}

/* ---- SHOWN ---- */

/* How many completions another thread of the stopped receiver could see: polled and not. */
static uint32_t shown(const struct child *child)
{
	struct vrb_cq *cq = results->cq;
	uint32_t n;
	struct iovec to = { &n, sizeof(n) }, from = { &cq->shown, sizeof(n) };

	CHECK_EQ(process_vm_readv(child->pid, &to, 1, &from, 1, 0), sizeof(n));
	return n;
}

/*
 * Another thread may answer a request once it has the completion, by any QP. So when that shows,
 * the sender must have its own. It polls after each instruction once the data has come, because its
 * next poll after LIMIT_MESSAGE_WATCH finds it in any case.
 */
static void run_shown(struct rc *rc)
{
	struct child child;
	uint32_t before, steps, completed = 0;
	struct rc_addr peer;
	struct ibv_wc wc;

	memset(results, 0, sizeof(*results));
	child = child_fork(stepped_receiver);
	rc->qp = rc_new_qp(rc);
	open_sender(rc, child.sock, &peer, 0);
	CHECK(waitpid(child.pid, NULL, WUNTRACED) == child.pid);
	before = shown(&child);
	rc->buf[size - 1] = 1;
	CHECK_EQ(rc_post_send(rc, rc->qp, IBV_WR_SEND, size, &peer, 0), 0);
	for (steps = 0; shown(&child) == before; steps++) {
		step(&child);
		if (results->data[1][size - 1])
			completed += ibv_poll_cq(rc->cq, 1, &wc);
	}
	printf("shown by instruction %u\n", steps);
	CHECK_EQ(completed, 1);
	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	child_kill(&child);
	CHECK_EQ(ibv_destroy_qp(rc->qp), 0);
}

static void test_shown(void)
{
	struct ibv_qp *first;
	struct rc rc;

	rc_open(&rc, size);
	first = rc.qp;
	for (int i = 0; i < SHOWN_RUNS; i++)
		run_shown(&rc);
	rc.qp = first;
	rc_close(&rc);
}

/* ---- AGAIN ---- */

static void late_receiver(int sock)
{
	struct ibv_wc wc;
	struct rc rc;

	begin_receiver(&rc, sock, 0);
	for (int i = 0; i < POLLS; i++)
		CHECK_EQ(ibv_poll_cq(rc.cq, 1, &wc), 0);
	child_send(sock, "P", 1);
	for (;;)
		CHECK_EQ(ibv_poll_cq(rc.cq, 1, &wc), 0);
}

/*
 * The second receiver gets the slot of the first, but not yet its lane, which the sender clears in
 * its next poll.
 */
static void test_again(void)
{
	struct child child = child_fork(receiver);
	struct rc_addr own, peer;
	struct rc rc;
	char byte = 0;

	rc_open(&rc, size);
	open_sender(&rc, child.sock, &peer, 0);
	child_kill(&child);
	CHECK_EQ(ibv_destroy_qp(rc.qp), 0);
	child = child_fork(late_receiver);
	rc.qp = rc_new_qp(&rc);
	own = rc_address(&rc, rc.qp);
	child_send(child.sock, &own, sizeof(own));
	child_recv(child.sock, &peer, sizeof(peer));
	child_recv(child.sock, &byte, 1);	/* it is connected: the message leaves at once */
	rc_connect(&rc, rc.qp, &peer, 0, RETRIES);
	CHECK_EQ(rc_post_send(&rc, rc.qp, IBV_WR_SEND, size, &peer, 0), 0);
	child_send(child.sock, &byte, 1);
	child_recv(child.sock, &byte, 1);
	CHECK_EQ(rc_wait(&rc).status, IBV_WC_SUCCESS);
	child_kill(&child);
	rc_close(&rc);
}

/* ---- FULL ---- */

/* A message each way: from now on, posting one puts it into the lane at once. */
static void open_fillers(struct rc *rc, int sock, struct ibv_qp *filler[FILLERS],
			 void (*post_receives)(struct rc *rc, struct ibv_qp *qp))
{
	struct ibv_qp *first = rc->qp;
	struct rc_addr peer;

	for (int i = 0; i < FILLERS; i++) {
		filler[i] = rc->qp = rc_new_qp(rc);
		post_receives(rc, rc->qp);
		rc_pair(rc, sock, &peer, 0, RETRIES);
		CHECK_EQ(rc_post_send(rc, rc->qp, IBV_WR_SEND, 1, &peer, 0), 0);
		CHECK_EQ(rc_wait(rc).status, IBV_WC_SUCCESS);
		CHECK_EQ(rc_wait(rc).status, IBV_WC_SUCCESS);
		rc_barrier(sock);
	}
	rc->qp = first;
}

/* The second message is the probe. */
static void post_probe_receive(struct rc *rc, struct ibv_qp *qp)
{
	struct ibv_mr *mr = ibv_reg_mr(rc->pd, (void *)&results->probe, 1, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = { (uintptr_t)&results->probe, 1, mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = RECV_ID, .sg_list = &sge, .num_sge = 1 }, *bad;

	rc_post_recv(rc, qp, RECV_ID);
	CHECK_EQ(ibv_post_recv(qp, &wr, &bad), 0);
}

static void post_many_receives(struct rc *rc, struct ibv_qp *qp)
{
	for (int i = 0; i < RC_DEPTH; i++)
		rc_post_recv(rc, qp, RECV_ID);
}

static void open_filling_receiver(struct rc *rc, int sock, struct ibv_qp *filler[FILLERS])
{
	char go;

	open_receiver(rc, sock, 0);
	open_fillers(rc, sock, filler, post_probe_receive);
	child_recv(sock, &go, 1);
}

static void fill_lane(struct rc *rc, struct ibv_qp *filler[FILLERS])
{
	static const struct rc_addr none;

	for (int i = 0; i < FILLERS * FILLS; i++)
		CHECK_EQ(rc_post_send(rc, filler[i % FILLERS], IBV_WR_SEND, 1, &none, i), 0);
}

/* Takes all messages, and leaves no room for their ACKs. */
static void take_and_fill(struct rc *rc, int sock, struct ibv_qp *filler[FILLERS])
{
	open_filling_receiver(rc, sock, filler);
	receive_all(rc);
	fill_lane(rc, filler);
}

static void full_receiver(int sock)
{
	struct ibv_qp *filler[FILLERS];
	struct rc rc;
	char go = 'G';

	take_and_fill(&rc, sock, filler);
	child_send(sock, &go, 1);
	CHECK_EQ(ibv_destroy_qp(rc.qp), 0);
	results->destroyed = true;
	for (;;)
		pause();
}

/* Destroys its QPs, closes the device and exits. */
static void leaving_receiver(int sock)
{
	struct ibv_qp *filler[FILLERS];
	struct rc rc;

	take_and_fill(&rc, sock, filler);
	CHECK_EQ(ibv_destroy_qp(rc.qp), 0);
	for (int i = 0; i < FILLERS; i++)
		CHECK_EQ(ibv_destroy_qp(filler[i]), 0);
	CHECK_EQ(ibv_close_device(rc.ctx), 0);
}

/* A request of its QP waits for room, and so do the ACKs, if they are packets. */
static void blocked_receiver(int sock)
{
	static const struct rc_addr none;
	struct ibv_qp *filler[FILLERS];
	struct rc rc;

	open_filling_receiver(&rc, sock, filler);
	fill_lane(&rc, filler);
	CHECK_EQ(rc_post_send(&rc, rc.qp, IBV_WR_SEND, 1, &none, 0), 0);
	receive_all(&rc);
	_exit(0);
}

/* Looks only when the receiver has gone. */
static void test_leave(void (*receiver_of)(int sock))
{
	struct child child = child_fork(receiver_of);
	struct ibv_qp *filler[FILLERS];
	struct rc_addr peer;
	struct ibv_wc wc;
	struct rc rc;
	char go = 'G';
	int done = 0;

	rc_open(&rc, size);
	open_sender(&rc, child.sock, &peer, timeout_of_end);
	open_fillers(&rc, child.sock, filler, post_many_receives);
	send_all(&rc);
	child_send(child.sock, &go, 1);
	child_join(&child);
	while (done < MESSAGES) {
		wc = rc_wait(&rc);
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		done += wc.qp_num == rc.qp->qp_num;
	}
	for (int i = 0; i < FILLERS; i++)
		CHECK_EQ(ibv_destroy_qp(filler[i]), 0);
	rc_close(&rc);
}

/*
 * The receiver polls while it waits for room, so it takes the probe; the sender polls only then.
 * Returns false if the receiver did not wait for so long, which it need not if the sender gets no
 * CPU.
 */
static bool run_full(struct rc *rc)
{
	struct child child = child_fork(full_receiver);
	struct ibv_qp *filler[FILLERS], *first = rc->qp;
	struct rc_addr peer;
	struct ibv_wc wc;
	int done = 0, polls = 0;
	char go = 'G';

	rc->qp = rc_new_qp(rc);
	open_sender(rc, child.sock, &peer, 0);
	open_fillers(rc, child.sock, filler, post_many_receives);
	send_all(rc);
	child_send(child.sock, &go, 1);
	child_recv(child.sock, &go, 1);
	rc->buf[0] = 1;
	CHECK_EQ(rc_post_send(rc, filler[0], IBV_WR_SEND, 1, &peer, MESSAGES), 0);
	while (!results->probe && !results->destroyed)
		;
	while (done < MESSAGES && (!results->destroyed || polls++ < POLLS)) {
		if (!ibv_poll_cq(rc->cq, 1, &wc))
			continue;
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		done += wc.qp_num == rc->qp->qp_num;
	}
	child_kill(&child);
	CHECK_EQ(ibv_destroy_qp(rc->qp), 0);
	for (int i = 0; i < FILLERS; i++)
		CHECK_EQ(ibv_destroy_qp(filler[i]), 0);
	rc->qp = first;
	return done == MESSAGES;
}

static void test_full(void)
{
	struct rc rc;
	int tries = 0;

	rc_open(&rc, size);
	do {
		memset(results, 0, sizeof(*results));
		CHECK(tries++ < FULL_TRIES);
	} while (!run_full(&rc));
	printf("%d runs\n", tries);
	rc_close(&rc);
}

int main(int argc, char **argv)
{
	what = argc > 1 ? argv[1] : "RESET";
	if (argc > 2) {
		size = LARGE;
		timeout_of_end = TIMEOUT;
	}
	alarm(RC_LIMIT_S);
	setenv("VERBENA_PROGRESS", "none", 1);
	setenv("VERBENA_TRANSPORT", "local", 1);
	results = mmap(NULL, sizeof(*results), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	CHECK(results != MAP_FAILED);
	if (strcmp(what, "STEP") == 0)
		test_step();
	else if (strcmp(what, "SHOWN") == 0)
		test_shown();
	else if (strcmp(what, "AGAIN") == 0)
		test_again();
	else if (strcmp(what, "FULL") == 0)
		test_full();
	else if (strcmp(what, "LEAVE") == 0)
		test_leave(leaving_receiver);
	else if (strcmp(what, "BLOCKED") == 0)
		test_leave(blocked_receiver);
	else
		test_end();
	return 0;
}
