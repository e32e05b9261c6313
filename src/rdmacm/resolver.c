/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ids that wait for address resolution (ARP, ND).  The thread sleeps in poll(2) until the kernel
 * reports a change of a neighbour, another id is added, or the nearest timeout expires; without
 * netlink events it checks periodically.
 */
#include "rdmacm/resolver.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "rdmacm/addr.h"
#include "rdmacm/cma.h"
#include "rdmacm/diagnose.h"
#include "rdmacm/id.h"
#include "run/clock.h"
#include "util/list.h"
#include "util/quiet_thread.h"
#include "util/time.h"

enum { LOOK_AGAIN_MS = 100 };

struct resolve {
	struct list node;
	struct cma_id *id;
	struct route route;
	uint64_t deadline;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct list waiting = { &waiting, &waiting };
static bool running;
static int wake = -1;

static void finish(struct resolve *r, int status)
{
	struct cma_id *id = r->id;

	list_del(&r->node);
	free(r);
	cma_lock();
	id->resolve = NULL;
	id_resolved(id, status);
	cma_unlock();
}

static void give_up(struct resolve *r)
{
	diagnose_no_neighbour(r->id, &r->route.hop);
	finish(r, -ETIMEDOUT);
}

/* Ends resolutions that are done or timed out.  Returns the nearest deadline. */
static uint64_t look(uint64_t now)
{
	uint64_t nearest = VRB_NEVER;
	struct list *pos, *tmp;

	list_for_each_safe (pos, tmp, &waiting) {
		struct resolve *r = list_entry(pos, struct resolve, node);

		if (route_neighbour_known(&r->route))
			finish(r, 0);
		else if (time_reached(r->deadline, now))
			give_up(r);
		else
			nearest = time_earlier(nearest, r->deadline);
	}
	return nearest;
}

static int sleep_ms(uint64_t until, bool watched)
{
	uint64_t now = clock_now(), ms = until > now ? (until - now) / VRB_MSEC + 1 : 0;

	if (!watched && ms > LOOK_AGAIN_MS)
		ms = LOOK_AGAIN_MS;
	return ms > INT32_MAX ? INT32_MAX : (int)ms;
}

static void *run(void *arg)
{
	struct pollfd fds[2] = { { .fd = wake, .events = POLLIN },
				 { .fd = route_monitor_open(), .events = POLLIN } };
	uint64_t nearest, count;

	pthread_mutex_lock(&lock);
	while ((nearest = look(clock_now())) != VRB_NEVER) {
		pthread_mutex_unlock(&lock);
		poll(fds, 2, sleep_ms(nearest, fds[1].fd >= 0));
		if (fds[0].revents && read(fds[0].fd, &count, sizeof(count)) < 0)
			errno = 0;
		if (fds[1].fd >= 0)
			route_monitor_drain(fds[1].fd);
		pthread_mutex_lock(&lock);
	}
	running = false;
	close(wake);
	wake = -1;
	pthread_mutex_unlock(&lock);
	if (fds[1].fd >= 0)
		close(fds[1].fd);
	return NULL;
}

/* Must hold the lock. */
static int start(void)
{
	pthread_t thread;
	int err;

	wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (wake < 0)
		return errno;
	err = quiet_thread_start(&thread, run, NULL);
	if (err) {
		close(wake);
		wake = -1;
		return err;
	}
	pthread_detach(thread);
	running = true;
	return 0;
}

static int add(struct resolve *r)
{
	uint64_t one = 1;
	int err = 0;

	list_add_tail(&waiting, &r->node);
	if (!running)
		err = start();
	else if (write(wake, &one, sizeof(one)) < 0)
		err = errno;
	if (err)
		list_del(&r->node);
	return err;
}

int resolver_wait(struct cma_id *id, const struct route *route, const struct sockaddr *dst,
		  int timeout_ms)
{
	struct resolve *r = calloc(1, sizeof(*r));
	int err;

	if (!r)
		return ENOMEM;
	r->id = id;
	r->route = *route;
	/* As in Linux a negative one is without limit, or nearly. */
	r->deadline = time_after(clock_now(), (uint32_t)timeout_ms * VRB_MSEC);
	route_probe_neighbour(dst, route->ifindex);
	pthread_mutex_lock(&lock);
	id->resolve = r;
	err = add(r);
	if (err)
		id->resolve = NULL;
	pthread_mutex_unlock(&lock);
	if (err)
		free(r);
	return err;
}

void resolver_cancel(struct cma_id *id)
{
	pthread_mutex_lock(&lock);
	if (id->resolve) {
		list_del(&id->resolve->node);
		free(id->resolve);
		id->resolve = NULL;
	}
	pthread_mutex_unlock(&lock);
}

void resolver_forget(void)
{
	pthread_mutex_init(&lock, NULL);
	list_init(&waiting);
	running = false;
	wake = -1;
}
