/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A third process writes garbage into the shared-memory segments of two connected processes: into
 * headers, tables and lanes. Their connections may fail, and then they create new ones. No process
 * may crash or hang, and afterwards new processes must communicate without errors.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "local/layout.h"
#include "rc.h"
#include "rnd.h"

enum {
	SIZE = 300000,
	CONNECTIONS = 12,
	MESSAGES = 200,
	TIMEOUT = 8, /* while there is a scribbler: broken connections fail soon */
	RETRIES = 3,
	LONG_TIMEOUT = 16, /* without one: no connection fails because the machine is busy */
	RECVS = 16,
};

/* ---- the scribbler ---- */

static uint32_t corrupt_value(uint32_t old)
{
	switch (rnd(5)) {
	case 0:
		return rnd(300);
	case 1:
		return old + rnd(9) - 4;
	case 2:
		return old ^ 1u << rnd(32);
	case 3:
		return UINT32_MAX - rnd(4);
	default:
		return rnd(UINT32_MAX);
	}
}

static void scribble_word(uint8_t *base, uint64_t offset)
{
	volatile uint32_t *word = (volatile uint32_t *)(base + (offset & ~3ull));

	*word = corrupt_value(*word);
}

/* An offset in the header, in a table, or in the head or a slot of a lane. */
static uint64_t choose_offset(void)
{
	uint64_t lane = SEG_LANE_OFF + rnd(4) * SEG_LANE_SIZE;

	switch (rnd(6)) {
	case 0:
		return rnd(sizeof(struct seg_header));
	case 1:
		return SEG_QP_OFF + rnd(SEG_MR_OFF - SEG_QP_OFF);
	case 2:
		return SEG_MR_OFF + rnd(64 * SEG_MR_ENTRY);
	case 3:
		return lane + rnd(offsetof(struct lane, slot));
	default:
		return lane + rnd(sizeof(struct lane));
	}
}

static void scribble_file(const char *path)
{
	int fd = open(path, O_RDWR);
	uint8_t *base;

	if (fd < 0)
		return;
	base = mmap(NULL, SEG_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (base != MAP_FAILED) {
		for (int i = 0; i < 3000; i++)
			scribble_word(base, choose_offset());
		munmap(base, SEG_SIZE);
	}
	close(fd);
}

static void scribble_for_ever(void)
{
	const char *dir = getenv("VERBENA_DIR");
	struct timespec pause = { .tv_nsec = 200000 };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		DIR *d = opendir(dir);
		struct dirent *entry;

		while (d && (entry = readdir(d))) {
			char path[512];

			snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
			if (strstr(entry->d_name, ".seg"))
				scribble_file(path);
		}
		if (d)
			closedir(d);
		nanosleep(&pause, NULL);
	}
}

/* ---- the victims ---- */

static int post_request(struct rc *rc, const struct rc_addr *peer, uint32_t i)
{
	static const enum ibv_wr_opcode ops[] = { IBV_WR_SEND, IBV_WR_RDMA_WRITE,
						  IBV_WR_RDMA_READ };
	static const uint32_t lens[] = { 8, 3000, SIZE };

	if (i % 4 == 3)
		return rc_post_fetch_add(rc, rc->qp, 1, peer, i);
	return rc_post_send(rc, rc->qp, ops[i % 4], lens[rnd(3)], peer, i);
}

/* Runs until all requests have completed or one fails. True if all succeeded. */
static bool request(struct rc *rc, const struct rc_addr *peer)
{
	for (uint32_t i = 0; i < MESSAGES; i++) {
		struct ibv_wc wc;

		CHECK(post_request(rc, peer, i) == 0);
		do {
			wc = rc_wait(rc);
		} while (wc.opcode & IBV_WC_RECV && wc.status == IBV_WC_SUCCESS);
		if (wc.status != IBV_WC_SUCCESS)
			return false;
	}
	return true;
}

/* Reposts receives until the requester is done. */
static void respond(struct rc *rc, int sock)
{
	char byte;

	fcntl(sock, F_SETFL, O_NONBLOCK);
	while (read(sock, &byte, 1) != 1) {
		struct ibv_wc wc;

		if (ibv_poll_cq(rc->cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS)
			rc_post_recv(rc, rc->qp, 0);
	}
	fcntl(sock, F_SETFL, 0);
}

static void drain(struct rc *rc)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(rc->cq, 1, &wc) == 1)
		;
}

static void run_side(int sock, bool requests, bool must_succeed)
{
	struct rc_addr peer;
	struct ibv_qp *first;
	int good = 0;
	struct rc rc;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(RC_LIMIT_S);
	rc_open(&rc, SIZE);
	first = rc.qp;
	for (int i = 0; i < CONNECTIONS; i++) {
		/* The second half uses memory that the peer maps. */
		if (i == CONNECTIONS / 2)
			rc_share(&rc);
		rc.qp = rc_new_qp(&rc);
		for (int n = 0; n < RECVS; n++)
			rc_post_recv(&rc, rc.qp, 0);
		rc_pair(&rc, sock, &peer, must_succeed ? LONG_TIMEOUT : TIMEOUT,
			must_succeed ? 7 : RETRIES);
		if (requests) {
			good += request(&rc, &peer);
			CHECK(write(sock, "", 1) == 1);
		} else {
			respond(&rc, sock);
		}
		rc_barrier(sock);
		CHECK(ibv_destroy_qp(rc.qp) == 0);
		drain(&rc);
		/* Regions are registered while the segments are corrupt, too. */
		CHECK(ibv_dereg_mr(rc.mr) == 0);
		rc.mr = ibv_reg_mr(rc.pd, rc.buf, rc.size,
				   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
					   IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
		CHECK(rc.mr);
	}
	rc.qp = first;
	rc_close(&rc);
	if (requests)
		printf("%d of %d connections succeeded\n", good, CONNECTIONS);
	CHECK(!requests || !must_succeed || good == CONNECTIONS);
}

static void run_pair(bool must_succeed)
{
	pid_t pid[2];
	int sock[2];

	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sock) == 0);
	fflush(NULL);
	for (int i = 0; i < 2; i++) {
		pid[i] = fork();
		if (pid[i] == 0) {
			close(sock[!i]);
			run_side(sock[i], i, must_succeed);
			exit(0);
		}
	}
	close(sock[0]);
	close(sock[1]);
	for (int i = 0; i < 2; i++) {
		int status;

		CHECK(waitpid(pid[i], &status, 0) == pid[i]);
		if (WIFSIGNALED(status))
			printf("ended by signal %d\n", WTERMSIG(status));
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
}

int main(void)
{
	pid_t scribbler;

	rnd_start();
	alarm(RC_LIMIT_S);
	fflush(NULL);
	scribbler = fork();
	if (scribbler == 0)
		scribble_for_ever();
	run_pair(false);
	CHECK(kill(scribbler, SIGKILL) == 0);
	CHECK(waitpid(scribbler, NULL, 0) == scribbler);
	run_pair(true);
	return 0;
}
