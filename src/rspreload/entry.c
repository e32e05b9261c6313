/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of numbers. */
#include "rspreload/entry.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rspreload/real.h"
#include "util/atomic.h"

static struct entry *table[ENTRY_NUMBERS];
static unsigned int used;

/* The process that the table belongs to. */
static pid_t owner;

static void own(void)
{
	owner = getpid();
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

int entry_share(struct entry *e, int number)
{
	if (number >= ENTRY_NUMBERS) {
		real()->close(number);
		errno = EMFILE;
		return -1;
	}
	fetch_add_relaxed(&e->users, 1U);
	fetch_add_relaxed(&used, 1U);
	store_release(&table[number], e);
	return number;
}

struct entry *entry_drop(int number)
{
	struct entry *e = entry_find(number);

	if (!e)
		return NULL;
	store_release(&table[number], NULL);
	fetch_sub_acq_rel(&used, 1U);
	return fetch_sub_acq_rel(&e->users, 1U) == 1 ? e : NULL;
}
