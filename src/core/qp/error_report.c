/* SPDX-License-Identifier: BSD-2-Clause */
/* See error_report.h. */
#include "core/qp/error_report.h"

#include <arpa/inet.h>
#include <stddef.h>

#include "core/base/context.h"
#include "core/base/state.h"
#include "core/device/device.h"
#include "core/mem/key_table.h"
#include "core/mem/refusal.h"
#include "core/qp/qp.h"
#include "host/host.h"
#include "local/onesided.h"
#include "local/peer_fault.h"
#include "roce/opcode.h"
#include "run/log.h"
#include "util/atomic.h"
#include "util/compiler.h"
#include "util/net.h"
#include "util/time.h"
#include "wire/wire.h"

/* Opcode names, and the access each needs to remote memory; -1: none. */
static const struct opcode {
	const char *name;
	int access;
} opcodes[] = {
	[IBV_WR_RDMA_WRITE] = { "RDMA WRITE", MEM_REMOTE_WRITE },
	[IBV_WR_RDMA_WRITE_WITH_IMM] = { "RDMA WRITE with immediate", MEM_REMOTE_WRITE },
	[IBV_WR_SEND] = { "SEND", -1 },
	[IBV_WR_SEND_WITH_IMM] = { "SEND with immediate", -1 },
	[IBV_WR_RDMA_READ] = { "RDMA READ", MEM_REMOTE_READ },
	[IBV_WR_ATOMIC_CMP_AND_SWP] = { "compare-and-swap", MEM_REMOTE_ATOMIC },
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = { "fetch-and-add", MEM_REMOTE_ATOMIC },
	[IBV_WR_LOCAL_INV] = { "local invalidate", -1 },
	[IBV_WR_BIND_MW] = { "bind memory window", -1 },
	[IBV_WR_SEND_WITH_INV] = { "SEND with invalidate", -1 },
	[14] = { "FLUSH", MEM_REMOTE_FLUSH_GLOBAL },
	[15] = { "ATOMIC WRITE", MEM_REMOTE_WRITE },
};

/* A peer that only has to catch up posts a receive sooner. */
#define RNR_LONG (3 * VRB_SECOND)

static void add_qp(struct text *t, const struct wq_qp *wq)
{
	char address[INET6_ADDRSTRLEN] = "?";

	text_add(t, "QP 0x%x (%s", wq->qpn, vrb_qp_type_name(wq->type));
	if (wq->type != IBV_QPT_UD && wq->type != IBV_QPT_RAW_PACKET) {
		inet_ntop(AF_INET6, wq->path.dst.raw, address, sizeof(address));
		text_add(t, ", to 0x%x at %s", wq->dest_qpn, address);
	}
	text_add(t, ")");
}

/* The kinds of requests, and the flags that they need in qp_access_flags. */
static const struct {
	const char *name, *flags;
} requests[] = {
	[ROCE_KIND_SEND] = { "a SEND", "" },
	[ROCE_KIND_WRITE] = { "an RDMA WRITE", "REMOTE_WRITE" },
	[ROCE_KIND_READ] = { "an RDMA READ", "REMOTE_READ" },
	[ROCE_KIND_ATOMIC] = { "an atomic", "REMOTE_ATOMIC" },
	[ROCE_KIND_FLUSH] = { "a FLUSH", "FLUSH_GLOBAL or _PERSISTENT" },
	[ROCE_KIND_ATOMIC_WRITE] = { "an ATOMIC WRITE", "REMOTE_WRITE" },
};

/* Appends which request of the peer was refused, and by which attribute of the QP. */
static void add_refused(struct text *t, const struct wq_qp *wq, enum reason why)
{
	uint8_t kind = wq->fault_kind;

	if (kind >= ARRAY_SIZE(requests) || !requests[kind].name)
		return;
	text_add(t, "; it is %s", requests[kind].name);
	if (why == REASON_QP_ACCESS)
		text_add(t, ", the QP lacks IBV_ACCESS_%s", requests[kind].flags);
	else if (why == REASON_REQ_RD_ATOMIC)
		text_add(t, ", max_dest_rd_atomic is %u", wq->max_dest_rd_atomic);
	else if (why == REASON_REQ_LENGTH)
		text_add(t, ", path_mtu is %u", wq->mtu);
}

/* A peer on this host: look up the cause, which its NAK does not carry, in its key table. */
static bool query_peer(struct vrb_qp *qp, const struct send_wqe *w, int access,
		       struct refusal *r)
{
	if (!vrb.local || !qp->peer.process || access < 0)
		return false;
	*r = (struct refusal){ .key = w->rkey, .va = w->remote_addr, .len = w->length,
			       .access = (enum mem_access)access, .remote = true };
	r->why = onesided_reason(qp->peer.process, &qp->wq, r->key, r->va, r->len, r->access,
				 &r->entry);
	r->named = r->entry.kind != MR_FREE;
	return r->why != REASON_NONE;
}

/* Is that the cause of this NAK? */
static bool is_cause(enum reason nak, enum reason why)
{
	return nak == (why == REASON_QP_ACCESS ? REASON_NAK_INVALID_REQUEST :
						 REASON_NAK_REMOTE_ACCESS);
}

static bool on_this_host(const struct vrb_qp *qp)
{
	return vrb_port_find_gid(&qp->config.ctx->dev->port, &qp->wq.path.dst) >= 0;
}

/* The peer may have been sent its own key back. */
static void add_own_key(struct text *t, uint32_t rkey)
{
	if (vrb_refusal_own_key(rkey))
		text_add(t, "; it is the rkey of a region of this process");
}

static void add_cause(struct text *t, const struct refusal *r)
{
	vrb_refusal_add(t, r);
	if (r->why == REASON_RKEY_UNKNOWN)
		add_own_key(t, r->key);
}

/* On this host the peer may be this process, where that is no mistake. */
static void add_remote(struct text *t, const struct vrb_qp *qp, const struct send_wqe *w,
		       enum reason why)
{
	text_add(t, "; rkey 0x%x, address 0x%llx, length %u", w->rkey,
		 (unsigned long long)w->remote_addr, w->length);
	if (why == REASON_NAK_REMOTE_ACCESS && !on_this_host(qp))
		add_own_key(t, w->rkey);
}

/* The limit that was reached, as the program set it. */
static void add_limit(struct text *t, const struct wq_qp *wq, const struct wq_cqe *cqe)
{
	if (cqe->status == IBV_WC_RETRY_EXC_ERR)
		text_add(t, "; timeout is %u, retry_cnt %u", wq->timeout, wq->retry_cnt);
	else if (cqe->status == IBV_WC_RNR_RETRY_EXC_ERR)
		text_add(t, "; rnr_retry is %u", wq->rnr_retry);
}

/* What a local reason is about is in the SGEs, whatever the opcode. */
static bool is_local(enum reason why)
{
	return why < REASON_RKEY_UNKNOWN;
}

/*
 * The copy that failed does not note the refusal, which would cost the others: with one SGE it is
 * known all the same.
 */
static bool add_unmapped(struct text *t, const struct ibv_sge *sge, uint32_t n, enum reason why)
{
	struct refusal r = { .access = MEM_LOCAL_READ, .why = why };
	struct mr_entry *e;

	if (why != REASON_LKEY_UNMAPPED || n != 1)
		return false;
	r.key = sge->lkey;
	r.va = sge->addr;
	r.len = sge->length;
	e = mr_entry_get(r.key);
	if (!e)
		return false;
	r.named = true;
	r.entry = *e;
	mr_entry_put(e);
	vrb_refusal_add(t, &r);
	return true;
}

static void add_request(struct text *t, struct vrb_qp *qp, const struct wq_cqe *cqe)
{
	const struct send_wqe *w = sq_wqe(&qp->wq.sq, cqe->release - 1);
	const struct opcode *op = w->opcode < ARRAY_SIZE(opcodes) ? &opcodes[w->opcode] : NULL;
	struct refusal r;

	text_add(t, "%s wr_id 0x%llx: %s, vendor_err %u: %s", op && op->name ? op->name : "request",
		 (unsigned long long)w->wr_id, vrb_status_name(cqe->status), cqe->reason,
		 reason_str(cqe->reason));
	if (vrb_refusal.qpn == qp->wq.qpn && vrb_refusal.why == cqe->reason)
		vrb_refusal_add(t, &vrb_refusal);
	else if (op && query_peer(qp, w, op->access, &r) && is_cause(cqe->reason, r.why))
		add_cause(t, &r);
	else if (w->error || add_unmapped(t, w->sge, w->num_sge, cqe->reason))
		return;	/* refused before it was filled in, or told */
	else if (op && op->access >= 0 && !is_local(cqe->reason))
		add_remote(t, qp, w, cqe->reason);
	else if (!(w->flags & WQE_DATA_INLINE) && w->num_sge)
		text_add(t, "; first lkey 0x%x, address 0x%llx, length %u of %u in %u SGEs",
			 w->sge[0].lkey, (unsigned long long)w->sge[0].addr, w->sge[0].length,
			 w->length, w->num_sge);
}

/* Does one end have its packets relayed? */
static bool is_relayed(const struct vrb_qp *qp)
{
	return (vrb.wire && load_relaxed(&vrb.wire->relayed)) ||
	       qp->wq.dest_qpn >> NET_RELAY_QPN_BITS >= NET_RELAY_FIRST;
}

/* Why a peer did not answer, as far as this host knows. */
static void add_peer(struct text *t, struct vrb_qp *qp, enum reason why)
{
	static const char *const words[] = {
		[LOCAL_FAULT_NO_QP] = "does not exist, or has not left RESET",
		[LOCAL_FAULT_TYPE] = "is of type ",
		[LOCAL_FAULT_STATE] = "is in ",
		[LOCAL_FAULT_OTHER_QP] = "is connected to QP ",
		[LOCAL_FAULT_ADDRESS] = "has or is connected to another address",
	};
	struct local_fault f = { .kind = LOCAL_FAULT_NONE };

	if (qp->wq.type != IBV_QPT_RC)
		return;
	if (on_this_host(qp))
		f = local_peer_fault(vrb.host, vrb.local, &qp->wq);
	if (on_this_host(qp) && qp->wq.dest_qpn == qp->wq.qpn)
		text_add(t, "; the QP is connected to itself");
	else if (f.kind == LOCAL_FAULT_NONE)
		text_add(t, "; likely causes: verbena explain %u", why);
	if (f.kind == LOCAL_FAULT_NOBODY)
		text_add(t, "; no process that shares %s has QP 0x%x now", host_dir(vrb.host),
			 qp->wq.dest_qpn);
	if (f.kind == LOCAL_FAULT_NOBODY && is_relayed(qp))
		text_add(t, ", but another user's may; who relays its packets may be stopped");
	if (f.kind == LOCAL_FAULT_NONE || f.kind == LOCAL_FAULT_NOBODY)
		return;
	text_add(t, "; QP 0x%x %s", qp->wq.dest_qpn, words[f.kind]);
	if (f.kind == LOCAL_FAULT_TYPE)
		text_add(t, "%s", vrb_qp_type_name(f.value));
	else if (f.kind == LOCAL_FAULT_STATE)
		text_add(t, "%s", vrb_qp_state_name(f.value));
	else if (f.kind == LOCAL_FAULT_OTHER_QP)
		text_add(t, "0x%x", f.value);
	text_add(t, " (process %d)", (int)f.pid);
}

static void add_receive(struct text *t, struct vrb_qp *qp, const struct wq_cqe *cqe)
{
	const struct recv_wqe *w = qp->recv.wqe;

	text_add(t, "receive wr_id 0x%llx: %s, vendor_err %u: %s",
		 (unsigned long long)(w ? w->wr_id : cqe->wr_id), vrb_status_name(cqe->status),
		 cqe->reason, reason_str(cqe->reason));
	if (vrb_refusal.qpn == qp->wq.qpn && vrb_refusal.why == cqe->reason)
		vrb_refusal_add(t, &vrb_refusal);
	else if (w && !add_unmapped(t, w->sge, w->num_sge, cqe->reason))
		text_add(t, "; buffer of %u bytes in %u SGEs", w->length, w->num_sge);
}

/* Only the first failure of a QP is reported, not its consequences. */
static bool tells(struct vrb_qp *qp)
{
	if (qp->comp.error_logged || !log_on(LOG_CORE, LOG_WARN))
		return false;
	qp->comp.error_logged = true;
	return true;
}

void vrb_report_completion(struct vrb_qp *qp, const struct wq_cqe *cqe)
{
	struct text t = { .n = 0 };

	if (cqe->reason == REASON_WR_FLUSHED || !vrb_status_name(cqe->status) ||
	    !tells(qp))
		return;
	add_qp(&t, &qp->wq);
	text_add(&t, " failed: ");
	if (cqe->recv)
		add_receive(&t, qp, cqe);
	else
		add_request(&t, qp, cqe);
	if (!cqe->recv)
		add_limit(&t, &qp->wq, cqe);
	if (cqe->status == IBV_WC_RETRY_EXC_ERR)
		add_peer(&t, qp, cqe->reason);
	log_warn(LOG_CORE, "%s", t.s);
	vrb_refusal.qpn = 0;
}

/*
 * UD without a receive: informational only, because many programs drop datagrams in normal
 * operation. Other reasons are mistakes, for which a real device has no completion, either.
 */
void vrb_report_drop(struct vrb_qp *qp, enum reason why)
{
	bool usual = qp->wq.type == IBV_QPT_UD && why == REASON_DROP_NO_RECEIVE;
	enum log_level level = usual ? LOG_INFO : LOG_WARN;
	struct text t = { .n = 0 };

	if (qp->comp.drop_logged || !log_on(LOG_CORE, level))
		return;
	qp->comp.drop_logged = true;
	add_qp(&t, &qp->wq);
	text_add(&t, ": reason %u: %s", why, reason_str(why));
	if (why == REASON_DROP_QKEY)
		text_add(&t, ", 0x%x", qp->wq.qkey);
	else if (why == REASON_RECV_TOO_SMALL && qp->wq.use_grh_area)
		text_add(&t, " less the 40 bytes of the GRH");
	else if (why == REASON_QP_ACCESS)
		add_refused(&t, &qp->wq, why);
	else if (vrb_refusal.qpn == qp->wq.qpn && vrb_refusal.why == why)
		vrb_refusal_add(&t, &vrb_refusal);
	text_add(&t, "; further drops are only counted");
	log_at(LOG_CORE, level, "%s", t.s);
}

/* Informational only: at the end of a program, others may still send to it. */
void vrb_report_no_qp(const struct net_addr *src, uint32_t src_qpn, uint32_t qpn)
{
	char address[INET6_ADDRSTRLEN] = "?";

	if (!log_on(LOG_CORE, LOG_INFO))
		return;
	inet_ntop(AF_INET6, src->raw, address, sizeof(address));
	log_once(LOG_CORE, LOG_INFO, "QP 0x%x at %s sends to QP 0x%x: reason %u: %s; further drops "
		 "are only counted", src_qpn, address, qpn, REASON_DROP_NO_QP,
		 reason_str(REASON_DROP_NO_QP));
}

void vrb_report_rnr(struct vrb_qp *qp, uint32_t psn)
{
	struct vrb_qp_comp *c = &qp->comp;
	struct text t = { .n = 0 };

	if (psn != c->rnr_psn || !c->rnr_since)
		c->rnr_since = qp->now;
	c->rnr_psn = psn;
	if (time_since(c->rnr_since, qp->now) < RNR_LONG || !log_on(LOG_CORE, LOG_WARN))
		return;
	add_qp(&t, &qp->wq);
	log_once(LOG_CORE, LOG_WARN,
		 "%s: a request waits for a receive, of which its peer has posted none for %d s",
		 t.s, (int)(time_since(c->rnr_since, qp->now) / VRB_SECOND));
}

void vrb_report_mtu(const struct vrb_qp *qp, uint32_t mtu)
{
	struct text t = { .n = 0 };

	if (!log_on(LOG_CORE, LOG_WARN))
		return;
	add_qp(&t, &qp->wq);
	log_once(LOG_CORE, LOG_WARN,
		 "%s: path_mtu is %u, but %u at its peer: Verbena takes messages of several "
		 "packets all the same, a device refuses them",
		 t.s, qp->wq.mtu, mtu);
}

void vrb_report_event(struct vrb_qp *qp, enum ibv_event_type type)
{
	struct text t = { .n = 0 };

	if ((type != IBV_EVENT_QP_ACCESS_ERR && type != IBV_EVENT_QP_REQ_ERR &&
	     type != IBV_EVENT_QP_FATAL) || !tells(qp))
		return;
	add_qp(&t, &qp->wq);
	text_add(&t, " refused a request from its peer: reason %u: %s", qp->wq.fault,
		 reason_str(qp->wq.fault));
	add_refused(&t, &qp->wq, qp->wq.fault);
	if (vrb_refusal.qpn == qp->wq.qpn)
		vrb_refusal_add(&t, &vrb_refusal);
	log_warn(LOG_CORE, "%s", t.s);
	vrb_refusal.qpn = 0;
}
