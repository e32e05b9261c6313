/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Table of rsockets by descriptor.  The descriptor is a real one, so its number cannot be reused
 * while the rsocket exists.
 */
#include <errno.h>
#include <pthread.h>

#include "rdmacm/rs.h"
#include "util/atomic.h"

static struct rsocket *table[RS_TABLE];

/* Leaf lock: the table's count of an rsocket stays as long as it is held. */
static pthread_mutex_t removal = PTHREAD_MUTEX_INITIALIZER;

struct rsocket *rs_peek(int fd)
{
	return fd >= 0 && fd < RS_TABLE ? load_acquire(&table[fd]) : NULL;
}

struct rsocket *rs_find(int fd)
{
	struct rsocket *rs = rs_peek(fd);

	if (rs && rs->generation == cma.generation)
		return rs;
	errno = rs ? EIO : EBADF;
	return NULL;
}

int rs_insert(struct rsocket *rs)
{
	if (rs->fd >= RS_TABLE)
		return EMFILE;
	store_release(&table[rs->fd], rs);
	return 0;
}

void rs_remove(struct rsocket *rs)
{
	pthread_mutex_lock(&removal);
	if (rs_peek(rs->fd) == rs)
		store_release(&table[rs->fd], NULL);
	pthread_mutex_unlock(&removal);
}

struct rsocket *rs_hold(int fd)
{
	struct rsocket *rs;

	if (!rs_peek(fd))
		return NULL;
	pthread_mutex_lock(&removal);
	rs = rs_peek(fd);
	if (rs)
		rs_get(rs);
	pthread_mutex_unlock(&removal);
	return rs;
}

static void after_fork(void)
{
	pthread_mutex_init(&removal, NULL);
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, after_fork);
}
