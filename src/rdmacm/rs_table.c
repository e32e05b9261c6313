/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Table of rsockets by descriptor.  The descriptor is a real one, so its number cannot be reused
 * while the rsocket exists.
 *
 * Memory of rsockets is used for rsockets only, so that a thread may read the count of one that
 * another thread destroys: rs_hold() adds to a count that is not 0 only, then checks whether it is
 * still the one in the table.
 */
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/rs.h"
#include "util/atomic.h"

static struct rsocket *table[RS_TABLE];
static int top; /* no descriptor from here on has been in the table; atomic */

static struct {
	pthread_mutex_t lock; /* leaf */
	struct list list;     /* struct rsocket.spare */
} spare = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.list = { &spare.list, &spare.list },
};

/* ---- Memory ---- */

struct rsocket *rs_alloc(void)
{
	const size_t counted = offsetof(struct rsocket, fd);
	struct rsocket *rs = NULL;

	pthread_mutex_lock(&spare.lock);
	if (!list_empty(&spare.list)) {
		rs = list_entry(spare.list.next, struct rsocket, spare);
		list_del(&rs->spare);
	}
	pthread_mutex_unlock(&spare.lock);
	if (!rs)
		return calloc(1, sizeof(*rs));
	memset((char *)rs + counted, 0, sizeof(*rs) - counted);
	return rs;
}

void rs_free(struct rsocket *rs)
{
	pthread_mutex_lock(&spare.lock);
	list_add_tail(&spare.list, &rs->spare);
	pthread_mutex_unlock(&spare.lock);
}

/* ---- The table ---- */

struct rsocket *rs_peek(int fd)
{
	return fd >= 0 && fd < RS_TABLE ? load_acquire(&table[fd]) : NULL;
}

static bool count(struct rsocket *rs)
{
	unsigned int refs = load_relaxed(&rs->refs);

	while (refs)
		if (cas_acq_rel(&rs->refs, &refs, refs + 1))
			return true;
	return false;
}

struct rsocket *rs_hold(int fd)
{
	struct rsocket *rs = rs_peek(fd);

	if (!rs || !count(rs))
		return NULL;
	if (rs_peek(fd) == rs && rs->generation == cma.generation)
		return rs;
	rs_put(rs);
	return NULL;
}

int rs_insert(struct rsocket *rs)
{
	int seen = load_relaxed(&top);

	if (rs->fd >= RS_TABLE)
		return EMFILE;
	while (rs->fd >= seen && !cas_acq_rel(&top, &seen, rs->fd + 1))
		;
	store_release(&table[rs->fd], rs);
	return 0;
}

void rs_for_each(void (*visit)(struct rsocket *rs))
{
	for (int fd = 0; fd < load_relaxed(&top); fd++) {
		struct rsocket *rs = rs_hold(fd);

		if (!rs)
			continue;
		visit(rs);
		rs_put(rs);
	}
}

struct rsocket *rs_remove(int fd)
{
	return rs_peek(fd) ? swap_acq_rel(&table[fd], NULL) : NULL;
}

static void after_fork(void)
{
	pthread_mutex_init(&spare.lock, NULL);
	list_init(&spare.list);
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, after_fork);
}
