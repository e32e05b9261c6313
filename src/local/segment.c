/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Creates this process's segment and maps those of peers; segment.h documents the interface,
 * layout.h the format.
 */
#include "local/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/host.h"
#include "run/log.h"
#include "util/atomic.h"
#include "util/cancel.h"
#include "util/file_room.h"
#include "util/memcheck.h"
#include "wq/qp.h"

/* 0: unknown, for example without /proc. */
static uint64_t pid_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

/* As file_reserve(), but no cancellation point. */
static int reserve(int fd, uint64_t off, uint64_t len)
{
	int cancel = cancel_off();
	int err = file_reserve(fd, off, len);

	cancel_on(cancel);
	return err;
}

static void fill_header(struct segment *seg, struct host *host, uint64_t netns)
{
	struct seg_header *h = segment_header(seg);

	seg->identity = (struct seg_identity){ SEG_MAGIC, host_incarnation(host) };
	h->magic = SEG_MAGIC;
	h->layout = SEG_LAYOUT;
	h->header_size = sizeof(*h);
	h->incarnation = host_incarnation(host);
	h->netns = seg->netns = netns;
	h->pidns = seg->pidns = pid_namespace();
	/* memcheck would take what peers store for uninitialised: they send packets instead */
	h->identity = memcheck_runs() ? 0 : (uintptr_t)&seg->identity;
	h->pid = getpid();
	h->slot = host_slot(host);
	h->asleep = 1;
	store_release(&h->ready, 1);	/* L1 */
}

int segment_create(struct host *host, uint64_t netns, struct segment **out)
{
	struct segment *seg;
	char name[32];
	int err;

	if (!host_shared(host) || netns == 0 || pid_namespace() == 0)
		return ENOTSUP;
	if (!file_may_have(SEG_SIZE))
		return EFBIG;
	seg = calloc(1, sizeof(*seg));
	if (seg == NULL)
		return ENOMEM;
	host_file_name(host_slot(host), "seg", name);
	/* The slot is ours, so a dead process left any file of this name. */
	unlinkat(host_dirfd(host), name, 0);
	seg->fd = file_create(host_dirfd(host), name, O_RDWR | O_EXCL);
	if (seg->fd < 0) {
		err = errno;
		goto free_segment;
	}
	seg->size = SEG_SIZE;
	if (ftruncate(seg->fd, seg->size) < 0) {
		err = errno;
		goto remove_file;
	}
	err = reserve(seg->fd, 0, sizeof(struct seg_header));
	if (err == 0)
		err = reserve(seg->fd, SEG_QP_OFF, SEG_MR_OFF - SEG_QP_OFF);
	if (err != 0)
		goto remove_file;
	seg->base = mmap(NULL, seg->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
			 seg->fd, 0);
	if (seg->base == MAP_FAILED) {
		err = errno;
		goto remove_file;
	}
	lock_init(&seg->lock);
	fill_header(seg, host, netns);
	*out = seg;
	return 0;

remove_file:
	unlinkat(host_dirfd(host), name, 0);
	close(seg->fd);
free_segment:
	free(seg);
	return err;
}

void segment_destroy(struct segment *seg, struct host *host)
{
	char name[32];

	host_file_name(host_slot(host), "seg", name);
	unlinkat(host_dirfd(host), name, 0);
	segment_forget(seg);
}

void segment_forget(struct segment *seg)
{
	munmap(seg->base, seg->size);
	close(seg->fd);
	free(seg);
}

static struct seg_qp *qp_table(const struct segment *seg)
{
	return (struct seg_qp *)(seg->base + SEG_QP_OFF);
}

/*
 * Returns the place of a QPN, else the first reusable place on its probe path; SEG_QPS if there is
 * none. Must hold seg->lock.
 */
static uint32_t find_place(const struct segment *seg, uint32_t qpn)
{
	uint32_t reusable = SEG_QPS;

	for (uint32_t i = 0; i < SEG_QPS; i++) {
		uint32_t at = (qpn + i) % SEG_QPS;

		if (seg->qpn[at] == qpn)
			return at;
		if (seg->qpn[at] == SEG_QP_DELETED && reusable == SEG_QPS)
			reusable = at;
		if (seg->qpn[at] == SEG_QP_EMPTY)
			return reusable != SEG_QPS ? reusable : at;
	}
	return reusable;
}

/* 256: 1, ... 4096: 5; 0: none yet */
static unsigned int mtu_code(uint32_t mtu)
{
	return mtu ? (unsigned int)__builtin_ctz(mtu) - 7 : 0;
}

/* Sequence lock: readers retry while gen is odd or has changed. */
static void write_entry(struct seg_qp *e, const struct wq_qp *qp, struct seg_qp_facts facts)
{
	uint32_t gen = load_relaxed(&e->gen) & ~1u;	/* even, whatever the old value */

	store_relaxed(&e->gen, gen + 1);
	full_fence();
	e->dest_qpn = qp->dest_qpn;
	e->pdn = qp->pdn;
	e->access = (uint16_t)qp->access;
	e->rq_psn = (uint16_t)qp->rq_psn;
	e->type = qp->type;
	e->state = qp->state;
	e->flags = (facts.established ? SEG_QP_ESTABLISHED : 0) |
		   (facts.waits ? SEG_QP_WAITS : 0) | (facts.blocked ? SEG_QP_BLOCKED : 0) |
		   (uint8_t)(mtu_code(qp->mtu) << SEG_QP_MTU);
	e->max_dest_rd_atomic = qp->max_dest_rd_atomic;
	memcpy(e->dest_gid, qp->path.dst.raw, sizeof(e->dest_gid));
	memcpy(e->src_gid, qp->path.src.raw, sizeof(e->src_gid));
	store_release(&e->gen, gen + 2);
	store_release(&e->qpn, qp->qpn);	/* L4 */
}

/* A QP's progress word is kept until its next connection begins or another QP takes the entry. */
static bool forgets_progress(const struct segment *seg, uint32_t at, const struct wq_qp *qp)
{
	return seg->qpn[at] != qp->qpn || qp->state == IBV_QPS_RESET || qp->state == IBV_QPS_INIT;
}

/* Must hold seg->lock. */
static void set_ended(struct segment *seg, uint32_t at, bool ended)
{
	uint64_t bit = 1ull << at % 64;

	seg->ended[at / 64] = ended ? seg->ended[at / 64] | bit : seg->ended[at / 64] & ~bit;
}

int segment_publish_qp(struct segment *seg, const struct wq_qp *qp, struct seg_qp_facts facts)
{
	uint32_t at;

	lock_acquire(&seg->lock);
	at = find_place(seg, qp->qpn);
	if (at != SEG_QPS) {
		if (forgets_progress(seg, at, qp))
			store_relaxed(&qp_table(seg)[at].progress, 0);	/* L11 */
		seg->qpn[at] = qp->qpn;
		set_ended(seg, at, false);
		write_entry(&qp_table(seg)[at], qp, facts);
	}
	lock_release(&seg->lock);
	return at != SEG_QPS ? 0 : EAGAIN;
}

/*
 * Deleted entries right before an empty one are on no probe path, so they become empty. Must hold
 * seg->lock.
 */
static void empty_places(struct segment *seg, uint32_t at)
{
	while (seg->qpn[at] == SEG_QP_DELETED &&
	       seg->qpn[(at + 1) % SEG_QPS] == SEG_QP_EMPTY) {
		seg->qpn[at] = SEG_QP_EMPTY;
		store_release(&qp_table(seg)[at].qpn, SEG_QP_EMPTY);	/* L4 */
		at = (at + SEG_QPS - 1) % SEG_QPS;
	}
}

/* Must hold seg->lock. */
static void retract(struct segment *seg, uint32_t at)
{
	struct seg_qp *e = &qp_table(seg)[at];

	set_ended(seg, at, false);
	seg->qpn[at] = SEG_QP_DELETED;
	store_release(&e->qpn, SEG_QP_DELETED);
	/* Invalidate copies. */
	store_release(&e->gen, load_relaxed(&e->gen) + 2);
	empty_places(seg, at);
}

void segment_retract_qp(struct segment *seg, uint32_t qpn)
{
	uint32_t at;

	lock_acquire(&seg->lock);
	at = find_place(seg, qpn);
	if (at != SEG_QPS && seg->qpn[at] == qpn)
		retract(seg, at);
	lock_release(&seg->lock);
}

void segment_end_qp(struct segment *seg, uint32_t qpn)
{
	uint32_t at;

	lock_acquire(&seg->lock);
	at = find_place(seg, qpn);
	if (at != SEG_QPS && seg->qpn[at] == qpn) {
		struct seg_qp *e = &qp_table(seg)[at];
		uint32_t gen = load_relaxed(&e->gen) & ~1u;

		store_relaxed(&e->gen, gen + 1);
		full_fence();
		e->state = IBV_QPS_ERR;
		store_release(&e->gen, gen + 2);
		set_ended(seg, at, true);
	}
	lock_release(&seg->lock);
}

void segment_forget_qp(struct segment *seg, uint32_t qpn)
{
	uint32_t at;

	lock_acquire(&seg->lock);
	at = find_place(seg, qpn);
	if (at != SEG_QPS && seg->qpn[at] == qpn && seg->ended[at / 64] & 1ull << at % 64)
		retract(seg, at);
	lock_release(&seg->lock);
}

uint64_t *segment_progress(struct segment *seg, uint32_t qpn)
{
	uint64_t *word = NULL;
	uint32_t at;

	lock_acquire(&seg->lock);
	at = find_place(seg, qpn);
	if (at != SEG_QPS && seg->qpn[at] == qpn)
		word = &qp_table(seg)[at].progress;
	lock_release(&seg->lock);
	return word;
}

struct mr_entry *segment_keys(struct segment *seg, uint32_t first, uint32_t n)
{
	uint64_t off = SEG_MR_OFF + first * SEG_MR_ENTRY;
	uint32_t chunk = first / SEG_KEY_CHUNK;

	if (n != SEG_KEY_CHUNK || first + (uint64_t)n > SEG_KEYS || !file_may_have(SEG_SIZE) ||
	    reserve(seg->fd, off, n * SEG_MR_ENTRY) != 0)
		return NULL;
	fetch_or_acq_rel(&segment_header(seg)->key_chunks[chunk / 64], 1ull << chunk % 64);
	return (struct mr_entry *)(seg->base + off);
}

struct lane *segment_own_lane(struct segment *seg, unsigned int slot)
{
	uint64_t bit = 1ull << slot % 64;

	if (unlikely(!(load_relaxed(&seg->lanes[slot / 64]) & bit))) {
		uint64_t off = SEG_LANE_OFF + (uint64_t)slot * SEG_LANE_SIZE;

		if (!file_may_have(SEG_SIZE) || reserve(seg->fd, off, sizeof(struct lane)) != 0)
			return NULL;
		fetch_or_acq_rel(&seg->lanes[slot / 64], bit);
	}
	return segment_lane(seg, slot);
}

/*
 * Checks whether memory can be shared with the owner of the segment. *pid: the owner's, read once,
 * because peers can write to the header.
 */
static int check_header(const struct seg_header *h, const struct segment *own, uint64_t incarnation,
			int32_t *pid)
{
	if (load_acquire(&h->ready) != 1)	/* L1 */
		return ENOENT;
	if (h->magic != SEG_MAGIC || h->layout != SEG_LAYOUT || h->header_size != sizeof(*h))
		return EPROTO;
	if (h->incarnation != incarnation)
		return ESTALE;
	*pid = load_relaxed(&h->pid);
	if (h->netns != own->netns || h->pidns != own->pidns || *pid <= 0)
		return EXDEV;
	return 0;
}

static int open_peer_file(struct host *host, int slot, int *fd)
{
	char name[32];
	struct stat st;

	host_file_name(slot, "seg", name);
	*fd = openat(host_dirfd(host), name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (*fd < 0)
		return errno == ELOOP ? EPROTO : errno;
	if (fstat(*fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
	    (uint64_t)st.st_size != SEG_SIZE) {
		log_once(LOG_LOCAL, LOG_WARN,
			 "%s in the run directory is ignored: expected a file of user %u with %llu "
			 "bytes",
			 name, (unsigned int)geteuid(), (unsigned long long)SEG_SIZE);
		close(*fd);
		return EPROTO;
	}
	return 0;
}

static void *map_part(int fd, uint64_t off, uint64_t len, int prot)
{
	void *p = mmap(NULL, len, prot, MAP_SHARED | MAP_NORESERVE, fd, off);

	return p == MAP_FAILED ? NULL : p;
}

static int map_parts(int fd, const struct segment *own, int own_slot, uint64_t incarnation,
		     struct peer_map *map)
{
	uint64_t lane_off = SEG_LANE_OFF + (uint64_t)own_slot * SEG_LANE_SIZE;
	int err;

	map->header = map_part(fd, 0, sizeof(struct seg_header), PROT_READ | PROT_WRITE);
	if (map->header == NULL)
		return ENOMEM;
	err = check_header(map->header, own, incarnation, &map->pid);
	if (err == 0)
		err = reserve(fd, lane_off, sizeof(struct lane));
	if (err != 0)
		return err;
	map->tables = map_part(fd, SEG_QP_OFF, SEG_LANE_OFF - SEG_QP_OFF, PROT_READ);
	map->lane = map_part(fd, lane_off, sizeof(struct lane), PROT_READ | PROT_WRITE);
	return map->tables != NULL && map->lane != NULL ? 0 : ENOMEM;
}

/* Nothing fails, but messages are slower; with VERBENA_TRANSPORT=local they have no way at all. */
static void tell_why(struct host *host, int slot, int err)
{
	struct host_peer peer = { 0 };

	host_peer(host, slot, &peer);
	if (err == EPROTO)
		log_once(LOG_LOCAL, LOG_INFO,
			 "no shared memory with process %d: its segment is of another version of "
			 "Verbena, or damaged",
			 (int)peer.pid);
	else if (err == EXDEV)
		log_once(LOG_LOCAL, LOG_INFO,
			 "no shared memory with process %d: it is in another network or PID "
			 "namespace",
			 (int)peer.pid);
	else if (err != ENOENT && err != ESTALE)
		log_once(LOG_LOCAL, LOG_WARN, "no shared memory with process %d: %s", (int)peer.pid,
			 strerror(err));
}

int peer_map_open(struct host *host, const struct segment *own, int own_slot, int slot,
		  uint64_t incarnation, struct peer_map *map)
{
	int fd, err, cancel;

	*map = (struct peer_map){ .incarnation = incarnation };
	if (own_slot < 0 || own_slot >= SEG_PEERS)
		return EPROTO;
	if (!file_may_have(SEG_SIZE))
		return EFBIG;
	cancel = cancel_off();
	err = open_peer_file(host, slot, &fd);
	if (err == 0) {
		err = map_parts(fd, own, own_slot, incarnation, map);
		close(fd);
	}
	if (err != 0)
		tell_why(host, slot, err);
	cancel_on(cancel);
	if (err != 0) {
		peer_map_close(map);
		return err;
	}
	map->qps = map->tables;
	map->keys = (struct mr_entry *)((uint8_t *)map->tables + (SEG_MR_OFF - SEG_QP_OFF));
	map->asleep = &map->header->asleep;
	map->keeper = &map->header->keeper;
	return 0;
}

void peer_map_close(struct peer_map *map)
{
	if (map->lane != NULL)
		munmap(map->lane, sizeof(struct lane));
	if (map->tables != NULL)
		munmap(map->tables, SEG_LANE_OFF - SEG_QP_OFF);
	if (map->header != NULL)
		munmap(map->header, sizeof(struct seg_header));
}

static const struct seg_qp *find_entry(const struct peer_map *map, uint32_t qpn)
{
	for (uint32_t i = 0; i < SEG_QPS; i++) {
		const struct seg_qp *e = &map->qps[(qpn + i) % SEG_QPS];
		uint32_t found = load_acquire(&e->qpn);	/* L4 */

		if (found == qpn)
			return e;
		if (found == SEG_QP_EMPTY)
			return NULL;
	}
	return NULL;
}

const struct seg_qp *peer_map_qp(const struct peer_map *map, uint32_t qpn, struct seg_qp *copy)
{
	const struct seg_qp *e = find_entry(map, qpn);

	return e && peer_map_qp_copy(e, qpn, copy) ? e : NULL;
}

bool peer_map_has_qp(const struct peer_map *map, uint32_t qpn)
{
	return find_entry(map, qpn) != NULL;
}

const struct mr_entry *peer_map_key(const struct peer_map *map, uint32_t index)
{
	uint32_t chunk = index / SEG_KEY_CHUNK;

	if (!(load_acquire(&map->header->key_chunks[chunk / 64]) >> chunk % 64 & 1))
		return NULL;
	return &map->keys[index];
}
