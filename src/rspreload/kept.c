/* SPDX-License-Identifier: BSD-2-Clause */
#include "rspreload/kept.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/time.h>

#include <rdma/rsocket.h>

#include "rspreload/real.h"
#include "util/compiler.h"

typedef int get_fn(int fd, int level, int name, void *value, socklen_t *len);
typedef int set_fn(int fd, int level, int name, const void *value, socklen_t len);

/* Those that have a value: most are 0 unless the program has set them. */
static void copy_options(get_fn *get, int from, set_fn *set, int to)
{
	static const struct {
		int level, name;
	} kept[] = {
		{ SOL_SOCKET, SO_REUSEADDR },  { SOL_SOCKET, SO_KEEPALIVE },
		{ SOL_SOCKET, SO_LINGER },     { SOL_SOCKET, SO_OOBINLINE },
		{ SOL_SOCKET, SO_RCVTIMEO },   { SOL_SOCKET, SO_SNDTIMEO },
		{ IPPROTO_IP, IP_TOS },	       { IPPROTO_IPV6, IPV6_V6ONLY },
		{ IPPROTO_TCP, TCP_NODELAY },  { IPPROTO_TCP, TCP_KEEPIDLE },
		{ IPPROTO_TCP, TCP_KEEPINTVL }, { IPPROTO_TCP, TCP_KEEPCNT },
	};
	static const struct timeval zero;
	struct timeval value;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(kept); i++) {
		socklen_t len = sizeof(value);

		if (!get(from, kept[i].level, kept[i].name, &value, &len) &&
		    memcmp(&value, &zero, len))
			set(to, kept[i].level, kept[i].name, &value, len);
	}
}

void kept_by_system(int fd, int number)
{
	copy_options(rgetsockopt, fd, real()->setsockopt, number);
}

void kept_by_rsocket(int number, int fd)
{
	copy_options(real()->getsockopt, number, rsetsockopt, fd);
}

void kept_by_another(int from, int to)
{
	copy_options(rgetsockopt, from, rsetsockopt, to);
}
