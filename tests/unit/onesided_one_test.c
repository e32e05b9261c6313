/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A single one-sided request, in mapped memory and under the last key: each condition violated
 * once; the bytes copied; the hazards.
 */
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "local/keeper.h"
#include "onesided_pair.h"
#include "run/nofault.h"

enum {
	EDITION = 5,
	LKEY = 2 << 28 | 6 << 8 | 3,
	OWN_VA = 0x5000,
};

static uint64_t *theirs;	/* the memory of member 1 */
static int file;		/* open: member 0 may map it again */

static void map_key(void)
{
	struct wq_seg seg = { 0, 8 };
	struct onesided o;

	local_tx_begin(peer);
	assert_true(onesided_begin(&o, peer, &requester));
	assert_true(onesided_add(&o, RKEY, VA, 8, MEM_REMOTE_ATOMIC, &seg, 1));
	assert_true(o.mapped);
	onesided_end(&o);
	local_tx_end(local[0], peer, false);
}

/* The region is in a file, and member 0 maps it. */
static int map_memory(void **state)
{
	int fd = memfd_create("onesided", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, LEN))
		return -1;
	theirs = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (theirs == MAP_FAILED)
		return -1;
	*key = good_key;
	key->refs |= EDITION;
	key->host = (uintptr_t)theirs;
	key->sum = mr_entry_sum(key);
	map_key();
	file = fd;
	return 0;
}

static int unmap_memory(void **state)
{
	local_tx_begin(peer);
	peer_unmap_regions(peer);
	local_tx_end(local[0], peer, false);
	*key = good_key;
	peer->cma = true;
	close(file);
	return munmap(theirs, LEN);
}

/* The region is private, and member 0 has used its key. */
static int use_key(void **state)
{
	struct wq_seg seg = { 0, 8 };
	struct onesided o;

	theirs = memory;
	*key = good_key;
	local_tx_begin(peer);
	assert_true(onesided_begin(&o, peer, &requester));
	assert_true(onesided_add(&o, RKEY, VA, 8, MEM_REMOTE_READ, &seg, 1));
	assert_false(o.mapped);
	onesided_end(&o);
	local_tx_end(local[0], peer, false);
	return 0;
}

static int restore_key(void **state)
{
	*key = good_key;
	peer->cma = true;
	return 0;
}

static bool execute(struct onesided_request *r)
{
	struct onesided_target target = { 0 };
	struct seg_qp copy;
	bool ok;

	r->entry = local_peer_qp(peer, remote.qpn, &copy);
	r->target = &target;
	local_tx_begin(peer);
	ok = onesided_one(local[0], peer, &requester, r);
	assert_int_equal(lane()->hazard[0], 0);
	assert_int_equal(peer->own_key, 0);
	local_tx_end(local[0], peer, false);
	return ok;
}

/* As try(), for a single request. */
static bool try_one(uint32_t rkey, uint64_t va, uint64_t len, enum mem_access access)
{
	uint64_t data = 0x1122334455667788;
	bool ok = execute(&(struct onesided_request){
		.va = va, .rkey = rkey, .addr = (uintptr_t)&data, .len = len, .access = access,
	});

	if (ok && access == MEM_REMOTE_READ)
		assert_memory_equal(&data, (uint8_t *)theirs + (va - VA), len);
	return ok;
}

static bool write_one(void)
{
	bool ok;

	theirs[2] = 0;
	ok = try_one(RKEY, VA + 16, 8, MEM_REMOTE_WRITE);
	assert_int_equal(theirs[2], ok ? 0x1122334455667788 : 0);
	return ok;
}

static void one_request_reads_and_writes(void **state)
{
	assert_true(write_one());
	assert_true(try_one(RKEY, VA + 16, 8, MEM_REMOTE_READ));
	assert_false(try_one(RKEY, VA + LEN - 4, 8, MEM_REMOTE_WRITE));
	assert_false(try_one(RKEY, VA - 1, 8, MEM_REMOTE_WRITE));
	assert_false(try_one(RKEY, VA, UINT64_MAX, MEM_REMOTE_WRITE));
	assert_false(try_one(RKEY ^ 1, VA, 8, MEM_REMOTE_WRITE));
	assert_false(try_one(RKEY + (1 << 8), VA, 8, MEM_REMOTE_WRITE));
}

static bool try_atomic(enum atomic_op op, uint64_t va, uint64_t compare_add, void *original)
{
	return execute(&(struct onesided_request){
		.va = va, .rkey = RKEY, .addr = (uintptr_t)original, .len = 8,
		.access = MEM_REMOTE_ATOMIC, .op = op, .compare_add = compare_add, .swap = 7,
	});
}

static void one_request_is_an_atomic(void **state)
{
	uint64_t original = 0;

	theirs[4] = 40;
	assert_true(try_atomic(ATOMIC_OP_FETCH_ADD, VA + 32, 2, &original));
	assert_int_equal(original, 40);
	assert_int_equal(theirs[4], 42);
	assert_true(try_atomic(ATOMIC_OP_CMP_SWAP, VA + 32, 41, &original));
	assert_int_equal(original, 42);
	assert_int_equal(theirs[4], 42);
	original = 0;
	assert_true(try_atomic(ATOMIC_OP_CMP_SWAP, VA + 32, 42, &original));
	assert_int_equal(original, 42);
	assert_int_equal(theirs[4], 7);
	assert_false(try_atomic(ATOMIC_OP_FETCH_ADD, VA + 36, 2, &original));
	assert_false(try_atomic(ATOMIC_OP_FETCH_ADD, VA + LEN, 2, &original));
	assert_int_equal(theirs[4], 7);
}

/* Aligned addresses, but not the memory behind them: the owner's process emulates such atomics. */
static void one_atomic_needs_aligned_memory(void **state)
{
	uint64_t original;

	key->refs++;	/* another edition */
	key->host = (uintptr_t)theirs + 4;
	key->length = LEN - 8;
	key->sum = mr_entry_sum(key);
	map_key();
	assert_true(try_one(RKEY, VA, 8, MEM_REMOTE_WRITE));
	assert_false(try_atomic(ATOMIC_OP_FETCH_ADD, VA, 1, &original));
	assert_int_equal(theirs[0] >> 32, 0x55667788);
}

/* An atomic whose result has no place has not happened. */
static void one_atomic_needs_a_place_for_its_result(void **state)
{
	void *nowhere = mmap(NULL, LEN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(nowhere != MAP_FAILED);
	vrb_guard_install();	/* cmocka has put its handlers in front */
	theirs[4] = 40;
	assert_false(try_atomic(ATOMIC_OP_FETCH_ADD, VA + 32, 2, nowhere));
	assert_int_equal(theirs[4], 40);
	munmap(nowhere, LEN);
}

static void one_request_needs_the_queue_pair(void **state)
{
	struct wq_qp qp;

	for (int way = 0; way < WRONG_QPS; way++) {
		qp = wrong_qp(way);
		publish(&qp, true);
		assert_false(write_one());
	}
	qp = remote;
	qp.max_dest_rd_atomic = 0;
	publish(&qp, true);
	assert_true(write_one());
	assert_false(try_one(RKEY, VA, 8, MEM_REMOTE_READ));
	publish(&remote, true);
	assert_true(try_one(RKEY, VA, 8, MEM_REMOTE_READ));
}

static void one_atomic_needs_the_queue_pair(void **state)
{
	struct wq_qp qp = remote;
	uint64_t original;

	qp.max_dest_rd_atomic = 0;
	publish(&qp, true);
	assert_false(try_atomic(ATOMIC_OP_FETCH_ADD, VA, 1, &original));
	qp = remote;
	qp.access &= ~IBV_ACCESS_REMOTE_ATOMIC;
	publish(&qp, true);
	assert_true(write_one());
	assert_false(try_atomic(ATOMIC_OP_FETCH_ADD, VA, 1, &original));
	publish(&remote, true);
	assert_true(try_atomic(ATOMIC_OP_FETCH_ADD, VA, 1, &original));
}

/* Whatever else the entry says, it is another registration, or none. */
static void one_request_needs_the_edition(void **state)
{
	key->refs = EDITION;
	assert_false(write_one());
	key->refs = MR_LIVE | (EDITION + 1);
	assert_false(write_one());
	key->refs = MR_LIVE;
	assert_false(write_one());
	key->refs = MR_LIVE | EDITION;
	assert_true(write_one());
	local_tx_begin(peer);
	peer_unmap_regions(peer);
	local_tx_end(local[0], peer, false);
	assert_false(write_one());
}

/* The entry may have changed since. */
static void one_request_needs_the_last_key(void **state)
{
	struct mr_entry e;

	for (int wrong = 0; wrong < 6; wrong++) {
		e = good_key;
		switch (wrong) {
		case 0: e.refs = 0; break;
		case 1: e.rkey ^= 1 << 28; break;
		case 2: e.access &= ~IBV_ACCESS_REMOTE_WRITE; break;
		case 3: e.length--; break;
		case 4: e.refs |= EDITION; break;
		default: e.host += 8; break;
		}
		e.sum = mr_entry_sum(&e);
		*key = e;
		assert_false(write_one());
	}
	*key = good_key;
	assert_true(write_one());
	assert_false(try_one(RKEY, VA, 8, MEM_REMOTE_ATOMIC));
}

/* Member 0 used the key when it named something else. */
static void one_request_needs_an_unmapped_region(void **state)
{
	struct mr_entry e;

	for (int wrong = 0; wrong < 3; wrong++) {
		e = good_key;
		switch (wrong) {
		case 0: e.kind = MR_WINDOW; break;
		case 1: e.kind = MR_NULL; break;
		default: e.refs |= EDITION; break;
		}
		e.sum = mr_entry_sum(&e);
		*key = peer->whole_key = e;
		assert_false(write_one());
	}
	*key = peer->whole_key = good_key;
	peer->cma = false;
	assert_false(write_one());
	peer->cma = true;
	assert_true(write_one());
}

static void one_request_is_copied_whole(void **state)
{
	static uint64_t data[LEN / 8];

	for (int i = 0; i < LEN / 8; i++)
		data[i] = (uint64_t)i << 32 | 7;
	assert_true(execute(&(struct onesided_request){
		.va = VA, .rkey = RKEY, .addr = (uintptr_t)data, .len = LEN,
		.access = MEM_REMOTE_WRITE,
	}));
	assert_memory_equal(theirs, data, LEN);
	memset(data, 0, LEN);
	assert_true(execute(&(struct onesided_request){
		.va = VA + 8, .rkey = RKEY, .addr = (uintptr_t)data, .len = LEN - 13,
		.access = MEM_REMOTE_READ,
	}));
	assert_memory_equal(data, theirs + 1, LEN - 13);
	assert_int_equal(data[LEN / 8 - 1], 0);
}

static void one_request_fails_at_a_hole(void **state)
{
	void *nowhere = mmap(NULL, LEN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(nowhere != MAP_FAILED);
	for (int write = 0; write < 2; write++)
		assert_false(execute(&(struct onesided_request){
			.va = VA, .rkey = RKEY, .addr = (uintptr_t)nowhere, .len = LEN,
			.access = write ? MEM_REMOTE_WRITE : MEM_REMOTE_READ,
		}));
	munmap(nowhere, LEN);
	assert_true(local_peer_cma(peer));
}

/* In the requester's own process, addresses need no kernel, and atomics no mapping. */
static void one_request_to_itself_is_a_copy(void **state)
{
	uint64_t original = 0;

	peer->self = true;
	assert_true(write_one());
	assert_true(try_one(RKEY, VA + 16, 8, MEM_REMOTE_READ));
	theirs[4] = 40;
	assert_true(try_atomic(ATOMIC_OP_FETCH_ADD, VA + 32, 2, &original));
	assert_int_equal(original, 40);
	assert_int_equal(theirs[4], 42);
	peer->self = false;
	assert_false(try_atomic(ATOMIC_OP_FETCH_ADD, VA + 32, 2, &original));
	assert_int_equal(theirs[4], 42);
}

static void one_request_needs_the_process(void **state)
{
	uint32_t *keeper = &segment_header(local_segment(local[1]))->keeper;

	*keeper = 4711;
	assert_true(write_one());
	*keeper |= FUTEX_OWNER_DIED;
	assert_false(write_one());
	assert_false(try_one(RKEY, VA, 8, MEM_REMOTE_READ));
	*keeper = 0;
}

static uint64_t own_memory[2] = { 0, 0x1122334455667788 };

static const struct mr_entry own_key = {
	.refs = MR_LIVE, .lkey = LKEY, .kind = MR_REGION, .access = IBV_ACCESS_LOCAL_WRITE,
	.va = OWN_VA, .length = sizeof(own_memory),
};

static bool write_from(const struct mr_entry *own, uint32_t lkey, uint64_t addr)
{
	bool ok;

	theirs[2] = 0;
	ok = execute(&(struct onesided_request){
		.va = VA + 16, .rkey = RKEY, .addr = addr, .len = 8, .own = own, .lkey = lkey,
		.access = MEM_REMOTE_WRITE,
	});
	assert_int_equal(theirs[2], ok ? own_memory[1] : 0);
	return ok;
}

static bool read_to(const struct mr_entry *own)
{
	return execute(&(struct onesided_request){
		.va = VA, .rkey = RKEY, .addr = OWN_VA, .len = 8, .own = own, .lkey = LKEY,
		.access = MEM_REMOTE_READ,
	});
}

/* Each condition violated once. */
static void one_request_needs_its_own_key(void **state)
{
	struct mr_entry own = own_key, wrong;

	own.host = (uintptr_t)own_memory;
	own_memory[0] = 0;
	assert_true(write_from(&own, LKEY, OWN_VA + 8));
	assert_false(write_from(&own, LKEY ^ 1, OWN_VA + 8));
	assert_false(write_from(&own, LKEY, OWN_VA - 8));
	assert_false(write_from(&own, LKEY, OWN_VA + 12));
	wrong = own;
	wrong.refs = 1;
	assert_false(write_from(&wrong, LKEY, OWN_VA + 8));
	wrong = own;
	wrong.pdn = requester.send_pdn + 1;
	assert_false(write_from(&wrong, LKEY, OWN_VA + 8));
	wrong = own;
	wrong.kind = MR_NULL;
	assert_false(write_from(&wrong, LKEY, OWN_VA + 8));
	theirs[0] = 5;
	wrong = own;
	wrong.access = 0;
	assert_false(read_to(&wrong));
	assert_int_equal(own_memory[0], 0);
	assert_true(read_to(&own));
	assert_int_equal(own_memory[0], 5);
}

static bool copied;

static void *deregister(void *begun)
{
	store_release((bool *)begun, true);
	local_wait_unused(local[0], mr_key_index(LKEY));
	return load_acquire(&copied) ? NULL : &copied;
}

/* Deregistration waits for the copies of this process's other threads. */
static void own_copies_are_waited_for(void **state)
{
	bool begun = false;
	pthread_t other;
	void *early;

	store_relaxed(&peer->own_key, mr_key_index(LKEY));
	assert_int_equal(pthread_create(&other, NULL, deregister, &begun), 0);
	while (!load_acquire(&begun))
		sched_yield();
	for (int i = 0; i < 1000; i++)
		sched_yield();	/* a chance to return too early */
	store_release(&copied, true);
	store_release(&peer->own_key, 0);
	assert_int_equal(pthread_join(other, &early), 0);
	assert_null(early);
}

#define MAPPED_TEST(f) cmocka_unit_test_setup_teardown(f, map_memory, unmap_memory)
#define PRIVATE_TEST(f) cmocka_unit_test_setup_teardown(f, use_key, restore_key)

int main(void)
{
	const struct CMUnitTest tests[] = {
		MAPPED_TEST(one_request_reads_and_writes),
		MAPPED_TEST(one_request_is_copied_whole),
		MAPPED_TEST(one_request_is_an_atomic),
		MAPPED_TEST(one_atomic_needs_aligned_memory),
		MAPPED_TEST(one_atomic_needs_a_place_for_its_result),
		MAPPED_TEST(one_request_needs_the_queue_pair),
		MAPPED_TEST(one_atomic_needs_the_queue_pair),
		MAPPED_TEST(one_request_needs_the_edition),
		MAPPED_TEST(one_request_needs_the_process),
		MAPPED_TEST(one_request_needs_its_own_key),
		PRIVATE_TEST(one_request_reads_and_writes),
		PRIVATE_TEST(one_request_is_copied_whole),
		PRIVATE_TEST(one_request_fails_at_a_hole),
		PRIVATE_TEST(one_request_needs_the_queue_pair),
		PRIVATE_TEST(one_request_needs_the_last_key),
		PRIVATE_TEST(one_request_needs_an_unmapped_region),
		PRIVATE_TEST(one_request_to_itself_is_a_copy),
		PRIVATE_TEST(one_request_needs_the_process),
		PRIVATE_TEST(one_request_needs_its_own_key),
		cmocka_unit_test(own_copies_are_waited_for),
	};

	return cmocka_run_group_tests(tests, start, finish);
}
