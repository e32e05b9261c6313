/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A proxy thread polls now and then and sleeps in between. Programs rely on the device to receive
 * messages meanwhile (docs/COMPATIBILITY.md). Both sides poll every few milliseconds, and no
 * message may wait for an ACK timeout because of that. Retransmissions that a NAK requests are
 * allowed: a full socket loses packets.
 *
 *	proxy_test SMALL|LARGE [TRANSPORT]
 *
 *	SMALL	200 messages of 8 bytes, one after the other
 *	LARGE	24 messages of 1 MiB, one after the other
 *
 * Counts retries; does not measure time.
 */
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rc.h"

int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

enum {
	LARGE_SIZE = 1 << 20,
	TIMEOUT = 14,
	RETRIES = 7,
	NAP_NS = 3000000,
};

static struct traffic {
	uint32_t len;
	int messages;
} traffic;

static uint64_t counter(const struct rc *rc, const char *name)
{
	char file[96], text[32];

	snprintf(file, sizeof(file), "ports/1/hw_counters/%s", name);
	CHECK(ibv_read_sysfs_file(rc->ctx->device->ibdev_path, file, text, sizeof(text)) >= 0);
	return strtoull(text, NULL, 10);
}

/* Retries that no NAK requested. */
static uint64_t timeouts(const struct rc *rc)
{
	uint64_t naks = counter(rc, "rcvd_seq_err"), retries = counter(rc, "completer_retry_err");

	return retries > naks ? retries - naks : 0;
}

static struct ibv_wc poll_and_sleep(struct rc *rc)
{
	const struct timespec nap = { .tv_nsec = NAP_NS };
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(rc->cq, 1, &wc)) == 0)
		nanosleep(&nap, NULL);
	CHECK(n == 1);
	return wc;
}

static void receive(int sock)
{
	struct rc_addr peer;
	struct rc rc;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(RC_LIMIT_S);
	rc_open(&rc, LARGE_SIZE);
	for (int i = 0; i < RC_DEPTH / 2; i++)
		rc_post_recv(&rc, rc.qp, 0);
	rc_pair(&rc, sock, &peer, TIMEOUT, RETRIES);
	for (int i = 0; i < traffic.messages; i++) {
		struct ibv_wc wc = poll_and_sleep(&rc);

		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		CHECK_EQ(wc.byte_len, traffic.len);
		rc_post_recv(&rc, rc.qp, 0);
	}
	rc_barrier(sock);
	rc_close(&rc);
	exit(0);
}

static void send_all(int sock)
{
	struct rc_addr peer;
	struct rc rc;

	rc_open(&rc, LARGE_SIZE);
	rc_pair(&rc, sock, &peer, TIMEOUT, RETRIES);
	for (int i = 0; i < traffic.messages; i++) {
		CHECK(rc_post_send(&rc, rc.qp, IBV_WR_SEND, traffic.len, &peer, 0) == 0);
		CHECK_EQ(poll_and_sleep(&rc).status, IBV_WC_SUCCESS);
	}
	CHECK_EQ(timeouts(&rc), 0);
	CHECK_EQ(counter(&rc, "retry_exceeded_err"), 0);
	CHECK_EQ(counter(&rc, "send_rnr_err"), 0);
	rc_barrier(sock);
	rc_close(&rc);
}

int main(int argc, char **argv)
{
	bool large = argc > 1 && strcmp(argv[1], "LARGE") == 0;
	int sock[2], status;
	pid_t pid;

	traffic = large ? (struct traffic){ LARGE_SIZE, 24 } : (struct traffic){ 8, 200 };
	alarm(RC_LIMIT_S);
	if (argc > 2)
		CHECK(setenv("VERBENA_TRANSPORT", argv[2], 1) == 0);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sock) == 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		receive(sock[1]);
	send_all(sock[0]);
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status));
	return 0;
}
