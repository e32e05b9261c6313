/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/raw_port.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/context.h"
#include "core/device.h"
#include "core/flow.h"
#include "core/process.h"
#include "core/qp.h"
#include "core/tap.h"
#include "run/clock.h"
#include "run/config.h"
#include "run/progress.h"
#include "util/atomic.h"
#include "util/cancel.h"
#include "util/compiler.h"

enum {
	ROUND = 64,	/* frames taken off an interface at a time */
};

/* Frames wait this long for a receive to be posted: a thread may be off its CPU. */
#define HOLD (50 * VRB_MSEC)

/* Serialises opening and closing, which wait for the progress thread; outermost but vrb.life. */
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

static struct list open_ports = { &open_ports, &open_ports };	/* vrb.drive */

static void arrive(void *arg, const struct raw_frame *f)
{
	struct vrb_raw_port *raw = arg;

	vrb_flow_input(raw->dev, f);
}

void vrb_raw_add(struct vrb_qp *qp)
{
	if (qp->recv_cq)
		list_add_tail(&qp->ctx->dev->raw->receivers, &qp->raw.node);
}

/* The fewest receives that a receiver has which is worth waiting for; at most ROUND. */
static unsigned int fewest(struct vrb_raw_port *raw, bool wait)
{
	unsigned int n = ROUND;
	struct list *pos;

	list_for_each (pos, &raw->receivers) {
		struct vrb_qp *qp = list_entry(pos, struct vrb_qp, raw.node);
		unsigned int posted;

		if (!qp->raw.receiving)
			continue;
		posted = vrb_raw_posted(qp);
		if (!posted && !wait)
			qp->raw.receiving = false;
		else
			n = min(n, posted);
	}
	return n;
}

/*
 * How many frames may be taken.  The kernel's buffer is larger than a program's queue, so frames wait
 * there for a receiver that is about to post again; but not for long, and not twice for one that does
 * not.
 */
static unsigned int room(struct vrb_raw_port *raw, uint64_t now)
{
	unsigned int n = fewest(raw, true);

	if (n) {
		raw->held_since = 0;
		return n;
	}
	if (!raw->held_since)
		raw->held_since = now;
	if (time_since(raw->held_since, now) < HOLD)
		return 0;
	raw->held_since = 0;
	return fewest(raw, false);
}

static bool take(struct vrb_raw_port *raw, uint64_t now)
{
	unsigned int n = raw_ready(raw->port) ? room(raw, now) : 0;
	bool any = n && raw_recv(raw->port, n, now, arrive, raw) > 0;

	return vrb_tap_take(raw->dev, now) || any;
}

bool vrb_raw_poll(uint64_t now)
{
	struct list *pos;
	bool any = false;
	int cancel;

	if (likely(list_empty(&open_ports)))
		return false;
	cancel = cancel_off();
	list_for_each (pos, &open_ports)
		any |= take(list_entry(pos, struct vrb_raw_port, node), now);
	cancel_on(cancel);
	return any;
}

static bool on_frames(void *arg, int fd)
{
	bool any;

	lock_acquire(&vrb.drive);
	any = take(arg, clock_now());
	lock_release(&vrb.drive);
	return any;
}

bool vrb_raw_is_virtual(struct vrb_device *dev)
{
	bool is;

	lock_acquire(&vrb.drive);
	is = dev->raw->port->is_virtual;
	lock_release(&vrb.drive);
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
	lock_acquire(&vrb.drive);
	dev->raw = raw;
	list_add_tail(&open_ports, &raw->node);
	lock_release(&vrb.drive);
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
	lock_acquire(&vrb.drive);
	raw->dev->retired.dropped_pkts += vrb_raw_lost(raw->dev);
	list_del(&raw->node);
	raw->dev->raw = NULL;
	lock_release(&vrb.drive);
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
	while (!list_empty(&open_ports))
		close_port(list_entry(open_ports.next, struct vrb_raw_port, node));
	pthread_mutex_unlock(&opening);
}

/* The QPs of the parent stay in memory, unreachable, and what they refer to with them. */
void vrb_raw_forget(void)
{
	pthread_mutex_init(&opening, NULL);
	while (!list_empty(&open_ports)) {
		struct vrb_raw_port *raw = list_entry(open_ports.next, struct vrb_raw_port, node);

		list_del(&raw->node);
		raw->dev->raw = NULL;
		raw_close(raw->port, false);
	}
}
