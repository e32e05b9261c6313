/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/raw/raw_port.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/context.h"
#include "core/base/state.h"
#include "core/device/device.h"
#include "core/device/mirror.h"
#include "core/qp/qp.h"
#include "core/raw/flow.h"
#include "run/clock.h"
#include "run/config.h"
#include "run/progress.h"
#include "util/atomic.h"
#include "util/cancel.h"
#include "util/compiler.h"

enum {
	ROUND = 64,	/* frames read from an interface at a time */
};

/* How long frames wait for a receive to be posted: its thread may be preempted. */
#define HOLD (50 * VRB_MSEC)
/* The same, if that keeps others from frames: less long, and in the long run half of the time. */
#define HOLD_OTHERS (4 * VRB_MSEC)
#define COST(held)  (2 * (held))

/*
 * Serialises opening and closing, which wait for the progress thread. Inside vrb.life, outside
 * vrb.lock.
 */
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

struct list vrb_raw_open_ports = { &vrb_raw_open_ports, &vrb_raw_open_ports };

static void arrive(void *arg, const struct raw_frame *f)
{
	struct vrb_raw_port *raw = arg;

	vrb_flow_input(raw->dev, f);
}

void vrb_raw_add(struct vrb_qp *qp)
{
	if (qp->config.recv_cq)
		list_add_tail(&qp->config.ctx->dev->raw->receivers, &qp->dispatch.raw_node);
}

/* What the receivers have posted. */
struct supply {
	unsigned int fewest;	/* of the active ones that have any, and at most ROUND */
	bool none;		/* an active one has run out */
	bool some;		/* any one has some */
};

static bool has_some(struct vrb_raw_port *raw)
{
	struct list *pos;

	list_for_each (pos, &raw->receivers) {
		unsigned int posted =
			vrb_raw_posted(list_entry(pos, struct vrb_qp, dispatch.raw_node));

		if (posted && posted != UINT_MAX)
			return true;
	}
	return false;
}

static struct supply look(struct vrb_raw_port *raw)
{
	struct supply s = { .fewest = ROUND };
	struct list *pos;

	list_for_each (pos, &raw->receivers) {
		struct vrb_qp *qp = list_entry(pos, struct vrb_qp, dispatch.raw_node);
		unsigned int posted;

		if (!qp->dispatch.raw_receiving)
			continue;
		posted = vrb_raw_posted(qp);
		if (posted)
			s.fewest = min(s.fewest, posted);
		else
			s.none = true;
	}
	s.some = s.none && has_some(raw);
	return s;
}

static void stop_waiting(struct vrb_raw_port *raw)
{
	struct list *pos;

	list_for_each (pos, &raw->receivers) {
		struct vrb_qp *qp = list_entry(pos, struct vrb_qp, dispatch.raw_node);

		if (qp->dispatch.raw_receiving && !vrb_raw_posted(qp))
			qp->dispatch.raw_receiving = false;
	}
}

static void end_hold(struct vrb_raw_port *raw, uint64_t now)
{
	if (raw->held_others)
		raw->paid_at = max(raw->paid_at, raw->held_since) +
			       COST(time_since(raw->held_since, now));
	raw->held_since = 0;
	raw->held_others = false;
}

static bool holds(struct vrb_raw_port *raw, const struct supply *s, uint64_t now)
{
	if (s->some && raw->paid_at > now + COST(HOLD_OTHERS))
		return false;
	if (!raw->held_since)
		raw->held_since = now;
	raw->held_others |= s->some;
	return time_since(raw->held_since, now) < (s->some ? HOLD_OTHERS : HOLD);
}

/*
 * How many frames may be read. The kernel's buffer is larger than a program's queue, so frames wait
 * there for a QP whose receives are used up, but only for a short time, and only once per QP until
 * it posts. A slow receiver must not slow others down, as none does on a device.
 */
static unsigned int room(struct vrb_raw_port *raw, uint64_t now)
{
	struct supply s = look(raw);

	if (s.none && holds(raw, &s, now))
		return 0;
	if (s.none)
		stop_waiting(raw);
	end_hold(raw, now);
	return s.fewest;
}

static bool take(struct vrb_raw_port *raw, uint64_t now)
{
	unsigned int n = raw_ready(raw->port) ? room(raw, now) : 0;
	bool any = n && raw_recv(raw->port, n, now, arrive, raw) > 0;

	return vrb_mirror_take(raw->dev, now) || any;
}

bool vrb_raw_take(uint64_t now)
{
	struct list *pos;
	bool any = false;
	int cancel = cancel_off();

	list_for_each (pos, &vrb_raw_open_ports)
		any |= take(list_entry(pos, struct vrb_raw_port, node), now);
	cancel_on(cancel);
	return any;
}

static bool on_frames(void *arg, int fd)
{
	struct vrb_raw_port *raw = arg;
	bool any;

	lock_acquire(&vrb.poll_lock);
	any = take(raw, clock_now());
	if (!any)
		raw_take_error(raw->port);
	lock_release(&vrb.poll_lock);
	return any;
}

bool vrb_raw_is_virtual(struct vrb_device *dev)
{
	bool is;

	lock_acquire(&vrb.poll_lock);
	is = dev->raw->port->is_virtual;
	lock_release(&vrb.poll_lock);
	return is;
}

int vrb_raw_steer(struct vrb_device *dev, const struct sock_filter *program, unsigned int len,
		  enum raw_scope scope)
{
	return raw_filter(dev->raw->port, program, len, scope);
}

static void describe(struct vrb_device *dev, struct raw_interface *on)
{
	struct vrb_port *port = &dev->port;

	lock_acquire(&port->lock);
	*on = (struct raw_interface){ .name = port->ifname,
				      .index = port->ifindex,
				      .ordinal = dev->ordinal,
				      .loopback = port->loopback };
	memcpy(on->mac, port->mac, sizeof(on->mac));
	lock_release(&port->lock);
}

static void unwatch(struct vrb_raw_port *raw)
{
	for (unsigned int i = 0; i < RAW_FDS; i++)
		if (raw->port->fd[i] >= 0)
			progress_unwatch(vrb.progress, raw->port->fd[i]);
}

static int watch(struct vrb_raw_port *raw)
{
	int err = 0;

	for (unsigned int i = 0; i < RAW_FDS && !err; i++)
		if (raw->port->fd[i] >= 0)
			err = progress_watch(vrb.progress, raw->port->fd[i], PROGRESS_SHARED,
					     on_frames, raw);
	if (err)
		unwatch(raw);
	return err;
}

/* Must hold `opening`. */
static int open_port(struct vrb_device *dev)
{
	struct vrb_raw_port *raw = calloc(1, sizeof(*raw));
	struct raw_interface on;
	int err;

	if (!raw)
		return ENOMEM;
	raw->dev = dev;
	list_init(&raw->receivers);
	describe(dev, &on);
	err = raw_open(vrb.host, &on, config_get()->raw, &raw->port);
	if (err)
		goto free_raw;
	err = watch(raw);
	if (err)
		goto close_port;
	lock_acquire(&vrb.poll_lock);
	dev->raw = raw;
	list_add_tail(&vrb_raw_open_ports, &raw->node);
	lock_release(&vrb.poll_lock);
	return 0;
close_port:
	raw_close(raw->port, true);
free_raw:
	free(raw);
	return err;
}

uint64_t vrb_raw_lost(const struct vrb_device *dev)
{
	if (!dev->raw)
		return 0;
	raw_count(dev->raw->port);
	return load_relaxed(&dev->raw->port->stats.lost);
}

/* Must hold `opening`. */
static void close_port(struct vrb_raw_port *raw)
{
	lock_acquire(&vrb.poll_lock);
	raw->dev->retired.dropped_pkts += vrb_raw_lost(raw->dev);
	list_del(&raw->node);
	raw->dev->raw = NULL;
	lock_release(&vrb.poll_lock);
	unwatch(raw);
	raw_close(raw->port, true);
	free(raw);
}

int vrb_raw_get(struct vrb_device *dev)
{
	int err = 0;

	pthread_mutex_lock(&opening);
	if (!dev->raw)
		err = open_port(dev);
	if (!err)
		dev->raw->users++;
	pthread_mutex_unlock(&opening);
	return err;
}

void vrb_raw_put(struct vrb_device *dev)
{
	pthread_mutex_lock(&opening);
	if (!--dev->raw->users)
		close_port(dev->raw);
	pthread_mutex_unlock(&opening);
}

void vrb_raw_stop(void)
{
	pthread_mutex_lock(&opening);
	while (!list_empty(&vrb_raw_open_ports))
		close_port(list_entry(vrb_raw_open_ports.next, struct vrb_raw_port, node));
	pthread_mutex_unlock(&opening);
}

/* In a forked child the parent's QPs stay in memory, unreachable, with what they refer to. */
void vrb_raw_forget(void)
{
	pthread_mutex_init(&opening, NULL);
	while (!list_empty(&vrb_raw_open_ports)) {
		struct vrb_raw_port *raw =
			list_entry(vrb_raw_open_ports.next, struct vrb_raw_port, node);

		list_del(&raw->node);
		raw->dev->raw = NULL;
		raw_close(raw->port, false);
	}
}
