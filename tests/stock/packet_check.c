/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checks the packets of a pcap file: each must be what other RoCE devices expect. Prints the number
 * of packets with each property, one "name count" per line; stops at the first wrong packet.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "pcap.h"
#include "roce/const.h"
#include "roce/icrc.h"
#include "roce/opcode.h"
#include "roce/pkt.h"

static uint32_t number;	/* of the packet */

static void check(bool good, const char *fmt, ...)
{
	va_list ap;

	if (good)
		return;
	va_start(ap, fmt);
	printf("packet %u: ", number);
	vprintf(fmt, ap);
	printf("\n");
	exit(1);
}

static struct {
	uint32_t packets, in_runs, padded, ack_requests, credits, ecn_capable, marked,
		notifications;
} seen;

static void check_packet(const struct capture_packet *p)
{
	const struct roce_opcode_info *op;
	struct roce_pkt pkt;
	uint32_t pad;

	check(p->len % 4 == 0, "%zu bytes", p->len);
	check(roce_decode(&pkt, p->data, p->len) == ROCE_DECODED, "does not decode");
	check(roce_icrc_check(&p->path, true, p->ip_id, p->data, p->len) == ROCE_ICRC_GOOD,
	      "ICRC, IPv4 identification %u", p->ip_id);
	op = roce_opcode_info(pkt.bth.opcode);
	check(pkt.bth.version == 0, "version %u", pkt.bth.version);
	check(pkt.bth.pkey == 0xffff, "P_Key 0x%x", pkt.bth.pkey);
	check(pkt.bth.mig_req, "MigReq is clear");
	pad = pkt.bth.pad;
	for (uint32_t i = 0; i < pad; i++)
		check(!pkt.payload[pkt.payload_len + i], "pad byte %u is not zero", i);
	check(!roce_is_request(op) || !roce_ends(op) || op->kind == ROCE_KIND_CNP ||
		      pkt.bth.ack_req || pkt.bth.opcode >> 5,
	      "the last packet of a message requests no ACK");
	seen.packets++;
	seen.in_runs += p->ip_id != 0;
	seen.padded += pad != 0;
	seen.ack_requests += pkt.bth.ack_req;
	seen.credits += roce_has(op, ROCE_HDR_AETH) &&
			roce_syndrome_class(pkt.aeth.syndrome) == ROCE_AETH_ACK &&
			roce_syndrome_value(pkt.aeth.syndrome) != ROCE_CREDITS_INVALID;
	seen.ecn_capable += (p->path.traffic_class & ROCE_ECN_MASK) != ROCE_ECN_NOT_ECT;
	seen.marked += (p->path.traffic_class & ROCE_ECN_MASK) == ROCE_ECN_CE;
	seen.notifications += op->kind == ROCE_KIND_CNP;
}

int main(int argc, char **argv)
{
	struct capture c;

	if (argc != 2 || !capture_load(&c, argv[1])) {
		fprintf(stderr, "usage: packet_check FILE.pcap\n");
		return 2;
	}
	for (number = 0; number < c.n; number++)
		check_packet(&c.packet[number]);
	printf("packets %u\nin_runs %u\npadded %u\nack_requests %u\ncredits %u\necn_capable "
	       "%u\nmarked %u\n"
	       "notifications %u\n",
	       seen.packets, seen.in_runs, seen.padded, seen.ack_requests, seen.credits,
	       seen.ecn_capable, seen.marked, seen.notifications);
	capture_free(&c);
	return 0;
}
