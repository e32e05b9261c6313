/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Access to memory that may not be there: copies and 8-byte accesses that report a fault instead of
 * raising SIGSEGV or SIGBUS.
 *
 * The accesses are leaf routines in one known range of instructions.  A signal handler that finds
 * the fault in that range makes the routine return "fault"; every other signal goes on to the
 * handler (or default action) that was installed before ours, which sees it as if ours did not
 * exist.  Handlers are process-wide: vrb_guard_install() is called by each registration and puts
 * ours back in front if the program replaced it, remembering the program's.
 *
 * On architectures without routines of their own, sigsetjmp does the same more slowly.
 *
 * A thread that blocks SIGSEGV and SIGBUS gets them unblocked at its first guarded access and at
 * each registration: nothing else would save it from what other threads survive.
 */
#ifndef VRB_CORE_GUARD_H
#define VRB_CORE_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Makes sure the handlers are in place. Cheap when they are (two system calls). Thread-safe. */
void vrb_guard_install(void);

/* A forked child: the lock's owner may not exist any more. */
void vrb_guard_after_fork(void);

/*
 * Copies in ascending order; the last bytes (eight, or the whole if it is 8, 4, 2 or 1) become
 * visible last and at once, because programs spin on them. False on a fault; a prefix may have been
 * copied.
 */
bool vrb_guard_copy(void *dst, const void *src, size_t len);

/* 8-byte accesses to aligned memory, sequentially consistent. False on a fault. */
bool vrb_guard_store64(uint64_t *p, uint64_t value);
bool vrb_guard_cmp_swap64(uint64_t *p, uint64_t compare, uint64_t swap, uint64_t *original);
bool vrb_guard_fetch_add64(uint64_t *p, uint64_t add, uint64_t *original);

#endif
