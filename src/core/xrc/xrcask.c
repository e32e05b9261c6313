/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/xrc/xrcask.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "core/drive.h"
#include "core/xrc/afar.h"
#include "core/xrc/opener.h"
#include "run/clock.h"
#include "util/lock.h"

#define PATIENCE (5 * VRB_SECOND)

enum { PAUSE_NS = 50000 };

/* A question that is not answered yet; on the stack of who asked. */
struct asked {
	struct list node;
	uint32_t id;
	bool done;
	int err;
	void *reply;
	size_t len;
};

static struct lock asked_lock;	/* a leaf */
static struct list asked = { &asked, &asked };
static uint32_t last_id;

static bool is_done(struct asked *a)
{
	bool done;

	lock_acquire(&asked_lock);
	done = a->done;
	lock_release(&asked_lock);
	return done;
}

/* Whoever waits drives: there may be no progress thread. */
static int await(struct asked *a, struct xrc_party *to)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	uint64_t start = clock_now();

	while (!is_done(a)) {
		uint64_t now = clock_now();

		if (!xrc_party_alive(to, now))
			return ESRCH;
		if (now - start >= PATIENCE)
			return ETIMEDOUT;
		if (!vrb_drive_messages())
			nanosleep(&pause, NULL);
	}
	return a->err;
}

int xrc_ask(int slot, enum xrc_call call, uint32_t qpn, const void *body, size_t body_len,
	    const void *state, size_t state_len, void *reply, size_t reply_len)
{
	struct xrc_head head = { .kind = XRC_ASK, .qpn = qpn, .epoch = call };
	struct asked a = { .reply = reply, .len = reply_len };
	struct xrc_party to;
	int err;

	if (!xrc_party_find(&to, slot))
		return ESRCH;
	lock_acquire(&asked_lock);
	a.id = head.seq = ++last_id;
	list_add_tail(&asked, &a.node);
	lock_release(&asked_lock);
	do
		err = xrc_tell(&to, &head, body, body_len, state, state_len, NULL, 0);
	while (err == EAGAIN && xrc_party_alive(&to, clock_now()));
	err = err ? ESRCH : await(&a, &to);
	lock_acquire(&asked_lock);
	list_del(&a.node);
	lock_release(&asked_lock);
	xrc_party_drop(&to);
	return err;
}

static void take_reply(const struct xrc_msg *m)
{
	struct list *pos;

	lock_acquire(&asked_lock);
	list_for_each (pos, &asked) {
		struct asked *a = list_entry(pos, struct asked, node);

		if (a->id != m->head.seq)
			continue;
		a->err = (int)m->head.epoch;
		if (!a->err && m->head.body != a->len)
			a->err = EPROTO;
		if (!a->err && a->len)
			memcpy(a->reply, m->body, a->len);
		a->done = true;
	}
	lock_release(&asked_lock);
}

/* How long the body of a question must be, and who answers it. */
static const struct {
	size_t body;
	int (*answer)(const struct xrc_msg *m, uint64_t now, void *reply, size_t *len);
} calls[] = {
	[XRC_CALL_OPEN] = { sizeof(struct xrc_key), vrb_opener_on_open },
	[XRC_CALL_CLOSE] = { 0, vrb_opener_on_close },
	[XRC_CALL_MODIFY] = { sizeof(struct xrc_modify), vrb_opener_on_modify },
	[XRC_CALL_QUERY] = { 0, vrb_opener_on_query },
	[XRC_CALL_ADOPT] = { sizeof(struct xrc_adoption), vrb_afar_on_adopt },
	[XRC_CALL_ADD] = { sizeof(struct xrc_others), vrb_opener_on_add },
};

static void answer(const struct xrc_msg *m, uint64_t now)
{
	struct xrc_head head = { .kind = XRC_REPLY, .qpn = m->head.qpn, .seq = m->head.seq };
	uint8_t reply[sizeof(struct ibv_qp_attr)];
	uint32_t call = m->head.epoch;
	struct xrc_party to;
	size_t len = 0;

	if (!xrc_party_find(&to, m->head.slot))
		return;
	if (xrc_party_sent(&to, m)) {
		if (call < ARRAY_SIZE(calls) && calls[call].answer && m->head.body == calls[call].body)
			head.epoch = (uint32_t)calls[call].answer(m, now, reply, &len);
		else
			head.epoch = EPROTO;
		xrc_tell(&to, &head, reply, len, NULL, 0, NULL, 0);
	}
	xrc_party_drop(&to);
}

void xrc_ask_receive(const struct xrc_msg *m, uint64_t now)
{
	if (m->head.kind == XRC_ASK)
		answer(m, now);
	else
		take_reply(m);
}
