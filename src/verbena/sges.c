/* SPDX-License-Identifier: BSD-2-Clause */
/* Converts packet buffers to scatter lists. */
#include <errno.h>
#include <stdlib.h>

#include "verbena/private.h"

static int check_buf(const struct verbena_buf *buf, uint32_t b, size_t num_pkt, uint32_t num_wr)
{
	size_t bytes;

	if (!buf->addr || !buf->row || !buf->num_pkt)
		return fail(EINVAL, "bufs[%u]: no memory", b);
	if (buf->npad >= buf->row)
		return fail(EINVAL, "bufs[%u]: npad %zu leaves no data in a row of %zu bytes", b,
			    buf->npad, buf->row);
	if (buf->row - buf->npad > UINT32_MAX)
		return fail(EINVAL, "bufs[%u]: a part of %zu bytes", b, buf->row - buf->npad);
	if (buf->num_pkt != num_pkt)
		return fail(EINVAL, "bufs[%u]: %zu packets, bufs[0]: %zu", b, buf->num_pkt,
			    num_pkt);
	if (num_wr > buf->num_pkt)
		return fail(EINVAL, "%u requests for %zu packets", num_wr, buf->num_pkt);
	if (__builtin_mul_overflow(buf->row, buf->num_pkt, &bytes) ||
	    (uintptr_t)buf->addr + bytes < (uintptr_t)buf->addr)
		return fail(EINVAL, "bufs[%u]: exceeds the address space", b);
	return 0;
}

int bufs_check(const struct verbena_buf *bufs, uint32_t num_bufs, uint32_t num_wr)
{
	if (!bufs || !num_bufs || !num_wr)
		return fail(EINVAL, "no buffers or no requests");
	for (uint32_t b = 0; b < num_bufs; b++)
		if (check_buf(&bufs[b], b, bufs[0].num_pkt, num_wr))
			return -1;
	return 0;
}

API struct ibv_sge *verbena_create_sges(const struct verbena_buf *bufs, uint32_t num_bufs,
					const uint32_t *lkeys, uint32_t num_wr)
{
	struct ibv_sge *sges, *sge;

	if (!lkeys) {
		fail(EINVAL, "no lkeys");
		return NULL;
	}
	if (bufs_check(bufs, num_bufs, num_wr))
		return NULL;
	sges = sge = calloc((size_t)num_wr * num_bufs, sizeof(*sges));
	if (!sges) {
		fail(ENOMEM, "%u scatter lists", num_wr);
		return NULL;
	}
	for (uint32_t i = 0; i < num_wr; i++) {
		for (uint32_t b = 0; b < num_bufs; b++, sge++) {
			sge->addr = (uintptr_t)bufs[b].addr + i * bufs[b].row;
			sge->length = (uint32_t)(bufs[b].row - bufs[b].npad);
			sge->lkey = lkeys[b];
		}
	}
	return sges;
}
