/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checks of one-sided access: each condition violated once; the bytes copied; the hazard pointers.
 * Two members of the host in one process.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "host/host.h"
#include "local/keeper.h"
#include "local/onesided.h"
#include "local/peer.h"
#include "run/nofault.h"

#include "place.h"

enum {
	NETNS = 42,
	PDN = 7,
	RKEY = 3 << 28 | 5 << 8 | 9,
	LEN = 4096,
	VA = 0x100000,
	LKEY = 2 << 28 | 6 << 8 | 3,
	OWN_VA = 0x5000,
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

	for (int wrong = 0; wrong < 5; wrong++) {
		qp = remote;
		if (wrong == 0)
			qp.dest_qpn++;
		else if (wrong == 1)
			qp.path.src.raw[15]++;
		else if (wrong == 2)
			qp.path.dst.raw[15]++;
		else if (wrong == 3)
			qp.type = IBV_QPT_UC;
		else
			qp.access &= ~IBV_ACCESS_REMOTE_WRITE;
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

/* ---- a single request in mapped memory ---- */

enum { EDITION = 5 };

static uint64_t *file_memory;	/* of member 1 */
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
	file_memory = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (file_memory == MAP_FAILED)
		return -1;
	*key = good_key;
	key->refs |= EDITION;
	key->host = (uintptr_t)file_memory;
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
	return munmap(file_memory, LEN);
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
		assert_memory_equal(&data, (uint8_t *)file_memory + (va - VA), len);
	return ok;
}

static bool write_one(void)
{
	bool ok;

	file_memory[2] = 0;
	ok = try_one(RKEY, VA + 16, 8, MEM_REMOTE_WRITE);
	assert_int_equal(file_memory[2], ok ? 0x1122334455667788 : 0);
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

	file_memory[4] = 40;
	assert_true(try_atomic(ATOMIC_OP_FETCH_ADD, VA + 32, 2, &original));
	assert_int_equal(original, 40);
	assert_int_equal(file_memory[4], 42);
	assert_true(try_atomic(ATOMIC_OP_CMP_SWAP, VA + 32, 41, &original));
	assert_int_equal(original, 42);
	assert_int_equal(file_memory[4], 42);
	original = 0;
	assert_true(try_atomic(ATOMIC_OP_CMP_SWAP, VA + 32, 42, &original));
	assert_int_equal(original, 42);
	assert_int_equal(file_memory[4], 7);
	assert_false(try_atomic(ATOMIC_OP_FETCH_ADD, VA + 36, 2, &original));
	assert_false(try_atomic(ATOMIC_OP_FETCH_ADD, VA + LEN, 2, &original));
	assert_int_equal(file_memory[4], 7);
}

/* Aligned addresses, but not the memory behind them: the owner's process emulates such atomics. */
static void one_atomic_needs_aligned_memory(void **state)
{
	uint64_t original;

	key->refs++;	/* another edition */
	key->host = (uintptr_t)file_memory + 4;
	key->length = LEN - 8;
	key->sum = mr_entry_sum(key);
	map_key();
	assert_true(try_one(RKEY, VA, 8, MEM_REMOTE_WRITE));
	assert_false(try_atomic(ATOMIC_OP_FETCH_ADD, VA, 1, &original));
	assert_int_equal(file_memory[0] >> 32, 0x55667788);
}

/* An atomic whose result has no place has not happened. */
static void one_atomic_needs_a_place_for_its_result(void **state)
{
	void *nowhere = mmap(NULL, LEN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(nowhere != MAP_FAILED);
	vrb_guard_install();	/* cmocka has put its handlers in front */
	file_memory[4] = 40;
	assert_false(try_atomic(ATOMIC_OP_FETCH_ADD, VA + 32, 2, nowhere));
	assert_int_equal(file_memory[4], 40);
	munmap(nowhere, LEN);
}

static void one_request_needs_the_queue_pair(void **state)
{
	uint64_t original;
	struct wq_qp qp;

	for (int wrong = 0; wrong < 7; wrong++) {
		qp = remote;
		if (wrong == 0)
			qp.dest_qpn++;
		else if (wrong == 1)
			qp.path.src.raw[15]++;
		else if (wrong == 2)
			qp.path.dst.raw[15]++;
		else if (wrong == 3)
			qp.type = IBV_QPT_UC;
		else if (wrong == 4)
			qp.access &= ~IBV_ACCESS_REMOTE_WRITE;
		else if (wrong == 5)
			qp.pdn++;
		else
			qp.state = IBV_QPS_ERR;
		publish(&qp, true);
		assert_false(write_one());
	}
	qp = remote;
	qp.max_dest_rd_atomic = 0;
	publish(&qp, true);
	assert_true(write_one());
	assert_false(try_one(RKEY, VA, 8, MEM_REMOTE_READ));
	assert_false(try_atomic(ATOMIC_OP_FETCH_ADD, VA, 1, &original));
	qp = remote;
	qp.access &= ~IBV_ACCESS_REMOTE_ATOMIC;
	publish(&qp, true);
	assert_true(write_one());
	assert_false(try_atomic(ATOMIC_OP_FETCH_ADD, VA, 1, &original));
	publish(&remote, true);
	assert_true(try_one(RKEY, VA, 8, MEM_REMOTE_READ));
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

	file_memory[2] = 0;
	ok = execute(&(struct onesided_request){
		.va = VA + 16, .rkey = RKEY, .addr = addr, .len = 8, .own = own, .lkey = lkey,
		.access = MEM_REMOTE_WRITE,
	});
	assert_int_equal(file_memory[2], ok ? own_memory[1] : 0);
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
	file_memory[0] = 5;
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
		MAPPED_TEST(one_request_reads_and_writes),
		MAPPED_TEST(one_request_is_an_atomic),
		MAPPED_TEST(one_atomic_needs_aligned_memory),
		MAPPED_TEST(one_atomic_needs_a_place_for_its_result),
		MAPPED_TEST(one_request_needs_the_queue_pair),
		MAPPED_TEST(one_request_needs_the_edition),
		MAPPED_TEST(one_request_needs_the_process),
		MAPPED_TEST(one_request_needs_its_own_key),
		cmocka_unit_test(own_copies_are_waited_for),
	};

	return cmocka_run_group_tests(tests, start, finish);
}
