/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * epoll for rsockets and other descriptors.
 *
 * The descriptor is a real epoll.  It holds ordinary descriptors themselves, and for each rsocket
 * the descriptors that signal its events, edge triggered.  An item that may be ready is in the
 * queue; a waiting thread checks the items there and arms those that are not ready.  So an item
 * outside the queue is armed, and a thread that disarms an rsocket wakes it, which queues the item
 * again.
 *
 * Locks, outermost first: ep->lock (items), rsockets' locks, ep->gate (the queue).  A call counts
 * the epoll, so another thread may close it meanwhile.
 */
#include "rdmacm/rs_epoll.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "rdmacm/rs.h"
#include "rdmacm/rs_call.h"
#include "rdmacm/rs_poll.h"
#include "rdmacm/rs_wait.h"
#include "run/clock.h"
#include "util/atomic.h"

enum {
	BATCH = 64,
	MS = 1000000,
	AGAIN = -2,
};

struct item {
	struct list node;  /* ep->items */
	struct list queue; /* ep->queue */
	struct rs_epoll *ep;
	struct rsocket *rs; /* NULL: an ordinary descriptor */
	int fd;
	uint32_t serial;
	struct epoll_event event; /* from the program; events 0: disabled by EPOLLONESHOT */
	uint64_t reported;        /* when; see take_queue() */
	struct rs_waiter waiter;
	int watched[RS_WATCHED];
	unsigned int watches;
	/* Edge triggered: what was reported last, and of what state. */
	short told;
	struct edge {
		enum rs_state state;
		bool can_read;
		uint64_t came;
		uint32_t posted;
	} edge;
};

struct rs_epoll {
	int fd, kick;
	unsigned int generation;
	unsigned int refs; /* atomic; held by the table and calls */
	pthread_mutex_t lock, gate;
	struct list items, queue;
	struct item **by_fd;
	unsigned int sleepers; /* under gate */
	bool polled;           /* under gate: its descriptor is, so it is readable with a queue */
	bool queue_turn;       /* under gate: the last round had a place for the queue */
	uint32_t serial;
	uint64_t turn;         /* counts calls of take_queue() */
};

static struct rs_epoll *table[RS_TABLE];
static int highest = -1; /* atomic: highest descriptor of an epoll so far */

/* Leaf lock: the table's count stays as long as it is held. */
static pthread_mutex_t removal = PTHREAD_MUTEX_INITIALIZER;

static struct rs_epoll *peek(int fd)
{
	return fd >= 0 && fd < RS_TABLE ? load_acquire(&table[fd]) : NULL;
}

/* Counted; NULL: none, or the parent's in a forked child. */
static struct rs_epoll *hold(int fd)
{
	struct rs_epoll *ep;

	if (!peek(fd))
		return NULL;
	pthread_mutex_lock(&removal);
	ep = peek(fd);
	if (ep && ep->generation != cma.generation)
		ep = NULL;
	if (ep)
		fetch_add_relaxed(&ep->refs, 1U);
	pthread_mutex_unlock(&removal);
	return ep;
}

static struct rs_epoll *take_out(int fd)
{
	struct rs_epoll *ep;

	pthread_mutex_lock(&removal);
	ep = peek(fd);
	if (ep)
		store_release(&table[fd], NULL);
	pthread_mutex_unlock(&removal);
	return ep;
}

static void end(struct rs_epoll *ep)
{
	if (ep->fd >= 0)
		close(ep->fd);
	if (ep->kick >= 0)
		close(ep->kick);
	free(ep->by_fd);
	free(ep);
}

static void put(struct rs_epoll *ep)
{
	if (fetch_sub_acq_rel(&ep->refs, 1U) == 1)
		end(ep);
}

/* As RS_CALL, of an epoll. */
#define EPOLL_CALL __attribute__((cleanup(leave)))
static struct rs_epoll *enter(int fd)
{
	struct rs_epoll *ep = hold(fd);

	if (ep)
		rs_call_begin();
	else
		errno = EBADF;
	return ep;
}

static void leave(struct rs_epoll **ep)
{
	int err = errno;

	if (!*ep)
		return;
	put(*ep);
	rs_call_end();
	errno = err;
}

/* ---- The queue ---- */

/* Wakes a sleeping thread, and those that poll its descriptor.  Under ep->gate. */
static void kick_sleeper(struct rs_epoll *ep)
{
	uint64_t one = 1;

	if ((ep->sleepers || ep->polled) && write(ep->kick, &one, sizeof(one)) < 0)
		errno = 0;
}

void rs_epoll_polled(int fd)
{
	struct rs_epoll *ep = hold(fd);

	if (!ep)
		return;
	pthread_mutex_lock(&ep->gate);
	if (!ep->polled) {
		ep->polled = true;
		if (!list_empty(&ep->queue))
			kick_sleeper(ep);
	}
	pthread_mutex_unlock(&ep->gate);
	put(ep);
}

static void enqueue(struct item *it)
{
	pthread_mutex_lock(&it->ep->gate);
	if (list_empty(&it->queue)) {
		list_add_tail(&it->ep->queue, &it->queue);
		kick_sleeper(it->ep);
	}
	pthread_mutex_unlock(&it->ep->gate);
}

/*
 * This thread leaves items for others, whose kick it may have cleared; or none.  Under ep->lock:
 * the kick of rs_epoll_close() comes later.
 */
static void pass_on(struct rs_epoll *ep)
{
	pthread_mutex_lock(&ep->gate);
	if (!list_empty(&ep->queue))
		kick_sleeper(ep);
	else if (ep->polled && peek(ep->fd) == ep)
		rs_clear_event(ep->kick);
	pthread_mutex_unlock(&ep->gate);
}

static struct item *dequeue(struct rs_epoll *ep)
{
	struct item *it = NULL;

	pthread_mutex_lock(&ep->gate);
	if (!list_empty(&ep->queue)) {
		it = list_entry(ep->queue.next, struct item, queue);
		list_del(&it->queue);
	}
	pthread_mutex_unlock(&ep->gate);
	return it;
}

static void wake_item(struct rs_waiter *w)
{
	enqueue(container_of(w, struct item, waiter));
}

/* ---- Items.  Under ep->lock ---- */

static struct item *find_item(struct rs_epoll *ep, int fd)
{
	return fd >= 0 && fd < RS_TABLE ? ep->by_fd[fd] : NULL;
}

static uint64_t tag(const struct item *it)
{
	return (uint64_t)it->serial << 32 | (uint32_t)it->fd;
}

static struct item *by_tag(struct rs_epoll *ep, uint64_t data)
{
	struct item *it = find_item(ep, (int)(uint32_t)data);

	return it && it->serial == data >> 32 ? it : NULL;
}

/* Updates the descriptors that signal the rsocket, which depend on its state. */
static void watch(struct item *it, const struct pollfd *fds, unsigned int n)
{
	struct epoll_event e = { .events = EPOLLIN | EPOLLET, .data.u64 = tag(it) };
	unsigned int i;

	for (i = 0; i < n; i++) {
		if (i < it->watches && it->watched[i] == fds[i].fd)
			continue;
		if (i < it->watches)
			epoll_ctl(it->ep->fd, EPOLL_CTL_DEL, it->watched[i], NULL);
		it->watched[i] = fds[i].fd;
		/* A descriptor that was in another slot is there already. */
		if (epoll_ctl(it->ep->fd, EPOLL_CTL_ADD, fds[i].fd, &e))
			epoll_ctl(it->ep->fd, EPOLL_CTL_MOD, fds[i].fd, &e);
	}
	it->watches = n;
}

static struct edge edge_of(const struct rsocket *rs)
{
	return (struct edge){
		.state = rs->state,
		.can_read = rs->can_read,
		.came = rs->stream.rx.total,
		.posted = rs->stream.posted,
	};
}

/*
 * Edge triggered, what was reported is so again only if more has come, or something was sent since.
 * Else the program would find the same data announced with each completion of what it sends.
 */
static short news(struct item *it, short is)
{
	const struct edge now = edge_of(it->rs), *last = &it->edge;
	short fresh = (short)(is & ~it->told);

	if (!rs_is_stream(it->rs) || now.state < RS_OPEN || now.state != last->state)
		fresh = is;
	if (now.came != last->came || now.can_read != last->can_read)
		fresh |= (short)(is & (POLLIN | POLLRDNORM));
	if (now.posted != last->posted)
		fresh |= (short)(is & (POLLOUT | POLLWRNORM));
	it->told = fresh ? is : (short)(is & it->told);
	if (!fresh)
		return 0;
	it->edge = now;
	return is;
}

/* Returns the requested events that are ready; arms the rsocket if none is. */
static uint32_t look(struct item *it)
{
	struct pollfd fds[RS_WATCHED];
	struct rsocket *rs = it->rs;
	short asked = (short)(it->event.events &
			      (EPOLLIN | EPOLLOUT | EPOLLRDNORM | EPOLLWRNORM | EPOLLRDHUP));
	short is;

	pthread_mutex_lock(&rs->lock);
	list_del(&it->waiter.node);
	is = it->event.events & EPOLLET ? 0 : rs_ready_both(rs, asked);
	if (!is) {
		rs_progress_all(rs);
		watch(it, fds, rs_arm(rs, fds));
		rs_progress(rs);
		is = rs_ready(rs, asked);
	}
	if (rs->other_way && rs_never_opened(rs))
		is = RS_CONNECT_FAILED;
	else if (it->event.events & EPOLLET)
		is = news(it, is);
	list_add_tail(&rs->waiters, &it->waiter.node);
	pthread_mutex_unlock(&rs->lock);
	return (uint32_t)is;
}

static void unlist(struct item *it)
{
	pthread_mutex_lock(&it->rs->lock);
	list_del(&it->waiter.node);
	pthread_mutex_unlock(&it->rs->lock);
	while (it->watches)
		epoll_ctl(it->ep->fd, EPOLL_CTL_DEL, it->watched[--it->watches], NULL);
}

static void free_item(struct item *it)
{
	if (it->rs)
		unlist(it);
	list_del(&it->node);
	it->ep->by_fd[it->fd] = NULL;
	pthread_mutex_lock(&it->ep->gate);
	list_del(&it->queue);
	pthread_mutex_unlock(&it->ep->gate);
	free(it);
}

/* As the system, which reports these without being asked. */
static void set_event(struct item *it, const struct epoll_event *event)
{
	it->event = *event;
	it->event.events |= EPOLLERR | EPOLLHUP;
}

static struct item *new_item(struct rs_epoll *ep, int fd, const struct epoll_event *event)
{
	struct item *it = calloc(1, sizeof(*it));

	if (!it)
		return NULL;
	it->ep = ep;
	it->fd = fd;
	it->serial = ++ep->serial;
	set_event(it, event);
	it->waiter.wake = wake_item;
	list_init(&it->waiter.node);
	list_init(&it->queue);
	list_add_tail(&ep->items, &it->node);
	ep->by_fd[fd] = it;
	return it;
}

/* ---- repoll_ctl() ---- */

static int control_plain(struct rs_epoll *ep, int op, struct item *it)
{
	struct epoll_event e = { .events = it->event.events, .data.u64 = tag(it) };

	return epoll_ctl(ep->fd, op, it->fd, &e) ? errno : 0;
}

static int add(struct rs_epoll *ep, int fd, const struct epoll_event *event)
{
	struct item *it = find_item(ep, fd);
	struct rsocket *rs = rs_hold(fd);
	int err = 0;

	if (rs)
		rs_put(rs);
	else if (rs_is_inherited(fd))
		return EIO;
	if (it && it->rs)
		return EEXIST;
	/* A closed descriptor has left the epoll, and its number may have been reused. */
	if (it && !control_plain(ep, EPOLL_CTL_MOD, it))
		return EEXIST;
	if (it)
		free_item(it);
	if (fd < 0 || fd >= RS_TABLE)
		return fd < 0 ? EBADF : EPERM;
	it = new_item(ep, fd, event);
	if (!it)
		return ENOMEM;
	it->rs = rs;
	if (rs) {
		enqueue(it);
	} else {
		rs_epoll_polled(fd);
		err = control_plain(ep, EPOLL_CTL_ADD, it);
	}
	if (err)
		free_item(it);
	return err;
}

static int control(struct rs_epoll *ep, int op, int fd, const struct epoll_event *event)
{
	struct item *it = find_item(ep, fd);
	int err = 0;

	if (op == EPOLL_CTL_ADD)
		return event ? add(ep, fd, event) : EFAULT;
	if (!it)
		return ENOENT;
	if (op == EPOLL_CTL_DEL) {
		if (!it->rs)
			err = control_plain(ep, op, it);
		free_item(it);
		return err;
	}
	if (op != EPOLL_CTL_MOD)
		return EINVAL;
	if (!event)
		return EFAULT;
	set_event(it, event);
	it->told = 0;
	if (!it->rs)
		return control_plain(ep, op, it);
	enqueue(it);
	return 0;
}

CMA_EXPORT int repoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	EPOLL_CALL struct rs_epoll *ep = enter(epfd);
	int err;

	if (!ep)
		return -1;
	if (fd == epfd)
		return cma_result(EINVAL);
	pthread_mutex_lock(&ep->lock);
	err = control(ep, op, fd, event);
	pthread_mutex_unlock(&ep->lock);
	return cma_result(err);
}

/* ---- repoll_wait() ---- */

/*
 * Takes events of the real epoll; those of ordinary descriptors go to the program.  Under ep->lock.
 */
static int take_real(struct rs_epoll *ep, const struct epoll_event *real, int n,
		     struct epoll_event *out)
{
	int i, count = 0;

	for (i = 0; i < n; i++) {
		struct item *it;

		if (!real[i].data.u64) {
			rs_clear_event(ep->kick);
			continue;
		}
		it = by_tag(ep, real[i].data.u64);
		if (it && it->rs) {
			enqueue(it);
		} else if (it) {
			out[count].events = real[i].events;
			out[count++].data = it->event.data;
		}
	}
	return count;
}

/*
 * Checks each item in the queue, and reports it once: one that is queued again meanwhile, by a
 * thread that takes something off the connection, is for the next call.  Under ep->lock.
 */
static int take_queue(struct rs_epoll *ep, struct epoll_event *out, int max)
{
	struct item *again[BATCH], *it;
	int count = 0, kept = 0;

	ep->turn++;
	while (count < max && kept < BATCH && (it = dequeue(ep))) {
		uint32_t is;

		if (it->reported == ep->turn) {
			again[kept++] = it;
			continue;
		}
		is = it->event.events ? look(it) : 0;
		if (!is)
			continue;
		it->reported = ep->turn;
		out[count].events = is;
		if (is == RS_CONNECT_FAILED) {
			out[count++].data.fd = it->fd;
			again[kept++] = it;
			continue;
		}
		out[count++].data = it->event.data;
		if (it->event.events & EPOLLONESHOT)
			it->event.events = 0;
		else if (!(it->event.events & EPOLLET))
			again[kept++] = it;
	}
	while (kept)
		enqueue(again[--kept]);
	return count;
}

struct sleep {
	struct rs_epoll *ep;
	bool done; /* its events are known */
};

/*
 * The thread sleeps no more, or is cancelled: then it may have taken events that the real epoll
 * reports once, so all items are looked at.
 */
static void awake(void *arg)
{
	const struct sleep *s = arg;
	struct rs_epoll *ep = s->ep;
	struct list *pos;

	pthread_mutex_lock(&ep->gate);
	ep->sleepers--;
	pthread_mutex_unlock(&ep->gate);
	if (s->done)
		return;
	pthread_mutex_lock(&ep->lock);
	list_for_each (pos, &ep->items) {
		struct item *it = list_entry(pos, struct item, node);

		if (it->rs)
			enqueue(it);
	}
	pthread_mutex_unlock(&ep->lock);
}

/*
 * How many events to take of the real epoll: in every other round one place is the queue's, or
 * ordinary descriptors that are always ready would leave it none.  Under ep->gate.
 */
static int places(struct rs_epoll *ep, int max)
{
	ep->queue_turn = !list_empty(&ep->queue) && !ep->queue_turn;
	return min(max, (int)BATCH) - ep->queue_turn;
}

/*
 * One round, which may sleep.  Returns the number of ready items; -1 with errno; AGAIN: none, but
 * it has not looked at ordinary descriptors.
 */
static int round_of(struct rs_epoll *ep, struct epoll_event *out, int max, int timeout_ms)
{
	struct epoll_event real[BATCH];
	bool polls = cma_mad() && qp1.polls(cma_mad());
	struct sleep s = { .ep = ep };
	int n = 0, most, count, err;

	pthread_mutex_lock(&ep->gate);
	if (!list_empty(&ep->queue) || polls || peek(ep->fd) != ep)
		timeout_ms = 0;
	most = places(ep, max);
	ep->sleepers++;
	pthread_mutex_unlock(&ep->gate);
	if (polls)
		qp1.poll(cma_mad());
	pthread_cleanup_push(awake, &s);
	if (!rs_wait_begin())
		n = -1;
	else if (most)
		n = epoll_wait(ep->fd, real, most, timeout_ms);
	err = errno;
	rs_wait_end();
	s.done = true;
	pthread_cleanup_pop(1);
	if (n < 0)
		return cma_result(err);
	pthread_mutex_lock(&ep->lock);
	/* Once it is closed the kick is for all threads, so none clears it. */
	count = peek(ep->fd) == ep ? take_real(ep, real, n, out) : 0;
	count += take_queue(ep, out + count, max - count);
	pass_on(ep);
	pthread_mutex_unlock(&ep->lock);
	return count || most ? count : AGAIN;
}

CMA_EXPORT int repoll_wait(int epfd, struct epoll_event *events, int maxevents, int timeout)
{
	uint64_t until = timeout > 0 ? clock_now() + (uint64_t)timeout * MS : 0, now;
	EPOLL_CALL struct rs_epoll *ep = enter(epfd);
	int n, left = timeout;

	if (!ep)
		return -1;
	if (maxevents <= 0 || !events)
		return cma_result(EINVAL);
	for (;;) {
		n = round_of(ep, events, maxevents, left);
		if (n == AGAIN)
			continue;
		if (n || !timeout)
			return n;
		if (peek(epfd) != ep)
			return cma_result(EBADF);
		if (timeout < 0)
			continue;
		now = clock_now();
		if (now >= until)
			return 0;
		left = (int)((until - now + MS - 1) / MS);
	}
}

/* ---- Creation and destruction ---- */

static int begin(struct rs_epoll *ep, int flags)
{
	struct epoll_event e = { .events = EPOLLIN };

	ep->fd = epoll_create1(flags);
	ep->kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (ep->fd < 0 || ep->kick < 0 || epoll_ctl(ep->fd, EPOLL_CTL_ADD, ep->kick, &e))
		return errno;
	return ep->fd < RS_TABLE ? 0 : EMFILE;
}

CMA_EXPORT int repoll_create(int flags)
{
	struct rs_epoll *ep = calloc(1, sizeof(*ep));
	int err, most;

	if (!ep)
		return cma_result(ENOMEM);
	ep->fd = ep->kick = -1;
	ep->by_fd = calloc(RS_TABLE, sizeof(*ep->by_fd));
	ep->generation = cma.generation;
	ep->refs = 1;
	list_init(&ep->items);
	list_init(&ep->queue);
	pthread_mutex_init(&ep->lock, NULL);
	pthread_mutex_init(&ep->gate, NULL);
	err = ep->by_fd ? begin(ep, flags) : ENOMEM;
	if (err) {
		end(ep);
		return cma_result(err);
	}
	store_release(&table[ep->fd], ep);
	most = load_relaxed(&highest);
	while (most < ep->fd && !cas_acq_rel(&highest, &most, ep->fd))
		;
	return ep->fd;
}

int rs_epoll_close(int fd)
{
	struct rs_epoll *ep = peek(fd) ? take_out(fd) : NULL;
	uint64_t one = 1;

	if (!ep)
		return EBADF;
	/* In a forked child, the parent's locks may be held: only the descriptor is closed. */
	if (ep->generation != cma.generation) {
		end(ep);
		return 0;
	}
	pthread_mutex_lock(&ep->lock);
	while (!list_empty(&ep->items))
		free_item(list_entry(ep->items.next, struct item, node));
	pthread_mutex_unlock(&ep->lock);
	/* It is not cleared any more, so it wakes all threads. */
	if (write(ep->kick, &one, sizeof(one)) < 0)
		errno = 0;
	put(ep);
	return 0;
}

void rs_epoll_forget(struct rsocket *rs)
{
	int fd;

	for (fd = 0; fd <= load_relaxed(&highest); fd++) {
		struct rs_epoll *ep = hold(fd);
		struct item *it;

		if (!ep)
			continue;
		pthread_mutex_lock(&ep->lock);
		it = find_item(ep, rs->fd);
		if (it && it->rs == rs)
			free_item(it);
		pthread_mutex_unlock(&ep->lock);
		put(ep);
	}
}

CMA_EXPORT void vrb_rs_epoll_replace(int fd, int by)
{
	int epfd;

	for (epfd = 0; epfd <= load_relaxed(&highest); epfd++) {
		struct rs_epoll *ep = hold(epfd);
		struct epoll_event event;
		struct item *it;

		if (!ep)
			continue;
		pthread_mutex_lock(&ep->lock);
		it = find_item(ep, fd);
		if (it && it->rs) {
			event = it->event;
			free_item(it);
			add(ep, by, &event);
		}
		pthread_mutex_unlock(&ep->lock);
		put(ep);
	}
}

static void after_fork(void)
{
	pthread_mutex_init(&removal, NULL);
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, after_fork);
}
