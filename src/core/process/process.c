/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Starts the process state with the first open context and stops it with the last. A forked child
 * keeps only inherited contexts and PDs as handles (context_open.c, pd.c).
 *
 * In the child only the forking thread exists. It drops what it inherited without touching what it
 * shares with the parent (shared memory, sockets, eventfds), and starts again when it opens a
 * device.
 */
#include "core/process/process.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "core/base/context.h"
#include "core/base/live_objects.h"
#include "core/base/state.h"
#include "core/device/device.h"
#include "core/device/mirror.h"
#include "core/device/sysfs_tree.h"
#include "core/diag/introspect.h"
#include "core/fault/control.h"
#include "core/fault/plan.h"
#include "core/fault/taps.h"
#include "core/local/peer_link.h"
#include "core/mad/gsi.h"
#include "core/mem/key_table.h"
#include "core/mem/mr.h"
#include "core/process/context_open.h"
#include "core/process/wire_open.h"
#include "core/progress/drain.h"
#include "core/progress/flush_thread.h"
#include "core/progress/poll_loop.h"
#include "core/progress/relayed.h"
#include "core/progress/rx_queue.h"
#include "core/progress/stand_in.h"
#include "core/qp/qp_table.h"
#include "core/qp/xrcd.h"
#include "core/raw/raw_port.h"
#include "core/raw/raw_tx.h"
#include "core/record/recorder.h"
#include "core/rx/mcast.h"
#include "core/rx/subscriber.h"
#include "core/rx/subscriptions.h"
#include "core/tx/tx_batch.h"
#include "core/xrc/dispatch.h"
#include "core/xrc/remote_handle.h"
#include "core/xrc/remote_responder.h"
#include "core/xrc/resend.h"
#include "host/host.h"
#include "run/config.h"
#include "run/log.h"
#include "run/netdev.h"
#include "run/nofault.h"
#include "run/progress.h"
#include "run/timers.h"
#include "util/atomic.h"
#include "util/file_room.h"
#include "util/heavy_fence.h"
#include "util/lock.h"
#include "wire/wire.h"

static pthread_once_t handlers = PTHREAD_ONCE_INIT;

static void before_fork(void)
{
	pthread_mutex_lock(&vrb.life);
	pthread_mutex_lock(&vrb.lock);
	vrb_faults_before_fork();
	vrb_sysfs_before_fork();
}

static void after_fork_parent(void)
{
	vrb_sysfs_after_fork();
	vrb_faults_after_fork_parent();
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
	vrb_relayed_forget();
	if (vrb.wire)
		wire_close(vrb.wire);
	if (vrb.monitor >= 0)
		close(vrb.monitor);
	vrb_raw_forget();
	vrb_mirror_forget();
	vrb_introspect_forget();
	vrb_fault_control_forget();
	vrb_local_forget();
	vrb.progress = NULL;
	vrb.host = NULL;
	vrb.wire = NULL;
	vrb.timers = NULL; /* a parent's thread may have held its lock; leaks the memory */
	vrb.monitor = -1;
}

/*
 * The parent's QPs stay in memory, unreachable: their timers and locks may be held by threads that
 * do not exist here.
 */
static void forget_objects(void)
{
	vrb_gsi_forget();
	vrb_qp_table_forget();
	vrb_responder_forget_all();
	vrb_remote_forget_all();
	vrb_xrc_resend_forget();
	vrb_xrcd_forget_all();
	vrb_tx_batch_forget();
	vrb_raw_send_forget();
	vrb_mcast_forget();
	vrb_subscriber_forget();
	vrb_subscriptions_forget();
	vrb_drain_forget();
}

static void after_fork_child(void)
{
	/* This thread took them before the fork. */
	vrb_sysfs_after_fork();
	vrb_faults_after_fork_child();
	pthread_mutex_unlock(&vrb.lock);
	pthread_mutex_unlock(&vrb.life);
	vrb_rx_queues_forget();
	vrb_stand_in_forget();
	store_relaxed(&vrb.generation, vrb.generation + 1);
	list_init(&vrb.contexts);
	vrb_device_after_fork();
	vrb_guard_after_fork();
	vrb_live_after_fork();
	vrb_context_after_fork();
	if (vrb.users) {
		drop_inherited();
		forget_objects();
	}
	mr_table_reset();
	vrb.users = 0;
}

static void install_handlers(void)
{
	vrb_context_enter_successor = vrb_context_successor;
	vrb_mem_flush_async = vrb_flusher_add;
	vrb_recorder_link();
	pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

static bool on_netdev_news(void *arg, int fd)
{
	return vrb_device_catch_up();
}

/* Watches the interfaces. Without a monitor, each ibv_get_device_list() rescans them. */
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

/* Makes this process unreachable for others. */
static void leave(void)
{
	vrb_relayed_stop();
	vrb_subscriber_stop();
	vrb_subscriptions_stop();
	if (vrb.wire)
		wire_close(vrb.wire);
	vrb.wire = NULL;
	vrb_local_stop();
	host_leave(vrb.host);
	vrb.host = NULL;
}

static int start_thread(void)
{
	int err = progress_start(vrb.progress);

	if (err)
		log_warn(LOG_CORE, "no device, as its thread cannot be started: %s", strerror(err));
	return err;
}

/* Must hold vrb.life. */
static int bring_up(void)
{
	const struct config *cfg = config_get();
	int err = ENOMEM;

	vrb.ecn = cfg->ecn;
	vrb.xrc = &vrb_xrc_ops;
	path_table_init(&vrb.paths);
	if (heavy_fence_own_join())
		lock_allow_owners();
	vrb.timers = timers_new();
	if (!vrb.timers)
		return err;
	err = progress_new(&vrb_progress_ops, NULL, &vrb.progress);
	if (err)
		goto free_timers;
	err = host_join(cfg->dir, &vrb.host);
	if (err)
		goto free_progress;
	/*
	 * Without shared memory everything travels as packets; the local transport has logged why.
	 */
	vrb_local_start();
	/* Without a wire the device still serves this host. */
	if (cfg->transport != CONFIG_LOCAL)
		err = vrb_wire_open();
	if (err)
		goto leave;
	err = vrb_progress_start();
	if (err)
		goto leave;
	start_monitor();
	vrb_introspect_start();
	vrb_fault_control_start();
	err = vrb_relayed_start();
	if (!err)
		err = vrb_subscriber_start();
	if (!err)
		err = vrb_subscriptions_start();
	if (!err && cfg->progress_thread)
		err = start_thread();
	if (!err)
		return 0;
	vrb_fault_control_stop();
	vrb_introspect_stop();
	stop_monitor();
	vrb_progress_stop();
	vrb_responder_free_all();
	vrb_xrc_resend_stop();
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
	vrb_fault_control_stop();
	vrb_introspect_stop();
	stop_monitor();
	vrb_raw_stop();
	vrb_remote_stop();
	vrb_progress_stop();
	vrb_responder_free_all();
	vrb_xrc_resend_stop();
	leave();
	progress_free(vrb.progress);
	vrb.progress = NULL;
	timers_free(vrb.timers);
	vrb.timers = NULL;
}

int vrb_process_get(void)
{
	int err = 0;

	pthread_once(&handlers, install_handlers);
	vrb_fault_taps_start();
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
