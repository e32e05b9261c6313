/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads captures of RoCEv2 traffic: Ethernet, IPv4 or IPv6, UDP to port 4791; anything else in the
 * file is skipped.
 */
#ifndef SIM_PCAP_H
#define SIM_PCAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/net.h"

struct capture_packet {
	struct net_path path;
	uint16_t ip_id;
	const uint8_t *data;	/* BTH..ICRC */
	size_t len;
};

struct capture {
	uint8_t *file;
	struct capture_packet *packet;
	uint32_t n;
};

/* False if the file cannot be read or is no little-endian Ethernet pcap. */
bool capture_load(struct capture *c, const char *path);
void capture_free(struct capture *c);

#endif
