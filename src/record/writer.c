/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes a recording; see writer.h.  Owns the file and its mapping; takes no lock. */
#include "record/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/atomic.h"
#include "util/file_room.h"

enum { MIN_CHUNKS = 2 };

static int map(struct recording *r, int fd, const struct record_origin *origin)
{
	uint64_t size = record_chunk_offset(r->chunks);
	struct record_file_header *h;
	struct stat st;
	int err;

	err = file_reserve(fd, 0, r->ring ? size : RECORD_HEADER_LEN);
	if (err)
		return err;
	if (fstat(fd, &st))
		return errno;
	r->dev = st.st_dev;
	r->ino = st.st_ino;
	h = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (h == MAP_FAILED)
		return errno;
	*h = (struct record_file_header){
		.version = RECORD_VERSION,
		.flags = r->ring ? RECORD_RING : 0,
		.chunks = r->chunks,
		.origin = *origin,
	};
	memcpy(h->magic, RECORD_MAGIC, sizeof(h->magic));
	r->base = (uint8_t *)h;
	return 0;
}

int recording_open(struct recording *r, const char *path, uint64_t size, bool ring,
		   const struct record_origin *origin)
{
	char unfinished[PATH_MAX];
	int fd, err;

	*r = (struct recording){ .chunks = size / RECORD_CHUNK_LEN,
				 .started = origin->started,
				 .fd = -1,
				 .ring = ring };
	if (r->chunks < MIN_CHUNKS || r->chunks > RECORD_MAX_CHUNKS)
		return EINVAL;
	if ((size_t)snprintf(unfinished, sizeof(unfinished), "%s.part", path) >= sizeof(unfinished))
		return ENAMETOOLONG;
	fd = file_above_stdio(open(unfinished, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
	if (fd < 0)
		return errno;
	err = map(r, fd, origin);
	if (!err && link(unfinished, path)) {
		err = errno;
		munmap(r->base, record_chunk_offset(r->chunks));
	}
	unlink(unfinished);
	if (err || ring)
		close(fd);
	else
		r->fd = fd;
	return err;
}

/* A program may have closed it, and have another file of that number. */
static bool has_file(const struct recording *r)
{
	struct stat st;

	return r->fd >= 0 && fstat(r->fd, &st) == 0 && st.st_dev == r->dev && st.st_ino == r->ino;
}

void recording_close(struct recording *r)
{
	munmap(r->base, record_chunk_offset(r->chunks));
	if (has_file(r))
		close(r->fd);
}

/* Takes room for the n-th chunk of a file that grows. */
static bool grow(struct recording *r, uint64_t n)
{
	if (n < r->chunks && has_file(r) &&
	    file_reserve(r->fd, record_chunk_offset(n), RECORD_CHUNK_LEN) == 0)
		return true;
	store_relaxed(&r->full, true); /* a hint: saves the others the calls */
	return false;
}

/*
 * Takes a chunk that no writer has.  A writer that was delayed between counter and chunk may find a
 * later writer at the same chunk: the compare-and-swap gives it to one of them.  It pairs with the
 * release that closed the chunk, so the last writer's stores come first.
 */
static struct record_chunk *take_chunk(struct recording *r)
{
	for (uint64_t i = 0; i < r->chunks && !load_relaxed(&r->full); i++) {
		uint64_t n = fetch_add_relaxed(&r->next, 1);
		struct record_chunk *c;
		uint64_t state;

		if (!r->ring && !grow(r, n))
			return NULL;
		c = (struct record_chunk *)(r->base + record_chunk_offset(n % r->chunks));
		state = load_acquire(&c->state);
		if (!(state & RECORD_OPEN) &&
		    cas_acq_rel(&c->state, &state, (n + 1) << 1 | RECORD_OPEN))
			return c;
	}
	return NULL;
}

/* Pairs with the compare-and-swap of take_chunk(). */
static void close_chunk(struct record_writer *w)
{
	struct record_chunk *c = w->chunk;

	if (!c)
		return;
	c->used = (uint32_t)(w->at - (uint8_t *)c);
	store_release(&c->state, load_relaxed(&c->state) & ~RECORD_OPEN);
	w->chunk = NULL;
	w->at = w->end = NULL;
}

/* Until time and thread are stored, no check fits: the chunk is empty. */
static void open_chunk(struct record_writer *w, struct record_chunk *c)
{
	c->time = w->last;
	c->tid = w->tid;
	w->chunk = c;
	w->seed = record_seed(load_relaxed(&c->state), w->last, w->tid);
	w->at = (uint8_t *)(c + 1);
	w->end = (uint8_t *)c + RECORD_CHUNK_LEN;
}

bool record_writer_turn(struct record_writer *w, size_t len)
{
	struct record_file_header *h = (struct record_file_header *)w->recording->base;
	struct record_chunk *c = NULL;

	if (len <= RECORD_MAX_LEN) {
		close_chunk(w);
		c = take_chunk(w->recording);
	}
	if (!c) {
		fetch_add_relaxed(&h->lost, 1);
		return false;
	}
	open_chunk(w, c);
	return true;
}

void record_commit(struct record_writer *w, enum record_type type, size_t len, uint64_t now)
{
	struct record_head *h = (struct record_head *)w->at;
	size_t size = record_size(len), pad = size - sizeof(*h) - len;
	uint32_t check;

	if (now > w->last)
		w->last = now;
	h->time = w->last;
	check = record_check(w->seed, record_first(size, type, pad, 0), h, size);
	store_release((uint64_t *)h, record_first(size, type, pad, check)); /* see writer.h */
	w->at += size;
}

void record_writer_start(struct record_writer *w, struct recording *r, uint32_t tid)
{
	*w = (struct record_writer){ .recording = r, .last = r->started, .tid = tid };
}

void record_writer_end(struct record_writer *w)
{
	close_chunk(w);
}
