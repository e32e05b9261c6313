/* SPDX-License-Identifier: BSD-2-Clause */
#include "fuzz/procs_side.h"

#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "fuzz/procs_end.h"

static void serve(void)
{
	for (int i = 0; i < CONNS; i++)
		refill(&ends[i], DEPTH);
	if (!poll_cqs())
		sched_yield();
}

static void await(struct end *e, bool (*done)(struct end *e), const char *what)
{
	time_t limit = time(NULL) + LIMIT_S * test_slower();

	while (!done(e)) {
		serve();
		EXPECT(time(NULL) < limit,
		       AT(e) "%s: %u of %u sends, %u of %u receives; messages %u of %u, %u to send",
		       WHERE(e), what, e->done, e->posted, e->recvs_done, e->recvs, e->next_in,
		       peers(e)->sent, mine(e)->sent);
	}
}

static void make_target(struct end *e, bool mapped)
{
	size_t len = REMOTE + GUARD;

	e->fd = mapped ? memfd_create("target", MFD_CLOEXEC) : -1;
	EXPECT(!mapped || ftruncate(e->fd, (off_t)len) == 0, "memfd: %m");
	e->target = mmap(NULL, len, PROT_READ | PROT_WRITE,
			 mapped ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, e->fd, 0);
	EXPECT(e->target != MAP_FAILED, "mmap: %m");
	e->target_mr = ibv_reg_mr(w.pd, e->target, REMOTE, WORLD_ACCESS | IBV_ACCESS_MW_BIND);
	EXPECT(e->target_mr, "target: %m");
}

static void make_qp(struct end *e, bool srq)
{
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = DEPTH, .max_sge = SGES } };
	struct ibv_qp_init_attr attr = {
		.send_cq = cqs[below(2)],
		.recv_cq = cqs[below(2)],
		.cap = { DEPTH, DEPTH, SGES, SGES, INLINE },
		.qp_type = conn_of(e)->type,
	};

	if (srq)
		attr.srq = e->srq = ibv_create_srq(w.pd, &srq_attr);
	EXPECT(!srq || e->srq, "SRQ: %m");
	e->qp = ibv_create_qp(w.pd, &attr);
	EXPECT(e->qp, "QP: %m");
}

static void do_open(struct end *e, const struct command *c)
{
	struct ibv_ah_attr ah = {
		.grh = { .dgid = w.gid, .sgid_index = (uint8_t)w.gid_index, .hop_limit = 64 },
		.is_global = 1, .port_num = 1,
	};
	uint32_t gen = mine(e)->gen;
	size_t len;

	*e = (struct end){ .stopped = true };
	e->slot = conn_of(e)->max + GRH + SGES * GAP;
	len = DEPTH * (conn_of(e)->max + e->slot);
	e->mem = malloc(len);
	EXPECT(e->mem, "memory");
	e->mr = ibv_reg_mr(w.pd, e->mem, len, IBV_ACCESS_LOCAL_WRITE);
	EXPECT(e->mr, "region: %m");
	make_target(e, c->mapped);
	make_qp(e, c->srq);
	if (is(e, IBV_QPT_UD))
		e->ah = ibv_create_ah(w.pd, &ah);
	EXPECT(e->ah || !is(e, IBV_QPT_UD), "AH: %m");
	*mine(e) = (struct half){ .qpn = e->qp->qp_num, .rkey = e->target_mr->rkey, .gen = gen,
				  .target = (uintptr_t)e->target };
}

static void do_close(struct end *e, const struct command *c)
{
	e->open = false;
	CHECK_EQ(ibv_destroy_qp(e->qp), 0);
	if (e->srq)
		CHECK_EQ(ibv_destroy_srq(e->srq), 0);
	if (e->ah)
		CHECK_EQ(ibv_destroy_ah(e->ah), 0);
	if (e->mw)
		CHECK_EQ(ibv_dealloc_mw(e->mw), 0);
	if (e->target_mr)
		CHECK_EQ(ibv_dereg_mr(e->target_mr), 0);
	CHECK_EQ(ibv_dereg_mr(e->mr), 0);
	munmap(e->target, REMOTE + GUARD);
	if (e->fd >= 0)
		close(e->fd);
	free(e->mem);
}

static void move(struct end *e, enum ibv_qp_state next, const struct command *c)
{
	struct ibv_qp_attr attr;
	int mask = world_attr(&w, conn_of(e)->type, next, peers(e)->qpn, &attr), err;

	attr.sq_psn = c->psn[me];
	attr.rq_psn = c->psn[!me];
	attr.timeout = TIMEOUT;
	attr.retry_cnt = RETRIES;
	err = ibv_modify_qp(e->qp, &attr, mask);
	EXPECT(err == 0, AT(e) "to %d: %d", WHERE(e), next, err);
}

/* A new one for each connection. */
static void make_window(struct end *e)
{
	if (!is(e, IBV_QPT_RC))
		return;
	if (e->mw)
		CHECK_EQ(ibv_dealloc_mw(e->mw), 0);
	e->mw = ibv_alloc_mw(w.pd, IBV_MW_TYPE_2);
	EXPECT(e->mw, "MW: %m");
	e->window_key = e->mw->rkey;
	e->bound = 0;
}

static void do_init(struct end *e, const struct command *c)
{
	struct half *h = mine(e);

	e->posted = e->done = e->recvs_done = e->next_in = e->shown = 0;
	e->failed = e->reading = e->bind_open = false;
	if (!e->srq)
		memset(e->recv, 0, sizeof(e->recv));
	e->recvs = 0;
	memset(e->seen, 0, sizeof(e->seen));
	h->sent = h->received = h->window = 0;
	make_window(e);
	h->gen++;
	fill(e->target, key_of(e, me, INITIAL), TARGET);
	memcpy(h->image, e->target, TARGET);
	memset(e->target + TARGET, 0, WORDS * sizeof(uint64_t));
	memset(h->word, 0, sizeof(h->word));
	fill(source_of(e), key_of(e, me, SOURCE_BYTES), SOURCE);
	memset(e->target + REMOTE, CANARY, GUARD);
	move(e, IBV_QPS_INIT, c);
	e->open = true;
}

static void do_rtr(struct end *e, const struct command *c)
{
	move(e, IBV_QPS_RTR, c);
	e->stopped = false;
	refill(e, DEPTH);
	e->stopped = true;
}

static void do_rts(struct end *e, const struct command *c)
{
	move(e, IBV_QPS_RTS, c);
	e->stopped = false;
}

static void random_step(void)
{
	struct end *e = &ends[below(CONNS)];

	switch (below(20)) {
	case 0:
		usleep((useconds_t)below(200));
		break;
	case 1:
	case 2:
	case 3:
		refill(e, 1 + (uint32_t)below(DEPTH));
		break;
	case 4:
	case 5:
	case 6:
	case 7:
	case 8:
		poll_cqs();
		break;
	default:
		post(e, 1 + (int)below(4), false, false);
	}
}

static void do_run(struct end *e, const struct command *c)
{
	for (int i = 0; i < c->n; i++)
		random_step();
}

static bool requests_done(struct end *e)
{
	return e->done == e->posted;
}

static bool last_is_signaled(const struct end *e)
{
	return e->op[(e->posted - 1) % DEPTH].signaled;
}

/* Its completion is that of all before it. */
static void post_last(struct end *e)
{
	if (e->done != e->posted && !last_is_signaled(e))
		post(e, 1, true, false);
}

static void do_settle(struct end *e, const struct command *c)
{
	for (int i = 0; i < CONNS; i++)
		post_last(&ends[i]);
	for (int i = 0; i < CONNS; i++)
		if (ends[i].open && !ends[i].stopped)
			await(&ends[i], requests_done, "requests");
}

static bool messages_done(struct end *e)
{
	return e->next_in == load_acquire(&peers(e)->sent);
}

static void compare(struct end *e)
{
	const struct half *h = mine(e);

	await(e, messages_done, "messages");
	for (uint32_t i = 0; i < TARGET; i++)
		EXPECT(e->target[i] == h->image[i], AT(e) "target: byte %u is 0x%x, not 0x%x",
		       WHERE(e), i, e->target[i], h->image[i]);
	EXPECT(!memcmp(e->target + TARGET, h->word, sizeof(h->word)), AT(e) "atomics", WHERE(e));
}

static void check_rest(struct end *e)
{
	for (uint32_t i = 0; i < SOURCE; i++)
		EXPECT(source_of(e)[i] == pattern(key_of(e, me, SOURCE_BYTES), i),
		       AT(e) "source: byte %u", WHERE(e), i);
	for (uint32_t i = 0; i < GUARD; i++)
		EXPECT(e->target[REMOTE + i] == CANARY, AT(e) "guard: byte %u", WHERE(e), i);
}

static void do_compare(struct end *unused, const struct command *c)
{
	for (int i = 0; i < CONNS; i++) {
		struct end *e = &ends[i];

		if (!e->open || e->stopped)
			continue;
		if (is(e, IBV_QPT_RC))
			compare(e);
		check_rest(e);
	}
}

static bool has_room(struct end *e)
{
	return e->posted - e->done < DEPTH;
}

static void do_post_bad(struct end *e, const struct command *c)
{
	await(e, has_room, "room");
	post(e, 1 + (int)below(4), false, true);
	post(e, 2, false, false);
}

static bool window_settled(struct end *e)
{
	post_last(e);
	return !e->bind_open || e->failed;
}

/* Nothing writes there any more. */
static void do_deregister(struct end *e, const struct command *c)
{
	uint8_t *before = malloc(REMOTE);

	await(e, window_settled, "window");
	if (e->mw)
		CHECK_EQ(ibv_dealloc_mw(e->mw), 0);
	e->mw = NULL;
	CHECK_EQ(ibv_dereg_mr(e->target_mr), 0);
	e->target_mr = NULL;
	memcpy(before, e->target, REMOTE);
	for (int i = 0; i < 100; i++)
		serve();
	EXPECT(!memcmp(before, e->target, REMOTE), AT(e) "written after its end", WHERE(e));
	free(before);
}

static bool has_failed(struct end *e)
{
	/* As long as nothing is outstanding, nothing tells. */
	if (!e->failed && e->done == e->posted)
		post(e, 1, true, false);
	return e->failed || !is(e, IBV_QPT_RC);
}

static void do_fail(struct end *e, const struct command *c)
{
	post_last(e);
	await(e, has_failed, "failure");
}

static bool in_rts(const struct end *e)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK_EQ(ibv_query_qp(e->qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state == IBV_QPS_RTS;
}

/* A QP that has failed already may have done so before the peer took what it had sent. */
static void do_to_err(struct end *e, const struct command *c)
{
	uint32_t shown = load_acquire(&peers(e)->received);

	if (in_rts(e))
		e->shown = shown;
	move(e, IBV_QPS_ERR, c);
}

static bool all_flushed(struct end *e)
{
	return e->done == e->posted && (e->srq || e->recvs_done == e->recvs);
}

static void do_flush(struct end *e, const struct command *c)
{
	post_last(e);
	e->stopped = true;
	await(e, all_flushed, "flushes");
	/* Nothing comes after them. */
	for (int i = 0; i < 10; i++)
		serve();
}

static void do_to_reset(struct end *e, const struct command *c)
{
	e->stopped = true;
	move(e, IBV_QPS_RESET, c);
	e->open = false;
}

static void do_leave(struct end *e, const struct command *c)
{
	if (c->n == 0)
		exit(0);
	if (c->n == 1)
		_exit(0);
	execl("/bin/true", "true", (char *)NULL);
	abort();
}

static void (*const commands[COMMANDS])(struct end *e, const struct command *c) = {
	[OPEN] = do_open, [INIT] = do_init, [RTR] = do_rtr, [RTS] = do_rts, [RUN] = do_run,
	[SETTLE] = do_settle, [COMPARE] = do_compare, [POST_BAD] = do_post_bad,
	[DEREGISTER] = do_deregister, [FAIL] = do_fail, [TO_ERR] = do_to_err, [FLUSH] = do_flush,
	[TO_RESET] = do_to_reset, [CLOSE] = do_close, [LEAVE] = do_leave,
};

void side_run(int side, int sock)
{
	struct pollfd p = { .fd = sock, .events = POLLIN };
	struct command c;

	me = side;
	world_open(&w);
	for (int i = 0; i < 2; i++)
		cqs[i] = world_cq(&w, CQE);
	while (1) {
		for (int i = 0; i < CONNS; i++)
			refill(&ends[i], DEPTH);
		/* At times the process sleeps, at times it polls. */
		while (!poll_cqs() && poll(&p, 1, below(2)) == 0)
			;
		if (poll(&p, 1, 0) == 0)
			continue;
		if (recv(sock, &c, sizeof(c), MSG_WAITALL) != sizeof(c))
			return;
		threads_random = c.seed;
		seed_ends(c.seed + 1);
		commands[c.kind](&ends[c.conn], &c);
		CHECK_EQ(send(sock, "", 1, MSG_NOSIGNAL), 1);
	}
}
