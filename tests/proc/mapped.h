/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two processes, for tests of registered memory that its owner shares through a file. A child owns
 * the memory; the test's process, the writer, writes to it, reads it and executes atomics on it. As
 * in rc.h, no function returns an error.
 */
#ifndef TESTS_PROC_MAPPED_H
#define TESTS_PROC_MAPPED_H

#include <stdint.h>
#include <sys/types.h>

#include "rc.h"

/* A part of the file's name in /proc/PID/maps. */
#define MAPPED_NAME "vrb-mapped"

enum {
	MAPPED_SIZE = 64 * 1024,
	MAPPED_OFFSET = 24, /* of the test's words in the region */
	MAPPED_ROUNDS = 100,
	MAPPED_TIMEOUT = 12, /* of queue pairs */
	MAPPED_RETRIES = 3,
};

/* ---- the owner ---- */

struct mapped {
	int fd;
	uint8_t *mem;		/* NULL: device memory */
	uint64_t addr;          /* the remote address of its start */
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct ibv_dm *dm;
	struct ibv_buf *buf;
	uint32_t rkey;
};

/* In the child, first: opens the device and connects a QP to the peer's. */
void mapped_open(struct rc *rc, int sock, struct rc_addr *peer);

/* Allocates and registers memory of a kind, an argument of mapped_region_test.c. */
void mapped_create(struct rc *rc, struct mapped *t, const char *kind);
void mapped_bind_window(struct rc *rc, struct mapped *t);
void mapped_destroy(struct mapped *t);

/* Sets the size of a file and maps it. */
uint8_t *mapped_file(int fd);

/* Removes the file of kind SHM. */
void mapped_unlink(void);

void mapped_read(const struct mapped *t, uint64_t offset, void *to, size_t len);

/* Sends the region's address and rkey to the writer. */
void mapped_send_addr(const struct mapped *t, int sock);

/* ---- the writer ---- */

/* Starts a child that runs fn(kind, socket); *sock is the other end. */
pid_t mapped_spawn(void (*fn)(const char *kind, int sock), const char *kind, int *sock);
void mapped_join(pid_t child);

/* Skips the test where the kernel refuses cross-memory attach. */
void mapped_require_attach(pid_t owner, const struct rc_addr *peer);

/* All of that: starts an owner that runs fn(kind, socket) and connects a QP to the owner's. */
pid_t mapped_start(struct rc *rc, void (*fn)(const char *kind, int sock), const char *kind,
		   int *sock);

/* What mapped_send_addr() sent. */
struct rc_addr mapped_recv_addr(int sock);

struct ibv_wc mapped_request(struct rc *rc, enum ibv_wr_opcode opcode, uint32_t len,
			     struct rc_addr at, uint64_t offset);
uint64_t mapped_fetch_add(struct rc *rc, const struct rc_addr *at);

/* MAPPED_ROUNDS times: increments the first word, from `first`; writes and reads the second. */
void mapped_work(struct rc *rc, const struct rc_addr *at, uint64_t first);

/* Counts this process's mappings of files whose names contain a text. */
int count_mappings(const char *of);

#endif
