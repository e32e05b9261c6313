/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Turns send requests of raw packet QPs into frames, one batch at a time:
 *
 *	short, or with checksums	copied into one buffer, where checksums are filled in
 *	long				sent from the SGEs, which stay pinned meanwhile
 *	TSO				a copy of the header for each frame; an offloading interface
 *					gets as much of a TCP request in one frame as an IP packet
 *					holds
 *
 * All of it runs under qp->lock. The scratch memory is per thread and freed with the thread.
 */
#include "core/raw/raw_tx.h"

#include <string.h>

#include "core/base/context.h"
#include "core/device/device.h"
#include "core/mem/mr.h"
#include "core/qp/qp.h"
#include "core/qp/wq_ops.h"
#include "core/raw/flow.h"
#include "core/raw/raw_port.h"
#include "util/atomic.h"
#include "util/be.h"
#include "util/compiler.h"
#include "util/inet.h"
#include "util/own_memory.h"
#include "util/tuning.h"

enum {
	COPY_MAX = 1024,	/* longer pieces are sent in place */
	ROOM = 2 * RAW_MAX_FRAME,
	IP_MAX = 65535,
};

/* The request of an entry of out[], and the progress on it once the frame is sent. */
struct origin {
	uint32_t index;
	uint32_t offset;	/* payload sent including this frame */
	bool last;		/* completes the request */
};

struct scratch {
	unsigned int n, pins;
	uint32_t used;		/* used bytes of room */
	struct raw_out out[RAW_BURST];
	struct origin origin[RAW_BURST];
	struct mr_entry *pin[RAW_BURST * RAW_PIECES];
	uint8_t room[ROOM];
};

static __thread struct scratch *own;

static struct scratch *scratch(void)
{
	if (likely(own))
		return own;
	own = own_memory(sizeof(*own), vrb_raw_send_forget);
	if (own)
		own->n = own->pins = own->used = 0;
	return own;
}

void vrb_raw_send_forget(void)
{
	own = NULL;
}

static void clear(struct scratch *s)
{
	while (s->pins)
		vrb_mem_unpin(s->pin[--s->pins]);
	s->n = 0;
	s->used = 0;
}

/* Gathering */

static void add_piece(struct raw_out *o, const void *base, uint32_t len)
{
	o->piece[o->pieces++] = (struct iovec){ (void *)base, len };
	o->len += len;
}

/* Cuts payload [offset, offset + len) of a request into pieces of its SGEs. */
struct walk {
	struct vrb_qp *qp;
	struct send_wqe *w;
	uint32_t offset, len;
};

typedef enum reason (*piece_fn)(struct scratch *s, struct walk *k, const struct ibv_sge *piece);

static enum reason each_piece(struct scratch *s, struct walk *k, piece_fn fn)
{
	uint64_t skip = k->offset, left = k->len;

	for (uint32_t i = 0; i < k->w->num_sge && left; i++) {
		const struct ibv_sge *sge = &k->w->sge[i];
		struct ibv_sge piece;
		enum reason why;

		if (skip >= sge->length) {
			skip -= sge->length;
			continue;
		}
		piece = (struct ibv_sge){ sge->addr + skip, min(left, sge->length - skip),
					  sge->lkey };
		why = fn(s, k, &piece);
		if (why)
			return why;
		skip = 0;
		left -= piece.length;
	}
	return REASON_NONE;
}

static enum reason copy_piece(struct scratch *s, struct walk *k, const struct ibv_sge *piece)
{
	enum reason why = vrb_mem_read(&k->qp->wq, piece->lkey, piece->addr, s->room + s->used,
				       piece->length, MEM_LOCAL_READ);

	s->used += piece->length;
	return why;
}

static enum reason pin_piece(struct scratch *s, struct walk *k, const struct ibv_sge *piece)
{
	struct raw_out *o = &s->out[s->n];
	struct wq_seg seg;
	enum reason why = vrb_mem_pin(&k->qp->wq, piece->lkey, piece->addr, piece->length,
				      MEM_LOCAL_READ, &seg, &s->pin[s->pins]);

	if (why)
		return why;
	s->pins++;
	add_piece(o, (void *)(uintptr_t)seg.addr, seg.len);
	return REASON_NONE;
}

/* Appends the payload to room; extends the frame's last piece or begins a new one. */
static enum reason copy_payload(struct scratch *s, struct walk *k)
{
	uint32_t at = s->used;
	enum reason why = REASON_NONE;

	if (k->w->flags & WQE_DATA_INLINE) {
		memcpy(s->room + at, wqe_inline_data(k->w) + k->offset, k->len);
		s->used += k->len;
	} else {
		why = each_piece(s, k, copy_piece);
	}
	return why;
}

/* Memory that cannot be pinned (a null region) is copied. */
static enum reason place_payload(struct scratch *s, struct walk *k)
{
	struct raw_out *o = &s->out[s->n];
	unsigned int pins = s->pins, pieces = o->pieces;
	uint32_t len = o->len, at = s->used;
	enum reason why = REASON_LKEY_UNMAPPED;

	if (k->len > COPY_MAX && !(k->w->flags & WQE_DATA_INLINE))
		why = each_piece(s, k, pin_piece);
	if (why != REASON_LKEY_UNMAPPED)
		return why;
	while (s->pins > pins)
		vrb_mem_unpin(s->pin[--s->pins]);
	o->pieces = pieces;
	o->len = len;
	why = copy_payload(s, k);
	if (!why)
		add_piece(o, s->room + at, s->used - at);
	return why;
}

/* Frames */

static struct raw_port *port_of(const struct vrb_qp *qp)
{
	return qp->config.ctx->dev->raw->port;
}

static uint32_t longest(const struct vrb_qp *qp)
{
	return load_relaxed(&qp->config.ctx->dev->port.ifmtu) + RAW_HEADER_LEN + RAW_TAG_LEN;
}

static enum reason check_length(const struct vrb_qp *qp, uint32_t len)
{
	if (len < RAW_HEADER_LEN)
		return REASON_WR_TOO_SHORT;
	return len > longest(qp) || len > RAW_MAX_FRAME ? REASON_WR_MTU : REASON_NONE;
}

static bool has_room(const struct scratch *s, uint32_t len)
{
	return s->n < RAW_BURST && s->used + len <= ROOM;
}

/* The TCP or UDP checksum, left to the interface if it can offload it. */
static void leave_payload_sum(struct raw_out *o, uint8_t *frame, const struct inet *f, bool offload)
{
	if (!f->sum)
		return;
	if (!offload) {
		inet_fill_payload_sum(frame, f);
		return;
	}
	put_be16(frame + f->sum, inet_pseudo_sum(frame, f));
	o->sum_start = f->l4;
	o->sum_offset = f->sum - f->l4;
}

static void finish(struct scratch *s, uint32_t index, uint32_t offset, bool last)
{
	s->origin[s->n++] = (struct origin){ index, offset, last };
}

static struct raw_out *start(struct scratch *s)
{
	struct raw_out *o = &s->out[s->n];

	o->pieces = 0;
	o->len = 0;
	o->sum_start = o->mss = 0;
	o->progress = 0;
	return o;
}

/* IBV_SEND_IP_CSUM */
static enum reason build_summed(struct scratch *s, struct walk *k, struct raw_out *o)
{
	uint8_t *frame = s->room + s->used;
	enum reason why = copy_payload(s, k);
	struct inet f;

	if (why)
		return why;
	add_piece(o, frame, k->len);
	if (!inet_parse_frame(frame, k->len, INET_BY_HEADER, &f))
		return REASON_NONE;
	inet_fill_header_sum(frame, &f);
	leave_payload_sum(o, frame, &f, port_of(k->qp)->offloads && f.end == k->len);
	return REASON_NONE;
}

static enum reason build_plain(struct scratch *s, struct vrb_qp *qp, struct send_wqe *w,
			       uint32_t index)
{
	struct walk k = { .qp = qp, .w = w, .len = w->length };
	struct raw_out *o = start(s);
	enum reason why = check_length(qp, w->length);

	if (!why)
		why = w->flags & IBV_SEND_IP_CSUM ? build_summed(s, &k, o) : place_payload(s, &k);
	if (!why)
		finish(s, index, w->length, true);
	return why;
}

/* The payload size of the next frame of a segmented send. */
static uint32_t next_part(const struct send_wqe *w, uint32_t offset, bool whole)
{
	uint32_t room = whole ? (IP_MAX - w->ud.hdr_len) / w->ud.mss * w->ud.mss : w->ud.mss;

	return min(w->length - offset, max(room, (uint32_t)w->ud.mss));
}

/* The interface can segment TCP if the header in room ends where the payload begins. */
static bool can_offload(const struct vrb_qp *qp, const struct send_wqe *w, const struct inet *f)
{
	return port_of(qp)->offloads && f->data == w->ud.hdr_len && f->proto == INET_PROTO_TCP;
}

static enum reason build_segment(struct scratch *s, struct vrb_qp *qp, struct send_wqe *w,
				 uint32_t index, uint32_t *offset)
{
	uint8_t *head = s->room + s->used;
	struct walk k = { .qp = qp, .w = w, .offset = *offset };
	struct raw_out *o = start(s);
	struct inet_segment seg = { .index = *offset / w->ud.mss, .offset = *offset };
	bool ip, whole;
	enum reason why;
	struct inet f;

	memcpy(head, wqe_tso_header(&qp->wq.sq, w), w->ud.hdr_len);
	ip = inet_parse_frame(head, w->ud.hdr_len, INET_AT_END, &f) && f.sum;
	whole = ip && can_offload(qp, w, &f);
	k.len = next_part(w, *offset, whole);
	seg.last = *offset + k.len == w->length;
	s->used += w->ud.hdr_len;
	add_piece(o, head, w->ud.hdr_len);
	/* Software checksums need the payload after the header. */
	if (whole) {
		why = place_payload(s, &k);
	} else {
		why = copy_payload(s, &k);
		o->piece[0].iov_len += k.len;
		o->len += k.len;
	}
	if (why)
		return why;
	if (ip) {
		f.end = w->ud.hdr_len + k.len;
		inet_make_segment(head, &f, &seg);
		inet_fill_header_sum(head, &f);
		leave_payload_sum(o, head, &f, whole);
	}
	if (whole && k.len > w->ud.mss) {
		o->mss = w->ud.mss;
		o->hdr_len = w->ud.hdr_len;
		o->ipv6 = f.ipv6;
	}
	*offset += k.len;
	finish(s, index, *offset, seg.last);
	return REASON_NONE;
}

/* Builds frames of a TSO request from *offset until the request or the room ends. */
static enum reason build_segments(struct scratch *s, struct vrb_qp *qp, struct send_wqe *w,
				  uint32_t index, uint32_t *offset)
{
	enum reason why = check_length(qp, w->ud.hdr_len + min(w->length, (uint32_t)w->ud.mss));

	if (w->ud.hdr_len < RAW_HEADER_LEN)
		why = REASON_WR_TOO_SHORT;
	do {
		if (!why && !has_room(s, w->ud.hdr_len + next_part(w, *offset, true)))
			break;
		if (!why)
			why = build_segment(s, qp, w, index, offset);
	} while (!why && *offset < w->length);
	return why;
}

/*
 * Fills the batch with frames from request *index at *offset, up to request `end`. Returns the
 * reason if it stopped at a request that cannot be sent.
 */
static enum reason build(struct scratch *s, struct vrb_qp *qp, uint32_t *index, uint32_t *offset,
			 uint32_t end)
{
	enum reason why = REASON_NONE;

	while (!why && *index != end) {
		struct send_wqe *w = sq_wqe(&qp->wq.sq, *index);

		if (w->error)
			return w->error;
		if (w->opcode == IBV_WR_TSO) {
			why = build_segments(s, qp, w, *index, offset);
			if (!why && *offset < w->length)
				break;
		} else if (!has_room(s, min(w->length, (uint32_t)RAW_MAX_FRAME))) {
			break;
		} else {
			why = build_plain(s, qp, w, *index);
		}
		if (!why) {
			++*index;
			*offset = 0;
		}
	}
	return why;
}

/* Sending */

static enum reason not_sent(enum raw_sent how)
{
	static const enum reason why[] = {
		[RAW_FULL] = REASON_NONE,
		[RAW_TOO_LONG] = REASON_WR_MTU,
		[RAW_BAD_MEMORY] = REASON_LKEY_UNMAPPED,
	};

	return why[how];
}

/* Advances the queue by k frames of the batch; returns the index of the current request. */
static uint32_t note_sent(struct vrb_qp *qp, const struct scratch *s, unsigned int k, uint32_t at)
{
	struct vrb_raw_begun *b = &qp->post.raw_begun;
	const struct origin *o = k ? &s->origin[k - 1] : NULL;

	if (o) {
		at = o->last ? o->index + 1 : o->index;
		b->offset = o->last ? 0 : o->offset;
	}
	b->index = at;
	b->progress = k < s->n ? s->out[k].progress : 0;
	return at;
}

/* Like raw_send() for a device with egress rules: frame by frame. */
static unsigned int send_steered(struct vrb_qp *qp, struct scratch *s, enum raw_sent *how)
{
	struct vrb_device *dev = qp->config.ctx->dev;
	unsigned int k;

	for (k = 0; k < s->n; k++) {
		if (vrb_flow_leaves(dev, &s->out[k], false) &&
		    !raw_send(port_of(qp), &s->out[k], 1, qp->now, how))
			break;
		vrb_flow_leaves(dev, &s->out[k], true);
	}
	return k;
}

static unsigned int send_burst(struct vrb_qp *qp, struct scratch *s, enum raw_sent *how)
{
	if (unlikely(load_relaxed(&qp->config.ctx->dev->egress_rules)))
		return send_steered(qp, s, how);
	return raw_send(port_of(qp), s->out, s->n, qp->now, how);
}

static unsigned int send_frames(struct wq_qp *wq, uint32_t most, bool *begun, enum reason *why)
{
	struct vrb_qp *qp = wq_to_vrb_qp(wq);
	struct vrb_raw_begun *b = &qp->post.raw_begun;
	struct scratch *s = scratch();
	uint32_t first = wq->sq.done, at = first, end = first + most;
	bool full = false;

	qp->peer.retry_at = s ? VRB_NEVER : time_after(qp->now, LIMIT_RAW_FULL_US * VRB_USEC);
	if (!s)
		return 0;
	if (b->index != first)
		*b = (struct vrb_raw_begun){ .index = first };
	while (at != end && !full && !*why) {
		uint32_t index = at, offset = b->offset;
		enum raw_sent how = RAW_FULL;
		unsigned int k;

		*why = build(s, qp, &index, &offset, end);
		if (s->n)
			s->out[0].progress = b->progress;
		k = send_burst(qp, s, &how);
		at = note_sent(qp, s, k, at);
		full = k < s->n;
		if (full)
			*why = not_sent(how);
		clear(s);
	}
	if (full && !*why)
		qp->peer.retry_at = time_after(qp->now, LIMIT_RAW_FULL_US * VRB_USEC);
	*begun = at != end && (b->offset || b->progress);
	return at - first;
}

const struct wq_ops vrb_raw_ops = {
	VRB_QP_OPS,
	.send_frames = send_frames,
};
