/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Atomic operations are mutually exclusive (IBV_ATOMIC_HCA). Two processes increment one word with
 * FETCH_AND_ADD, each through its own registration of the page that holds the word. One process or
 * two own the registrations; the requests execute in shared memory or arrive as UDP packets. No
 * addition may be lost.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rc.h"
#include "util/compiler.h"

enum {
	PAGE = 4096,
	WORD = 8,  /* index of the word that is incremented */
	READY = 0, /* index of the count of adders that are ready */
	ADDITIONS_EACH = 20000,
	TIMEOUT = 14,
	RETRIES = 7,
	ADDERS = 2,
	ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
};

static int memory;	/* memfd of the page */

static uint64_t *map_page(void)
{
	uint64_t *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);

	CHECK(page != MAP_FAILED);
	return page;
}

static void begin_child(const char *transport)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(RC_LIMIT_S);
	CHECK(setenv("VERBENA_TRANSPORT", transport, 1) == 0);
}

/* Creates a QP and a registration of the page for each adder, and waits for the adders' end. */
static void run_owner(const char *transport, const int *sock, int adders)
{
	struct ibv_qp *first, *qp[ADDERS];
	struct ibv_mr *mr[ADDERS];
	struct rc rc;
	char end;

	begin_child(transport);
	rc_open(&rc, PAGE);
	first = rc.qp;
	for (int i = 0; i < adders; i++) {
		uint64_t *page = map_page();
		struct rc_addr own, peer;

		mr[i] = ibv_reg_mr(rc.pd, page, PAGE, ACCESS);
		CHECK(mr[i]);
		qp[i] = rc_new_qp(&rc);
		own = rc_address(&rc, qp[i]);
		own.addr = (uintptr_t)&page[WORD];
		own.rkey = mr[i]->rkey;
		CHECK(write(sock[i], &own, sizeof(own)) == sizeof(own));
		CHECK(read(sock[i], &peer, sizeof(peer)) == sizeof(peer));
		rc_connect(&rc, qp[i], &peer, TIMEOUT, RETRIES);
		rc_barrier(sock[i]);
	}
	for (int i = 0; i < adders; i++)
		CHECK(read(sock[i], &end, 1) == 1);
	for (int i = 0; i < adders; i++) {
		CHECK(ibv_destroy_qp(qp[i]) == 0);
		CHECK(ibv_dereg_mr(mr[i]) == 0);
	}
	rc.qp = first;
	rc_close(&rc);
	exit(0);
}

static void run_adder(const char *transport, int sock)
{
	uint64_t *page = map_page();
	struct rc_addr peer;
	struct rc rc;

	begin_child(transport);
	rc_open(&rc, PAGE);
	rc_pair(&rc, sock, &peer, TIMEOUT, RETRIES);
	__atomic_fetch_add(&page[READY], 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&page[READY], __ATOMIC_SEQ_CST) < ADDERS)
		;
	for (int i = 0; i < ADDITIONS_EACH; i++) {
		CHECK(rc_post_fetch_add(&rc, rc.qp, 1, &peer, i) == 0);
		CHECK_EQ(rc_wait(&rc).status, IBV_WC_SUCCESS);
	}
	CHECK(write(sock, "x", 1) == 1);
	rc_close(&rc);
	exit(0);
}

static void expect_exit(pid_t child)
{
	int status;

	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

struct setup {
	int owners;
	const char *owner[ADDERS], *adder[ADDERS];	/* their transports */
};

static void run_setup(const struct setup *c)
{
	uint64_t *page = map_page();
	pid_t owner[ADDERS], adder[ADDERS];
	int owner_end[ADDERS], adder_end[ADDERS];

	page[READY] = page[WORD] = 0;
	fflush(stdout);
	for (int i = 0; i < ADDERS; i++) {
		int sock[2];

		CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sock) == 0);
		owner_end[i] = sock[0];
		adder_end[i] = sock[1];
	}
	for (int i = 0; i < ADDERS; i++) {
		adder[i] = fork();
		CHECK(adder[i] >= 0);
		if (adder[i] == 0)
			run_adder(c->adder[i], adder_end[i]);
	}
	for (int i = 0; i < c->owners; i++) {
		owner[i] = fork();
		CHECK(owner[i] >= 0);
		if (owner[i] == 0)
			run_owner(c->owner[i], &owner_end[i], c->owners == 1 ? ADDERS : 1);
	}
	for (int i = 0; i < ADDERS; i++)
		expect_exit(adder[i]);
	for (int i = 0; i < c->owners; i++)
		expect_exit(owner[i]);
	printf("%d owners (%s, %s), adders %s and %s: %lu additions\n", c->owners, c->owner[0],
	       c->owner[c->owners - 1], c->adder[0], c->adder[1], (unsigned long)page[WORD]);
	CHECK_EQ(page[WORD], ADDERS * ADDITIONS_EACH);
	for (int i = 0; i < ADDERS; i++) {
		close(owner_end[i]);
		close(adder_end[i]);
	}
	CHECK(munmap(page, PAGE) == 0);
}

int main(void)
{
	static const struct setup setups[] = {
		{ 2, { "auto", "auto" }, { "auto", "auto" } },
		{ 2, { "auto", "auto" }, { "auto", "udp" } },
		{ 2, { "auto", "udp" }, { "auto", "auto" } },
		{ 1, { "auto" }, { "auto", "auto" } },
		{ 1, { "auto" }, { "auto", "udp" } },
		{ 1, { "udp" }, { "udp", "udp" } },
	};

	alarm(RC_LIMIT_S);
	memory = memfd_create("page", 0);
	CHECK(memory >= 0 && ftruncate(memory, PAGE) == 0);
	for (unsigned int i = 0; i < ARRAY_SIZE(setups); i++)
		run_setup(&setups[i]);
	return 0;
}
