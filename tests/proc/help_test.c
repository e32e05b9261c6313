/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Long SENDs, which a sender that polls helps to copy: each message arrives as it was sent,
 * whatever its length and place.
 *
 *	help_test STREAM	the sender polls
 *	help_test STOP		it is stopped again and again, for longer than the receiver waits
 *for it, and goes on
 *	help_test GONE		the receiver takes its memory back in the middle: nothing changes it
 *any more
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
	LOOKS = 20,
	/*
	 * half a second: longer than a busy machine, or the process that stops the sender, delays
	 * it
	 */
	TIMEOUT = 17,
	RETRIES = 7,
};

/* Both sides draw the same messages. */
struct message {
	uint32_t at, to, len, value;
};

static struct message next_message(void)
{
	struct message m = { .at = rnd(5000), .to = rnd(5000), .value = rnd(UINT32_MAX) };

	m.len = LEN_MIN + rnd(SIZE - LEN_MIN - 5000);
	return m;
}

static uint32_t word(const struct message *m, uint32_t i)
{
	return m->value + i * 2654435761u;
}

static void fill(char *p, const struct message *m)
{
	for (uint32_t i = 0; i + 4 <= m->len; i += 4)
		memcpy(p + i, &(uint32_t){ word(m, i) }, 4);
	for (uint32_t i = m->len & ~3u; i < m->len; i++)
		p[i] = 'x';
}

static void compare(const char *p, const struct message *m)
{
	uint32_t found;

	for (uint32_t i = 0; i + 4 <= m->len; i += 4) {
		memcpy(&found, p + i, 4);
		CHECK(found == word(m, i));
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
		struct message m = next_message();

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
		struct message m = next_message();
		struct ibv_wc wc;

		memset(rc.buf, 0, SIZE);
		post_receive(&rc, &m);
		wc = rc_wait(&rc);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.byte_len == m.len);
		compare(rc.buf + m.to, &m);
	}
	rc_close(&rc);
}

static void rest(uint32_t ms)
{
	nanosleep(&(struct timespec){ .tv_nsec = rnd(ms * 1000) * 1000l }, NULL);
}

static void stop_for_ever(pid_t sender)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		rest(10);
		kill(sender, SIGSTOP);
		rest(200);
		kill(sender, SIGCONT);
	}
}

static void stream(bool stopped)
{
	pid_t sender, warden = 0;
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
		warden = fork();
	CHECK(warden >= 0);
	if (stopped && warden == 0)
		stop_for_ever(sender);
	receive_all(sock[0]);
	if (stopped) {
		CHECK(kill(warden, SIGKILL) == 0);
		CHECK(waitpid(warden, NULL, 0) == warden);
		CHECK(kill(sender, SIGCONT) == 0);
	}
	CHECK(waitpid(sender, &status, 0) == sender && status == 0);
}

/* Sends until the peer is reported unreachable. */
static void send_for_ever(int sock)
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
		/* gives up soon, but not before a busy receiver */
		rc_pair(&rc, sock, &peer, 14, 2);
		while (send_message(&rc, &m).status == IBV_WC_SUCCESS)
			;
		rc_meet(sock);
		CHECK(ibv_destroy_qp(rc.qp) == 0);
	}
	rc.qp = rc_new_qp(&rc);
	rc_close(&rc);
}

static void want_quiet(struct rc *rc)
{
	memset(rc->buf, 0xaa, SIZE);
	for (int look = 0; look < LOOKS; look++)
		for (int i = 0; i < SIZE; i += 256)
			CHECK((uint8_t)rc->buf[i] == 0xaa);
}

static void gone(void)
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
		send_for_ever(sock[1]);
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
		want_quiet(&rc);
		rc.mr = ibv_reg_mr(rc.pd, rc.buf, SIZE, IBV_ACCESS_LOCAL_WRITE);
		CHECK(rc.mr);
		rc_meet(sock[0]);
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
		gone();
	else
		stream(strcmp(what, "STOP") == 0);
	return 0;
}
