/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The addresses and ports that ids are bound to: which bindings can coexist, and the error of those
 * that cannot.
 */
#include <sys/socket.h>
#include <unistd.h>

#include "world.h"

static struct rdma_event_channel *ch;

/* Binds a new id to the address; returns NULL with errno on failure. */
static struct rdma_cm_id *bound(enum rdma_port_space ps, const char *address, uint16_t port)
{
	struct sockaddr_storage a = world_addr(address, port);
	struct rdma_cm_id *id = world_id(ch, ps);
	int err;

	errno = 0;
	if (!rdma_bind_addr(id, (struct sockaddr *)&a))
		return id;
	err = errno;
	CHECK_EQ(rdma_destroy_id(id), 0);
	errno = err;
	return NULL;
}

static uint16_t port_of(struct rdma_cm_id *id)
{
	return ntohs(rdma_get_src_port(id));
}

/* Finds an address of a device other than the loopback device, if there is one. */
static bool device_address(char text[64])
{
	int n;
	struct ibv_context **list = rdma_get_devices(&n);
	bool found = false;

	CHECK(list && n > 0);
	for (int i = 0; i < n && !found; i++) {
		union ibv_gid gid;

		for (int g = 0; g < 8 && !found; g++) {
			if (ibv_query_gid(list[i], 1, g, &gid) || gid.raw[10] != 0xff ||
			    gid.raw[11] != 0xff || gid.raw[12] == 127)
				continue;
			snprintf(text, 64, "%d.%d.%d.%d", gid.raw[12], gid.raw[13], gid.raw[14],
				 gid.raw[15]);
			found = true;
		}
	}
	CHECK(!list[n]);
	rdma_free_devices(list);
	return found;
}

static void any_port(void)
{
	struct rdma_cm_id *a = bound(RDMA_PS_TCP, "0.0.0.0", 0), *b = bound(RDMA_PS_TCP, "::", 0);

	CHECK(a && b);
	CHECK(port_of(a) && port_of(b) && port_of(a) != port_of(b));
	CHECK(!a->verbs && !a->pd && !a->port_num);
	CHECK_EQ(rdma_get_dst_port(a), 0);
	CHECK_EQ(rdma_destroy_id(a), 0);
	CHECK_EQ(rdma_destroy_id(b), 0);
}

/* In one port space and in others; a port is free again when its id is destroyed. */
static void taken(void)
{
	struct rdma_cm_id *a = bound(RDMA_PS_TCP, "0.0.0.0", 0), *b;
	uint16_t port = port_of(a);

	CHECK(!bound(RDMA_PS_TCP, "0.0.0.0", port));
	CHECK_EQ(errno, EADDRNOTAVAIL);
	b = bound(RDMA_PS_UDP, "0.0.0.0", port);
	CHECK(b);
	CHECK_EQ(rdma_destroy_id(b), 0);
	b = bound(RDMA_PS_IB, "0.0.0.0", port);
	CHECK(b);
	CHECK_EQ(rdma_destroy_id(b), 0);
	CHECK_EQ(rdma_destroy_id(a), 0);
	a = bound(RDMA_PS_TCP, "0.0.0.0", port);
	CHECK(a);
	CHECK_EQ(rdma_destroy_id(a), 0);
}

/* Ports of a port space are independent of TCP ports. */
static void beside_tcp(void)
{
	struct sockaddr_in any = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(any);
	struct rdma_cm_id *id;

	CHECK_EQ(bind(fd, (struct sockaddr *)&any, sizeof(any)), 0);
	CHECK_EQ(listen(fd, 1), 0);
	CHECK_EQ(getsockname(fd, (struct sockaddr *)&any, &len), 0);
	id = bound(RDMA_PS_TCP, "0.0.0.0", ntohs(any.sin_port));
	CHECK(id);
	CHECK_EQ(rdma_destroy_id(id), 0);
	close(fd);
}

enum { SHARED = 100 };

/* A port is shared if all ids request it; a listener needs it alone. */
static void shared(void)
{
	struct sockaddr_storage a = world_addr("0.0.0.0", 0);
	struct rdma_cm_id *id[SHARED];
	int on = 1;

	for (int i = 0; i < SHARED; i++) {
		id[i] = world_id(ch, RDMA_PS_TCP);
		CHECK_EQ(rdma_set_option(id[i], RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on,
					 sizeof(on)),
			 0);
		CHECK_EQ(rdma_bind_addr(id[i], (struct sockaddr *)&a), 0);
		a = world_addr("0.0.0.0", port_of(id[0]));
	}
	for (int i = 0; i < SHARED - 1; i++) {
		CHECK_FAILS(rdma_listen(id[i + 1], 0), EADDRNOTAVAIL);
		CHECK_EQ(rdma_destroy_id(id[i]), 0);
	}
	CHECK_EQ(rdma_listen(id[SHARED - 1], 0), 0);
	CHECK_EQ(rdma_destroy_id(id[SHARED - 1]), 0);
}

static void refused(void)
{
	struct sockaddr_storage a = world_addr("0.0.0.0", 0), link = world_addr("fe80::1", 0);
	struct sockaddr_storage other = { .ss_family = AF_UNIX };
	struct rdma_cm_id *id = world_id(ch, RDMA_PS_TCP);

	CHECK_FAILS(rdma_bind_addr(NULL, (struct sockaddr *)&a), EINVAL);
	CHECK_FAILS(rdma_bind_addr(id, NULL), EINVAL);
	CHECK_FAILS(rdma_bind_addr(id, (struct sockaddr *)&other), EINVAL);
	/* a link-local address is useless without an interface */
	CHECK_FAILS(rdma_bind_addr(id, (struct sockaddr *)&link), EINVAL);
	a = world_addr("192.0.2.77", 0);
	CHECK_FAILS(rdma_bind_addr(id, (struct sockaddr *)&a), EADDRNOTAVAIL);
	a = world_addr("2001:db8::77", 0);
	CHECK_FAILS(rdma_bind_addr(id, (struct sockaddr *)&a), ENODEV);
	a = world_addr("0.0.0.0", 0);
	CHECK_EQ(rdma_bind_addr(id, (struct sockaddr *)&a), 0);
	CHECK_FAILS(rdma_bind_addr(id, (struct sockaddr *)&a), EINVAL);
	CHECK_EQ(rdma_destroy_id(id), 0);
}

/*
 * Binding to a specific address selects the device at once; tested against the wildcard and against
 * itself.
 */
static void specific(void)
{
	char text[64];
	struct rdma_cm_id *id, *ipoib;
	uint16_t port;

	if (!device_address(text)) {
		printf("left out: 1: only the loopback device has an IPv4 address\n");
		return;
	}
	id = bound(RDMA_PS_TCP, text, 0);
	CHECK(id && id->verbs && id->pd);
	CHECK_EQ(id->port_num, 1);
	port = port_of(id);
	CHECK(!bound(RDMA_PS_TCP, text, port));
	CHECK_EQ(errno, EADDRINUSE);
	CHECK(!bound(RDMA_PS_TCP, "0.0.0.0", port));
	CHECK_EQ(errno, EADDRNOTAVAIL);
	CHECK_EQ(rdma_destroy_id(id), 0);

	/* IPoIB multicast addresses do not exist on Ethernet ports. */
	ipoib = bound(RDMA_PS_IPOIB, text, 0);
	CHECK(!ipoib);
	CHECK_EQ(errno, EINVAL);
}

int main(void)
{
	ch = rdma_create_event_channel();
	CHECK(ch);
	any_port();
	taken();
	beside_tcp();
	shared();
	refused();
	specific();
	rdma_destroy_event_channel(ch);
	return 0;
}
