/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/exit_mad.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "host/state.h"
#include "run/log.h"
#include "util/atomic.h"
#include "util/cancel.h"
#include "util/compiler.h"
#include "util/file_room.h"

enum {
	RECORDS_MAX = 1 << 20,	/* in a file that another process may have written */
	NAME_MAX_ASIDE = 64,
	NEWS = 4096,
	FIRST_ROOM = 64,
};

#define ASIDE	"exit-mads."
#define SUCCESSOR "successor"	/* suffix: a dead process's, claimed by this slot */
#define TOO_OLD (60 * 60)	/* seconds that exit MADs of other networks are kept */

struct record {
	uint32_t valid;
	uint32_t flow_label;
	uint32_t ifindex;
	uint8_t traffic_class;
	uint8_t hop_limit;
	uint8_t reserved[2];
	struct net_addr src, dst;
	uint8_t mad[HOST_MAD_LEN];
	uint8_t reserved2[16];
};
static_assert(sizeof(struct record) == 320, "record of an exit MAD, docs/HOST.md");

/* Must hold h->exit_lock, as must all that use h->exit_mads. */
static int open_exit_mads(struct host *h)
{
	char name[32];

	if (h->exit_mads.fd >= 0)
		return 0;
	host_file_name(h->slot, "exit-mads", name);
	h->exit_mads.fd = file_create(h->dir.fd, name, O_RDWR | O_TRUNC | O_NONBLOCK);
	return h->exit_mads.fd < 0 ? errno : 0;
}

/* The blocks are allocated now, so that a full file system is an error here and no SIGBUS later. */
static int map_records(struct exit_mads *e, uint32_t room)
{
	size_t len = room * sizeof(struct record), old = e->room * sizeof(struct record);
	int err = file_reserve(e->fd, 0, len);
	void *mem;

	if (err)
		return err;
	mem = e->room ? mremap(e->record, old, len, MREMAP_MAYMOVE)
		      : mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, e->fd, 0);
	if (mem == MAP_FAILED)
		return errno;
	e->record = mem;
	e->room = room;
	return 0;
}

static int make_room(struct host *h, uint32_t index)
{
	uint32_t room = h->exit_mads.room ? h->exit_mads.room : FIRST_ROOM;
	int cancel, err;

	if (index < h->exit_mads.room)
		return 0;
	if (index >= RECORDS_MAX)
		return ENOSPC;
	while (room <= index)
		room *= 2;
	cancel = cancel_off();
	err = open_exit_mads(h);
	if (!err)
		err = map_records(&h->exit_mads, room);
	cancel_on(cancel);
	return err;
}

void exit_mads_close(struct host *h)
{
	struct exit_mads *e = &h->exit_mads;

	if (e->room)
		munmap(e->record, e->room * sizeof(struct record));
	if (e->fd >= 0)
		close(e->fd);
	*e = (struct exit_mads){ .fd = -1 };
}

/* Killed anywhere in here, the process leaves the whole record or none. */
static void fill(struct record *r, const struct net_path *path, const uint8_t *mad)
{
	store_relaxed(&r->valid, 0);
	if (!mad)
		return;
	full_fence();
	r->flow_label = path->flow_label;
	r->ifindex = path->ifindex;
	r->traffic_class = path->traffic_class;
	r->hop_limit = path->hop_limit;
	r->src = path->src;
	r->dst = path->dst;
	memcpy(r->mad, mad, sizeof(r->mad));
	store_release(&r->valid, 1); /* read with pread() after this process's death */
}

int host_exit_mad_write(struct host *h, uint32_t index, const struct net_path *path,
			const uint8_t *mad)
{
	int err;

	if (!h->shared)
		return 0;
	lock_acquire(&h->exit_lock);
	err = make_room(h, index);
	if (!err)
		fill((struct record *)h->exit_mads.record + index, path, mad);
	lock_release(&h->exit_lock);
	return err;
}

int host_exit_mad_watch(struct host *h)
{
	char here[32];
	int fd;

	if (!h->shared)
		return -1;
	fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (fd < 0)
		return -1;
	snprintf(here, sizeof(here), "/proc/self/fd/%d", h->dir.fd);
	if (inotify_add_watch(fd, here, IN_CLOSE_WRITE | IN_MOVED_TO | IN_ONLYDIR) >= 0)
		return fd;
	log_info(LOG_HOST, "cannot watch %s (%s): peers will not be notified when a process dies",
		 h->dir.path, strerror(errno));
	close(fd);
	return -1;
}

/* The slot whose exit MADs a file name stands for; HOST_NO_SLOT if they are put aside. */
static int slot_of(const char *name)
{
	char right[32];
	int slot;

	if (sscanf(name, "s%4d.exit-mads", &slot) != 1 || slot < 0 || slot >= HOST_SLOTS)
		return HOST_NO_SLOT;
	host_file_name(slot, "exit-mads", right);
	return strcmp(name, right) ? HOST_NO_SLOT : slot;
}

/* True if there is nothing to wait for: own slot, file gone, or its process is dead. */
static bool settled(struct host *h, int slot)
{
	char name[32];

	host_file_name(slot, "exit-mads", name);
	return slot == h->slot || faccessat(h->dir.fd, name, F_OK, 0) || host_reclaim(h, slot);
}

/*
 * The file was closed. A process that leaves in order unlinks it first. A process that dies closes
 * its files one by one, so its life lock may be released later: then the check is repeated.
 */
static void closed(struct host *h, int slot)
{
	if (slot != HOST_NO_SLOT && !settled(h, slot))
		fetch_or_acq_rel(&h->dying[slot / 64], 1ull << slot % 64);
}

/* The kernel dropped events, so any file may have been closed. */
static void closed_any(struct host *h)
{
	for (int slot = 0; slot < HOST_SLOTS; slot++)
		closed(h, slot);
}

bool host_exit_mad_dying(const struct host *h)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(h->dying); i++)
		if (load_relaxed(&h->dying[i]))
			return true;
	return false;
}

void host_exit_mad_look_again(struct host *h, bool last)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(h->dying); i++) {
		uint64_t bits = swap_acq_rel(&h->dying[i], 0);

		for (; bits; bits &= bits - 1) {
			unsigned int bit = (unsigned int)__builtin_ctzll(bits);

			if (!settled(h, (int)(i * 64 + bit)) && !last)
				fetch_or_acq_rel(&h->dying[i], 1ull << bit);
		}
	}
}

bool host_exit_mad_news(struct host *h, int fd)
{
	char buf[NEWS] __attribute__((aligned(__alignof__(struct inotify_event))));
	bool any = false;
	ssize_t n;

	while ((n = read(fd, buf, sizeof(buf))) > 0) {
		for (char *p = buf; p < buf + n;) {
			const struct inotify_event *e = (const struct inotify_event *)p;

			if (e->mask & IN_Q_OVERFLOW)
				closed_any(h);
			if (e->mask & IN_CLOSE_WRITE && e->len)
				closed(h, slot_of(e->name));
			else
				any |= !e->len || !strncmp(e->name, ASIDE, strlen(ASIDE));
			p += sizeof(*e) + e->len;
		}
	}
	return any;
}

static void put_aside(struct host *h, int slot, const struct table_slot *s, const char *suffix,
		      const char *as)
{
	char name[32], aside[NAME_MAX_ASIDE];

	host_file_name(slot, suffix, name);
	snprintf(aside, sizeof(aside), ASIDE "%016" PRIx64 ".%016" PRIx64 "%s", s->netns,
		 s->incarnation, as);
	renameat(h->dir.fd, name, h->dir.fd, aside);
}

void exit_mads_put_aside(struct host *h, int slot, const struct table_slot *s)
{
	put_aside(h, slot, s, "exit-mads", "");
	exit_mads_pass_on(h, slot, s);
}

void exit_mads_pass_on(struct host *h, int slot, const struct table_slot *s)
{
	put_aside(h, slot, s, SUCCESSOR, "." SUCCESSOR);
}

/*
 * Since it was put aside, by the wall clock, which has the same time in all containers. The last
 * record may have been written days before.
 */
static bool is_too_old(const struct host *h, const char *name)
{
	struct stat st;

	return !strncmp(name, ASIDE, strlen(ASIDE)) &&
	       !fstatat(h->dir.fd, name, &st, AT_SYMLINK_NOFOLLOW) &&
	       time(NULL) - st.st_ctime > TOO_OLD;
}

/* Does the file contain exit MADs of this network namespace? */
static bool is_ours(const struct host *h, const char *name)
{
	char prefix[NAME_MAX_ASIDE];

	snprintf(prefix, sizeof(prefix), ASIDE "%016" PRIx64 ".", h->self.netns);
	return !strncmp(name, prefix, strlen(prefix));
}

static bool send_record(const struct record *r, host_exit_mad_fn fn, void *arg)
{
	struct net_path path = {
		.src = r->src,
		.dst = r->dst,
		.ifindex = r->ifindex,
		.flow_label = r->flow_label & 0xfffff,
		.traffic_class = r->traffic_class,
		.hop_limit = r->hop_limit,
	};

	return !r->valid || fn(arg, &path, r->mad);
}

static void drop_inherited(struct host *h)
{
	int fd = h->inherited;
	char mine[32];

	host_file_name(h->slot, SUCCESSOR, mine);
	unlinkat(h->dir.fd, mine, 0);
	/* First: a child forked meanwhile closes what it finds, perhaps a file of the program. */
	h->inherited = -1;
	close(fd);
	h->next_record = 0;
}

/* Continues with the file claimed last. Returns false if it did not reach the end. */
static bool execute(struct host *h, host_exit_mad_fn fn, void *arg)
{
	struct record r;

	if (h->inherited < 0)
		return true;
	for (; h->next_record < RECORDS_MAX &&
	       pread(h->inherited, &r, sizeof(r), h->next_record * (off_t)sizeof(r)) == sizeof(r);
	     h->next_record++)
		if (!send_record(&r, fn, arg))
			return false;
	drop_inherited(h);
	return true;
}

/*
 * The process whose rename succeeds owns the file until it has sent all. If it dies before, the
 * file is put aside again, and some peers get a MAD twice. Its death is noticed by its own file of
 * exit MADs, which it may not have needed so far.
 */
static void take(struct host *h, const char *name)
{
	char mine[32];
	int fd;

	lock_acquire(&h->exit_lock);
	open_exit_mads(h);
	lock_release(&h->exit_lock);
	/* First: without a descriptor the file is left to others, or for later. */
	fd = openat(h->dir.fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return;
	host_file_name(h->slot, SUCCESSOR, mine);
	if (renameat(h->dir.fd, name, h->dir.fd, mine) < 0)
		close(fd);
	else
		h->inherited = fd;
}

static bool execute_all(struct host *h, DIR *d, host_exit_mad_fn fn, void *arg)
{
	const struct dirent *e;
	bool done = true;

	while (done && (e = readdir(d))) {
		if (is_ours(h, e->d_name)) {
			take(h, e->d_name);
			done = execute(h, fn, arg);
		} else if (is_too_old(h, e->d_name)) {
			unlinkat(h->dir.fd, e->d_name, 0);
		}
	}
	return done;
}

bool host_exit_mad_execute(struct host *h, host_exit_mad_fn fn, void *arg)
{
	int dirfd;
	DIR *d;
	bool done;

	if (!execute(h, fn, arg))
		return false;
	dirfd = h->shared ? openat(h->dir.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	d = dirfd < 0 ? NULL : fdopendir(dirfd);
	if (!d) {
		if (dirfd >= 0)
			close(dirfd);
		return true;
	}
	done = execute_all(h, d, fn, arg);
	closedir(d);
	return done;
}
