/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rules of a table as a classic BPF program, so that the kernel keeps away what no rule would
 * take.
 *
 * The program takes every frame that flow_table_received() gives to a rule, and some that it does
 * not: it looks at Ethernet, VLAN tag, IP and ports up to a tunnel's header, and takes what it
 * cannot see through (MPLS, IPv6 extension headers, three VLAN tags) for a match.  Frames that a
 * rule drops are taken where the rule counts them or another one matches as well.
 */
#ifndef VRB_FLOW_FILTER_H
#define VRB_FLOW_FILTER_H

#include <linux/filter.h>

#include "flow/table.h"

/*
 * Writes at most `room` instructions, 1 at least, and returns how many: with too little room a
 * program that takes all. Frames are as a packet socket has them: the first VLAN tag may be in the
 * frame or beside it.
 */
unsigned int flow_filter(const struct flow_table *t, struct sock_filter *out, unsigned int room);

#endif
