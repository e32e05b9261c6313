/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Asynchronous events of a port, live: a network namespace of our own whose loopback interface gets
 * and loses addresses and goes down and up while contexts are open.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "world.h"

static int control; /* socket for ioctls */

static void set_flags(const char *ifname, short flags)
{
	struct ifreq req = { .ifr_flags = flags };

	strcpy(req.ifr_name, ifname);
	CHECK_EQ(ioctl(control, SIOCSIFFLAGS, &req), 0);
}

/* An address under an alias of its own, "lo:1". */
static void set_addr(const char *ifname, const char *text)
{
	struct sockaddr_in sin = { .sin_family = AF_INET };
	struct ifreq req = { 0 };

	strcpy(req.ifr_name, ifname);
	CHECK_EQ(inet_pton(AF_INET, text, &sin.sin_addr), 1);
	memcpy(&req.ifr_addr, &sin, sizeof(sin));
	CHECK_EQ(ioctl(control, SIOCSIFADDR, &req), 0);
}

static bool have_gid(struct ibv_context *ctx, const char *text)
{
	union ibv_gid want = { .raw = { [10] = 0xff, [11] = 0xff } }, gid;

	CHECK_EQ(inet_pton(AF_INET, text, want.raw + 12), 1);
	for (int i = 0; i < 256; i++) {
		CHECK_EQ(ibv_query_gid(ctx, 1, i, &gid), 0);
		if (!memcmp(&gid, &want, sizeof(gid)))
			return true;
	}
	return false;
}

/* Events until one of the type comes; the others are what goes with it. */
static void await(struct ibv_context *ctx, enum ibv_event_type type)
{
	struct pollfd p = { .fd = ctx->async_fd, .events = POLLIN };
	struct ibv_async_event ev;

	do {
		CHECK_EQ(poll(&p, 1, WORLD_PATIENCE * 1000), 1);
		CHECK_EQ(ibv_get_async_event(ctx, &ev), 0);
		CHECK_EQ(ev.element.port_num, 1);
		ibv_ack_async_event(&ev);
	} while (ev.event_type != type);
}

static enum ibv_port_state state_of(struct ibv_context *ctx)
{
	struct ibv_port_attr attr;

	CHECK_EQ(ibv_query_port(ctx, 1, &attr), 0);
	return attr.state;
}

static void follow(struct ibv_context *a, struct ibv_context *b)
{
	struct ibv_context *both[] = { a, b };

	set_addr("lo:1", "127.0.5.5");
	for (int i = 0; i < 2; i++) {
		await(both[i], IBV_EVENT_GID_CHANGE);
		CHECK(have_gid(both[i], "127.0.5.5"));
	}
	set_flags("lo:1", 0); /* takes the alias away */
	for (int i = 0; i < 2; i++)
		await(both[i], IBV_EVENT_GID_CHANGE);
	CHECK(!have_gid(a, "127.0.5.5"));
	set_flags("lo", 0);
	for (int i = 0; i < 2; i++)
		await(both[i], IBV_EVENT_PORT_ERR);
	CHECK_EQ(state_of(a), IBV_PORT_DOWN);
	set_flags("lo", IFF_UP);
	for (int i = 0; i < 2; i++)
		await(both[i], IBV_EVENT_PORT_ACTIVE);
	CHECK_EQ(state_of(a), IBV_PORT_ACTIVE);
}

/* A query may run ahead of the event, but never behind the system. */
static void queries_are_fresh(struct ibv_context *ctx)
{
	for (int i = 0; i < 20; i++) {
		set_addr("lo:1", "127.0.6.6");
		CHECK(have_gid(ctx, "127.0.6.6"));
		set_flags("lo:1", 0);
		CHECK(!have_gid(ctx, "127.0.6.6"));
	}
}

static void no_event_is_eagain(struct ibv_context *ctx)
{
	struct ibv_async_event ev;

	CHECK_EQ(fcntl(ctx->async_fd, F_SETFL, O_NONBLOCK), 0);
	while (!ibv_get_async_event(ctx, &ev))
		ibv_ack_async_event(&ev);
	CHECK_EQ(errno, EAGAIN);
	CHECK(ibv_get_async_event(ctx, NULL) != 0);
	CHECK(ibv_get_async_event(NULL, &ev) != 0);
}

int main(void)
{
	struct ibv_device **list;
	struct ibv_context *a, *b;

	if (unshare(CLONE_NEWUSER | CLONE_NEWNET))
		SKIP("no user namespaces");
	control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	CHECK(control >= 0);
	set_flags("lo", IFF_UP);
	list = ibv_get_device_list(NULL);
	CHECK(list && list[0]);
	CHECK((a = ibv_open_device(list[0])));
	CHECK((b = ibv_open_device(list[0])));
	ibv_free_device_list(list);
	follow(a, b);
	queries_are_fresh(a);
	no_event_is_eagain(a);
	CHECK_EQ(ibv_close_device(a), 0);
	CHECK_EQ(ibv_close_device(b), 0);
	return 0;
}
