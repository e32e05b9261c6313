/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An idle listener or connection uses no CPU: in two seconds no thread of the library wakes up.
 * Work that began earlier may take several such periods to end.
 */
#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "world.h"

enum { SPAN_MS = 2000 };

static unsigned long switches_of(const char *tid)
{
	char path[300], line[200];
	unsigned long n = 0, sum = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%s/status", tid);
	CHECK((f = fopen(path, "r")));
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "voluntary_ctxt_switches: %lu", &n) == 1)
			sum += n;
	fclose(f);
	return sum;
}

/* Counts how often the library's threads have gone to sleep, and so have woken up before. */
static unsigned long wakeups(void)
{
	DIR *d = opendir("/proc/self/task");
	unsigned long sum = 0;
	struct dirent *e;

	CHECK(d);
	while ((e = readdir(d)))
		if (e->d_name[0] != '.' && atoi(e->d_name) != getpid())
			sum += switches_of(e->d_name);
	closedir(d);
	return sum;
}

static void expect_idle(struct rdma_event_channel *ch, const char *what)
{
	struct pollfd fd = { .fd = ch->fd, .events = POLLIN };
	unsigned long before;
	int spans = 0;

	do {
		CHECK(spans++ < WORLD_LIMIT_S);
		before = wakeups();
		CHECK_EQ(poll(&fd, 1, SPAN_MS), 0);
	} while (wakeups() != before);
	printf("%s: idle in span %d\n", what, spans);
}

int main(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *listener;
	struct pair p;

#ifdef __SANITIZE_THREAD__
	printf("skip: ThreadSanitizer has a thread of its own that wakes up\n");
	return 77;
#endif
	CHECK(ch);
	listener = world_listen(ch, RDMA_PS_TCP, LOOPBACK);
	expect_idle(ch, "a listener");
	pair_connect(&p, NULL);
	expect_idle(p.ch[1], "a connection");
	pair_disconnect(&p);
	pair_destroy(&p);
	expect_idle(ch, "what is left of one");
	CHECK_EQ(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(ch);
	return 0;
}
