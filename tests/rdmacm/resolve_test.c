/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma_resolve_addr() and rdma_resolve_route(): the addresses, device and route that an id has
 * afterwards, and destinations that cannot be resolved.
 */
#include <poll.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../unit/place.h"
#include "world.h"

enum {
	BTH_LEN = 12,
	DISCARD_PORT = 9,
};

static struct rdma_event_channel *ch;
static uint16_t probed_port;
static int netlink_error;	/* 0: netlink may be used */

/*
 * Instead of the C library's. An empty datagram to RoCE's port would crash a host with Linux's soft
 * RoCE.
 */
__attribute__((visibility("default"))) ssize_t
sendto(int fd, const void *data, size_t len, int flags, const struct sockaddr *to, socklen_t to_len)
{
	if (to && to->sa_family == AF_INET && len < BTH_LEN)
		probed_port = ntohs(((const struct sockaddr_in *)(const void *)to)->sin_port);
	return syscall(SYS_sendto, fd, data, len, flags, to, to_len);
}

/* The same: as sandboxes do that allow some families only. */
__attribute__((visibility("default"))) int socket(int family, int type, int protocol)
{
	if (family == AF_NETLINK && netlink_error) {
		errno = netlink_error;
		return -1;
	}
	return (int)syscall(SYS_socket, family, type, protocol);
}

static void resolved(void)
{
	struct sockaddr_storage a = world_addr(LOOPBACK, 4711);
	struct rdma_cm_id *id = world_id(ch, RDMA_PS_TCP);
	const struct rdma_addr *addr = &id->route.addr;
	const struct ibv_sa_path_rec *rec;
	uint16_t port;

	CHECK_EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&a, WORLD_TIMEOUT_MS), 0);
	world_expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(id->verbs && id->pd);
	CHECK_EQ(id->port_num, 1);
	CHECK_EQ(addr->src_sin.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
	CHECK_EQ(addr->dst_sin.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
	CHECK_EQ(ntohs(rdma_get_dst_port(id)), 4711);
	port = ntohs(rdma_get_src_port(id));
	CHECK(port);
	CHECK_EQ(addr->addr.ibaddr.sgid.raw[12], 127);
	CHECK_EQ(addr->addr.ibaddr.pkey, 0);
	CHECK_EQ(id->route.num_paths, 0);

	CHECK_FAILS(rdma_resolve_route(id, 0), EINVAL);
	/* Without limit. */
	CHECK_EQ(rdma_resolve_route(id, -1), 0);
	world_expect(ch, RDMA_CM_EVENT_ROUTE_RESOLVED);
	CHECK_EQ(id->route.num_paths, 1);
	rec = id->route.path_rec;
	CHECK_MEM(&rec->sgid, &addr->addr.ibaddr.sgid, 16);
	CHECK_MEM(&rec->dgid, &addr->addr.ibaddr.dgid, 16);
	CHECK_EQ(ntohs(rec->pkey), 0xffff);
	CHECK_EQ(rec->reversible, 1);
	CHECK_EQ(rec->numb_path, 1);
	CHECK_EQ(rec->mtu_selector, 2);
	CHECK_EQ(rec->mtu, IBV_MTU_4096);
	CHECK_EQ(rec->preference, 43);
	CHECK_EQ(ntohl(rec->flow_label), (port * 31u + 4711) & 0xfffff);
	/* A second resolution is refused. */
	CHECK_FAILS(rdma_resolve_addr(id, NULL, (struct sockaddr *)&a, WORLD_TIMEOUT_MS), EINVAL);
	CHECK_EQ(rdma_destroy_id(id), 0);
}

/* The wildcard as a destination means this host; a given source is kept. */
static void wildcard(void)
{
	struct sockaddr_storage a = world_addr("0.0.0.0", 4711), from = world_addr(LOOPBACK, 0);
	struct rdma_cm_id *id = world_id(ch, RDMA_PS_TCP);

	CHECK_EQ(rdma_resolve_addr(id, (struct sockaddr *)&from, (struct sockaddr *)&a,
				   WORLD_TIMEOUT_MS),
		 0);
	world_expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK_EQ(id->route.addr.dst_sin.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
	CHECK_EQ(id->route.addr.src_sin.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
	CHECK_EQ(rdma_destroy_id(id), 0);
}

/*
 * Every address of 127/8 is this host.  The loopback device has a GID for 127.0.0.1; for another
 * one if its interface has that address, too.
 */
static void loopback_network(const char *address, const char *gid)
{
	static const char *const bound[] = { LOOPBACK, "127.0.0.9", "0.0.0.0" };
	struct sockaddr_storage from = world_addr(gid, 0);

	for (size_t i = 0; i < sizeof(bound) / sizeof(bound[0]); i++) {
		struct rdma_cm_id *listener = world_listen(ch, RDMA_PS_TCP, bound[i]),
				  *id = world_route(ch, listener, address);
		struct rdma_conn_param param = { .qp_num = 0x77 };
		struct sockaddr_storage to = world_addr(address, 0);
		struct rdma_cm_event *e;
		struct rdma_cm_id *child;

		CHECK_EQ(id->route.addr.dst_sin.sin_addr.s_addr,
			 ((struct sockaddr_in *)&to)->sin_addr.s_addr);
		CHECK_MEM(id->route.path_rec->dgid.raw + 12,
			  &((struct sockaddr_in *)&from)->sin_addr, 4);
		CHECK_EQ(rdma_connect(id, &param), 0);
		e = world_event(ch, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
		child = e->id;
		CHECK_EQ(rdma_ack_cm_event(e), 0);
		param.qp_num = 0x78;
		CHECK_EQ(rdma_accept(child, &param), 0);
		world_expect(ch, RDMA_CM_EVENT_CONNECT_RESPONSE);
		CHECK_EQ(rdma_destroy_id(id), 0);
		CHECK_EQ(rdma_ack_cm_event(world_event(ch, RDMA_CM_EVENT_REJECTED, 28)), 0);
		CHECK_EQ(rdma_destroy_id(child), 0);
		CHECK_EQ(rdma_destroy_id(listener), 0);
	}
}

static void datagrams_to_loopback_network(void)
{
	struct rdma_cm_id *listener = world_listen(ch, RDMA_PS_UDP, "127.0.0.9"),
			  *id = world_route(ch, listener, "127.255.0.1"), *child;
	struct rdma_cm_event *e;

	CHECK_EQ(rdma_connect(id, NULL), 0);
	e = world_event(ch, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	child = e->id;
	CHECK_EQ(rdma_ack_cm_event(e), 0);
	world_qp(child);
	CHECK_EQ(rdma_accept(child, NULL), 0);
	e = world_event(ch, RDMA_CM_EVENT_ESTABLISHED, 0);
	CHECK_EQ(e->param.ud.qp_num, child->qp->qp_num);
	CHECK_EQ(rdma_ack_cm_event(e), 0);
	rdma_destroy_qp(child);
	CHECK_EQ(rdma_destroy_id(child), 0);
	CHECK_EQ(rdma_destroy_id(id), 0);
	CHECK_EQ(rdma_destroy_id(listener), 0);
}

static void refused(void)
{
	struct sockaddr_storage v4 = world_addr(LOOPBACK, 1), v6 = world_addr("::1", 0),
				link = world_addr("fe80::1", 1);
	struct sockaddr_storage none = { .ss_family = AF_UNIX };
	struct rdma_cm_id *id = world_id(ch, RDMA_PS_TCP);

	CHECK_FAILS(rdma_resolve_addr(NULL, NULL, (struct sockaddr *)&v4, 100), EINVAL);
	CHECK_FAILS(rdma_resolve_addr(id, NULL, NULL, 100), EINVAL);
	CHECK_FAILS(rdma_resolve_addr(id, NULL, (struct sockaddr *)&none, 100), EINVAL);
	CHECK_FAILS(rdma_resolve_addr(id, NULL, (struct sockaddr *)&link, 100), EINVAL);
	CHECK_FAILS(rdma_resolve_addr(id, (struct sockaddr *)&v6, (struct sockaddr *)&v4, 100),
		    EINVAL);
	world_no_event(ch);
	CHECK_EQ(rdma_destroy_id(id), 0);
}

/*
 * IPoIB groups have no Ethernet device: the event reports it, and the id can resolve another
 * address.
 */
static void no_device(void)
{
	struct sockaddr_storage a = world_addr(LOOPBACK, 1);
	struct rdma_cm_id *id = world_id(ch, RDMA_PS_IPOIB);

	for (int i = 0; i < 2; i++) {
		CHECK_EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&a, WORLD_TIMEOUT_MS), 0);
		CHECK_EQ(rdma_ack_cm_event(world_event(ch, RDMA_CM_EVENT_ADDR_ERROR, -EINVAL)), 0);
		CHECK(!id->verbs);
	}
	CHECK_EQ(rdma_destroy_id(id), 0);
}

/* With a synchronous id the call returns when the resolution is complete. */
static void synchronous(void)
{
	struct sockaddr_storage a = world_addr(LOOPBACK, 1);
	struct rdma_cm_id *id = world_id(NULL, RDMA_PS_TCP);

	CHECK(id->channel);
	CHECK_EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&a, WORLD_TIMEOUT_MS), 0);
	CHECK_EQ(id->event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(id->verbs);
	CHECK_EQ(rdma_resolve_route(id, WORLD_TIMEOUT_MS), 0);
	CHECK_EQ(id->event->event, RDMA_CM_EVENT_ROUTE_RESOLVED);
	CHECK_EQ(rdma_destroy_id(id), 0);
}

/* A resolution that cannot begin for lack of a descriptor is none: the id can begin another. */
static void without_descriptors(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	struct rdma_cm_id *id = world_id(ch, RDMA_PS_TCP);
	int next = open("/dev/null", O_RDONLY);
	struct rlimit before, none;

	CHECK(next >= 0 && !getrlimit(RLIMIT_NOFILE, &before));
	close(next);
	none = (struct rlimit){ (rlim_t)next, before.rlim_max };
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
	CHECK_FAILS(rdma_resolve_addr(id, NULL, (struct sockaddr *)a, 100), EMFILE);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
	CHECK_EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)b, WORLD_TIMEOUT_MS), 0);
	world_expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK_EQ(rdma_destroy_id(id), 0);
}

/* After a failure the id can resolve another address, and does not keep the first device. */
static void resolve_again(void)
{
	struct sockaddr_storage a = world_addr("10.77.0.9", 1), b = world_addr(LOOPBACK, 1);
	const struct rdma_addr *addr;
	struct rdma_cm_id *id;

	CHECK_EQ(system("PATH=$PATH:/usr/sbin:/sbin; ip link add vrbt0 type veth peer name vrbt1 &&"
			" ip addr add 10.77.0.1/24 dev vrbt0 && ip link set vrbt0 up &&"
			" ip link set vrbt1 up"),
		 0);
	ch = rdma_create_event_channel();
	CHECK(ch);
	id = world_id(ch, RDMA_PS_TCP);
	CHECK_EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&a, 100), 0);
	CHECK_EQ(rdma_ack_cm_event(world_event(ch, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT)), 0);
	CHECK_EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&b, WORLD_TIMEOUT_MS), 0);
	world_expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	addr = &id->route.addr;
	CHECK_EQ(addr->src_sin.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
	CHECK_EQ(addr->addr.ibaddr.sgid.raw[12], 127);
	CHECK_EQ(rdma_destroy_id(id), 0);
	without_descriptors(&a, &b);

	/* Without limit it waits until there is a neighbour. */
	id = world_id(ch, RDMA_PS_TCP);
	CHECK_EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&a, -1), 0);
	CHECK_EQ(poll(&(struct pollfd){ .fd = ch->fd, .events = POLLIN }, 1, 50), 0);
	CHECK_EQ(system("PATH=$PATH:/usr/sbin:/sbin; ip neigh replace 10.77.0.9 dev vrbt0"
			" lladdr 02:00:00:00:00:09"),
		 0);
	world_expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK_EQ(probed_port, DISCARD_PORT);
	CHECK_EQ(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
}

/* lo has a second address of 127/8, which is a GID of its device. */
static void second_loopback_address(void)
{
	CHECK_EQ(system("PATH=$PATH:/usr/sbin:/sbin; ip link set lo up &&"
			" ip addr add 127.0.0.2/8 dev lo"),
		 0);
	ch = rdma_create_event_channel();
	CHECK(ch);
	loopback_network("127.0.0.2", "127.0.0.2");
	loopback_network("127.0.0.3", LOOPBACK);
	rdma_destroy_event_channel(ch);
}

/*
 * A link-local destination needs no interface of its own if the id's source has one, bound before
 * or given.
 */
static void interface_of_source(void)
{
	struct sockaddr_storage from, to = world_addr("fe80::77", 1);
	struct rdma_cm_id *id;

	if (system("PATH=$PATH:/usr/sbin:/sbin; ip link add vrbt0 type veth peer name vrbt1 &&"
		   " ip link set vrbt0 up && ip link set vrbt1 up &&"
		   " ip addr add fe80::77/64 dev vrbt0 nodad")) {
		printf("left out: 1: no IPv6\n");
		return;
	}
	from = world_addr("fe80::77%vrbt0", 0);
	ch = rdma_create_event_channel();
	CHECK(ch);
	for (int bound = 0; bound < 2; bound++) {
		id = world_id(ch, RDMA_PS_TCP);
		if (bound)
			CHECK_EQ(rdma_bind_addr(id, (struct sockaddr *)&from), 0);
		CHECK_EQ(rdma_resolve_addr(id, bound ? NULL : (struct sockaddr *)&from,
					   (struct sockaddr *)&to, WORLD_TIMEOUT_MS),
			 0);
		world_expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED);
		CHECK_MEM(&id->route.addr.addr.ibaddr.dgid, &id->route.addr.addr.ibaddr.sgid, 16);
		CHECK_EQ(rdma_resolve_route(id, WORLD_TIMEOUT_MS), 0);
		world_expect(ch, RDMA_CM_EVENT_ROUTE_RESOLVED);
		CHECK_EQ(rdma_destroy_id(id), 0);
	}
	rdma_destroy_event_channel(ch);
}

static void in_child(void (*fn)(void), bool own_network)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		if (!own_network || place_enter_netns())
			fn();
		exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
}

static void alone(void)
{
	ch = rdma_create_event_channel();
	CHECK(ch);
	resolved();
	rdma_destroy_event_channel(ch);
}

/* As by seccomp filters, LSMs, systemd, kernels without it, firejail. */
static void without_netlink(void)
{
	const int errors[] = { EPERM, EACCES, EAFNOSUPPORT, EPROTONOSUPPORT, EOPNOTSUPP, ENOSYS };

	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		netlink_error = errors[i];
		in_child(alone, false);
	}
	netlink_error = 0;
}

int main(void)
{
	in_child(resolve_again, true);
	in_child(second_loopback_address, true);
	in_child(interface_of_source, true);
	without_netlink();
	ch = rdma_create_event_channel();
	CHECK(ch);
	resolved();
	wildcard();
	loopback_network("127.0.0.2", LOOPBACK);
	datagrams_to_loopback_network();
	refused();
	no_device();
	synchronous();
	rdma_destroy_event_channel(ch);
	return 0;
}
