/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/arrive.h"

#include <errno.h>

#include "core/answer.h"
#include "core/context.h"
#include "core/drive.h"
#include "core/gsi.h"
#include "core/held.h"
#include "core/mcast.h"
#include "core/near.h"
#include "core/output.h"
#include "core/port.h"
#include "core/process.h"
#include "core/qp.h"
#include "core/qptab.h"
#include "core/receiver.h"
#include "core/xrc/loan.h"
#include "core/xrc/xrcd.h"
#include "core/xrc/xrcmsg.h"
#include "host/host.h"
#include "local/local.h"
#include "roce/icrc.h"
#include "roce/opcode.h"
#include "util/atomic.h"
#include "wire/wire.h"

enum { MIN_PACKET = 12 + ROCE_ICRC_LEN };

/* In a receiver's stats, where whoever holds its lock is the only one who counts. */
static void count(uint64_t *counter, uint64_t n)
{
	store_relaxed(counter, load_relaxed(counter) + n);
}

/*
 * A datagram must have come to an address of the QP's own port, or to a group that the QP is attached to: such a one names no QP
 * (deliver_multicast()).
 */
static bool is_addressed(struct vrb_qp *qp, const struct roce_pkt *pkt)
{
	if (net_is_multicast(&pkt->path.dst))
		return pkt->bth.dest_qpn == VRB_MCAST_QPN;
	return vrb_port_find_gid(&qp->ctx->dev->port, &pkt->path.dst) >= 0;
}

/* A connected QP hears its peer only. Must hold qp->lock. */
static bool path_matches(struct vrb_qp *qp, const struct roce_pkt *pkt)
{
	const struct net_path *p = &pkt->path;
	const struct wq_qp *wq = &qp->wq;

	if (wq->type == IBV_QPT_UD)
		return is_addressed(qp, pkt);
	if (net_addr_equal(&p->src, &wq->path.dst) && net_addr_equal(&p->dst, &wq->path.src))
		return true;
	return net_addr_equal(&p->src, &wq->alt_path.dst) &&
	       net_addr_equal(&p->dst, &wq->alt_path.src);
}

/* The last word of a QP in error does not wait beside an ACK: it is said once, and the program may be gone as soon as it sees the error. */
void vrb_touch(struct vrb_qp *qp, enum output_due due, struct vrb_receiver *r)
{
	const struct vrb_receiver *by = load_acquire(&qp->touched_by);

	store_relaxed(&qp->answered, false);
	if (due == OUTPUT_SOON)
		habit_asked(&qp->habit, qp->now);
	if (unlikely(by && by != r)) {
		vrb_output(qp, qp->now);
		return;
	}
	qp->due = due;
	qp->answers = habit_believed(&qp->habit);
	if (unlikely(by && qp->wq.state == IBV_QPS_ERR)) {
		list_del(&qp->touched);
		list_add_tail(&r->touched, &qp->touched);
	}
	if (due != OUTPUT_NOTHING && !by)
		vrb_answer_list(r, qp, &r->touched);
	else if (due == OUTPUT_SOON)
		vrb_answer_put_off(qp);
}

/* IBTA Annex A14: an XRC request acts in the protection domain of the SRQ it names. */
static void run(struct vrb_qp *qp, const struct roce_pkt *pkt, uint64_t now)
{
	if (qp->domain)
		qp->wq.pdn = qp->wq.recv_pdn = vrb_xrcd_srq_pdn(qp->domain, pkt->xrc_srqn);
	roce_input(&qp->roce, pkt, now);
}

/*
 * What goes by a lane meets no queue that could mark it: a notification of congestion on the way to a neighbour is forged.
 * Must hold qp->lock.
 */
static bool is_about_a_lane(struct vrb_qp *qp, const struct roce_pkt *pkt)
{
	if (likely(pkt->bth.opcode != ROCE_CNP_NOTIFICATION))
		return false;
	if (qp->wq.type != IBV_QPT_UD)
		return qp->near.peer != NULL;
	return vrb.local && vrb_port_find_gid(&qp->ctx->dev->port, &pkt->path.src) >= 0;
}

static void run_held(void *arg, const struct roce_pkt *pkt)
{
	struct vrb_qp *qp = arg;

	run(qp, pkt, qp->now);
}

/*
 * A lane keeps the order: a neighbour that goes back has reasons, and may number anew.  And what is kept must be this process's to run, which in a
 * shared XRC domain shows in its turn only.
 */
static bool may_hold(const struct vrb_qp *qp, const struct roce_pkt *pkt)
{
	return !pkt->pull && !qp->near.peer && !(qp->domain && qp->domain->has_inode);
}

void vrb_arrive_here(struct vrb_qp *qp, const struct roce_pkt *pkt, struct vrb_receiver *r, uint64_t now)
{
	bool early = unlikely(roce_early(&qp->roce, pkt));
	uint32_t expected = roce_expected_psn(&qp->roce);

	run(qp, pkt, now);
	if (early && may_hold(qp, pkt))
		held_keep(&qp->held, pkt, now);
	else if (unlikely(qp->held != NULL) && roce_expected_psn(&qp->roce) != expected)
		held_follow(qp->held, &qp->roce, run_held, qp, now);
	vrb_touch(qp, vrb_output_due(qp), r);
}

/* Must hold qp->lock. */
static void deliver(struct vrb_qp *qp, const struct vrb_raw *raw, struct vrb_receiver *r, uint64_t now)
{
	qp->now = now;
	if (!path_matches(qp, raw->pkt) || is_about_a_lane(qp, raw->pkt))
		count(&r->stats.wrong_path, 1);
	else if (qp->domain && qp->domain->has_inode && vrb_loan_takes(qp, raw, r, now))
		vrb_touch(qp, OUTPUT_NOW, r);
	else
		vrb_arrive_here(qp, raw->pkt, r, now);
}

/* The QP is another process's, or nobody's. */
static void hand_over(const struct roce_pkt *pkt, const uint8_t *data, size_t len, struct vrb_receiver *r)
{
	switch (host_hand(vrb.host, pkt->bth.dest_qpn, &pkt->path, data, len)) {
	case 0:
		count(&r->stats.handed, 1);
		break;
	case ENOENT:
		count(&r->stats.unknown_qp, 1);
		break;
	default:
		count(&r->stats.hand_lost, 1);
	}
}

struct multicast {
	const struct vrb_raw *raw;
	struct vrb_receiver *r;
	uint64_t now;
};

/* IBV_QP_CREATE_BLOCK_SELF_MCAST_LB: datagrams of this process, sent from this port. Must hold vrb.drive. */
static bool own_echo(struct vrb_qp *qp, const struct roce_pkt *pkt)
{
	return (qp->init.create_flags & IBV_QP_CREATE_BLOCK_SELF_MCAST_LB) &&
	       vrb_qptab_find(pkt->deth.src_qpn) &&
	       vrb_port_find_gid(&qp->ctx->dev->port, &pkt->path.src) >= 0;
}

static void deliver_copy(struct vrb_qp *qp, void *arg)
{
	const struct multicast *m = arg;

	if (own_echo(qp, m->raw->pkt))
		return;
	lock_acquire(&qp->lock);
	deliver(qp, m->raw, m->r, m->now);
	lock_release(&qp->lock);
}

/* A datagram to a group: a copy for every QP attached to it. Each process gets its own from the kernel. */
static void deliver_multicast(const struct vrb_raw *raw, struct vrb_receiver *r, uint64_t now)
{
	const struct net_path *path = &raw->pkt->path;
	struct multicast m = { raw, r, now };

	if (net_is_multicast(&path->dst))
		vrb_mcast_for_each(&path->dst, path->ifindex, deliver_copy, &m);
}

static bool intact(const struct arrival *a, struct vrb_receiver *r)
{
	if (a->len < MIN_PACKET || a->len > WIRE_MAX_PACKET) {
		count(&r->stats.malformed, 1);
		return false;
	}
	if (roce_icrc_check(a->path, a->id_known, a->ip_id, a->data, a->len) == ROCE_ICRC_BAD) {
		count(&r->stats.icrc_errors, 1);
		return false;
	}
	return true;
}

/* Does it take vrb.drive? Datagrams to groups, management, and requests of domains that other processes share. */
static bool is_mains(const struct roce_pkt *pkt, const struct vrb_qp *qp)
{
	return pkt->bth.dest_qpn == VRB_MCAST_QPN || pkt->bth.dest_qpn == VRB_GSI_QPN || (qp && qp->domain);
}

static void dispatch(struct vrb_qp *qp, const struct vrb_raw *raw, const struct arrival *a,
		     struct vrb_receiver *r, uint64_t now)
{
	if (raw->pkt->bth.dest_qpn == VRB_MCAST_QPN) {
		deliver_multicast(raw, r, now);
	} else if (raw->pkt->bth.dest_qpn == VRB_GSI_QPN) {
		vrb_gsi_input(raw->pkt, now);
	} else if (qp) {
		lock_acquire(&qp->lock);
		deliver(qp, raw, r, now);
		lock_release(&qp->lock);
	} else if (!a->handed) {
		hand_over(raw->pkt, a->data, a->len, r);
	} else {
		count(&r->stats.unknown_qp, 1);
	}
}

void vrb_arrive(const struct arrival *a, struct vrb_receiver *r, uint64_t now)
{
	struct roce_pkt pkt;
	const struct vrb_raw raw = { &pkt, a->data, a->len };
	struct vrb_qp *qp;

	count(&r->stats.rcvd_pkts, 1);
	if (!intact(a, r))
		return;
	if (roce_decode(&pkt, a->data, a->len) != ROCE_DECODED) {
		count(&r->stats.malformed, 1);
		return;
	}
	pkt.path = *a->path;
	r->one_sided += roce_is_one_sided(roce_opcode_info(pkt.bth.opcode));
	qp = vrb_qptab_find(pkt.bth.dest_qpn);
	if (unlikely(qp && r != vrb_receiver_of_shard(qp->shard) && !a->handed))
		r->strays++;
	if (likely(r == vrb_main_receiver || !is_mains(&pkt, qp))) {
		dispatch(qp, &raw, a, r, now);
		return;
	}
	lock_acquire(&vrb.drive);
	dispatch(qp, &raw, a, vrb_main_receiver, now);
	vrb_answer(vrb_main_receiver, now);
	lock_release(&vrb.drive);
}

/*
 * A connected QP's neighbour speaks for its address: the alternate one when it says that it has
 * migrated. A datagram brings its own. Must hold qp->lock.
 */
static bool fill_path(struct vrb_qp *qp, const struct local_pkt *in, struct roce_pkt *pkt)
{
	bool migrated = pkt->bth.mig_req && qp->wq.mig_state == IBV_MIG_ARMED && vrb_near_migrated(qp);
	const struct net_path *own = migrated ? &qp->wq.alt_path : &qp->wq.path;

	if (in->path) {
		pkt->path = *in->path;
		return true;
	}
	pkt->path = *own;
	pkt->path.src = own->dst;
	pkt->path.dst = own->src;
	return vrb_near_believes(qp, in->slot);
}

void vrb_arrive_by_lane(void *arg, const struct local_pkt *in)
{
	const uint64_t *now = arg;
	struct vrb_receiver *r = vrb_main_receiver;
	struct roce_rider ack;
	struct roce_pkt pkt;
	const struct vrb_raw raw = { &pkt, in->data, in->len };
	struct vrb_qp *qp;

	if (in->message) {
		xrc_receive(in->data, in->len, r, *now);
		return;
	}
	if (in->offer) {
		vrb_near_help(in);
		return;
	}
	count(&r->stats.rcvd_pkts, 1);
	if (roce_decode(&pkt, in->data, in->len) != ROCE_DECODED) {
		count(&r->stats.malformed, 1);
		return;
	}
	if (pkt.bth.dest_qpn == VRB_MCAST_QPN && in->path) {
		pkt.path = *in->path;
		deliver_multicast(&raw, r, *now);
		return;
	}
	qp = vrb_qptab_find(pkt.bth.dest_qpn);
	if (!qp) {
		count(&r->stats.unknown_qp, 1);
		return;
	}
	if (in->pull.num_seg) {
		pkt.pull = &in->pull;
		pkt.payload_len = in->payload;
	}
	if (in->acks) {
		ack.psn = in->ack_psn & ROCE_PSN_MASK;
		ack.msn = in->ack_aeth & ROCE_PSN_MASK;
		ack.syndrome = in->ack_aeth >> 24;
		pkt.ack = &ack;
	}
	lock_acquire(&qp->lock);
	if (fill_path(qp, in, &pkt))
		deliver(qp, &raw, r, *now);
	else
		count(&r->stats.wrong_path, 1);
	lock_release(&qp->lock);
}
