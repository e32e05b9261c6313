/* SPDX-License-Identifier: BSD-2-Clause */
/* The InfiniBand address family: socket addresses of the RDMA connection manager. */
#if !defined(_RDMA_IB_H)
#define _RDMA_IB_H

#include <endian.h>
#include <string.h>

#include <linux/types.h>

#ifndef AF_IB
#define AF_IB 27
#endif
#ifndef PF_IB
#define PF_IB AF_IB
#endif

/* A GID. */
struct ib_addr {
	union {
		__u8 uib_addr8[16];
		__be16 uib_addr16[8];
		__be32 uib_addr32[4];
		__be64 uib_addr64[2];
	} ib_u;
#define sib_addr8	  ib_u.uib_addr8
#define sib_addr16	  ib_u.uib_addr16
#define sib_addr32	  ib_u.uib_addr32
#define sib_addr64	  ib_u.uib_addr64
#define sib_raw		  ib_u.uib_addr8
#define sib_subnet_prefix ib_u.uib_addr64[0]
#define sib_interface_id  ib_u.uib_addr64[1]
};

struct sockaddr_ib {
	unsigned short int sib_family; /* AF_IB */
	__be16 sib_pkey;
	__be32 sib_flowinfo;
	struct ib_addr sib_addr;
	__be64 sib_sid;	     /* service ID */
	__be64 sib_sid_mask; /* its significant bits */
	__u64 sib_scope_id;
};

/* Is the address all zeroes? */
static inline int ib_addr_any(const struct ib_addr *a)
{
	return !a->sib_addr64[0] && !a->sib_addr64[1];
}

/* Is the address ::1? */
static inline int ib_addr_loopback(const struct ib_addr *a)
{
	const __u8 loopback[16] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1 };

	return !memcmp(a->sib_addr8, loopback, sizeof(loopback));
}

/* Sets the address from four words in network byte order, most significant first. */
static inline void ib_addr_set(struct ib_addr *addr, __be32 w1, __be32 w2, __be32 w3, __be32 w4)
{
	const __be32 words[4] = { w1, w2, w3, w4 };

	memcpy(addr->sib_addr32, words, sizeof(words));
}

/* Orders addresses as memcmp() does; 0 if they are equal. */
static inline int ib_addr_cmp(const struct ib_addr *a1, const struct ib_addr *a2)
{
	return memcmp(a1->sib_addr8, a2->sib_addr8, sizeof(a1->sib_addr8));
}

#endif
