/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/xrc/rpc.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "core/base/state.h"
#include "core/progress/poll_loop.h"
#include "host/host.h"
#include "run/clock.h"
#include "util/lock.h"

#define RPC_TIMEOUT (5 * VRB_SECOND)
/* Without an answer the QP would be lost: for one that gets no CPU, and longer if it is stopped. */
#define IMPORT_TIMEOUT (60 * VRB_SECOND)

enum { PAUSE_NS = 50000 };

/* A pending call, on the caller's stack. */
struct rpc {
	struct list node;
	uint32_t id;
	bool done;
	int err;
	void *reply;
	size_t len;
};

struct wait {
	uint64_t checked, waited;
	uint64_t timeout;
};

static struct lock rpc_lock;	/* a leaf */
static struct list rpcs = { &rpcs, &rpcs };
static uint32_t last_id;

static bool is_done(struct rpc *rpc)
{
	bool done;

	lock_acquire(&rpc_lock);
	done = rpc->done;
	lock_release(&rpc_lock);
	return done;
}

/*
 * Waits for a moment; returns 0 to continue, or ESRCH or ETIMEDOUT. The waiting thread polls,
 * because there may be no progress thread and the other process may need room in our lane or inbox.
 */
static int wait_once(struct xrc_peer *to, struct wait *w)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	uint64_t now = clock_now();

	if (!xrc_peer_alive(to, now))
		return ESRCH;
	w->waited += time_wait_step(&w->checked, now);
	if (w->waited >= w->timeout) {
		if (w->timeout < IMPORT_TIMEOUT || !host_is_stopped(vrb.host, to->slot))
			return ETIMEDOUT;
		w->waited = 0;
	}
	if (!vrb_poll_messages())
		nanosleep(&pause, NULL);
	return 0;
}

static int await(struct rpc *rpc, struct xrc_peer *to, struct wait *w)
{
	int err = 0;

	while (!err && !is_done(rpc))
		err = wait_once(to, w);
	return err ? err : rpc->err;
}

int xrc_rpc(int slot, enum xrc_call call, uint32_t qpn, const void *body, size_t body_len,
	    const void *state, size_t state_len, void *reply, size_t reply_len)
{
	struct xrc_head head = { .kind = XRC_RPC, .qpn = qpn, .epoch = call };
	struct rpc rpc = { .reply = reply, .len = reply_len };
	struct wait wait = { .timeout = call == XRC_CALL_IMPORT ? IMPORT_TIMEOUT : RPC_TIMEOUT };
	struct xrc_peer to;
	int err, over = 0;

	if (!xrc_peer_find(&to, slot))
		return ESRCH;
	lock_acquire(&rpc_lock);
	rpc.id = head.seq = ++last_id;
	list_add_tail(&rpcs, &rpc.node);
	lock_release(&rpc_lock);
	do
		err = xrc_send(&to, &head, body, body_len, state, state_len, NULL, 0);
	while (err == EAGAIN && !(over = wait_once(&to, &wait)));
	if (err)
		err = over ? over : ESRCH;
	else
		err = await(&rpc, &to, &wait);
	lock_acquire(&rpc_lock);
	list_del(&rpc.node);
	lock_release(&rpc_lock);
	xrc_peer_drop(&to);
	return err;
}

void xrc_take_reply(const struct xrc_msg *m)
{
	struct list *pos;

	lock_acquire(&rpc_lock);
	list_for_each (pos, &rpcs) {
		struct rpc *rpc = list_entry(pos, struct rpc, node);

		if (rpc->id != m->head.seq)
			continue;
		rpc->err = (int)m->head.epoch;
		if (!rpc->err && m->head.body != rpc->len)
			rpc->err = EPROTO;
		if (!rpc->err && rpc->len)
			memcpy(rpc->reply, m->body, rpc->len);
		rpc->done = true;
	}
	lock_release(&rpc_lock);
}

void xrc_rpc_forget(void)
{
	list_init(&rpcs);
	lock_renew(&rpc_lock);
}
