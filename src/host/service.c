/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/service.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/state.h"
#include "run/clock.h"
#include "run/config.h"
#include "run/log.h"
#include "util/cancel.h"
#include "util/file_room.h"
#include "util/time.h"

enum {
	BUCKETS = 2048,
	ENTRIES = 64,		/* entries per bucket */
	PLACES = ENTRIES - 1,	/* for services; the last one is the bucket's reach */
	FILE_SIZE = BUCKETS * ENTRIES * 64,
	PORT_MASK = 0xffff,
	FIRST_PORT = 32768,	/* Linux's default */
	LAST_PORT = 60999,
};

enum {
	ONLY_FAMILY = 1,
	REUSE = 2,
	LISTENS = 4,
	ENDED = 8,		/* it did: no port, but requests */
};

/*
 * Written under the table lock and read without it, so a reader may see a mix of two entries: each
 * member is checked on its own.
 */
struct entry {
	uint64_t incarnation;	/* 0: free */
	uint64_t netns;
	uint64_t service_id;
	struct net_addr addr;
	uint32_t ifindex;
	uint16_t slot;
	uint8_t family;
	uint8_t flags;
	uint64_t reserved[2];
};
static_assert(sizeof(struct entry) == 64, "entry of the services file, docs/HOST.md");

/*
 * An entry that finds no place in its service's bucket is in one of the next.  How many of them may
 * have one is the bucket's reach.  Only a binding changes it.
 */
struct bucket {
	struct entry entry[ENTRIES];
};

/*
 * Private copy of an entry of this process, so that its requests need no system call, unless the
 * entry is in another bucket than its service's.
 */
struct own_service {
	struct own_service *next;
	uint32_t at;
	struct entry entry;
};

static struct own_service **find_own(struct services *s, uint32_t at)
{
	struct own_service **p = &s->own[at / ENTRIES];

	while (*p && (*p)->at != at)
		p = &(*p)->next;
	return p;
}

/* If memory is exhausted, the entry is looked up in the file. */
static void keep_own(struct services *s, uint32_t at, const struct entry *e)
{
	struct own_service **p;

	if (!s->own)
		s->own = calloc(BUCKETS, sizeof(*s->own));
	if (!s->own)
		return;
	p = find_own(s, at);
	if (!*p) {
		*p = calloc(1, sizeof(**p));
		if (!*p)
			return;
		(*p)->at = at;
	}
	(*p)->entry = *e;
}

/* Returns true if there was one. */
static bool drop_own(struct services *s, uint32_t at)
{
	struct own_service **p = s->own ? find_own(s, at) : NULL, *o = p ? *p : NULL;

	if (!o)
		return false;
	*p = o->next;
	free(o);
	return true;
}

static void free_own(struct services *s)
{
	for (uint32_t n = 0; s->own && n < BUCKETS; n++)
		while (s->own[n])
			drop_own(s, s->own[n]->at);
	free(s->own);
}

/* In private mode, or if it may not be as large, the file is lazily allocated memory. */
static int open_store(struct host *h)
{
	struct services *s = &h->services;
	int cancel, err;

	if (s->fd >= 0 || s->memory)
		return 0;
	if (h->shared && !file_may_have(FILE_SIZE))
		log_once(LOG_HOST, LOG_WARN,
			 "RLIMIT_FSIZE is less than %u bytes: other processes of this host do not "
			 "find the services (rdma_cm listeners) of this one",
			 (unsigned int)FILE_SIZE);
	if (!h->shared || !file_may_have(FILE_SIZE)) {
		s->memory = calloc(1, FILE_SIZE);
		return s->memory ? 0 : ENOMEM;
	}
	cancel = cancel_off();	/* a request that is polled may be the first need for it */
	s->fd = file_create(h->dir.fd, "services", O_RDWR | O_NONBLOCK);
	err = s->fd < 0 ? errno : 0;
	cancel_on(cancel);
	return err;
}

void services_init(struct services *s)
{
	*s = (struct services){ .fd = -1 };
}

void services_close(struct services *s)
{
	if (s->fd >= 0)
		close(s->fd);
	free(s->memory);
	free_own(s);
	services_init(s);
}

/* Entries beyond the end of the file read as free. */
static void read_bucket(const struct host *h, uint32_t n, struct bucket *b)
{
	const struct services *s = &h->services;
	ssize_t got;
	int cancel;

	if (s->memory) {
		memcpy(b, s->memory + (size_t)n * sizeof(*b), sizeof(*b));
		return;
	}
	cancel = cancel_off();
	got = pread(s->fd, b, sizeof(*b), (off_t)n * (off_t)sizeof(*b));
	cancel_on(cancel);
	if (got < 0)
		got = 0;
	memset((uint8_t *)b + got, 0, sizeof(*b) - (size_t)got);
}

static int write_entry(struct host *h, uint32_t at, const struct entry *e)
{
	const struct services *s = &h->services;
	int cancel, err = 0;
	ssize_t put;

	if (s->memory) {
		memcpy(s->memory + (size_t)at * sizeof(*e), e, sizeof(*e));
		return 0;
	}
	cancel = cancel_off();
	put = pwrite(s->fd, e, sizeof(*e), (off_t)at * (off_t)sizeof(*e));
	if (put != (ssize_t)sizeof(*e))
		err = put < 0 ? errno : ENOSPC;
	cancel_on(cancel);
	return err;
}

/* No process has this incarnation: an entry with it is a reach, in place of the service id. */
static const uint64_t REACH = UINT64_MAX;

static uint32_t reach_of(const struct bucket *b)
{
	const struct entry *e = &b->entry[PLACES];

	return e->incarnation == REACH ? (uint32_t)min(e->service_id, (uint64_t)BUCKETS - 1) : 0;
}

static int write_reach(struct host *h, uint32_t n, uint32_t reach)
{
	const struct entry e = { .incarnation = reach ? REACH : 0, .service_id = reach };

	return write_entry(h, n * ENTRIES + PLACES, &e);
}

static uint32_t next_bucket(uint32_t n)
{
	return (n + 1) % BUCKETS;
}

static uint32_t hash(uint64_t netns, uint64_t service_id)
{
	uint64_t v = (service_id ^ netns << 20) * 0x9e3779b97f4a7c15ull;

	return (uint32_t)(v >> 32) % BUCKETS;
}

static uint32_t bucket_of(const struct host *h, uint64_t service_id)
{
	return hash(h->self.netns, service_id);
}

/* True if entries that belong to bucket n are in this one. */
static bool has_entries_of(const struct bucket *b, uint32_t n)
{
	for (unsigned int i = 0; i < PLACES; i++)
		if (b->entry[i].incarnation &&
		    hash(b->entry[i].netns, b->entry[i].service_id) == n)
			return true;
	return false;
}

/* True if the entry's process is alive and in this network namespace. */
static bool counts(struct host *h, const struct entry *e, uint64_t service_id)
{
	if (!e->incarnation || e->service_id != service_id || e->netns != h->self.netns)
		return false;
	return !h->shared || e->incarnation == h->incarnation ||
	       host_alive(h, e->slot, e->incarnation);
}

static bool is_any(const struct entry *e)
{
	return net_addr_is_zero(&e->addr);
}

/* As Linux's cma_check_port(): does this entry conflict with a new one? */
static int conflict(const struct entry *mine, const struct entry *other)
{
	if ((mine->flags & REUSE) && (other->flags & REUSE))
		return 0;
	if ((mine->flags & ONLY_FAMILY) && (other->flags & ONLY_FAMILY) &&
	    mine->family != other->family)
		return 0;
	if (is_any(mine) || is_any(other))
		return EADDRNOTAVAIL;
	return net_addr_equal(&mine->addr, &other->addr) && mine->ifindex == other->ifindex
		       ? EADDRINUSE
		       : 0;
}

/* Checks against all entries of the bucket except `self`. */
static int check_bucket(struct host *h, const struct bucket *b, const struct entry *mine,
			unsigned int self)
{
	for (unsigned int i = 0; i < ENTRIES; i++) {
		int err = 0;

		if (i != self && !(b->entry[i].flags & ENDED) &&
		    counts(h, &b->entry[i], mine->service_id))
			err = conflict(mine, &b->entry[i]);
		if (err)
			return err;
	}
	return 0;
}

/* Checks against all entries of the service except the one at `self`. */
static int check_port(struct host *h, const struct entry *mine, uint32_t self)
{
	uint32_t n = bucket_of(h, mine->service_id), reach = 0, i;
	struct bucket b;
	int err = 0;

	for (i = 0; i <= reach && !err; i++, n = next_bucket(n)) {
		read_bucket(h, n, &b);
		reach = i ? reach : reach_of(&b);
		err = check_bucket(h, &b, mine, n == self / ENTRIES ? self % ENTRIES : ENTRIES);
	}
	return err;
}

/* Returns the index of a free entry, or of a dead process's; PLACES if there is none. */
static unsigned int find_place(struct host *h, const struct bucket *b)
{
	for (unsigned int i = 0; i < PLACES; i++)
		if (!b->entry[i].incarnation)
			return i;
	for (unsigned int i = 0; i < PLACES; i++)
		if (h->shared && b->entry[i].incarnation != h->incarnation &&
		    !host_alive(h, b->entry[i].slot, b->entry[i].incarnation))
			return i;
	return PLACES;
}

/* The buckets that may have entries of a service, while one of them gets another. */
struct search {
	uint32_t home, reach;
	uint32_t used;   /* the last one that has entries of the home bucket */
	uint32_t needed; /* the one with a free place; BUCKETS: none so far */
	uint32_t at;     /* the place */
};

/* Returns 0, or the error of a conflict. */
static int look_into(struct host *h, struct search *s, uint32_t i, const struct entry *mine)
{
	uint32_t n = (s->home + i) % BUCKETS;
	unsigned int place = PLACES;
	struct bucket b;
	int err = 0;

	read_bucket(h, n, &b);
	if (!i)
		s->reach = reach_of(&b);
	if (i <= s->reach)
		err = check_bucket(h, &b, mine, ENTRIES);
	if (i && i <= s->reach && has_entries_of(&b, s->home))
		s->used = i;
	if (!err && s->needed == BUCKETS)
		place = find_place(h, &b);
	if (place < PLACES) {
		s->needed = i;
		s->at = n * ENTRIES + place;
	}
	return err;
}

/* Must hold the table lock.  A reader that knows only the old reach misses the new entry only. */
static int bind_port(struct host *h, const struct entry *mine, uint32_t *at)
{
	struct search s = { .home = bucket_of(h, mine->service_id), .needed = BUCKETS };
	uint32_t reach, i;
	int err = 0;

	for (i = 0; i <= s.reach || (s.needed == BUCKETS && i < BUCKETS); i++) {
		err = look_into(h, &s, i, mine);
		if (err)
			return err;
	}
	if (s.needed == BUCKETS)
		return ENOBUFS;
	reach = max(s.used, s.needed);
	if (reach != s.reach)
		err = write_reach(h, s.home, reach);
	*at = s.at;
	return err ? err : write_entry(h, *at, mine);
}

/* Reads it at most once a second: opening the file is the most expensive part of a binding. */
static void read_port_range(struct services *s)
{
	uint64_t now = clock_now();
	FILE *f;

	if (s->ports_read && now - s->ports_read < VRB_SECOND)
		return;
	f = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
	if (!f || fscanf(f, "%u %u", &s->first_port, &s->last_port) != 2 || !s->first_port ||
	    s->first_port > s->last_port || s->last_port > PORT_MASK) {
		s->first_port = FIRST_PORT;
		s->last_port = LAST_PORT;
	}
	s->ports_read = now;
	if (f)
		fclose(f);
}

/* Must hold the table lock. Starts at a random port, so that a port is not reused soon. */
static int bind_any_port(struct host *h, struct entry *mine, uint32_t *at)
{
	const uint64_t space = mine->service_id;
	const bool reuse = mine->flags & REUSE;
	unsigned int first, n, start;

	read_port_range(&h->services);
	first = h->services.first_port;
	n = h->services.last_port - first + 1;
	start = (unsigned int)(config_random() % n);
	for (unsigned int i = 0; i < n; i++) {
		int err;

		mine->service_id = space | (first + (start + i) % n);
		/* Choose an unused port, even if sharing would be allowed. */
		mine->flags &= (uint8_t)~REUSE;
		err = bind_port(h, mine, at);
		if (!err && reuse) {
			mine->flags |= REUSE;
			err = write_entry(h, *at, mine);
		}
		if (err != EADDRINUSE && err != EADDRNOTAVAIL)
			return err;
	}
	return EADDRNOTAVAIL;
}

static struct entry make_entry(const struct host *h, const struct host_service *s)
{
	return (struct entry){
		.incarnation = h->incarnation,
		.netns = h->self.netns,
		.service_id = s->service_id,
		.addr = s->addr,
		.ifindex = net_is_link_local(&s->addr) ? s->ifindex : 0,
		.slot = (uint16_t)(h->slot < 0 ? 0 : h->slot),
		.family = s->family,
		.flags = (uint8_t)((s->only_family || s->family == 4 ? ONLY_FAMILY : 0) |
				   (s->reuse ? REUSE : 0)),
	};
}

/* Takes both locks, and opens the store. */
static int begin_change(struct host *h)
{
	int err;

	lock_acquire(&h->lock);
	err = open_store(h);
	if (!err && h->shared)
		err = table_lock(&h->table);
	if (err)
		lock_release(&h->lock);
	return err;
}

static void end_change(struct host *h)
{
	if (h->shared)
		table_unlock(&h->table);
	lock_release(&h->lock);
}

int host_service_bind(struct host *h, struct host_service *s, uint32_t *at)
{
	struct entry mine = make_entry(h, s);
	int err = begin_change(h);

	if (err)
		return err;
	if (mine.service_id & PORT_MASK)
		err = bind_port(h, &mine, at);
	else
		err = bind_any_port(h, &mine, at);
	if (!err)
		keep_own(&h->services, *at, &mine);
	end_change(h);
	if (!err)
		s->service_id = mine.service_id;
	return err;
}

/* The entry belongs to this process, so no other process changes it. */
static bool read_own(struct host *h, uint32_t at, struct entry *e)
{
	struct bucket b;

	if (at / ENTRIES >= BUCKETS)
		return false;
	read_bucket(h, at / ENTRIES, &b);
	*e = b.entry[at % ENTRIES];
	return e->incarnation == h->incarnation;
}

/* Changes the flags of an entry of this process. */
static int set_flags(struct host *h, uint32_t at, uint8_t clear, uint8_t set)
{
	struct entry mine;
	int err = begin_change(h);

	if (err)
		return err;
	if (!read_own(h, at, &mine)) {
		err = EINVAL;
	} else {
		mine.flags &= (uint8_t)~clear;
		mine.flags |= set;
		if (set & LISTENS)
			err = check_port(h, &mine, at);
		if (!err)
			err = write_entry(h, at, &mine);
		if (!err)
			keep_own(&h->services, at, &mine);
	}
	end_change(h);
	return err;
}

int host_service_listen(struct host *h, uint32_t at)
{
	return set_flags(h, at, REUSE, LISTENS);
}

int host_service_only_family(struct host *h, uint32_t at, bool only)
{
	return set_flags(h, at, ONLY_FAMILY, only ? ONLY_FAMILY : 0);
}

void host_service_end_listening(struct host *h, uint32_t at)
{
	struct entry mine;

	/* Without the table lock, as below: the entry conflicts with fewer than before. */
	lock_acquire(&h->lock);
	if (!open_store(h) && read_own(h, at, &mine)) {
		mine.flags = (mine.flags & ONLY_FAMILY) | ENDED;
		if (!write_entry(h, at, &mine))
			keep_own(&h->services, at, &mine);
	}
	lock_release(&h->lock);
}

void host_service_unbind(struct host *h, uint32_t at)
{
	static const struct entry none;
	struct entry mine;

	/* Clearing an own entry needs no lock: a reader sees it or does not. */
	lock_acquire(&h->lock);
	if (at / ENTRIES < BUCKETS && !open_store(h) &&
	    (drop_own(&h->services, at) || read_own(h, at, &mine)))
		write_entry(h, at, &none);
	lock_release(&h->lock);
}

/* What is looked for. */
struct wanted {
	uint64_t service_id;
	const struct net_addr *addr;
	uint32_t ifindex;
	uint8_t family;
	uint8_t flag;		/* LISTENS or ENDED */
};

static bool takes(const struct entry *e, const struct wanted *w)
{
	if (!(e->flags & w->flag))
		return false;
	if (is_any(e))
		return e->family == w->family || !(e->flags & ONLY_FAMILY);
	return net_addr_equal(&e->addr, w->addr) &&
	       (!e->ifindex || !w->ifindex || e->ifindex == w->ifindex);
}

static const struct entry *find_here(const struct host *h, const struct wanted *w)
{
	const struct own_service *o = NULL;

	if (h->services.own)
		o = h->services.own[bucket_of(h, w->service_id)];
	while (o && (o->entry.service_id != w->service_id || !takes(&o->entry, w)))
		o = o->next;
	return o ? &o->entry : NULL;
}

static bool find_in(struct host *h, const struct bucket *b, const struct wanted *w,
		    struct entry *out)
{
	for (unsigned int i = 0; i < ENTRIES; i++) {
		if (!takes(&b->entry[i], w) || !counts(h, &b->entry[i], w->service_id))
			continue;
		*out = b->entry[i];
		return true;
	}
	return false;
}

/* Looks for one that listens, or else for one that did. */
static bool find_listed(struct host *h, const struct wanted *w, struct entry *out)
{
	uint32_t n = bucket_of(h, w->service_id), reach = 0, i;
	struct wanted past = *w;
	struct entry last;
	bool any = false;
	struct bucket b;

	past.flag = ENDED;
	for (i = 0; i <= reach; i++, n = next_bucket(n)) {
		read_bucket(h, n, &b);
		reach = i ? reach : reach_of(&b);
		if (find_in(h, &b, w, out))
			return true;
		any = any || find_in(h, &b, &past, &last);
	}
	if (any)
		*out = last;
	return any;
}

bool host_service_find(struct host *h, uint64_t service_id, const struct net_addr *addr,
		       uint32_t ifindex, uint8_t family, int *slot, uint64_t *incarnation)
{
	const struct wanted w = { service_id, addr, ifindex, family, LISTENS };
	const struct entry *here;
	struct entry found;
	bool any;

	lock_acquire(&h->lock);
	here = find_here(h, &w);
	if (here)
		found = *here;
	any = here || (!open_store(h) && find_listed(h, &w, &found));
	if (any) {
		*slot = h->shared ? found.slot : HOST_NO_SLOT;
		*incarnation = found.incarnation;
	}
	lock_release(&h->lock);
	return any;
}
