/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Asynchronous events of a port. In a network namespace of its own the test adds and removes
 * addresses of the loopback interface, takes it down and up and deletes another interface, all with
 * open contexts, which must get the events.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "../unit/place.h"
#include "world.h"

static int control; /* socket for ioctls */

static void set_flags(const char *ifname, short flags)
{
	struct ifreq req = { .ifr_flags = flags };

	strcpy(req.ifr_name, ifname);
	CHECK_EQ(ioctl(control, SIOCSIFFLAGS, &req), 0);
}

/* Adds an address under an alias such as "lo:1". */
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

/* Waits for an event of this type; others may accompany it. */
static void await(struct ibv_context *ctx, enum ibv_event_type type)
{
	struct pollfd p = { .fd = ctx->async_fd, .events = POLLIN };
	struct ibv_async_event ev;

	do {
		CHECK_EQ(poll(&p, 1, WORLD_LIMIT_S * 1000), 1);
		CHECK_EQ(ibv_get_async_event(ctx, &ev), 0);
		CHECK_EQ(ev.element.port_num, ev.event_type == IBV_EVENT_DEVICE_FATAL ? 0 : 1);
		ibv_ack_async_event(&ev);
	} while (ev.event_type != type);
}

static enum ibv_port_state state_of(struct ibv_context *ctx)
{
	struct ibv_port_attr attr;

	CHECK_EQ(ibv_query_port(ctx, 1, &attr), 0);
	return attr.state;
}

static uint16_t lid_of(struct ibv_context *ctx)
{
	struct ibv_port_attr attr;

	CHECK_EQ(ibv_query_port(ctx, 1, &attr), 0);
	return attr.lid;
}

/* The LID is the low half of the first IPv4 address, and follows its changes. */
static void lid_follows_the_address(struct ibv_context *ctx)
{
	set_addr("lo", "127.0.9.8");
	await(ctx, IBV_EVENT_LID_CHANGE);
	CHECK_EQ(lid_of(ctx), 0x0908);
	set_addr("lo", "127.0.0.1");
	await(ctx, IBV_EVENT_LID_CHANGE);
	CHECK_EQ(lid_of(ctx), 1);
}

static void ip(const char *args)
{
	char line[200];

	snprintf(line, sizeof(line), "PATH=$PATH:/usr/sbin:/sbin ip %s", args);
	CHECK_EQ(system(line), 0);
}

static void make_interface(void)
{
	ip("link add vrbt0 type veth peer name vrbt1");
	ip("addr add 10.77.0.1/24 dev vrbt0");
	ip("link set vrbt0 up");
	ip("link set vrbt1 up");
}

static struct ibv_context *open_on(const char *address)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *found = NULL;

	CHECK(list);
	for (int i = 0; list[i] && !found; i++) {
		struct ibv_context *ctx = ibv_open_device(list[i]);

		CHECK(ctx);
		if (have_gid(ctx, address))
			found = ctx;
		else
			CHECK_EQ(ibv_close_device(ctx), 0);
	}
	ibv_free_device_list(list);
	CHECK(found);
	return found;
}

/* Deleting an interface raises DEVICE_FATAL once, and only for contexts on it. */
static void a_device_is_lost(struct ibv_context *other)
{
	struct ibv_context *ctx;
	struct ibv_async_event ev;
	struct ibv_pd *pd;

	make_interface();
	ctx = open_on("10.77.0.1");
	CHECK((pd = ibv_alloc_pd(ctx)));
	/*
	 * The kernel reports the carrier with some delay; without a carrier the port could not go
	 * down.
	 */
	if (state_of(ctx) != IBV_PORT_ACTIVE)
		await(ctx, IBV_EVENT_PORT_ACTIVE);
	ip("link del vrbt0");
	await(ctx, IBV_EVENT_PORT_ERR);
	await(ctx, IBV_EVENT_DEVICE_FATAL);
	CHECK_EQ(state_of(ctx), IBV_PORT_DOWN);
	CHECK(!have_gid(ctx, "10.77.0.1"));
	/* Another network event, after which DEVICE_FATAL must not be raised again. */
	set_addr("lo:1", "127.0.5.6");
	await(other, IBV_EVENT_GID_CHANGE);
	CHECK_EQ(fcntl(ctx->async_fd, F_SETFL, O_NONBLOCK), 0);
	CHECK(ibv_get_async_event(ctx, &ev) != 0);
	CHECK_EQ(errno, EAGAIN);
	/* The remaining objects can be destroyed. */
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
	CHECK_EQ(ibv_close_device(ctx), 0);
}

/* A QP leaves a group of an interface that was deleted and made again meanwhile. */
static void a_group_outlives_its_interface(void)
{
	union ibv_gid group = { .raw = { [10] = 0xff, [11] = 0xff, 239, 77, 1, 3 } };
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_UD, .cap = { 4, 4, 1, 1, 0 } };
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_qp *qp;

	make_interface();
	ctx = open_on("10.77.0.1");
	CHECK((pd = ibv_alloc_pd(ctx)));
	CHECK((init.send_cq = init.recv_cq = ibv_create_cq(ctx, 4, NULL, NULL, 0)));
	CHECK((qp = ibv_create_qp(pd, &init)));
	CHECK_EQ(ibv_attach_mcast(qp, &group, 0), 0);
	ip("link del vrbt0");
	await(ctx, IBV_EVENT_DEVICE_FATAL);
	make_interface();
	await(ctx, IBV_EVENT_GID_CHANGE);
	CHECK(have_gid(ctx, "10.77.0.1"));
	CHECK_EQ(ibv_detach_mcast(qp, &group, 0), 0);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
	CHECK_EQ(ibv_destroy_cq(init.send_cq), 0);
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
	CHECK_EQ(ibv_close_device(ctx), 0);
	ip("link del vrbt0");
}

static void follow(struct ibv_context *a, struct ibv_context *b)
{
	struct ibv_context *both[] = { a, b };

	set_addr("lo:1", "127.0.5.5");
	for (int i = 0; i < 2; i++) {
		await(both[i], IBV_EVENT_GID_CHANGE);
		CHECK(have_gid(both[i], "127.0.5.5"));
	}
	set_flags("lo:1", 0); /* deletes the alias */
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

/* A query may be newer than the event, but never older than the state of the system. */
static void queries_are_fresh(struct ibv_context *ctx)
{
	for (int i = 0; i < 20; i++) {
		set_addr("lo:1", "127.0.6.6");
		CHECK(have_gid(ctx, "127.0.6.6"));
		set_flags("lo:1", 0);
		CHECK(!have_gid(ctx, "127.0.6.6"));
	}
}

/* A change that could not be looked at, as descriptors had run out, is not forgotten. */
static void a_change_without_descriptors(struct ibv_context *ctx)
{
	struct rlimit old, none;

	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
	none = (struct rlimit){ 0, old.rlim_max };
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
	set_addr("lo:1", "127.0.7.7");
	state_of(ctx); /* reads the notice of the change */
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
	CHECK(have_gid(ctx, "127.0.7.7"));
	set_flags("lo:1", 0);
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

	if (!place_enter_netns())
		SKIP("no network namespaces");
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
	lid_follows_the_address(a);
	a_device_is_lost(a);
	a_group_outlives_its_interface();
	a_change_without_descriptors(a);
	no_event_is_eagain(a);
	CHECK_EQ(ibv_close_device(a), 0);
	CHECK_EQ(ibv_close_device(b), 0);
	return 0;
}
