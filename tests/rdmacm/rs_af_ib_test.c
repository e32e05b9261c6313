/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rsockets of the family AF_IB: names are GIDs with service ids. The GID belongs to the loopback
 * device.
 */
#include <infiniband/ib.h>
#include <string.h>

#include "rspair.h"

#define GID "::ffff:127.0.0.1"

enum { SPACE = 0x01060000, BYTES = 300000 };

static struct sockaddr_ib address(const char *gid, uint64_t sid)
{
	struct sockaddr_storage six = world_addr(gid, 0);
	struct sockaddr_ib ib = {
		.sib_family = AF_IB,
		.sib_pkey = htobe16(0xffff),
		.sib_sid = htobe64(sid),
		.sib_sid_mask = htobe64(~0xffffull),
	};

	memcpy(&ib.sib_addr, &((struct sockaddr_in6 *)&six)->sin6_addr, 16);
	if (sid & 0xffff)
		ib.sib_sid_mask = htobe64(UINT64_MAX);
	return ib;
}

static struct sockaddr_ib name_of(int fd, int (*name)(int, struct sockaddr *, socklen_t *))
{
	struct sockaddr_ib ib = { 0 };
	socklen_t len = sizeof(ib);

	CHECK_EQ(name(fd, (struct sockaddr *)&ib, &len), 0);
	CHECK_EQ(len, sizeof(ib));
	CHECK_EQ(ib.sib_family, AF_IB);
	return ib;
}

static int listener(const char *gid)
{
	struct sockaddr_ib at = address(gid, SPACE), short_one = at;
	int fd = rsocket(AF_IB, SOCK_STREAM, 0);

	CHECK(fd >= 0);
	CHECK_FAILS(rbind(fd, (struct sockaddr *)&short_one, 16), EINVAL);
	CHECK_EQ(rbind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	CHECK_EQ(rlisten(fd, 8), 0);
	at = name_of(fd, rgetsockname);
	CHECK_EQ(be64toh(at.sib_sid) & ~0xffffull, SPACE);
	CHECK(be64toh(at.sib_sid) & 0xffff);
	return fd;
}

/* Sends more than the buffers hold, in both directions. */
static void carry(int from, int to)
{
	static uint8_t out[BYTES], in[BYTES];
	size_t sent = 0, got = 0;

	for (size_t i = 0; i < BYTES; i++)
		out[i] = (uint8_t)(i * 31 + (i >> 8));
	memset(in, 0, sizeof(in));
	while (got < BYTES) {
		ssize_t n = rsend(from, out + sent, BYTES - sent, MSG_DONTWAIT);

		CHECK(n >= 0 || errno == EAGAIN);
		sent += n > 0 ? (size_t)n : 0;
		n = rrecv(to, in + got, BYTES - got, MSG_DONTWAIT);
		CHECK(n > 0 || (n < 0 && errno == EAGAIN));
		got += n > 0 ? (size_t)n : 0;
	}
	CHECK_MEM(in, out, BYTES);
}

static void connects(const char *gid)
{
	struct sockaddr_ib from, to;
	socklen_t len = sizeof(from);
	int l = listener(gid), c = rsocket(AF_IB, SOCK_STREAM, 0), a;

	CHECK(c >= 0);
	to = address(GID, be64toh(name_of(l, rgetsockname).sib_sid));
	CHECK_EQ(rconnect(c, (struct sockaddr *)&to, sizeof(to)), 0);
	a = raccept(l, (struct sockaddr *)&from, &len);
	CHECK(a >= 0);
	CHECK_EQ(len, sizeof(from));
	CHECK_EQ(from.sib_family, AF_IB);
	CHECK_MEM(&from.sib_addr, &to.sib_addr, 16);
	CHECK_EQ(name_of(a, rgetsockname).sib_sid, to.sib_sid);
	CHECK_EQ(name_of(c, rgetpeername).sib_sid, to.sib_sid);
	from = name_of(c, rgetsockname);
	CHECK_MEM(&from.sib_addr, &to.sib_addr, 16);
	carry(c, a);
	carry(a, c);
	CHECK_EQ(rclose(c), 0);
	CHECK_EQ(rclose(a), 0);
	CHECK_EQ(rclose(l), 0);
}

static void refused(void)
{
	struct sockaddr_ib to = address(GID, SPACE + 9), other = address(GID, 0x01110000);
	int fd = rsocket(AF_IB, SOCK_STREAM, 0);

	CHECK(fd >= 0);
	CHECK_FAILS(rbind(fd, (struct sockaddr *)&other, sizeof(other)), EPROTONOSUPPORT);
	CHECK_FAILS(rconnect(fd, (struct sockaddr *)&to, sizeof(to)), ECONNREFUSED);
	CHECK_EQ(rclose(fd), 0);
}

int main(void)
{
	connects("::");
	connects(GID);
	refused();
	return 0;
}
