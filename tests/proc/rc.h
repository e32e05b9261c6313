/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One RC queue pair with all that hangs on it, for tests of several processes on the loopback
 * device. Nothing here returns an error: CHECK prints what is wrong and ends the test, also with
 * NDEBUG.
 */
#ifndef TESTS_PROC_RC_H
#define TESTS_PROC_RC_H

#include <stdint.h>

#include <infiniband/verbs.h>

#include "check.h"

enum { RC_DEPTH = 64 };

/* For alarm(): ends what hangs, not what is slow. run.py waits longer. */
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
	union ibv_gid gid;
	int gid_index;
	enum ibv_mtu mtu;
};

/* What the other side must know; travels between processes of one program as it is. */
struct rc_addr {
	union ibv_gid gid;
	uint64_t addr;
	uint32_t rkey;
	uint32_t qpn;
};

/* Opens the loopback device and makes everything up to a QP in INIT. */
void rc_open(struct rc *rc, size_t size);

/* The same on the device that has this address. */
void rc_open_at(struct rc *rc, size_t size, const union ibv_gid *gid);

/* A second QP on the same device and CQ, in INIT. */
struct ibv_qp *rc_new_qp(struct rc *rc);

struct rc_addr rc_address(const struct rc *rc, const struct ibv_qp *qp);

/* A byte each way: when it returns the other side has come here, too. */
void rc_meet(int sock);

/*
 * Tells the process at the other end of the socket of rc->qp, connects it to what that process
 * tells, and waits until both have.
 */
void rc_pair(struct rc *rc, int sock, struct rc_addr *peer, uint8_t timeout, uint8_t retry_cnt);

/* INIT to RTR: the attributes, and the move. */
struct ibv_qp_attr rc_receive_attr(const struct rc *rc, const struct rc_addr *peer);
void rc_receive_from(struct rc *rc, struct ibv_qp *qp, const struct rc_addr *peer);

/* INIT to RTS.  timeout and retry_cnt as in struct ibv_qp_attr. */
void rc_connect(struct rc *rc, struct ibv_qp *qp, const struct rc_addr *peer, uint8_t timeout,
		uint8_t retry_cnt);

void rc_post_recv(struct rc *rc, struct ibv_qp *qp, uint64_t wr_id);

/* Returns what ibv_post_send() returned. */
int rc_post_send(struct rc *rc, struct ibv_qp *qp, enum ibv_wr_opcode opcode, uint32_t len,
		 const struct rc_addr *peer, uint64_t wr_id);

/*
 * FETCH_AND_ADD of `add` at the start of the peer's buffer, the value found goes to the start of
 * ours.
 */
int rc_post_fetch_add(struct rc *rc, struct ibv_qp *qp, uint64_t add, const struct rc_addr *peer,
		      uint64_t wr_id);

/* Polls until a completion comes. */
struct ibv_wc rc_wait(struct rc *rc);

enum ibv_qp_state rc_state(struct ibv_qp *qp);

/* Destroys everything but further QPs; each step must succeed. */
void rc_close(struct rc *rc);

/* How many files of slots are in the run directory; prints their names. */
int rc_slot_files(void);

#endif
