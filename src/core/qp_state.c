/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The QP state table and ibv_modify_qp/ibv_query_qp.
 *
 *	any state --> RESET
 *	any state but RESET --> ERR
 *
 *	RESET --> INIT --> RTR --> RTS <--> SQD
 *	                            ^
 *	                            +------ SQE		UC, UD and raw packet only
 *
 *	INIT, RTS, SQD and ERR may be kept while attributes change.  RTS --> SQE and the way to
 *	ERR are also taken by the transports themselves.
 *
 * IBTA volume 1, 10.3.1 and the attribute tables of Modify Queue Pair, as ibv_modify_qp(3) lists
 * them. Locks: qp->lock around everything that reads or writes the QP.
 */
#include "core/qp_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/context.h"
#include "core/cq.h"
#include "core/device.h"
#include "core/loan.h"
#include "core/output.h"
#include "core/port.h"
#include "core/qp.h"
#include "run/clock.h"
#include "util/compiler.h"

enum {
	RC,
	UC,
	UD,
	XS,	/* XRC send */
	XR,	/* XRC receive */
	RAW,
	TYPES,
	STATES = IBV_QPS_ERR + 1,
};

/* Attribute masks by their short names, to keep the table readable. */
enum {
	CUR = IBV_QP_CUR_STATE,
	SQDN = IBV_QP_EN_SQD_ASYNC_NOTIFY,
	ACC = IBV_QP_ACCESS_FLAGS,
	PKEY = IBV_QP_PKEY_INDEX,
	PORT = IBV_QP_PORT,
	QKEY = IBV_QP_QKEY,
	AV = IBV_QP_AV,
	MTU = IBV_QP_PATH_MTU,
	TMO = IBV_QP_TIMEOUT,
	RETRY = IBV_QP_RETRY_CNT,
	RNR = IBV_QP_RNR_RETRY,
	RQPSN = IBV_QP_RQ_PSN,
	RD = IBV_QP_MAX_QP_RD_ATOMIC,
	ALT = IBV_QP_ALT_PATH,
	RNRT = IBV_QP_MIN_RNR_TIMER,
	SQPSN = IBV_QP_SQ_PSN,
	DRD = IBV_QP_MAX_DEST_RD_ATOMIC,
	MIG = IBV_QP_PATH_MIG_STATE,
	DQPN = IBV_QP_DEST_QPN,
	RATE = IBV_QP_RATE_LIMIT,
};

struct masks {
	bool valid;
	int required;
	int optional;
};

/* No attributes, every type. */
#define PLAIN                                                                                      \
	{                                                                                          \
		[RC] = { true }, [UC] = { true }, [UD] = { true }, [XS] = { true },                \
		[XR] = { true }, [RAW] = { true },                                                 \
	}

static const struct masks table[STATES][STATES][TYPES] = {
	[IBV_QPS_RESET] = {
		[IBV_QPS_RESET] = PLAIN,
		[IBV_QPS_INIT] = {
			[RC] = { true, PKEY | PORT | ACC, 0 },
			[UC] = { true, PKEY | PORT | ACC, 0 },
			[UD] = { true, PKEY | PORT | QKEY, 0 },
			[XS] = { true, PKEY | PORT | ACC, 0 },
			[XR] = { true, PKEY | PORT | ACC, 0 },
			[RAW] = { true, PORT, 0 },
		},
	},
	[IBV_QPS_INIT] = {
		[IBV_QPS_RESET] = PLAIN,
		[IBV_QPS_ERR] = PLAIN,
		[IBV_QPS_INIT] = {
			[RC] = { true, 0, PKEY | PORT | ACC },
			[UC] = { true, 0, PKEY | PORT | ACC },
			[UD] = { true, 0, PKEY | PORT | QKEY },
			[XS] = { true, 0, PKEY | PORT | ACC },
			[XR] = { true, 0, PKEY | PORT | ACC },
			[RAW] = { true, 0, PORT },
		},
		[IBV_QPS_RTR] = {
			[RC] = { true, AV | MTU | DQPN | RQPSN | DRD | RNRT, ALT | ACC | PKEY },
			[UC] = { true, AV | MTU | DQPN | RQPSN, ALT | ACC | PKEY },
			[UD] = { true, 0, PKEY | QKEY },
			[XS] = { true, AV | MTU | DQPN | RQPSN, ALT | ACC | PKEY },
			[XR] = { true, AV | MTU | DQPN | RQPSN | DRD | RNRT, ALT | ACC | PKEY },
			[RAW] = { true, 0, 0 },
		},
	},
	[IBV_QPS_RTR] = {
		[IBV_QPS_RESET] = PLAIN,
		[IBV_QPS_ERR] = PLAIN,
		[IBV_QPS_RTS] = {
			[RC] = { true, SQPSN | TMO | RETRY | RNR | RD,
				 CUR | ALT | ACC | RNRT | MIG },
			[UC] = { true, SQPSN, CUR | ALT | ACC | MIG },
			[UD] = { true, SQPSN, CUR | QKEY },
			[XS] = { true, SQPSN | TMO | RETRY | RNR | RD, CUR | ALT | ACC | MIG },
			[XR] = { true, SQPSN | TMO, CUR | ALT | ACC | RNRT | MIG },
			[RAW] = { true, 0, CUR | RATE },
		},
	},
	[IBV_QPS_RTS] = {
		[IBV_QPS_RESET] = PLAIN,
		[IBV_QPS_ERR] = PLAIN,
		[IBV_QPS_RTS] = {
			[RC] = { true, 0, CUR | ACC | ALT | MIG | RNRT },
			[UC] = { true, 0, CUR | ACC | ALT | MIG },
			[UD] = { true, 0, CUR | QKEY },
			[XS] = { true, 0, CUR | ACC | ALT | MIG },
			[XR] = { true, 0, CUR | ACC | ALT | MIG | RNRT },
			[RAW] = { true, 0, CUR | RATE },
		},
		[IBV_QPS_SQD] = {
			[RC] = { true, 0, SQDN },
			[UC] = { true, 0, SQDN },
			[UD] = { true, 0, SQDN },
			[XS] = { true, 0, SQDN },
			[XR] = { true, 0, SQDN },
			[RAW] = { true, 0, SQDN },
		},
	},
	[IBV_QPS_SQD] = {
		[IBV_QPS_RESET] = PLAIN,
		[IBV_QPS_ERR] = PLAIN,
		[IBV_QPS_RTS] = {
			[RC] = { true, 0, CUR | ALT | ACC | RNRT | MIG },
			[UC] = { true, 0, CUR | ALT | ACC | MIG },
			[UD] = { true, 0, CUR | QKEY },
			[XS] = { true, 0, CUR | ALT | ACC | MIG },
			[XR] = { true, 0, CUR | ALT | ACC | RNRT | MIG },
			[RAW] = { true, 0, CUR },
		},
		[IBV_QPS_SQD] = {
			[RC] = { true, 0, PORT | AV | TMO | RETRY | RNR | RD | DRD | ALT | ACC |
						  PKEY | RNRT | MIG },
			[UC] = { true, 0, AV | ALT | ACC | PKEY | MIG },
			[UD] = { true, 0, PKEY | QKEY },
			[XS] = { true, 0, PORT | AV | TMO | RETRY | RNR | RD | ALT | ACC | PKEY |
						  MIG },
			[XR] = { true, 0, PORT | AV | TMO | DRD | ALT | ACC | PKEY | RNRT | MIG },
			[RAW] = { true, 0, 0 },
		},
	},
	[IBV_QPS_SQE] = {
		[IBV_QPS_RESET] = PLAIN,
		[IBV_QPS_ERR] = PLAIN,
		[IBV_QPS_RTS] = {
			[UC] = { true, 0, CUR | ACC },
			[UD] = { true, 0, CUR | QKEY },
			[RAW] = { true, 0, CUR },
		},
	},
	[IBV_QPS_ERR] = {
		[IBV_QPS_RESET] = PLAIN,
		[IBV_QPS_ERR] = PLAIN,
	},
};

static int type_index(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_RC:
		return RC;
	case IBV_QPT_UC:
		return UC;
	case IBV_QPT_UD:
		return UD;
	case IBV_QPT_XRC_SEND:
		return XS;
	case IBV_QPT_XRC_RECV:
		return XR;
	case IBV_QPT_RAW_PACKET:
		return RAW;
	default:
		return -1;
	}
}

static const struct masks *lookup(enum ibv_qp_type type, enum ibv_qp_state cur,
				  enum ibv_qp_state next)
{
	int t = type_index(type);

	if (t < 0 || (unsigned int)cur >= STATES || (unsigned int)next >= STATES)
		return NULL;
	return table[cur][next][t].valid ? &table[cur][next][t] : NULL;
}

bool qp_state_masks(enum ibv_qp_type type, enum ibv_qp_state cur, enum ibv_qp_state next,
		    int *required, int *optional)
{
	const struct masks *m = lookup(type, cur, next);

	if (!m)
		return false;
	*required = m->required;
	*optional = m->optional;
	return true;
}

bool qp_state_allowed(enum ibv_qp_type type, enum ibv_qp_state cur, enum ibv_qp_state next,
		      int mask)
{
	const struct masks *m = lookup(type, cur, next);

	return m && (mask & m->required) == m->required &&
	       !(mask & ~(m->required | m->optional | IBV_QP_STATE));
}

/* What a modification will commit; everything that can fail is computed into this first. */
struct change {
	enum ibv_qp_state cur, next;
	struct net_path path, alt_path;
	struct roce_rd_atomic *rd_atomic;	/* new array, or NULL: the old one will do */
	uint32_t slots;
};

enum {
	PSN_MAX = 0xffffff,
	QPN_MAX = 0xffffff,
	TIMER_MAX = 31,
	RETRY_MAX = 7,
	PKEYS = 1,
	SL_MAX = 15,
	ACCESS_FLUSH = IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT,
	ACCESS_LEGAL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		       IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | ACCESS_FLUSH,
	ACCESS_REMOTE = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			IBV_ACCESS_REMOTE_ATOMIC | ACCESS_FLUSH,
};

/* Plain ranges: an attribute, its value and the most it may be. */
static bool ranges_ok(const struct ibv_qp_attr *a, int mask)
{
	const struct ibv_device_attr *dev = &vrb_device_limits.orig_attr;
	const struct {
		int bit;
		uint32_t value, lowest, highest;
	} rows[] = {
		{ PORT, a->port_num, VRB_PORT_NUM, VRB_PORT_NUM },
		{ PKEY, a->pkey_index, 0, PKEYS - 1 },
		{ RQPSN, a->rq_psn, 0, PSN_MAX },
		{ SQPSN, a->sq_psn, 0, PSN_MAX },
		{ DQPN, a->dest_qp_num, 0, QPN_MAX },
		{ TMO, a->timeout, 0, TIMER_MAX },
		{ RETRY, a->retry_cnt, 0, RETRY_MAX },
		{ RNR, a->rnr_retry, 0, RETRY_MAX },
		{ RNRT, a->min_rnr_timer, 0, TIMER_MAX },
		{ RD, a->max_rd_atomic, 0, dev->max_qp_init_rd_atom },
		{ DRD, a->max_dest_rd_atomic, 0, dev->max_qp_rd_atom },
		{ MIG, a->path_mig_state, IBV_MIG_MIGRATED, IBV_MIG_REARM },
		{ ALT, a->alt_port_num, VRB_PORT_NUM, VRB_PORT_NUM },
		{ ALT, a->alt_pkey_index, 0, PKEYS - 1 },
		{ ALT, a->alt_timeout, 0, TIMER_MAX },
		{ MTU, a->path_mtu, IBV_MTU_256, IBV_MTU_4096 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if ((mask & rows[i].bit) &&
		    (rows[i].value < rows[i].lowest || rows[i].value > rows[i].highest))
			return false;
	return !(mask & ACC) ||
	       !(a->qp_access_flags & ~(ACCESS_LEGAL | IBV_ACCESS_OPTIONAL_RANGE));
}

static uint32_t mtu_bytes(enum ibv_mtu mtu)
{
	return 128u << mtu;
}

static enum ibv_mtu active_mtu(struct vrb_qp *qp)
{
	struct ibv_port_attr port;

	vrb_port_query(&qp->ctx->dev->port, &port);
	return port.active_mtu;
}

/* Both QP numbers, so that the connections of a pair of hosts spread over UDP source ports. */
static uint32_t flow_hash(const struct vrb_qp *qp, const struct ibv_qp_attr *a, int mask)
{
	return qp->wq.qpn ^ (mask & DQPN ? a->dest_qp_num : qp->wq.dest_qpn);
}

static int resolve(struct vrb_qp *qp, const struct ibv_ah_attr *av, uint32_t hash,
		   struct net_path *path)
{
	int ret;

	if (av->port_num != VRB_PORT_NUM || av->sl > SL_MAX)
		return EINVAL;
	ret = vrb_port_resolve(&qp->ctx->dev->port, av, hash, path);
	if (!ret && net_is_multicast(&path->dst))
		ret = EINVAL;
	return ret;
}

static int prepare_paths(struct vrb_qp *qp, const struct ibv_qp_attr *a, int mask,
			 struct change *c)
{
	uint32_t hash = flow_hash(qp, a, mask);
	int ret = 0;

	if ((mask & MTU) && a->path_mtu > active_mtu(qp))
		return EINVAL;
	if (mask & AV)
		ret = resolve(qp, &a->ah_attr, hash, &c->path);
	if (!ret && (mask & ALT))
		ret = resolve(qp, &a->alt_ah_attr, hash, &c->alt_path);
	return ret;
}

/* Responder resources can only be replaced before the responder runs. */
static int prepare_rd_atomic(struct vrb_qp *qp, const struct ibv_qp_attr *a, int mask,
			     struct change *c)
{
	if (!(mask & DRD) || a->max_dest_rd_atomic <= c->slots)
		return 0;
	if (c->next != IBV_QPS_RTR)
		return EINVAL;
	c->rd_atomic = calloc(a->max_dest_rd_atomic, sizeof(*c->rd_atomic));
	if (!c->rd_atomic)
		return ENOMEM;
	c->slots = a->max_dest_rd_atomic;
	return 0;
}

static int guard(struct vrb_qp *qp, const struct ibv_qp_attr *a, int mask, struct change *c)
{
	int ret;

	*c = (struct change){ .cur = qp->wq.state, .slots = qp->rd_atomic_slots };
	if ((mask & CUR) && a->cur_qp_state != c->cur)
		return EINVAL;
	c->next = mask & IBV_QP_STATE ? a->qp_state : c->cur;
	if (!qp_state_allowed(qp->ibv.qp_type, c->cur, c->next, mask) || !ranges_ok(a, mask))
		return EINVAL;
	ret = prepare_paths(qp, a, mask, c);
	if (!ret)
		ret = prepare_rd_atomic(qp, a, mask, c);
	return ret;
}

/* Copies what the mask names into qp->attr, for ibv_query_qp. */
static void store_attr(struct ibv_qp_attr *to, const struct ibv_qp_attr *a, int mask)
{
#define STORE(bit, field)                                                                          \
	do {                                                                                       \
		if (mask & (bit))                                                                  \
			to->field = a->field;                                                      \
	} while (0)
	STORE(ACC, qp_access_flags);
	STORE(PKEY, pkey_index);
	STORE(PORT, port_num);
	STORE(QKEY, qkey);
	STORE(AV, ah_attr);
	STORE(MTU, path_mtu);
	STORE(TMO, timeout);
	STORE(RETRY, retry_cnt);
	STORE(RNR, rnr_retry);
	STORE(RQPSN, rq_psn);
	STORE(RD, max_rd_atomic);
	STORE(ALT, alt_ah_attr);
	STORE(ALT, alt_pkey_index);
	STORE(ALT, alt_port_num);
	STORE(ALT, alt_timeout);
	STORE(RNRT, min_rnr_timer);
	STORE(SQPSN, sq_psn);
	STORE(DRD, max_dest_rd_atomic);
	STORE(MIG, path_mig_state);
	STORE(DQPN, dest_qp_num);
	STORE(RATE, rate_limit);
	STORE(SQDN, en_sqd_async_notify);
#undef STORE
}

/* What the transports read, from qp->attr. */
static void store_wq(struct vrb_qp *qp, int mask, const struct change *c)
{
	const struct ibv_qp_attr *a = &qp->attr;
	struct wq_qp *wq = &qp->wq;

	if (mask & AV)
		wq->path = c->path;
	if (mask & ALT) {
		wq->alt_path = c->alt_path;
		wq->alt_timeout = a->alt_timeout;
	}
	if (mask & MIG)
		wq->mig_state = a->path_mig_state;
	if (mask & MTU)
		wq->mtu = mtu_bytes(a->path_mtu);
	wq->access = a->qp_access_flags & ACCESS_REMOTE;
	wq->pkey_index = a->pkey_index;
	wq->pkey = VRB_PKEY_DEFAULT;
	wq->qkey = a->qkey;
	wq->dest_qpn = a->dest_qp_num;
	wq->rq_psn = a->rq_psn;
	wq->sq_psn = a->sq_psn;
	wq->max_rd_atomic = a->max_rd_atomic;
	wq->max_dest_rd_atomic = a->max_dest_rd_atomic;
	wq->min_rnr_timer = a->min_rnr_timer;
	wq->timeout = a->timeout;
	wq->retry_cnt = a->retry_cnt;
	wq->rnr_retry = a->rnr_retry;
	wq->sqd_notify = c->next == IBV_QPS_SQD && a->en_sqd_async_notify;
}

/* Back to what a new QP has: no attributes, empty queues, no completions. */
static void forget(struct vrb_qp *qp)
{
	memset(&qp->attr, 0, sizeof(qp->attr));
	vrb_qp_drop_taken(qp);
	qp->told = false;
	qp->wq.mig_state = IBV_MIG_MIGRATED;
	qp->wq.rate_kbps = qp->wq.rate_burst = 0;
	if (qp->send_cq)
		vrb_cq_purge(qp->send_cq, qp);
	if (qp->recv_cq && qp->recv_cq != qp->send_cq)
		vrb_cq_purge(qp->recv_cq, qp);
}

static void replace_rd_atomic(struct vrb_qp *qp, struct change *c)
{
	free(qp->rd_atomic);
	qp->rd_atomic = c->rd_atomic;
	qp->rd_atomic_slots = c->slots;
	roce_qp_init(&qp->roce, &qp->wq, c->rd_atomic, c->slots);
}

static void commit(struct vrb_qp *qp, const struct ibv_qp_attr *a, int mask, struct change *c)
{
	bool migrates = (mask & MIG) && a->path_mig_state == IBV_MIG_MIGRATED &&
			qp->wq.mig_state == IBV_MIG_ARMED;
	uint64_t now = clock_now();

	qp->now = now;
	if (c->next == IBV_QPS_RESET || c->next == IBV_QPS_ERR)
		vrb_output(qp, now);	/* an ACK may have been put off */
	if (c->next == IBV_QPS_RESET)
		forget(qp);
	if (c->rd_atomic)
		replace_rd_atomic(qp, c);
	store_attr(&qp->attr, a, mask);
	store_wq(qp, mask, c);
	if (qp->ibv.qp_type == IBV_QPT_UD && c->next == IBV_QPS_RTR)
		qp->wq.mtu = mtu_bytes(active_mtu(qp));
	qp->limits.mtu = qp->wq.mtu;
	qp->limits.max_rd_atomic = qp->wq.max_rd_atomic;
	qp->wq.state = c->next;
	if (mask & IBV_QP_STATE)
		roce_qp_moved(&qp->roce, c->cur, now);
	else
		roce_qp_changed(&qp->roce, now);
	if (migrates)
		roce_qp_migrate(&qp->roce);
	vrb_near_changed(qp);
	vrb_loan_changed(qp);
	vrb_output(qp, now);
}

/*
 * Half a connection ignores the other half's attributes: programs set both ends of XRC with one
 * mask, and the kernel lets them.
 */
static int ignored(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_XRC_SEND:
		return DRD | RNRT;
	case IBV_QPT_XRC_RECV:
		return RD | RETRY | RNR;
	default:
		return 0;
	}
}

int vrb_qp_modify(struct vrb_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	struct change c;
	int ret;

	mask &= ~ignored(qp->ibv.qp_type);
	lock_acquire(&qp->lock);
	ret = guard(qp, attr, mask, &c);
	if (!ret)
		commit(qp, attr, mask, &c);
	lock_release(&qp->lock);
	return ret;
}

int vrb_qp_set_rate(struct vrb_qp *qp, uint32_t kbps, uint32_t burst)
{
	int ret = 0;

	if (qp->ibv.qp_type == IBV_QPT_XRC_RECV || kbps > VRB_RATE_MAX)
		return EINVAL;
	lock_acquire(&qp->lock);
	if (qp->wq.state == IBV_QPS_RTR || qp->wq.state == IBV_QPS_RTS ||
	    qp->wq.state == IBV_QPS_SQD) {
		qp->attr.rate_limit = qp->wq.rate_kbps = kbps;
		qp->wq.rate_burst = burst;
		vrb_output(qp, clock_now());
	} else {
		ret = EINVAL;
	}
	lock_release(&qp->lock);
	return ret;
}

void vrb_qp_query(struct vrb_qp *qp, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init)
{
	lock_acquire(&qp->lock);
	*attr = qp->attr;
	attr->qp_state = qp->wq.state;
	attr->cur_qp_state = qp->wq.state;
	attr->cap = qp->init.cap;
	attr->path_mig_state = qp->wq.mig_state;
	attr->sq_draining = qp->wq.state == IBV_QPS_SQD && qp->wq.sq_draining;
	attr->rq_psn = qp->wq.rq_psn;
	lock_release(&qp->lock);
	memcpy(init, &qp->init, sizeof(*init));
}
