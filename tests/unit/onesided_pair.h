/* SPDX-License-Identifier: BSD-2-Clause */
/* Two members of the host in one process: one has published memory, the other is its peer. */
#ifndef TESTS_UNIT_ONESIDED_PAIR_H
#define TESTS_UNIT_ONESIDED_PAIR_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "host/host.h"
#include "local/onesided.h"
#include "local/peer.h"

#include "place.h"

enum {
	NETNS = 42,
	PDN = 7,
	RKEY = 3 << 28 | 5 << 8 | 9,
	LEN = 4096,
	VA = 0x100000,
};

static char dir[64];
static struct host *host[2];
static struct local *local[2];
static struct local_peer *peer;		/* member 1 as member 0 sees it */
static struct wq_qp requester, remote;		/* of member 0 and of member 1 */
static struct mr_entry *key;
static struct mr_entry good_key;
static uint64_t memory[LEN / 8];	/* of member 1 */

static void publish(const struct wq_qp *qp, bool established)
{
	assert_int_equal(segment_publish_qp(local_segment(local[1]), qp,
					    (struct seg_qp_facts){ .established = established }),
			 0);
}

enum { WRONG_QPS = 7 };

/* One that refuses WRITEs of the requester, in one of several ways. */
static inline struct wq_qp wrong_qp(int way)
{
	struct wq_qp qp = remote;

	switch (way) {
	case 0: qp.dest_qpn++; break;
	case 1: qp.path.src.raw[15]++; break;
	case 2: qp.path.dst.raw[15]++; break;
	case 3: qp.type = IBV_QPT_UC; break;
	case 4: qp.access &= ~IBV_ACCESS_REMOTE_WRITE; break;
	case 5: qp.pdn++; break;
	default: qp.state = IBV_QPS_ERR; break;
	}
	return qp;
}

static int finish(void **state);

static int start(void **state)
{
	place_make_dir(dir);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(host_join(dir, &host[i]), 0);
		assert_int_equal(local_start(host[i], NETNS, &local[i]), 0);
	}
	requester = (struct wq_qp){ .type = IBV_QPT_RC, .state = IBV_QPS_RTS };
	requester.path.src.raw[0] = 1;
	requester.path.dst.raw[0] = 2;
	remote = requester;
	remote.path.src = requester.path.dst;
	remote.path.dst = requester.path.src;
	remote.pdn = PDN;
	remote.max_dest_rd_atomic = 1;
	remote.access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	assert_int_equal(host_qpn_alloc(host[0], 0, &requester.qpn), 0);
	assert_int_equal(host_qpn_alloc(host[1], 0, &remote.qpn), 0);
	requester.dest_qpn = remote.qpn;
	remote.dest_qpn = requester.qpn;
	publish(&remote, true);

	key = segment_keys(local_segment(local[1]), 0, SEG_KEY_CHUNK);
	assert_non_null(key);
	key += mr_key_index(RKEY);
	good_key = (struct mr_entry){
		.refs = MR_LIVE, .rkey = RKEY, .lkey = RKEY + 1, .pdn = PDN, .kind = MR_REGION,
		.access = IBV_ACCESS_LOCAL_WRITE | remote.access, .va = VA, .length = LEN,
		.host = (uintptr_t)memory,
	};
	good_key.sum = mr_entry_sum(&good_key);
	*key = good_key;
	peer = local_peer_get(local[0], remote.qpn);
	assert_non_null(peer);
	if (!local_peer_cma(peer)) {
		printf("skip: process_vm_readv is refused\n");
		finish(state);
		exit(77);
	}
	return 0;
}

static int finish(void **state)
{
	local_peer_put(local[0], peer);
	for (int i = 0; i < 2; i++) {
		local_stop(local[i]);
		host_leave(host[i]);
	}
	place_remove_dir(dir);
	return 0;
}

static const struct lane *lane(void)
{
	return segment_lane(local_segment(local[1]), host_slot(host[0]));
}

#endif
