/* SPDX-License-Identifier: BSD-2-Clause */
/* The network: address families, MTUs, the UDP port, and whether packets arrive. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "doctor.h"
#include "run/config.h"
#include "run/netdev.h"
#include "wire/claim.h"

enum {
	SMALL = 64,
	IP6_UDP = 48,	/* bytes of headers */
	IP4_UDP = 28,
	MTU_1024 = 1024 + 88,	/* interface MTU for a path MTU of 1024; core/device/port.c */
	WAIT_MS = 500,
};

void check_ipv6(void)
{
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	FILE *f = fopen("/proc/net/if_inet6", "re");
	int first = f ? fgetc(f) : EOF;

	if (fd < 0)
		found(12, "no IPv6 socket: %s", strerror(errno));
	else if (first == EOF)
		found(12, "no interface has an IPv6 address");
	else
		fine("IPv6 is available");
	if (fd >= 0)
		close(fd);
	if (f)
		fclose(f);
}

void check_netlink(void)
{
	int fd = netdev_monitor_open();

	if (fd < 0)
		found(16, "%s", strerror(-fd));
	else
		close(fd);
}

void check_mtu(void)
{
	struct netdev *list = NULL;
	unsigned int n = 0, small = 0;

	if (netdev_list(&list, &n))
		return;
	for (unsigned int i = 0; i < n; i++) {
		if (!list[i].up || !list[i].n_addrs || list[i].mtu >= MTU_1024)
			continue;
		small++;
		found(13, "%s has %u bytes", list[i].name, list[i].mtu);
	}
	if (!small)
		fine("the interfaces' MTUs allow a path MTU of 1024 or more");
	free(list);
}

struct endpoint {
	struct sockaddr_storage sa;
	socklen_t len;
	bool v4;
	char text[INET6_ADDRSTRLEN];
};

static bool set_endpoint(struct endpoint *e, const struct net_addr *addr, unsigned int ifindex,
			 uint16_t port)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	struct sockaddr_in *v4 = (struct sockaddr_in *)&e->sa;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&e->sa;

	*e = (struct endpoint){ .v4 = memcmp(addr->raw, mapped, sizeof(mapped)) == 0 };
	if (e->v4) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(port);
		memcpy(&v4->sin_addr, addr->raw + 12, 4);
		e->len = sizeof(*v4);
		return inet_ntop(AF_INET, &v4->sin_addr, e->text, sizeof(e->text)) != NULL;
	}
	v6->sin6_family = AF_INET6;
	v6->sin6_port = htons(port);
	memcpy(&v6->sin6_addr, addr->raw, 16);
	if (IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr))
		v6->sin6_scope_id = ifindex;
	e->len = sizeof(*v6);
	return inet_ntop(AF_INET6, &v6->sin6_addr, e->text, sizeof(e->text)) != NULL;
}

static bool passes(int from, int to, size_t size)
{
	struct pollfd pfd = { .fd = to, .events = POLLIN };
	char *buf = calloc(1, size);
	bool ok = buf && send(from, buf, size, 0) == (ssize_t)size && poll(&pfd, 1, WAIT_MS) == 1 &&
		  recv(to, buf, size, MSG_DONTWAIT) == (ssize_t)size;

	free(buf);
	return ok;
}

/* Addresses with the same problem, for one finding. */
struct places {
	unsigned int n;
	char text[400];
};

static void add_place(struct places *p, const char *address, const char *interface)
{
	size_t len = strlen(p->text);

	p->n++;
	snprintf(p->text + len, sizeof(p->text) - len, "%s%s (%s)", len ? ", " : "", address,
		 interface);
}

struct port_report {
	struct places taken, silent, short_only;
	int err;	/* of the last address that is taken */
};

/*
 * Sends a packet from any port to ours.  The receiving socket is connected to the sender, so that
 * it takes nothing from running programs, with which it shares the port.
 */
static bool probe(const struct netdev *nd, const struct net_addr *addr, uint16_t port,
		  struct port_report *report)
{
	int to, from, on = 1;
	struct endpoint dst, src;
	bool ok = false;

	if (!set_endpoint(&dst, addr, nd->ifindex, port) ||
	    !set_endpoint(&src, addr, nd->ifindex, 0))
		return true;
	to = socket(dst.sa.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	from = socket(dst.sa.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (to < 0 || from < 0 || bind(from, (struct sockaddr *)&src.sa, src.len) < 0 ||
	    getsockname(from, (struct sockaddr *)&src.sa, &src.len) < 0)
		goto out;
	setsockopt(to, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
	if (bind(to, (struct sockaddr *)&dst.sa, dst.len) < 0 ||
	    connect(to, (struct sockaddr *)&src.sa, src.len) < 0) {
		report->err = errno;
		add_place(&report->taken, dst.text, nd->name);
		goto out;
	}
	if (connect(from, (struct sockaddr *)&dst.sa, dst.len) < 0 || !passes(from, to, SMALL))
		add_place(&report->silent, dst.text, nd->name);
	else if (!passes(from, to,
			 (nd->mtu < 4200 ? nd->mtu : 4200) - (dst.v4 ? IP4_UDP : IP6_UDP)))
		add_place(&report->short_only, dst.text, nd->name);
	else
		ok = true;
out:
	if (to >= 0)
		close(to);
	if (from >= 0)
		close(from);
	return ok;
}

/* Is there a process that holds the port and would relay packets? */
static bool is_relayed(uint16_t port)
{
	uid_t user;
	int claim = claim_connect(port, 0, &user);

	if (claim >= 0)
		close(claim);
	return claim >= 0;
}

void check_port(void)
{
	uint16_t port = doctor_config()->udp_port;
	struct netdev *list = NULL;
	unsigned int n = 0, good = 0, all = 0;
	struct port_report report = { .err = 0 };

	if (netdev_list(&list, &n))
		return;
	for (unsigned int i = 0; i < n; i++) {
		for (unsigned int j = 0; j < list[i].n_addrs && j < 4 && list[i].up; j++) {
			all++;
			good += probe(&list[i], &list[i].addr[j].addr, port, &report);
		}
	}
	if (report.taken.n && is_relayed(port))
		found(15, "another user has UDP port %u", port);
	else if (report.taken.n)
		found(10, "UDP port %u: %s, at %s", port, strerror(report.err), report.taken.text);
	if (report.silent.n)
		found(11, "port %u at %s", port, report.silent.text);
	if (report.short_only.n)
		found(14, "port %u at %s", port, report.short_only.text);
	if (all && good == all)
		fine("UDP port %u: packets pass on %u address%s", port, all, all == 1 ? "" : "es");
	free(list);
}
