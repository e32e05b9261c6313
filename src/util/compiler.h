/* SPDX-License-Identifier: BSD-2-Clause */
/* The few compiler idioms the tree uses. */
#ifndef VRB_UTIL_COMPILER_H
#define VRB_UTIL_COMPILER_H

#include <stddef.h>

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define container_of(ptr, type, member) ((type *)((char *)(ptr) - offsetof(type, member)))

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#define min(a, b)                                                                                  \
	({                                                                                         \
		__typeof__(a) min_a_ = (a);                                                        \
		__typeof__(b) min_b_ = (b);                                                        \
		min_a_ < min_b_ ? min_a_ : min_b_;                                                 \
	})
#define max(a, b)                                                                                  \
	({                                                                                         \
		__typeof__(a) max_a_ = (a);                                                        \
		__typeof__(b) max_b_ = (b);                                                        \
		max_a_ > max_b_ ? max_a_ : max_b_;                                                 \
	})

#define prefetch_line(p) __builtin_prefetch(p)

/* For a line that another CPU has and this one will write. */
static inline void prefetch_line_to_write(void *p)
{
#if defined(__x86_64__)
	__asm__ volatile("prefetchw %0" : : "m"(*(char *)p));
#else
	__builtin_prefetch(p, 1);
#endif
}

/*
 * A thread's variable at a fixed distance from its thread pointer, for one instruction instead of a
 * call.  A library with such variables can be loaded by dlopen() only where the C library keeps
 * room for them.
 */
#ifdef HAVE_SPARE_STATIC_TLS
#define static_tls __attribute__((tls_model("initial-exec")))
#else
#define static_tls
#endif

#define CACHE_LINE    64
#define cacheline_aligned __attribute__((aligned(CACHE_LINE)))
#define format_printf(fmt, args) __attribute__((format(printf, fmt, args)))

#endif
