/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Access to memory that may not be mapped: copies and 8-byte accesses that report a fault instead
 * of raising SIGSEGV or SIGBUS.
 *
 * The accesses are leaf routines in one known range of instructions. When a signal handler finds
 * the fault in that range, it makes the routine return "fault". Every other signal goes on to the
 * handler (or default action) installed before ours, as if ours did not exist. Handlers are
 * process-wide: each registration calls vrb_guard_install(), which puts our handler back in front
 * if the program replaced it, and saves the program's.
 *
 * Architectures without assembly routines use sigsetjmp, which is slower.
 *
 * SIGSEGV and SIGBUS are unblocked in a thread at its first guarded access and at each
 * registration: with the signal blocked, the kernel would kill the process.
 */
#ifndef VRB_RUN_NOFAULT_H
#define VRB_RUN_NOFAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Installs the handlers if they are not in place; two system calls if they are. Thread-safe. */
void vrb_guard_install(void);

/* For a forked child: the thread that held the lock may not exist. */
void vrb_guard_after_fork(void);

/*
 * Copies in ascending order. The last bytes (eight, or all if the length is 8, 4, 2 or 1) become
 * visible last and at once, because programs spin on them. Returns false on a fault; a prefix may
 * have been copied.
 */
bool vrb_guard_copy(void *dst, const void *src, size_t len);

/*
 * The same, but all bytes except the last ones in any order, with stores past the caches where the
 * processor has such (x86-64): faster if another processor, whose cache is far away, has used dst
 * and reads the bytes next; otherwise usually slower.
 */
bool vrb_guard_copy_past(void *dst, const void *src, size_t len);

/* 8-byte accesses to aligned memory, sequentially consistent. Return false on a fault. */
bool vrb_guard_store64(uint64_t *p, uint64_t value);
bool vrb_guard_cmp_swap64(uint64_t *p, uint64_t compare, uint64_t swap, uint64_t *original);
bool vrb_guard_fetch_add64(uint64_t *p, uint64_t add, uint64_t *original);

#endif
