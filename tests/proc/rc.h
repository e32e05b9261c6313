/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One RC queue pair and all its objects on the loopback device, for tests of several processes. No
 * function returns an error: CHECK prints the failure and ends the test, also with NDEBUG.
 */
#ifndef TESTS_PROC_RC_H
#define TESTS_PROC_RC_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "check.h"

enum { RC_DEPTH = 64 };

/* For alarm(): long enough for a slow machine, only ends a test that hangs. run.py waits longer. */
#define RC_LIMIT_S (200 * test_slower())

struct rc {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq; /* of sends and receives */
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	char *buf;
	size_t size;
	bool shared; /* buf is a mapping of a file, see rc_share() */
	union ibv_gid gid;
	int gid_index;
	enum ibv_mtu mtu;
};

/* What the peer needs to connect and to access buf. Processes exchange it through a socket. */
struct rc_addr {
	union ibv_gid gid;
	uint64_t addr;
	uint32_t rkey;
	uint32_t qpn;
};

/* Opens the loopback device and creates all objects, with a QP in INIT. */
void rc_open(struct rc *rc, size_t size);

/* The same on the device that has this address. */
void rc_open_at(struct rc *rc, size_t size, const union ibv_gid *gid);

/*
 * Replaces the buffer by the memory of a memfd, which other processes can map. No work request may
 * be outstanding.
 */
void rc_share(struct rc *rc);

/* A second QP on the same device and CQ, in INIT. */
struct ibv_qp *rc_new_qp(struct rc *rc);

/* As rc_new_qp(), but requests complete only if they are signaled. */
struct ibv_qp *rc_new_quiet_qp(struct rc *rc);

struct rc_addr rc_address(const struct rc *rc, const struct ibv_qp *qp);

/* A barrier of two processes: returns when both ends of the socket have called it. */
void rc_barrier(int sock);

/*
 * Exchanges addresses with the process at the other end of the socket, connects rc->qp to that
 * process's QP, and waits until both are connected.
 */
void rc_pair(struct rc *rc, int sock, struct rc_addr *peer, uint8_t timeout, uint8_t retry_cnt);

/* INIT to RTR: the attributes, and the transition. */
struct ibv_qp_attr rc_rtr_attr(const struct rc *rc, const struct rc_addr *peer);
void rc_to_rtr(struct rc *rc, struct ibv_qp *qp, const struct rc_addr *peer);

/* INIT to RTS.  timeout and retry_cnt as in struct ibv_qp_attr. */
void rc_connect(struct rc *rc, struct ibv_qp *qp, const struct rc_addr *peer, uint8_t timeout,
		uint8_t retry_cnt);

void rc_post_recv(struct rc *rc, struct ibv_qp *qp, uint64_t wr_id);

/* Returns what ibv_post_send() returned. */
int rc_post_send(struct rc *rc, struct ibv_qp *qp, enum ibv_wr_opcode opcode, uint32_t len,
		 const struct rc_addr *peer, uint64_t wr_id);

/*
 * FETCH_AND_ADD of `add` at the start of the peer's buffer; the old value goes to the start of
 * rc's.
 */
int rc_post_fetch_add(struct rc *rc, struct ibv_qp *qp, uint64_t add, const struct rc_addr *peer,
		      uint64_t wr_id);

/* Polls until there is a completion. */
struct ibv_wc rc_wait(struct rc *rc);

/*
 * Polls, and finds nothing, until the other end of the socket calls rc_tell(): without a progress
 * thread nothing else sends a delayed ACK.
 */
void rc_poll_until_told(struct rc *rc, int sock);
void rc_tell(int sock);

enum ibv_qp_state rc_state(struct ibv_qp *qp);

/* Destroys all objects except other QPs of rc_new_qp(); each step must succeed. */
void rc_close(struct rc *rc);

/* Counts the slot files in the run directory and prints their names. */
int rc_slot_files(void);

#endif
