/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Payload between packets and scatter/gather lists. Accesses the memory of an SGE through wq->ops,
 * which check key, range and rights each time; keeps no pointer.
 */
#include <string.h>

#include "roce/parts.h"
#include "util/compiler.h"

/*
 * Walks bytes [offset, offset + len) of a list, one call per SGE in the range, which must lie
 * within the list.
 */
struct sge_walk {
	const struct ibv_sge *sge;
	const struct ibv_sge *end;
	uint64_t skip;
	uint32_t len;
};

/*
 * Stores address and key of the next piece in *piece. Returns false at the end of the range or the
 * list.
 */
static bool sge_next(struct sge_walk *walk, struct ibv_sge *piece)
{
	while (walk->len && walk->sge != walk->end) {
		const struct ibv_sge *sge = walk->sge;

		if (walk->skip < sge->length) {
			uint32_t n = min((uint64_t)walk->len, sge->length - walk->skip);

			*piece = (struct ibv_sge){ sge->addr + walk->skip, n, sge->lkey };
			walk->skip += n;
			walk->len -= n;
			return true;
		}
		walk->skip -= sge->length;
		walk->sge++;
	}
	return false;
}

enum reason roce_gather(struct roce_qp *qp, struct send_wqe *w, uint64_t offset, uint8_t *dst,
			uint32_t len)
{
	struct sge_walk walk = { w->sge, w->sge + w->num_sge, offset, len };
	struct ibv_sge piece;

	if (w->flags & WQE_DATA_INLINE) {
		memcpy(dst, wqe_inline_data(w) + offset, len);
		return REASON_NONE;
	}
	while (sge_next(&walk, &piece)) {
		enum reason why = qp->wq->ops->mem_read(qp->wq, piece.lkey, piece.addr, dst,
							piece.length, MEM_LOCAL_READ);

		if (why)
			return why;
		dst += piece.length;
	}
	return walk.len ? REASON_LKEY_RANGE : REASON_NONE;
}

enum reason roce_scatter_list(struct roce_qp *qp, const struct ibv_sge *sge, uint32_t num_sge,
			      uint64_t offset, const void *src, uint32_t len,
			      enum mem_access access)
{
	struct sge_walk walk = { sge, sge + num_sge, offset, len };
	const uint8_t *p = src;
	struct ibv_sge piece;

	while (sge_next(&walk, &piece)) {
		enum reason why = qp->wq->ops->mem_write(qp->wq, piece.lkey, piece.addr, p,
							 piece.length, access);

		if (why)
			return why;
		p += piece.length;
	}
	return walk.len ? REASON_LKEY_RANGE : REASON_NONE;
}

enum reason roce_deliver(struct roce_qp *qp, const struct recv_wqe *w, uint64_t received,
			 const struct roce_pkt *pkt, uint32_t i)
{
	uint64_t begin = max(received, (uint64_t)w->skip);
	uint64_t end = received + pkt->payload_len;

	if (w->clip)
		end = min(end, (uint64_t)w->skip + w->length);
	if (begin >= end)
		return REASON_NONE;
	if (pkt->pull)
		return qp->wq->ops->pull(qp->wq, pkt->pull, begin, end - begin, w->sge, w->num_sge,
					 MEM_RECV_WRITE);
	return roce_scatter(qp, w->sge, w->num_sge, begin - w->skip,
			    roce_run_payload(pkt, i) + (begin - received), end - begin,
			    MEM_RECV_WRITE);
}

/*
 * Is every byte of the list accessible? Checked before a READ or atomic changes anything at the
 * peer.
 */
enum reason roce_sge_check(struct roce_qp *qp, const struct send_wqe *w, enum mem_access access)
{
	struct sge_walk walk = { w->sge, w->sge + w->num_sge, 0, w->length };
	struct ibv_sge piece;

	while (sge_next(&walk, &piece)) {
		enum reason why = qp->wq->ops->mem_check(qp->wq, piece.lkey, piece.addr,
							 piece.length, access);

		if (why)
			return why;
	}
	return walk.len ? REASON_LKEY_RANGE : REASON_NONE;
}
