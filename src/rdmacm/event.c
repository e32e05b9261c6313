/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Event channels and their events.
 *
 * Invariant, under the cma lock and `ringing`: number of queued events == count of the eventfd +
 * channel's `uncounted` + takers that have read a count but not taken an event yet.  A taker that
 * finds the queue empty lost its event to event_unqueue() and starts over.
 *
 * `ringing` is taken before the cma lock is released, and held while eventfds are written after
 * that.  Code that takes a count back or closes the descriptor must hold it, too.
 */
#include "rdmacm/event.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "rdmacm/cma.h"
#include "rdmacm/group.h"
#include "rdmacm/id.h"
#include "run/log.h"
#include "util/atomic.h"
#include "util/cancel.h"
#include "util/restart.h"

static pthread_mutex_t ringing = PTHREAD_MUTEX_INITIALIZER;

enum {
	RINGS = 16,	/* channels whose eventfds are written at once, without the lock */
	KEPT = 16,	/* destroyed channels whose memory is kept */
	/* in which a program that has destroyed its channel is expected to end */
	END_PARTS = 10,
	END_PART_MS = 100,
	START_LOOK_MS = 10,	/* between looks whether the CM has started */
};

/* The last destroyed channels, under `ringing`. */
static struct {
	struct channel *channel[KEPT];
	unsigned int next;
} kept;

struct ring {
	int fd;
	uint64_t events;
};

int channel_create(struct channel **out)
{
	struct channel *ch = calloc(1, sizeof(*ch));

	if (!ch)
		return ENOMEM;
	ch->pub.fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
	if (ch->pub.fd < 0) {
		int err = errno;

		free(ch);
		return err;
	}
	ch->generation = cma.generation;
	list_init(&ch->events);
	list_init(&ch->on_silent);
	*out = ch;
	return 0;
}

/*
 * Some programs destroy the channel of a thread that waits, and end (rping). It must sleep on, and
 * find no closed descriptor, nor another file with its number. A thread that comes a little later
 * must find neither a closed descriptor nor memory that was freed.
 */
void channel_destroy(struct channel *ch)
{
	int fd = ch->pub.fd;
	struct channel *unused;
	bool waits;

	/* It has no uncounted events, but another thread may just be counting. */
	pthread_mutex_lock(&ringing);
	store_relaxed(&ch->pub.fd, -1);
	full_fence();	/* pairs with read_count() */
	waits = load_relaxed(&ch->waiters);
	unused = waits ? NULL : kept.channel[kept.next];
	if (!waits) {
		kept.channel[kept.next] = ch;
		kept.next = (kept.next + 1) % KEPT;
	}
	pthread_mutex_unlock(&ringing);
	if (!waits)
		close(fd);
	free(unused);
}

struct event *event_new(struct cma_id *id, enum rdma_cm_event_type type, int status)
{
	struct event *e = calloc(1, sizeof(*e));

	if (!e) {
		log_error(LOG_VERBS, "out of memory: event %s is lost", rdma_event_str(type));
		return NULL;
	}
	e->pub.id = &id->pub;
	e->pub.event = type;
	e->pub.status = status;
	e->counts_on = id;
	list_init(&e->node);
	return e;
}

static const void *keep_data(struct event *e, const void *data, uint8_t len)
{
	memcpy(e->data, data, len);
	return len ? e->data : NULL;
}

void event_set_conn_data(struct event *e, const void *data, uint8_t len)
{
	e->pub.param.conn.private_data = keep_data(e, data, len);
	e->pub.param.conn.private_data_len = len;
}

void event_set_ud_data(struct event *e, const void *data, uint8_t len)
{
	e->pub.param.ud.private_data = keep_data(e, data, len);
	e->pub.param.ud.private_data_len = len;
}

/* The event before which this one comes, or the list's head.  Those of high rank are at the end. */
static struct list *place_of(const struct channel *ch, const struct event *e)
{
	const struct list *after = ch->events.prev;

	while (after != &ch->events && list_entry(after, struct event, node)->rank > e->rank)
		after = after->prev;
	return after->next;
}

void event_post(struct event *e)
{
	struct channel *ch = id_channel(e->counts_on);

	list_add_tail(place_of(ch, e), &e->node);
	store_relaxed(&ch->queued, ch->queued + 1);
	if (!ch->uncounted++)
		list_add_tail(&cma.silent, &ch->on_silent);
}

/* Removes one event of the channel that the eventfd did not count. */
static void uncount(struct channel *ch)
{
	if (!--ch->uncounted)
		list_del(&ch->on_silent);
}

/* Takes up to RINGS channels from cma.silent.  Returns how many. */
static unsigned int take_rings(struct ring rings[RINGS])
{
	unsigned int n = 0;

	while (n < RINGS && !list_empty(&cma.silent)) {
		struct channel *ch = list_entry(cma.silent.next, struct channel, on_silent);

		rings[n++] = (struct ring){ ch->pub.fd, ch->uncounted };
		ch->uncounted = 0;
		list_del(&ch->on_silent);
	}
	return n;
}

static void ring(const struct ring *rings, unsigned int n)
{
	/* Cannot fail or block: the counter holds 2^64 - 2. */
	for (unsigned int i = 0; i < n; i++)
		if (sys_write(rings[i].fd, &rings[i].events, sizeof(rings[i].events)) < 0)
			continue;
}

void channels_ring(void)
{
	struct ring rings[RINGS];

	while (!list_empty(&cma.silent))
		ring(rings, take_rings(rings));
}

void channels_ring_and_unlock(void)
{
	struct ring rings[RINGS];
	unsigned int n = take_rings(rings);

	if (!n) {
		pthread_mutex_unlock(&cma.lock);
		return;
	}
	pthread_mutex_lock(&ringing);
	channels_ring();
	pthread_mutex_unlock(&cma.lock);
	ring(rings, n);
	pthread_mutex_unlock(&ringing);
}

void channels_forget(void)
{
	pthread_mutex_init(&ringing, NULL);
}

void event_raise(struct cma_id *id, enum rdma_cm_event_type type, int status)
{
	struct event *e = event_new(id, type, status);

	if (e)
		event_post(e);
}

/* Updates the counts when an event leaves its queue. */
static void left(struct channel *ch, struct event *e)
{
	list_del(&e->node);
	store_relaxed(&ch->queued, ch->queued - 1);
	if (e->pub.event != RDMA_CM_EVENT_CONNECT_REQUEST)
		return;
	e->counts_on->waiting--;
	to_id(e->pub.id)->request = NULL;
}

/* Delivered (by 1) or acknowledged (by -1): updates the counts of the id and the group. */
static void count_delivered(const struct event *e, int by)
{
	struct cma_id *id = e->counts_on;

	*(e->migrations == id->migrations ? &id->unacked : &id->unacked_before) +=
		(unsigned int)by;
	if (e->group)
		e->group->unacked += (unsigned int)by;
}

static bool blocks(int fd)
{
	return !(fcntl(fd, F_GETFL) & O_NONBLOCK);
}

/* Without a progress thread (VERBENA_PROGRESS=none) the waiting thread does its work. */
static bool works(void)
{
	return !qp1_find() && qp1.polls(cma_mad());
}

/*
 * Works until an event is there, or once if the channel does not block. The first id, for which
 * another thread starts the CM, may come later. Returns EAGAIN; or EINTR if a signal came that
 * would end a read(2).
 */
static int progress(int event_fd)
{
	struct pollfd fd = { .fd = event_fd, .events = POLLIN };
	bool wait = blocks(event_fd);
	int ready;

	do {
		struct vrb_mad *mad = cma_mad();

		if (mad)
			qp1.poll(mad);
		/* a signal may end this, too */
		ready = poll(&fd, 1, mad || !wait ? 0 : START_LOOK_MS);
		if (ready < 0 && wait && restart_is_refused())
			return EINTR;
	} while (wait && ready <= 0);
	return EAGAIN;
}

bool channel_idle(const struct channel *ch)
{
	return !load_relaxed(&ch->queued) && !(cma_mad() && qp1.polls(cma_mad()));
}

static struct event *take_first(struct channel *ch)
{
	struct event *e = list_entry(ch->events.next, struct event, node);

	left(ch, e);
	e->migrations = e->counts_on->migrations;
	count_delivered(e, 1);
	return e;
}

static void end_wait(void *ch)
{
	fetch_sub_release(&((struct channel *)ch)->waiters, 1);
}

static int read_open(struct channel *ch, int fd)
{
	int err = EAGAIN;
	struct vrb_mad *mad = cma_mad();
	uint64_t count;

	if (works())
		err = progress(fd);
	else if (mad && !load_relaxed(&ch->queued) && blocks(fd))
		err = qp1.await(mad, fd, &count);
	if (err == EAGAIN)
		err = read(fd, &count, sizeof(count)) < 0 ? errno : 0;
	return err;
}

/*
 * The channel was destroyed.  An error would end the program, which does so itself.  A signal, or a
 * stop of the process, ends a part of the wait only.
 */
static int read_destroyed(void)
{
	for (int i = 0; i < END_PARTS; i++)
		nanosleep(&(struct timespec){ .tv_nsec = END_PART_MS * 1000000L }, NULL);
	return EBADF;
}

/* Reads a count. */
static int read_count(struct channel *ch)
{
	int fd, err;

	fetch_add_relaxed(&ch->waiters, 1);
	pthread_cleanup_push(end_wait, ch);
	full_fence();	/* pairs with channel_destroy() */
	fd = load_relaxed(&ch->pub.fd);
	err = fd < 0 ? read_destroyed() : read_open(ch, fd);
	pthread_cleanup_pop(true);
	return err;
}

int channel_take(struct channel *ch, struct event **out)
{
	for (;;) {
		int err = read_count(ch);

		if (err)
			return err;
		cma_lock();
		*out = list_empty(&ch->events) ? NULL : take_first(ch);
		cma_unlock();
		if (*out)
			return 0;
	}
}

struct event *channel_take_uncounted(struct channel *ch)
{
	if (!ch->uncounted)
		return NULL;
	uncount(ch);
	return take_first(ch);
}

void event_unqueue(struct channel *ch, struct event *e)
{
	uint64_t count;
	struct iovec iov = { &count, sizeof(count) };

	left(ch, e);
	if (ch->uncounted) {
		uncount(ch);
		return;
	}
	/*
	 * Takes the count back without sleeping.  On failure a taker has read it already and starts
	 * over, or the kernel lacks RWF_NOWAIT and the next taker wakes up once without an event.
	 */
	pthread_mutex_lock(&ringing);
	(void)sys_preadv2_here(ch->pub.fd, &iov, 1, RWF_NOWAIT);
	pthread_mutex_unlock(&ringing);
}

void event_ack(struct event *e)
{
	cma_lock();
	count_delivered(e, -1);
	pthread_cond_broadcast(&cma.acked);
	cma_unlock();
	free(e);
}

void channel_sweep(struct channel *ch, struct cma_id *id, void (*fn)(struct event *e, void *arg),
		   void *arg)
{
	struct list *pos, *tmp;

	list_for_each_safe (pos, tmp, &ch->events) {
		struct event *e = list_entry(pos, struct event, node);

		if (e->counts_on != id)
			continue;
		event_unqueue(ch, e);
		fn(e, arg);
	}
}
