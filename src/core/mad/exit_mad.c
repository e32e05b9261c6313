/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/mad/exit_mad.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/object_timer.h"
#include "core/base/state.h"
#include "core/mad/gsi.h"
#include "host/host.h"
#include "host/exit_mad.h"
#include "run/clock.h"
#include "run/log.h"
#include "run/progress.h"
#include "util/lock.h"
#include "util/time.h"

enum {
	BUCKETS = 4096,
	FIRST_ROOM = 64,
	NONE = 0,	/* indices start at 1 */
	OWN = HOST_NO_SLOT,
	LOOKS = 20,	/* for a dying process, 105 s in total: exit is slow on a busy machine */
};

/* after its file was closed; the interval doubles each time */
#define FIRST_LOOK (100 * VRB_USEC)
/* between attempts to send what found no room */
#define RESUME     VRB_MSEC

/* The index of a record in the file; links in its hash chain or in the free list. */
struct place {
	uint32_t comm_id;
	int slot;	/* OWN: set by the connection, else the process for which it waits */
	uint32_t next;
};

static struct {
	int fd;			/* from host_exit_mad_watch(), or -1 */
	struct object_timer deadline;	/* of the next two members */
	/* vrb.poll_lock; when to check for dying processes, and when to go on sending */
	uint64_t look_at, resume_at;
	unsigned int looks;	/* since the last file was closed; vrb.poll_lock */
	struct lock lock;	/* protects everything below */
	struct place *place;	/* [0] is unused */
	uint32_t used, room, free;
	uint32_t bucket[BUCKETS];
} exit_mads = { .fd = -1, .look_at = VRB_NEVER, .resume_at = VRB_NEVER };

static uint32_t *bucket_of(uint32_t comm_id)
{
	return &exit_mads.bucket[(comm_id * 0x9e3779b1u) >> 20];
}

static uint32_t find(uint32_t comm_id, int slot)
{
	uint32_t i = *bucket_of(comm_id);

	while (i != NONE &&
	       (exit_mads.place[i].comm_id != comm_id || exit_mads.place[i].slot != slot))
		i = exit_mads.place[i].next;
	return i;
}

static bool grow(void)
{
	uint32_t room = exit_mads.room ? 2 * exit_mads.room : FIRST_ROOM;
	struct place *place = realloc(exit_mads.place, room * sizeof(*place));

	if (!place)
		return false;
	exit_mads.place = place;
	exit_mads.room = room;
	if (!exit_mads.used)
		exit_mads.used = 1;
	return true;
}

/* Returns NONE if memory is exhausted; there is then no exit MAD. */
static uint32_t add(uint32_t comm_id, int slot)
{
	uint32_t i = exit_mads.free;

	if (i != NONE) {
		exit_mads.free = exit_mads.place[i].next;
	} else {
		if (exit_mads.used == exit_mads.room && !grow())
			return NONE;
		i = exit_mads.used++;
	}
	exit_mads.place[i] = (struct place){ comm_id, slot, *bucket_of(comm_id) };
	*bucket_of(comm_id) = i;
	return i;
}

static void del(uint32_t i)
{
	uint32_t *at = bucket_of(exit_mads.place[i].comm_id);

	while (*at != i)
		at = &exit_mads.place[*at].next;
	*at = exit_mads.place[i].next;
	exit_mads.place[i].next = exit_mads.free;
	exit_mads.free = i;
}

/* The same, also if there is no room in the file. */
static uint32_t add_record(uint32_t comm_id, int slot, const struct net_path *path,
			   const uint8_t *mad)
{
	uint32_t i = add(comm_id, slot);

	if (i == NONE || !host_exit_mad_write(vrb.host, i, path, mad))
		return i;
	del(i);
	return NONE;
}

/*
 * A new MAD gets a new record before the old one is cleared: if the process is killed in between,
 * the peer gets both, not none. Without room for it, the old record is overwritten.
 */
void vrb_exit_mad_set(uint32_t comm_id, const struct net_path *path, const uint8_t *mad)
{
	uint32_t old, i;

	lock_acquire(&exit_mads.lock);
	old = find(comm_id, OWN);
	i = mad ? add_record(comm_id, OWN, path, mad) : NONE;
	if (old != NONE) {
		host_exit_mad_write(vrb.host, old, path, i == NONE ? mad : NULL);
		if (i != NONE || !mad)
			del(old);
	}
	lock_release(&exit_mads.lock);
}

bool vrb_exit_mad_add(uint32_t comm_id, int slot, const struct net_path *path, const uint8_t *mad,
		      uint32_t *number)
{
	bool first;

	lock_acquire(&exit_mads.lock);
	first = find(comm_id, slot) == NONE;
	*number = first ? add_record(comm_id, slot, path, mad) : NONE;
	lock_release(&exit_mads.lock);
	return first;
}

void vrb_exit_mad_del(uint32_t i)
{
	if (i == NONE)
		return;
	lock_acquire(&exit_mads.lock);
	host_exit_mad_write(vrb.host, i, NULL, NULL);
	del(i);
	lock_release(&exit_mads.lock);
}

static bool execute_one(void *arg, const struct net_path *path, const uint8_t mad[HOST_MAD_LEN])
{
	unsigned int *n = arg;

	if (vrb_gsi_send_for_dead(path, mad) == EAGAIN)
		return false;
	++*n;
	return true;
}

/* Must hold vrb.poll_lock, as must the next two. */
static void arm(void)
{
	vrb_timer_set(&exit_mads.deadline, time_earlier(exit_mads.look_at, exit_mads.resume_at));
}

static void execute(uint64_t now)
{
	unsigned int n = 0;
	bool done = host_exit_mad_execute(vrb.host, execute_one, &n);

	exit_mads.resume_at = done ? VRB_NEVER : now + RESUME;
	arm();
	if (n)
		log_info(LOG_CORE, "a process has died: notified the peers of its %u connections",
			 n);
}

static void look_again(uint64_t now)
{
	exit_mads.look_at = VRB_NEVER;
	if (!host_exit_mad_dying(vrb.host))
		return;
	host_exit_mad_look_again(vrb.host, ++exit_mads.looks >= LOOKS);
	if (host_exit_mad_dying(vrb.host))
		exit_mads.look_at = now + (FIRST_LOOK << exit_mads.looks);
}

static void on_timer(struct object_timer *d, struct expiry *e)
{
	if (time_reached(exit_mads.look_at, e->now))
		look_again(e->now);
	if (time_reached(exit_mads.resume_at, e->now))
		execute(e->now);
	arm();
}

static bool on_news(void *arg, int fd)
{
	bool any;

	lock_acquire(&vrb.poll_lock);
	any = host_exit_mad_news(vrb.host, fd);
	if (host_exit_mad_dying(vrb.host)) {
		exit_mads.looks = 0;
		exit_mads.look_at = clock_now() + FIRST_LOOK;
		arm();
	}
	if (any)
		execute(clock_now());
	lock_release(&vrb.poll_lock);
	return any;
}

void vrb_exit_mad_start(void)
{
	if (!vrb_timer_add(&exit_mads.deadline, on_timer))
		exit_mads.fd = host_exit_mad_watch(vrb.host);
	if (exit_mads.fd >= 0 &&
	    progress_watch(vrb.progress, exit_mads.fd, PROGRESS_OWN, on_news, NULL)) {
		close(exit_mads.fd);
		exit_mads.fd = -1;
	}
	lock_acquire(&vrb.poll_lock);
	/* A process that died before the watch began was not noticed. */
	host_reap(vrb.host);
	execute(clock_now());
	lock_release(&vrb.poll_lock);
}

static void reset(void)
{
	free(exit_mads.place);
	exit_mads.place = NULL;
	exit_mads.used = exit_mads.room = exit_mads.free = 0;
	memset(exit_mads.bucket, 0, sizeof(exit_mads.bucket));
}

/* The process ends in order, so it withdraws its remaining exit_mads. */
void vrb_exit_mad_stop(void)
{
	int fd = exit_mads.fd;

	if (fd >= 0) {
		progress_unwatch(vrb.progress, fd);
		exit_mads.fd = -1;	/* first: a child forked meanwhile closes what it finds */
		close(fd);
	}
	vrb_timer_remove(&exit_mads.deadline);
	exit_mads.look_at = exit_mads.resume_at = VRB_NEVER;
	lock_acquire(&exit_mads.lock);
	for (uint32_t i = 1; i < exit_mads.used; i++)
		host_exit_mad_write(vrb.host, i, NULL, NULL);
	reset();
	lock_release(&exit_mads.lock);
}

void vrb_exit_mad_forget(void)
{
	if (exit_mads.fd >= 0)
		close(exit_mads.fd);
	exit_mads.fd = -1;
	exit_mads.deadline = (struct object_timer){ 0 };
	exit_mads.look_at = exit_mads.resume_at = VRB_NEVER;
	lock_renew(&exit_mads.lock);
	reset();
}
