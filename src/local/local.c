/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Starts and stops the transport, puts it to sleep and wakes it. local.h documents the interface.
 */
#include "local/local.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/prctl.h>
#ifdef HAVE_SINGLE_THREADED_H
#include <sys/single_threaded.h>
#endif

#include "host/host.h"
#include "local/parts.h"
#include "local/peer.h"
#include "util/atomic.h"
#include "util/compiler.h"
#include "util/heavy_fence.h"
#include "util/list.h"
#include "util/tuning.h"

/*
 * The Yama security module would otherwise deny it: allows the user's other processes to access
 * this process's memory, as RDMA implies. EINVAL: there is no Yama.
 */
static void allow_access(void)
{
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
}

/* Withdraws that permission when the transport stops. */
static void forbid_access(void)
{
	prctl(PR_SET_PTRACER, 0, 0, 0, 0);
}

/*
 * While the process has one thread, joining costs a system call each.  Later it waits for all
 * processors, about 10 ms, in the program's first ibv_open_device().  (musl does not tell; so in a
 * program with threads it may wait here already, in dlopen().)
 */
static __attribute__((constructor)) void join_early(void)
{
#ifdef HAVE_SINGLE_THREADED_H
	if (!__libc_single_threaded)
		return;
#endif
	heavy_fence_join();
	heavy_fence_own_join();
}

int local_start(struct host *host, uint64_t netns, struct local **out)
{
	struct local *l = calloc(1, sizeof(*l));
	int err;

	if (l == NULL)
		return ENOMEM;
	err = segment_create(host, netns, &l->seg);
	if (err != 0) {
		free(l);
		return err;
	}
	allow_access();
	store_relaxed(&segment_header(l->seg)->heavy, heavy_fence_join());
	l->host = host;
	lock_init(&l->lock);
	lock_init(&l->reading);
	list_init(&l->peers);
	list_init(&l->unused);
	list_init(&l->bells);
	*out = l;
	return 0;
}

static void free_peers(struct local *l)
{
	struct list *pos, *tmp;

	list_for_each_safe(pos, tmp, &l->unused)
		peer_free(list_entry(pos, struct local_peer, node));
	list_for_each_safe(pos, tmp, &l->peers)
		peer_free(list_entry(pos, struct local_peer, node));
	lock_destroy(&l->lock);
	lock_destroy(&l->reading);
	free(l);
}

void local_stop(struct local *l)
{
	struct list *pos;

	/* Free our lanes for the next process in this slot. */
	list_for_each(pos, &l->peers) {
		struct local_peer *peer = list_entry(pos, struct local_peer, node);
		uint32_t slot = host_slot(l->host);
		struct seg_header *h = peer->map.header;

		fetch_or_acq_rel(&h->opened[slot / 64], 1ull << slot % 64);
		fetch_add_acq_rel(&h->news, 1);
	}
	forbid_access();
	keeper_end(&segment_header(l->seg)->keeper);
	segment_destroy(l->seg, l->host);
	free_peers(l);
}

void local_forget(struct local *l)
{
	segment_forget(l->seg);
	free_peers(l);
}

void local_keep(struct local *l)
{
	keeper_begin(&l->keeper, &segment_header(l->seg)->keeper);
}

struct segment *local_segment(struct local *l)
{
	return l->seg;
}

uint64_t local_incarnation(const struct local *l)
{
	return host_incarnation(l->host);
}

void local_heavy_fence(struct local *l)
{
	if (likely(heavy_fence()))
		return;
	store_relaxed(&segment_header(l->seg)->heavy, 0);
	heavy_fence_settle();
}

void local_polled(struct local *l)
{
	struct seg_header *h = segment_header(l->seg);

	if (likely(l->polls > TUNE_POLL_HANDOFF))
		return;
	if (++l->polls > TUNE_POLL_HANDOFF)
		store_relaxed(&h->polled, load_relaxed(&h->heavy));
}

bool local_sleep(struct local *l)
{
	struct seg_header *h = segment_header(l->seg);

	/* L2: store asleep before, load the lanes and their tails after */
	store_relaxed(&h->asleep, 1);
	if (load_relaxed(&h->polled)) {
		store_relaxed(&h->polled, 0);
		local_heavy_fence(l);
	} else {
		full_fence();
	}
	l->polls = 0;
	if (!local_input_waits(l) && !peers_have_news(l))
		return true;
	store_relaxed(&h->asleep, 0);
	return false;
}

void local_wake(struct local *l)
{
	/* A late store costs one needless doorbell. */
	store_relaxed(&segment_header(l->seg)->asleep, 0);
}

bool local_sleeps(const struct local *l)
{
	return load_relaxed(&segment_header(l->seg)->asleep);
}
