/* SPDX-License-Identifier: BSD-2-Clause */
/* Creates the own segment and maps those of peers; segment.h has the contract, layout.h the bytes. */
#include "local/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/host.h"
#include "util/atomic.h"
#include "wq/qp.h"

#define QP_DELETED UINT32_MAX

static uint64_t pid_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

/* Gives a part of the file memory now, so that touching it later cannot raise SIGBUS. */
static int reserve(int fd, uint64_t off, uint64_t len)
{
	return posix_fallocate(fd, off, len);
}

static void fill_header(struct seg_header *h, struct host *host, uint64_t netns)
{
	h->magic = SEG_MAGIC;
	h->layout = SEG_LAYOUT;
	h->header_size = sizeof(*h);
	h->incarnation = host_incarnation(host);
	h->netns = netns;
	h->pidns = pid_namespace();
	h->base = (uintptr_t)h;
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

	if (!host_shared(host))
		return ENOTSUP;
	seg = calloc(1, sizeof(*seg));
	if (seg == NULL)
		return ENOMEM;
	host_file_name(host_slot(host), "seg", name);
	/* The slot is ours, so whatever bears the name is left over from the dead. */
	unlinkat(host_dirfd(host), name, 0);
	seg->fd = openat(host_dirfd(host), name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
			 0600);
	if (seg->fd < 0) {
		err = errno;
		goto free_segment;
	}
	seg->size = SEG_SIZE;
	if (ftruncate(seg->fd, seg->size) < 0) {
		err = errno;
		goto remove_file;
	}
	err = reserve(seg->fd, 0, SEG_MR_OFF);
	if (err != 0)
		goto remove_file;
	seg->base = mmap(NULL, seg->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
			 seg->fd, 0);
	if (seg->base == MAP_FAILED) {
		err = errno;
		goto remove_file;
	}
	lock_init(&seg->lock);
	fill_header(segment_header(seg), host, netns);
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

/* The entry of a number, else the first reusable one on its probe path, else NULL. */
static struct seg_qp *find_entry(struct seg_qp *table, uint32_t qpn)
{
	struct seg_qp *reusable = NULL;

	for (uint32_t i = 0; i < SEG_QPS; i++) {
		struct seg_qp *e = &table[(qpn + i) % SEG_QPS];

		if (e->qpn == qpn)
			return e;
		if (e->qpn == QP_DELETED && reusable == NULL)
			reusable = e;
		if (e->qpn == 0)
			return reusable != NULL ? reusable : e;
	}
	return reusable;
}

/* Sequence lock: readers retry while gen is odd or has changed. */
static void write_entry(struct seg_qp *e, const struct wq_qp *qp)
{
	store_relaxed(&e->gen, e->gen + 1);
	full_fence();
	e->dest_qpn = qp->dest_qpn;
	e->pdn = qp->pdn;
	e->access = qp->access;
	e->type = qp->type;
	e->state = qp->state;
	memcpy(e->dest_gid, qp->path.dst.raw, sizeof(e->dest_gid));
	memcpy(e->src_gid, qp->path.src.raw, sizeof(e->src_gid));
	store_release(&e->gen, e->gen + 1);
	store_release(&e->qpn, qp->qpn);	/* L4 */
}

int segment_publish_qp(struct segment *seg, const struct wq_qp *qp)
{
	struct seg_qp *e;

	lock_acquire(&seg->lock);
	e = find_entry(qp_table(seg), qp->qpn);
	if (e != NULL)
		write_entry(e, qp);
	lock_release(&seg->lock);
	return e != NULL ? 0 : EAGAIN;
}

void segment_retract_qp(struct segment *seg, uint32_t qpn)
{
	struct seg_qp *e;

	lock_acquire(&seg->lock);
	e = find_entry(qp_table(seg), qpn);
	if (e != NULL && e->qpn == qpn)
		store_release(&e->qpn, QP_DELETED);
	lock_release(&seg->lock);
}

struct mr_entry *segment_keys(struct segment *seg, uint32_t first, uint32_t n)
{
	uint64_t off = SEG_MR_OFF + first * SEG_MR_ENTRY;

	if (first + (uint64_t)n > SEG_KEYS || reserve(seg->fd, off, n * SEG_MR_ENTRY) != 0)
		return NULL;
	return (struct mr_entry *)(seg->base + off);
}

/* Everything that decides whether memory can be shared with the owner of the segment. */
static int check_header(const struct seg_header *h, const struct segment *own, uint64_t incarnation)
{
	const struct seg_header *mine = segment_header(own);

	if (load_acquire(&h->ready) != 1)	/* L1 */
		return ENOENT;
	if (h->magic != SEG_MAGIC || h->layout != SEG_LAYOUT || h->header_size != sizeof(*h))
		return EPROTO;
	if (h->incarnation != incarnation)
		return ESTALE;
	if (h->netns != mine->netns || h->pidns != mine->pidns || h->pid <= 0)
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
		return errno == ENOENT ? ENOENT : EPROTO;
	if (fstat(*fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
	    (uint64_t)st.st_size != SEG_SIZE) {
		close(*fd);
		return EPROTO;
	}
	return 0;
}

int peer_map_open(struct host *host, const struct segment *own, int own_slot, int slot,
		  uint64_t incarnation, struct peer_map *map)
{
	uint64_t lane_off = SEG_LANE_OFF + (uint64_t)own_slot * SEG_LANE_SIZE;
	struct seg_header *h;
	int fd, err;

	if (own_slot < 0 || own_slot >= SEG_PEERS)
		return EPROTO;
	err = open_peer_file(host, slot, &fd);
	if (err != 0)
		return err;
	map->front = mmap(NULL, SEG_LANE_OFF, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
			  0);
	if (map->front == MAP_FAILED) {
		err = errno;
		goto close_file;
	}
	h = map->front;
	err = check_header(h, own, incarnation);
	if (err == 0)
		err = reserve(fd, lane_off, SEG_LANE_SIZE);
	if (err != 0)
		goto unmap_front;
	map->lane = mmap(NULL, SEG_LANE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, lane_off);
	if (map->lane == MAP_FAILED) {
		err = errno;
		goto unmap_front;
	}
	map->header = h;
	map->qps = (struct seg_qp *)((uint8_t *)map->front + SEG_QP_OFF);
	map->keys = (struct mr_entry *)((uint8_t *)map->front + SEG_MR_OFF);
	map->asleep = &h->asleep;
	map->atomics = &h->atomics;
	map->incarnation = incarnation;
	map->pid = h->pid;
	close(fd);
	return 0;

unmap_front:
	munmap(map->front, SEG_LANE_OFF);
close_file:
	close(fd);
	return err;
}

void peer_map_close(struct peer_map *map)
{
	munmap(map->lane, SEG_LANE_SIZE);
	munmap(map->front, SEG_LANE_OFF);
}

static bool copy_qp(const struct seg_qp *e, uint32_t qpn, struct seg_qp *copy)
{
	/* Bounded: an owner that died or misbehaves in the middle of an update has no QP. */
	for (int tries = 0; tries < 1000; tries++) {
		uint32_t gen = load_acquire(&e->gen);

		if (gen % 2 == 0) {
			memcpy(copy, e, sizeof(*copy));
			full_fence();
			if (load_relaxed(&e->gen) == gen)
				return copy->qpn == qpn;
		}
		cpu_relax();
	}
	return false;
}

bool peer_map_qp(const struct peer_map *map, uint32_t qpn, struct seg_qp *copy)
{
	for (uint32_t i = 0; i < SEG_QPS; i++) {
		const struct seg_qp *e = &map->qps[(qpn + i) % SEG_QPS];
		uint32_t found = load_acquire(&e->qpn);	/* L4 */

		if (found == qpn)
			return copy_qp(e, qpn, copy);
		if (found == 0)
			return false;
	}
	return false;
}
