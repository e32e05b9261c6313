/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Split copies: the receiver pulls a long SEND from the sender's memory while a polling sender
 * copies a part of it (core/local/split_copy.c). Lengths and offsets are random; each message must
 * arrive complete and unchanged.
 *
 *	STREAM	the sender polls
 *	STOP	a third process stops the sender again and again, for longer than the receiver
 *		waits for the sender's part; all messages must arrive
 *	GONE	the receiver destroys its QP and deregisters its memory while messages arrive:
 *		after that nothing may change the memory
 *
 * VERBENA_SEED repeats a sequence.
 */
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rc.h"
#include "rnd.h"

enum {
	SIZE = 3 << 20,
	LEN_MIN = 100 << 10,
	MESSAGES = 100,
	ROUNDS = 12,
	SCANS = 20,
	/* half a second: longer than a busy machine or stop_repeatedly() delays the sender */
	TIMEOUT = 17,
	RETRIES = 7,
};

/* Both sides draw the same sequence. */
struct message {
	uint32_t at, to; /* offsets in the sender's and the receiver's buffer */
	uint32_t len, value;
};

static struct message random_message(void)
{
	struct message m = { .at = rnd(5000), .to = rnd(5000), .value = rnd(UINT32_MAX) };

	m.len = LEN_MIN + rnd(SIZE - LEN_MIN - 5000);
	return m;
}

static uint32_t word_of(const struct message *m, uint32_t i)
{
	return m->value + i * 2654435761u;
}

static void fill(char *p, const struct message *m)
{
	for (uint32_t i = 0; i + 4 <= m->len; i += 4)
		memcpy(p + i, &(uint32_t){ word_of(m, i) }, 4);
	for (uint32_t i = m->len & ~3u; i < m->len; i++)
		p[i] = 'x';
}

static void compare(const char *p, const struct message *m)
{
	uint32_t found;

	for (uint32_t i = 0; i + 4 <= m->len; i += 4) {
		memcpy(&found, p + i, 4);
		CHECK(found == word_of(m, i));
	}
	for (uint32_t i = m->len & ~3u; i < m->len; i++)
		CHECK(p[i] == 'x');
}

static struct ibv_wc send_message(struct rc *rc, const struct message *m)
{
	struct ibv_sge sge = { (uintptr_t)rc->buf + m->at, m->len, rc->mr->lkey };
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1 };

	CHECK(ibv_post_send(rc->qp, &wr, &bad) == 0);
	return rc_wait(rc);
}

static void post_receive(struct rc *rc, const struct message *m)
{
	struct ibv_sge sge = { (uintptr_t)rc->buf + m->to, m->len, rc->mr->lkey };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	CHECK(ibv_post_recv(rc->qp, &wr, &bad) == 0);
}

static void send_all(int sock)
{
	struct rc_addr peer;
	struct rc rc;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(RC_LIMIT_S);
	rc_open(&rc, SIZE);
	rc_pair(&rc, sock, &peer, TIMEOUT, RETRIES);
	for (int i = 0; i < MESSAGES; i++) {
		struct message m = random_message();

		fill(rc.buf + m.at, &m);
		CHECK(send_message(&rc, &m).status == IBV_WC_SUCCESS);
	}
	rc_close(&rc);
}

static void receive_all(int sock)
{
	struct rc_addr peer;
	struct rc rc;

	rc_open(&rc, SIZE);
	rc_pair(&rc, sock, &peer, TIMEOUT, RETRIES);
	for (int i = 0; i < MESSAGES; i++) {
		struct message m = random_message();
		struct ibv_wc wc;

		memset(rc.buf, 0, SIZE);
		post_receive(&rc, &m);
		wc = rc_wait(&rc);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.byte_len == m.len);
		compare(rc.buf + m.to, &m);
	}
	rc_close(&rc);
}

static void sleep_random(uint32_t ms)
{
	nanosleep(&(struct timespec){ .tv_nsec = rnd(ms * 1000) * 1000l }, NULL);
}

static void stop_repeatedly(pid_t sender)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		sleep_random(10);
		kill(sender, SIGSTOP);
		sleep_random(200);
		kill(sender, SIGCONT);
	}
}

static void stream(bool stopped)
{
	pid_t sender, stopper = 0;
	int sock[2], status;

	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sock) == 0);
	fflush(NULL);
	sender = fork();
	CHECK(sender >= 0);
	if (sender == 0) {
		send_all(sock[1]);
		exit(0);
	}
	if (stopped)
		stopper = fork();
	CHECK(stopper >= 0);
	if (stopped && stopper == 0)
		stop_repeatedly(sender);
	receive_all(sock[0]);
	if (stopped) {
		CHECK(kill(stopper, SIGKILL) == 0);
		CHECK(waitpid(stopper, NULL, 0) == stopper);
		CHECK(kill(sender, SIGCONT) == 0);
	}
	CHECK(waitpid(sender, &status, 0) == sender && status == 0);
}

/* In each round, sends until a request fails because the receiver's QP is gone. */
static void send_until_error(int sock)
{
	struct message m = { .len = SIZE, .value = 1 };
	struct rc rc;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(RC_LIMIT_S);
	rc_open(&rc, SIZE);
	memset(rc.buf, 0x55, SIZE);
	CHECK(ibv_destroy_qp(rc.qp) == 0);
	for (int round = 0; round < ROUNDS; round++) {
		struct rc_addr peer;

		rc.qp = rc_new_qp(&rc);
		/* short timeouts, but long enough for a receiver on a busy machine */
		rc_pair(&rc, sock, &peer, 14, 2);
		while (send_message(&rc, &m).status == IBV_WC_SUCCESS)
			;
		rc_barrier(sock);
		CHECK(ibv_destroy_qp(rc.qp) == 0);
	}
	rc.qp = rc_new_qp(&rc);
	rc_close(&rc);
}

static void expect_unchanged(struct rc *rc)
{
	memset(rc->buf, 0xaa, SIZE);
	for (int scan = 0; scan < SCANS; scan++)
		for (int i = 0; i < SIZE; i += 256)
			CHECK((uint8_t)rc->buf[i] == 0xaa);
}

static void dereg_midway(void)
{
	struct message m = { .len = SIZE };
	int sock[2], status;
	pid_t sender;
	struct rc rc;

	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sock) == 0);
	fflush(NULL);
	sender = fork();
	CHECK(sender >= 0);
	if (sender == 0) {
		send_until_error(sock[1]);
		exit(0);
	}
	rc_open(&rc, SIZE);
	CHECK(ibv_destroy_qp(rc.qp) == 0);
	for (int round = 0; round < ROUNDS; round++) {
		struct rc_addr peer;

		rc.qp = rc_new_qp(&rc);
		for (int i = 0; i < 8; i++)
			post_receive(&rc, &m);
		rc_pair(&rc, sock[0], &peer, TIMEOUT, RETRIES);
		for (uint32_t i = 1 + rnd(6); i > 0; i--)
			CHECK(rc_wait(&rc).status == IBV_WC_SUCCESS);
		CHECK(ibv_destroy_qp(rc.qp) == 0);
		CHECK(ibv_dereg_mr(rc.mr) == 0);
		expect_unchanged(&rc);
		rc.mr = ibv_reg_mr(rc.pd, rc.buf, SIZE, IBV_ACCESS_LOCAL_WRITE);
		CHECK(rc.mr);
		rc_barrier(sock[0]);
	}
	CHECK(waitpid(sender, &status, 0) == sender && status == 0);
	rc.qp = rc_new_qp(&rc);
	rc_close(&rc);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	rnd_start();
	alarm(RC_LIMIT_S);
	if (strcmp(what, "GONE") == 0)
		dereg_midway();
	else
		stream(strcmp(what, "STOP") == 0);
	return 0;
}
