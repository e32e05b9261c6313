/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Descriptors of the program that are rsockets, or epolls over them.  The program's number is that
 * of an opened /dev/null, so that it can be kept when it is turned into a real socket, and shared
 * by dup().
 */
#ifndef VRB_RSPRELOAD_ENTRY_H
#define VRB_RSPRELOAD_ENTRY_H

#include <pthread.h>
#include <stdbool.h>

enum entry_kind {
	ENTRY_SOCKET,
	ENTRY_EPOLL,
	ENTRY_DEFERRED, /* a socket of the system's still: deferred.h */
};

/* Of a deferred socket. */
enum entry_side {
	SIDE_NONE,
	SIDE_CONNECTED, /* or about to be */
	SIDE_ACCEPTED,
};

struct entry {
	enum entry_kind kind;
	enum entry_side side;
	int fd;             /* of rsocket(), or repoll_create(); -1: deferred */
	unsigned int users; /* numbers of the program; atomic */
	int domain, type;
	pthread_mutex_t turn; /* of a deferred one, while it becomes an rsocket */
};

/* The entry of a number; NULL: it is the system's. */
struct entry *entry_find(int number);

/* The descriptor to call rsockets with; -1: the system's own. */
int entry_fd(int number);

/* A number for the descriptor, which the entry owns from then on.  -1 with errno. */
int entry_make(enum entry_kind kind, int fd, bool cloexec);

/* A deferred entry for a stream socket of the system's.  NULL with errno. */
struct entry *entry_adopt(int number, int domain);

/* number becomes the same as e; it is open already. */
void entry_share(struct entry *e, int number);

/*
 * The number is no entry any more.  Returns its entry if it was the last number of it, which is
 * then the caller's to free, else NULL.
 */
struct entry *entry_drop(int number);

/* Are there any? */
bool entry_any(void);

#endif
