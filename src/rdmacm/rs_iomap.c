/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory mappings: ours, announced to the peer, and the peer's. */
#include "rdmacm/rs_iomap.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "rdmacm/rs.h"
#include "rdmacm/rs_io.h"
#include "rdmacm/rs_stream.h"
#include "rdmacm/rs_wait.h"
#include "util/compiler.h"

/* Memory of this process. */
struct rs_map {
	struct list node;     /* rs->stream.maps */
	struct list announce; /* rs->stream.announce; linked until it is announced to the peer */
	struct rs_mapping as;
	uint32_t index; /* in the peer's table; NOT_THERE: not for the peer */
	struct ibv_mr *mr;
};

enum { NOT_THERE = UINT32_MAX };

/* ---- Our mappings ---- */

bool rs_iomap_flush(struct rsocket *rs)
{
	struct rs_stream *s = &rs->stream;

	while (!list_empty(&s->announce)) {
		struct rs_map *m = list_entry(s->announce.next, struct rs_map, announce);

		if (rs->state != RS_OPEN || !rs_tx_credit(&s->tx) || !rs_stream_can_send_ctrl(s))
			return false;
		list_del(&m->announce);
		rs_stream_announce(rs, m->index, &m->as);
	}
	return true;
}

/*
 * The lowest index that no mapping has, and the place of its mapping in the list, which is in the
 * order of indices.
 */
static struct list *find_gap(struct rs_stream *s, uint32_t *index)
{
	struct list *pos;

	*index = 0;
	list_for_each (pos, &s->maps) {
		if (list_entry(pos, struct rs_map, node)->index != *index)
			break;
		++*index;
	}
	return pos;
}

static int add_map(struct rsocket *rs, void *buf, size_t len, int prot, uint64_t offset)
{
	struct rs_stream *s = &rs->stream;
	int access = IBV_ACCESS_LOCAL_WRITE;
	struct list *place = &s->maps;
	uint32_t index = NOT_THERE;
	struct rs_map *m;

	if (prot & PROT_WRITE) {
		access |= IBV_ACCESS_REMOTE_WRITE;
		place = find_gap(s, &index);
		if (index >= s->peer.iomap_size)
			return ENOMEM;
	}
	m = calloc(1, sizeof(*m));
	if (!m)
		return ENOMEM;
	m->mr = ibv_reg_mr(rs->id->pd, buf, len, access);
	if (!m->mr) {
		int err = errno;

		free(m);
		return err;
	}
	m->as = (struct rs_mapping){
		.offset = offset,
		.to = { (uintptr_t)buf, m->mr->rkey, (uint32_t)len },
	};
	m->index = index;
	list_init(&m->announce);
	list_add_tail(place, &m->node);
	if (prot & PROT_WRITE) {
		list_add_tail(&s->announce, &m->announce);
		rs_iomap_flush(rs);
	}
	return 0;
}

CMA_EXPORT off_t riomap(int fd, void *buf, size_t len, int prot, int flags, off_t offset)
{
	RS_CALL struct rsocket *rs = rs_enter(fd);
	int err;

	if (!rs)
		return -1;
	if (!rs_is_stream(rs) || !len || len > UINT32_MAX || (prot & ~(PROT_WRITE | PROT_NONE)))
		return cma_result(EINVAL);
	if (offset == -1)
		offset = (off_t)(uintptr_t)buf;
	pthread_mutex_lock(&rs->lock);
	rs_progress(rs);
	err = rs->state == RS_OPEN     ? add_map(rs, buf, len, prot, (uint64_t)offset)
	      : rs->state == RS_FAILED ? rs->error
				       : ENOTCONN;
	pthread_mutex_unlock(&rs->lock);
	return err ? cma_result(err) : offset;
}

static void free_map(struct rs_map *m)
{
	list_del(&m->node);
	list_del(&m->announce);
	ibv_dereg_mr(m->mr);
	free(m);
}

void rs_iomap_clear(struct rsocket *rs)
{
	while (!list_empty(&rs->stream.maps))
		free_map(list_entry(rs->stream.maps.next, struct rs_map, node));
}

CMA_EXPORT int riounmap(int fd, void *buf, size_t len)
{
	RS_CALL struct rsocket *rs = rs_enter(fd);
	struct list *pos;
	int err = EINVAL;

	if (!rs)
		return -1;
	pthread_mutex_lock(&rs->lock);
	list_for_each (pos, &rs->stream.maps) {
		struct rs_map *m = list_entry(pos, struct rs_map, node);

		if (m->mr->addr == buf && m->mr->length == len) {
			free_map(m);
			err = 0;
			break;
		}
	}
	pthread_mutex_unlock(&rs->lock);
	return cma_result(err);
}

/* ---- The peer's mappings ---- */

/* Looks up an offset in a copy of the peer's table, which the peer may change at any time. */
static bool find_mapping(const struct rsocket *rs, uint64_t offset, struct rs_region *to)
{
	const struct rs_stream *s = &rs->stream;
	const uint8_t *table = s->list + RS_SGL_ENTRIES * RS_SGE_LEN;
	struct rs_mapping m;
	uint32_t i;

	for (i = 0; i < s->iomap_size; i++) {
		rs_mapping_decode(table + (size_t)i * RS_IOMAP_LEN, &m);
		if (offset < m.offset || offset - m.offset >= m.to.length)
			continue;
		*to = m.to;
		to->addr += offset - m.offset;
		to->length -= (uint32_t)(offset - m.offset);
		return true;
	}
	return false;
}

static bool can_write(struct rsocket *rs)
{
	if (rs->state != RS_OPEN || !rs->can_write)
		return true;
	return rs_iomap_flush(rs) &&
	       rs_stream_write_room(rs) >= min((uint32_t)RS_LEAST_ROOM, rs->stream.out_size / 2);
}

static int write_some(struct rsocket *rs, const uint8_t *buf, size_t n, uint64_t offset, bool *end,
		      size_t *wrote)
{
	struct rs_region to;
	uint32_t room;

	*wrote = 0;
	*end = !find_mapping(rs, offset, &to);
	if (*end)
		return 0;
	room = min(to.length, (uint32_t)RS_MOST_WRITTEN);
	*wrote = min(n, (size_t)room);
	if (!rs_stream_write_direct(rs, buf, (uint32_t)*wrote, &to)) {
		room = min(rs_stream_write_room(rs), (uint32_t)RS_MOST_SENT);
		*wrote = min(*wrote, (size_t)room);
		rs_stream_write(rs, buf, (uint32_t)*wrote, &to);
	}
	return rs->state == RS_FAILED ? rs->error : 0;
}

static size_t write_all(struct rsocket *rs, const uint8_t *buf, size_t n, uint64_t offset,
			bool nonblock, int *err)
{
	uint64_t until = rs_until(rs->opt.snd_timeout);
	size_t done = 0, wrote;
	bool end = false;

	if (!rs_stream_is_busy(rs))
		rs_progress(rs);
	while (done < n && !end) {
		*err = rs_send_error(rs);
		if (!*err && !can_write(rs)) {
			*err = rs_await(rs, &rs->tx_turn, can_write, nonblock, rs_left(until));
			if (!*err)
				continue;
		}
		if (!*err)
			*err = write_some(rs, buf + done, n - done, offset + done, &end, &wrote);
		if (*err)
			break;
		done += wrote;
	}
	return done;
}

CMA_EXPORT size_t riowrite(int fd, const void *buf, size_t n, off_t offset, int flags)
{
	RS_CALL struct rsocket *rs = rs_enter(fd);
	size_t done = 0;
	bool nonblock;
	int err;

	if (!rs)
		return (size_t)-1;
	if (!rs_is_stream(rs))
		return (size_t)cma_result(ENOTSUP);
	nonblock = rs_never_waits(rs, flags);
	pthread_mutex_lock(&rs->lock);
	err = rs_take_turn(rs, &rs->tx_turn, nonblock, rs->opt.snd_timeout);
	if (!err) {
		done = write_all(rs, buf, n, (uint64_t)offset, nonblock, &err);
		rs_end_turn(rs, &rs->tx_turn);
	}
	pthread_mutex_unlock(&rs->lock);
	return !done && err ? (size_t)cma_result(err) : done;
}
