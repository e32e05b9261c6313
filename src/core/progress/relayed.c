/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/progress/relayed.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "core/base/object_timer.h"
#include "core/base/state.h"
#include "core/progress/poll_loop.h"
#include "core/progress/rx_queue.h"
#include "core/progress/rx_steering.h"
#include "core/rx/mcast.h"
#include "host/host.h"
#include "host/relay.h"
#include "run/clock.h"
#include "run/config.h"
#include "run/log.h"
#include "run/progress.h"
#include "util/atomic.h"
#include "util/cancel.h"
#include "wire/claim.h"
#include "wire/udp.h"

/* Between looks for a holder of the port: where two begin to hold it at once, neither does. */
#define RETRY_FIRST (20 * VRB_MSEC)
#define RETRY_LAST  (100 * VRB_MSEC)
#define FOREIGN	    (1 * VRB_SECOND)	/* the same where what holds it does not relay */
#define BRIEF	    (100 * VRB_MSEC)	/* a claim that ends sooner */
/* Between looks at a claim that no thread watches. */
#define LOOK	    (100 * VRB_MSEC)

/* Under vrb.poll_lock, once it is started. */
static struct {
	int claim;		/* the connection to a holder's; -1: none */
	bool started;
	uint64_t since, pause;
	struct object_timer timer;
} relayed = { .claim = -1 };

static void let_go(void)
{
	if (relayed.claim >= 0)
		close(relayed.claim);
	relayed.claim = -1;
}

int vrb_relayed_connect(void)
{
	uid_t user = (uid_t)-1;
	int err;

	relayed.claim = claim_connect(config_get()->udp_port, host_group(vrb.host), &user);
	err = relayed.claim < 0 ? errno : 0;
	if (!err || err == EAGAIN)
		host_relay_trust(vrb.host, user);
	relayed.since = clock_now();
	return err;
}

/* Must hold vrb.poll_lock, as must those below. */
static bool take_port(void)
{
	struct vrb_rx_queue *r = vrb_main_rx_queue;

	if (udp_take_port(vrb.wire, host_group(vrb.host)))
		return false;
	vrb_steer_start();
	vrb_mcast_join_again();
	vrb_rx_queue_take_all(r, clock_now(), false);
	log_info(LOG_CORE, "UDP port %u was free: this process holds it now", vrb.wire->port);
	return true;
}

static void arm(uint64_t pause)
{
	vrb_timer_set(&relayed.timer, time_after(clock_now(), pause));
}

static bool on_claim(void *arg, int fd);

/* Where no thread watches it, polls look at it. */
static void watch_claim(void)
{
	if (!config_get()->progress_thread ||
	    progress_watch(vrb.progress, relayed.claim, PROGRESS_OWN, on_claim, NULL))
		arm(LOOK);
}

static void look_later(uint64_t longest)
{
	arm(relayed.pause + config_random() % relayed.pause);
	relayed.pause = min(2 * relayed.pause, longest);
}

static void look_for_holder(void)
{
	int err = vrb_relayed_connect();

	if (!err)
		watch_claim();
	else if (!take_port())
		look_later(err == EADDRINUSE ? FOREIGN : RETRY_LAST);
}

/* A poller may be here, too. */
static void follow(void)
{
	int cancel = cancel_off(), before = errno;

	look_for_holder();
	errno = before;
	cancel_on(cancel);
}

/* A claim that ends at once, again and again, must not keep this process busy. */
static void claim_has_ended(void)
{
	bool brief = !time_reached(time_after(relayed.since, BRIEF), clock_now());

	let_go();
	if (brief) {
		look_later(RETRY_LAST);
	} else {
		relayed.pause = RETRY_FIRST;
		follow();
	}
}

/* The callback may stop its own watch. */
static bool on_claim(void *arg, int fd)
{
	progress_unwatch(vrb.progress, fd);
	lock_acquire(&vrb.poll_lock);
	if (relayed.claim == fd)
		claim_has_ended();
	lock_release(&vrb.poll_lock);
	return true;
}

static bool claim_ended(void)
{
	uint8_t byte;
	struct iovec iov = { &byte, sizeof(byte) };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };

	return sys_recvmsg(relayed.claim, &mh, MSG_PEEK | MSG_DONTWAIT) != -EAGAIN;
}

static void on_timer(struct object_timer *d, struct expiry *e)
{
	if (relayed.claim >= 0) {
		if (claim_ended())
			claim_has_ended();
		else
			arm(LOOK);
	} else if (load_relaxed(&vrb.wire->relayed)) {
		follow();
	}
}

static bool on_request(void *arg, int fd)
{
	return vrb_poll_messages();
}

int vrb_relayed_start(void)
{
	int err;

	relayed.pause = RETRY_FIRST;
	relayed.started = vrb.wire && load_relaxed(&vrb.wire->relayed);
	if (!relayed.started)
		return 0;
	err = vrb_timer_add(&relayed.timer, on_timer);
	if (!err)
		err = progress_watch(vrb.progress, host_relay_fd(vrb.host), PROGRESS_OWN,
				     on_request, NULL);
	if (!err && relayed.claim >= 0)
		watch_claim();
	else if (!err)
		look_later(RETRY_LAST);
	return err;
}

/* The progress thread runs no callback any more. */
void vrb_relayed_stop(void)
{
	if (relayed.started) {
		vrb_timer_remove(&relayed.timer);
		progress_unwatch(vrb.progress, host_relay_fd(vrb.host));
	}
	relayed.started = false;
	if (relayed.claim < 0)
		return;
	progress_unwatch(vrb.progress, relayed.claim);
	let_go();
}

void vrb_relayed_forget(void)
{
	let_go();
	relayed.started = false;
	relayed.timer = (struct object_timer){ 0 };
}
