/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The extended form of a CQ: ibv_start_poll, ibv_next_poll, ibv_end_poll and the readers of one
 * completion.
 *
 * A poller copies the completion, so cq->lock is free while the program reads it, and the program
 * may post and poll in between. poll_lock excludes other pollers from start to end.
 */
#include <errno.h>

#include "core/cq/cq.h"
#include "core/fastpath/poll.h"
#include "core/progress/poll_loop.h"
#include "core/tx/tx_pending.h"
#include "run/clock.h"
#include "run/log.h"
#include "util/atomic.h"
#include "util/compiler.h"

static struct vrb_cq *ex_to_cq(struct ibv_cq_ex *ex)
{
	return container_of(ex, struct vrb_cq, ex);
}

static int take_current(struct vrb_cq *cq)
{
	cq->none = !vrb_cq_take(cq, &cq->current);
	if (cq->none)
		return ENOENT;
	cq->ex.status = cq->current.wc.status;
	cq->ex.wr_id = cq->current.wc.wr_id;
	return 0;
}

static int take_driving(struct vrb_cq *cq)
{
	int ret = take_current(cq);

	if (ret) {
		/* As in vrb_cq_poll(): other threads may have completed meanwhile. */
		vrb_poll_once(load_relaxed(&cq->shards));
		ret = take_current(cq);
	}
	vrb_tx_send_pending(load_relaxed(&cq->shards));
	return ret;
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct vrb_cq *cq = ex_to_cq(ex);
	int ret;

	if (attr && attr->comp_mask)
		return EINVAL;
	lock_acquire(&cq->poll_lock);
	ret = take_driving(cq);
	if (ret)
		lock_release(&cq->poll_lock);
	else
		store_relaxed(&cq->polled, true);
	return ret;
}

static int start_poll_single(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	if (attr && attr->comp_mask)
		return EINVAL;
	return take_driving(ex_to_cq(ex));
}

int vrb_cq_start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	bool single = ex_to_cq(ex)->create_flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED;

	return single ? start_poll_single(ex, attr) : start_poll(ex, attr);
}

/* Programs go on with it after ENOENT, which mlx5 allows: then it looks for what has come. */
int vrb_cq_next_poll(struct ibv_cq_ex *ex)
{
	struct vrb_cq *cq = ex_to_cq(ex);
	int ret;

	if (unlikely(cq->none))
		return take_driving(cq);
	ret = take_current(cq);
	vrb_tx_send_pending(load_relaxed(&cq->shards));
	return ret;
}

/* Some programs also call it after ENOENT, which has no effect on mlx5 while nobody else polls. */
static void end_poll(struct ibv_cq_ex *ex)
{
	struct vrb_cq *cq = ex_to_cq(ex);

	if (unlikely(!load_relaxed(&cq->polled))) {
		log_once(LOG_CORE, LOG_WARN, "ibv_end_poll() without a successful "
			 "ibv_start_poll() before it has no effect");
		return;
	}
	store_relaxed(&cq->polled, false);
	lock_release(&cq->poll_lock);
}

static void end_poll_single(struct ibv_cq_ex *ex)
{
}

static const struct wq_cqe *current(struct ibv_cq_ex *ex)
{
	return &ex_to_cq(ex)->current.wc;
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex)
{
	return current(ex)->opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *ex)
{
	return current(ex)->reason;
}

static uint32_t read_byte_len(struct ibv_cq_ex *ex)
{
	return current(ex)->byte_len;
}

static __be32 read_imm_data(struct ibv_cq_ex *ex)
{
	return current(ex)->imm;
}

static uint32_t read_qp_num(struct ibv_cq_ex *ex)
{
	return current(ex)->qp_num;
}

static uint32_t read_src_qp(struct ibv_cq_ex *ex)
{
	return current(ex)->src_qp;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *ex)
{
	return current(ex)->wc_flags;
}

static uint32_t read_slid(struct ibv_cq_ex *ex)
{
	return current(ex)->slid;
}

static uint8_t read_sl(struct ibv_cq_ex *ex)
{
	return current(ex)->sl;
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *ex)
{
	return current(ex)->dlid_path_bits;
}

/* The device clock is the monotonic clock in nanoseconds; hca_core_clock says so. */
static uint64_t read_completion_ts(struct ibv_cq_ex *ex)
{
	return ex_to_cq(ex)->current.time_ns;
}

static uint64_t read_completion_wallclock_ns(struct ibv_cq_ex *ex)
{
	return clock_wall(ex_to_cq(ex)->current.time_ns);
}

static uint16_t read_cvlan(struct ibv_cq_ex *ex)
{
	return current(ex)->cvlan;
}

static uint32_t read_flow_tag(struct ibv_cq_ex *ex)
{
	return current(ex)->flow_tag;
}

static void read_tm_info(struct ibv_cq_ex *ex, struct ibv_wc_tm_info *info)
{
	*info = (struct ibv_wc_tm_info){ current(ex)->tm_tag, current(ex)->tm_priv };
}

/* Readers of what the program has not asked for. Devices have none, and the program crashes. */
static void tell_unasked(const char *flag)
{
	log_once(LOG_CORE, LOG_WARN, "a completion's field is read, without IBV_WC_EX_WITH_%s in "
				     "wc_flags of ibv_create_cq_ex(): it is 0", flag);
}

#define UNASKED(flag, type, reader)                                                                \
	static type reader##_unasked(struct ibv_cq_ex *ex)                                         \
	{                                                                                          \
		(void)ex;                                                                          \
		tell_unasked(#flag);                                                               \
		return 0;                                                                          \
	}
UNASKED(BYTE_LEN, uint32_t, read_byte_len)
UNASKED(IMM, __be32, read_imm_data)
UNASKED(QP_NUM, uint32_t, read_qp_num)
UNASKED(SRC_QP, uint32_t, read_src_qp)
UNASKED(SLID, uint32_t, read_slid)
UNASKED(SL, uint8_t, read_sl)
UNASKED(DLID_PATH_BITS, uint8_t, read_dlid_path_bits)
UNASKED(COMPLETION_TIMESTAMP, uint64_t, read_completion_ts)
UNASKED(COMPLETION_TIMESTAMP_WALLCLOCK, uint64_t, read_completion_wallclock_ns)
UNASKED(CVLAN, uint16_t, read_cvlan)
UNASKED(FLOW_TAG, uint32_t, read_flow_tag)
#undef UNASKED

static void read_tm_info_unasked(struct ibv_cq_ex *ex, struct ibv_wc_tm_info *info)
{
	(void)ex;
	tell_unasked("TM_INFO");
	*info = (struct ibv_wc_tm_info){ 0 };
}

void vrb_cq_ex_init(struct vrb_cq *cq)
{
	struct ibv_cq_ex *ex = &cq->ex;
	bool single = cq->create_flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED;

	ex->start_poll = single ? start_poll_single : start_poll;
	ex->next_poll = vrb_cq_next_poll;
	ex->end_poll = single ? end_poll_single : end_poll;
	ex->read_opcode = read_opcode;
	ex->read_vendor_err = read_vendor_err;
	ex->read_wc_flags = read_wc_flags;

#define READER(flag, reader)                                                                       \
	(ex->reader = cq->wc_flags & IBV_WC_EX_WITH_##flag ? reader : reader##_unasked)
	READER(BYTE_LEN, read_byte_len);
	READER(IMM, read_imm_data);
	READER(QP_NUM, read_qp_num);
	READER(SRC_QP, read_src_qp);
	READER(SLID, read_slid);
	READER(SL, read_sl);
	READER(DLID_PATH_BITS, read_dlid_path_bits);
	READER(COMPLETION_TIMESTAMP, read_completion_ts);
	READER(COMPLETION_TIMESTAMP_WALLCLOCK, read_completion_wallclock_ns);
	READER(CVLAN, read_cvlan);
	READER(FLOW_TAG, read_flow_tag);
	READER(TM_INFO, read_tm_info);
#undef READER
}
