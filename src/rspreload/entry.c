/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of numbers. */
#include "rspreload/entry.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rspreload/real.h"
#include "rspreload/stdio.h"
#include "util/atomic.h"

static struct entry *table[ENTRY_NUMBERS];
static unsigned int used;
static int end; /* atomic */

/* Leaf lock: a number that is found under it keeps its entry. */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

/* The process that the table belongs to. */
static pid_t owner;

static void own(void)
{
	owner = getpid();
	pthread_mutex_init(&gate, NULL);
}

__attribute__((constructor)) static void watch_forks(void)
{
	own();
	pthread_atfork(NULL, NULL, own);
}

bool entry_is_parents(void)
{
	return getpid() != owner;
}

struct entry *entry_find(int number)
{
	return number >= 0 && number < ENTRY_NUMBERS ? load_acquire(&table[number]) : NULL;
}

int entry_fd(int number)
{
	const struct entry *e = entry_find(number);

	return e ? e->fd : -1;
}

bool entry_any(void)
{
	return load_relaxed(&used) != 0;
}

/* One that is in no file system, and never connected. */
int entry_placeholder(bool cloexec)
{
	return real()->socket(AF_UNIX, SOCK_STREAM | (cloexec ? SOCK_CLOEXEC : 0), 0);
}

bool entry_reserve(struct entry_place *p, bool cloexec)
{
	p->e = calloc(1, sizeof(*p->e));
	p->number = p->e ? entry_placeholder(cloexec) : -1;
	if (p->number >= 0 && p->number < ENTRY_NUMBERS)
		return true;
	if (p->number >= 0)
		errno = EMFILE;
	entry_unreserve(p);
	return false;
}

void entry_fill(const struct entry_place *p, enum entry_kind kind, int fd)
{
	*p->e = (struct entry){ .kind = kind, .fd = fd };
	entry_share(p->e, p->number);
}

void entry_unreserve(void *place)
{
	const struct entry_place *p = place;
	int error = errno;

	free(p->e);
	if (p->number >= 0)
		real()->close(p->number);
	errno = error;
}

int entry_make(enum entry_kind kind, int fd, bool cloexec)
{
	struct entry_place p;

	if (!entry_reserve(&p, cloexec))
		return -1;
	entry_fill(&p, kind, fd);
	return p.number;
}

struct entry *entry_adopt(int number, int domain)
{
	struct entry *e = number < ENTRY_NUMBERS ? calloc(1, sizeof(*e)) : NULL;

	if (!e) {
		errno = number < ENTRY_NUMBERS ? ENOMEM : EMFILE;
		return NULL;
	}
	*e = (struct entry){
		.kind = ENTRY_DEFERRED, .fd = -1, .domain = domain, .type = SOCK_STREAM
	};
	pthread_mutex_init(&e->turn, NULL);
	entry_share(e, number);
	return e;
}

static void raise_end(int to)
{
	int was = load_relaxed(&end);

	while (was < to && !cas_acq_rel(&end, &was, to))
		;
}

int entry_share(struct entry *e, int number)
{
	if (number >= ENTRY_NUMBERS) {
		real()->close(number);
		errno = EMFILE;
		return -1;
	}
	fetch_add_relaxed(&e->users, 1U);
	fetch_add_relaxed(&used, 1U);
	raise_end(number + 1);
	store_release(&table[number], e);
	if (e->kind != ENTRY_EPOLL)
		stdio_follow(number);
	return number;
}

struct entry *entry_drop(int number)
{
	struct entry *e;

	pthread_mutex_lock(&gate);
	e = entry_find(number);
	if (e) {
		store_release(&table[number], NULL);
		fetch_sub_acq_rel(&used, 1U);
	}
	pthread_mutex_unlock(&gate);
	return e ? entry_put(e) : NULL;
}

struct entry *entry_hold(int number)
{
	struct entry *e;

	pthread_mutex_lock(&gate);
	e = entry_find(number);
	if (e)
		fetch_add_relaxed(&e->users, 1U);
	pthread_mutex_unlock(&gate);
	return e;
}

struct entry *entry_put(struct entry *e)
{
	return fetch_sub_acq_rel(&e->users, 1U) == 1 ? e : NULL;
}

void entry_replace(const struct entry *e, int number, int made)
{
	int flags;

	pthread_mutex_lock(&gate);
	if (entry_find(number) == e) {
		flags = real()->fcntl(number, F_GETFD);
		real()->dup3(made, number, flags & FD_CLOEXEC ? O_CLOEXEC : 0);
	}
	pthread_mutex_unlock(&gate);
}

int entry_end(void)
{
	return load_relaxed(&end);
}
