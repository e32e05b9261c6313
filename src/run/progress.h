/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The progress thread: does for programs that do not poll what ibv_poll_cq does for those that do.
 *
 * It sleeps in poll(2) until a descriptor it watches is readable or a deadline has come.  All
 * signals but SIGSEGV and SIGBUS are blocked in it; it is called "verbena".
 *
 * Standing back.  While an application thread polls, that thread empties the sockets, and the
 * progress thread would only be woken to find nothing.  After a few wake-ups in a row for which the
 * callbacks of PROGRESS_SHARED descriptors report nothing done, it stops watching those and looks
 * about every millisecond instead, for as long as progress_polled() keeps being called; once
 * polling stops it watches again.  An idle process therefore has no wake-ups at all.
 *
 * Locks: callbacks run without any lock of this part.  Its own lock is a leaf.
 */
#ifndef VRB_RUN_PROGRESS_H
#define VRB_RUN_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress;

/* A descriptor is readable. True if there was work left. */
typedef bool (*progress_ready_fn)(void *arg, int fd);

/* May the thread sleep until something happens? */
enum progress_rest {
	PROGRESS_SLEEP,		/* yes: new work will make a descriptor readable */
	PROGRESS_WORKED,	/* there was work, and it has been done: ask again */
	PROGRESS_BUSY,		/* another thread does the work */
};

struct progress_ops {
	/* What the thread does first; may be NULL. */
	void (*begin)(void *arg);
	/* The earliest deadline or VRB_NEVER; called often: must be cheap and take no lock. */
	uint64_t (*deadline)(void *arg);
	/* The deadline has come. */
	void (*expire)(void *arg, uint64_t now);
	/* Asked before each sleep in which the thread is not standing back; may be NULL. */
	enum progress_rest (*rest)(void *arg);
};

enum progress_kind {
	PROGRESS_OWN,		/* only this thread reads it: always watched */
	PROGRESS_SHARED,	/* pollers read it too: may be stood back from */
};

/* ops may be NULL: no deadlines. Returns 0 or an errno value. The thread is not started. */
int progress_new(const struct progress_ops *ops, void *arg, struct progress **out);

/* Stops it if it runs, and frees it. Must not be called from a callback. */
void progress_free(struct progress *p);

/* Starts the thread. Returns 0 or an errno value. */
int progress_start(struct progress *p);

/*
 * Ends the thread and waits for it; the caller holds no lock that a callback takes, and is not in a
 * callback. Nothing is called after it returns. Harmless if it does not run; it can be started
 * again.
 */
void progress_stop(struct progress *p);

/*
 * Watches a descriptor until progress_unwatch(). Any thread, before or after the start. Returns 0
 * or an errno value.
 */
int progress_watch(struct progress *p, int fd, enum progress_kind kind, progress_ready_fn ready,
		   void *arg);

/*
 * Stops watching, to be called before the descriptor is closed.  When it returns the callback does
 * not run and will not (unless called from that callback itself).  Same condition on locks as
 * progress_stop().
 */
void progress_unwatch(struct progress *p, int fd);

/*
 * A deadline `at` has been set: wakes the thread if it would sleep past it.  Call after making it
 * visible to ops->deadline().  One fence and one load if there is nothing to do; takes no lock; any
 * thread.
 */
void progress_hurry(struct progress *p, uint64_t at);

/* Makes the thread look at everything once, shared descriptors too. */
void progress_wake(struct progress *p);

/*
 * Application threads are going to do the work for a while: stand back now, and leave deadlines to
 * them as well.  The thread comes back once no thread has polled for a millisecond.
 */
void progress_stand_back(struct progress *p);

/*
 * For callbacks: there was work of a kind that a program does not poll for, as an RDMA WRITE to its
 * memory.  Had the thread just come back to find it, the program is one that polls at times and
 * watches memory at others, as after a WRITE of its own to the answer of it, and had better not ask
 * the thread to stand back: it is needed, until many wake-ups have proved useless.  Work that polls
 * find as well proves nothing: the program may have been kept from polling for want of a processor.
 */
void progress_missed(struct progress *p);
bool progress_needed(const struct progress *p);
bool progress_away(const struct progress *p);

/*
 * For callbacks: more is expected soon, so the thread does not sleep before `until` but looks at
 * its descriptors again and again.
 */
void progress_linger(struct progress *p, uint64_t until);

/*
 * An application thread has polled the shared descriptors. A load, rarely a store; any thread, no
 * lock.
 */
void progress_polled(struct progress *p);

/*
 * And it has taken what was there: the thread was woken in vain, unless it stands back, even where
 * it went on sleeping in its system call because the descriptor was empty again.
 */
void progress_taken(struct progress *p);

/* How often the thread has returned from its sleep. */
uint64_t progress_wakeups(const struct progress *p);

/*
 * In a forked child, where the thread does not exist: closes the inherited descriptors of this part
 * and frees the memory, and leaves the parent's watches alone.
 */
void progress_forget(struct progress *p);

#endif
