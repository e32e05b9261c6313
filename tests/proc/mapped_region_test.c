/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process maps the registered memory of a local peer if a file shares that memory, and executes
 * WRITE, READ and atomics in the mapping. It never maps other memory, and must access it all the
 * same. mapped_region_end_test.c tests how mappings end.
 *
 *	mapped_region_test MEMFD|SHM|DM|BUF|WINDOW|CLOSED|PRIVATE
 *		the kind of memory: accessed while its owner runs and while it is stopped.
 *		CLOSED (the file's descriptor is closed) and PRIVATE are not mapped.
 *	mapped_region_test COUNT
 *		remote atomics and the owner's own atomic instructions increment one word
 *	mapped_region_test REREG
 *		ibv_rereg_mr moves the region to another file, then to private memory
 *	mapped_region_test HOLE
 *		the owner unmaps a page of its region before the first request, or once the
 *		region is mapped
 *	mapped_region_test ODD
 *		odd addresses and lengths; atomics at an address that is not aligned, and through
 *		a region whose addresses are aligned but not its memory
 *	mapped_region_test SELF
 *		a process accesses its own private memory through a QP
 */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "child.h"
#include "mapped.h"
#include "util/compiler.h"

enum {
	COUNTS = 20000,
	PAGE = 4096,
	HOLE = 4 * PAGE,	/* offset of the missing page */
	AFTER = 8 * PAGE,
	SKEW = 4,		/* of the memory behind aligned addresses */
};

static void checking_owner(const char *kind, int sock)
{
	struct rc_addr peer;
	struct mapped t;
	uint64_t word[2];
	struct rc rc;
	char go;

	mapped_open(&rc, sock, &peer);
	mapped_create(&rc, &t, kind);
	if (strcmp(kind, "WINDOW") == 0)
		mapped_bind_window(&rc, &t);
	mapped_send_addr(&t, sock);
	CHECK(read(sock, &go, 1) == 1);
	if (strcmp(kind, "SHM") == 0)
		mapped_unlink();
	mapped_read(&t, MAPPED_OFFSET, word, sizeof(word));
	CHECK_EQ(word[0], 2 * MAPPED_ROUNDS);
	CHECK_EQ(word[1], 1000 + MAPPED_ROUNDS - 1);
	mapped_destroy(&t);
	rc_close(&rc);
	exit(0);
}

static void test_access(const char *kind)
{
	bool mapped = strcmp(kind, "PRIVATE") != 0 && strcmp(kind, "CLOSED") != 0;
	const char *name = strcmp(kind, "DM") == 0    ? "verbena:dm"
			   : strcmp(kind, "BUF") == 0 ? "verbena-buf"
						      : MAPPED_NAME;
	struct rc_addr at;
	struct rc rc;
	pid_t owner;
	int sock;

	owner = mapped_start(&rc, checking_owner, kind, &sock);
	at = mapped_recv_addr(sock);
	mapped_work(&rc, &at, 0);
	CHECK_EQ(count_mappings(name), mapped);
	child_stop(owner);
	mapped_work(&rc, &at, MAPPED_ROUNDS);
	CHECK(kill(owner, SIGCONT) == 0);
	CHECK_EQ(count_mappings(name), mapped);
	CHECK(write(sock, "G", 1) == 1);
	mapped_join(owner);
	rc_close(&rc);
	CHECK_EQ(count_mappings(name), 0);
}

/* ---- COUNT ---- */

static void counting_owner(const char *kind, int sock)
{
	struct rc_addr peer;
	struct mapped t;
	uint64_t *word;
	struct rc rc;
	char go;

	mapped_open(&rc, sock, &peer);
	mapped_create(&rc, &t, kind);
	word = (uint64_t *)(t.mem + MAPPED_OFFSET);
	mapped_send_addr(&t, sock);
	while (__atomic_load_n(word, __ATOMIC_SEQ_CST) == 0)
		;
	for (int i = 0; i < COUNTS; i++)
		__atomic_fetch_add(word, 1, __ATOMIC_SEQ_CST);
	CHECK(read(sock, &go, 1) == 1);
	CHECK_EQ(*word, 2 * COUNTS);
	mapped_destroy(&t);
	rc_close(&rc);
	exit(0);
}

/* Returns the value that was found: the swap has happened if it is `compare`. */
static uint64_t swap(struct rc *rc, const struct rc_addr *at, uint64_t compare, uint64_t swap)
{
	struct ibv_sge sge = { (uintptr_t)rc->buf, sizeof(uint64_t), rc->mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_ATOMIC_CMP_AND_SWP,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.atomic = { at->addr, compare, swap, at->rkey },
	};
	struct ibv_wc wc;
	uint64_t found;

	CHECK(ibv_post_send(rc->qp, &wr, &bad) == 0);
	wc = rc_wait(rc);
	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	CHECK_EQ(wc.opcode, IBV_WC_COMP_SWAP);
	CHECK_EQ(wc.byte_len, sizeof(found));
	memcpy(&found, rc->buf, sizeof(found));
	return found;
}

static void test_count(void)
{
	uint64_t before, found;
	struct rc_addr at;
	struct rc rc;
	pid_t owner;
	int sock;

	owner = mapped_start(&rc, counting_owner, "MEMFD", &sock);
	at = mapped_recv_addr(sock);
	for (int i = 0; i < COUNTS; i += 2) {
		before = mapped_fetch_add(&rc, &at) + 1;
		while ((found = swap(&rc, &at, before, before + 1)) != before)
			before = found;
	}
	CHECK(write(sock, "G", 1) == 1);
	mapped_join(owner);
	rc_close(&rc);
}

/* ---- REREG ---- */

static void map_at(void *at, int flags, int fd)
{
	const int prot = PROT_READ | PROT_WRITE;

	CHECK(mmap(at, MAPPED_SIZE, prot, flags | MAP_FIXED, fd, 0) == at);
}

static void move_to(struct mapped *t, void *at)
{
	CHECK(ibv_rereg_mr(t->mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, at, MAPPED_SIZE, 0) == 0);
}

static void moving_owner(const char *kind, int sock)
{
	struct rc_addr peer;
	struct mapped t;
	uint8_t *next;
	struct rc rc;
	int fd;

	mapped_open(&rc, sock, &peer);
	mapped_create(&rc, &t, kind);
	fd = memfd_create(MAPPED_NAME, MFD_CLOEXEC);
	next = mapped_file(fd);
	mapped_send_addr(&t, sock);
	rc_barrier(sock);
	CHECK_EQ(t.mem[MAPPED_OFFSET], 1);
	/*
	 * To another file, then to the first one mapped at the same address. The rkey stays the
	 * same.
	 */
	move_to(&t, next);
	t.addr = (uintptr_t)next;
	mapped_send_addr(&t, sock);
	rc_barrier(sock);
	CHECK_EQ(t.mem[MAPPED_OFFSET], 1);
	CHECK_EQ(next[MAPPED_OFFSET], 2);
	map_at(next, MAP_SHARED, t.fd);
	move_to(&t, next);
	mapped_send_addr(&t, sock);
	rc_barrier(sock);
	CHECK_EQ(t.mem[MAPPED_OFFSET], 3);
	/* To private memory at the same address. */
	map_at(next, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	move_to(&t, next);
	mapped_send_addr(&t, sock);
	rc_barrier(sock);
	CHECK_EQ(t.mem[MAPPED_OFFSET], 3);
	CHECK_EQ(next[MAPPED_OFFSET], 4);
	mapped_destroy(&t);
	rc_close(&rc);
	exit(0);
}

static void test_rereg(void)
{
	struct rc rc;
	pid_t owner;
	int sock;

	owner = mapped_start(&rc, moving_owner, "MEMFD", &sock);
	for (int i = 1; i <= 4; i++) {
		struct rc_addr at = mapped_recv_addr(sock);

		/* Enough requests that the library maps the region. */
		rc.buf[0] = i;
		for (int n = 0; n < MAPPED_ROUNDS; n++)
			CHECK_EQ(mapped_request(&rc, IBV_WR_RDMA_WRITE, 1, at, 0).status,
				 IBV_WC_SUCCESS);
		if (i < 4)
			CHECK_EQ(count_mappings(MAPPED_NAME), 1);
		rc_barrier(sock);
	}
	mapped_join(owner);
	rc_close(&rc);
}

/* ---- HOLE ---- */

/*
 * Another thread of the process may map a page of its own where one was unmapped, and the peer
 * would write to that: the page stays taken, with no access.
 */
static void make_hole(uint8_t *page)
{
	CHECK(mmap(page, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == page);
}

/* kind: "early" makes the hole before the writer knows the region. */
static void holed_owner(const char *kind, int sock)
{
	bool early = strcmp(kind, "early") == 0;
	struct rc_addr peer;
	struct mapped t;
	struct rc rc;
	uint8_t byte;

	mapped_open(&rc, sock, &peer);
	mapped_create(&rc, &t, "MEMFD");
	if (early)
		make_hole(t.mem + HOLE);
	mapped_send_addr(&t, sock);
	rc_barrier(sock);
	if (!early)
		make_hole(t.mem + HOLE);
	rc_barrier(sock);
	rc_barrier(sock);
	CHECK_EQ(t.mem[MAPPED_OFFSET + AFTER], 3);
	CHECK(pread(t.fd, &byte, 1, HOLE + MAPPED_OFFSET) == 1);
	CHECK_EQ(byte, early ? 0 : 5);
	mapped_destroy(&t);
	rc_close(&rc);
	exit(0);
}

static void write_byte(struct rc *rc, const struct rc_addr *at, uint64_t offset, uint8_t byte,
		       enum ibv_wc_status status)
{
	rc->buf[0] = byte;
	CHECK_EQ(mapped_request(rc, IBV_WR_RDMA_WRITE, 1, *at, offset).status, status);
}

/* As on an adapter, a mapping has the pages that were there when it was made. */
static void test_hole(const char *when)
{
	bool early = strcmp(when, "early") == 0;
	struct rc_addr at;
	struct rc rc;
	pid_t owner;
	int sock;

	owner = mapped_start(&rc, holed_owner, when, &sock);
	at = mapped_recv_addr(sock);
	for (int i = 0; i < MAPPED_ROUNDS; i++)
		write_byte(&rc, &at, 0, 1, IBV_WC_SUCCESS);
	CHECK_EQ(count_mappings(MAPPED_NAME), early ? 0 : 1);
	rc_barrier(sock);
	rc_barrier(sock);
	write_byte(&rc, &at, AFTER, 3, IBV_WC_SUCCESS);
	write_byte(&rc, &at, HOLE, 5, early ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS);
	rc_barrier(sock);
	mapped_join(owner);
	rc_close(&rc);
}

/* ---- ODD ---- */

static void skewed_owner(const char *kind, int sock)
{
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC |
			   IBV_ACCESS_ZERO_BASED;
	struct mapped t, skewed = { .addr = 0ull - MAPPED_OFFSET };
	struct rc_addr peer;
	uint64_t word;
	struct rc rc;

	mapped_open(&rc, sock, &peer);
	mapped_create(&rc, &t, kind);
	skewed.mr = ibv_reg_mr(rc.pd, t.mem + SKEW, PAGE, access);
	CHECK(skewed.mr);
	skewed.rkey = skewed.mr->rkey;
	mapped_send_addr(&t, sock);
	rc_barrier(sock);
	memset(t.mem, 0, PAGE);
	mapped_send_addr(&skewed, sock);
	rc_barrier(sock);
	memcpy(&word, t.mem + SKEW, sizeof(word));
	CHECK_EQ(word, MAPPED_ROUNDS);
	memcpy(&word, t.mem + SKEW + sizeof(word), sizeof(word));
	CHECK_EQ(word, 0);
	mapped_destroy(&skewed);
	mapped_destroy(&t);
	rc_close(&rc);
	exit(0);
}

static void write_and_read(struct rc *rc, const struct rc_addr *at, uint64_t offset, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		rc->buf[i] = i * 7 + len;
	CHECK_EQ(mapped_request(rc, IBV_WR_RDMA_WRITE, len, *at, offset).status, IBV_WC_SUCCESS);
	memset(rc->buf, 0, len);
	CHECK_EQ(mapped_request(rc, IBV_WR_RDMA_READ, len, *at, offset).status, IBV_WC_SUCCESS);
	for (uint32_t i = 0; i < len; i++)
		CHECK_EQ((uint8_t)rc->buf[i], (uint8_t)(i * 7 + len));
}

static void test_odd(void)
{
	static const uint32_t lengths[] = { 1, 2, 3, 7, 9, 63, 65, 1031, PAGE - 1, PAGE + 1,
					    5 * PAGE + 3 };
	struct rc_addr at;
	struct rc rc;
	pid_t owner;
	int sock;

	owner = mapped_start(&rc, skewed_owner, "MEMFD", &sock);
	at = mapped_recv_addr(sock);
	for (unsigned int i = 0; i < ARRAY_SIZE(lengths); i++) {
		for (uint64_t offset = 0; offset < 9; offset++)
			write_and_read(&rc, &at, PAGE - 29 + offset, lengths[i]);
	}
	CHECK_EQ(count_mappings(MAPPED_NAME), 1);
	rc_barrier(sock);
	at = mapped_recv_addr(sock);
	for (uint64_t i = 0; i < MAPPED_ROUNDS; i++)
		CHECK_EQ(mapped_fetch_add(&rc, &at), i);
	at.addr += SKEW;
	CHECK(rc_post_fetch_add(&rc, rc.qp, 1, &at, 0) == 0);
	CHECK_EQ(rc_wait(&rc).status, IBV_WC_REM_INV_REQ_ERR);
	rc_barrier(sock);
	mapped_join(owner);
	rc_close(&rc);
}

/* ---- SELF ---- */

static void *add_repeatedly(void *arg)
{
	uint64_t *word = arg;

	for (int i = 0; i < COUNTS; i++)
		__atomic_fetch_add(word, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

static void test_self(void)
{
	struct rc_addr a, b, at;
	struct ibv_qp *other;
	pthread_t thread;
	uint64_t *word;
	struct rc rc;

	rc_open(&rc, MAPPED_SIZE);
	other = rc_new_qp(&rc);
	a = rc_address(&rc, rc.qp);
	b = rc_address(&rc, other);
	rc_connect(&rc, rc.qp, &b, MAPPED_TIMEOUT, MAPPED_RETRIES);
	rc_connect(&rc, other, &a, MAPPED_TIMEOUT, MAPPED_RETRIES);
	at = b;
	at.addr += MAPPED_OFFSET;
	mapped_work(&rc, &at, 0);
	word = (uint64_t *)(rc.buf + MAPPED_OFFSET);
	*word = 0;
	CHECK(pthread_create(&thread, NULL, add_repeatedly, word) == 0);
	for (int i = 0; i < COUNTS; i++)
		mapped_fetch_add(&rc, &at);
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK_EQ(*word, 2 * COUNTS);
	CHECK(ibv_destroy_qp(other) == 0);
	rc_close(&rc);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "MEMFD";

	alarm(RC_LIMIT_S);
	if (strcmp(what, "COUNT") == 0)
		test_count();
	else if (strcmp(what, "REREG") == 0)
		test_rereg();
	else if (strcmp(what, "HOLE") == 0) {
		test_hole("early");
		test_hole("late");
	} else if (strcmp(what, "ODD") == 0)
		test_odd();
	else if (strcmp(what, "SELF") == 0)
		test_self();
	else
		test_access(what);
	return 0;
}
