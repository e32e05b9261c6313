/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma_getaddrinfo(): name resolution by the system's resolver.  No state, no lock. */
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/ib.h>
#include <rdma/rdma_cma.h>

#include "rdmacm/addr.h"
#include "rdmacm/cma.h"
#include "util/be.h"

/* ---- Socket types, port spaces and QP types ---- */

static int socktype_of(int qp_type)
{
	switch (qp_type) {
	case IBV_QPT_RC:
	case IBV_QPT_UC:
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
		return SOCK_STREAM;
	case IBV_QPT_UD:
		return SOCK_DGRAM;
	default:
		return 0;
	}
}

static int protocol_of(int port_space)
{
	switch (port_space) {
	case RDMA_PS_TCP:
		return IPPROTO_TCP;
	case RDMA_PS_UDP:
	case RDMA_PS_IPOIB:
		return IPPROTO_UDP;
	default:
		return 0;
	}
}

static struct addrinfo libc_hints(const struct rdma_addrinfo *hints)
{
	struct addrinfo ai = { .ai_flags = 0 };

	if (!hints)
		return ai;
	if (hints->ai_flags & RAI_PASSIVE)
		ai.ai_flags |= AI_PASSIVE;
	if (hints->ai_flags & RAI_NUMERICHOST)
		ai.ai_flags |= AI_NUMERICHOST;
	if (hints->ai_family != AF_IB)
		ai.ai_family = hints->ai_family;
	ai.ai_socktype = socktype_of(hints->ai_qp_type);
	ai.ai_protocol = protocol_of(hints->ai_port_space);
	return ai;
}

/* ---- Results ---- */

static int set_addr(struct sockaddr **to, socklen_t *to_len, const struct sockaddr *from,
		    socklen_t len)
{
	if (!from || !len)
		return 0;
	*to = malloc(len);
	if (!*to)
		return ENOMEM;
	memcpy(*to, from, len);
	*to_len = len;
	return 0;
}

static int set_name(char **to, const char *from)
{
	if (!from)
		return 0;
	*to = strdup(from);
	return *to ? 0 : ENOMEM;
}

static int default_ps(const struct addrinfo *ai)
{
	return ai->ai_protocol == IPPROTO_UDP || ai->ai_socktype == SOCK_DGRAM ? RDMA_PS_UDP
									       : RDMA_PS_TCP;
}

static int from_libc(struct rdma_addrinfo *rai, const struct addrinfo *ai,
		     const struct rdma_addrinfo *hints)
{
	bool passive = hints && (hints->ai_flags & RAI_PASSIVE);
	int err;

	rai->ai_family = ai->ai_family;
	rai->ai_qp_type = hints && hints->ai_qp_type      ? hints->ai_qp_type
			  : ai->ai_socktype == SOCK_DGRAM ? IBV_QPT_UD
							  : IBV_QPT_RC;
	rai->ai_port_space = hints && hints->ai_port_space ? hints->ai_port_space : default_ps(ai);
	if (passive) {
		rai->ai_flags = RAI_PASSIVE;
		err = set_addr(&rai->ai_src_addr, &rai->ai_src_len, ai->ai_addr, ai->ai_addrlen);
		return err ? err : set_name(&rai->ai_src_canonname, ai->ai_canonname);
	}
	err = set_addr(&rai->ai_dst_addr, &rai->ai_dst_len, ai->ai_addr, ai->ai_addrlen);
	if (!err && hints)
		err = set_addr(&rai->ai_src_addr, &rai->ai_src_len, hints->ai_src_addr,
			       hints->ai_src_len);
	return err ? err : set_name(&rai->ai_dst_canonname, ai->ai_canonname);
}

static int from_hints(struct rdma_addrinfo *rai, const struct rdma_addrinfo *hints)
{
	int err;

	rai->ai_flags = hints->ai_flags;
	rai->ai_family = hints->ai_family;
	rai->ai_qp_type = hints->ai_qp_type;
	rai->ai_port_space = hints->ai_port_space;
	err = set_addr(&rai->ai_dst_addr, &rai->ai_dst_len, hints->ai_dst_addr, hints->ai_dst_len);
	return err ? err
		   : set_addr(&rai->ai_src_addr, &rai->ai_src_len, hints->ai_src_addr,
			      hints->ai_src_len);
}

/* ---- GIDs as addresses ---- */

static bool wants_gid(const struct rdma_addrinfo *hints)
{
	const int flags = RAI_NUMERICHOST | RAI_FAMILY;

	return hints && (hints->ai_flags & flags) == flags && hints->ai_family == AF_IB;
}

static void to_ib(struct sockaddr_ib *ib, const struct sockaddr_in6 *ip, int port_space)
{
	memset(ib, 0, sizeof(*ib));
	ib->sib_family = AF_IB;
	ib->sib_pkey = htobe16(0xffff);
	ib->sib_flowinfo = ip->sin6_flowinfo;
	memcpy(&ib->sib_addr, &ip->sin6_addr, sizeof(ib->sib_addr));
	ib->sib_sid = htobe64((uint64_t)port_space << 16 | ntohs(ip->sin6_port));
	/* Without a service any port will do. */
	ib->sib_sid_mask = htobe64(ip->sin6_port ? UINT64_MAX : RDMA_IB_IP_PS_MASK);
	ib->sib_scope_id = ip->sin6_scope_id;
}

/* Converts a result of libc to AF_IB. */
static int convert(struct sockaddr **addr, socklen_t *len, int port_space)
{
	struct sockaddr_ib *ib;

	if (!*addr || (*addr)->sa_family != AF_INET6)
		return 0;
	ib = malloc(sizeof(*ib));
	if (!ib)
		return ENOMEM;
	to_ib(ib, (struct sockaddr_in6 *)(void *)*addr, port_space);
	free(*addr);
	*addr = (struct sockaddr *)ib;
	*len = sizeof(*ib);
	return 0;
}

static int convert_all(struct rdma_addrinfo *rai)
{
	int err = convert(&rai->ai_dst_addr, &rai->ai_dst_len, rai->ai_port_space);

	rai->ai_family = AF_IB;
	return err ? err : convert(&rai->ai_src_addr, &rai->ai_src_len, rai->ai_port_space);
}

/* ---- The call ---- */

/* Returns 0, a positive errno value, or a negative EAI_* code. */
static int look_up(const char *node, const char *service, const struct rdma_addrinfo *hints,
		   struct rdma_addrinfo *rai)
{
	struct addrinfo ask = libc_hints(hints), *found;
	int err;

	if (wants_gid(hints))
		ask.ai_family = AF_INET6;
	err = getaddrinfo(node, service, hints ? &ask : NULL, &found);
	if (err)
		return err;
	err = from_libc(rai, found, hints);
	if (!err && wants_gid(hints))
		err = convert_all(rai);
	freeaddrinfo(found);
	return err;
}

CMA_EXPORT int rdma_getaddrinfo(const char *node, const char *service,
				const struct rdma_addrinfo *hints, struct rdma_addrinfo **res)
{
	struct rdma_addrinfo *rai;
	int err;

	if (!res || (!node && !service && !hints))
		return cma_result(EINVAL);
	rai = calloc(1, sizeof(*rai));
	if (!rai)
		return cma_result(ENOMEM);
	err = node || service ? look_up(node, service, hints, rai) : from_hints(rai, hints);
	if (!err) {
		*res = rai;
		return 0;
	}
	rdma_freeaddrinfo(rai);
	return err < 0 ? err : cma_result(err);
}

CMA_EXPORT void rdma_freeaddrinfo(struct rdma_addrinfo *rai)
{
	while (rai) {
		struct rdma_addrinfo *next = rai->ai_next;

		free(rai->ai_src_addr);
		free(rai->ai_dst_addr);
		free(rai->ai_src_canonname);
		free(rai->ai_dst_canonname);
		free(rai->ai_route);
		free(rai->ai_connect);
		free(rai);
		rai = next;
	}
}
