/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/tx/tx_sched.h"

#include "core/base/rx_queues.h"
#include "core/base/state.h"
#include "core/local/peer_message.h"
#include "core/local/peer_word.h"
#include "core/qp/qp.h"
#include "core/tx/transmit.h"
#include "core/tx/tx_batch.h"
#include "core/tx/tx_pending.h"
#include "local/bell.h"
#include "run/clock.h"
#include "run/config.h"
#include "run/progress.h"
#include "run/slowdown.h"
#include "util/atomic.h"
#include "util/compiler.h"
#include "util/tuning.h"

/* Must hold r->lock, as must all functions below that take an RX queue. */
static void delay_until(struct vrb_rx_queue *r, uint64_t at)
{
	if (load_relaxed(&r->delayed_deadline) <= at)
		return;
	store_relaxed(&r->delayed_deadline, at);
	progress_hurry(vrb.progress, at);
}

/*
 * Are the pending requests few and small enough to wait for more? Must hold qp->lock.
 */
static bool has_room(const struct vrb_qp *qp)
{
	const struct send_queue *sq = &qp->wq.sq;
	uint32_t waiting = sq->head - sq->next, in_flight = roce_in_flight(&qp->roce);

	return waiting && roce_coalesces(waiting, in_flight, sq_wqe(sq, sq->head - 1)->length);
}

/*
 * Coalesce only a stream of small requests, and only while the program polls, so that the requests
 * do not wait long. Must hold qp->lock.
 */
static bool may_coalesce(struct vrb_qp *qp, uint64_t now)
{
	return qp->post.uses_wire && qp->wq.state == IBV_QPS_RTS && has_room(qp) &&
	       time_since(load_relaxed(&vrb_rx_queue_of_shard(qp->config.shard)->polled_at), now) <
		       TUNE_COALESCE_POLLED &&
	       roce_coalescing_pays(&qp->post.coalescing);
}

bool vrb_tx_enqueue(struct vrb_rx_queue *r, struct vrb_qp *qp, struct list *list)
{
	/* Acquire: pairs with unlist(), after which the former RX queue no longer uses the node. */
	const struct vrb_rx_queue *by = load_acquire(&qp->sched.rx_queue);

	if (!by) {
		list_add_tail(list, &qp->sched.node);
		store_relaxed(&qp->sched.rx_queue, r);
	}
	return !by || by == r;
}

static void unlist(struct vrb_qp *qp)
{
	list_del(&qp->sched.node);
	store_release(&qp->sched.rx_queue, NULL);
}

/*
 * Requests that waited for what has arrived leave in this round, also where the QP is listed
 * because of a delayed ACK: the program may never poll again. A fatal NAK, too: it is never
 * retransmitted, and the process may exit as soon as it sees the error.
 */
static bool leaves_in_this_round(const struct vrb_qp *qp, enum tx_urgency due)
{
	return (due == TX_NOW && !qp->post.coalesces) || qp->wq.state == IBV_QPS_ERR;
}

void vrb_tx_schedule(struct vrb_qp *qp, enum tx_urgency due, struct vrb_rx_queue *r)
{
	const struct vrb_rx_queue *by = load_acquire(&qp->sched.rx_queue);

	store_relaxed(&qp->sched.ack_sent, false);
	if (due == TX_SOON) {
		roce_delayed_ack_requested(&qp->post.delayed_ack, qp->now);
		vrb_word_foretell(qp);
	}
	if (unlikely(by && by != r)) {
		vrb_transmit(qp, qp->now);
		return;
	}
	qp->sched.urgency = due;
	qp->sched.expects_reply = roce_delayed_ack_expects_reply(&qp->post.delayed_ack);
	qp->sched.takes_turns = qp->sched.expects_reply && !roce_in_flight(&qp->roce) &&
				!roce_in_message(&qp->roce);
	if (due == TX_SOON)
		qp->sched.turn_ends = qp->sched.takes_turns ? qp->now + TUNE_ACK_DELAY_MAX : 0;
	if (by && leaves_in_this_round(qp, due)) {
		list_del(&qp->sched.node);
		list_add_tail(&r->scheduled, &qp->sched.node);
	}
	if (due != TX_NOTHING && !by)
		vrb_tx_enqueue(r, qp, &r->scheduled);
	else if (due == TX_SOON)
		vrb_delayed_ack_begin(qp, qp->now);
}

/* Only tries the RX queue's lock, which ranks above qp->lock. Must hold qp->lock. */
static bool coalesce(struct vrb_qp *qp, uint64_t now)
{
	struct vrb_rx_queue *r = vrb_rx_queue_of_shard(qp->config.shard);

	if (!lock_try(r->lock))
		return false;
	qp->post.coalesces = vrb_tx_enqueue(r, qp, &r->delayed);
	qp->post.coalescing.since = now;
	if (qp->post.coalesces)
		delay_until(r, now + TUNE_ACK_DELAY_MAX);
	lock_release(r->lock);
	return qp->post.coalesces;
}

/*
 * Sends the posted requests as messages. The clock is read only for a peer that waits to be woken
 * for progress, perhaps by this reply.
 */
static bool post_messages(struct vrb_qp *qp)
{
	bool all = vrb_peer_post(qp);

	if (!all)
		return false;
	if (unlikely(qp->post.delayed_ack.requested))
		roce_delayed_ack_posted(&qp->post.delayed_ack, false, clock_now());
	if (!roce_in_flight(&qp->roce))
		return true;
	vrb_watch(qp);
	vrb_tx_batch_own();	/* allocates it now, not in the middle of a stream */
	return true;
}

bool vrb_post_at_once(struct vrb_qp *qp, const struct ibv_send_wr *wr)
{
	return vrb_peer_post_rdma(qp, wr);
}

/* Is the last request posted one that roce_delayed_ack_posted() means? */
static bool posted_write(const struct vrb_qp *qp)
{
	const struct send_queue *sq = &qp->wq.sq;

	return sq_wqe(sq, sq->head - 1)->opcode == IBV_WR_RDMA_WRITE;
}

/* Only a QP whose ACK is delayed is listed with a deadline. */
static bool reply_goes_on(struct vrb_qp *qp, uint64_t now)
{
	return roce_delayed_ack_posted(&qp->post.delayed_ack, posted_write(qp), now) &&
	       load_relaxed(&qp->sched.ack_delayed);
}

static bool is_unacknowledged(const struct vrb_qp *qp)
{
	return qp->wq.type == IBV_QPT_UD || qp->wq.type == IBV_QPT_UC;
}

/*
 * May the packets of the last request wait? They do in a stream of small requests, and where there
 * is a thread that sends them if the program does not poll. A peer within the process is served by
 * the post itself.
 */
static bool may_pend(struct vrb_qp *qp, uint64_t now)
{
	const struct send_queue *sq = &qp->wq.sq;

	/* The program's own time counts, not that of the poll that sent its last packets. */
	if (qp->post.pending)
		roce_stream_posted(&qp->post.stream,
				   load_relaxed(&qp->post.pending->pending.sent_at));
	return roce_stream_continues(&qp->post.stream, slowdown() * TUNE_STREAM_GAP, now) &&
	       sq_wqe(sq, sq->head - 1)->length <= TUNE_COALESCE_BYTES / 2 &&
	       qp->wq.state == IBV_QPS_RTS && !qp->post.same_process &&
	       config_get()->progress_thread;
}

static void post_unacknowledged(struct vrb_qp *qp, uint64_t now)
{
	if (!may_pend(qp, now) || !vrb_tx_pending_transmit(qp, now)) {
		vrb_transmit(qp, now);
		now = clock_now();
	}
	roce_stream_posted(&qp->post.stream, now);
}

/* While coalescing, the deadline is already set, so skip reading the clock for each request. */
void vrb_doorbell(struct vrb_qp *qp)
{
	uint64_t now;

	vrb_qp_note_posted(qp);
	if (likely(post_messages(qp)))
		return;
	if (qp->post.coalesces && !qp->post.delayed_ack.requested && qp->wq.state == IBV_QPS_RTS &&
	    has_room(qp)) {
		roce_delayed_ack_posted(&qp->post.delayed_ack, false, 0);
		return;
	}
	now = clock_now();
	if (is_unacknowledged(qp)) {
		post_unacknowledged(qp, now);
		return;
	}
	qp->post.holds_ack = reply_goes_on(qp, now);
	if (!may_coalesce(qp, now) || !(qp->post.coalesces || coalesce(qp, now)))
		vrb_transmit(qp, now);
	qp->post.holds_ack = false;
}

unsigned int vrb_delayed_acks;

void vrb_delayed_ack_begin(struct vrb_qp *qp, uint64_t now)
{
	if (load_relaxed(&qp->sched.ack_delayed) || swap_acq_rel(&qp->sched.ack_delayed, true))
		return;
	qp->sched.ack_delayed_at = now;
	fetch_add_relaxed(&vrb_delayed_acks, 1);
}

void vrb_delayed_ack_end(struct vrb_qp *qp)
{
	if (swap_acq_rel(&qp->sched.ack_delayed, false))
		fetch_add_relaxed(&vrb_delayed_acks, -1);
}

/* Has the last output kept back an ACK? */
static bool holds_ack(const struct vrb_qp *qp, uint64_t now)
{
	return roce_has_ack(&qp->roce) && vrb_ack_order(qp, now) == ROCE_ACK_BEHIND_REPLY;
}

/*
 * Transmits the output of all QPs on the list, which is not r->delayed. A delayed ACK must be sent
 * before qp->lock is released, or the program's next request could overtake it. An ACK of this
 * round can wait for the end of the round, because the program does not see the messages before
 * that.
 */
static void transmit_all(struct vrb_rx_queue *r, struct list *waiting, struct vrb_tx_batch *b,
			 uint64_t now)
{
	while (!list_empty(waiting)) {
		struct vrb_qp *qp = list_entry(waiting->next, struct vrb_qp, sched.node);
		bool delayed;

		unlist(qp);
		/* The ACK may have been piggybacked on a request since. */
		if (load_relaxed(&qp->sched.ack_sent))
			continue;
		lock_acquire(&qp->lock);
		delayed = load_relaxed(&qp->sched.ack_delayed);
		if (qp->sched.urgency == TX_NOW || vrb_tx_urgency(qp) != TX_NOTHING) {
			roce_delayed_ack_alone(&qp->post.delayed_ack, now);
			vrb_transmit_batch(qp, b, now);
			if (delayed)
				vrb_tx_batch_flush(b);
			if (unlikely(holds_ack(qp, now)) && vrb_tx_enqueue(r, qp, &r->delayed))
				delay_until(r, now + TUNE_ACK_DELAY_MAX);
		} else if (delayed) {
			vrb_delayed_ack_end(qp);	/* a progress word has covered it */
		}
		lock_release(&qp->lock);
	}
}

static void delay_scheduled(struct vrb_rx_queue *r, uint64_t now)
{
	while (!list_empty(&r->scheduled)) {
		struct list *node = r->scheduled.next;

		list_del(node);
		list_add_tail(&r->delayed, node);
		vrb_delayed_ack_begin(list_entry(node, struct vrb_qp, sched.node), now);
	}
}

/* Out of memory: try again after the longest delay. */
static void retry_later(struct vrb_rx_queue *r, uint64_t now)
{
	delay_scheduled(r, now);
	store_relaxed(&r->delayed_deadline, VRB_NEVER);
	delay_until(r, now + TUNE_ACK_DELAY_MAX);
}

/*
 * A stale deadline wakes the progress thread once for nothing; resetting it per message would cost
 * a fence.
 */
static void clear_past_deadline(struct vrb_rx_queue *r, uint64_t now)
{
	if (time_reached(load_relaxed(&r->delayed_deadline), now))
		store_relaxed(&r->delayed_deadline, VRB_NEVER);
}

/*
 * Doorbells for progress are delayed like the ACKs that they replace: until the next poll, or until
 * the program's reply, which rings, too.
 */
static void ring_bells(struct vrb_rx_queue *r, bool poller, uint64_t now)
{
	bool over = time_reached(load_relaxed(&r->delayed_deadline), now);

	if (r == vrb_main_rx_queue && vrb.local &&
	    local_ring_bells(vrb.local, over   ? BELLS_NOW :
					poller ? BELLS_WAIT : BELLS_EXPECT_ANSWERS))
		delay_until(r, now + roce_delayed_ack_time(poller));
}

static void flush(struct vrb_rx_queue *r, uint64_t now)
{
	struct vrb_tx_batch *b;
	struct list due;

	vrb_tx_pending_try_send(r);
	if (list_empty(&r->scheduled) && list_empty(&r->delayed)) {
		clear_past_deadline(r, now);
		return;
	}
	b = vrb_tx_batch_own();
	if (unlikely(!b)) {
		retry_later(r, now);
		return;
	}
	clear_past_deadline(r, now);
	transmit_all(r, &r->scheduled, b, now);
	list_init(&due);
	list_splice_tail(&due, &r->delayed);
	transmit_all(r, &due, b, now);
	r->delayed_polls = 0;
	vrb_tx_batch_flush(b);
}

void vrb_tx_flush(struct vrb_rx_queue *r, uint64_t now)
{
	ring_bells(r, false, now);
	flush(r, now);
}

/*
 * Can the ACKs for this round be delayed? After a poll they wait for the next poll; otherwise only
 * if the program is expected to reply.
 */
static bool may_delay(const struct vrb_rx_queue *r, unsigned int packets, bool poller)
{
	const struct list *pos;

	list_for_each(pos, &r->scheduled) {
		const struct vrb_qp *qp = list_entry(pos, struct vrb_qp, sched.node);

		if (!roce_delayed_ack_may_wait(packets, qp->sched.urgency == TX_NOW, poller,
					       qp->sched.expects_reply, qp->sched.takes_turns))
			return false;
	}
	return true;
}

/*
 * A QP whose last ACK went with a request stays listed. Its next ACK has waited for no poll yet; it
 * would go alone, ahead of the program's reply.
 */
static bool waits_since_now(const struct vrb_qp *qp, uint64_t now)
{
	return load_relaxed(&qp->sched.ack_delayed) && qp->sched.ack_delayed_at == now &&
	       qp->sched.urgency != TX_NOW;
}

/* Sends the output of the QPs delayed in earlier rounds. */
static void flush_delayed_only(struct vrb_rx_queue *r, uint64_t now)
{
	struct vrb_tx_batch *b = vrb_tx_batch_own();
	struct list due, *node, *tmp;

	if (unlikely(!b))
		return;
	list_init(&due);
	list_for_each_safe(node, tmp, &r->delayed) {
		if (waits_since_now(list_entry(node, struct vrb_qp, sched.node), now))
			continue;
		list_del(node);
		list_add_tail(&due, node);
	}
	transmit_all(r, &due, b, now);
	r->delayed_polls = 0;
	vrb_tx_batch_flush(b);
}

/* Has the round left nothing to send? */
static bool is_idle(const struct vrb_rx_queue *r)
{
	return list_empty(&r->scheduled) && list_empty(&r->delayed) &&
	       !(r == vrb_main_rx_queue && vrb.local && local_has_bells(vrb.local));
}

/* Not inline: most rounds of messages leave nothing to send. */
static __attribute__((noinline)) void flush_or_delay(struct vrb_rx_queue *r, unsigned int packets,
						     bool poller, uint64_t now)
{
	if (!may_delay(r, packets, poller)) {
		vrb_tx_flush(r, now);
		return;
	}
	ring_bells(r, poller, now);
	if (list_empty(&r->scheduled) && list_empty(&r->delayed))
		return;
	if (roce_delayed_ack_polls_over(r->delayed_polls))
		flush_delayed_only(r, now);
	r->delayed_polls++;
	delay_scheduled(r, now);
	delay_until(r, now + roce_delayed_ack_time(poller));
}

void vrb_tx_flush_or_delay(struct vrb_rx_queue *r, unsigned int packets, bool poller, uint64_t now)
{
	if (!is_idle(r))
		flush_or_delay(r, packets, poller, now);
}

uint64_t vrb_delayed_tx_deadline(void)
{
	uint64_t due = VRB_NEVER;

	vrb_for_each_rx_queue (r)
		due = time_earlier(due, time_earlier(load_relaxed(&r->delayed_deadline),
						     load_relaxed(&r->pending.deadline)));
	return due;
}

void vrb_tx_flush_expired(uint64_t now)
{
	vrb_for_each_rx_queue (r) {
		vrb_tx_pending_expire(r, now);
		if (!time_reached(load_relaxed(&r->delayed_deadline), now))
			continue;
		lock_acquire(r->lock);
		vrb_tx_flush(r, now);
		lock_release(r->lock);
	}
}

void vrb_tx_flush_delayed(void)
{
	vrb_for_each_rx_queue (r) {
		if (load_relaxed(&r->delayed_deadline) == VRB_NEVER)
			continue;
		lock_acquire(r->lock);
		vrb_tx_flush(r, clock_now());
		lock_release(r->lock);
	}
}

void vrb_tx_try_flush_delayed(void)
{
	vrb_for_each_rx_queue (r) {
		vrb_tx_pending_try_send(r);
		if (load_relaxed(&r->delayed_deadline) == VRB_NEVER || !lock_try_at_exit(r->lock))
			continue;
		vrb_tx_flush(r, clock_now());
		lock_release(r->lock);
	}
}

void vrb_tx_flush_at_exit(void)
{
	vrb_tx_try_flush_delayed();
	if (vrb.local && lock_try_at_exit(&vrb.poll_lock)) {
		local_ring_bells(vrb.local, BELLS_NOW);
		lock_release(&vrb.poll_lock);
	}
}
