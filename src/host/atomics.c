/* SPDX-License-Identifier: BSD-2-Clause */
/* Spin locks that name their holder; see atomics.h. */
#include "host/atomics.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "util/atomic.h"
#include "util/cancel.h"
#include "util/file_room.h"

enum {
	SPINS_BEFORE_YIELD = 64,
	YIELDS_BEFORE_DOUBT = 256,
	DOUBTS = 5000,
	FILE_SIZE = ATOMICS_WORDS * sizeof(struct atomics_word),
};

_Static_assert(ATOMICS_WORDS * sizeof(uint64_t) <= ATOMICS_PAGE,
	       "below a page all mappings of one memory agree");

void atomics_init(struct atomics *a, uint64_t me, atomics_alive_fn alive, void *arg)
{
	*a = (struct atomics){ .me = me, .alive = alive, .arg = arg };
	for (unsigned int i = 0; i < ATOMICS_WORDS; i++)
		lock_init(&a->threads[i]);
}

/* Allocates the blocks now, so that a full file system causes an error here and no SIGBUS later. */
static int map_file(int fd, struct atomics_word **word)
{
	int err = file_reserve(fd, 0, FILE_SIZE);
	void *mem;

	if (err)
		return err;
	mem = mmap(NULL, FILE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (mem == MAP_FAILED)
		return errno;
	*word = mem;
	return 0;
}

int atomics_share(struct atomics *a, int dirfd)
{
	int cancel = cancel_off(), err = 0;
	int fd = file_create(dirfd, "atomics", O_RDWR);

	if (fd < 0) {
		err = errno;
	} else {
		err = map_file(fd, &a->word);
		close(fd);
	}
	cancel_on(cancel);
	return err;
}

void atomics_close(struct atomics *a)
{
	if (a->word)
		munmap(a->word, FILE_SIZE);
	a->word = NULL;
	for (unsigned int i = 0; i < ATOMICS_WORDS; i++)
		lock_destroy(&a->threads[i]);
}

static unsigned int index_of(uint64_t address)
{
	return address / sizeof(uint64_t) % ATOMICS_WORDS;
}

static void take(struct atomics *a, uint64_t *word)
{
	unsigned int doubts = 0;

	for (unsigned int tries = 1;; tries++) {
		uint64_t holder = 0;

		if (cas_acq_rel(word, &holder, a->me))	/* L3 */
			return;
		if (holder == a->me && cas_acq_rel(word, &holder, a->me))
			return;
		if (tries % SPINS_BEFORE_YIELD != 0) {
			cpu_relax();
			continue;
		}
		sched_yield();
		if (tries / SPINS_BEFORE_YIELD % YIELDS_BEFORE_DOUBT == 0 &&
		    (++doubts >= DOUBTS || !a->alive(a->arg, holder)) &&
		    cas_acq_rel(word, &holder, a->me))
			return;
	}
}

void atomics_lock(struct atomics *a, uint64_t address)
{
	unsigned int i = index_of(address);

	lock_acquire(&a->threads[i]);
	if (a->word)
		take(a, &a->word[i].holder);
}

void atomics_unlock(struct atomics *a, uint64_t address)
{
	unsigned int i = index_of(address);
	uint64_t me = a->me;

	if (a->word)
		cas_acq_rel(&a->word[i].holder, &me, 0);	/* L3; no-op if taken over */
	lock_release(&a->threads[i]);
}
