/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by the tests of raw packets: a sender, receivers, and flow rules between them. They use
 * the virtual segment of the loopback device, which needs no privilege.
 *
 * Every frame carries a number in its payload. Frames of one sender arrive in order, so a receiver
 * of `mark` frames knows when all earlier ones have been processed.
 */
#ifndef TESTS_VERBS_FRAMES_H
#define TESTS_VERBS_FRAMES_H

#include "unit/flow_env.h"
#include "verbs/world.h"

enum {
	FRAME_ROOM = 512,
	FRAME_SLOTS = 64,
	MARK_TYPE = 0x88b6, /* EtherType of mark frames */
};

struct receiver {
	struct ibv_cq_ex *cq;
	struct ibv_qp *qp;
	struct ibv_wq *wq; /* NULL: qp receives */
	struct buffer room;
	/* of the last frame */
	uint32_t number, tag, len;
	uint64_t slot;
	enum ibv_wc_status status;
};

/* Selects the virtual segment; must be called first. */
void frames_init(void);

/* A raw packet QP in RTS with a CQ of its own. */
struct ibv_qp *frames_qp(struct world *w, struct ibv_cq *cq);
struct receiver frames_receiver(struct world *w);
void frames_post(struct receiver *r, uint64_t slot);
void frames_end(struct receiver *r);

/* Takes one completion; returns false if there is none. */
bool frames_take(struct receiver *r);

/* Waits for the next frame, which must have this number. */
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

/* Appends the number to the frame and sends it. */
void sender_send(struct sender *s, struct frame *f, uint32_t number);

/* Waits until all frames sent before have arrived. */
void sender_sync(struct sender *s);

/* A UDP packet in IPv4 from 10.0.0.1 to 10.0.0.2. */
struct frame frames_udp(uint16_t src, uint16_t dst);

struct ibv_flow *frames_flow(struct ibv_qp *qp, struct spec_list *list);

#endif
