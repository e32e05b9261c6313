/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads recordings; see reader.h.
 *
 * A heap has a cursor for each chunk that was ever written, ordered by the time of its next record.
 * A chunk that is not read yet is ordered by the time in its header, which is not later.
 */
#include "record/reader.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct file {
	struct record_file shown;
	int fd;
	int64_t ahead;
	const struct record_lead *lead; /* NULL: always `ahead` */
	size_t leads;
};

struct cursor {
	uint64_t time;   /* of the next record, on the common clock */
	uint64_t chunk;  /* its place in the file */
	uint64_t number; /* a thread's chunks have rising ones, in a ring not rising places */
	uint8_t *data;   /* a copy; NULL: not read yet */
	uint64_t seed;
	uint32_t file, tid;
	uint32_t at, len; /* the next record, and the end */
	uint32_t used;    /* end of the chunk by its header; 0: not given */
};

struct record_reader {
	struct file *files;
	size_t count;
	struct cursor *heap;
	size_t size, room;
	bool shown; /* the record at the top was shown: it is to go */
};

/* How many bytes were there: fewer than len at the end of the file. */
static int read_at(int fd, void *to, size_t len, uint64_t offset, size_t *got)
{
	ssize_t n;

	for (*got = 0; *got < len; *got += (size_t)n) {
		n = pread(fd, (uint8_t *)to + *got, len - *got, (off_t)(offset + *got));
		if (n < 0 && errno == EINTR)
			n = 0;
		else if (n < 0)
			return errno;
		else if (n == 0)
			break;
	}
	return 0;
}

/* The last lead at or before the time, and a part of the way to the next one. */
static int64_t ahead_at(const struct file *f, uint64_t time)
{
	size_t low = 0, high = f->leads - 1;
	const struct record_lead *a = f->lead;

	if (time <= a->time)
		return a->ahead;
	while (low < high) {
		size_t middle = (low + high + 1) / 2;

		if (a[middle].time <= time)
			low = middle;
		else
			high = middle - 1;
	}
	a += low;
	if (low == f->leads - 1)
		return a->ahead;
	return a->ahead + (int64_t)(((__int128)a[1].ahead - a->ahead) * (time - a->time) /
				    (a[1].time - a->time));
}

/* On the common clock; at its ends where it has no such time. */
static uint64_t common_time(const struct file *f, uint64_t time)
{
	int64_t ahead = f->lead ? ahead_at(f, time) : f->ahead;
	uint64_t shift = ahead < 0 ? 0 - (uint64_t)ahead : (uint64_t)ahead;

	if (ahead >= 0)
		return time > shift ? time - shift : 0;
	return time < UINT64_MAX - shift ? time + shift : UINT64_MAX;
}

/* ---- the heap ---- */

static bool before(const struct cursor *a, const struct cursor *b)
{
	if (a->time != b->time)
		return a->time < b->time;
	if (a->file != b->file)
		return a->file < b->file;
	return a->number < b->number;
}

static void sift_down(struct record_reader *r, size_t i)
{
	for (;;) {
		size_t child = 2 * i + 1;
		struct cursor c = r->heap[i];

		if (child >= r->size)
			return;
		if (child + 1 < r->size && before(&r->heap[child + 1], &r->heap[child]))
			child++;
		if (!before(&r->heap[child], &c))
			return;
		r->heap[i] = r->heap[child];
		r->heap[child] = c;
		i = child;
	}
}

static void drop_top(struct record_reader *r)
{
	free(r->heap[0].data);
	r->heap[0] = r->heap[--r->size];
	sift_down(r, 0);
}

static void empty_heap(struct record_reader *r)
{
	while (r->size)
		free(r->heap[--r->size].data);
	r->shown = false;
}

static int add_cursor(struct record_reader *r, const struct cursor *c)
{
	if (r->size == r->room) {
		size_t room = r->room ? 2 * r->room : 64;
		struct cursor *heap = realloc(r->heap, room * sizeof(*heap));

		if (!heap)
			return ENOMEM;
		r->heap = heap;
		r->room = room;
	}
	r->heap[r->size++] = *c;
	return 0;
}

/* ---- files ---- */

struct record_reader *record_reader_new(void)
{
	return calloc(1, sizeof(struct record_reader));
}

void record_reader_free(struct record_reader *r)
{
	empty_heap(r);
	for (size_t i = 0; i < r->count; i++)
		close(r->files[i].fd);
	free(r->files);
	free(r->heap);
	free(r);
}

static int read_header(struct file *f)
{
	struct record_file_header h;
	struct stat st;
	size_t got;
	int err;

	if (fstat(f->fd, &st))
		return errno;
	if (!S_ISREG(st.st_mode))
		return EINVAL;
	err = read_at(f->fd, &h, sizeof(h), 0, &got);
	if (err)
		return err;
	if (got < sizeof(h) || memcmp(h.magic, RECORD_MAGIC, sizeof(h.magic)) != 0)
		return EINVAL;
	if (h.version != RECORD_VERSION)
		return ENOTSUP;
	if (h.chunks > RECORD_MAX_CHUNKS)
		return EFBIG;
	h.origin.host[sizeof(h.origin.host) - 1] = '\0';
	h.origin.command[sizeof(h.origin.command) - 1] = '\0';
	f->shown = (struct record_file){ .origin = h.origin,
					 .ring = h.flags & RECORD_RING,
					 .lost = h.lost };
	return 0;
}

int record_reader_add(struct record_reader *r, int fd)
{
	struct file f = { .fd = fd }, *files;
	int err = read_header(&f);

	if (err)
		return err;
	files = realloc(r->files, (r->count + 1) * sizeof(*files));
	if (!files)
		return ENOMEM;
	r->files = files;
	r->files[r->count++] = f;
	return 0;
}

size_t record_reader_files(const struct record_reader *r)
{
	return r->count;
}

const struct record_file *record_reader_file(const struct record_reader *r, size_t file)
{
	return &r->files[file].shown;
}

void record_reader_set_clock(struct record_reader *r, size_t file, const struct record_lead *lead,
			     size_t n)
{
	r->files[file].lead = lead;
	r->files[file].leads = n;
}

/* A cursor for each chunk of a file that was ever used. */
static int find_chunks(struct record_reader *r, uint32_t file)
{
	struct file *f = &r->files[file];
	struct record_chunk c;
	struct stat st;
	size_t got;
	int err;

	if (fstat(f->fd, &st))
		return errno;
	for (uint64_t i = 0; i < RECORD_MAX_CHUNKS && record_chunk_offset(i) < (uint64_t)st.st_size;
	     i++) {
		err = read_at(f->fd, &c, sizeof(c), record_chunk_offset(i), &got);
		if (!err && got == sizeof(c) && c.state)
			err = add_cursor(r, &(struct cursor){
						    .time = common_time(f, c.time),
						    .file = file,
						    .chunk = i,
						    .number = c.state >> 1,
						    .seed = record_seed(c.state, c.time, c.tid),
						    .tid = c.tid,
					    });
		if (err)
			return err;
	}
	return 0;
}

int record_reader_start(struct record_reader *r, const int64_t *ahead)
{
	int err;

	empty_heap(r);
	for (size_t i = 0; i < r->count; i++) {
		r->files[i].ahead = ahead ? ahead[i] : 0;
		err = read_header(&r->files[i]); /* lost may be more now; torn and bad start at 0 */
		if (!err)
			err = find_chunks(r, (uint32_t)i);
		if (err)
			return err;
	}
	for (size_t i = r->size / 2; i-- > 0;)
		sift_down(r, i);
	return 0;
}

/* ---- records ---- */

static int load_chunk(struct record_reader *r, struct cursor *c)
{
	const struct record_chunk *head;
	uint8_t *data = malloc(RECORD_CHUNK_LEN);
	size_t got;
	int err;

	if (!data)
		return ENOMEM;
	err = read_at(r->files[c->file].fd, data, RECORD_CHUNK_LEN, record_chunk_offset(c->chunk),
		      &got);
	if (err) {
		free(data);
		return err;
	}
	c->data = data;
	head = (const struct record_chunk *)data;
	c->at = sizeof(*head);
	if (got < sizeof(*head) || record_seed(head->state, head->time, head->tid) != c->seed)
		return 0; /* cut off, or used again, since the start: it is empty */
	c->len = (uint32_t)got;
	if (!(head->state & RECORD_OPEN))
		c->used = head->used;
	return 0;
}

/* The record at the cursor; NULL: there is none, or none that is whole. */
static const struct record_head *head_at(const struct cursor *c)
{
	const struct record_head *h = (const struct record_head *)(c->data + c->at);
	uint64_t first;

	if (c->at > c->len || c->len - c->at < sizeof(*h))
		return NULL;
	if (h->size < sizeof(*h) || h->size % RECORD_ALIGN || h->size > c->len - c->at ||
	    h->pad >= RECORD_ALIGN || h->pad > h->size - sizeof(*h))
		return NULL;
	first = record_first(h->size, h->type, h->pad, 0);
	return record_check(c->seed, first, h, h->size) == h->check ? h : NULL;
}

/* Time of the top's next record; without one the chunk is done. */
static void look_at_next(struct record_reader *r)
{
	struct cursor *c = &r->heap[0];
	const struct record_head *h = head_at(c);
	struct file *f = &r->files[c->file];
	uint64_t time;

	if (!h) {
		if (c->used && c->at != c->used)
			f->shown.torn++;
		drop_top(r);
		return;
	}
	time = common_time(f, h->time);
	if (time > c->time) /* it is not before, but in forged files */
		c->time = time;
	sift_down(r, 0);
}

/* False: its length does not fit its type. */
static bool show(const struct cursor *c, struct record *record)
{
	const struct record_head *h = (const struct record_head *)(c->data + c->at);
	const struct record_type_info *type = record_type_info(h->type);
	size_t len = h->size - sizeof(*h) - h->pad, fixed = type ? type->size : len;

	if (len < fixed || (type && (type->unit ? (len - fixed) % type->unit : len != fixed)))
		return false;
	*record = (struct record){
		.time = c->time,
		.file = c->file,
		.tid = c->tid,
		.type = h->type,
		.body = h + 1,
		.body_len = fixed,
		.tail = (const uint8_t *)(h + 1) + fixed,
		.tail_len = len - fixed,
	};
	return true;
}

int record_reader_next(struct record_reader *r, struct record *record)
{
	while (r->size) {
		struct cursor *c = &r->heap[0];

		if (!c->data) {
			int err = load_chunk(r, c);

			if (err)
				return err;
			look_at_next(r);
			continue;
		}
		if (r->shown) {
			c->at += ((const struct record_head *)(c->data + c->at))->size;
			r->shown = false;
			look_at_next(r);
			continue;
		}
		r->shown = true;
		if (show(c, record))
			return 0;
		r->files[c->file].shown.bad++;
	}
	return ENODATA;
}
