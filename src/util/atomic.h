/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every atomic access of the tree uses these; __atomic_* appears nowhere else.
 *
 * acquire load / release store order one datum's publication: every thread that reads the stored
 * value also sees the writer's earlier stores.  relaxed is for counters and hints that order
 * nothing.  A comment at each use names its partner, and says why a weaker order would do or would
 * not.
 */
#ifndef VRB_UTIL_ATOMIC_H
#define VRB_UTIL_ATOMIC_H

#include <stdbool.h>

#define load_relaxed(p)      __atomic_load_n((p), __ATOMIC_RELAXED)
#define load_acquire(p)      __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define store_relaxed(p, v)  __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define store_release(p, v)  __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define store_seq_cst(p, v)  __atomic_store_n((p), (v), __ATOMIC_SEQ_CST)
#define fetch_add_relaxed(p, v) __atomic_fetch_add((p), (v), __ATOMIC_RELAXED)
#define fetch_add_release(p, v) __atomic_fetch_add((p), (v), __ATOMIC_RELEASE)
#define fetch_add_acq_rel(p, v) __atomic_fetch_add((p), (v), __ATOMIC_ACQ_REL)
#define fetch_add_seq_cst(p, v) __atomic_fetch_add((p), (v), __ATOMIC_SEQ_CST)
#define fetch_sub_release(p, v) __atomic_fetch_sub((p), (v), __ATOMIC_RELEASE)
#define fetch_sub_acq_rel(p, v) __atomic_fetch_sub((p), (v), __ATOMIC_ACQ_REL)
#define fetch_or_acq_rel(p, v)  __atomic_fetch_or((p), (v), __ATOMIC_ACQ_REL)
#define fetch_and_acq_rel(p, v) __atomic_fetch_and((p), (v), __ATOMIC_ACQ_REL)
#define swap_acq_rel(p, v)   __atomic_exchange_n((p), (v), __ATOMIC_ACQ_REL)
#define full_fence()         __atomic_thread_fence(__ATOMIC_SEQ_CST)
#define acquire_fence()      __atomic_thread_fence(__ATOMIC_ACQUIRE)
/* Stops the compiler only; a full fence against a heavy_fence() (util/heavy_fence.h). */
#define light_fence()        __atomic_signal_fence(__ATOMIC_SEQ_CST)

/* Strong compare-and-swap; on failure stores the current value in *expected. */
#define cas_acq_rel(p, expected, v)                                                                \
	__atomic_compare_exchange_n((p), (expected), (v), false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)

/*
 * True if all processors see plain stores in program order; otherwise they need a fence or a
 * release in between.
 */
#if defined(__x86_64__) || defined(__i386__)
#define STORES_IN_ORDER true
#else
#define STORES_IN_ORDER false
#endif

static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield" ::: "memory");
#endif
}

#endif
