/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * QP numbers: unique among all processes, reused as late as possible, and a number with a block of
 * its own can be taken over.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/qpn.h"
#include "host_env.h"
#include "place.h"
#include "run/clock.h"
#include "util/atomic.h"
#include "util/compiler.h"
#include "util/time.h"

enum { MANY = 20 * QPN_BLOCK };	/* more than QPN_SPARE */

static void numbers_are_unique_and_reused_late(void **state)
{
	struct host *h = join();
	static uint8_t seen[1 << 24];
	uint32_t qpn, first;
	unsigned int i, blocks;

	for (i = 0; i < MANY; i++) {
		assert_int_equal(host_qpn_alloc(h, 0, &qpn), 0);
		assert_true(qpn > 1 && qpn < 0xffffff);
		assert_false(seen[qpn]++);
	}
	for (i = 0; i < 1 << 24; i++)
		if (seen[i])
			host_qpn_free(h, i);

	/*
	 * Allocated one at a time: a number is reused only after all other free ones, and no new
	 * block is taken.
	 */
	blocks = host_blocks_taken(h);
	assert_int_equal(blocks, MANY / QPN_BLOCK);
	assert_int_equal(host_qpn_alloc(h, 0, &first), 0);
	host_qpn_free(h, first);
	for (i = 0; i < 1000; i++) {
		assert_int_equal(host_qpn_alloc(h, 0, &qpn), 0);
		assert_int_not_equal(qpn, first);
		host_qpn_free(h, qpn);
		host_qpn_free(h, qpn);
	}
	assert_int_equal(host_blocks_taken(h), blocks);
	host_leave(h);
}

/* A process that has few numbers takes more, all next to each other, before it reuses one. */
static void a_freed_number_rests(void **state)
{
	static uint8_t seen[1 << 24];
	struct host *h = join();
	uint32_t qpn, low = UINT32_MAX, high = 0;
	uint64_t start = clock_now();
	unsigned int n;

	for (n = 0; n < QPN_SPARE; n++) {
		assert_int_equal(host_qpn_alloc(h, 0, &qpn), 0);
		host_qpn_free(h, qpn);
		if (clock_now() - start >= QPN_REST * VRB_SECOND)
			goto slow;
		assert_false(seen[qpn]++);
		low = min(low, qpn);
		high = max(high, qpn);
	}
	assert_int_equal(host_blocks_taken(h), QPN_SPARE / QPN_BLOCK);
	if (low >= 2 * QPN_BLOCK)	/* else they may be the last ones and the first ones */
		assert_int_equal(high - low, QPN_SPARE - 1);
	assert_int_equal(host_qpn_alloc(h, 0, &qpn), 0);
	assert_true(seen[qpn]);
	assert_int_equal(host_blocks_taken(h), QPN_SPARE / QPN_BLOCK);
slow:
	host_leave(h);
}

static void unused_blocks_are_released_and_reused_late(void **state)
{
	struct host *a = join(), *b = join();
	uint32_t qpn[2 * QPN_SPARE];
	unsigned int i, owned = 0;

	for (i = 0; i < ARRAY_SIZE(qpn); i++)
		assert_int_equal(host_qpn_alloc(a, 0, &qpn[i]), 0);
	for (i = 0; i < ARRAY_SIZE(qpn); i++)
		host_qpn_free(a, qpn[i]);
	for (i = 0; i < ARRAY_SIZE(qpn); i += QPN_BLOCK)
		owned += host_owner(b, qpn[i]) == host_slot(a);
	assert_int_equal(owned, QPN_SPARE / QPN_BLOCK);
	host_leave(a);
	host_leave(b);
}

static void the_shard_of_an_own_number_is_known(void **state)
{
	struct host *a = join(), *b = join();
	uint32_t qpn;

	for (unsigned int shard = 0; shard < HOST_SHARDS; shard++) {
		assert_int_equal(host_qpn_alloc(a, shard, &qpn), 0);
		assert_int_equal(host_qpn_shard(a, qpn), shard);
		assert_int_equal(host_qpn_shard(b, qpn), 0);
	}
	assert_int_equal(host_qpn_alloc_alone(a, &qpn), 0);
	assert_int_equal(host_qpn_shard(a, qpn), 0);
	host_leave(a);
	host_leave(b);
}

/* Random operations against a set. */
static void numbers_agree_with_an_oracle(void **state)
{
	uint64_t seed = place_seed();
	struct host *h = join();
	static uint32_t held[5000];
	size_t n = 0;
	int i;

	for (i = 0; i < 60000; i++) {
		bool grow = place_next(&seed) % 8192 < (i / 10000 % 2 ? 3000u : 5200u);
		size_t k;

		if (grow && n < ARRAY_SIZE(held)) {
			assert_int_equal(host_qpn_alloc(h, 0, &held[n++]), 0);
		} else if (n) {
			k = place_next(&seed) % n;
			host_qpn_free(h, held[k]);
			held[k] = held[--n];
		}
	}
	for (i = 0; (size_t)i < n; i++) {
		size_t j;

		for (j = (size_t)i + 1; j < n && i < 200; j++)
			assert_int_not_equal(held[i], held[j]);
		assert_int_equal(host_owner(h, held[i]), host_slot(h));
	}
	host_leave(h);
}

/* Shared with children: the owner of each number. */
static uint8_t *taken;

enum { CHILDREN = 12, ROUNDS = 400 };

static void churn(uint64_t seed)
{
	struct host *h = join();
	uint32_t held[64];
	size_t n = 0;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		if (n < ARRAY_SIZE(held) && place_next(&seed) % 3) {
			if (host_qpn_alloc(h, 0, &held[n]))
				_exit(2);
			if (swap_acq_rel(&taken[held[n++]], 1))
				_exit(3);
		} else if (n) {
			store_release(&taken[held[--n]], 0);
			host_qpn_free(h, held[n]);
		}
	}
	while (n)
		store_release(&taken[held[--n]], 0);
	host_leave(h);
	_exit(0);
}

static void many_processes_never_share_a_number(void **state)
{
	uint64_t seed = place_seed();
	int i, status;

	taken = mmap(NULL, 1 << 24, PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_true(taken != MAP_FAILED);
	for (i = 0; i < CHILDREN; i++)
		if (fork() == 0)
			churn(seed + (uint64_t)i);
	for (i = 0; i < CHILDREN; i++) {
		wait(&status);
		assert_int_equal(status, 0);
	}
	munmap(taken, 1 << 24);
}

/*
 * A number with a block of its own moves from process to process, and packets are forwarded
 * accordingly.
 */
static void a_number_with_its_own_block_can_be_taken_over(void **state)
{
	struct host *a = join(), *b = join(), *c = join();
	static uint8_t buf[HOST_PACKET_MAX];
	struct net_path path;
	uint32_t qpn, other;
	size_t len;

	assert_int_equal(host_qpn_alloc_alone(a, &qpn), 0);
	assert_int_equal(host_qpn_alloc_alone(a, &other), 0);
	assert_int_not_equal(qpn >> HOST_BLOCK_BITS, other >> HOST_BLOCK_BITS);
	assert_int_equal(host_owner(c, qpn), host_slot(a));
	assert_int_equal(host_qpn_take(b, qpn, host_slot(c)), EINVAL);
	assert_int_equal(host_qpn_take(b, qpn, host_slot(a)), 0);
	assert_true(host_qpn_mine(b, qpn));
	assert_false(host_qpn_mine(a, qpn));
	host_qpn_free(a, qpn);
	assert_int_equal(host_owner(a, qpn), host_slot(b));
	assert_int_equal(host_owner(b, qpn), host_slot(b));
	assert_int_equal(host_hand(c, qpn, &some_path, buf, 8, 1), 0);
	assert_int_equal(host_inbox_recv(b, &path, buf, &len), HOST_PACKET);
	/* and back, before the first owner has released it */
	assert_int_equal(host_qpn_take(a, qpn, host_slot(b)), 0);
	assert_int_equal(host_owner(b, qpn), host_slot(a));
	assert_int_equal(host_qpn_take(b, qpn, host_slot(a)), 0);
	assert_int_equal(host_owner(a, qpn), host_slot(b));
	host_qpn_free(b, qpn);
	assert_int_equal(host_owner(c, qpn), HOST_NO_SLOT);
	host_leave(a);
	assert_int_equal(host_owner(c, other), HOST_NO_SLOT);
	host_leave(b);
	host_leave(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_DIR(numbers_are_unique_and_reused_late),
		IN_DIR(a_freed_number_rests),
		IN_DIR(unused_blocks_are_released_and_reused_late),
		IN_DIR(the_shard_of_an_own_number_is_known),
		IN_DIR(numbers_agree_with_an_oracle),
		IN_DIR(many_processes_never_share_a_number),
		IN_DIR(a_number_with_its_own_block_can_be_taken_over),
	};

	setenv("VERBENA_LOG", "off", 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
