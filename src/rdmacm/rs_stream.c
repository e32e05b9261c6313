/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pair and buffers of a stream rsocket. */
#include "rdmacm/rs_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "rdmacm/qp1.h"
#include "rdmacm/rs.h"
#include "rdmacm/rs_config.h"
#include "run/clock.h"
#include "util/copy.h"
#include "util/file_room.h"

enum {
	BATCH = 16,     /* completions polled, and receives posted, at a time */
	OUT_ALIGN = 64, /* bytes: see fill_out() */
	PAGE = 4096,
	/* bytes: fewer are copied into a slot of the peer's lane, without a system call */
	DIRECT_LEAST = 2048,
};

/* Upper half of wr_id: kind of the work request.  Lower half: bytes of the out ring. */
enum work {
	WORK_RECEIVE,
	WORK_DATA,
	WORK_SLOT,
};

static uint64_t work_id(enum work w, uint32_t bytes)
{
	return (uint64_t)w << 32 | bytes;
}

/* ---- Making ---- */

static size_t align_to(size_t n, size_t to)
{
	return (n + to - 1) & ~(to - 1);
}

static size_t list_len(const struct rs_stream *s)
{
	return RS_SGL_ENTRIES * RS_SGE_LEN + (size_t)s->iomap_size * RS_IOMAP_LEN;
}

/*
 * The rings lie in a file, which a peer on this host maps: it then writes to ours without a system
 * call.  The descriptor stays open, because the file has no name.  If descriptors are scarce there
 * is none, because the program may need them.  A file that could shrink could end the program.
 */
static int open_file(size_t len)
{
	struct rlimit limit;
	int fd = memfd_create("verbena-rsocket", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -1;
	if (!getrlimit(RLIMIT_NOFILE, &limit) && (rlim_t)fd < limit.rlim_cur / 2 &&
	    !file_resize(fd, len) && !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL))
		return fd;
	close(fd);
	return -1;
}

static bool map_memory(struct rs_stream *s)
{
	void *p;

	s->file = open_file(s->memory_len);
	p = mmap(NULL, s->memory_len, PROT_READ | PROT_WRITE,
		 s->file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, s->file, 0);
	s->memory = p == MAP_FAILED ? NULL : p;
	return s->memory;
}

static int make_memory(struct rsocket *rs)
{
	const int remote = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	struct rs_stream *s = &rs->stream;
	struct ibv_pd *pd = rs->id->pd;
	size_t ring = align_to(rs->opt.rcvbuf, 2 * 64);
	size_t out = align_to(rs->opt.sndbuf, OUT_ALIGN) + OUT_ALIGN;
	size_t list, slots = RS_CTRL_SLOTS * RS_IOMAP_LEN;

	s->iomap_size = rs_unscale8(rs_scale8(rs->opt.iomap));
	list = align_to(list_len(s), 64);
	s->memory_len = align_to(ring + out + list + slots, PAGE);
	if (!map_memory(s))
		return ENOMEM;
	s->ring = s->memory;
	s->out = s->ring + ring;
	s->slot = s->out + out;
	s->list = s->slot + align_to(slots, 64);
	if (s->list + list > s->memory + s->memory_len)
		return ENOMEM;
	s->out_size = (uint32_t)out;
	rs_rx_init(&s->rx, (uint32_t)ring, (uint16_t)s->rq_size);
	s->ring_mr = ibv_reg_mr(pd, s->ring, ring, remote);
	s->out_mr = ibv_reg_mr(pd, s->out, out + slots, IBV_ACCESS_LOCAL_WRITE);
	s->list_mr = ibv_reg_mr(pd, s->list, list_len(s), remote);
	return s->ring_mr && s->out_mr && s->list_mr ? 0 : errno;
}

static int make_queue(struct rsocket *rs)
{
	struct rs_stream *s = &rs->stream;
	struct ibv_device_attr attr;
	uint32_t most;

	if (ibv_query_device(rs->id->verbs, &attr))
		return ENODEV;
	most = min((uint32_t)attr.max_qp_wr, (uint32_t)RS_QUEUE_MOST);
	most = max(min(most, (uint32_t)attr.max_cqe / 2), (uint32_t)RS_QUEUE_LEAST);
	s->sq_size = max(min(rs->opt.sq, most), (uint32_t)RS_QUEUE_LEAST);
	s->rq_size = max(min(rs->opt.rq, most), (uint32_t)RS_QUEUE_LEAST);
	s->events = ibv_create_comp_channel(rs->id->verbs);
	if (!s->events || fcntl(s->events->fd, F_SETFL, O_NONBLOCK))
		return errno;
	s->cq = ibv_create_cq(rs->id->verbs, (int)(s->sq_size + s->rq_size), rs, s->events, 0);
	return s->cq ? 0 : errno;
}

static int make_qp(struct rsocket *rs)
{
	struct rs_stream *s = &rs->stream;
	struct ibv_qp_init_attr attr = {
		.qp_context = rs,
		.send_cq = s->cq,
		.recv_cq = s->cq,
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.cap = {
			.max_send_wr = s->sq_size,
			.max_recv_wr = s->rq_size,
			.max_send_sge = 2,
			.max_recv_sge = 1,
			.max_inline_data = rs->opt.inline_max,
		},
	};
	int ret = rdma_create_qp(rs->id, NULL, &attr);

	if (ret && attr.cap.max_inline_data) {
		attr.cap.max_inline_data = 0;
		ret = rdma_create_qp(rs->id, NULL, &attr);
	}
	if (ret)
		return errno;
	s->inline_max = attr.cap.max_inline_data;
	s->sq_free = s->sq_size - RS_CTRL_SLOTS;
	s->slots_free = RS_CTRL_SLOTS;
	return 0;
}

static int post_receives(struct rsocket *rs, uint32_t n)
{
	struct ibv_recv_wr wr[BATCH], *bad;
	int err = 0;

	while (n && !err) {
		uint32_t batch = min(n, (uint32_t)BATCH), i;

		for (i = 0; i < batch; i++)
			wr[i] = (struct ibv_recv_wr){
				.wr_id = work_id(WORK_RECEIVE, 0),
				.next = i + 1 < batch ? &wr[i + 1] : NULL,
			};
		err = cma_verb(ibv_post_recv(rs->id->qp, wr, &bad));
		n -= batch;
	}
	return err;
}

int rs_stream_create(struct rsocket *rs)
{
	int err;

	list_init(&rs->stream.maps);
	list_init(&rs->stream.announce);
	rs->stream.file = -1;
	err = make_queue(rs);
	if (!err)
		err = make_memory(rs);
	if (!err)
		err = make_qp(rs);
	if (!err)
		err = post_receives(rs, rs->stream.rq_size);
	if (err)
		rs_stream_destroy(rs);
	return err;
}

void rs_stream_stop(struct rsocket *rs)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	cma_verb(ibv_modify_qp(rs->id->qp, &attr, IBV_QP_STATE));
}

static void destroy_qp(struct rsocket *rs)
{
	/* A live queue pair would wait for answers to its last messages, which do not come. */
	if (rs->peer_gone)
		rs_stream_stop(rs);
	rdma_destroy_qp(rs->id);
}

void rs_stream_destroy(struct rsocket *rs)
{
	struct rs_stream *s = &rs->stream;

	if (rs->id->qp)
		destroy_qp(rs);
	if (s->ring_mr)
		ibv_dereg_mr(s->ring_mr);
	if (s->out_mr)
		ibv_dereg_mr(s->out_mr);
	if (s->list_mr)
		ibv_dereg_mr(s->list_mr);
	if (s->memory)
		munmap(s->memory, s->memory_len);
	if (s->file >= 0)
		close(s->file);
	if (s->cq) {
		ibv_ack_cq_events(s->cq, s->unacked);
		ibv_destroy_cq(s->cq);
	}
	if (s->events)
		ibv_destroy_comp_channel(s->events);
	memset(s, 0, sizeof(*s));
	s->file = -1;
	list_init(&s->maps);
	list_init(&s->announce);
}

/* ---- Connection data ---- */

void rs_stream_describe(const struct rsocket *rs, uint8_t data[RS_CONN_LEN])
{
	const struct rs_stream *s = &rs->stream;
	const struct rs_conn c = {
		.big_endian = RS_BIG_ENDIAN,
		.iomap = true,
		.credits = (uint16_t)s->rq_size,
		.iomap_size = s->iomap_size,
		.sgl = { (uintptr_t)s->list, s->list_mr->rkey, RS_SGL_ENTRIES },
		.ring = { (uintptr_t)s->ring, s->ring_mr->rkey, s->rx.size / 2 },
	};

	rs_conn_encode(data, &c);
}

int rs_stream_peer(struct rsocket *rs, const void *data, size_t len)
{
	struct rs_stream *s = &rs->stream;
	int err = rs_conn_decode(data, len, &s->peer);

	if (err)
		return err;
	rs_tx_init(&s->tx, s->list, &s->peer);
	rs_rx_peer(&s->rx, &s->peer);
	return 0;
}

/* ---- Sending ---- */

static void post(struct rsocket *rs, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	int err = cma_verb(ibv_post_send(rs->id->qp, wr, &bad));

	rs->stream.posted++;
	if (err)
		rs_fail(rs, err);
}

/* Sends a message of n bytes from a slot, or without data. */
static void post_slot(struct rsocket *rs, const uint8_t *data, uint32_t n,
		      const struct rs_region *to, uint32_t imm)
{
	struct rs_stream *s = &rs->stream;
	uint8_t *slot = s->slot + (size_t)(s->slots_sent++ % RS_CTRL_SLOTS) * RS_IOMAP_LEN;
	struct ibv_sge sge = { (uintptr_t)slot, n, s->out_mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = work_id(WORK_SLOT, 0),
		.sg_list = &sge,
		.num_sge = n ? 1 : 0,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.imm_data = htobe32(imm),
	};

	s->slots_free--;
	if (n) {
		memcpy(slot, data, n);
		wr.wr.rdma.remote_addr = to->addr;
		wr.wr.rdma.rkey = to->key;
	}
	post(rs, &wr);
}

void rs_stream_send_ctrl(struct rsocket *rs, enum rs_ctrl what)
{
	post_slot(rs, NULL, 0, NULL, rs_imm(RS_OP_CTRL, what));
}

void rs_stream_announce(struct rsocket *rs, uint32_t index, const struct rs_mapping *m)
{
	struct rs_stream *s = &rs->stream;
	uint8_t data[RS_IOMAP_LEN];
	struct rs_region to = {
		.addr = s->peer.sgl.addr + (uint64_t)s->peer.sgl.length * RS_SGE_LEN +
			(uint64_t)index * RS_IOMAP_LEN,
		.key = s->peer.sgl.key,
	};

	rs_mapping_encode(data, m, s->peer.big_endian);
	rs_tx_spend(&s->tx);
	post_slot(rs, data, sizeof(data), &to, rs_imm(RS_OP_IOMAP, index));
}

void rs_stream_ping(struct rsocket *rs)
{
	struct ibv_send_wr wr = {
		.wr_id = work_id(WORK_SLOT, 0),
		.opcode = IBV_WR_RDMA_WRITE,
	};

	rs->stream.slots_sent++;
	rs->stream.slots_free--;
	post(rs, &wr);
}

static void grant(struct rsocket *rs)
{
	struct rs_stream *s = &rs->stream;
	uint8_t data[RS_SGE_LEN];
	struct rs_region half, to;
	struct rs_grant g;

	rs_rx_grant(&s->rx, &g);
	if (!g.has_half) {
		post_slot(rs, NULL, 0, NULL, rs_imm(RS_OP_SGL, g.imm_arg));
		return;
	}
	half = (struct rs_region){
		.addr = (uintptr_t)s->ring + g.offset,
		.key = s->ring_mr->rkey,
		.length = s->rx.size / 2,
	};
	to = (struct rs_region){
		.addr = s->peer.sgl.addr + (uint64_t)g.entry * RS_SGE_LEN,
		.key = s->peer.sgl.key,
	};
	rs_sge_encode(data, &half, s->peer.big_endian);
	post_slot(rs, data, sizeof(data), &to, rs_imm(RS_OP_SGL, g.imm_arg));
}

uint32_t rs_stream_write_room(const struct rsocket *rs)
{
	const struct rs_stream *s = &rs->stream;
	uint32_t room = s->out_size - s->out_used;

	return s->sq_free && room >= OUT_ALIGN ? room - OUT_ALIGN : 0;
}

uint32_t rs_stream_room(struct rsocket *rs)
{
	uint32_t out = rs_stream_write_room(rs);

	/* Waits for more room, so that messages do not become small. */
	if (out < min((uint32_t)RS_LEAST_ROOM, rs->stream.out_size / 2))
		return 0;
	return min(out, rs_tx_room(&rs->stream.tx));
}

bool rs_stream_is_busy(const struct rsocket *rs)
{
	const struct rs_stream *s = &rs->stream;
	uint32_t sent = s->sq_size - RS_CTRL_SLOTS - s->sq_free;

	return rs->state == RS_OPEN && sent && sent < s->sq_size / 4 &&
	       s->out_used < s->out_size / 2;
}

/* Copies n bytes of the vectors, after the first skip bytes. */
static void gather(uint8_t *to, const struct iovec *iov, size_t skip, size_t n)
{
	for (; n; iov++) {
		size_t part;

		if (skip >= iov->iov_len) {
			skip -= iov->iov_len;
			continue;
		}
		part = min(n, iov->iov_len - skip);
		copy_payload(to, (const uint8_t *)iov->iov_base + skip, part);
		to += part;
		n -= part;
		skip = 0;
	}
}

/*
 * Reserves n bytes of the out ring, in one or two parts, and fills them without the lock.  Their
 * addresses equal the destination's modulo OUT_ALIGN: the kernel's copies between processes are
 * fast that way (util/copy.h).  Returns the bytes reserved, the gap in front included.
 */
static uint32_t fill_out(struct rsocket *rs, const struct iovec *iov, size_t skip, uint32_t n,
			 struct ibv_send_wr *wr)
{
	struct rs_stream *s = &rs->stream;
	uint32_t gap = (uint32_t)(wr->wr.rdma.remote_addr - s->out_at) % OUT_ALIGN;
	uint32_t at = (s->out_at + gap) % s->out_size, first = min(n, s->out_size - at);

	s->out_used += gap + n;
	s->out_at = (at + n) % s->out_size;
	pthread_mutex_unlock(&rs->lock);
	gather(s->out + at, iov, skip, first);
	if (first < n)
		gather(s->out, iov, skip + first, n - first);
	pthread_mutex_lock(&rs->lock);
	wr->sg_list[0] = (struct ibv_sge){ (uintptr_t)s->out + at, first, s->out_mr->lkey };
	wr->sg_list[1] = (struct ibv_sge){ (uintptr_t)s->out, n - first, s->out_mr->lkey };
	wr->num_sge = first < n ? 2 : 1;
	return gap + n;
}

static bool write_part(struct rsocket *rs, const void *from, size_t n, uint64_t at, uint32_t key)
{
	struct rs_pace *pace = &rs->stream.pace;
	uint64_t begin = 0;
	bool tries, done;

	if (n < RS_PACE_LEAST)
		return qp1.write_direct(rs->id->qp, from, n, at, key, false);
	tries = rs_pace_tries(pace);
	if (tries)
		begin = clock_now();
	done = qp1.write_direct(rs->id->qp, from, n, at, key, rs_pace_past(pace));
	rs_pace_copied(pace, (uint32_t)n, tries ? clock_now() - begin : 0);
	return done;
}

/*
 * Writes n bytes of the vectors, after the first skip bytes, straight to a peer on this host,
 * without the lock.  False: they must be sent from the out ring.
 */
static bool write_direct(struct rsocket *rs, const struct iovec *iov, size_t skip, uint32_t n,
			 const struct rs_region *to)
{
	uint64_t at = to->addr;
	bool done = true;

	pthread_mutex_unlock(&rs->lock);
	for (; n && done; iov++) {
		size_t part;

		if (skip >= iov->iov_len) {
			skip -= iov->iov_len;
			continue;
		}
		part = min((size_t)n, iov->iov_len - skip);
		done = write_part(rs, (const uint8_t *)iov->iov_base + skip, part, at, to->key);
		at += part;
		n -= (uint32_t)part;
		skip = 0;
	}
	pthread_mutex_lock(&rs->lock);
	return done;
}

static void send_bytes(struct rsocket *rs, const struct iovec *iov, size_t skip, uint32_t n,
		       struct ibv_send_wr *wr)
{
	struct rs_stream *s = &rs->stream;
	uint8_t small[512];
	struct ibv_sge sge[2];

	wr->sg_list = sge;
	if (n <= s->inline_max && n <= sizeof(small)) {
		gather(small, iov, skip, n);
		sge[0] = (struct ibv_sge){ (uintptr_t)small, n, 0 };
		wr->num_sge = 1;
		wr->send_flags = IBV_SEND_INLINE;
		wr->wr_id = work_id(WORK_DATA, 0);
	} else {
		wr->wr_id = work_id(WORK_DATA, fill_out(rs, iov, skip, n, wr));
	}
	post(rs, wr);
}

void rs_stream_send(struct rsocket *rs, const struct iovec *iov, size_t skip, uint32_t n)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.imm_data = htobe32(rs_imm(RS_OP_DATA, n)),
	};
	struct rs_region to;

	rs_tx_take(&rs->stream.tx, n, &to);
	if (to.length < n) {
		/* The peer changed its announcement while it was in use. */
		rs_fail(rs, EPROTO);
		return;
	}
	wr.wr.rdma.remote_addr = to.addr;
	wr.wr.rdma.rkey = to.key;
	/* Before the lock is released: rclose() waits for this message, too. */
	rs->stream.sq_free--;
	if (n >= DIRECT_LEAST && write_direct(rs, iov, skip, n, &to)) {
		wr.wr_id = work_id(WORK_DATA, 0);
		post(rs, &wr);
	} else {
		send_bytes(rs, iov, skip, n, &wr);
	}
}

bool rs_stream_write_direct(struct rsocket *rs, const uint8_t *buf, uint32_t n,
			    const struct rs_region *to)
{
	struct iovec iov = { (void *)(uintptr_t)buf, n };

	/* Behind earlier messages, so that the peer's program finds both in order. */
	return rs_stream_idle(&rs->stream) && write_direct(rs, &iov, 0, n, to);
}

void rs_stream_write(struct rsocket *rs, const uint8_t *buf, uint32_t n, const struct rs_region *to)
{
	struct iovec iov = { (void *)(uintptr_t)buf, n };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = { .remote_addr = to->addr, .rkey = to->key },
	};

	rs->stream.wrote = true;
	rs->stream.sq_free--;
	send_bytes(rs, &iov, 0, n, &wr);
}

/* ---- Completions ---- */

static int take_ctrl(struct rsocket *rs, uint32_t what)
{
	switch (what) {
	case RS_CTRL_DISCONNECT:
		rs->peer_gone = rs->stream.complete = true;
		rs_closed(rs);
		return 0;
	case RS_CTRL_SHUTDOWN:
		rs->stream.complete = true;
		rs->can_read = false;
		if (!rs->can_write)
			rs_closed(rs);
		return 0;
	default:
		return 0;
	}
}

/* Handles a message of the peer.  Returns 0 or EPROTO. */
static int take_message(struct rsocket *rs, const struct ibv_wc *wc)
{
	struct rs_stream *s = &rs->stream;
	uint32_t imm = be32toh(wc->imm_data), arg = rs_imm_arg(imm);

	if (wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM)
		return EPROTO;
	switch (rs_imm_op(imm)) {
	case RS_OP_DATA:
		/* The bytes came with the message, or were written before. */
		return arg == wc->byte_len || !wc->byte_len ? rs_rx_came(&s->rx, arg) : EPROTO;
	case RS_OP_SGL:
		rs_tx_grant(&s->tx, arg);
		return 0;
	case RS_OP_IOMAP:
		rs_rx_count(&s->rx);
		return arg < s->iomap_size ? 0 : EPROTO;
	case RS_OP_CTRL:
		return take_ctrl(rs, arg);
	default:
		return EPROTO;
	}
}

static void take_failure(struct rsocket *rs, const struct ibv_wc *wc)
{
	/* Work requests flushed by the end of the connection are no error. */
	if (rs->state == RS_CLOSED && wc->status == IBV_WC_WR_FLUSH_ERR)
		return;
	if (rs->state == RS_OPEN)
		rs_fail(rs, EIO);
}

static void take_sent(struct rs_stream *s, uint64_t wr_id)
{
	if (wr_id >> 32 == WORK_SLOT) {
		s->slots_free++;
		return;
	}
	s->sq_free++;
	s->out_used -= (uint32_t)wr_id;
}

/* Returns the number of receives consumed. */
static uint32_t take_completions(struct rsocket *rs, const struct ibv_wc *wc, int n)
{
	uint32_t used = 0;
	int i;

	for (i = 0; i < n; i++) {
		bool receive = wc[i].wr_id >> 32 == WORK_RECEIVE;

		if (!receive)
			take_sent(&rs->stream, wc[i].wr_id);
		if (wc[i].status) {
			rs->stream.lost |= wc[i].wr_id >> 32 == WORK_DATA;
			take_failure(rs, &wc[i]);
			continue;
		}
		if (!receive)
			continue;
		used++;
		if (take_message(rs, &wc[i]))
			rs_fail(rs, EPROTO);
	}
	return used;
}

static bool may_grant(const struct rsocket *rs)
{
	return rs->state == RS_OPEN && rs->stream.slots_free && rs_rx_owes(&rs->stream.rx);
}

bool rs_stream_progress(struct rsocket *rs)
{
	struct ibv_wc wc[BATCH];
	bool changed = false;
	uint32_t used;
	int n;

	do {
		n = ibv_poll_cq(rs->stream.cq, BATCH, wc);
		if (n <= 0)
			break;
		changed = true;
		used = take_completions(rs, wc, n);
		if (used && rs->state == RS_OPEN && post_receives(rs, used))
			rs_fail(rs, EIO);
	} while (n == BATCH);
	while (may_grant(rs))
		grant(rs);
	return changed;
}

void rs_stream_arm(struct rsocket *rs)
{
	if (rs->stream.armed)
		return;
	rs->stream.armed = true;
	ibv_req_notify_cq(rs->stream.cq, 0);
}

bool rs_stream_event(struct rsocket *rs)
{
	struct rs_stream *s = &rs->stream;
	struct ibv_cq *cq;
	void *context;
	bool any = false;

	while (s->armed && !ibv_get_cq_event(s->events, &cq, &context)) {
		s->armed = false;
		s->unacked++;
		any = true;
	}
	return any;
}
