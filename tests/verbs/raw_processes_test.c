/* SPDX-License-Identifier: BSD-2-Clause */
/* Raw packet QPs of several processes on one virtual segment, and the privilege that they need. */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "raw_bench.h"

/* The other process on the segment: sends a reply to each frame it receives. */
static void reply_to_frames(int ready)
{
	struct ibv_sge to, from;
	struct bench b;
	struct ibv_wc wc;

	open_bench(&b, 0);
	to = world_sge(&b.in, 0, 2000);
	receive_into(b.qp, 1, &to, 1);
	CHECK_EQ(write(ready, "", 1), 1);
	world_poll(b.cq, &wc, 1);
	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	memcpy(b.in.data, here, 6);
	from = world_sge(&b.in, 0, wc.byte_len);
	post(b.qp, 2, &from, 1, 0);
	world_expect(b.cq, 2, IBV_WC_SUCCESS);
	close_bench(&b);
}

static void test_two_processes(void)
{
	struct ibv_sge to, from;
	struct bench b;
	int ready[2], status;
	pid_t child;
	char c;

	CHECK_EQ(pipe(ready), 0);
	child = fork();
	if (!child) {
		reply_to_frames(ready[1]);
		_exit(0);
	}
	CHECK_EQ(read(ready[0], &c, 1), 1);
	open_bench(&b, 0);
	CHECK_EQ(ibv_destroy_flow(b.rule), 0);
	b.rule = steer(b.qp, here);
	ethernet(b.out.data, 0x88b5);
	to = world_sge(&b.in, 0, 2000);
	from = world_sge(&b.out, 0, 1234);
	receive_into(b.qp, 1, &to, 1);
	post(b.qp, 2, &from, 1, 0);
	CHECK_EQ(both(b.cq).byte_len, 1234);
	CHECK_MEM(b.in.data, here, 6);
	CHECK_MEM(b.in.data + 6, b.out.data + 6, 1228);
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	close_bench(&b);
	close(ready[0]);
	close(ready[1]);
}

/* A process that was killed or stopped does not prevent others from sending. */
static void test_dead_process(void)
{
	struct ibv_sge to, from;
	struct bench b;
	int ready[2], status;
	pid_t child;
	char c;

	CHECK_EQ(pipe(ready), 0);
	child = fork();
	if (!child) {
		open_bench(&b, 0);
		CHECK_EQ(write(ready[1], "", 1), 1);
		pause();
		_exit(0);
	}
	CHECK_EQ(read(ready[0], &c, 1), 1);
	open_bench(&b, 0);
	ethernet(b.out.data, 0x88b5);
	to = world_sge(&b.in, 0, 2000);
	from = world_sge(&b.out, 0, 1000);
	CHECK_EQ(kill(child, SIGSTOP), 0);
	for (int i = 0; i < 100; i++) {
		if (i == 60) {
			CHECK_EQ(kill(child, SIGKILL), 0);
			CHECK_EQ(waitpid(child, &status, 0), child);
		}
		receive_into(b.qp, 1, &to, 1);
		post(b.qp, 2, &from, 1, 0);
		CHECK_EQ(both(b.cq).byte_len, 1000);
	}
	close_bench(&b);
	close(ready[0]);
	close(ready[1]);
}

/* On a real interface every user needs the privilege. */
static void test_no_privilege(void)
{
	pid_t child = fork();
	int status;

	if (!child) {
		struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RAW_PACKET };
		struct world w;

		unsetenv("VERBENA_DIR");
		setenv("VERBENA_RAW", "packet", 1);
		/* In a user namespace with a single user there is no other ID to change to. */
		if (geteuid() == 0 && setresuid(65534, 65534, 65534))
			_exit(0);
		world_open(&w);
		init.send_cq = init.recv_cq = world_cq(&w, 4);
		init.cap = (struct ibv_qp_cap){ 1, 1, 1, 1, 0 };
		errno = 0;
		CHECK(!ibv_create_qp(w.pd, &init));
		CHECK_EQ(errno, EPERM);
		CHECK_EQ(ibv_destroy_cq(init.send_cq), 0);
		world_close(&w);
		_exit(0);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
}

int main(void)
{
	setenv("VERBENA_RAW", "virtual", 0);
	/* These fork before the library is used. */
	test_no_privilege();
	test_two_processes();
	test_dead_process();
	return 0;
}
