/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opens and configures the sockets. Optional socket options may fail: an old or restricted kernel
 * still carries packets.
 */
#include "wire/udp.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "run/config.h"
#include "run/log.h"
#include "util/atomic.h"
#include "util/cancel.h"
#include "util/file_room.h"
#include "wire/claim.h"
#include "wire/mcast_twin.h"
#include "wire/relay.h"
#include "wire/udp_state.h"

enum {
	OPT_UDP_NO_CHECK6_RX = 102,	/* <linux/udp.h>, which clashes with <netinet/udp.h> */
	OPT_IPV6_MULTICAST_ALL = 29,
	RECEIVE_BUFFER = 8 << 20,
	PROBES_MAX = 1024,
};

struct option {
	int level, name, value;
};

static const struct option options_ipv4[] = {
	/*
	 * Set DF on everything, and no path MTU below the interface's: RoCE fragments nothing and
	 * has its own MTU.
	 */
	{ IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE },
	{ IPPROTO_IP, IP_PKTINFO, 1 },
	{ IPPROTO_IP, IP_RECVTOS, 1 },
	{ IPPROTO_IP, IP_RECVTTL, 1 },
	{ IPPROTO_IP, IP_MULTICAST_ALL, 0 },
	{ IPPROTO_IP, IP_RECVERR, 1 },
	{ SOL_SOCKET, SO_RXQ_OVFL, 1 },
};

static const struct option options_ipv6[] = {
	{ IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE },
	{ IPPROTO_IPV6, IPV6_DONTFRAG, 1 },
	{ IPPROTO_IPV6, IPV6_RECVPKTINFO, 1 },
	{ IPPROTO_IPV6, IPV6_RECVTCLASS, 1 },
	{ IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1 },
	{ IPPROTO_IPV6, IPV6_FLOWINFO, 1 },
	{ IPPROTO_IPV6, OPT_IPV6_MULTICAST_ALL, 0 },
	{ IPPROTO_IPV6, IPV6_RECVERR, 1 },
	{ SOL_SOCKET, SO_RXQ_OVFL, 1 },
	/* Soft RoCE sends no checksum, but we do: see docs/WIRE.md. */
	{ IPPROTO_UDP, OPT_UDP_NO_CHECK6_RX, 1 },
};

static void set_options(int fd, const struct option *o, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (setsockopt(fd, o[i].level, o[i].name, &o[i].value, sizeof(o[i].value)) < 0)
			log_debug(LOG_WIRE, "socket option %d of level %d: %m", o[i].name,
				  o[i].level);
}

/* Returns the traffic class of packets without an explicit one; -1: unknown. */
static int set_usual_class(int fd, int family)
{
	int level = family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6;
	int name = family == AF_INET ? IP_TOS : IPV6_TCLASS;
	int class = UDP_USUAL_CLASS;

	return setsockopt(fd, level, name, &class, sizeof(class)) < 0 ? -1 : class;
}

static void set_buffers(int fd)
{
	int size = RECEIVE_BUFFER;

	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) < 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)) < 0)
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
}

/* Binds to the wildcard address; SO_REUSEPORT lets the user's other processes do so, too. */
static int bind_port(int fd, int family, uint16_t port, bool shared)
{
	union udp_sockaddr any = { .sa.sa_family = (sa_family_t)family };
	socklen_t len = sizeof(any.v4);
	int on = 1;

	if (family == AF_INET6) {
		any.v6.sin6_port = htons(port);
		len = sizeof(any.v6);
		if (setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) < 0)
			return errno;
	} else {
		any.v4.sin_port = htons(port);
	}
	if (shared && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) < 0)
		return errno;
	return bind(fd, &any.sa, len) < 0 ? errno : 0;
}

static int open_family(struct udp_wire *u, int family, uint16_t port)
{
	unsigned int i = family == AF_INET ? UDP_IPV4 : UDP_IPV6;
	int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_UDP);
	int err;

	u->fd[i] = -1;
	if (fd < 0)
		return errno;
	err = bind_port(fd, family, port, u->group);
	if (err) {
		close(fd);
		return err;
	}
	if (family == AF_INET)
		set_options(fd, options_ipv4, ARRAY_SIZE(options_ipv4));
	else
		set_options(fd, options_ipv6, ARRAY_SIZE(options_ipv6));
	set_buffers(fd);
	u->usual_class[i] = set_usual_class(fd, family);
	u->fd[i] = fd;
	return 0;
}

static unsigned int udp_fds(const struct wire *w, int fds[WIRE_FDS])
{
	const struct udp_wire *u = container_of(w, struct udp_wire, wire);
	unsigned int i, n = 0;

	for (i = 0; i < UDP_FAMILIES; i++) {
		int fd = load_relaxed(&u->fd[i]);	/* udp_end() may store it at exit */

		if (fd >= 0)
			fds[n++] = fd;
	}
	return n;
}

static int change_membership(struct udp_wire *u, const struct net_addr *group, uint32_t ifindex,
			     int option4, int option6)
{
	struct ip_mreqn m4 = { .imr_ifindex = (int)ifindex };
	struct ipv6_mreq m6 = { .ipv6mr_interface = ifindex };
	int i = net_is_ipv4(group) ? UDP_IPV4 : UDP_IPV6;
	int r;

	if (!net_is_multicast(group))
		return EINVAL;
	if (u->fd[i] < 0)
		return EAFNOSUPPORT;
	if (i == UDP_IPV4) {
		memcpy(&m4.imr_multiaddr, group->raw + 12, 4);
		r = setsockopt(u->fd[i], IPPROTO_IP, option4, &m4, sizeof(m4));
	} else {
		memcpy(&m6.ipv6mr_multiaddr, group->raw, 16);
		r = setsockopt(u->fd[i], IPPROTO_IPV6, option6, &m6, sizeof(m6));
	}
	return r < 0 ? errno : 0;
}

/* From now on the socket gets what any member socket of the host gets. */
static int take_all_groups(struct udp_wire *u)
{
	const int on = 1;

	return setsockopt(u->fd[UDP_IPV4], IPPROTO_IP, IP_MULTICAST_ALL, &on, sizeof(on)) < 0 ?
		       errno : 0;
}

/* ENOBUFS: the socket has as many groups as net.ipv4.igmp_max_memberships says. */
static int udp_join(struct wire *w, const struct net_addr *group, uint32_t ifindex)
{
	struct udp_wire *u = to_udp(w);
	int err = change_membership(u, group, ifindex, IP_ADD_MEMBERSHIP, IPV6_JOIN_GROUP);
	bool full = err == ENOBUFS && net_is_ipv4(group);

	if (full)
		err = take_all_groups(u);
	if (err || !net_is_ipv4(group) || !(full || u->group))
		return err;
	err = mcast_twin_join(&u->twins, group, ifindex, u->group ? w->port : 0);
	return full ? err : 0;
}

static int udp_leave(struct wire *w, const struct net_addr *group, uint32_t ifindex)
{
	struct udp_wire *u = to_udp(w);
	bool twin = mcast_twin_leave(&u->twins, group, ifindex);
	int err = change_membership(u, group, ifindex, IP_DROP_MEMBERSHIP, IPV6_LEAVE_GROUP);

	return twin && err == EADDRNOTAVAIL ? 0 : err; /* the twin was the member */
}

static void udp_close(struct wire *w)
{
	struct udp_wire *u = to_udp(w);
	unsigned int i;

	for (i = 0; i < UDP_FAMILIES; i++)
		if (u->fd[i] >= 0)
			close(u->fd[i]);
	mcast_twin_close_all(&u->twins);
	if (u->claim >= 0)
		close(u->claim);
	if (u->number_holder >= 0)
		close(u->number_holder);
	if (u->idle >= 0)
		close(u->idle);
	free(u->cell);
	free(u->data);
	free(u);
}

static const struct wire_ops udp_ops = {
	udp_send, udp_recv, udp_fds, udp_look, udp_join, udp_leave, udp_close,
};

/* The reason that the port cannot be bound, with advice. */
static const char *holder(uint16_t port, uint64_t group)
{
	if (!group)
		return "it is in use, and cannot be shared without a run directory: set "
		       "VERBENA_DIR, or give each process its own VERBENA_UDP_PORT";
	if (claim_of_others(port, group))
		return "processes with another run directory, or of another user, use it, and do "
		       "not relay packets: choose another port with VERBENA_UDP_PORT, at both "
		       "ends, or for one user's processes the same VERBENA_DIR";
	return "another program or a process without run directory uses it: choose another port "
	       "with VERBENA_UDP_PORT, at both ends";
}

/* Once: a program may open and close its device many times. */
void udp_complain(uint16_t port, uint64_t group, int err)
{
	static int logged;

	if (load_relaxed(&logged) == err)
		return;
	store_relaxed(&logged, err);
	log_warn(LOG_WIRE, "cannot reach other hosts: UDP port %u: %s", port,
		 err == EADDRINUSE ? holder(port, group) : strerror(err));
}

/* IPv4 decides; a missing IPv6 matters only if there is no IPv4. */
static int open_families(struct udp_wire *u)
{
	uint16_t port = u->wire.src_port;
	int err4 = open_family(u, AF_INET, port);
	int err6 = open_family(u, AF_INET6, port);

	if (err4 && err4 != EAFNOSUPPORT)
		return err4;
	if (err6 && (err4 || file_is_shortage(err6)))
		return err6;
	/* The number is another's. */
	if (err6 == EADDRINUSE && u->wire.relayed)
		return err6;
	if (err6 && err6 != EAFNOSUPPORT)
		log_info(LOG_WIRE, "no IPv6 on UDP port %u: %s", port, strerror(err6));
	u->wire.ipv4 = !err4;
	u->wire.ipv6 = !err6;
	return 0;
}

static unsigned int first_family(const struct wire *w)
{
	return w->ipv4 ? UDP_IPV4 : UDP_IPV6;
}

/* A kernel without UDP_SEGMENT would send a run as one long datagram. */
static bool takes_runs(const struct udp_wire *u)
{
	int fd = u->fd[first_family(&u->wire)];
	socklen_t len = sizeof(int);
	int value;

	return getsockopt(fd, IPPROTO_UDP, OPT_UDP_SEGMENT, &value, &len) == 0;
}

/* path_errors NULL: use its own. */
static struct udp_wire *make_wire(uint16_t port, uint64_t group, struct path_errors *path_errors)
{
	struct udp_wire *u = calloc(1, sizeof(*u));

	if (!u)
		return NULL;
	u->wire.ops = &udp_ops;
	u->wire.port = u->wire.src_port = port;
	u->group = group;
	u->claim = u->number_holder = u->idle = -1;
	list_init(&u->twins);
	path_errors_init(&u->path_errors);
	u->wire.path_errors = path_errors ? path_errors : &u->path_errors;
	u->position[UDP_IPV4] = u->position[UDP_IPV6] = -1;
	u->fd[UDP_IPV4] = u->fd[UDP_IPV6] = -1;
	u->cell = malloc(UDP_MESSAGES * sizeof(*u->cell));
	u->data = malloc(UDP_MESSAGES * sizeof(*u->data));
	if (u->cell && u->data)
		return u;
	udp_close(&u->wire);
	return NULL;
}

static void begin(struct udp_wire *u, struct wire **out)
{
	u->wire.runs = takes_runs(u);
	udp_recv_prepare(u);
	*out = &u->wire;
}

/*
 * Looks for other groups both before and after making its own claim: of two groups that start at
 * the same time, at least one finds the other. A process without group has the port alone, and one
 * whose group holds it needs not look.
 */
static int open_claimed(struct udp_wire *u, bool held)
{
	uint64_t group = u->group ? u->group : config_random();
	bool look = u->group && !held;
	int err;

	if (look && claim_of_others(u->wire.port, group))
		return EADDRINUSE;
	err = open_families(u);
	if (err)
		return err;
	u->claim = claim_port(u->wire.port, group);
	if (u->claim < 0 && file_is_shortage(errno))
		return errno;
	return look && claim_of_others(u->wire.port, group) ? EADDRINUSE : 0;
}

static int open_port(uint16_t port, uint64_t group, bool held, struct wire **out)
{
	struct udp_wire *u = make_wire(port, group, NULL);
	int err = u ? open_claimed(u, held) : ENOMEM;

	if (!err) {
		begin(u, out);
		return 0;
	}
	if (u)
		udp_close(&u->wire);
	return err;
}

int udp_open(uint16_t port, uint64_t group, struct wire **out)
{
	return open_port(port, group, false, out);
}

int udp_open_held(uint16_t port, uint64_t group, struct wire **out)
{
	return open_port(port, group, true, out);
}

int udp_open_relayed(uint16_t port, unsigned int number, struct wire **out)
{
	struct udp_wire *u = make_wire(port, 0, NULL);
	int err = ENOMEM;

	if (u) {
		u->wire.src_port = relay_port(number);
		u->wire.relayed = true;
		u->number = number;
		err = open_families(u);
	}
	if (!err)
		begin(u, out);
	else if (u)
		udp_close(&u->wire);
	return err;
}

/*
 * Gives the socket of one wire to the other, in place of its own. Where there is none, as another
 * has the port for this family, `idle` takes the place: the descriptor is still watched.
 */
static void move_socket(struct udp_wire *to, struct udp_wire *from, unsigned int family)
{
	int old = to->fd[family], new = from->fd[family];
	bool gone = new < 0;

	from->fd[family] = -1;
	if (gone && old >= 0)
		new = to->idle;
	if (new < 0 || old < 0 || dup3(new, old, O_CLOEXEC) < 0) {
		store_relaxed(&to->fd[family], new);
		new = old;
	} else if (gone) {
		store_relaxed(&to->fd[family], -1);
		to->idle = old;
	}
	if (new >= 0)
		close(new);
	/* Other threads read it. */
	if (to->usual_class[family] != from->usual_class[family])
		store_relaxed(&to->usual_class[family], from->usual_class[family]);
	to->overflow[family] = to->buffer[family] = 0;
	to->merges[family] = false;
}

/* They seldom change, and other threads read them. */
static void set_families(struct wire *w, bool ipv4, bool ipv6)
{
	if (w->ipv4 != ipv4)
		store_relaxed(&w->ipv4, ipv4);
	if (w->ipv6 != ipv6)
		store_relaxed(&w->ipv6, ipv6);
}

/* What the wire needs beside the sockets of its port. Returns 0 or an errno value. */
static int reserve(struct udp_wire *to, const struct udp_wire *from)
{
	bool loses_one = (to->wire.ipv4 && !from->wire.ipv4) || (to->wire.ipv6 && !from->wire.ipv6);

	if (loses_one && to->idle < 0)
		to->idle = eventfd(0, EFD_CLOEXEC);
	if (loses_one && to->idle < 0)
		return errno;
	to->number_holder = fcntl(to->fd[first_family(&to->wire)], F_DUPFD_CLOEXEC, 0);
	return to->number_holder < 0 ? errno : 0;
}

int udp_take_port(struct wire *w, uint64_t group)
{
	struct udp_wire *to = to_udp(w), *from = make_wire(w->port, group, NULL);
	int err = from ? open_claimed(from, false) : ENOMEM;

	if (!err)
		err = reserve(to, from);
	for (unsigned int i = 0; !err && i < UDP_FAMILIES; i++)
		move_socket(to, from, i);
	if (!err) {
		to->claim = from->claim;
		from->claim = -1;
		to->group = group;
		set_families(w, from->wire.ipv4, from->wire.ipv6);
		store_relaxed(&w->src_port, w->port);
		/* Release: pairs with vrb_steers(), after which others use the group. */
		store_release(&w->relayed, false);
	}
	if (from)
		udp_close(&from->wire);
	return err;
}

int udp_open_beside(const struct wire *first, struct wire **out)
{
	const struct udp_wire *f = container_of(first, struct udp_wire, wire);
	struct udp_wire *u = make_wire(first->port, f->group, first->path_errors);
	int err = u ? open_families(u) : ENOMEM;

	if (!err)
		begin(u, out);
	else if (u)
		udp_close(&u->wire);
	return err;
}

/*
 * Sends probes to the loopback address without udp_send(), because they have no path. If one is
 * lost, the position stays unknown.
 */
static void send_probes(int fd, const union udp_sockaddr *to, socklen_t len, unsigned int members,
			uint64_t nonce)
{
	uint8_t buf[STEER_PROBE_LEN];
	unsigned int i;

	for (i = 0; i < members; i++) {
		steer_probe_make(buf, (uint16_t)i, nonce);
		if (sendto(fd, buf, sizeof(buf), MSG_DONTWAIT, &to->sa, len) < 0)
			log_debug(LOG_WIRE, "cannot send a steering probe: %m");
	}
}

void udp_probe(struct wire *w, unsigned int members)
{
	struct udp_wire *u = to_udp(w);
	const union udp_sockaddr v4 = { .v4 = {
		.sin_family = AF_INET,
		.sin_port = htons(w->port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	} };
	const union udp_sockaddr v6 = { .v6 = {
		.sin6_family = AF_INET6,
		.sin6_port = htons(w->port),
		.sin6_addr = IN6ADDR_LOOPBACK_INIT,
	} };
	int cancel = cancel_off();

	members = min(members, (unsigned int)PROBES_MAX);
	store_relaxed(&u->nonce, config_random());
	store_relaxed(&u->position[UDP_IPV4], -1);
	store_relaxed(&u->position[UDP_IPV6], -1);
	if (u->fd[UDP_IPV4] >= 0)
		send_probes(u->fd[UDP_IPV4], &v4, sizeof(v4.v4), members, u->nonce);
	if (u->fd[UDP_IPV6] >= 0)
		send_probes(u->fd[UDP_IPV6], &v6, sizeof(v6.v6), members, u->nonce);
	cancel_on(cancel);
}

void udp_position(const struct wire *w, int32_t index[2])
{
	const struct udp_wire *u = container_of(w, struct udp_wire, wire);

	index[0] = load_relaxed(&u->position[UDP_IPV4]);
	index[1] = load_relaxed(&u->position[UDP_IPV6]);
}

void udp_moved(struct wire *w, unsigned int family, int32_t index)
{
	store_relaxed(&to_udp(w)->position[family], index);
}

int udp_steer(struct wire *w, struct net_steer_list blocks, struct net_steer_list slots)
{
	/* Static: too large for a small stack, and polling must not allocate. */
	static struct sock_filter insn[STEER_INSNS];
	struct udp_wire *u = to_udp(w);
	unsigned int i;
	int err = 0;

	for (i = 0; i < UDP_FAMILIES; i++) {
		struct sock_fprog prog = { .filter = insn };
		long result;

		if (u->fd[i] < 0)
			continue;
		prog.len = (unsigned short)steer_build(blocks, slots, i, insn);
		result = SYS_RESULT(setsockopt(u->fd[i], SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF,
					       &prog, sizeof(prog)));
		if (result < 0)
			err = (int)-result;
	}
	return err;
}

void udp_admit(struct wire *w, const struct admit_rule *rule)
{
	struct udp_wire *u = to_udp(w);
	struct sock_filter insn[ADMIT_INSNS];
	struct sock_fprog prog = { .filter = insn };
	int option = rule ? SO_ATTACH_FILTER : SO_DETACH_FILTER;

	if (rule)
		prog.len = (unsigned short)admit_build(rule, insn);
	store_relaxed(&u->limited, rule != NULL);
	for (unsigned int i = 0; i < UDP_FAMILIES; i++)
		if (u->fd[i] >= 0 &&
		    setsockopt(u->fd[i], SOL_SOCKET, option, &prog, sizeof(prog)) < 0)
			log_debug(LOG_WIRE, "cannot limit connection requests: %m");
}
