/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A test environment around one RoCE engine: one memory region, queues, recorded completions and
 * events, and a peer whose packets the test builds. Two environments can be connected.
 */
#ifndef TESTS_ROCE_ENV_H
#define TESTS_ROCE_ENV_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "roce/const.h"
#include "roce/engine.h"
#include "roce/opcode.h"
#include "roce/parts.h"
#include "roce/psn.h"
#include "util/compiler.h"

enum {
	ENV_DEPTH = 64, /* slots of both queues */
	ENV_STRIDE = 512,
	ENV_MEM = 1 << 18,
	ENV_VA = 0x100000,
	ENV_KEY = 0x1234,      /* lkey and rkey with all rights over mem */
	ENV_READONLY = 0x5678, /* no local or remote write, no atomics */
	ENV_SRQN = 77,
	ENV_QKEY = 0x11111111,
	ENV_PSN = 100, /* both first PSNs */
	ENV_MAX_CQES = 256,
	ENV_RD = 4, /* max_rd_atomic and max_dest_rd_atomic */
};

struct roce_env {
	struct wq_qp wq;
	struct roce_qp qp;
	struct roce_rd_atomic rd[ENV_RD];
	struct roce_ud ud;
	uint8_t mem[ENV_MEM];
	uint8_t send_slots[ENV_DEPTH * ENV_STRIDE];
	uint8_t recv_slots[ENV_DEPTH * ENV_STRIDE];

	uint32_t num_cqes;
	struct wq_cqe cqes[ENV_MAX_CQES];
	uint32_t num_events;
	enum ibv_event_type events[ENV_MAX_CQES];

	/*
	 * The call numbered fail_at (0 = the next) into memory, invalidate or bind fails with
	 * fail_why.
	 */
	int fail_at; /* -1: none */
	enum reason fail_why;
	/*
	 * The completion with this number (0 = the next) fails the QP, as a CQ overrun does; -1:
	 * none.
	 */
	int overrun_at;
	enum reason dropped; /* reason of the last dropped message */
	unsigned int violations[VIOLATIONS];
	bool flushes_take_long; /* until roce_flushed() */
	bool no_rd;              /* rd_make finds no memory */
	unsigned int direct_max; /* requests that ops->direct executes at a time */
	bool (*refuses_pull)(void); /* NULL: never; asked before each ops->pull */
	uint32_t atomics;        /* executed */
	uint32_t writes;         /* remote writes executed */
	uint32_t read_pdn;       /* pdn at the last read */
	uint32_t flushes;
	uint32_t binds;
	uint32_t invalidated; /* key */
	uint32_t untaken;
	uint32_t heads;       /* receives requested with the head of a message */
	struct wq_head head;  /* the last of them */

	uint64_t now;
	uint8_t buf[ROCE_MAX_PACKET];
	size_t len;
	struct roce_pkt out; /* last packet built */
	const struct net_path *out_path;
};

/* A QP in RESET with usual attributes: MTU 256, timeout 14, retry_cnt 7, rnr_retry 7. */
void env_init(struct roce_env *e, enum ibv_qp_type type);

/* Changes the state by one step and informs the engine. */
void env_move(struct roce_env *e, enum ibv_qp_state to);

/* RESET -> INIT -> RTR (-> RTS). */
void env_rtr(struct roce_env *e);
void env_rts(struct roce_env *e);

/* env_init() and env_rts(). */
void env_start(struct roce_env *e, enum ibv_qp_type type);

/*
 * Posts a signaled request of len bytes at offset in mem (one SGE); the caller may change it before
 * the next call.
 */
struct send_wqe *env_post(struct roce_env *e, uint32_t opcode, uint32_t offset, uint32_t len);
void env_post_recv(struct roce_env *e, uint32_t offset, uint32_t len);

/* Takes one packet from the engine into out; returns false if there is none. */
bool env_output(struct roce_env *e);

/* Returns how many packets were sent; the last one is in out. */
unsigned int env_drain(struct roce_env *e);

/*
 * A packet from the peer: op is an opcode in its RC form and gets the QP's service; payload comes
 * from a pattern that begins with (uint8_t)psn.
 */
struct roce_pkt env_pkt(const struct roce_env *e, uint8_t op, uint32_t psn, uint32_t payload);
void env_input(struct roce_env *e, const struct roce_pkt *pkt);

/* The same, delivered at once, with AckReq. */
void env_request(struct roce_env *e, uint8_t op, uint32_t psn, uint32_t payload);

void env_ack(struct roce_env *e, uint32_t psn);
void env_aeth(struct roce_env *e, uint8_t op, uint8_t syndrome, uint32_t psn, uint32_t payload);

/* Advances the time to the engine's deadline, which must exist. */
void env_expire(struct roce_env *e);

/*
 * Carries the next packet of `from` to `to`, with the place of a payload that stays in mem, in one
 * piece; false: there is none.
 */
bool env_carry(struct roce_env *from, struct roce_env *to);

/* Carries packets between two environments until neither has one; returns how many. */
unsigned int env_pump(struct roce_env *a, struct roce_env *b);

/* Makes two environments peers of each other. */
void env_connect(struct roce_env *a, struct roce_env *b);

void env_expect_cqe(const struct roce_env *e, uint32_t index, uint64_t wr_id,
		    enum ibv_wc_status status);

/* The next packet is this ACK or NAK; no packet is sent. */
void env_expect_aeth(struct roce_env *e, uint8_t syndrome, uint32_t psn, uint32_t msn);
void env_expect_nak(struct roce_env *e, enum roce_nak_code code, uint32_t psn);
void env_expect_silence(struct roce_env *e);

#endif
