/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by the tests of the public API: a device, memory, and queue pairs connected to each other
 * within the process. Every error fails the test; no wait is longer than WORLD_LIMIT_S seconds.
 */
#ifndef TESTS_VERBS_WORLD_H
#define TESTS_VERBS_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "check.h"

enum {
	WORLD_LIMIT_S = 20,
	WORLD_QKEY = 0x11223344,
	WORLD_PSN = 0xfffff0,	/* so that every test crosses the end of the PSN space */
	WORLD_ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		       IBV_ACCESS_REMOTE_ATOMIC,
};

struct world {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	union ibv_gid gid;
	int gid_index;
	struct ibv_port_attr port;
};

struct buffer {
	uint8_t *data;
	size_t len;
	struct ibv_mr *mr;
};

/* Opens the loopback device, which exists on every host. */
void world_open(struct world *w);
void world_close(struct world *w);

struct buffer world_buffer(struct world *w, size_t len, int access);
void world_free(struct buffer *b);

/* Destroys two QPs, then their CQs. */
void world_destroy_pair(struct ibv_qp *a, struct ibv_qp *b, struct ibv_cq *cq_a,
			struct ibv_cq *cq_b);

struct ibv_sge world_sge(const struct buffer *b, size_t offset, uint32_t len);

struct ibv_cq *world_cq(struct world *w, int cqe);

/* A QP with room for 16 requests of 4 SGEs each way, and 64 bytes inline. */
struct ibv_qp *world_qp(struct world *w, enum ibv_qp_type type, struct ibv_cq *cq,
			struct ibv_srq *srq);

/* Returns the attribute mask, and the attributes, of the transition to a state. peer: QP number. */
int world_attr(struct world *w, enum ibv_qp_type type, enum ibv_qp_state next, uint32_t peer,
	       struct ibv_qp_attr *attr);
void world_move(struct world *w, struct ibv_qp *qp, enum ibv_qp_state next, uint32_t peer);

/* Takes both to RTS, connected to each other; a may equal b. */
void world_connect(struct world *w, struct ibv_qp *a, struct ibv_qp *b);

/* Polls until n completions have arrived. */
void world_poll(struct ibv_cq *cq, struct ibv_wc *wc, int n);

/* Polls one completion and checks it. */
struct ibv_wc world_expect(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status);

/* Posts one request; posting must succeed. */
void world_send(struct ibv_qp *qp, uint64_t wr_id, struct ibv_sge sge);
void world_recv(struct ibv_qp *qp, uint64_t wr_id, struct ibv_sge sge);

/* An RDMA request of any kind. */
struct ibv_send_wr world_rdma(enum ibv_wr_opcode opcode, uint64_t wr_id, struct ibv_sge *sge,
			      const struct buffer *remote, size_t offset);
void world_post(struct ibv_qp *qp, struct ibv_send_wr *wr);

/* Waits for the next asynchronous event, checks its type and acknowledges it. */
void world_event(struct world *w, enum ibv_event_type type);

/* Returns whether an asynchronous event is pending. */
bool world_has_event(struct world *w);

/* A QP whose n receives, numbered from 0, were flushed: the simplest way to get completions. */
struct ibv_qp *world_flushed(struct world *w, struct ibv_cq *cq, int n);

#endif
