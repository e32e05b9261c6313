/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Accesses of a queue pair through the key table: access rights, ranges, protection domains, memory
 * windows, and memory that is unmapped.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/state.h"
#include "core/mem/key_table.h"
#include "core/mem/mr.h"
#include "core/mem/mw.h"
#include "core/qp/qp.h"
#include "host/host.h"
#include "run/nofault.h"
#include "util/compiler.h"

#include "place.h"

enum {
	PDN = 7,
	QPN = 0x1234,
	LEN = 4096,
};

static uint8_t memory[LEN] __attribute__((aligned(64)));
static struct vrb_qp qp = { .wq = { .qpn = QPN, .pdn = PDN, .send_pdn = PDN, .recv_pdn = PDN } };

/* Makes the region live over `memory`; peers address it from va. */
static struct mr_entry *region(uint64_t va, uint32_t access)
{
	uint32_t index;
	struct mr_entry *e = mr_entry_alloc(&index);

	assert_non_null(e);
	e->kind = MR_REGION;
	e->pdn = PDN;
	e->access = access;
	e->va = va;
	e->length = LEN;
	e->host = (uintptr_t)memory;
	e->windows = 0;
	mr_entry_publish(e);
	return e;
}

static void end_region(struct mr_entry *e)
{
	mr_entry_retract(e);
	mr_entry_free(mr_key_index(e->lkey));
}

static uint32_t key_for(const struct mr_entry *e, enum mem_access access)
{
	return !mem_access_is_remote(access) ? e->lkey : e->rkey;
}

enum { LOCAL_WRITES = 1 << MEM_LOCAL_WRITE | 1 << MEM_RECV_WRITE };

static void rights(void **state)
{
	static const struct {
		uint32_t access;
		uint8_t granted; /* mask of 1 << enum mem_access */
	} rows[] = {
		{ 0, 1 << MEM_LOCAL_READ },
		{ IBV_ACCESS_LOCAL_WRITE, 1 << MEM_LOCAL_READ | LOCAL_WRITES },
		{ IBV_ACCESS_REMOTE_READ, 1 << MEM_LOCAL_READ | 1 << MEM_REMOTE_READ },
		{ IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
		  1 << MEM_LOCAL_READ | LOCAL_WRITES | 1 << MEM_REMOTE_WRITE },
		{ IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
		  1 << MEM_LOCAL_READ | LOCAL_WRITES | 1 << MEM_REMOTE_ATOMIC },
		{ IBV_ACCESS_FLUSH_GLOBAL, 1 << MEM_LOCAL_READ | 1 << MEM_REMOTE_FLUSH_GLOBAL },
		{ IBV_ACCESS_FLUSH_PERSISTENT,
		  1 << MEM_LOCAL_READ | 1 << MEM_REMOTE_FLUSH_PERSISTENT },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(rows); i++) {
		struct mr_entry *e = region(0x1000, rows[i].access);

		for (unsigned int a = MEM_LOCAL_READ; a <= MEM_REMOTE_FLUSH_PERSISTENT; a++) {
			enum reason want = rows[i].granted & 1 << a ? REASON_NONE
					   : !mem_access_is_remote(a) ? REASON_LKEY_ACCESS
								    : REASON_RKEY_ACCESS;

			assert_int_equal(vrb_mem_check(&qp.wq, key_for(e, a), 0x1000, 8, a), want);
		}
		end_region(e);
	}
}

static void ranges(void **state)
{
	static const struct {
		uint64_t va, len;
		bool ok;
	} rows[] = {
		{ 0x1000, LEN, true },    { 0x1000, LEN + 1, false },
		{ 0xfff, 1, false },      { 0x1fff, 1, true },
		{ 0x1fff, 2, false },     { 0x2000, 1, false },
		{ 0x2000, 0, true },      { 0x1000, UINT64_MAX, false },
		{ UINT64_MAX, 1, false }, { UINT64_MAX, 0x1002, false },
		{ 0, 0, true },
	};
	struct mr_entry *e = region(0x1000, IBV_ACCESS_REMOTE_READ);

	for (unsigned int i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(vrb_mem_check(&qp.wq, e->lkey, rows[i].va, rows[i].len,
					       MEM_LOCAL_READ),
				 rows[i].ok ? REASON_NONE : REASON_LKEY_RANGE);
		assert_int_equal(vrb_mem_check(&qp.wq, e->rkey, rows[i].va, rows[i].len,
					       MEM_REMOTE_READ),
				 rows[i].ok ? REASON_NONE : REASON_RKEY_RANGE);
	}
	end_region(e);
}

static void keys(void **state)
{
	struct mr_entry *e = region(0, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_LOCAL_WRITE);
	uint32_t lkey = e->lkey, rkey = e->rkey;

	assert_int_equal(lkey, rkey);
	for (int bit = 0; bit < 32; bit++) {
		uint32_t wrong = lkey ^ 1u << bit;

		assert_int_equal(vrb_mem_check(&qp.wq, wrong, 0, 1, MEM_LOCAL_READ),
				 REASON_LKEY_UNKNOWN);
	}
	assert_int_equal(vrb_mem_check(&qp.wq, 0, 0, 1, MEM_LOCAL_READ), REASON_LKEY_UNKNOWN);
	assert_int_equal(vrb_mem_check(&qp.wq, ~0u, 0, 1, MEM_REMOTE_READ), REASON_RKEY_UNKNOWN);
	end_region(e);
	assert_int_equal(vrb_mem_check(&qp.wq, lkey, 0, 1, MEM_LOCAL_READ), REASON_LKEY_UNKNOWN);
	assert_int_equal(vrb_mem_check(&qp.wq, rkey, 0, 1, MEM_REMOTE_READ), REASON_RKEY_UNKNOWN);
}

static void indices_are_reused_late_with_new_keys(void **state)
{
	uint32_t index, again, lkey, n = 0;
	struct mr_entry *e = mr_entry_alloc(&index);

	lkey = e->lkey;
	mr_entry_free(index);
	do {
		e = mr_entry_alloc(&again);
		assert_non_null(e);
		mr_entry_free(again);
		n++;
	} while (again != index);
	assert_true(n > 1000);
	/* Whatever the tag of the next entry is. */
	assert_int_not_equal(e->lkey >> 8, lkey >> 8);
	assert_int_equal(e->rkey, e->lkey);
}

static void domains(void **state)
{
	struct mr_entry *e = region(0, IBV_ACCESS_REMOTE_READ),
			*f = region(0, IBV_ACCESS_LOCAL_WRITE);

	qp.wq.pdn = qp.wq.send_pdn = PDN + 1;
	assert_int_equal(vrb_mem_check(&qp.wq, f->lkey, 0, 1, MEM_RECV_WRITE), REASON_NONE);
	assert_int_equal(vrb_mem_check(&qp.wq, e->lkey, 0, 1, MEM_LOCAL_READ), REASON_LKEY_PD);
	assert_int_equal(vrb_mem_check(&qp.wq, e->rkey, 0, 1, MEM_REMOTE_READ), REASON_RKEY_PD);
	qp.wq.pdn = qp.wq.send_pdn = PDN;
	qp.wq.recv_pdn = PDN + 1;
	assert_int_equal(vrb_mem_check(&qp.wq, f->lkey, 0, 1, MEM_RECV_WRITE), REASON_LKEY_PD);
	assert_int_equal(vrb_mem_check(&qp.wq, f->lkey, 0, 1, MEM_LOCAL_WRITE), REASON_NONE);
	qp.wq.recv_pdn = PDN;
	end_region(f);
	end_region(e);
}

static void copies(void **state)
{
	struct mr_entry *e = region(0x10000, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
						     IBV_ACCESS_REMOTE_READ);
	char buf[6] = "";

	memset(memory, 0, LEN);
	assert_int_equal(vrb_mem_write(&qp.wq, e->rkey, 0x10064, "hello", 5, MEM_REMOTE_WRITE),
			 REASON_NONE);
	assert_memory_equal(memory + 0x64, "hello", 5);
	assert_int_equal(vrb_mem_read(&qp.wq, e->lkey, 0x10064, buf, 5, MEM_LOCAL_READ),
			 REASON_NONE);
	assert_string_equal(buf, "hello");
	end_region(e);
}

static void unmapped_memory(void **state)
{
	struct mr_entry *e = region(0, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					       IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	void *p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t old;
	char buf[8];

	vrb_guard_install();
	e->host = (uintptr_t)p;
	munmap(p, LEN);
	assert_int_equal(vrb_mem_read(&qp.wq, e->lkey, 0, buf, 8, MEM_LOCAL_READ),
			 REASON_LKEY_UNMAPPED);
	assert_int_equal(vrb_mem_read(&qp.wq, e->rkey, 0, buf, 8, MEM_REMOTE_READ),
			 REASON_RKEY_UNMAPPED);
	assert_int_equal(vrb_mem_write(&qp.wq, e->rkey, 0, buf, 8, MEM_REMOTE_WRITE),
			 REASON_RKEY_UNMAPPED);
	assert_int_equal(vrb_mem_atomic(&qp.wq, e->rkey, 0, ATOMIC_OP_FETCH_ADD, 1, 0, &old),
			 REASON_RKEY_UNMAPPED);
	assert_int_equal(vrb_mem_atomic_write(&qp.wq, e->rkey, 0, 1), REASON_RKEY_UNMAPPED);
	end_region(e);
}

/* The results do not depend on whether local memory is aligned like the peer's address. */
static void atomics(void **state)
{
	for (unsigned int skew = 0; skew < 8; skew++) {
		struct mr_entry *e = region(0, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC |
						       IBV_ACCESS_REMOTE_WRITE);
		uint64_t v = 100, old;

		e->host += skew;
		memcpy(memory + skew + 8, &v, 8);
		assert_int_equal(vrb_mem_atomic(&qp.wq, e->rkey, 8, ATOMIC_OP_FETCH_ADD, 11, 0,
						&old),
				 REASON_NONE);
		assert_int_equal(old, 100);
		assert_int_equal(vrb_mem_atomic(&qp.wq, e->rkey, 8, ATOMIC_OP_CMP_SWAP, 5, 1, &old),
				 REASON_NONE);
		assert_int_equal(old, 111);
		assert_int_equal(vrb_mem_atomic(&qp.wq, e->rkey, 8, ATOMIC_OP_CMP_SWAP, 111, 1,
						&old),
				 REASON_NONE);
		assert_int_equal(vrb_mem_atomic_write(&qp.wq, e->rkey, 16, 0x1122334455667788),
				 REASON_NONE);
		memcpy(&v, memory + skew + 8, 8);
		assert_int_equal(v, 1);
		memcpy(&v, memory + skew + 16, 8);
		assert_int_equal(v, 0x1122334455667788);
		end_region(e);
	}
}

static void atomics_need_rights(void **state)
{
	struct mr_entry *e = region(0, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	uint64_t old, v = 100;

	memcpy(memory + 8, &v, 8);
	assert_int_equal(vrb_mem_atomic(&qp.wq, e->rkey, 8, ATOMIC_OP_FETCH_ADD, 1, 0, &old),
			 REASON_RKEY_ACCESS);
	assert_int_equal(vrb_mem_atomic_write(&qp.wq, e->rkey, 8, 1), REASON_RKEY_ACCESS);
	memcpy(&v, memory + 8, 8);
	assert_int_equal(v, 100);
	end_region(e);
}

static void null_region(void **state)
{
	struct mr_entry *e = region(0, IBV_ACCESS_LOCAL_WRITE);
	uint8_t buf[64], zero[64] = { 0 };

	e->kind = MR_NULL;
	e->length = UINT64_MAX;
	e->host = 0;
	memset(buf, 1, sizeof(buf));
	assert_int_equal(vrb_mem_write(&qp.wq, e->lkey, 0x123456789, buf, 64, MEM_LOCAL_WRITE),
			 REASON_NONE);
	assert_int_equal(vrb_mem_read(&qp.wq, e->lkey, 0x123456789, buf, 64, MEM_LOCAL_READ),
			 REASON_NONE);
	assert_memory_equal(buf, zero, 64);
	assert_int_equal(vrb_mem_check(&qp.wq, e->rkey, 0, 1, MEM_REMOTE_READ),
			 REASON_RKEY_UNKNOWN);
	end_region(e);
}

static void flushes(void **state)
{
	struct mr_entry *e = region(0, IBV_ACCESS_FLUSH_GLOBAL);

	assert_int_equal(vrb_mem_flush(&qp.wq, e->rkey, 0, LEN, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE,
				       &(bool){ false }),
			 REASON_NONE);
	assert_int_equal(vrb_mem_flush(&qp.wq, e->rkey, 0, LEN + 1, IBV_FLUSH_GLOBAL,
				       IBV_FLUSH_RANGE, &(bool){ false }),
			 REASON_RKEY_RANGE);
	/* The whole region: address and length do not matter. */
	assert_int_equal(vrb_mem_flush(&qp.wq, e->rkey, 99, LEN + 1, IBV_FLUSH_GLOBAL,
				       IBV_FLUSH_MR, &(bool){ false }),
			 REASON_NONE);
	assert_int_equal(vrb_mem_flush(&qp.wq, e->rkey, 0, 8, IBV_FLUSH_PERSISTENT,
				       IBV_FLUSH_RANGE, &(bool){ false }),
			 REASON_RKEY_ACCESS);
	assert_int_equal(vrb_mem_flush(&qp.wq, e->rkey ^ 1, 0, 8, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE,
				       &(bool){ false }),
			 REASON_RKEY_UNKNOWN);
	end_region(e);
	/* Both need both rights. */
	e = region(0, IBV_ACCESS_FLUSH_PERSISTENT);
	assert_int_equal(vrb_mem_flush(&qp.wq, e->rkey, 0, 8,
				       IBV_FLUSH_GLOBAL | IBV_FLUSH_PERSISTENT, IBV_FLUSH_RANGE,
				       &(bool){ false }),
			 REASON_RKEY_ACCESS);
	end_region(e);
	assert_int_equal(vrb_mem_flush(&qp.wq, 0, 0, 8, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE,
				       &(bool){ false }),
			 REASON_RKEY_UNKNOWN);
}

/* ---- Windows ---- */

struct window {
	struct vrb_mw mw;
	struct mr_entry *e;
	struct send_wqe wqe;
};

static void window_init(struct window *w, enum ibv_mw_type type,
			const struct mr_entry *region_entry)
{
	memset(w, 0, sizeof(*w));
	w->e = mr_entry_alloc(&w->mw.index);
	assert_non_null(w->e);
	w->e->kind = MR_WINDOW;
	w->e->mw_type = type;
	w->e->bound = 0;
	w->e->pdn = PDN;
	w->mw.key = w->e->lkey;
	w->wqe.opcode = IBV_WR_BIND_MW;
	w->wqe.rkey = ibv_inc_rkey(w->e->rkey);
	vrb_mw_fill_bind(&w->wqe, &w->mw.ibv, &(struct ibv_mw_bind_info){
		.mr = &(struct ibv_mr){ .lkey = region_entry->lkey },
		.addr = 0x1100,
		.length = 0x100,
		.mw_access_flags = IBV_ACCESS_REMOTE_READ,
	});
}

static void type_2_window(void **state)
{
	struct mr_entry *e = region(0x1000, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct window w;
	uint32_t key;

	window_init(&w, IBV_MW_TYPE_2, e);
	key = w.wqe.rkey;
	assert_int_equal(vrb_mem_check(&qp.wq, key, 0x1100, 1, MEM_REMOTE_READ),
			 REASON_RKEY_UNKNOWN);
	assert_int_equal(vrb_mem_bind(&qp.wq, &w.wqe), REASON_NONE);
	assert_int_equal(e->windows, 1);
	assert_int_equal(vrb_mem_check(&qp.wq, key, 0x1100, 0x100, MEM_REMOTE_READ), REASON_NONE);
	assert_int_equal(vrb_mem_check(&qp.wq, key, 0x10ff, 1, MEM_REMOTE_READ), REASON_RKEY_RANGE);
	assert_int_equal(vrb_mem_check(&qp.wq, key, 0x1200, 1, MEM_REMOTE_READ), REASON_RKEY_RANGE);
	assert_int_equal(vrb_mem_check(&qp.wq, key, 0x1100, 1, MEM_REMOTE_WRITE),
			 REASON_RKEY_ACCESS);
	assert_int_equal(vrb_mem_check(&qp.wq, key, 0x1100, 1, MEM_LOCAL_READ),
			 REASON_LKEY_UNKNOWN);
	/* A bound window can only be invalidated, and only through the QP that bound it. */
	assert_int_equal(vrb_mem_bind(&qp.wq, &w.wqe), REASON_WR_MW_BIND);
	qp.wq.qpn = QPN + 1;
	assert_int_equal(vrb_mem_check(&qp.wq, key, 0x1100, 1, MEM_REMOTE_READ),
			 REASON_RKEY_WINDOW_QP);
	assert_int_equal(vrb_mem_invalidate(&qp.wq, key, true), REASON_REQ_INVALIDATE);
	qp.wq.qpn = QPN;
	assert_int_equal(vrb_mem_invalidate(&qp.wq, key ^ 1, false), REASON_WR_INVALIDATE);
	assert_int_equal(vrb_mem_invalidate(&qp.wq, key, false), REASON_NONE);
	assert_int_equal(vrb_mem_invalidate(&qp.wq, key, false), REASON_WR_INVALIDATE);
	assert_int_equal(e->windows, 0);
	assert_int_equal(vrb_mem_check(&qp.wq, key, 0x1100, 1, MEM_REMOTE_READ),
			 REASON_RKEY_UNKNOWN);
	/* Only the tag of the new key is used. */
	w.wqe.rkey = 0xabcdef00 | (ibv_inc_rkey(key) & 0xff);
	assert_int_equal(vrb_mem_bind(&qp.wq, &w.wqe), REASON_NONE);
	assert_int_equal(w.e->rkey, ibv_inc_rkey(key));
	/* A bind of length 0 through the same QP also invalidates the window. */
	w.wqe.bind.length = 0;
	qp.wq.qpn = QPN + 1;
	assert_int_equal(vrb_mem_bind(&qp.wq, &w.wqe), REASON_WR_MW_BIND);
	qp.wq.qpn = QPN;
	assert_int_equal(vrb_mem_bind(&qp.wq, &w.wqe), REASON_NONE);
	assert_int_equal(e->windows, 0);
	assert_int_equal(vrb_mem_bind(&qp.wq, &w.wqe), REASON_WR_MW_BIND);
	end_region(e);
}

/*
 * The objects of a queued bind may be destroyed when it executes, and their indices may be reused.
 */
static void binds_of_destroyed_objects(void **state)
{
	struct mr_entry *e = region(0x1000, IBV_ACCESS_MW_BIND);
	struct window w;

	window_init(&w, IBV_MW_TYPE_2, e);
	w.e->kind = MR_FREE;
	assert_int_equal(vrb_mem_bind(&qp.wq, &w.wqe), REASON_WR_MW_BIND);
	w.e->kind = MR_WINDOW;
	w.e->lkey ^= 1u << 28;
	assert_int_equal(vrb_mem_bind(&qp.wq, &w.wqe), REASON_WR_MW_BIND);
	w.e->lkey ^= 1u << 28;
	e->pdn++;
	assert_int_equal(vrb_mem_bind(&qp.wq, &w.wqe), REASON_WR_MW_BIND);
	e->pdn--;
	w.wqe.bind.region ^= 1u << 28;
	assert_int_equal(vrb_mem_bind(&qp.wq, &w.wqe), REASON_WR_MW_BIND);
	w.wqe.bind.region = 0;
	assert_int_equal(vrb_mem_bind(&qp.wq, &w.wqe), REASON_WR_MW_BIND);
	w.wqe.bind.window = ~0u;
	assert_int_equal(vrb_mem_bind(&qp.wq, &w.wqe), REASON_WR_MW_BIND);
	w.wqe.bind.window = 0;
	assert_int_equal(vrb_mem_bind(&qp.wq, &w.wqe), REASON_WR_MW_BIND);
	assert_int_equal(e->windows, 0);
	end_region(e);
}

static void type_1_window(void **state)
{
	struct mr_entry *e = region(0x1000, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct window w;
	uint32_t old;

	window_init(&w, IBV_MW_TYPE_1, e);
	assert_int_equal(vrb_mem_bind(&qp.wq, &w.wqe), REASON_NONE);
	old = w.wqe.rkey;
	/*
	 * A type 1 window serves any QP of the domain, can be bound again, and cannot be
	 * invalidated.
	 */
	qp.wq.qpn = QPN + 1;
	assert_int_equal(vrb_mem_check(&qp.wq, old, 0x1100, 1, MEM_REMOTE_READ), REASON_NONE);
	qp.wq.qpn = QPN;
	assert_int_equal(vrb_mem_invalidate(&qp.wq, old, true), REASON_REQ_INVALIDATE);
	w.wqe.rkey = ibv_inc_rkey(old);
	w.wqe.bind.access = IBV_ACCESS_REMOTE_WRITE;
	assert_int_equal(vrb_mem_bind(&qp.wq, &w.wqe), REASON_NONE);
	assert_int_equal(e->windows, 1);
	assert_int_equal(vrb_mem_check(&qp.wq, old, 0x1100, 1, MEM_REMOTE_READ),
			 REASON_RKEY_UNKNOWN);
	assert_int_equal(vrb_mem_check(&qp.wq, w.wqe.rkey, 0x1100, 1, MEM_REMOTE_WRITE),
			 REASON_NONE);
	/* Length 0 invalidates the window. */
	w.wqe.bind.length = 0;
	w.wqe.rkey = ibv_inc_rkey(w.wqe.rkey);
	assert_int_equal(vrb_mem_bind(&qp.wq, &w.wqe), REASON_NONE);
	assert_int_equal(e->windows, 0);
	assert_int_equal(vrb_mem_check(&qp.wq, w.wqe.rkey, 0x1100, 1, MEM_REMOTE_WRITE),
			 REASON_RKEY_UNKNOWN);
	end_region(e);
}

static void refused_binds(void **state)
{
	static const struct {
		uint32_t region_access, window_access;
		uint64_t addr, length;
	} rows[] = {
		{ IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_READ, 0x1000, 1 },
		{ IBV_ACCESS_MW_BIND, IBV_ACCESS_REMOTE_WRITE, 0x1000, 1 },
		{ IBV_ACCESS_MW_BIND, IBV_ACCESS_REMOTE_ATOMIC, 0x1000, 8 },
		{ IBV_ACCESS_MW_BIND, IBV_ACCESS_REMOTE_READ, 0xfff, 1 },
		{ IBV_ACCESS_MW_BIND, IBV_ACCESS_REMOTE_READ, 0x1000, LEN + 1 },
		{ IBV_ACCESS_MW_BIND, IBV_ACCESS_REMOTE_READ, 0x1001, UINT64_MAX },
		{ IBV_ACCESS_MW_BIND, IBV_ACCESS_REMOTE_READ, 0x1000, 0 },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(rows); i++) {
		struct mr_entry *e = region(0x1000, rows[i].region_access);
		struct window w;

		window_init(&w, IBV_MW_TYPE_2, e);
		w.wqe.bind.addr = rows[i].addr;
		w.wqe.bind.length = rows[i].length;
		w.wqe.bind.access = rows[i].window_access;
		assert_int_equal(vrb_mem_bind(&qp.wq, &w.wqe), REASON_WR_MW_BIND);
		assert_int_equal(e->windows, 0);
		end_region(e);
	}
}

static void zero_based_window(void **state)
{
	struct mr_entry *e = region(0x1000, IBV_ACCESS_MW_BIND);
	struct window w;
	uint8_t byte;

	window_init(&w, IBV_MW_TYPE_2, e);
	w.wqe.bind.access |= IBV_ACCESS_ZERO_BASED;
	memory[0x100] = 0x42;
	assert_int_equal(vrb_mem_bind(&qp.wq, &w.wqe), REASON_NONE);
	assert_int_equal(vrb_mem_read(&qp.wq, w.wqe.rkey, 0, &byte, 1, MEM_REMOTE_READ),
			 REASON_NONE);
	assert_int_equal(byte, 0x42);
	assert_int_equal(vrb_mem_check(&qp.wq, w.wqe.rkey, 0x1100, 1, MEM_REMOTE_READ),
			 REASON_RKEY_RANGE);
	assert_int_equal(vrb_mem_invalidate(&qp.wq, w.wqe.rkey, false), REASON_NONE);
	end_region(e);
}

static char dir[64];

/* Atomics exclude each other on the whole host, so they need the run directory. */
static int start(void **state)
{
	place_make_dir(dir);
	return host_join(dir, &vrb.host);
}

static int finish(void **state)
{
	host_leave(vrb.host);
	place_remove_dir(dir);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rights),
		cmocka_unit_test(ranges),
		cmocka_unit_test(keys),
		cmocka_unit_test(indices_are_reused_late_with_new_keys),
		cmocka_unit_test(domains),
		cmocka_unit_test(copies),
		cmocka_unit_test(unmapped_memory),
		cmocka_unit_test(atomics),
		cmocka_unit_test(atomics_need_rights),
		cmocka_unit_test(null_region),
		cmocka_unit_test(flushes),
		cmocka_unit_test(type_2_window),
		cmocka_unit_test(binds_of_destroyed_objects),
		cmocka_unit_test(type_1_window),
		cmocka_unit_test(refused_binds),
		cmocka_unit_test(zero_based_window),
	};

	return cmocka_run_group_tests(tests, start, finish);
}
