/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread that polls an empty CQ, for packets from the wire, beside a program that uses its CPU:
 * it sleeps now and then, and finds what has been completed meanwhile. Without the other program it
 * would spin (poll_yield_test).
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "one_cpu.h"
#include "world.h"

enum { SLEEPS = 3, LIMIT_S = 5 * WORLD_LIMIT_S };

static struct world w;
static struct ibv_cq *cq;
static struct ibv_qp *flushed;
static __thread bool polls;	/* the thread of the test */
static int sleeps;

static void *complete(void *arg)
{
	flushed = world_flushed(&w, cq, 1);
	return NULL;
}

__attribute__((visibility("default"))) int ppoll(struct pollfd *fds, nfds_t n,
						 const struct timespec *limit, const sigset_t *mask)
{
	if (polls) {
		pthread_t other;

		CHECK(n > 0);
		sleeps++;
		polls = false;
		CHECK_EQ(pthread_create(&other, NULL, complete, NULL), 0);
		CHECK_EQ(pthread_join(other, NULL), 0);
		polls = true;
	}
	return (int)syscall(SYS_ppoll, fds, n, limit, mask, _NSIG / 8);
}

/* Uses this CPU, which the caller is bound to. */
static pid_t start_spinner(void)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		;
}

static void poll_until_asleep(void)
{
	int before = sleeps, n = 0;
	struct ibv_wc wc;

	errno = 0;
	polls = true;
	while (sleeps == before)
		n = ibv_poll_cq(cq, 1, &wc);
	polls = false;
	CHECK_EQ(n, 1);
	CHECK_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(errno, 0);
	CHECK_EQ(ibv_destroy_qp(flushed), 0);
}

int main(void)
{
	struct ibv_qp *a, *b;
	pid_t spinner;

	if (!stay_on_one_cpu()) {
		printf("skip: a process may not choose its CPU\n");
		return 77;
	}
	alarm(LIMIT_S);
	spinner = start_spinner();
	world_open(&w);
	cq = world_cq(&w, 8);
	/* by the wire */
	a = world_qp(&w, IBV_QPT_RC, cq, NULL);
	b = world_qp(&w, IBV_QPT_RC, cq, NULL);
	world_connect(&w, a, b);
	for (int i = 0; i < SLEEPS; i++)
		poll_until_asleep();
	CHECK_EQ(ibv_destroy_qp(a), 0);
	CHECK_EQ(ibv_destroy_qp(b), 0);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	world_close(&w);
	kill(spinner, SIGKILL);
	waitpid(spinner, NULL, 0);
	return 0;
}
