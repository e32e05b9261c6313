/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The loop: completions, callback, reposting.
 *
 * An armed CQ raises one event, with its next completion. So the order is: poll; if there is no
 * completion, wait for the event, arm the CQ again, and poll again, because a completion before
 * arming raises no event.
 */
#include <errno.h>
#include <poll.h>
#include <time.h>

#include "verbena/private.h"

/* One of the two directions, with work requests of either type. */
struct loop {
	struct verbena_context *ctx;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_wc *wcs;
	int cqe;
	bool sleeps; /* completions raise events */
	bool solicited_only;

	uint32_t num_wr;
	int timeout_ms;
	void *arg;

	verbena_send_callback send_callback;
	struct ibv_send_wr *send_wrs; /* NULL: receives */
	verbena_recv_callback recv_callback;
	struct ibv_recv_wr *recv_wrs;
};

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Returns the number of completions, or -1 after reporting an error. */
static int take(struct loop *l)
{
	int n = ibv_poll_cq(l->cq, l->cqe, l->wcs);

	return n < 0 ? fail(EIO, "ibv_poll_cq") : n;
}

/* Takes the event if there is one, and arms the CQ for the next. */
static int arm_again(struct loop *l)
{
	struct ibv_cq *cq;
	void *cq_context;
	int err;

	if (ibv_get_cq_event(l->channel, &cq, &cq_context) == 0)
		ibv_ack_cq_events(cq, 1);
	else if (errno != EAGAIN)
		return fail(errno, "ibv_get_cq_event");
	err = ibv_req_notify_cq(l->cq, l->solicited_only);
	return err ? fail(err, "ibv_req_notify_cq") : 0;
}

/*
 * Sleeps until the deadline or an event. Returns 1 for an event, 0 for none, -1 after reporting an
 * error.
 */
static int sleep_for_event(struct loop *l, uint64_t deadline)
{
	struct pollfd fd = { .fd = l->channel->fd, .events = POLLIN };
	uint64_t now;
	int n;

	do {
		now = now_ms();
		n = poll(&fd, 1,
			 l->timeout_ms < 0 ? -1
			 : deadline > now  ? (int)(deadline - now)
					   : 0);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? fail(errno, "poll") : n;
}

/* Returns the number of completions, 0 after a timeout, or -1. */
static int wait_for_completions(struct loop *l)
{
	uint64_t deadline;
	int n = take(l);

	if (n)
		return n;
	deadline = now_ms() + (l->timeout_ms > 0 ? (uint64_t)l->timeout_ms : 0);
	for (;;) {
		int event = l->sleeps ? sleep_for_event(l, deadline) : 0;

		if (event < 0 || (event && arm_again(l)))
			return -1;
		/* Unsolicited completions raise no event: poll at the end of the timeout, too. */
		n = take(l);
		if (n || (!event && l->timeout_ms >= 0 && now_ms() >= deadline))
			return n;
	}
}

/*
 * Links the requests of the first n completions in their order. If one appears twice, the later
 * link counts, so the list always ends.
 */
static int post_again(struct loop *l, int n)
{
	for (int i = 0; i < n; i++)
		if (l->wcs[i].wr_id >= l->num_wr)
			return fail(EINVAL,
				    "a completion's wr_id %llu is not an index into %u requests",
				    (unsigned long long)l->wcs[i].wr_id, l->num_wr);
	if (l->send_wrs) {
		for (int i = 0; i < n; i++)
			l->send_wrs[l->wcs[i].wr_id].next =
				i + 1 < n ? &l->send_wrs[l->wcs[i + 1].wr_id] : NULL;
		return verbena_post_send_wrs(l->ctx, &l->send_wrs[l->wcs[0].wr_id], false);
	}
	for (int i = 0; i < n; i++)
		l->recv_wrs[l->wcs[i].wr_id].next =
			i + 1 < n ? &l->recv_wrs[l->wcs[i + 1].wr_id] : NULL;
	return verbena_post_recv_wrs(l->ctx, &l->recv_wrs[l->wcs[0].wr_id], false);
}

static int call_back(struct loop *l, int n)
{
	return l->send_wrs ? l->send_callback(l->wcs, n, l->send_wrs, l->arg) :
			     l->recv_callback(l->wcs, n, l->recv_wrs, l->arg);
}

static int run(struct loop *l)
{
	for (;;) {
		int n = wait_for_completions(l), again;

		if (n < 0)
			return -1;
		again = call_back(l, n);
		if (again < 0)
			return 0;
		if (again > n)
			again = n;
		if (again && post_again(l, again))
			return -1;
	}
}

API int verbena_repost_send_loop(verbena_send_callback callback, struct verbena_context *ctx,
				 struct ibv_send_wr *wrs, uint32_t num_wr, int timeout_ms,
				 void *arg)
{
	if (!callback || !ctx || !wrs || !num_wr)
		return fail(EINVAL, "verbena_repost_send_loop: NULL argument or no requests");
	return run(&(struct loop){
		.ctx = ctx,
		.channel = ctx->send_comp_channel,
		.cq = ctx->send_cq,
		.wcs = ctx->send_wcs,
		.cqe = (int)ctx->send_cqe,
		.sleeps = of_pub(ctx)->opt.req_notify_send,
		.solicited_only = of_pub(ctx)->opt.solicited_only_send,
		.num_wr = num_wr,
		.timeout_ms = timeout_ms,
		.arg = arg,
		.send_callback = callback,
		.send_wrs = wrs,
	});
}

API int verbena_repost_recv_loop(verbena_recv_callback callback, struct verbena_context *ctx,
				 struct ibv_recv_wr *wrs, uint32_t num_wr, int timeout_ms,
				 void *arg)
{
	if (!callback || !ctx || !wrs || !num_wr)
		return fail(EINVAL, "verbena_repost_recv_loop: NULL argument or no requests");
	return run(&(struct loop){
		.ctx = ctx,
		.channel = ctx->recv_comp_channel,
		.cq = ctx->recv_cq,
		.wcs = ctx->recv_wcs,
		.cqe = (int)ctx->recv_cqe,
		.sleeps = of_pub(ctx)->opt.req_notify_recv,
		.solicited_only = of_pub(ctx)->opt.solicited_only_recv,
		.num_wr = num_wr,
		.timeout_ms = timeout_ms,
		.arg = arg,
		.recv_callback = callback,
		.recv_wrs = wrs,
	});
}
