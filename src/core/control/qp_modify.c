/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibv_modify_qp and ibv_query_qp. Checks first compute everything that can fail into a struct
 * change, which is then committed at once.
 *
 * Locks: qp->lock around every access to the QP.
 */
#include "core/control/qp_modify.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/context.h"
#include "core/base/state.h"
#include "core/cq/cq.h"
#include "core/device/device.h"
#include "core/device/port.h"
#include "core/local/peer_link.h"
#include "core/local/peer_word.h"
#include "core/qp/qp.h"
#include "core/control/qp_state.h"
#include "core/rx/reorder.h"
#include "core/tx/transmit.h"
#include "roce/rd_atomic.h"
#include "host/host.h"
#include "run/clock.h"
#include "run/log.h"
#include "run/netdev.h"
#include "util/atomic.h"
#include "util/compiler.h"
#include "util/text.h"

/* The result of the checks, ready to commit. */
struct change {
	enum ibv_qp_state cur, next;
	struct net_path path, alt_path;
	uint32_t slots;				/* READ and atomic resources */
	struct roce_rd_atomic *rd_atomic;	/* their new array, or NULL */
	char why[VRB_PORT_WHY];			/* the reason for a refusal */
};

enum {
	TIMER_MASK = 31,
	RETRY_MAX = 7,
	RNR_RETRY_ALWAYS = 7,
	PKEYS = 1,
	ACCESS_FLUSH = IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT,
	/*
	 * The flags that matter for a QP. Programs also pass the flags of their regions, and
	 * devices ignore these.
	 */
	ACCESS_REMOTE = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			IBV_ACCESS_REMOTE_ATOMIC | ACCESS_FLUSH,
};

static int refuse(struct change *c, int err, const char *fmt, ...) format_printf(3, 4);

static int refuse(struct change *c, int err, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(c->why, sizeof(c->why), fmt, args);
	va_end(args);
	return err;
}

/* The name of the lowest bit of a mask. */
static const char *attr_name(int mask)
{
	static const char *const names[] = {
		"STATE", "CUR_STATE", "EN_SQD_ASYNC_NOTIFY", "ACCESS_FLAGS", "PKEY_INDEX", "PORT",
		"QKEY", "AV", "PATH_MTU", "TIMEOUT", "RETRY_CNT", "RNR_RETRY", "RQ_PSN",
		"MAX_QP_RD_ATOMIC", "ALT_PATH", "MIN_RNR_TIMER", "SQ_PSN", "MAX_DEST_RD_ATOMIC",
		"PATH_MIG_STATE", "CAP", "DEST_QPN",
		[25] = "RATE_LIMIT",
	};
	unsigned int bit = __builtin_ctz(mask);

	return bit < ARRAY_SIZE(names) && names[bit] ? names[bit] : "(unknown)";
}

/* All of them, so that the program need not be run again for each. */
static int refuse_missing(struct change *c, int missing)
{
	bool many = missing & (missing - 1);
	struct text t = { .n = 0 };

	for (; missing; missing &= missing - 1)
		text_add(&t, "%sIBV_QP_%s", t.n ? ", " : "", attr_name(missing));
	return refuse(c, EINVAL, "%s %s missing from the mask", t.s, many ? "are" : "is");
}

static int check_mask(const struct vrb_qp *qp, const struct ibv_qp_attr *a, int mask,
		      struct change *c)
{
	int required, optional, missing, extra;

	if ((mask & IBV_QP_CUR_STATE) && a->cur_qp_state != c->cur)
		return refuse(c, EINVAL, "cur_qp_state is %s, not the QP's state",
			      vrb_qp_state_name(a->cur_qp_state));
	if (qp_state_allowed(qp->ibv.qp_type, c->cur, c->next, mask))
		return 0;
	if (!qp_state_masks(qp->ibv.qp_type, c->cur, c->next, &required, &optional))
		return refuse(c, EINVAL,
			      "there is no such transition for this type of QP; the order is "
			      "RESET, INIT, RTR, RTS");
	missing = required & ~mask;
	if (missing)
		return refuse_missing(c, missing);
	extra = mask & ~(required | optional | IBV_QP_STATE);
	return refuse(c, EINVAL, "IBV_QP_%s cannot be changed in this transition%s",
		      attr_name(extra),
		      mask & IBV_QP_STATE ? "" : ": IBV_QP_STATE is not in the mask");
}

/* Checks that each attribute lies in its range. */
static int check_ranges(const struct ibv_qp_attr *a, int mask, struct change *c)
{
	const struct ibv_device_attr *dev = &vrb_device_limits.orig_attr;
#define ROW(bit, field, lowest, highest) { IBV_QP_##bit, #field, a->field, lowest, highest }
	const struct {
		int bit;
		const char *name;
		uint32_t value, lowest, highest;
	} rows[] = {
		ROW(PORT, port_num, VRB_PORT_NUM, VRB_PORT_NUM),
		ROW(PKEY_INDEX, pkey_index, 0, PKEYS - 1),
		ROW(MAX_QP_RD_ATOMIC, max_rd_atomic, 0, dev->max_qp_init_rd_atom),
		ROW(MAX_DEST_RD_ATOMIC, max_dest_rd_atomic, 0, dev->max_qp_rd_atom),
		ROW(PATH_MIG_STATE, path_mig_state, IBV_MIG_MIGRATED, IBV_MIG_REARM),
		ROW(RATE_LIMIT, rate_limit, 0, VRB_RATE_MAX),
		ROW(ALT_PATH, alt_port_num, VRB_PORT_NUM, VRB_PORT_NUM),
		ROW(ALT_PATH, alt_pkey_index, 0, PKEYS - 1),
		ROW(PATH_MTU, path_mtu, IBV_MTU_256, IBV_MTU_4096),
	};
#undef ROW

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if ((mask & rows[i].bit) &&
		    (rows[i].value < rows[i].lowest || rows[i].value > rows[i].highest))
			return refuse(c, EINVAL, "%s is %u, but must be %u to %u", rows[i].name,
				      rows[i].value, rows[i].lowest, rows[i].highest);
	return 0;
}

static uint32_t mtu_bytes(enum ibv_mtu mtu)
{
	return 128u << mtu;
}

static enum ibv_mtu active_mtu(struct vrb_qp *qp)
{
	struct ibv_port_attr port;

	vrb_port_query(&qp->config.ctx->dev->port, &port);
	return port.active_mtu;
}

/* Hashes both QPNs, so that the connections of a pair of hosts spread over UDP source ports. */
static uint32_t flow_hash(const struct vrb_qp *qp, const struct ibv_qp_attr *a, int mask)
{
	return qp->wq.qpn ^ (mask & IBV_QP_DEST_QPN ? a->dest_qp_num : qp->wq.dest_qpn);
}

static int resolve(struct vrb_qp *qp, const struct ibv_ah_attr *av, uint32_t hash,
		   struct net_path *path, struct change *c)
{
	struct vrb_port *port = &qp->config.ctx->dev->port;
	int err = vrb_port_resolve(port, av, hash, path);

	if (err) {
		vrb_port_explain(port, av, c->why, sizeof(c->why));
		return err;
	}
	if (net_is_multicast(&path->dst))
		return refuse(c, EINVAL, "the DGID is a multicast address");
	return 0;
}

static int prepare_paths(struct vrb_qp *qp, const struct ibv_qp_attr *a, int mask,
			 struct change *c)
{
	uint32_t hash = flow_hash(qp, a, mask);
	int ret = 0;

	if (mask & IBV_QP_AV)
		ret = resolve(qp, &a->ah_attr, hash, &c->path, c);
	if (!ret && (mask & IBV_QP_ALT_PATH))
		ret = resolve(qp, &a->alt_ah_attr, hash, &c->alt_path, c);
	return ret;
}

/*
 * Responder resources get memory with the first request (vrb_qp_rd_make()), except that an XRC QP
 * can take over those of another process: it cannot have more while its responder runs, and keeps
 * those that it has.
 */
static int prepare_rd_atomic(struct vrb_qp *qp, const struct ibv_qp_attr *a, int mask,
			     struct change *c)
{
	bool xrc = qp->ibv.qp_type == IBV_QPT_XRC_RECV, runs = c->next != IBV_QPS_RTR;
	uint32_t had = runs && !xrc ? qp->wq.max_dest_rd_atomic : c->slots;
	/* Answers to send, or to repeat, are in the slots that go. */
	bool fewer = runs && !xrc && qp->recv.rd_atomic && a->max_dest_rd_atomic &&
		     a->max_dest_rd_atomic < had;

	if (!(mask & IBV_QP_MAX_DEST_RD_ATOMIC) || (a->max_dest_rd_atomic <= had && !fewer))
		return 0;
	if (xrc && runs)
		return refuse(c, EINVAL, "max_dest_rd_atomic of an XRC QP can grow only with the "
			      "transition to RTR");
	c->slots = fewer ? a->max_dest_rd_atomic : max((uint32_t)a->max_dest_rd_atomic, c->slots);
	if (!xrc && !(runs && qp->recv.rd_atomic))
		return 0;
	c->rd_atomic = calloc(c->slots, sizeof(*c->rd_atomic));
	return c->rd_atomic ? 0 : refuse(c, ENOMEM, "out of memory");
}

/* So many of them are used: an XRC QP that runs accepts as many requests as before. */
static uint8_t rd_atomic_in_use(const struct vrb_qp *qp, const struct ibv_qp_attr *a,
				const struct change *c)
{
	if (qp->ibv.qp_type != IBV_QPT_XRC_RECV || c->next <= IBV_QPS_RTR)
		return a->max_dest_rd_atomic;
	return max(a->max_dest_rd_atomic, qp->wq.max_dest_rd_atomic);
}

static int guard(struct vrb_qp *qp, const struct ibv_qp_attr *a, int mask, struct change *c)
{
	int ret;

	*c = (struct change){ .cur = qp->wq.state, .slots = qp->recv.rd_atomic_slots };
	c->next = mask & IBV_QP_STATE ? a->qp_state : c->cur;
	ret = check_mask(qp, a, mask, c);
	if (!ret)
		ret = check_ranges(a, mask, c);
	if (!ret)
		ret = prepare_paths(qp, a, mask, c);
	if (!ret)
		ret = prepare_rd_atomic(qp, a, mask, c);
	return ret;
}

void vrb_qp_copy_attr(struct ibv_qp_attr *to, const struct ibv_qp_attr *a, int mask)
{
#define STORE(bit, field)                                                                          \
	do {                                                                                       \
		if (mask & (bit))                                                                  \
			to->field = a->field;                                                      \
	} while (0)
	STORE(IBV_QP_STATE, qp_state);
	STORE(IBV_QP_CUR_STATE, cur_qp_state);
	STORE(IBV_QP_ACCESS_FLAGS, qp_access_flags);
	STORE(IBV_QP_PKEY_INDEX, pkey_index);
	STORE(IBV_QP_PORT, port_num);
	STORE(IBV_QP_QKEY, qkey);
	STORE(IBV_QP_AV, ah_attr);
	STORE(IBV_QP_PATH_MTU, path_mtu);
	STORE(IBV_QP_TIMEOUT, timeout);
	STORE(IBV_QP_RETRY_CNT, retry_cnt);
	STORE(IBV_QP_RNR_RETRY, rnr_retry);
	STORE(IBV_QP_RQ_PSN, rq_psn);
	STORE(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
	STORE(IBV_QP_ALT_PATH, alt_ah_attr);
	STORE(IBV_QP_ALT_PATH, alt_pkey_index);
	STORE(IBV_QP_ALT_PATH, alt_port_num);
	STORE(IBV_QP_ALT_PATH, alt_timeout);
	STORE(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
	STORE(IBV_QP_SQ_PSN, sq_psn);
	STORE(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	STORE(IBV_QP_PATH_MIG_STATE, path_mig_state);
	STORE(IBV_QP_DEST_QPN, dest_qp_num);
	STORE(IBV_QP_RATE_LIMIT, rate_limit);
	STORE(IBV_QP_EN_SQD_ASYNC_NOTIFY, en_sqd_async_notify);
#undef STORE
}

/*
 * Programs ask for the device's largest MTU whatever the interface carries, and hardware accepts
 * it. Within the host it works. Towards another host the MTU of the interface and of the route,
 * which may be by another interface, is used; the peer computes the same if its own match. Both
 * must agree, because they count the response packets of a READ.
 */
static enum ibv_mtu usable_mtu(struct vrb_qp *qp, enum ibv_mtu wanted)
{
	const struct net_path *path = &qp->wq.path;
	enum ibv_mtu active = active_mtu(qp);
	uint32_t route;

	if (vrb_port_find_gid(&qp->config.ctx->dev->port, &path->dst) >= 0)
		return wanted;
	route = netdev_path_mtu(path);
	if (route)
		active = min(active, vrb_port_mtu(route));
	if (wanted <= active || netdev_owns(&path->dst, path->ifindex, &path->src))
		return wanted;
	log_once(LOG_CORE, LOG_WARN,
		 "QP 0x%x: path_mtu %u is too large for the interface or route of %s; using %u, "
		 "and the peer must use the same",
		 qp->wq.qpn, mtu_bytes(wanted), qp->config.ctx->dev->ibv.name, mtu_bytes(active));
	return active;
}

/* Copies from qp->attr what the transports read. */
static void store_wq(struct vrb_qp *qp, int mask, const struct change *c)
{
	const struct ibv_qp_attr *a = &qp->attr;
	struct wq_qp *wq = &qp->wq;

	if (mask & IBV_QP_AV)
		wq->path = c->path;
	if (mask & IBV_QP_ALT_PATH) {
		wq->alt_path = c->alt_path;
		wq->alt_timeout = a->alt_timeout;
	}
	if (mask & IBV_QP_PATH_MIG_STATE)
		wq->mig_state = a->path_mig_state;
	if (mask & IBV_QP_PATH_MTU) {
		wq->path_mtu = mtu_bytes(a->path_mtu);
		wq->mtu = mtu_bytes(usable_mtu(qp, a->path_mtu));
	}
	if (mask & IBV_QP_RATE_LIMIT)
		wq->rate_kbps = a->rate_limit;
	wq->access = a->qp_access_flags & ACCESS_REMOTE;
	wq->pkey_index = a->pkey_index;
	wq->pkey = VRB_PKEY_DEFAULT;
	wq->qkey = a->qkey;
	wq->dest_qpn = a->dest_qp_num;
	wq->rq_psn = a->rq_psn;
	wq->sq_psn = a->sq_psn;
	wq->max_rd_atomic = a->max_rd_atomic;
	wq->max_dest_rd_atomic = rd_atomic_in_use(qp, a, c);
	wq->min_rnr_timer = a->min_rnr_timer;
	wq->timeout = a->timeout;
	wq->retry_cnt = a->retry_cnt;
	wq->rnr_retry = a->rnr_retry;
	/* For one drain: the attribute counts in the transition to SQD only. */
	if (c->cur != IBV_QPS_SQD || c->next != IBV_QPS_SQD)
		wq->sqd_notify = c->next == IBV_QPS_SQD && mask & IBV_QP_EN_SQD_ASYNC_NOTIFY &&
				 a->en_sqd_async_notify;
}

/* Resets to a new QP: no attributes, empty queues, no completions. */
static void forget(struct vrb_qp *qp)
{
	memset(&qp->attr, 0, sizeof(qp->attr));
	vrb_qp_drop_wqe(qp);
	if (qp->recv.rndv.owner)
		vrb_rndv_abandon(qp);
	qp->comp.error_logged = qp->comp.drop_logged = qp->comp.failing = false;
	qp->comp.rnr_since = 0;
	qp->wq.mig_state = IBV_MIG_MIGRATED;
	qp->wq.alt_path = (struct net_path){ 0 };	/* leads to the last connection's peer */
	qp->wq.rate_kbps = qp->wq.rate_burst = 0;
	if (qp->config.send_cq)
		vrb_cq_purge(qp->config.send_cq, qp);
	if (qp->config.recv_cq && qp->config.recv_cq != qp->config.send_cq)
		vrb_cq_purge(qp->config.recv_cq, qp);
}

static void replace_rd_atomic(struct vrb_qp *qp, struct change *c)
{
	if (c->next == IBV_QPS_RTR)
		roce_qp_init(&qp->roce, &qp->wq, c->rd_atomic, c->slots);
	else
		roce_rd_move(&qp->roce, c->rd_atomic, c->slots);
	free(qp->recv.rd_atomic);
	qp->recv.rd_atomic = c->rd_atomic;
	qp->recv.rd_atomic_slots = c->slots;
}

/* True if the peer is a QP of this process. */
static bool is_within(const struct vrb_qp *qp)
{
	return qp->wq.state >= IBV_QPS_RTR && qp->wq.state <= IBV_QPS_SQE &&
	       (qp->ibv.qp_type == IBV_QPT_RC || qp->ibv.qp_type == IBV_QPT_UC) &&
	       vrb_port_find_gid(&qp->config.ctx->dev->port, &qp->wq.path.dst) >= 0 &&
	       host_qpn_mine(vrb.host, qp->wq.dest_qpn);
}

static void commit(struct vrb_qp *qp, const struct ibv_qp_attr *a, int mask, struct change *c)
{
	bool migrates = (mask & IBV_QP_PATH_MIG_STATE) && a->path_mig_state == IBV_MIG_MIGRATED &&
			qp->wq.mig_state == IBV_MIG_ARMED;
	uint64_t now = clock_now();

	qp->now = now;
	if (c->next == IBV_QPS_ERR)
		vrb_word_read(qp, now);	/* what has executed is not flushed */
	if (c->next == IBV_QPS_RESET || c->next == IBV_QPS_ERR)
		vrb_transmit(qp, now);	/* flushes a delayed ACK */
	if (c->next == IBV_QPS_RESET) {
		vrb_word_retract(qp, now);
		forget(qp);
		qp->used |= c->cur > IBV_QPS_INIT;
	}
	if (c->rd_atomic || c->slots != qp->recv.rd_atomic_slots)
		replace_rd_atomic(qp, c);
	vrb_qp_copy_attr(&qp->attr, a, mask);
	store_wq(qp, mask, c);
	if (qp->ibv.qp_type == IBV_QPT_UD && c->next == IBV_QPS_RTR)
		qp->wq.mtu = mtu_bytes(active_mtu(qp));
	qp->post.limits.mtu = qp->wq.mtu;
	qp->post.limits.max_rd_atomic = qp->wq.max_rd_atomic;
	qp->wq.state = c->next;
	if (c->next == IBV_QPS_RESET)
		reorder_free(&qp->recv.reorder);
	if (mask & IBV_QP_STATE)
		roce_qp_moved(&qp->roce, c->cur);
	else
		roce_qp_changed(&qp->roce);
	if (migrates)
		roce_qp_migrate(&qp->roce);
	/* Read by posting threads without the lock. */
	store_relaxed(&qp->post.peer_shard, (uint8_t)host_qpn_shard(vrb.host, qp->wq.dest_qpn));
	store_relaxed(&qp->post.same_process, is_within(qp));
	vrb_peer_publish(qp);
	if (qp->config.hooks && qp->config.hooks->modified)
		qp->config.hooks->modified(qp);
	vrb_transmit(qp, now);
}

/*
 * Attributes that do not apply to one half of a connection are ignored: programs pass one mask for
 * both ends of XRC, and the kernel accepts it.
 */
static int ignored(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_XRC_SEND:
		return IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	case IBV_QPT_XRC_RECV:
		return IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;
	default:
		return 0;
	}
}

/*
 * Hardware truncates attributes to the width of a field. Counts are clamped instead: eight retries,
 * which rxe accepts, must not become none.
 */
static struct ibv_qp_attr fitted(const struct ibv_qp_attr *a, int mask)
{
	struct ibv_qp_attr to = { 0 };

	vrb_qp_copy_attr(&to, a, mask);
	to.rq_psn &= ROCE_PSN_MASK;
	to.sq_psn &= ROCE_PSN_MASK;
	to.dest_qp_num &= ROCE_QPN_MASK;
	to.timeout &= TIMER_MASK;
	to.alt_timeout &= TIMER_MASK;
	to.min_rnr_timer &= TIMER_MASK;
	to.retry_cnt = min(to.retry_cnt, RETRY_MAX);
	if (to.rnr_retry > RNR_RETRY_ALWAYS)
		to.rnr_retry = RNR_RETRY_ALWAYS - 1;
	return to;
}

bool vrb_qp_arrived_first(struct vrb_qp *qp, enum ibv_qp_state next)
{
	bool ret;

	lock_acquire(&qp->lock);
	ret = next == IBV_QPS_ERR || (next == IBV_QPS_RTR && qp->used) ||
	      (next == IBV_QPS_RESET && wq_receives(qp->wq.state));
	lock_release(&qp->lock);
	return ret;
}

int vrb_qp_modify(struct vrb_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	struct ibv_qp_attr fit = fitted(attr, mask &= ~ignored(qp->ibv.qp_type));
	struct change c;
	int ret;

	lock_acquire(&qp->lock);
	ret = guard(qp, &fit, mask, &c);
	if (!ret)
		commit(qp, &fit, mask, &c);
	lock_release(&qp->lock);
	if (!ret && mask & IBV_QP_TIMEOUT && !attr->timeout)
		log_once(LOG_CORE, LOG_INFO, "QP 0x%x: timeout is 0: a request whose peer does not "
			 "answer waits for ever", qp->wq.qpn);
	if (ret)
		log_warn(LOG_CORE, "QP 0x%x: ibv_modify_qp %s to %s: %s", qp->wq.qpn,
			 vrb_qp_state_name(c.cur), vrb_qp_state_name(c.next), c.why);
	return ret;
}

int vrb_qp_set_rate(struct vrb_qp *qp, uint32_t kbps, uint32_t burst)
{
	int ret = 0;

	if (qp->ibv.qp_type == IBV_QPT_XRC_RECV || kbps > VRB_RATE_MAX)
		return EINVAL;
	lock_acquire(&qp->lock);
	if (wq_receives(qp->wq.state)) {
		qp->attr.rate_limit = qp->wq.rate_kbps = kbps;
		qp->wq.rate_burst = burst;
		vrb_transmit(qp, clock_now());
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
	attr->cap = qp->config.init.cap;
	attr->path_mig_state = qp->wq.mig_state;
	attr->sq_draining = qp->wq.state == IBV_QPS_SQD && qp->wq.sq_draining;
	/* Those of the next packets, as mlx5 and rxe report; programs reconnect a QP with them. */
	attr->rq_psn = roce_expected_psn(&qp->roce);
	attr->sq_psn = roce_unused_psn(&qp->roce);
	lock_release(&qp->lock);
	memcpy(init, &qp->config.init, sizeof(*init));
}

int vrb_qp_attach_cntr(struct vrb_qp *qp, struct vrb_cntr *c, uint32_t op_mask)
{
	int err = EINVAL;

	if (!op_mask || qp->config.ctx != c->ctx)
		return EINVAL;
	if (op_mask & ~vrb_cntr_ops())
		return EOPNOTSUPP;
	lock_acquire(&qp->lock);
	if (qp->wq.state == IBV_QPS_RESET || qp->wq.state == IBV_QPS_INIT)
		err = vrb_cntr_attach(qp->comp.cntr, c, op_mask);
	if (!err)
		qp->wq.counted = true;
	lock_release(&qp->lock);
	return err;
}
