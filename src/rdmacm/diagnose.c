/* SPDX-License-Identifier: BSD-2-Clause */
/* Logs in one line why the program does not connect. */
#include "rdmacm/diagnose.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "rdmacm/addr.h"
#include "rdmacm/cma.h"
#include "rdmacm/id.h"
#include "run/log.h"
#include "util/atomic.h"

enum { TEXT = INET6_ADDRSTRLEN + 8 };

/* Only the first failure is logged: later ones have the same cause, or the program expects them. */
static bool logged;

static const char *text_of(const struct net_addr *a, char text[TEXT])
{
	if (net_is_ipv4(a))
		inet_ntop(AF_INET, a->raw + 12, text, TEXT);
	else
		inet_ntop(AF_INET6, a->raw, text, TEXT);
	return text;
}

static unsigned int port_of(const struct cma_id *id)
{
	return addr_port(&id->pub.route.addr.dst_addr);
}

static const char *space_of(const struct cma_id *id)
{
	return id->pub.ps == RDMA_PS_TCP ? "TCP" : id->pub.ps == RDMA_PS_UDP ? "UDP" : "IB";
}

void diagnose_rejected(const struct cma_id *id, unsigned int reason)
{
	const char *why = cm_rej_reason_text(reason);
	char to[TEXT];

	/* No failure for a program that connects from both sides and keeps one, as ofi_rxm does. */
	if (reason == CM_REJ_CONSUMER) {
		log_info(LOG_VERBS, "connect: the listening program refused the connection");
		return;
	}
	if (!log_on(LOG_VERBS, LOG_WARN) || !log_first(&logged))
		return;
	text_of(&id->path.dst, to);
	if (reason == CM_REJ_INVALID_SERVICE_ID)
		log_warn(LOG_VERBS,
			 "connect: no listener at %s on port %u of rdma_cm's port space %s "
			 "(sockets have other port numbers; verbena explain rej:8)",
			 to, port_of(id), space_of(id));
	else
		log_warn(LOG_VERBS, "connect: %s refused port %u: %s (verbena explain rej:%u)", to,
			 port_of(id), why ? why : "for an unknown reason", reason);
}

static const char *icmp_text(int trouble)
{
	switch (trouble) {
	case ECONNREFUSED:
		return "answers, but has no RDMA: its RoCE port is closed (ICMP port unreachable; "
		       "no Verbena runs there, VERBENA_UDP_PORT differs, or a firewall rejects it)";
	case EHOSTUNREACH:
		return "cannot be reached: ICMP host unreachable, or no answer to ARP or ND";
	case ENETUNREACH:
		return "cannot be reached: there is no route to its network";
	case ENETDOWN:
		return "is another host, but this process reaches only its own: VERBENA_TRANSPORT "
		       "is local, or another program has the RoCE port (verbena doctor)";
	case EACCES:
	case EPERM:
		return "cannot be reached: a firewall rejects it";
	default:
		return "cannot be reached";
	}
}

void diagnose_silence(const struct cma_id *id, bool last)
{
	char to[TEXT];
	int trouble;

	if (load_relaxed(&logged))
		return;
	trouble = qp1.trouble(cma.mad, &id->path.dst);
	if ((!trouble && !last) || !log_on(LOG_VERBS, LOG_WARN) || !log_first(&logged))
		return;
	text_of(&id->path.dst, to);
	if (trouble)
		log_warn(LOG_VERBS, "connect: %s %s", to, icmp_text(trouble));
	else
		log_warn(LOG_VERBS,
			 "connect: %s did not answer: it is down, has no RDMA, a firewall drops "
			 "packets to the RoCE port, or NAT changes their addresses",
			 to);
}

void diagnose_no_device(const struct cma_id *id, const struct net_addr *src)
{
	char to[TEXT], from[TEXT];
	struct net_addr dst = addr_gid(&id->pub.route.addr.dst_addr);

	if (!log_on(LOG_VERBS, LOG_WARN) || !log_first(&logged))
		return;
	log_warn(LOG_VERBS,
		 "connect: no device can send to %s: the route starts at %s, which is no device's "
		 "address (ibv_devices, VERBENA_DEVICES)",
		 text_of(&dst, to), text_of(src, from));
}

void diagnose_no_neighbour(const struct cma_id *id, const struct net_addr *hop)
{
	char to[TEXT], by[TEXT];
	struct net_addr dst = addr_gid(&id->pub.route.addr.dst_addr);

	if (!log_on(LOG_VERBS, LOG_WARN) || !log_first(&logged))
		return;
	log_warn(LOG_VERBS,
		 "connect: %s cannot be reached: its next hop %s does not answer ARP or ND (wrong "
		 "address, or the host is down)",
		 text_of(&dst, to), text_of(hop, by));
}

int diagnose_inherited(void)
{
	log_once(LOG_VERBS, LOG_INFO, "an id or event channel is used that is the parent "
				      "process's, from before fork(): a child creates its own");
	return EIO;
}

int diagnose_invalid(const char *fmt, ...)
{
	char text[160];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	log_info(LOG_VERBS, "%s", text);
	return EINVAL;
}
