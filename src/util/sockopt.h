/* SPDX-License-Identifier: BSD-2-Clause */
/* Options of sockets that rsockets do not have. */
#ifndef VRB_UTIL_SOCKOPT_H
#define VRB_UTIL_SOCKOPT_H

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <sys/socket.h>

/*
 * True if the option changes what is sent, or promises the program something about its data: that
 * the kernel encrypts them (kTLS), filters or splits them, or tells when they were sent.  A program
 * must not believe that; told that there is no such option, it does without.
 */
static inline bool sockopt_concerns_data(int level, int name)
{
	switch (level) {
	case SOL_SOCKET:
		return name == SO_ZEROCOPY || name == SO_PEEK_OFF || name == SO_TIMESTAMPING ||
		       name == SO_ATTACH_FILTER || name == SO_ATTACH_BPF;
	case IPPROTO_TCP:
		return name == TCP_ULP || name == TCP_REPAIR || name == TCP_INQ ||
		       name == TCP_MD5SIG || name == TCP_MD5SIG_EXT;
	case IPPROTO_IP:
	case IPPROTO_IPV6:
		return false;
	default:
		return true;
	}
}

#endif
