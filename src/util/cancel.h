/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A cancelled thread (pthread_cancel) ends in the next cancellation point of the C library: most
 * calls that may sleep, even if they do not. Posting, polling and arming must not end there,
 * because they hold locks. So their system calls are
 *
 *	frequent ones: made directly, below; that is also faster
 *	rare ones: made between cancel_off() and cancel_on()
 *
 * Both leave errno alone: it must not change in calls that succeed, as posting and polling mostly
 * do.
 *
 * A thread that sleeps in one of our calls, for an event, may be cancelled; it holds no lock.
 */
#ifndef VRB_UTIL_CANCEL_H
#define VRB_UTIL_CANCEL_H

#include <errno.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* Returns errno and, as the lowest bit, the state that cancel_on() restores with it. */
static inline int cancel_off(void)
{
	int old;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	return errno << 1 | (old == PTHREAD_CANCEL_DISABLE);
}

static inline void cancel_on(int old)
{
	pthread_setcancelstate(old & 1 ? PTHREAD_CANCEL_DISABLE : PTHREAD_CANCEL_ENABLE, NULL);
	errno = old >> 1;
}

/* As those without sys_, but a failure is the negative errno value, as the kernel returns it. */

static inline long sys_result(long result, int before)
{
	if (result < 0) {
		result = -errno;
		errno = before;
	}
	return result;
}

/* For calls of the C library that are no cancellation points. */
#define SYS_RESULT(call)                                                                           \
	({                                                                                         \
		int before_ = errno;                                                               \
		sys_result(call, before_);                                                         \
	})

#define SYS_CALL(...) SYS_RESULT(syscall(__VA_ARGS__))

static inline ssize_t sys_write(int fd, const void *buf, size_t len)
{
	return SYS_CALL(SYS_write, fd, buf, len);
}

#ifndef RWF_NOWAIT	/* musl before 1.2.5 */
#define RWF_NOWAIT 8
#endif

/* At the file's own position; the kernel takes an offset in two halves. */
static inline ssize_t sys_preadv2_here(int fd, const struct iovec *iov, int n, int flags)
{
	return SYS_CALL(SYS_preadv2, fd, iov, n, -1L, -1L, flags);
}

static inline ssize_t sys_sendmsg(int fd, const struct msghdr *m, int flags)
{
	return SYS_CALL(SYS_sendmsg, fd, m, flags);
}

static inline ssize_t sys_recvmsg(int fd, struct msghdr *m, int flags)
{
	return SYS_CALL(SYS_recvmsg, fd, m, flags);
}

static inline int sys_sendmmsg(int fd, struct mmsghdr *m, unsigned int n, int flags)
{
	return (int)SYS_CALL(SYS_sendmmsg, fd, m, n, flags);
}

/* Does not wait. */
static inline int sys_epoll_look(int epoll, struct epoll_event *e, int n)
{
	return (int)SYS_CALL(SYS_epoll_pwait, epoll, e, n, 0, NULL, 0);
}

/* Without the timeout, whose type differs between machines. */
static inline int sys_recvmmsg(int fd, struct mmsghdr *m, unsigned int n, int flags)
{
#ifdef SYS_recvmmsg
	return (int)SYS_CALL(SYS_recvmmsg, fd, m, n, flags, NULL);
#else
	return (int)SYS_CALL(SYS_recvmmsg_time64, fd, m, n, flags, NULL);
#endif
}

#endif
