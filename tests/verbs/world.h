/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the tests of the public API share: a device, memory, and queue pairs that are connected to
 * each other within the process. Everything fails the test by itself; nothing waits longer than
 * WORLD_LIMIT_S seconds.
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

/* Opens the loopback device, which every host has. */
void world_open(struct world *w);
void world_close(struct world *w);

struct buffer world_buffer(struct world *w, size_t len, int access);
void world_free(struct buffer *b);
struct ibv_sge world_sge(const struct buffer *b, size_t offset, uint32_t len);

struct ibv_cq *world_cq(struct world *w, int cqe);

/* A QP with room for 16 requests of 4 SGEs each way and 64 bytes inline. */
struct ibv_qp *world_qp(struct world *w, enum ibv_qp_type type, struct ibv_cq *cq,
			struct ibv_srq *srq);

/* The attributes that take a QP of the type to a state, and their mask. peer: QP number. */
int world_attr(struct world *w, enum ibv_qp_type type, enum ibv_qp_state next, uint32_t peer,
	       struct ibv_qp_attr *attr);
void world_move(struct world *w, struct ibv_qp *qp, enum ibv_qp_state next, uint32_t peer);

/* Both to RTS, talking to each other; or one to itself. */
void world_connect(struct world *w, struct ibv_qp *a, struct ibv_qp *b);

/* Polls until n completions are there. */
void world_poll(struct ibv_cq *cq, struct ibv_wc *wc, int n);

/* Polls one and checks it. */
struct ibv_wc world_expect(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status);

/* One request each; posting must succeed. */
void world_send(struct ibv_qp *qp, uint64_t wr_id, struct ibv_sge sge);
void world_recv(struct ibv_qp *qp, uint64_t wr_id, struct ibv_sge sge);

/* An RDMA request of any kind. */
struct ibv_send_wr world_rdma(enum ibv_wr_opcode opcode, uint64_t wr_id, struct ibv_sge *sge,
			      const struct buffer *remote, size_t offset);
void world_post(struct ibv_qp *qp, struct ibv_send_wr *wr);

/* Waits for the next asynchronous event, checks its type and acknowledges it. */
void world_event(struct world *w, enum ibv_event_type type);

/* True if an asynchronous event is waiting. */
bool world_has_event(struct world *w);

/* A QP whose n receives, numbered from 0, were flushed: the simplest completions there are. */
struct ibv_qp *world_flushed(struct world *w, struct ibv_cq *cq, int n);

#endif
