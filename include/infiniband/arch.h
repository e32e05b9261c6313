/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * 64-bit byte order conversion under its old names.  Obsolete: call htobe64() and be64toh() of
 * <endian.h>.
 */
#ifndef INFINIBAND_ARCH_H
#define INFINIBAND_ARCH_H

#include <endian.h>
#include <stdint.h>

#ifndef ntohll
#undef htonll

/* Its own inverse; usable where <endian.h> hides htobe64(). */
static inline uint64_t __ibv_swap_to_network64(uint64_t x)
{
#if __BYTE_ORDER == __LITTLE_ENDIAN
	return __builtin_bswap64(x);
#else
	return x;
#endif
}

__attribute__((deprecated("use htobe64()"))) static inline uint64_t htonll(uint64_t host)
{
	return __ibv_swap_to_network64(host);
}

__attribute__((deprecated("use be64toh()"))) static inline uint64_t ntohll(uint64_t net)
{
	return __ibv_swap_to_network64(net);
}

/* Defined so that #ifdef finds the names and other headers do not redefine them. */
#define htonll htonll
#define ntohll ntohll
#endif

#endif
