/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Descriptors of the program that are rsockets, or epolls over them.  The program's descriptor is
 * an unconnected socket of the system, so that its number can become a real one, and be shared by
 * dup().  To fstat() and lseek() it is a socket, and a call that does not come by here, such as
 * io_uring's, fails on it, where a file would take the data.
 */
#ifndef VRB_RSPRELOAD_ENTRY_H
#define VRB_RSPRELOAD_ENTRY_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/socket.h>

enum entry_kind {
	ENTRY_SOCKET,
	ENTRY_EPOLL,
	ENTRY_DEFERRED, /* still a socket of the system: deferred.h */
};

/* Of a deferred socket. */
enum entry_side {
	SIDE_NONE,
	SIDE_CONNECTED, /* or about to be */
	SIDE_ACCEPTED,
	SIDE_TCP, /* for ever */
};

struct entry {
	enum entry_kind kind;
	enum entry_side side;
	int fd;             /* of rsocket(), or repoll_create(); -1: deferred */
	unsigned int users; /* numbers of the program, and entry_hold(); atomic */
	int domain, type;
	struct sockaddr_storage bound; /* by the program; bound_len 0: not */
	socklen_t bound_len;
	bool reuses_port; /* SO_REUSEPORT */
	pthread_mutex_t turn; /* of a deferred one, while it becomes an rsocket */
	bool refused;         /* atomic: a deferred one has no room until it is an rsocket */
	bool inherited;       /* accepted by another process */
	bool connects; /* atomic: rconnect() goes on in the background, or its end is not known */
	struct sockaddr_storage peer; /* of that */
	socklen_t peer_len;
	struct held_back *held_back; /* epoll.c's */
};

/* Returns the entry of a number; NULL: the number is a descriptor of the system. */
struct entry *entry_find(int number);

/*
 * In a child of vfork(), which has descriptors of its own, but the memory of its parent: the table
 * and what it stands for must stay as they are.
 */
bool entry_is_parents(void);

/* The descriptor to call rsockets with; -1: the system's own. */
int entry_fd(int number);

/* What the system has at a number that stands for something else; -1 with errno. */
int entry_placeholder(bool cloexec);

/* Returns a number for the descriptor, which the entry then owns; -1 with errno. */
int entry_make(enum entry_kind kind, int fd, bool cloexec);

/*
 * A number, and an entry that stands for nothing yet: entry_fill() ends that, or entry_unreserve().
 * False with errno: there is none.
 */
struct entry_place {
	struct entry *e;
	int number;
};
bool entry_reserve(struct entry_place *p, bool cloexec);
void entry_fill(const struct entry_place *p, enum entry_kind kind, int fd);
void entry_unreserve(void *place);

/* Returns a deferred entry for a stream socket of the system; NULL with errno. */
struct entry *entry_adopt(int number, int domain);

/*
 * Makes `number`, which is already open, stand for e. Returns it; or -1 with EMFILE, and it is
 * closed: it is above those that can stand for something.
 */
int entry_share(struct entry *e, int number);

/*
 * Removes the number. Returns its entry if this was its last user, for entry_release(), else NULL.
 */
struct entry *entry_drop(int number);

/* For a number that another thread may close meanwhile; NULL: none.  The end is entry_drop()'s. */
struct entry *entry_hold(int number);
struct entry *entry_put(struct entry *e);

/* socket.c: closes what it stands for, and frees it.  NULL: nothing. */
void entry_release(struct entry *e);

/* The file `made` takes the number's place, too, unless the number is e's no more. */
void entry_replace(const struct entry *e, int number, int made);

/* All numbers that are entries are lower. */
int entry_end(void);

/* Numbers from here on are no entries. */
enum { ENTRY_NUMBERS = 65536 };

/* True if there is any entry. */
bool entry_any(void);

#endif
