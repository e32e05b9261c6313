/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses as the headers of datagrams have them. */
#include "rdmacm/rs_from.h"

#include <arpa/inet.h>
#include <string.h>

void rs_from_of(const struct sockaddr_storage *a, struct rs_from *f)
{
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)a;
	const struct sockaddr_in *four = (const struct sockaddr_in *)a;

	memset(f, 0, sizeof(*f));
	if (a->ss_family == AF_INET) {
		f->version = 4;
		f->port = ntohs(four->sin_port);
		memcpy(f->ip, &four->sin_addr, 4);
	} else if (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr)) {
		f->version = 4;
		f->port = ntohs(six->sin6_port);
		memcpy(f->ip, six->sin6_addr.s6_addr + 12, 4);
	} else {
		f->version = 6;
		f->port = ntohs(six->sin6_port);
		memcpy(f->ip, &six->sin6_addr, 16);
	}
}

void rs_from_to_addr(const struct rs_from *f, int domain, struct sockaddr_storage *a)
{
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)a;
	struct sockaddr_in *four = (struct sockaddr_in *)a;

	memset(a, 0, sizeof(*a));
	a->ss_family = (sa_family_t)domain;
	if (domain == AF_INET) {
		four->sin_port = htons(f->port);
		memcpy(&four->sin_addr, f->ip, 4);
		return;
	}
	six->sin6_port = htons(f->port);
	if (f->version == 6) {
		memcpy(&six->sin6_addr, f->ip, 16);
		return;
	}
	six->sin6_addr.s6_addr[10] = six->sin6_addr.s6_addr[11] = 0xff;
	memcpy(six->sin6_addr.s6_addr + 12, f->ip, 4);
}

bool rs_from_same_ip(const struct rs_from *a, const struct rs_from *b)
{
	return a->version == b->version && !memcmp(a->ip, b->ip, sizeof(a->ip));
}

bool rs_from_same(const struct rs_from *a, const struct rs_from *b)
{
	return a->port == b->port && rs_from_same_ip(a, b);
}

void rs_from_gid(const struct rs_from *f, union ibv_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	if (f->version == 6) {
		memcpy(gid->raw, f->ip, 16);
		return;
	}
	gid->raw[10] = gid->raw[11] = 0xff;
	memcpy(gid->raw + 12, f->ip, 4);
	/* A socket can be bound to any of 127/8, of which the loopback device has only this one. */
	if (f->ip[0] == 127)
		memcpy(gid->raw + 13, (const uint8_t[]){ 0, 0, 1 }, 3);
}
