/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the tests of raw packets share: a sender of frames, receivers, and the rules between them,
 * on the virtual segment of the loopback device, so that an ordinary user can run them.
 *
 * Every frame has a number in its payload.  A sender's frames arrive in order: a receiver of `mark`
 * frames tells when all before have been dealt with.
 */
#ifndef TESTS_VERBS_FRAMES_H
#define TESTS_VERBS_FRAMES_H

#include "unit/flow_env.h"
#include "verbs/world.h"

enum {
	FRAME_ROOM = 512,
	FRAME_SLOTS = 64,
	MARK_TYPE = 0x88b6, /* EtherType of marks */
};

struct receiver {
	struct ibv_cq_ex *cq;
	struct ibv_qp *qp;
	struct ibv_wq *wq; /* instead of qp */
	struct buffer room;
	/* of the frame received last */
	uint32_t number, tag, len;
	uint64_t slot;
	enum ibv_wc_status status;
};

/* Chooses the virtual segment. First of all. */
void frames_init(void);

/* A raw packet QP in RTS with a CQ of its own. */
struct ibv_qp *frames_qp(struct world *w, struct ibv_cq *cq);
struct receiver frames_receiver(struct world *w);
void frames_post(struct receiver *r, uint64_t slot);
void frames_end(struct receiver *r);

/* Takes one completion; false if there is none. */
bool frames_take(struct receiver *r);

/* Waits for the next frame, which must be this one. */
void frames_expect(struct receiver *r, uint32_t number);

struct sender {
	struct world *w;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct buffer room;
	struct receiver mark;
	struct ibv_flow *mark_flow;
	uint32_t marks;
};

void sender_open(struct sender *s, struct world *w);
void sender_close(struct sender *s);

/* Puts the number behind what is there and sends it. */
void sender_send(struct sender *s, struct frame *f, uint32_t number);

/* Until everything that was sent before has come in. */
void sender_sync(struct sender *s);

/* UDP in IPv4 from 10.0.0.1 to 10.0.0.2. */
struct frame frames_udp(uint16_t src, uint16_t dst);

struct ibv_flow *frames_flow(struct ibv_qp *qp, struct spec_list *list);

#endif
