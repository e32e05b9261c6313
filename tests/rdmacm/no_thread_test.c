/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Without a progress thread, a server's calls do its work: a wait for events that has begun before
 * there is an id, as that of rping, and calls of raccept() that do not sleep, as those of rstream.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rspair.h"
#include "util/atomic.h"
#include "world.h"

/* It sleeps nowhere else, as poll(2) would not do the work. */
static struct rdma_cm_event *get(struct rdma_event_channel *ch, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *e;

	CHECK_EQ(rdma_get_cm_event(ch, &e), 0);
	CHECK_EQ(e->event, type);
	return e;
}

static void expect(struct rdma_event_channel *ch, enum rdma_cm_event_type type)
{
	CHECK_EQ(rdma_ack_cm_event(get(ch, type)), 0);
}

static long waiting_thread;	/* its id; 0: not running yet */

static void *get_request(void *ch)
{
	struct rdma_cm_event *e;

	store_release(&waiting_thread, syscall(SYS_gettid));
	e = get(ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	CHECK_EQ(rdma_reject(e->id, NULL, 0), 0);
	CHECK_EQ(rdma_destroy_id(e->id), 0);
	CHECK_EQ(rdma_ack_cm_event(e), 0);
	return NULL;
}

/* In a system call. Where the kernel does not tell, it may not have got there. */
static void await_sleep(void)
{
	char name[64], text[32] = "r";

	while (text[0] == 'r') {
		int fd;

		sched_yield();
		snprintf(name, sizeof(name), "/proc/self/task/%ld/syscall",
			 load_acquire(&waiting_thread));
		fd = open(name, O_RDONLY);
		if (fd < 0 && load_acquire(&waiting_thread))
			return;
		if (fd >= 0) {
			CHECK(read(fd, text, sizeof(text) - 1) >= 0);
			close(fd);
		}
	}
}

static uint16_t told(int from)
{
	uint16_t port;

	CHECK_EQ(read(from, &port, sizeof(port)), sizeof(port));
	return port;
}

static void tell(int to, uint16_t port)
{
	CHECK_EQ(write(to, &port, sizeof(port)), sizeof(port));
}

/* The peer's process is another: what this one does is not the server's work. */
static void connect_in_vain(uint16_t port)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *id = world_id(ch, RDMA_PS_TCP);
	struct sockaddr_storage a = world_addr(LOOPBACK, port);
	struct rdma_conn_param param = { .qp_num = 5 };

	CHECK_EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&a, WORLD_TIMEOUT_MS), 0);
	expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK_EQ(rdma_resolve_route(id, WORLD_TIMEOUT_MS), 0);
	expect(ch, RDMA_CM_EVENT_ROUTE_RESOLVED);
	CHECK_EQ(rdma_connect(id, &param), 0);
	expect(ch, RDMA_CM_EVENT_REJECTED);
	CHECK_EQ(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
}

static void connect_socket(uint16_t port)
{
	struct sockaddr_storage a = world_addr(LOOPBACK, port);
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);

	CHECK_EQ(rconnect(fd, (struct sockaddr *)&a, sizeof(struct sockaddr_in)), 0);
	CHECK_EQ(rclose(fd), 0);
}

static void wait_begins_first(int to)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *listener;
	pthread_t thread;

	CHECK_EQ(pthread_create(&thread, NULL, get_request, ch), 0);
	await_sleep();
	listener = world_listen(ch, RDMA_PS_TCP, LOOPBACK);
	tell(to, ntohs(listener->route.addr.src_sin.sin_port));
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(ch);
}

static void accepts_without_sleep(int to)
{
	struct sockaddr_storage a;
	int listener = rspair_listen(LOOPBACK, &a), fd;

	CHECK_EQ(rfcntl(listener, F_SETFL, O_NONBLOCK), 0);
	CHECK_EQ(rlisten(listener, 1), 0);
	tell(to, ntohs(((struct sockaddr_in *)&a)->sin_port));
	do
		fd = raccept(listener, NULL, NULL);
	while (fd < 0 && errno == EAGAIN);
	CHECK(fd >= 0);
	CHECK_EQ(rclose(fd), 0);
	CHECK_EQ(rclose(listener), 0);
}

int main(void)
{
	int ports[2], status;
	pid_t pid;

	alarm(5 * WORLD_LIMIT_S * test_slower());
	setenv("VERBENA_PROGRESS", "none", 1);
	CHECK_EQ(pipe(ports), 0);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		close(ports[1]);
		connect_in_vain(told(ports[0]));
		connect_socket(told(ports[0]));
		return 0;
	}
	wait_begins_first(ports[1]);
	accepts_without_sleep(ports[1]);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	return 0;
}
