/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Handlers of signals.  In the system's calls a handler runs when the thread waits, or when the
 * call is over; what it interrupts holds nothing, so it may leave by longjmp(), as iperf3's does at
 * ^C.  The same here: a signal that comes in the middle of a call of rsockets is put off until the
 * thread leaves the call or is about to sleep; and longjmp() out of a wait runs the cleanups of the
 * call first, as for a thread that is cancelled.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

#include "rdmacm/rs_call.h"
#include "rspreload/real.h"
#include "util/atomic.h"
#include "util/restart.h"

PRELOAD_EXPORT sighandler_t __sysv_signal(int sig, sighandler_t handler);
PRELOAD_EXPORT void __longjmp_chk(jmp_buf env, int value) __attribute__((noreturn));

typedef void handler_fn(int sig, siginfo_t *info, void *context);

enum {
	MOST_PUT_OFF = 16,
	OURS = SA_SIGINFO | SA_RESETHAND, /* flags that the system need not know as they are */
};

/* What the program has set. */
static struct {
	handler_fn *handler; /* atomic */
	int flags;           /* atomic: those in OURS */
} actions[NSIG];

/* ---- Signals ---- */

/* Of this thread. */
static __thread struct {
	/* Atomic: other handlers interrupt this one's. */
	unsigned int n;
	uint64_t standard; /* those that, as in the system, wait once */
	siginfo_t signals[MOST_PUT_OFF];
} put_off;

static void run(int sig, siginfo_t *info, void *context)
{
	handler_fn *handler = load_relaxed(&actions[sig].handler);

	if (load_relaxed(&actions[sig].flags) & SA_RESETHAND)
		real()->signal(sig, SIG_DFL);
	handler(sig, info, context);
}

/* Sends them once more, all before the first is handled: its handler may not return. */
static void catch_up(void)
{
	unsigned int n = load_relaxed(&put_off.n), i;
	sigset_t every, was;
	int error = errno;

	sigfillset(&every);
	pthread_sigmask(SIG_SETMASK, &every, &was);
	n = n < MOST_PUT_OFF ? n : MOST_PUT_OFF;
	for (i = 0; i < n; i++)
		syscall(SYS_rt_tgsigqueueinfo, getpid(), (pid_t)syscall(SYS_gettid),
			put_off.signals[i].si_signo, &put_off.signals[i]);
	store_relaxed(&put_off.n, 0U);
	store_relaxed(&put_off.standard, (uint64_t)0);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	errno = error;
}

static bool postpone(int sig, const siginfo_t *info)
{
	const uint64_t bit = sig < SIGRTMIN ? (uint64_t)1 << sig : 0;
	unsigned int i;

	if (fetch_or_acq_rel(&put_off.standard, bit) & bit)
		return true;
	i = fetch_add_relaxed(&put_off.n, 1U);
	if (i >= MOST_PUT_OFF)
		return false;
	put_off.signals[i] = *info;
	put_off.signals[i].si_signo = sig;
	vrb_rs_later(catch_up);
	return true;
}

static void on_signal(int sig, siginfo_t *info, void *context)
{
	if (vrb_rs_where() != RS_INSIDE || !postpone(sig, info))
		run(sig, info, context);
}

/* ---- Actions ---- */

static bool is_handler(const struct sigaction *act)
{
	return act->sa_handler != SIG_DFL && act->sa_handler != SIG_IGN;
}

/* As the program knows it. */
static void translate(struct sigaction *act, handler_fn *handler, int flags)
{
	if (act->sa_sigaction != on_signal)
		return;
	act->sa_sigaction = handler;
	act->sa_flags = (act->sa_flags & ~OURS) | flags;
}

PRELOAD_EXPORT int sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	bool known = sig > 0 && sig < NSIG;
	handler_fn *handler = known ? load_relaxed(&actions[sig].handler) : NULL;
	int flags = known ? load_relaxed(&actions[sig].flags) : 0, ret;
	struct sigaction ours;

	if (act && known && is_handler(act) && !restart_is_fault(sig) &&
	    !real_is_ours(__builtin_return_address(0))) {
		ours = *act;
		ours.sa_sigaction = on_signal;
		ours.sa_flags = (act->sa_flags & ~OURS) | SA_SIGINFO;
		store_relaxed(&actions[sig].flags, act->sa_flags & OURS);
		store_relaxed(&actions[sig].handler, act->sa_sigaction);
		act = &ours;
	}
	ret = real()->sigaction(sig, act, old);
	if (!ret && old)
		translate(old, handler, flags);
	return ret;
}

/* The system's decides on the flags. */
static sighandler_t set_by(sighandler_t (*set)(int, sighandler_t), int sig, sighandler_t handler)
{
	struct sigaction was, act;

	if (sigaction(sig, NULL, &was))
		return SIG_ERR;
	if (set(sig, handler) == SIG_ERR)
		return SIG_ERR;
	if (handler != SIG_DFL && handler != SIG_IGN && !real()->sigaction(sig, NULL, &act))
		sigaction(sig, &act, NULL);
	return was.sa_handler;
}

PRELOAD_EXPORT sighandler_t signal(int sig, sighandler_t handler)
{
	return set_by(real()->signal, sig, handler);
}

PRELOAD_EXPORT sighandler_t __sysv_signal(int sig, sighandler_t handler)
{
	return set_by(real()->__sysv_signal, sig, handler);
}

/* ---- Jumps ---- */

typedef void jump_fn(jmp_buf env, int value);

/* Of this thread.  The stack below the frames that it leaves is used by their cleanups. */
static __thread struct {
	struct _Unwind_Exception exception;
	jump_fn *jump;
	struct __jmp_buf_tag *env;
	int value;
} leaving;

/* Those between librdmacm's and the program's. */
static bool is_of_this_library(const void *at)
{
	Dl_info its, ours;

	return dladdr(at, &its) && dladdr((const void *)is_of_this_library, &ours) &&
	       its.dli_fbase == ours.dli_fbase;
}

static bool is_inside(struct _Unwind_Context *frame)
{
	return vrb_rs_where() != RS_OUTSIDE ||
	       is_of_this_library((const void *)_Unwind_GetIP(frame));
}

static _Unwind_Reason_Code stop(int version, _Unwind_Action actions_now,
				_Unwind_Exception_Class exception_class,
				struct _Unwind_Exception *exception, struct _Unwind_Context *frame,
				void *unused)
{
	if (actions_now & _UA_END_OF_STACK || !is_inside(frame))
		leaving.jump(leaving.env, leaving.value);
	return _URC_NO_REASON;
}

/* Only a handler comes here in a call. */
static __attribute__((noreturn)) void leave(jump_fn *jump, jmp_buf env, int value)
{
	if (vrb_rs_where() == RS_SLEEPING) {
		vrb_rs_wait_end();
		leaving.jump = jump;
		leaving.env = env;
		leaving.value = value;
		memset(&leaving.exception, 0, sizeof(leaving.exception));
		_Unwind_ForcedUnwind(&leaving.exception, stop, NULL);
	}
	jump(env, value);
	__builtin_unreachable();
}

PRELOAD_EXPORT void longjmp(jmp_buf env, int value)
{
	leave(real()->longjmp, env, value);
}

PRELOAD_EXPORT void _longjmp(jmp_buf env, int value)
{
	leave(real()->_longjmp, env, value);
}

PRELOAD_EXPORT void siglongjmp(jmp_buf env, int value)
{
	leave(real()->siglongjmp, env, value);
}

PRELOAD_EXPORT void __longjmp_chk(jmp_buf env, int value)
{
	leave(real()->__longjmp_chk, env, value);
}
