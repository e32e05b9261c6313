/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Joining and leaving, liveness, ownership of numbers.
 */
#include "host/host.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/state.h"
#include "run/config.h"
#include "run/log.h"
#include "util/atomic.h"
#include "util/cancel.h"
#include "util/compiler.h"
#include "util/file_room.h"
#include "util/hash.h"

void host_file_name(int slot, const char *suffix, char name[32])
{
	snprintf(name, 32, "s%04d.%s", slot, suffix);
}

/*
 * Removes the files and numbers of a dead process. Must hold the table lock and the slot's life
 * lock. Clears the slot last.
 */
static void clear_slot(struct host *h, int slot)
{
	static const struct table_slot empty;
	char prefix[32];

	table_free_blocks(&h->table, slot);
	host_file_name(slot, "", prefix);
	host_dir_sweep(h->dir.fd, prefix);
	table_write_slot(&h->table, slot, &empty);
}

/* As clear_slot(), but keeps its exit MADs. */
static void clear_dead(struct host *h, int slot, const struct table_slot *s)
{
	exit_mads_put_aside(h, slot, s);
	clear_slot(h, slot);
	if (s->udp_port)
		table_note_departure(&h->table);
}

/*
 * Must hold h->lock. Returns true if the slot's process is dead; then all its resources are free.
 */
static bool reclaim(struct host *h, int slot)
{
	struct table_slot s;
	bool dead = false;
	int cancel;

	if (slot == h->slot || table_slot_locked(&h->table, slot))
		return false;
	cancel = cancel_off();
	if (table_lock_within(&h->table, TABLE_CLEANUP_TIMEOUT))
		goto out;
	if (table_take_slot(&h->table, slot)) {
		dead = true;
		table_read_slot(&h->table, slot, &s);
		log_info(LOG_HOST, "process %u (slot %d) has died; reclaiming its resources", s.pid,
			 slot);
		clear_dead(h, slot, &s);
		table_drop_slot(&h->table, slot);
	}
	table_unlock(&h->table);
out:
	cancel_on(cancel);
	return dead;
}

/* Finds an unused slot and cleans it. Must hold the table lock. */
static int take_slot(struct host *h)
{
	struct table_slot s;
	int slot;

	for (slot = 0; slot < HOST_SLOTS; slot++) {
		if (!table_take_slot(&h->table, slot))
			continue;
		table_read_slot(&h->table, slot, &s);
		if (s.incarnation)
			clear_dead(h, slot, &s);
		h->slot = slot;
		return 0;
	}
	return EUSERS;
}

static int publish_self(struct host *h)
{
	h->self = (struct table_slot){
		.incarnation = h->incarnation,
		.netns = inbox_netns(h),
		.pid = (uint32_t)getpid(),
		.steer = { -1, -1 },
	};
	return table_write_slot(&h->table, h->slot, &h->self);
}

/*
 * Write the entry before creating the inbox, so that after a death in between the inbox is found.
 * A umask must keep no process of the user from the inbox.
 */
static int join_table(struct host *h)
{
	int err = table_lock(&h->table);
	char name[32];

	if (err)
		return err;
	err = take_slot(h);
	if (!err)
		err = publish_self(h);
	if (!err)
		err = inbox_open(h);
	host_file_name(h->slot, "sock", name);
	if (!err)
		err = fchmodat(h->dir.fd, name, 0600, 0) < 0 ? errno : publish_self(h);
	if (!err)
		err = atomics_share(&h->atomics, h->dir.fd);
	if (err && h->slot != HOST_NO_SLOT)
		clear_slot(h, h->slot);
	table_unlock(&h->table);
	return err;
}

static const char *explain(int err)
{
	switch (err) {
	case EPROTO:
		return "it is in use by another version of the library";
	case EBADMSG:
		return "its table is corrupt or belongs to another user; remove it when no program "
		       "uses it";
	case EBUSY:
		return "another process holds its lock and makes no progress";
	case EUSERS:
		return "too many processes";
	case EPERM:
		return "it belongs to another user";
	default:
		return strerror(err);
	}
}

static void close_files(struct host *h)
{
	if (h->inbox >= 0)
		close(h->inbox);
	services_close(&h->services);
	relay_close(&h->relay);
	exit_mads_close(h);
	if (h->inherited >= 0)
		close(h->inherited);
	h->inherited = -1;
	if (h->table.fd >= 0)
		table_close(&h->table);
	if (h->dir.fd >= 0)
		close(h->dir.fd);
	h->inbox = h->dir.fd = -1;
}

/* Joins in one of the places. On failure h->dir.path names it, if it could be opened. */
static int join_at(struct host *h, const char *wanted, unsigned int place)
{
	int err = host_dir_open_at(wanted, place, &h->dir);

	if (err)
		return err;
	err = table_open(&h->table, h->dir.fd);
	if (!err)
		err = join_table(h);
	if (!err)
		return 0;
	close_files(h);
	h->slot = HOST_NO_SLOT;
	return err;
}

/* The name of the first place, and whether it existed. */
struct refused {
	const char *wanted;
	char path[PATH_MAX];
	bool opened;
	int err;
};

static void note_refusal(struct refused *r, struct host_run_dir *dir, int err)
{
	r->err = err;
	r->opened = dir->path[0];
	if (r->opened || r->wanted)
		snprintf(r->path, sizeof(r->path), "%s", r->opened ? dir->path : r->wanted);
	else
		snprintf(r->path, sizeof(r->path), "/dev/shm/verbena-%u", (unsigned int)geteuid());
}

/*
 * A system without /dev/shm is normal. Warn if the user's choice failed, or if other processes may
 * use the place.
 */
static void log_other_place(const struct host *h, const struct refused *r)
{
	bool news = r->wanted || r->opened || r->err == EPERM;

	log_at(LOG_HOST, news ? LOG_WARN : LOG_INFO,
	       "cannot use %s (%s): using %s instead, without seeing programs that use another "
	       "directory",
	       r->path, explain(r->err), h->dir.path);
}

/*
 * Returns 0, or the errno value because of which the process works in private mode; or that no
 * descriptor is left.
 */
static int join_shared(struct host *h, const char *dir)
{
	struct refused first = { .wanted = dir && dir[0] ? dir : NULL };

	for (unsigned int i = 0; i < host_dir_places(dir); i++) {
		int err = join_at(h, dir, i);

		if (file_is_shortage(err))
			return err;
		if (err && !first.err)
			note_refusal(&first, &h->dir, err);
		if (err) {
			h->dir.path[0] = '\0';
			continue;
		}
		if (first.err)
			log_other_place(h, &first);
		return 0;
	}
	log_warn(LOG_HOST,
		 "no run directory (%s: %s): this process sees no other process on this host and "
		 "cannot share its UDP port; set VERBENA_DIR to a directory of your own",
		 first.path, explain(first.err));
	return first.err;
}

/* Equal for all processes with this table open, and different otherwise; not 0. */
static uint64_t group_of(const struct table *t)
{
	struct stat st;
	uint64_t id = HASH_START;

	if (fstat(t->fd, &st) < 0)
		return 1;
	id = hash_bytes(id, &st.st_dev, sizeof(st.st_dev));
	id = hash_bytes(id, &st.st_ino, sizeof(st.st_ino));
	return id ? id : 1;
}

static bool holder_alive(void *arg, uint64_t incarnation)
{
	return host_incarnation_alive(arg, incarnation);
}

int host_join(const char *dir, struct host **out)
{
	struct host *h = calloc(1, sizeof(*h));
	int err;

	if (!h)
		return ENOMEM;
	lock_init(&h->lock);
	lock_init(&h->exit_lock);
	h->slot = HOST_NO_SLOT;
	h->inbox = h->dir.fd = h->table.fd = -1;
	services_init(&h->services);
	relay_init(&h->relay);
	h->exit_mads.fd = h->inherited = -1;
	while (!h->incarnation)
		h->incarnation = config_random() ^ (uint64_t)getpid() << 32;

	atomics_init(&h->atomics, h->incarnation, holder_alive, h);
	err = join_shared(h, dir);
	if (file_is_shortage(err)) {
		host_forget(h);
		return err;
	}
	h->shared = err == 0;
	if (h->shared)
		h->group = group_of(&h->table);
	qpns_init(&h->qpns, h->shared ? &h->table : NULL, h->slot);
	if (h->shared)
		host_reap(h);
	*out = h;
	return 0;
}

void host_leave(struct host *h)
{
	if (!h)
		return;
	/* If the lock cannot be taken, the next process finds a dead slot and reclaims it. */
	if (h->shared && !table_lock_within(&h->table, TABLE_CLEANUP_TIMEOUT)) {
		exit_mads_pass_on(h, h->slot, &h->self);
		clear_slot(h, h->slot);
		table_unlock(&h->table);
	}
	host_forget(h);
}

void host_forget(struct host *h)
{
	if (!h)
		return;
	close_files(h);
	atomics_close(&h->atomics);
	qpns_clear(&h->qpns);
	free(h);
}

bool host_shared(const struct host *h)
{
	return h->shared;
}

uint64_t host_group(const struct host *h)
{
	return h->group;
}

uint64_t host_generation(const struct host *h)
{
	return h->shared ? table_turn(&h->table) : 1;
}

uint64_t host_departures(const struct host *h)
{
	return h->shared ? table_departures(&h->table) : 0;
}

int host_slot(const struct host *h)
{
	return h->slot;
}

uint64_t host_incarnation(const struct host *h)
{
	return h->incarnation;
}

int host_dirfd(const struct host *h)
{
	return h->dir.fd;
}

const char *host_dir(const struct host *h)
{
	return h->shared ? h->dir.path : NULL;
}

int host_qpn_alloc(struct host *h, unsigned int shard, uint32_t *qpn)
{
	int err;

	lock_acquire(&h->lock);
	err = qpns_alloc(&h->qpns, shard, qpn);
	lock_release(&h->lock);
	return err;
}

void host_qpn_free(struct host *h, uint32_t qpn)
{
	lock_acquire(&h->lock);
	qpns_free(&h->qpns, qpn);
	lock_release(&h->lock);
}

int host_qpn_alloc_alone(struct host *h, uint32_t *qpn)
{
	int err;

	if (!h->shared)
		return host_qpn_alloc(h, 0, qpn);
	lock_acquire(&h->lock);
	err = qpns_alloc_alone(&h->qpns, qpn);
	lock_release(&h->lock);
	return err;
}

int host_qpn_take(struct host *h, uint32_t qpn, int giver)
{
	int err;

	if (!h->shared)
		return EINVAL;
	lock_acquire(&h->lock);
	err = qpns_take(&h->qpns, qpn & 0xffffff, giver);
	lock_release(&h->lock);
	return err;
}

void host_qpn_prepare(struct host *h, unsigned int shard)
{
	lock_acquire(&h->lock);
	qpns_prepare(&h->qpns, shard);
	lock_release(&h->lock);
}

unsigned int host_blocks_taken(const struct host *h)
{
	return load_relaxed(&h->qpns.taken);
}

bool host_qpn_mine(struct host *h, uint32_t qpn)
{
	bool mine;

	lock_acquire(&h->lock);
	mine = !h->shared || qpns_has_block(&h->qpns, (qpn & 0xffffff) >> HOST_BLOCK_BITS);
	lock_release(&h->lock);
	return mine;
}

unsigned int host_qpn_shard(struct host *h, uint32_t qpn)
{
	unsigned int shard;

	lock_acquire(&h->lock);
	shard = qpns_shard(&h->qpns, (qpn & 0xffffff) >> HOST_BLOCK_BITS);
	lock_release(&h->lock);
	return shard;
}

int host_owner(struct host *h, uint32_t qpn)
{
	uint32_t block = (qpn & 0xffffff) >> HOST_BLOCK_BITS;
	int slot = HOST_NO_SLOT;

	lock_acquire(&h->lock);
	if (qpns_has_block(&h->qpns, block)) {
		slot = h->slot;
	} else if (h->shared) {
		slot = table_owner_of(&h->table, block);
		if (slot != HOST_NO_SLOT &&
		    (slot == h->slot || !table_slot_locked(&h->table, slot))) {
			reclaim(h, slot);
			slot = HOST_NO_SLOT;
		}
	}
	lock_release(&h->lock);
	return slot;
}

int host_mark(struct host *h, uint64_t name, bool create, bool exclusive)
{
	bool there;
	int err;

	if (!h->shared)
		return create ? 0 : ENOENT;
	lock_acquire(&h->lock);
	err = table_lock(&h->table);
	if (!err) {
		there = table_marked(&h->table, name);
		if (there && exclusive)
			err = EEXIST;
		else if (!there && !create)
			err = ENOENT;
		else
			err = table_mark(&h->table, name);
		table_unlock(&h->table);
	}
	lock_release(&h->lock);
	return err;
}

void host_unmark(struct host *h, uint64_t name)
{
	if (!h->shared)
		return;
	lock_acquire(&h->lock);
	table_unmark(&h->table, name);
	lock_release(&h->lock);
}

static bool position_makes_sense(int32_t index)
{
	return index >= -1 && index < UINT16_MAX;
}

/* Iterates over all slots, which are read page by page. */
struct walk {
	struct table_slot page[TABLE_SLOTS];
};

static const struct table_slot *next_slot(const struct host *h, struct walk *w, int slot)
{
	if (slot % TABLE_SLOTS == 0)
		table_read_slots(&h->table, slot, TABLE_SLOTS, w->page);
	return &w->page[slot % TABLE_SLOTS];
}

bool slot_peer(const struct table_slot *s, struct host_peer *peer)
{
	if (!s->incarnation)
		return false;
	*peer = (struct host_peer){
		.pid = (pid_t)s->pid,
		.incarnation = s->incarnation,
		.netns = s->netns,
		.udp_port = s->udp_port,
	};
	for (unsigned int family = 0; family < ARRAY_SIZE(s->steer); family++) {
		peer->steer.at[0][family] =
			position_makes_sense(s->steer[family]) ? s->steer[family] : -1;
		for (unsigned int i = 1; i < HOST_SHARDS; i++)
			peer->steer.at[i][family] = s->shard[i - 1][family] - 1;
	}
	return true;
}

bool host_peer(struct host *h, int slot, struct host_peer *peer)
{
	struct table_slot s;

	if (!h->shared || slot < 0 || slot >= HOST_SLOTS)
		return false;
	table_read_slot(&h->table, slot, &s);
	return slot_peer(&s, peer);
}

bool host_same_network(struct host *h, int slot)
{
	struct host_peer self, peer;

	return host_peer(h, h->slot, &self) && host_peer(h, slot, &peer) &&
	       self.netns == peer.netns;
}

bool host_incarnation_alive(struct host *h, uint64_t incarnation)
{
	struct walk walk;

	for (int slot = 0; h->shared && slot < HOST_SLOTS; slot++)
		if (next_slot(h, &walk, slot)->incarnation == incarnation)
			return host_alive(h, slot, incarnation);
	return false;
}

void host_lock_atomics(struct host *h, uint64_t address)
{
	atomics_lock(&h->atomics, address);
}

void host_unlock_atomics(struct host *h, uint64_t address)
{
	atomics_unlock(&h->atomics, address);
}

bool host_reclaim(struct host *h, int slot)
{
	bool dead;

	if (!h->shared)
		return false;
	lock_acquire(&h->lock);
	dead = reclaim(h, slot);
	lock_release(&h->lock);
	return dead;
}

unsigned int host_reap(struct host *h)
{
	struct walk walk;
	unsigned int n = 0;
	int slot;

	if (!h->shared)
		return 0;
	lock_acquire(&h->lock);
	for (slot = 0; slot < HOST_SLOTS; slot++)
		if (next_slot(h, &walk, slot)->incarnation && reclaim(h, slot))
			n++;
	lock_release(&h->lock);
	return n;
}

void host_publish_manager(struct host *h, bool on)
{
	if (!h->shared)
		return;
	lock_acquire(&h->lock);
	h->self.flags = on ? TABLE_MANAGER : 0;
	table_write_slot(&h->table, h->slot, &h->self);
	lock_release(&h->lock);
}

bool host_publish_listener(struct host *h)
{
	bool first;

	if (!h->shared)
		return false;
	lock_acquire(&h->lock);
	first = !(h->self.flags & TABLE_LISTENER);
	h->self.flags |= TABLE_LISTENER;
	if (first)
		table_write_slot(&h->table, h->slot, &h->self);
	lock_release(&h->lock);
	return first;
}

unsigned int host_managers(struct host *h, int *slots, unsigned int cap)
{
	unsigned int n = 0;
	struct walk walk;

	if (!h->shared)
		return 0;
	for (int slot = 0; slot < HOST_SLOTS && n < cap; slot++) {
		const struct table_slot *s = next_slot(h, &walk, slot);

		if (slot != h->slot && s->incarnation && (s->flags & TABLE_MANAGER) &&
		    s->netns == h->self.netns)
			slots[n++] = slot;
	}
	return n;
}
