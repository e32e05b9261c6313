/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The progress thread makes progress for programs that do not poll, as ibv_poll_cq does for those
 * that poll.
 *
 * It sleeps in poll(2) until a watched descriptor is readable or a deadline has passed.  All
 * signals but SIGSEGV and SIGBUS are blocked in it; it is called "verbena".
 *
 * Standing back.  While an application thread polls, that thread empties the sockets, and the
 * progress thread would only be woken to find nothing.  After a few wake-ups in a row for which the
 * callbacks of PROGRESS_SHARED descriptors report nothing done, it stops watching those and checks
 * them once per millisecond instead, while progress_polled() is being called; once polling stops it
 * watches them again. So an idle process has no wake-ups.
 *
 * Locks: callbacks run without any lock of this part.  Its own lock is a leaf.
 */
#ifndef VRB_RUN_PROGRESS_H
#define VRB_RUN_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress;

/* Called when a descriptor is readable. Returns true if it found work. */
typedef bool (*progress_ready_fn)(void *arg, int fd);

/* Returns whether the thread may sleep until an event. */
enum progress_rest {
	PROGRESS_SLEEP,		/* yes: new work will make a descriptor readable */
	PROGRESS_WORKED,	/* work was found and done: ask again */
	PROGRESS_BUSY,		/* another thread does the work */
};

struct progress_ops {
	/* Called first in the thread; may be NULL. */
	void (*begin)(void *arg);
	/* The earliest deadline or VRB_NEVER. Called often: must be cheap and take no lock. */
	uint64_t (*deadline)(void *arg);
	/* The deadline has come. */
	void (*expire)(void *arg, uint64_t now);
	/* Called before each sleep except while standing back; may be NULL. */
	enum progress_rest (*rest)(void *arg);
	/*
	 * Do pollers read the descriptors of PROGRESS_AT_TIMES now? Called before each sleep while
	 * standing back, so a change counts within a millisecond. NULL: always.
	 */
	bool (*pollers_read)(void *arg);
};

enum progress_kind {
	PROGRESS_OWN,		/* only this thread reads it: always watched */
	PROGRESS_SHARED,	/* pollers read it, too: not watched while standing back */
	PROGRESS_AT_TIMES,	/* the same while ops->pollers_read(), else always watched */
};

/* ops may be NULL: no deadlines. Returns 0 or an errno value. The thread is not started. */
int progress_new(const struct progress_ops *ops, void *arg, struct progress **out);

/* Stops it if it runs, and frees it. Must not be called from a callback. */
void progress_free(struct progress *p);

/* Starts the thread. Returns 0 or an errno value. */
int progress_start(struct progress *p);

/*
 * Ends the thread and waits for it. The caller must hold no lock that a callback takes, and must
 * not be in a callback. No callback runs after it returns. No effect if the thread does not run; it
 * can be started again.
 */
void progress_stop(struct progress *p);

/*
 * Watches a descriptor until progress_unwatch(). Any thread, before or after the start. Returns 0
 * or an errno value.
 */
int progress_watch(struct progress *p, int fd, enum progress_kind kind, progress_ready_fn ready,
		   void *arg);

/*
 * Stops watching; call it before closing the descriptor. After it returns, the callback is not
 * running and will not be called (unless this call was made in that callback). Same condition on
 * locks as progress_stop().
 */
void progress_unwatch(struct progress *p, int fd);

/*
 * A deadline `at` has been set: wakes the thread if it would sleep past it.  Call after making it
 * visible to ops->deadline().  One fence and one load if there is nothing to do; takes no lock; any
 * thread.
 */
void progress_hurry(struct progress *p, uint64_t at);

/* Makes the thread check all descriptors once, including shared ones. */
void progress_wake(struct progress *p);

/*
 * Application threads will make progress for a while: stands back now, and leaves deadlines to
 * them, too. Standing back ends once no thread has polled for a millisecond.
 */
void progress_stand_back(struct progress *p);

/*
 * For callbacks: found work that a program does not poll for, such as an RDMA WRITE to its memory.
 * If the thread had just stopped standing back, the program sometimes polls and sometimes watches
 * memory, for example between its own WRITE and the peer's reply. Then more useless wake-ups are
 * needed before the thread stands back. Work that polls find as well proves nothing: the program
 * may only have lacked a CPU.
 */
void progress_missed(struct progress *p);
bool progress_needed(const struct progress *p);
bool progress_away(const struct progress *p);

/*
 * For callbacks: more work is expected soon, so until `until` the thread checks its descriptors
 * repeatedly instead of sleeping.
 */
void progress_linger(struct progress *p, uint64_t until);

/*
 * An application thread has polled the shared descriptors. A load, rarely a store; any thread, no
 * lock.
 */
void progress_polled(struct progress *p);

/*
 * As progress_polled(), and the poller has emptied the descriptors: counts as a useless wake-up
 * unless the thread stands back, even if the thread kept sleeping in its system call because the
 * descriptor was empty again.
 */
void progress_taken(struct progress *p);

/*
 * For the end of the process: has the thread call `job` and waits for its return, but not for ever:
 * longer while it runs, or has no CPU, than while it sleeps. The caller may hold any lock, as a
 * signal's handler may have called exit(). If job() takes one of these, the thread stays there, and
 * later calls do nothing. Where the thread does not run, or p is NULL, it calls job() itself.
 */
void progress_at_exit(struct progress *p, void (*job)(void));

/* CPU time of the thread, in ns; 0 if it does not run, or p is NULL. */
uint64_t progress_cpu_time(const struct progress *p);

/* The number of times that the thread has returned from its sleep. */
uint64_t progress_wakeups(const struct progress *p);

/*
 * In a forked child, where the thread does not exist: closes the inherited descriptors of this part
 * and frees the memory, and leaves the parent's watches alone.
 */
void progress_forget(struct progress *p);

#endif
