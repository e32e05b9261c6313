/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests that travel as messages within the host instead of as packets (docs/MESSAGES.md). Only
 * the simplest requests do; others are declined here before anything has changed, and roce_output()
 * builds their packets.
 */
#ifndef VRB_ROCE_MESSAGE_H
#define VRB_ROCE_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "roce/engine.h"
#include "util/compiler.h"
#include "wq/message.h"

/*
 * Is nothing unusual set, so that requests need not be packets: RC ones may be messages or access
 * the peer's memory directly, UC ones the latter? Neither carries a P_Key or MigReq. The answers
 * change only with the QP's attributes, state and path.
 */
bool roce_is_plain(const struct roce_qp *qp);

/*
 * Gets the next request as a message, in place of the packet that roce_output_with() would return;
 * false if there is none or it is declined. A pending ACK accompanies it, in *ack. The payload is
 * in the request or in buf, which has room for it. Call only if roce_is_plain(), for RC.
 */
bool roce_message_output(struct roce_qp *qp, struct message *m, uint8_t *buf,
			 struct roce_piggyback_ack *ack);

/* Would the next request access the peer's memory directly, without a packet? */
bool roce_runs_direct(const struct roce_qp *qp);

/*
 * Runs the next requests in the peer's memory, as many as can run now: without a packet and so
 * without the time. Returns true if no request is left. Call only if roce_is_plain().
 */
bool roce_run_direct(struct roce_qp *qp);

/*
 * Is no request waiting or in flight, so that one could run in the peer's memory as soon as it is
 * posted? If it does, without a WQE, roce_ran_at_once() counts it as posted and complete. Call only
 * if roce_is_plain().
 */
static inline bool roce_runs_at_once(const struct roce_qp *qp)
{
	const struct send_queue *sq = &qp->wq->sq;

	return likely(sq->done == sq->head && sq->next == sq->head && qp->req.index == sq->head &&
		      roce_sends_in_order(qp) && !roce_has_ack(qp) && qp->wq->direct);
}

static inline void roce_ran_at_once(struct roce_qp *qp)
{
	struct send_queue *sq = &qp->wq->sq;

	sq->done = sq->next = qp->req.index = ++sq->head;
}

/*
 * A message starts no ACK timer, because a lane loses nothing. Call roce_watch() some time after
 * one was sent: requests still in flight then get a timer, in case the peer has died.
 */
void roce_watch(struct roce_qp *qp, uint64_t now);

/*
 * Processes an ACK that the peer has published, or that came beside a message, like an ACK packet.
 * Returns false if it has only brought credits or completed messages: then it gave the QP neither
 * an answer to send nor an earlier deadline.
 */
bool roce_ack_input(struct roce_qp *qp, const struct roce_piggyback_ack *ack, uint64_t now);

/*
 * Is the newest request in flight a message? A packet behind a message brings an ACK packet for
 * both; behind a message, there may be none.
 */
bool roce_awaits_word(const struct roce_qp *qp);

/* Copies the positive ACK that is pending: its packet still leaves. */
void roce_ack_show(const struct roce_qp *qp, struct roce_piggyback_ack *ack);

/* Builds the packet that an ACK replaces, as if decoded, except its path. */
void roce_ack_packet(const struct roce_qp *qp, const struct roce_piggyback_ack *ack,
		     struct roce_pkt *pkt);

/*
 * Builds a packet with the newest ACK again, for a QP that ends in any state; returns its length.
 */
size_t roce_ack_newest(struct roce_qp *qp, uint8_t *buf);

/* Builds the pending ACK or NAK of such a QP and returns its length; 0: there is none. */
size_t roce_ack_last(struct roce_qp *qp, uint8_t *buf);

/*
 * Executes a message: places its payload, in a receive or in memory. If ack->allowed and ack->any
 * is then set, the caller must publish *ack for the peer to read, and no packet carries it;
 * otherwise the ACK leaves as a packet. Call roce_message_complete() next. False: the message was
 * declined and nothing has changed; pass the packet that it replaces to roce_input().
 */
bool roce_message_input(struct roce_qp *qp, const struct message *m,
			struct roce_piggyback_ack *ack);

/* Completes the message's receive. acked: the ACK is published. */
void roce_message_complete(struct roce_qp *qp, const struct message *m, bool acked);

/* Builds the packet that a message replaces, as if decoded, except its path. */
void roce_message_packet(const struct message *m, struct roce_pkt *pkt);

#endif
