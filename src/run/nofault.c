/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The signal handlers behind guarded accesses. nofault.h documents the interface, nofault_<arch>.S
 * has the routines.
 *
 * `saved` holds, per signal, the program's own actions: the first one found, and those found later
 * in place of our handler. A later one may call our handler as its predecessor; `chaining` then
 * makes us continue with the action before it. Writers hold `lock`. The handler reads without a
 * lock, through entries that never change once published.
 */
#include "run/nofault.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "util/atomic.h"
#include "util/compiler.h"

#if defined(VRB_GUARD_GENERIC)
/* The portable form, so that it can be tested. */
#elif defined(__x86_64__) && defined(__LP64__)
#define GUARD_PC(uc) ((uc)->uc_mcontext.gregs[REG_RIP])
#define GUARD_PAST_LEAST 32 /* bytes */
#elif defined(__aarch64__) && defined(__ORDER_LITTLE_ENDIAN__)
#define GUARD_PC(uc) ((uc)->uc_mcontext.pc)
#endif

static const int signals[] = { SIGSEGV, SIGBUS };

/* How often we put our handler back before the program's; after that the program's stays. */
enum { MAX_SAVED = 16 };

struct saved_action {
	struct sigaction actions[MAX_SAVED];
	unsigned int count; /* atomic: published entries */
	unsigned int spent; /* atomic: bit mask of those with SA_RESETHAND that have been called */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct saved_action saved[ARRAY_SIZE(signals)];

/* Initial-exec TLS: the first access from a signal handler must not allocate. */
static __thread struct {
	const void *context; /* of the signal being chained */
	const char *frame;   /* frame of on_fault() when chaining began */
	unsigned int depth;
} chaining static_tls;

/* The kernel kills a process that faults with the signal blocked. Initial-exec as above. */
static __thread bool unblocked static_tls;

#ifndef GUARD_PC
static __thread sigjmp_buf *active_guard static_tls;
#endif

static void on_fault(int sig, siginfo_t *info, void *context);

/* If the fault is in a guarded access, makes that access return a fault. */
static bool guarded(void *context)
{
#ifdef GUARD_PC
	extern const char vrb_guard_begin[], vrb_guard_end[], vrb_guard_fault[];
	ucontext_t *uc = context;
	uintptr_t pc = GUARD_PC(uc);

	if (pc < (uintptr_t)vrb_guard_begin || pc >= (uintptr_t)vrb_guard_end)
		return false;
	GUARD_PC(uc) = (uintptr_t)vrb_guard_fault;
	return true;
#else
	if (active_guard)
		siglongjmp(*active_guard, 1);
	return false;
#endif
}

/*
 * The default action. A fault recurs on return, with the handler removed; a signal sent by kill(2)
 * is sent again.
 */
static void default_action(int sig, const siginfo_t *info)
{
	struct sigaction dfl = { .sa_handler = SIG_DFL };

	sigaction(sig, &dfl, NULL);
	if (info->si_code <= 0)
		syscall(SYS_tgkill, getpid(), (pid_t)syscall(SYS_gettid), sig);
}

static void call_action(const struct sigaction *act, int sig, siginfo_t *info, void *context)
{
	sigset_t mask = act->sa_mask, before;

	if (!(act->sa_flags & SA_NODEFER))
		sigaddset(&mask, sig);
	else
		sigdelset(&mask, sig);
	pthread_sigmask(SIG_BLOCK, &mask, &before);
	if (act->sa_flags & SA_NODEFER) {
		sigset_t one;

		sigemptyset(&one);
		sigaddset(&one, sig);
		pthread_sigmask(SIG_UNBLOCK, &one, NULL);
	}
	chaining.depth++;
	if (act->sa_flags & SA_SIGINFO)
		act->sa_sigaction(sig, info, context);
	else
		act->sa_handler(sig);
	chaining.depth--;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Has the kernel, as the program sees it, put the default action in place of this one? */
static bool is_spent(struct saved_action *s, unsigned int index)
{
	unsigned int bit = 1u << index;

	return s->actions[index].sa_flags & SA_RESETHAND && fetch_or_acq_rel(&s->spent, bit) & bit;
}

/* Passes the signal to the handler that we replaced. */
static void chain(unsigned int which, int sig, siginfo_t *info, void *context)
{
	struct saved_action *s = &saved[which];
	unsigned int count = load_acquire(&s->count); /* pairs with remember() */
	const struct sigaction *act;

	/* Each nested call goes back one more action. */
	if (chaining.depth >= count) {
		default_action(sig, info);
		return;
	}
	act = &s->actions[count - 1 - chaining.depth];
	if (act->sa_handler == SIG_DFL) {
		default_action(sig, info);
		return;
	}
	if (act->sa_handler != SIG_IGN && is_spent(s, count - 1 - chaining.depth)) {
		default_action(sig, info);
		return;
	}
	if (act->sa_handler == SIG_IGN) {
		/* The kernel kills a process that ignores a fault. */
		if (info->si_code > 0)
			default_action(sig, info);
		return;
	}
	call_action(act, sig, info, context);
}

/*
 * Detects that a handler we called for this signal called us again: our first frame for it is then
 * higher on the stack. A handler that left by siglongjmp leaves `chaining` set, but the next signal
 * has another context or starts at the same frame.
 */
static void note_nesting(const void *context, const char *frame)
{
	if (chaining.depth && chaining.context == context && frame < chaining.frame)
		return;
	chaining.context = context;
	chaining.frame = frame;
	chaining.depth = 0;
}

static __attribute__((noinline)) void on_fault(int sig, siginfo_t *info, void *context)
{
	if (info->si_code > 0 && guarded(context))
		return;
	note_nesting(context, __builtin_frame_address(0));
	chain(sig == SIGBUS, sig, info, context);
}

static bool is_ours(const struct sigaction *act)
{
	return (act->sa_flags & SA_SIGINFO) && act->sa_sigaction == on_fault;
}

static bool same_action(const struct sigaction *a, const struct sigaction *b)
{
	return a->sa_handler == b->sa_handler && a->sa_flags == b->sa_flags;
}

/* Returns false if the table is full; the program's handler then stays. Must hold lock. */
static bool remember(struct saved_action *s, const struct sigaction *act)
{
	unsigned int count = s->count;

	if (count && same_action(&s->actions[count - 1], act)) {
		fetch_and_acq_rel(&s->spent, ~(1u << (count - 1)));	/* installed again */
		return true;
	}
	if (count == MAX_SAVED)
		return false;
	s->actions[count] = *act;
	store_release(&s->count, count + 1); /* pairs with chain() */
	return true;
}

static void install(unsigned int which)
{
	struct sigaction ours = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO }, current;
	int sig = signals[which];

	if (sigaction(sig, NULL, &current) < 0 || is_ours(&current))
		return;
	if (!remember(&saved[which], &current))
		return;
	/*
	 * Keeps the program's choice of stack and SA_RESTART. SA_NODEFER: the signal stays
	 * unblocked in our handler, so the chained handler's own mask decides.
	 */
	ours.sa_flags |= SA_NODEFER | SA_ONSTACK | (current.sa_flags & SA_RESTART);
	sigemptyset(&ours.sa_mask);
	sigaction(sig, &ours, NULL);
}

static __attribute__((noinline)) void unblock(void)
{
	sigset_t set;

	sigemptyset(&set);
	for (unsigned int i = 0; i < ARRAY_SIZE(signals); i++)
		sigaddset(&set, signals[i]);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	unblocked = true;
}

/* Called before each access. */
static inline void prepare(void)
{
	if (unlikely(!unblocked))
		unblock();
}

void vrb_guard_install(void)
{
	unblock();
	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; i < ARRAY_SIZE(signals); i++)
		install(i);
	pthread_mutex_unlock(&lock);
}

void vrb_guard_after_fork(void)
{
	pthread_mutex_init(&lock, NULL);
}

#ifdef GUARD_PC

int vrb_guard_copy_asm(void *dst, const void *src, size_t len);
int vrb_guard_copy_past_asm(void *dst, const void *src, size_t len);
int vrb_guard_store64_asm(uint64_t *p, uint64_t value);
int vrb_guard_cmp_swap64_asm(uint64_t *p, uint64_t compare, uint64_t swap, uint64_t *original);
int vrb_guard_fetch_add64_asm(uint64_t *p, uint64_t add, uint64_t *original);

bool vrb_guard_copy(void *dst, const void *src, size_t len)
{
	prepare();
	return vrb_guard_copy_asm(dst, src, len) == 0;
}

bool vrb_guard_store64(uint64_t *p, uint64_t value)
{
	prepare();
	return vrb_guard_store64_asm(p, value) == 0;
}

bool vrb_guard_cmp_swap64(uint64_t *p, uint64_t compare, uint64_t swap, uint64_t *original)
{
	prepare();
	return vrb_guard_cmp_swap64_asm(p, compare, swap, original) == 0;
}

bool vrb_guard_fetch_add64(uint64_t *p, uint64_t add, uint64_t *original)
{
	prepare();
	return vrb_guard_fetch_add64_asm(p, add, original) == 0;
}

#else

/* Runs the statement `access`; makes the enclosing function return false if it faults. */
#define GUARDED(access)                                                                            \
	do {                                                                                       \
		sigjmp_buf guard;                                                                  \
		prepare();                                                                         \
		if (sigsetjmp(guard, 1)) {                                                         \
			active_guard = NULL;                                                       \
			return false;                                                              \
		}                                                                                  \
		active_guard = &guard;                                                             \
		access;                                                                            \
		active_guard = NULL;                                                               \
	} while (0)

static void copy_ascending(volatile uint8_t *dst, const volatile uint8_t *src, size_t len)
{
	size_t last = len >= sizeof(uint64_t) ? sizeof(uint64_t) : len;
	size_t body = len - last;

	for (size_t i = 0; i < body; i++)
		dst[i] = src[i];
	full_fence(); /* Orders the tail after all other bytes. */
	if (last == sizeof(uint64_t)) {
		uint64_t v;

		memcpy(&v, (const void *)(src + body), sizeof(v));
		memcpy((void *)(dst + body), &v, sizeof(v));
		return;
	}
	for (size_t i = 0; i < last; i++)
		dst[body + i] = src[body + i];
}

bool vrb_guard_copy(void *dst, const void *src, size_t len)
{
	GUARDED(copy_ascending(dst, src, len));
	return true;
}

bool vrb_guard_store64(uint64_t *p, uint64_t value)
{
	GUARDED(store_seq_cst(p, value));
	return true;
}

bool vrb_guard_cmp_swap64(uint64_t *p, uint64_t compare, uint64_t swap, uint64_t *original)
{
	uint64_t found = compare;

	GUARDED(cas_acq_rel(p, &found, swap));
	*original = found;
	return true;
}

bool vrb_guard_fetch_add64(uint64_t *p, uint64_t add, uint64_t *original)
{
	GUARDED(*original = fetch_add_seq_cst(p, add));
	return true;
}

#endif

bool vrb_guard_copy_past(void *dst, const void *src, size_t len)
{
#ifdef GUARD_PAST_LEAST
	if (len >= GUARD_PAST_LEAST) {
		prepare();
		return vrb_guard_copy_past_asm(dst, src, len) == 0;
	}
#endif
	return vrb_guard_copy(dst, src, len);
}
