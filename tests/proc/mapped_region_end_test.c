/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process has mapped the registered memory of a peer (mapped_region_test.c). When the memory, the
 * region or a process ends, requests to the memory must fail, no process may crash, and the mapping
 * must be removed; otherwise the mapping must stay.
 *
 *	mapped_region_end_test CASE
 *
 *	TRUNCATE	the owner truncates the file: the next request completes with an error
 *	FAULT		the writer unmaps its own source buffer: the region stays mapped
 *	DEREG		the owner deregisters regions under traffic: afterwards their bytes do
 *			not change, and at most the last one is still mapped
 *	REFUSED		the same where the kernel refuses membarrier(2), or from then on when
 *			the owner has opened its device
 *	IDLE		the owner deregisters the region while the writer is idle
 *	KILL		the owner is killed, with later requests and without; the writer is killed
 *	FORK		both processes fork, and their children end later: the mapping stays until
 *			the owner deregisters the region while the writer is idle
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fork_settled.h"
#include "left_out.h"
#include "mapped.h"

enum { DEREGS = 40 };

/* ---- TRUNCATE ---- */

static void truncating_owner(const char *kind, int sock)
{
	struct rc_addr peer;
	struct mapped t;
	struct rc rc;
	char go;

	mapped_open(&rc, sock, &peer);
	mapped_create(&rc, &t, kind);
	mapped_send_addr(&t, sock);
	CHECK(read(sock, &go, 1) == 1);
	CHECK(ftruncate(t.fd, 0) == 0);
	rc_barrier(sock);
	CHECK(read(sock, &go, 1) == 1);
	CHECK(ibv_destroy_qp(rc.qp) == 0);
	rc.qp = rc_new_qp(&rc);
	mapped_destroy(&t);
	rc_close(&rc);
	exit(0);
}

static void test_truncate(enum ibv_wr_opcode opcode)
{
	struct rc_addr at;
	struct ibv_wc wc;
	struct rc rc;
	pid_t owner;
	int sock;

	owner = mapped_start(&rc, truncating_owner, "MEMFD", &sock);
	at = mapped_recv_addr(sock);
	mapped_work(&rc, &at, 0);
	CHECK(write(sock, "T", 1) == 1);
	rc_barrier(sock);
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		CHECK(rc_post_fetch_add(&rc, rc.qp, 1, &at, 0) == 0);
		wc = rc_wait(&rc);
	} else {
		wc = mapped_request(&rc, opcode, 8, at, 0);
	}
	CHECK_EQ(wc.status, IBV_WC_REM_ACCESS_ERR);
	CHECK_EQ(count_mappings(MAPPED_NAME), 0);
	CHECK(write(sock, "G", 1) == 1);
	mapped_join(owner);
	rc_close(&rc);
}

/* ---- FAULT ---- */

static void waiting_owner(const char *kind, int sock)
{
	struct rc_addr peer;
	struct mapped t;
	struct rc rc;
	char go;

	mapped_open(&rc, sock, &peer);
	mapped_create(&rc, &t, kind);
	mapped_send_addr(&t, sock);
	CHECK(read(sock, &go, 1) == 1);
	mapped_destroy(&t);
	rc_close(&rc);
	exit(0);
}

/* The writer unmaps its registered buffer; the fault is not in the peer's region. */
static void test_fault(void)
{
	struct rc_addr at;
	struct ibv_sge sge = { .length = 8 };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	struct ibv_mr *mr;
	struct rc rc;
	pid_t owner;
	void *mem;
	int sock;

	owner = mapped_start(&rc, waiting_owner, "MEMFD", &sock);
	at = mapped_recv_addr(sock);
	mapped_work(&rc, &at, 0);
	mem = mmap(NULL, MAPPED_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(mem != MAP_FAILED);
	mr = ibv_reg_mr(rc.pd, mem, MAPPED_SIZE, IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr);
	CHECK(munmap(mem, MAPPED_SIZE) == 0);
	sge.addr = (uintptr_t)mem;
	sge.lkey = mr->lkey;
	wr.wr.rdma.remote_addr = at.addr;
	wr.wr.rdma.rkey = at.rkey;
	CHECK(ibv_post_send(rc.qp, &wr, &bad) == 0);
	CHECK_EQ(rc_wait(&rc).status, IBV_WC_LOC_PROT_ERR);
	CHECK_EQ(count_mappings(MAPPED_NAME), 1);
	CHECK(ibv_dereg_mr(mr) == 0);
	CHECK(write(sock, "G", 1) == 1);
	mapped_join(owner);
	rc_close(&rc);
}

/* ---- DEREG ---- */

/* The calling process and its children. */
static void refuse_membarrier(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { sizeof(code) / sizeof(code[0]), code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &prog)) {
		left_out(1, "no seccomp filters");
		return;
	}
	CHECK(syscall(SYS_membarrier, 0, 0, 0) == -1);
}

static bool refused_later;

static void deregistering_owner(const char *kind, int sock)
{
	struct ibv_qp *first;
	struct rc rc;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(RC_LIMIT_S);
	rc_open(&rc, MAPPED_SIZE);
	if (refused_later)
		refuse_membarrier();
	first = rc.qp;
	for (int i = 0; i < DEREGS; i++) {
		uint8_t before[8], after[8];
		struct rc_addr peer;
		volatile uint8_t *seen;
		struct mapped t;

		rc.qp = rc_new_qp(&rc);
		rc_pair(&rc, sock, &peer, MAPPED_TIMEOUT, MAPPED_RETRIES);
		mapped_create(&rc, &t, kind);
		mapped_send_addr(&t, sock);
		seen = t.mem + MAPPED_OFFSET;
		while (*seen < 20)
			;
		CHECK(ibv_dereg_mr(t.mr) == 0);
		memcpy(before, t.mem + MAPPED_OFFSET, sizeof(before));
		rc_barrier(sock); /* the writer has its error */
		memcpy(after, t.mem + MAPPED_OFFSET, sizeof(after));
		CHECK(memcmp(before, after, sizeof(before)) == 0);
		CHECK(munmap(t.mem, MAPPED_SIZE) == 0 && close(t.fd) == 0);
		CHECK(ibv_destroy_qp(rc.qp) == 0);
	}
	rc.qp = first;
	rc_close(&rc);
	exit(0);
}

static void test_dereg(void)
{
	struct ibv_qp *first;
	struct rc rc;
	pid_t owner;
	int sock;

	owner = mapped_spawn(deregistering_owner, "MEMFD", &sock);
	rc_open(&rc, MAPPED_SIZE);
	first = rc.qp;
	for (int i = 0; i < DEREGS; i++) {
		struct ibv_wc wc = { .status = IBV_WC_SUCCESS };
		struct rc_addr peer, at;

		rc.qp = rc_new_qp(&rc);
		rc_pair(&rc, sock, &peer, MAPPED_TIMEOUT, MAPPED_RETRIES);
		at = mapped_recv_addr(sock);
		memset(rc.buf, 0, 8);
		while (wc.status == IBV_WC_SUCCESS) {
			rc.buf[0] += rc.buf[0] < 100;
			rc.buf[1]++;
			wc = mapped_request(&rc, IBV_WR_RDMA_WRITE, 2, at, 0);
		}
		CHECK_EQ(wc.status, IBV_WC_REM_ACCESS_ERR);
		/* Of the deregistered regions only the last may still be mapped. */
		CHECK(count_mappings(MAPPED_NAME) <= 1);
		rc_barrier(sock);
		CHECK(ibv_destroy_qp(rc.qp) == 0);
	}
	rc.qp = first;
	mapped_join(owner);
	rc_close(&rc);
}

static void test_dereg_refused(void)
{
	refused_later = true;
	test_dereg();
	refused_later = false;
	refuse_membarrier();
	test_dereg();
}

/* ---- IDLE ---- */

static void deregistering_idle_owner(const char *kind, int sock)
{
	struct rc_addr peer;
	struct mapped t;
	struct rc rc;

	mapped_open(&rc, sock, &peer);
	mapped_create(&rc, &t, kind);
	mapped_send_addr(&t, sock);
	rc_barrier(sock); /* the writer has accessed it */
	mapped_destroy(&t);
	rc_barrier(sock);
	rc_barrier(sock); /* the writer has unmapped it */
	rc_close(&rc);
	exit(0);
}

static void test_idle(void)
{
	struct rc_addr at;
	struct rc rc;
	pid_t owner;
	int sock;

	owner = mapped_start(&rc, deregistering_idle_owner, "MEMFD", &sock);
	at = mapped_recv_addr(sock);
	mapped_work(&rc, &at, 0);
	CHECK_EQ(count_mappings(MAPPED_NAME), 1);
	rc_barrier(sock);
	rc_barrier(sock);
	while (count_mappings(MAPPED_NAME) > 0)
		sched_yield();
	rc_barrier(sock);
	mapped_join(owner);
	rc_close(&rc);
}

/* ---- KILL ---- */

static void killed_owner(const char *kind, int sock)
{
	struct rc_addr peer;
	struct mapped t;
	struct rc rc;

	mapped_open(&rc, sock, &peer);
	mapped_create(&rc, &t, kind);
	mapped_send_addr(&t, sock);
	for (;;)
		pause();
}

static void killed_writer(const char *kind, int sock)
{
	struct rc_addr peer, at;
	const uint32_t len = MAPPED_SIZE - MAPPED_OFFSET;
	struct rc rc;

	mapped_open(&rc, sock, &peer);
	at = mapped_recv_addr(sock);
	for (uint64_t i = 0;; i++) {
		if (i == MAPPED_ROUNDS)
			CHECK(write(sock, "x", 1) == 1);
		CHECK_EQ(mapped_request(&rc, IBV_WR_RDMA_WRITE, len, at, 0).status, IBV_WC_SUCCESS);
	}
}

/* `idle`: the writer posts no further request. */
static void test_kill_owner(bool idle)
{
	struct rc_addr at;
	struct rc rc;
	pid_t owner;
	int sock;

	owner = mapped_start(&rc, killed_owner, "MEMFD", &sock);
	at = mapped_recv_addr(sock);
	mapped_work(&rc, &at, 0);
	CHECK_EQ(count_mappings(MAPPED_NAME), 1);
	/*
	 * From here on the progress thread may detect the death and unmap the memory at any time.
	 */
	CHECK(kill(owner, SIGKILL) == 0);
	CHECK(waitpid(owner, NULL, 0) == owner);
	if (idle) {
		CHECK(ibv_destroy_qp(rc.qp) == 0);
		rc.qp = rc_new_qp(&rc);
	} else {
		CHECK_EQ(mapped_request(&rc, IBV_WR_RDMA_WRITE, 8, at, 0).status,
			 IBV_WC_RETRY_EXC_ERR);
	}
	CHECK_EQ(count_mappings(MAPPED_NAME), 0);
	rc_close(&rc);
}

static void test_kill_writer(void)
{
	struct rc_addr peer;
	struct mapped t;
	struct rc rc;
	pid_t writer;
	int sock;
	char x;

	writer = mapped_spawn(killed_writer, NULL, &sock);
	rc_open(&rc, MAPPED_SIZE);
	rc_pair(&rc, sock, &peer, MAPPED_TIMEOUT, MAPPED_RETRIES);
	mapped_create(&rc, &t, "MEMFD");
	mapped_send_addr(&t, sock);
	CHECK(read(sock, &x, 1) == 1);
	CHECK(kill(writer, SIGKILL) == 0);
	CHECK(waitpid(writer, NULL, 0) == writer);
	mapped_destroy(&t);
	rc_close(&rc);
}

/* ---- FORK ---- */

/* Forks a child that does nothing until *end is closed. */
static pid_t fork_idle(int *end)
{
	int ends[2];
	pid_t child;
	char c;

	CHECK(pipe(ends) == 0);
	fflush(stdout);
	child = fork_settled();
	CHECK(child >= 0);
	if (child == 0) {
		close(ends[1]);
		CHECK(read(ends[0], &c, 1) == 0);
		exit(0);
	}
	close(ends[0]);
	*end = ends[1];
	return child;
}

static void forking_owner(const char *kind, int sock)
{
	struct rc_addr peer;
	struct mapped t;
	struct rc rc;
	pid_t child;
	int end;

	mapped_open(&rc, sock, &peer);
	mapped_create(&rc, &t, kind);
	mapped_send_addr(&t, sock);
	rc_barrier(sock);
	child = fork_idle(&end);
	rc_barrier(sock);
	rc_barrier(sock); /* the writer has accessed it */
	close(end);
	mapped_join(child);
	rc_barrier(sock);
	rc_barrier(sock);
	mapped_destroy(&t);
	rc_barrier(sock); /* the writer has unmapped it */
	rc_close(&rc);
	exit(0);
}

static void test_fork(void)
{
	struct rc_addr at;
	struct rc rc;
	pid_t owner, child;
	int sock, end;

	owner = mapped_start(&rc, forking_owner, "MEMFD", &sock);
	at = mapped_recv_addr(sock);
	mapped_work(&rc, &at, 0);
	child = fork_idle(&end);
	rc_barrier(sock);
	rc_barrier(sock);
	mapped_work(&rc, &at, MAPPED_ROUNDS);
	close(end);
	mapped_join(child);
	CHECK_EQ(count_mappings(MAPPED_NAME), 1);
	rc_barrier(sock);
	rc_barrier(sock);
	mapped_work(&rc, &at, 2 * MAPPED_ROUNDS);
	rc_barrier(sock);
	while (count_mappings(MAPPED_NAME) > 0)
		sched_yield();
	rc_barrier(sock);
	mapped_join(owner);
	rc_close(&rc);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "TRUNCATE";

	alarm(RC_LIMIT_S);
	if (strcmp(what, "FAULT") == 0) {
		test_fault();
	} else if (strcmp(what, "DEREG") == 0) {
		test_dereg();
	} else if (strcmp(what, "REFUSED") == 0) {
		test_dereg_refused();
	} else if (strcmp(what, "IDLE") == 0) {
		test_idle();
	} else if (strcmp(what, "KILL") == 0) {
		test_kill_owner(false);
		test_kill_owner(true);
		test_kill_writer();
	} else if (strcmp(what, "FORK") == 0) {
		test_fork();
	} else {
		test_truncate(IBV_WR_RDMA_WRITE);
		test_truncate(IBV_WR_RDMA_READ);
		test_truncate(IBV_WR_ATOMIC_FETCH_AND_ADD);
	}
	return 0;
}
