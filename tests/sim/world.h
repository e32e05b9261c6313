/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The simulation: hosts with engine QPs, a simulated network, and a virtual clock that jumps to the
 * next event.
 *
 * A run is one world. Its seed determines all that is random. A check that fails prints the seed
 * and the trace and fails the cmocka test.
 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "host.h"
#include "net.h"
#include "rand.h"
#include "trace.h"
#include "util/compiler.h"
#include "util/time.h"

struct world;

typedef void world_fn(struct world *w, void *arg);

struct world_event {
	uint64_t time;
	uint64_t order;
	enum { EV_SWITCH, EV_ARRIVE, EV_CALL } kind;
	struct net_packet *pkt;
	world_fn *fn;
	void *arg;
};

struct world {
	const char *name;
	uint64_t seed;
	uint64_t now;
	struct rng rng;
	struct net net;
	struct trace *trace;
	struct world_event *heap;
	uint32_t heap_n, heap_cap;
	uint64_t order, serial, steps;
	uint64_t max_steps; /* limit of events, to end a run that would not end */
	uint64_t last_cqe;  /* time of the newest completion */
	struct sim_host *host[NET_MAX_HOSTS];
	uint32_t nhosts;
	bool skip_icrc; /* for tests that transfer gigabytes */
	bool ipv6;
	uint64_t answer_delay; /* ns, maximum of a random delay before a QP's answers */
	/*
	 * ns; a host merges the packets of a run that arrive within this time after its first, as a
	 * socket or an interface does
	 */
	uint64_t merge;
	/* Called outside the engine after a QP had completions; may post more. */
	void (*progress)(struct world *w, struct sim_qp *qp);
	/* Called for every packet that a QP sends. */
	void (*tap)(struct world *w, const struct net_packet *p, const struct roce_pkt *pkt);
	void *user;
};

struct world *world_new(const char *name, uint64_t seed, const struct net_config *cfg);
void world_free(struct world *w);

/* Ends the run: message, seed, trace, test failure. */
_Noreturn void world_fail(struct world *w, const char *fmt, ...) format_printf(2, 3);
#define world_check(w, cond, ...)                                                                  \
	do {                                                                                       \
		if (!(cond))                                                                       \
			world_fail((w), __VA_ARGS__);                                              \
	} while (0)

struct sim_host *world_add_host(struct world *w, uint64_t mem_size);

struct sim_qp_attr {
	enum ibv_qp_type type;
	uint32_t mtu;
	uint32_t sq_depth, rq_depth;	/* any number; rings are the next power of two */
	uint32_t max_sge;
	uint8_t max_rd_atomic, max_dest_rd_atomic;
	uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer;
	uint32_t access;
	bool sig_all;
	bool goes_back; /* packets after a gap are not kept */
	struct sim_srq *srq;
	uint32_t pd;
	uint32_t xrcd;
};

/*
 * Defaults: RC, MTU 1024, depth 64, 16 READs, timeout 8 (1 ms), 7 retries, unlimited RNR retries.
 */
struct sim_qp_attr sim_qp_defaults(void);

struct sim_qp *sim_create_qp(struct sim_host *h, const struct sim_qp_attr *attr);

/* RESET -> INIT -> RTR [-> RTS] towards a peer. */
void sim_to_rtr(struct sim_qp *qp, const struct sim_qp *peer, uint32_t rq_psn);
void sim_to_rts(struct sim_qp *qp, uint32_t sq_psn);
void sim_connect(struct sim_qp *a, uint32_t a_psn, struct sim_qp *b, uint32_t b_psn);
void sim_ud_ready(struct sim_qp *qp, uint32_t qkey);
/* The effect of ibv_modify_qp() on the engine. */
void sim_modify(struct sim_qp *qp, enum ibv_qp_state to);

/* A send work request, as an application posts it. */
struct sim_wr {
	uint64_t wr_id;
	uint32_t opcode;	/* IBV_WR_* */
	uint32_t flags;		/* IBV_SEND_* */
	uint32_t length;        /* of inline data; otherwise the SGEs' sum counts */
	uint32_t num_sge;
	struct ibv_sge sge[SIM_MAX_SGE];
	const uint8_t *inline_data;
	uint32_t imm;
	uint32_t rkey;
	uint64_t remote_addr;
	uint64_t compare_add, swap;	/* atomics; ATOMIC WRITE's value in compare_add */
	const struct net_path *path;	/* UD */
	uint32_t qpn, qkey;
	uint32_t srqn;
};

struct sim_rwr {
	uint64_t wr_id;
	uint32_t num_sge;
	struct ibv_sge sge[SIM_MAX_SGE];
};

/* False if the queue is full. Posting does not transmit: world_kick() does. */
bool sim_post_send(struct sim_qp *qp, const struct sim_wr *wr);
bool sim_post_recv(struct sim_qp *qp, const struct sim_rwr *wr);
/* Transmits nothing: after an RNR NAK the sender retries. */
void sim_post_srq_recv(struct world *w, struct sim_srq *srq, const struct sim_rwr *wr);

/* Transmits all that the QP can send now. */
void world_kick(struct world *w, struct sim_qp *qp);
/* Calls fn at that time. */
void world_at(struct world *w, uint64_t time, world_fn *fn, void *arg);

/* Runs until no event or timer is left, or until a time. */
void world_run(struct world *w);
void world_run_until(struct world *w, uint64_t time);

/* Sends a packet that the test has built, from host `src` to the host with path->dst. */
void world_inject(struct world *w, uint32_t src, const struct net_path *path, const uint8_t *data,
		  size_t len);

/* The path from one host to another, as an address handle holds it. */
struct net_path sim_path(const struct sim_host *from, const struct sim_host *to);

/*
 * Seeds of a test: from $VERBENA_SEED (then one run) or `first`, $VERBENA_RUNS or `runs` of them.
 * Prints them.
 */
struct sim_seeds {
	uint64_t first, runs;
};
struct sim_seeds sim_seeds(const char *name, uint64_t first, uint64_t runs);

#endif
