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
#include "util/file_room.h"
#include "wire/claim.h"
#include "wire/udp.h"

enum { NUMBERS = NET_RELAY_LAST - NET_RELAY_FIRST + 1 };

/* Between looks for a holder of the port: where two begin to hold it at once, neither does. */
#define RETRY_FIRST (20 * VRB_MSEC)
#define RETRY_LAST  (5 * VRB_SECOND)
/* Between looks at a claim that no thread watches. */
#define LOOK	    (250 * VRB_MSEC)

/* Under vrb.poll_lock, once it is started. */
static struct {
	int claim;		/* the connection to a holder's; -1: none */
	bool started;
	uint64_t pause;
	struct object_timer timer;
} relayed = { .claim = -1 };

/* ---- opening ---- */

static int open_number(uint16_t port, unsigned int number)
{
	struct wire *w;
	int err = udp_open_relayed(port, number, &w);

	if (err)
		return err;
	err = host_relay_take(vrb.host, number);
	if (err)
		wire_close(w);
	else
		vrb.wire = w;
	return err;
}

static bool connect_to_holder(void)
{
	uid_t user;

	relayed.claim = claim_connect(config_get()->udp_port, host_group(vrb.host), &user);
	if (relayed.claim < 0)
		return false;
	host_relay_trust(vrb.host, user);
	return true;
}

/* A number is in use where its port or its first QP numbers are. */
static int open_relayed(uint16_t port)
{
	uint32_t start = (uint32_t)config_random();
	int err = EADDRINUSE;

	for (uint32_t i = 0; (err == EADDRINUSE || err == EEXIST) && i < NUMBERS; i++)
		err = open_number(port, NET_RELAY_FIRST + (start + i) % NUMBERS);
	return err;
}

static int give_up(int err)
{
	udp_complain(config_get()->udp_port, host_group(vrb.host), err);
	return file_is_shortage(err) ? err : 0;
}

int vrb_wire_open(void)
{
	uint16_t port = config_get()->udp_port;
	int err = udp_open(port, host_group(vrb.host), &vrb.wire);

	if (!err)
		return 0;
	vrb.wire = NULL;
	if (err != EADDRINUSE)
		return give_up(err);
	errno = 0;
	if (!connect_to_holder())
		return give_up(file_is_shortage(errno) ? errno : err);
	err = open_relayed(port);
	if (err) {
		log_warn(LOG_CORE, "cannot reach other hosts: no relay number: %s", strerror(err));
		close(relayed.claim);
		relayed.claim = -1;
		return file_is_shortage(err) ? err : 0;
	}
	log_info(LOG_CORE, "another user or run directory holds UDP port %u: its processes relay "
		 "packets to this one, number %u", port, host_relay_number(vrb.host));
	return 0;
}

/* ---- following the holder ---- */

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

static void look_for_holder(void)
{
	if (connect_to_holder()) {
		relayed.pause = RETRY_FIRST;
		watch_claim();
	} else if (!take_port()) {
		relayed.pause = min(2 * relayed.pause, RETRY_LAST);
		arm(relayed.pause + config_random() % relayed.pause);
	}
}

/* A poller may be here, too. */
static void follow(void)
{
	int cancel = cancel_off(), before = errno;

	look_for_holder();
	errno = before;
	cancel_on(cancel);
}

static void let_go(void)
{
	close(relayed.claim);
	relayed.claim = -1;
}

/* The claim has ended. The callback may stop its own watch. */
static bool on_claim(void *arg, int fd)
{
	progress_unwatch(vrb.progress, fd);
	lock_acquire(&vrb.poll_lock);
	if (relayed.claim == fd) {
		let_go();
		follow();
	}
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
	if (relayed.claim >= 0 && !claim_ended()) {
		arm(LOOK);
		return;
	}
	if (relayed.claim >= 0)
		let_go();
	if (load_relaxed(&vrb.wire->relayed))
		follow();
}

static bool on_request(void *arg, int fd)
{
	return vrb_poll_messages();
}

int vrb_relayed_start(void)
{
	int err;

	relayed.pause = RETRY_FIRST;
	relayed.started = relayed.claim >= 0;
	if (!relayed.started)
		return 0;
	err = vrb_timer_add(&relayed.timer, on_timer);
	if (!err)
		err = progress_watch(vrb.progress, host_relay_fd(vrb.host), PROGRESS_OWN,
				     on_request, NULL);
	if (!err)
		watch_claim();
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
	if (relayed.claim >= 0)
		let_go();
	relayed.started = false;
	relayed.timer = (struct object_timer){ 0 };
}
