/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checks of one-sided access: each condition violated once; the bytes copied; the hazard pointers.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "local/keeper.h"
#include "onesided_pair.h"

/* Tries one access of 8 bytes at offset 16; returns whether it was permitted. */
static bool try(const struct wq_qp *qp, uint32_t rkey, uint64_t va, uint64_t len,
		enum mem_access access)
{
	uint64_t data = 0x1122334455667788;
	struct wq_seg seg = { (uintptr_t)&data, len };
	struct onesided o;
	bool ok;

	local_tx_begin(peer);
	ok = onesided_begin(&o, peer, qp) && onesided_add(&o, rkey, va, len, access, &seg, 1);
	if (ok) {
		assert_int_equal(lane()->hazard[0], mr_key_index(rkey));
		ok = access == MEM_REMOTE_WRITE ? onesided_write(&o) : onesided_read(&o);
	}
	onesided_end(&o);
	for (int i = 0; i < LANE_HAZARDS; i++)
		assert_int_equal(lane()->hazard[i], 0);
	local_tx_end(local[0], peer, false);
	return ok;
}

static bool write_here(void)
{
	bool ok;

	memory[2] = 0;
	ok = try(&requester, RKEY, VA + 16, 8, MEM_REMOTE_WRITE);
	assert_int_equal(memory[2], ok ? 0x1122334455667788 : 0);
	return ok;
}

static void the_queue_pair_must_be_receiving(void **state)
{
	static const struct {
		uint8_t state;
		bool established, ok;
	} rows[] = {
		{ IBV_QPS_RESET, true, false }, { IBV_QPS_INIT, true, false },
		{ IBV_QPS_RTR, false, false },  { IBV_QPS_RTR, true, true },
		{ IBV_QPS_RTS, false, true },   { IBV_QPS_SQD, true, true },
		{ IBV_QPS_SQE, true, false },   { IBV_QPS_ERR, true, false },
	};
	struct wq_qp qp = remote;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		qp.state = rows[i].state;
		publish(&qp, rows[i].established);
		assert_int_equal(write_here(), rows[i].ok);
	}
	segment_retract_qp(local_segment(local[1]), remote.qpn);
	assert_false(write_here());
	publish(&remote, true);
	assert_true(write_here());
}

static void it_must_be_our_peer(void **state)
{
	struct wq_qp qp;

	for (int way = 0; way < WRONG_QPS; way++) {
		qp = wrong_qp(way);
		publish(&qp, true);
		assert_false(write_here());
	}
	qp = remote;
	qp.max_dest_rd_atomic = 0;
	publish(&qp, true);
	assert_true(write_here());
	assert_false(try(&requester, RKEY, VA, 8, MEM_REMOTE_READ));
	publish(&remote, true);
	assert_true(try(&requester, RKEY, VA, 8, MEM_REMOTE_READ));
}

static void the_key_must_grant_it(void **state)
{
	struct mr_entry e;

	for (int wrong = 0; wrong < 8; wrong++) {
		e = good_key;
		switch (wrong) {
		case 0: e.refs = 0; break;
		case 1: e.rkey ^= 1; break;
		case 2: e.pdn++; break;
		case 3: e.access &= ~IBV_ACCESS_REMOTE_WRITE; break;
		case 4: e.length = 23; break;
		case 5: e.va = VA + 17; break;
		case 6: e.kind = MR_NULL; break;
		default: e.kind = MR_WINDOW; e.mw_type = IBV_MW_TYPE_2; e.qpn = remote.qpn + 1;
			 break;
		}
		e.sum = mr_entry_sum(&e);
		*key = e;
		assert_false(write_here());
	}
	/* The address was corrupted. */
	*key = good_key;
	key->host += 8;
	assert_false(write_here());
	*key = good_key;
	assert_true(write_here());
	assert_false(try(&requester, RKEY, VA + LEN - 4, 8, MEM_REMOTE_WRITE));
	assert_false(try(&requester, RKEY, UINT64_MAX - 3, 8, MEM_REMOTE_WRITE));
	assert_false(try(&requester, RKEY, VA, UINT64_MAX, MEM_REMOTE_WRITE));
	assert_false(try(&requester, 0xffffffff, VA, 8, MEM_REMOTE_WRITE));
}

/* A change between the check of the QP and the copy is detected. */
static void a_change_during_the_access_is_detected(void **state)
{
	uint64_t data = 1;
	struct wq_seg seg = { (uintptr_t)&data, 8 };
	struct onesided o;

	memory[0] = 0;
	local_tx_begin(peer);
	assert_true(onesided_begin(&o, peer, &requester));
	assert_true(onesided_add(&o, RKEY, VA, 8, MEM_REMOTE_WRITE, &seg, 1));
	publish(&remote, true);
	assert_false(onesided_write(&o));
	onesided_end(&o);
	local_tx_end(local[0], peer, false);
	assert_int_equal(memory[0], 0);
}

static void lists_go_in_one_call(void **state)
{
	uint64_t data[ONESIDED_OPS + 1];
	struct onesided o;

	local_tx_begin(peer);
	assert_true(onesided_begin(&o, peer, &requester));
	for (int i = 0; i <= ONESIDED_OPS; i++) {
		struct wq_seg whole = { (uintptr_t)&data[i], 8 };
		struct wq_seg cut[2] = { { whole.addr, 3 }, { whole.addr + 3, 5 } };

		data[i] = 0x0101010101010101 * (i + 1);
		assert_int_equal(onesided_add(&o, RKEY, VA + 8 * i, 8, MEM_REMOTE_WRITE,
					      i % 2 ? cut : &whole, i % 2 + 1),
				 i < ONESIDED_OPS);
	}
	/*
	 * One key, one hazard; adjacent ranges form one piece if that preserves the order of
	 * stores.
	 */
	assert_int_equal(lane()->hazard[0], mr_key_index(RKEY));
	assert_int_equal(lane()->hazard[1], 0);
	if (STORES_IN_ORDER)
		assert_int_equal(o.n_remote, 1);
	else
		assert_in_range(o.n_remote, ONESIDED_OPS, 2 * ONESIDED_OPS);
	assert_int_equal(onesided_write(&o), ONESIDED_OPS);
	onesided_end(&o);
	assert_memory_equal(memory, data, 8 * ONESIDED_OPS);
	local_tx_end(local[0], peer, false);
}

/* The last write of a list determines the result, whatever the order and the overlaps. */
static void lists_keep_their_order(void **state)
{
	static const uint8_t at[] = { 0, 2, 1, 1, 3, 0, 7, 6, 5, 5 };
	uint64_t data[ARRAY_SIZE(at)], expected[9] = { 0 };
	struct onesided o;

	memset(memory, 0, sizeof(expected));
	local_tx_begin(peer);
	assert_true(onesided_begin(&o, peer, &requester));
	for (unsigned int i = 0; i < ARRAY_SIZE(at); i++) {
		struct wq_seg seg = { (uintptr_t)&data[i], 8 };

		data[i] = i + 1;
		expected[at[i]] = i + 1;
		assert_true(onesided_add(&o, RKEY, VA + 8 * at[i], 8, MEM_REMOTE_WRITE, &seg, 1));
	}
	assert_int_equal(onesided_write(&o), ARRAY_SIZE(at));
	onesided_end(&o);
	local_tx_end(local[0], peer, false);
	assert_memory_equal(memory, expected, sizeof(expected));
}

/* Nothing after a missing page is executed; everything before it is. */
static void lists_end_at_a_hole(void **state)
{
	long page = sysconf(_SC_PAGESIZE);
	uint8_t data[100];
	uint8_t *region =
		mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct wq_seg seg = { (uintptr_t)data, sizeof(data) };
	struct onesided o;

	assert_ptr_not_equal(region, MAP_FAILED);
	munmap(region + page, page);
	memset(data, 7, sizeof(data));
	key->host = (uintptr_t)region;
	key->length = 2 * page;
	key->sum = mr_entry_sum(key);
	local_tx_begin(peer);
	assert_true(onesided_begin(&o, peer, &requester));
	assert_true(onesided_add(&o, RKEY, VA, 100, MEM_REMOTE_WRITE, &seg, 1));
	assert_true(onesided_add(&o, RKEY, VA + 500, 100, MEM_REMOTE_WRITE, &seg, 1));
	assert_true(onesided_add(&o, RKEY, VA + page - 50, 100, MEM_REMOTE_WRITE, &seg, 1));
	assert_true(onesided_add(&o, RKEY, VA + 1000, 100, MEM_REMOTE_WRITE, &seg, 1));
	assert_int_equal(onesided_write(&o), 2);
	onesided_end(&o);
	local_tx_end(local[0], peer, false);
	assert_memory_equal(region + 500, data, sizeof(data));
	assert_int_equal(region[1000], 0);
	munmap(region, page);
	*key = good_key;
}

/* A refused key does not replace the one whose hazard is set, however often it is tried. */
static void a_refused_key_changes_nothing(void **state)
{
	const uint32_t other = RKEY + (1 << 8);
	uint64_t data[2] = { 1, 2 };
	struct wq_seg seg[2] = { { (uintptr_t)&data[0], 8 }, { (uintptr_t)&data[1], 8 } };
	struct mr_entry *scribbled = key + 1;
	struct onesided o;

	memset(memory, 0, 16);
	*scribbled = good_key;
	scribbled->rkey = other;
	scribbled->sum = mr_entry_sum(scribbled) + 1;
	local_tx_begin(peer);
	assert_true(onesided_begin(&o, peer, &requester));
	assert_true(onesided_add(&o, RKEY, VA, 8, MEM_REMOTE_WRITE, &seg[0], 1));
	assert_false(onesided_add(&o, other, VA + 8, 8, MEM_REMOTE_WRITE, &seg[1], 1));
	assert_false(onesided_add(&o, other, VA + 8, 8, MEM_REMOTE_WRITE, &seg[1], 1));
	assert_true(onesided_add(&o, RKEY, VA + 8, 8, MEM_REMOTE_WRITE, &seg[1], 1));
	assert_int_equal(lane()->hazard[1], 0);
	assert_int_equal(onesided_write(&o), 2);
	onesided_end(&o);
	local_tx_end(local[0], peer, false);
	assert_memory_equal(memory, data, sizeof(data));
	memset(scribbled, 0, sizeof(*scribbled));
}

static void atomics_add_and_swap(void **state)
{
	struct wq_seg seg = { 0, 8 };
	uint64_t original;
	struct onesided o;

	memory[4] = 40;
	local_tx_begin(peer);
	assert_true(onesided_begin(&o, peer, &requester));
	assert_true(onesided_add(&o, RKEY, VA + 32, 8, MEM_REMOTE_ATOMIC, &seg, 1));
	assert_true(onesided_atomic(&o, local[0], ATOMIC_OP_FETCH_ADD, 2, 0, &original));
	assert_int_equal(original, 40);
	assert_true(onesided_atomic(&o, local[0], ATOMIC_OP_CMP_SWAP, 41, 9, &original));
	assert_int_equal(original, 42);
	assert_int_equal(memory[4], 42);
	assert_true(onesided_atomic(&o, local[0], ATOMIC_OP_CMP_SWAP, 42, 9, &original));
	assert_int_equal(memory[4], 9);
	onesided_end(&o);
	local_tx_end(local[0], peer, false);
}

/*
 * The peer's pid now belongs to another program: nothing may be read or written there. There is no
 * keeper, so the kernel is asked for the owner.
 */
static void no_other_process_is_reached(void **state)
{
	struct seg_identity *identity = &local_segment(local[1])->identity, saved = *identity;
	static const enum mem_access accesses[] = { MEM_REMOTE_WRITE, MEM_REMOTE_READ };

	for (unsigned int i = 0; i < sizeof(accesses) / sizeof(accesses[0]); i++) {
		assert_true(write_here());
		memory[2] = 77;
		identity->incarnation++;
		assert_false(try(&requester, RKEY, VA + 16, 8, accesses[i]));
		assert_int_equal(memory[2], 77);
		*identity = saved;
		/* nor later, whatever the memory contains then */
		assert_false(try(&requester, RKEY, VA + 16, 8, accesses[i]));
		peer->cma = true;
	}
}

/* The owner's keeper has ended: before the access, or during it. */
static void the_keeper_word_is_checked(void **state)
{
	uint32_t *keeper = &segment_header(local_segment(local[1]))->keeper;
	struct seg_identity *identity = &local_segment(local[1])->identity;
	uint64_t data = 0;
	struct wq_seg seg = { (uintptr_t)&data, 8 }, word = { (uintptr_t)keeper, sizeof(*keeper) };
	struct onesided o;

	*keeper = 4711;
	identity->incarnation++;	/* is not checked */
	assert_true(write_here());
	*keeper |= FUTEX_OWNER_DIED;
	memory[2] = 77;
	assert_false(try(&requester, RKEY, VA + 16, 8, MEM_REMOTE_WRITE));
	assert_false(try(&requester, RKEY, VA + 16, 8, MEM_REMOTE_READ));
	assert_int_equal(memory[2], 77);
	peer->cma = true;

	/*
	 * A READ whose first piece overwrites the keeper's word: the peer is dead when the READ
	 * ends.
	 */
	*keeper = 4711;
	*(uint32_t *)memory = FUTEX_OWNER_DIED;
	local_tx_begin(peer);
	assert_true(onesided_begin(&o, peer, &requester));
	assert_true(onesided_add(&o, RKEY, VA, sizeof(*keeper), MEM_REMOTE_READ, &word, 1));
	assert_true(onesided_add(&o, RKEY, VA + 8, 8, MEM_REMOTE_READ, &seg, 1));
	assert_int_equal(onesided_read(&o), 0);
	onesided_end(&o);
	local_tx_end(local[0], peer, false);
	identity->incarnation--;
	*keeper = 0;
	peer->cma = true;
}

static void atomics_reach_no_other_process(void **state)
{
	struct seg_identity *identity = &local_segment(local[1])->identity;
	struct wq_seg seg = { 0, 8 };
	uint64_t original;
	struct onesided o;

	memory[4] = 40;
	local_tx_begin(peer);
	assert_true(onesided_begin(&o, peer, &requester));
	assert_true(onesided_add(&o, RKEY, VA + 32, 8, MEM_REMOTE_ATOMIC, &seg, 1));
	identity->incarnation++;
	assert_false(onesided_atomic(&o, local[0], ATOMIC_OP_FETCH_ADD, 2, 0, &original));
	assert_int_equal(memory[4], 40);
	identity->incarnation--;
	peer->cma = true;
	onesided_end(&o);
	local_tx_end(local[0], peer, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_queue_pair_must_be_receiving),
		cmocka_unit_test(it_must_be_our_peer),
		cmocka_unit_test(the_key_must_grant_it),
		cmocka_unit_test(a_change_during_the_access_is_detected),
		cmocka_unit_test(lists_go_in_one_call),
		cmocka_unit_test(lists_keep_their_order),
		cmocka_unit_test(lists_end_at_a_hole),
		cmocka_unit_test(a_refused_key_changes_nothing),
		cmocka_unit_test(atomics_add_and_swap),
		cmocka_unit_test(no_other_process_is_reached),
		cmocka_unit_test(the_keeper_word_is_checked),
		cmocka_unit_test(atomics_reach_no_other_process),
	};

	return cmocka_run_group_tests(tests, start, finish);
}
