/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The process comes up with the first open context and goes down with the last; what a forked child
 * keeps of it is nothing but the contexts' and domains' names (context.c, pd.c).
 *
 * In the child only the forking thread exists.  It drops what it inherited without touching what it
 * shares with the parent (shared memory, sockets, eventfds), and starts over when it opens a device
 * of its own.
 */
#include "core/process.h"

#include <errno.h>
#include <unistd.h>

#include "core/ask.h"
#include "core/context.h"
#include "core/device.h"
#include "core/drive.h"
#include "core/flusher.h"
#include "core/guard.h"
#include "core/live.h"
#include "core/mrtab.h"
#include "core/near.h"
#include "core/raw_port.h"
#include "core/receiver.h"
#include "core/tap.h"
#include "host/host.h"
#include "run/config.h"
#include "run/log.h"
#include "run/netdev.h"
#include "run/progress.h"
#include "run/timers.h"
#include "util/atomic.h"
#include "wire/udp.h"

struct vrb_process vrb = {
	.life = PTHREAD_MUTEX_INITIALIZER,
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.contexts = { &vrb.contexts, &vrb.contexts },
	.monitor = -1,
};

static pthread_once_t fork_handlers = PTHREAD_ONCE_INIT;

static void before_fork(void)
{
	pthread_mutex_lock(&vrb.life);
	pthread_mutex_lock(&vrb.lock);
}

static void after_fork_parent(void)
{
	pthread_mutex_unlock(&vrb.lock);
	pthread_mutex_unlock(&vrb.life);
}

static void drop_inherited(void)
{
	vrb_flusher_forget();
	if (vrb.progress)
		progress_forget(vrb.progress);
	if (vrb.host)
		host_forget(vrb.host);
	if (vrb.wire)
		wire_close(vrb.wire);
	if (vrb.monitor >= 0)
		close(vrb.monitor);
	vrb_raw_forget();
	vrb_tap_forget();
	vrb_ask_forget();
	vrb_near_forget();
	vrb.progress = NULL;
	vrb.host = NULL;
	vrb.wire = NULL;
	vrb.timers = NULL; /* its lock's owner may be gone; the memory is left alone */
	vrb.monitor = -1;
}

static void after_fork_child(void)
{
	/* The one thread of the child is the one that took them. */
	pthread_mutex_unlock(&vrb.lock);
	pthread_mutex_unlock(&vrb.life);
	vrb_receivers_forget();
	store_relaxed(&vrb.generation, vrb.generation + 1);
	list_init(&vrb.contexts);
	vrb_device_after_fork();
	vrb_guard_after_fork();
	vrb_live_after_fork();
	vrb_context_after_fork();
	if (vrb.users) {
		drop_inherited();
		vrb_drive_forget_all();
	}
	mr_table_reset();
	vrb.users = 0;
}

static void install_fork_handlers(void)
{
	pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

static bool on_netdev_news(void *arg, int fd)
{
	return vrb_device_catch_up();
}

/*
 * Interfaces are followed where the system lets us; without it they are read again by each device
 * list.
 */
static void start_monitor(void)
{
	vrb.monitor = netdev_monitor_open();
	if (vrb.monitor < 0) {
		vrb.monitor = -1;
		return;
	}
	if (progress_watch(vrb.progress, vrb.monitor, PROGRESS_OWN, on_netdev_news, NULL)) {
		close(vrb.monitor);
		vrb.monitor = -1;
	}
}

static void stop_monitor(void)
{
	int fd = vrb.monitor;

	if (fd < 0)
		return;
	progress_unwatch(vrb.progress, fd);
	pthread_mutex_lock(&vrb.lock);
	vrb.monitor = -1;
	pthread_mutex_unlock(&vrb.lock);
	close(fd);
}

/* Nobody reaches this process any more. */
static void leave(void)
{
	if (vrb.wire)
		wire_close(vrb.wire);
	vrb.wire = NULL;
	vrb_near_stop();
	host_leave(vrb.host);
	vrb.host = NULL;
}

/* Must hold vrb.life. */
static int bring_up(void)
{
	const struct config *cfg = config_get();
	int err = ENOMEM;

	vrb.ecn = cfg->ecn;
	share_init(&vrb.shares);
	vrb.timers = timers_new();
	if (!vrb.timers)
		return err;
	err = progress_new(&vrb_drive_progress_ops, NULL, &vrb.progress);
	if (err)
		goto free_timers;
	err = host_join(cfg->dir, &vrb.host);
	if (err)
		goto free_progress;
	/* Without it everything travels as packets; the local transport has said why. */
	vrb_near_start();
	/* Without the port the device still serves its own host; the wire has said why. */
	if (cfg->transport == CONFIG_LOCAL || udp_open(cfg->udp_port, host_group(vrb.host), &vrb.wire))
		vrb.wire = NULL;
	err = vrb_drive_start();
	if (err)
		goto leave;
	start_monitor();
	vrb_ask_start();
	if (cfg->progress_thread)
		err = progress_start(vrb.progress);
	if (!err)
		return 0;
	vrb_ask_stop();
	stop_monitor();
	vrb_drive_stop();
leave:
	leave();
free_progress:
	progress_free(vrb.progress);
	vrb.progress = NULL;
free_timers:
	timers_free(vrb.timers);
	vrb.timers = NULL;
	return err;
}

/* Must hold vrb.life and no other lock: it waits for the progress thread. */
static void bring_down(void)
{
	progress_stop(vrb.progress);
	vrb_flusher_stop();
	vrb_ask_stop();
	stop_monitor();
	vrb_raw_stop();
	vrb_drive_stop();
	leave();
	progress_free(vrb.progress);
	vrb.progress = NULL;
	timers_free(vrb.timers);
	vrb.timers = NULL;
}

int vrb_process_get(void)
{
	int err = 0;

	pthread_once(&fork_handlers, install_fork_handlers);
	pthread_mutex_lock(&vrb.life);
	if (!vrb.users)
		err = bring_up();
	if (!err)
		vrb.users++;
	pthread_mutex_unlock(&vrb.life);
	return err;
}

void vrb_process_put(void)
{
	pthread_mutex_lock(&vrb.life);
	if (!--vrb.users)
		bring_down();
	pthread_mutex_unlock(&vrb.life);
}
