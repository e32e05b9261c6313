/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Positioned reads and writes of the table, and its locks.
 */
#include "host/table.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "host/dir.h"
#include "run/clock.h"
#include "run/log.h"
#include "util/cancel.h"
#include "util/compiler.h"
#include "util/file_room.h"
#include "util/time.h"

/* after the header */
#define HOLDER_AT     56	/* adjacent to the turn, for struct taken */
#define TURN_AT       64
#define DEPARTURES_AT 72

#define WARN_AFTER    (3 * VRB_SECOND)

enum { READ_TRIES = 3 };

static const struct table_header header_now = {
	.magic = TABLE_MAGIC,
	.version = TABLE_VERSION,
	.slots = HOST_SLOTS,
	.blocks = HOST_BLOCKS,
	.slot_size = sizeof(struct table_slot),
	.owner_size = sizeof(struct table_owner),
};

uint32_t table_now(void)
{
	uint32_t s = (uint32_t)(clock_now() / VRB_SECOND);

	return s ? s : 1;
}

/*
 * A process that is not found counts as dead, which ends connections; a single failed read must not
 * have that effect.
 */
static bool read_at(const struct table *t, void *buf, size_t len, off_t at)
{
	int cancel = cancel_off();
	ssize_t n = -1;

	for (int tries = 0; tries < READ_TRIES && n < 0; tries++)
		n = pread(t->fd, buf, len, at);
	cancel_on(cancel);
	return n == (ssize_t)len;
}

/* Not inline: GCC 12 would take a slot for its first member, and warn. */
static __attribute__((noinline)) int write_at(struct table *t, const void *buf, size_t len,
					      off_t at)
{
	int cancel = cancel_off(), err = 0;
	ssize_t n = pwrite(t->fd, buf, len, at);

	if (n != (ssize_t)len)
		err = n < 0 ? errno : ENOSPC;
	cancel_on(cancel);
	return err;
}

static struct flock byte_lock(short type, off_t at, off_t len)
{
	return (struct flock){ .l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = len };
}

static int set_lock(const struct table *t, short type, off_t at)
{
	struct flock fl = byte_lock(type, at, 1);

	return fcntl(t->fd, F_OFD_SETLK, &fl) < 0 ? errno : 0;
}

/* True if any other open file has a lock in the range. */
static bool range_locked(const struct table *t, off_t at, off_t len)
{
	struct flock fl = byte_lock(F_WRLCK, at, len);

	return fcntl(t->fd, F_OFD_GETLK, &fl) == 0 && fl.l_type != F_UNLCK;
}

bool table_wait_over(struct table_wait *w, uint64_t turn, uint64_t now)
{
	uint64_t step = time_wait_step(&w->checked, now);

	w->total += step;
	w->holder = turn == w->turn ? w->holder + step : 0;
	w->turn = turn;
	return w->holder > w->timeout || w->total > TABLE_WAIT_MAX;
}

static uint64_t read_number(const struct table *t, off_t at)
{
	uint64_t n;

	return read_at(t, &n, sizeof(n), at) ? n : 0;
}

/* A number that differs from all earlier ones. */
static void write_time(struct table *t, off_t at)
{
	uint64_t now = clock_now();

	write_at(t, &now, sizeof(now), at);
}

uint64_t table_turn(const struct table *t)
{
	return read_number(t, TURN_AT);
}

void table_advance_turn(struct table *t)
{
	write_time(t, TURN_AT);
}

uint64_t table_departures(const struct table *t)
{
	return read_number(t, DEPARTURES_AT);
}

void table_note_departure(struct table *t)
{
	write_time(t, DEPARTURES_AT);
}

/* Of the table lock; as it is in the file. */
struct holder {
	int32_t pid;		/* in that namespace; 0: none, or one that has not written it yet */
	uint32_t pid_ns;	/* inode */
};

static struct holder holder_of(const struct table *t)
{
	struct holder h;

	return read_at(t, &h, sizeof(h), HOLDER_AT) && h.pid > 0 ? h : (struct holder){ 0 };
}

/* 0: unknown */
static uint32_t own_pid_ns(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) ? 0 : (uint32_t)st.st_ino;
}

/* What changes when the lock is taken, and when it is released: one write. */
struct taken {
	struct holder holder;
	uint64_t turn;
};

static_assert(HOLDER_AT >= sizeof(struct table_header), "behind the header");
static_assert(HOLDER_AT + offsetof(struct taken, turn) == TURN_AT, "adjacent");

static void note_holder(struct table *t, struct holder h)
{
	const struct taken now = { h, clock_now() };

	write_at(t, &now, sizeof(now), HOLDER_AT);
}

static void note_own(struct table *t)
{
	note_holder(t, (struct holder){ getpid(), t->pid_ns });
}

/*
 * A raw clone keeps the lock of a dead process. The kernel does not tell who has it (F_OFD_GETLK
 * gives -1), and a process that has just got it may be stopped before it says so: so whoever
 * releases the lock takes its own name away. Nor can be told whether one of another PID namespace
 * lives.
 */
uint64_t table_patience(const struct table *t)
{
	struct holder h = holder_of(t);
	bool gone = h.pid && h.pid_ns == t->pid_ns && kill(h.pid, 0) < 0 && errno == ESRCH;

	return gone ? TABLE_GONE_TIMEOUT : TABLE_LOCK_TIMEOUT;
}

static void warn_of_holder(const struct table *t)
{
	struct holder h = holder_of(t);
	char number[16] = "";

	if (h.pid)
		snprintf(number, sizeof(number), " %d", (int)h.pid);
	log_warn(LOG_HOST,
		 "waiting for process%s, which has locked this user's run directory and makes no "
		 "progress: it is stopped, or gets no CPU",
		 number);
}

static int wait_for_lock(struct table *t, off_t at, uint64_t timeout)
{
	struct table_wait wait = { .timeout = timeout };
	struct timespec pause = { .tv_nsec = 20000 };
	bool warned = false;

	for (;;) {
		int err = set_lock(t, F_WRLCK, at);

		if (err != EAGAIN && err != EACCES && err != EINTR)
			return err;
		wait.timeout = min(timeout, table_patience(t));
		if (table_wait_over(&wait, table_turn(t), clock_now()))
			return EBUSY;
		if (!warned && wait.holder > WARN_AFTER) {
			warn_of_holder(t);
			warned = true;
		}
		nanosleep(&pause, NULL);
		pause.tv_nsec = min(2 * pause.tv_nsec, 2000000L);
	}
}

int table_lock_within(struct table *t, uint64_t timeout)
{
	int err = wait_for_lock(t, TABLE_LOCK_AT, timeout);

	if (!err)
		note_own(t);
	return err;
}

int table_lock(struct table *t)
{
	return table_lock_within(t, TABLE_LOCK_TIMEOUT);
}

void table_unlock(struct table *t)
{
	note_holder(t, (struct holder){ 0 });
	set_lock(t, F_UNLCK, TABLE_LOCK_AT);
}

bool table_steer_lock(struct table *t)
{
	int cancel = cancel_off();
	int err = wait_for_lock(t, TABLE_STEER_LOCK_AT, TABLE_CLEANUP_TIMEOUT);

	cancel_on(cancel);
	return err == 0;
}

void table_steer_unlock(struct table *t)
{
	set_lock(t, F_UNLCK, TABLE_STEER_LOCK_AT);
}

bool table_take_slot(struct table *t, int slot)
{
	return set_lock(t, F_WRLCK, TABLE_SLOT_LOCK_AT + slot) == 0;
}

void table_drop_slot(struct table *t, int slot)
{
	set_lock(t, F_UNLCK, TABLE_SLOT_LOCK_AT + slot);
}

bool table_slot_locked(const struct table *t, int slot)
{
	return range_locked(t, TABLE_SLOT_LOCK_AT + slot, 1);
}

bool table_slot_free(const struct table *t, int slot)
{
	struct flock fl = byte_lock(F_WRLCK, TABLE_SLOT_LOCK_AT + slot, 1);

	return fcntl(t->fd, F_OFD_GETLK, &fl) == 0 && fl.l_type == F_UNLCK;
}

static off_t mark_at(uint64_t name)
{
	return TABLE_MARK_AT + (off_t)(name & TABLE_MARK_MASK);
}

bool table_marked(const struct table *t, uint64_t name)
{
	return range_locked(t, mark_at(name), 1);
}

int table_mark(struct table *t, uint64_t name)
{
	return set_lock(t, F_RDLCK, mark_at(name));
}

void table_unmark(struct table *t, uint64_t name)
{
	set_lock(t, F_UNLCK, mark_at(name));
}

/*
 * Allocates all blocks at once, so that the file system may fill up later. Writes the header last:
 * a table without one is invalid, and the next process creates it anew.
 */
static int make_table(struct table *t)
{
	if (ftruncate(t->fd, 0) < 0 || ftruncate(t->fd, TABLE_SIZE) < 0)
		return errno;
	/* tmpfs gives up on a signal, and the process would stay in private mode. */
	while (fallocate(t->fd, 0, 0, TABLE_SIZE) < 0) {
		if (errno == EOPNOTSUPP || errno == ENOSYS)
			break;
		if (errno != EINTR)
			return errno;
	}
	return write_at(t, &header_now, sizeof(header_now), 0);
}

bool table_in_use(const struct table *t)
{
	return range_locked(t, 0, 0);
}

/* Its dead processes' files may have names that we will use. */
static int replace_table(struct table *t, int dirfd)
{
	host_dir_sweep(dirfd, "s0");
	host_dir_sweep(dirfd, "s1");
	return make_table(t);
}

/* Under the table lock. */
static int check_table(struct table *t, int dirfd)
{
	struct table_header h = { .magic = 0 };
	struct stat st;

	if (fstat(t->fd, &st) < 0)
		return errno;
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid())
		return EBADMSG;
	if (read_at(t, &h, sizeof(h), 0) && h.magic == TABLE_MAGIC && h.version != TABLE_VERSION)
		return table_in_use(t) ? EPROTO : replace_table(t, dirfd);
	if (!memcmp(&h, &header_now, sizeof(h)) && st.st_size >= TABLE_SIZE)
		return 0;
	if (range_locked(t, TABLE_SLOT_LOCK_AT, HOST_SLOTS))
		return EBADMSG;
	return make_table(t);
}

int table_open(struct table *t, int dirfd)
{
	int err;

	if (!file_may_have(TABLE_SIZE))
		return EFBIG;
	t->fd = file_create(dirfd, "table", O_RDWR | O_NONBLOCK);
	if (t->fd < 0)
		return errno;
	t->pid_ns = own_pid_ns();
	/* The owner of the table is not checked yet. */
	err = wait_for_lock(t, TABLE_LOCK_AT, TABLE_LOCK_TIMEOUT);
	if (!err) {
		err = check_table(t, dirfd);
		if (!err)
			note_own(t);
		table_unlock(t);
	}
	if (err)
		table_close(t);
	return err;
}

void table_close(struct table *t)
{
	close(t->fd);
	t->fd = -1;
}

bool table_read_slot(const struct table *t, int slot, struct table_slot *s)
{
	bool ok = read_at(t, s, sizeof(*s), TABLE_SLOTS_AT + slot * (off_t)sizeof(*s));

	if (!ok)
		memset(s, 0, sizeof(*s));
	return ok;
}

void table_read_slots(const struct table *t, int first, unsigned int n, struct table_slot *s)
{
	const size_t len = n * sizeof(*s);

	if (!read_at(t, s, len, TABLE_SLOTS_AT + first * (off_t)sizeof(*s)))
		memset(s, 0, len);
}

int table_write_slot(struct table *t, int slot, const struct table_slot *s)
{
	return write_at(t, s, sizeof(*s), TABLE_SLOTS_AT + slot * (off_t)sizeof(*s));
}

int table_write_steer(struct table *t, int slot, const struct table_slot *s)
{
	const size_t at = offsetof(struct table_slot, steer);

	return write_at(t, (const uint8_t *)s + at, sizeof(*s) - at,
			TABLE_SLOTS_AT + slot * (off_t)sizeof(*s) + (off_t)at);
}

static off_t owner_at(uint32_t block)
{
	return TABLE_OWNERS_AT + (off_t)block * (off_t)sizeof(struct table_owner);
}

int table_owner_of(const struct table *t, uint32_t block)
{
	struct table_owner o;

	if (!read_at(t, &o, sizeof(o), owner_at(block)) || o.slot_plus_1 > HOST_SLOTS)
		return HOST_NO_SLOT;
	return o.slot_plus_1 - 1;
}

int table_write_owner(struct table *t, uint32_t block, const struct table_owner *o)
{
	return write_at(t, o, sizeof(*o), owner_at(block));
}

void table_read_owners(const struct table *t, uint32_t first, unsigned int n,
		       struct table_owner *o)
{
	const size_t len = n * sizeof(*o);
	unsigned int i;

	if (!read_at(t, o, len, owner_at(first)))
		memset(o, 0, len);
	for (i = 0; i < n; i++)
		if (o[i].slot_plus_1 > HOST_SLOTS)
			o[i].slot_plus_1 = 0;
}

void table_free_blocks(struct table *t, int slot)
{
	struct table_owner few[TABLE_CHUNK];
	struct table_owner *many = malloc(TABLE_MAP_CHUNK * sizeof(*many));
	const struct table_owner freed = { .freed_at = table_now() };
	uint32_t n = many ? TABLE_MAP_CHUNK : TABLE_CHUNK;
	struct table_owner *chunk = many ? many : few;

	for (uint32_t first = 0; first < HOST_BLOCKS; first += n) {
		table_read_owners(t, first, n, chunk);
		for (uint32_t i = 0; i < n; i++)
			if (chunk[i].slot_plus_1 == slot + 1)
				table_write_owner(t, first + i, &freed);
	}
	free(many);
}
