/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by the tests of tag matching: a sender and a receiver in one process, with buffers for
 * tags and for ordinary receives, and the message headers.
 */
#ifndef TESTS_VERBS_TAGS_BENCH_H
#define TESTS_VERBS_TAGS_BENCH_H

#include <infiniband/tm_types.h>

#include "world.h"

#define FULL_MASK UINT64_MAX

enum {
	TAGS = 32,
	OPS = 16,
	ORDINARY = 24,
	ORDINARY_LEN = 8192,
	MEM = 4 << 20,
	TMH = sizeof(struct ibv_tmh),
	REQUEST = sizeof(struct ibv_tmh) + sizeof(struct ibv_rvh),
	ORDINARY_ID = 1000,	/* wr_id of the first ordinary receive */
	FIN_ID = 500,
	PRIV = 0x00c0ffee,
	MATCH = IBV_WC_TM_MATCH,
	VALID = IBV_WC_TM_DATA_VALID,
	BOTH = MATCH | VALID,
};

/* A sender, and a receiver with tag matching. */
struct bench {
	struct world w;
	struct ibv_cq *send_cq;		/* the sender's */
	struct ibv_cq_ex *tag_cq;
	struct ibv_srq *srq;
	struct ibv_qp *from, *to;
	struct buffer src, dst, ordinary;
	enum ibv_mtu mtu;
	uint8_t rnr_retry, timeout, rd_atomic;	/* of both; of the receiver */
	uint16_t unexpected;		/* unexpected messages that the test has seen */
};

/* A completion of the SRQ's CQ. */
struct seen {
	uint64_t wr_id;
	enum ibv_wc_status status;
	enum ibv_wc_opcode opcode;
	unsigned int flags;
	uint32_t byte_len, imm, qp_num, vendor_err;
	struct ibv_wc_tm_info info;
};

/* ---- objects */

/*
 * Opens everything with `ordinary` receives posted; the QPs are in RESET. max_send_wr: of the
 * receiver; 0 leaves rendezvous to the device.
 */
void bench_open(struct bench *b, uint32_t max_send_wr, unsigned int ordinary);
void bench_close(struct bench *b);

/* The attributes that the SRQ is created with. */
struct ibv_srq_init_attr_ex srq_attr(struct bench *b);
struct ibv_qp *new_receiver(struct bench *b, uint32_t max_send_wr);
void post_ordinary(struct bench *b, unsigned int i);

/* Uses mtu, rnr_retry, timeout and rd_atomic of the bench. */
void move_qp(struct bench *b, struct ibv_qp *qp, enum ibv_qp_state to, uint32_t peer);
void connect_qps(struct bench *b);
void expect_dead(struct bench *b, struct ibv_qp *qp);

/* ---- completions of the SRQ's CQ */

bool try_poll(struct bench *b, struct seen *s);

/* Waits for one; counts unexpected messages. */
struct seen next_seen(struct bench *b);
struct seen expect(struct bench *b, uint64_t wr_id, enum ibv_wc_opcode opcode, unsigned int flags);
struct seen expect_error(struct bench *b, uint64_t wr_id, enum ibv_wc_status status);
void expect_nothing(struct bench *b);

/* ---- operations: wr_id 77, in step with the unexpected messages seen so far */

struct ibv_ops_wr make_op(struct bench *b, enum ibv_ops_wr_opcode opcode, int flags);
struct ibv_ops_wr tag_at(struct bench *b, uint64_t wr_id, uint64_t tag, uint64_t mask,
			 struct ibv_sge *sge);
int post_op(struct bench *b, struct ibv_ops_wr *wr);

/* Posts one and takes its completion; add_tag(): for `len` bytes at `offset` of dst. */
struct seen run_op(struct bench *b, enum ibv_ops_wr_opcode opcode, uint32_t handle);
uint32_t add_tag(struct bench *b, uint64_t wr_id, uint64_t tag, uint64_t mask, size_t offset,
		 uint32_t len);

/* ---- messages, from the beginning of src */

struct ibv_tmh *put_tmh(struct bench *b, uint8_t opcode, uint64_t tag);

/* These send and wait for the completion: `len` bytes that already begin with a header; */
void send_raw(struct bench *b, uint32_t len);

/* a header and `payload` bytes; */
void send_tag(struct bench *b, uint8_t opcode, uint64_t tag, uint32_t payload);

/* a request for `len` bytes at `offset` of src, followed by `more` bytes. */
void send_request(struct bench *b, uint64_t tag, size_t offset, uint32_t len, uint32_t more);

/* Posts a receive for the FIN of the i-th request. */
void post_fin(struct bench *b, unsigned int i);
void expect_fin(struct bench *b, unsigned int i, uint64_t tag, uint32_t len);

#endif
