/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/will.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/gsi.h"
#include "core/process.h"
#include "host/host.h"
#include "host/will.h"
#include "run/log.h"
#include "run/progress.h"
#include "util/lock.h"

enum {
	BUCKETS = 4096,
	FIRST_ROOM = 64,
	NONE = 0,	/* places count from 1 */
};

/* A record of the file and its place in the table: a chain of the used, or of the free. */
struct place {
	uint32_t comm_id;
	uint32_t next;
};

static struct {
	int fd;			/* host_will_watch(), -1 */
	struct lock lock;	/* everything below */
	struct place *place;	/* [0] is not used */
	uint32_t used, room, free;
	uint32_t bucket[BUCKETS];
} wills = { .fd = -1 };

static uint32_t *bucket_of(uint32_t comm_id)
{
	return &wills.bucket[(comm_id * 0x9e3779b1u) >> 20];
}

static uint32_t find(uint32_t comm_id)
{
	uint32_t i = *bucket_of(comm_id);

	while (i != NONE && wills.place[i].comm_id != comm_id)
		i = wills.place[i].next;
	return i;
}

static bool grow(void)
{
	uint32_t room = wills.room ? 2 * wills.room : FIRST_ROOM;
	struct place *place = realloc(wills.place, room * sizeof(*place));

	if (!place)
		return false;
	wills.place = place;
	wills.room = room;
	if (!wills.used)
		wills.used = 1;
	return true;
}

/* NONE: no memory, and then nobody will speak for this one. */
static uint32_t add(uint32_t comm_id)
{
	uint32_t i = wills.free;

	if (i != NONE) {
		wills.free = wills.place[i].next;
	} else {
		if (wills.used == wills.room && !grow())
			return NONE;
		i = wills.used++;
	}
	wills.place[i] = (struct place){ comm_id, *bucket_of(comm_id) };
	*bucket_of(comm_id) = i;
	return i;
}

static void del(uint32_t i)
{
	uint32_t *at = bucket_of(wills.place[i].comm_id);

	while (*at != i)
		at = &wills.place[*at].next;
	*at = wills.place[i].next;
	wills.place[i].next = wills.free;
	wills.free = i;
}

void vrb_will_set(uint32_t comm_id, const struct net_path *path, const uint8_t *mad)
{
	uint32_t i;

	lock_acquire(&wills.lock);
	i = find(comm_id);
	if (i == NONE && mad)
		i = add(comm_id);
	if (i != NONE) {
		host_will_write(vrb.host, i, path, mad);
		if (!mad)
			del(i);
	}
	lock_release(&wills.lock);
}

static void execute_one(void *arg, const struct net_path *path, const uint8_t mad[HOST_MAD_LEN])
{
	unsigned int *n = arg;

	vrb_gsi_send_for_dead(path, mad);
	++*n;
}

static void execute(void)
{
	unsigned int n = 0;

	lock_acquire(&vrb.drive);
	host_will_execute(vrb.host, execute_one, &n);
	lock_release(&vrb.drive);
	if (n)
		log_info(LOG_CORE, "told the peers of %u connections that their process has died", n);
}

static bool on_news(void *arg, int fd)
{
	bool any = host_will_news(vrb.host, fd);

	if (any)
		execute();
	return any;
}

void vrb_will_start(void)
{
	wills.fd = host_will_watch(vrb.host);
	if (wills.fd >= 0 && progress_watch(vrb.progress, wills.fd, PROGRESS_OWN, on_news, NULL)) {
		close(wills.fd);
		wills.fd = -1;
	}
	execute();
}

static void reset(void)
{
	free(wills.place);
	wills.place = NULL;
	wills.used = wills.room = wills.free = 0;
	memset(wills.bucket, 0, sizeof(wills.bucket));
}

/* What is left of this process's own has been taken back: it ends in order. */
void vrb_will_stop(void)
{
	if (wills.fd >= 0) {
		progress_unwatch(vrb.progress, wills.fd);
		close(wills.fd);
		wills.fd = -1;
	}
	lock_acquire(&wills.lock);
	for (uint32_t i = 1; i < wills.used; i++)
		host_will_write(vrb.host, i, NULL, NULL);
	reset();
	lock_release(&wills.lock);
}

void vrb_will_forget(void)
{
	if (wills.fd >= 0)
		close(wills.fd);
	wills.fd = -1;
	lock_init(&wills.lock);
	reset();
}
