/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A simulated host: the environment of engine QPs that core would provide. It has one memory image,
 * keys with access rights and receive queues, and records completions and events in order. Its
 * struct wq_ops are strict: a call that the engine must not make ends the run.
 */
#ifndef SIM_HOST_H
#define SIM_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/path_flows.h"
#include "roce/delayed_ack.h"
#include "roce/engine.h"
#include "wq/qp.h"

struct world;

enum { SIM_MAX_SGE = 8, SIM_MAX_KEYS = 128, SIM_MAX_QPS = 64, SIM_MAX_INLINE = 512 };

/* A region (both keys) or a window (rkey only). */
struct sim_key {
	uint32_t lkey, rkey;
	uint64_t va, len;
	uint32_t access;	/* IBV_ACCESS_* */
	uint32_t pd;
	uint32_t only_qpn;	/* type 2B window: its QP; 0 = any */
	bool window;
	bool valid;
	bool fake; /* no memory: reads return a pattern, writes are compared with it */
};

struct sim_cqes {
	struct wq_cqe *v;
	uint32_t n, cap;
};

struct sim_srq {
	uint32_t number;	/* for XRC */
	uint32_t xrcd;
	struct recv_wqe **wqe; /* all that were ever posted, in order */
	uint32_t n, cap, next;
};

struct sim_qp {
	struct wq_qp wq;
	struct roce_qp roce;
	struct roce_ud ud;
	struct roce_rd_atomic rd_atomic[ROCE_MAX_RD_ATOMIC];
	struct sim_host *host;
	struct sim_srq *srq;
	uint32_t pd;
	struct recv_wqe *taken;
	struct sim_cqes send_cqes, recv_cqes;
	uint32_t events[32];		/* count per enum ibv_event_type */
	bool progressed;                /* completions since the last call of world->progress */
	bool kick_pending;
	bool holds; /* keeps requests that arrive after a gap */
	struct reorder_queue *held;
	bool delays_acks;		/* an ACK may wait for the program's reply */
	struct roce_delayed_ack delayed_ack;
	/* ACKs that waited for a reply, and those that got none in time */
	uint32_t acks_delayed, acks_overdue;
	struct path_ref share;
	uint64_t binds, invalidations, flushes;
	void *user;
};

struct sim_host {
	struct world *world;
	uint32_t number;
	struct net_addr addr, second_addr;
	uint8_t *mem;
	uint64_t base;			/* va of mem[0] */
	uint64_t size;
	struct sim_key key[SIM_MAX_KEYS];
	uint32_t nkeys;
	struct sim_qp *qp[SIM_MAX_QPS];
	uint32_t nqps;
	struct sim_srq *srq[4];
	uint32_t nsrqs;
	uint64_t fake_bytes_written;
	struct path_table shares; /* the QPs that share each path */
};

extern const struct wq_ops sim_ops;

/* Both return the new key, an element of host->key. Keys are random and unique. */
struct sim_key *sim_reg_mr(struct sim_host *h, uint32_t pd, uint64_t va, uint64_t len,
			   uint32_t access);
struct sim_key *sim_bind_window(struct sim_host *h, uint32_t pd, uint64_t va, uint64_t len,
				uint32_t access, uint32_t only_qpn);

static inline uint8_t *sim_ptr(struct sim_host *h, uint64_t va)
{
	return h->mem + (va - h->base);
}

/* The byte that a fake region holds at va. */
static inline uint8_t sim_fake_byte(uint64_t va)
{
	return va * 0x9e3779b1u >> 24;
}

struct sim_srq *sim_create_srq(struct sim_host *h, uint32_t number, uint32_t xrcd);
void sim_host_free(struct sim_host *h);

#endif
