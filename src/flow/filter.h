/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rules of a table as a classic BPF program, so that the kernel drops frames that no rule
 * matches.
 *
 * The program accepts every frame that flow_table_received() gives to a rule, and some others: it
 * compares Ethernet, VLAN tag, IP and ports up to a tunnel's header, and treats frames that it
 * cannot parse (MPLS, IPv6 extension headers, three VLAN tags) as matching. Frames that a rule
 * drops are accepted if the rule counts them or another rule matches.
 */
#ifndef VRB_FLOW_FILTER_H
#define VRB_FLOW_FILTER_H

#include <linux/filter.h>

#include "flow/table.h"

/*
 * Writes 1 to `room` instructions and returns their number; if `room` is too small, the program
 * accepts all frames. Frames are those of a packet socket: the first VLAN tag may be in the frame
 * or in its metadata.
 */
unsigned int flow_filter(const struct flow_table *t, struct sock_filter *out, unsigned int room);

#endif
