/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every RoCEv2 packet that Linux soft RoCE sent in the captures under tests/data (the folders given
 * as arguments): it must decode, its headers must encode to the same bits, its ICRC must be the
 * computed one, and a changed byte must be detected.
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <pcap/pcap.h>

#include "roce/icrc.h"
#include "roce/opcode.h"
#include "roce/pkt.h"
#include "util/be.h"

enum {
	ETH_LEN = 14,
	ETHERTYPE_IP4 = 0x0800,
	ETHERTYPE_IP6 = 0x86dd,
	IP4_LEN = 20,
	IP6_LEN = 40,
	UDP_LEN = 8,
	PROTO_UDP = 17,
	BTH_VARIANT_BYTE = 4,
};

/* One RoCEv2 packet of a capture. */
struct golden {
	struct net_path path;
	bool ipv4;
	uint16_t ip_id;
	const uint8_t *data;	/* BTH..ICRC */
	size_t len;
};

static char **folders;
static struct {
	unsigned files, frames, packets, ipv4, ipv6;
	unsigned long corrupted;
	unsigned per_opcode[256];
} count;

static bool parse_ip4(struct golden *g, const uint8_t *p, size_t len, const uint8_t **udp)
{
	if (len < IP4_LEN + UDP_LEN || p[0] != 0x45 || p[9] != PROTO_UDP)
		return false;
	g->ipv4 = true;
	g->path.traffic_class = p[1];
	g->ip_id = get_be16(p + 4);
	g->path.hop_limit = p[8];
	memset(g->path.src.raw + 10, 0xff, 2);
	memset(g->path.dst.raw + 10, 0xff, 2);
	memcpy(g->path.src.raw + 12, p + 12, 4);
	memcpy(g->path.dst.raw + 12, p + 16, 4);
	*udp = p + IP4_LEN;
	return get_be16(p + 2) <= len;
}

static bool parse_ip6(struct golden *g, const uint8_t *p, size_t len, const uint8_t **udp)
{
	if (len < IP6_LEN + UDP_LEN || p[6] != PROTO_UDP)
		return false;
	g->path.hop_limit = p[7];
	memcpy(g->path.src.raw, p + 8, 16);
	memcpy(g->path.dst.raw, p + 24, 16);
	*udp = p + IP6_LEN;
	return (size_t)IP6_LEN + get_be16(p + 4) <= len;
}

/* Returns false if the frame is not RoCEv2. */
static bool parse_frame(struct golden *g, const uint8_t *frame, size_t len)
{
	const uint8_t *udp;
	uint16_t type;

	memset(g, 0, sizeof(*g));
	if (len < ETH_LEN)
		return false;
	type = get_be16(frame + 12);
	if (type == ETHERTYPE_IP4 ? !parse_ip4(g, frame + ETH_LEN, len - ETH_LEN, &udp) :
	    type == ETHERTYPE_IP6 ? !parse_ip6(g, frame + ETH_LEN, len - ETH_LEN, &udp) : true)
		return false;
	g->path.src_port = get_be16(udp);
	g->path.dst_port = get_be16(udp + 2);
	g->data = udp + UDP_LEN;
	g->len = get_be16(udp + 4) - UDP_LEN;
	return g->path.dst_port == ROCE_UDP_PORT && g->data + g->len <= frame + len;
}

static void check_packet(const char *file, const struct golden *g)
{
	uint8_t headers[ROCE_MAX_HDR];
	struct roce_pkt pkt;
	size_t hdr_len;

	if (roce_decode(&pkt, g->data, g->len) != ROCE_DECODED)
		fail_msg("%s: packet %u does not decode", file, count.packets);
	hdr_len = roce_encode_headers(headers, &pkt);
	if (memcmp(headers, g->data, hdr_len) != 0)
		fail_msg("%s: headers of packet %u encode differently", file, count.packets);
	assert_ptr_equal(g->data + hdr_len, pkt.payload);
	if (pkt.bth.dest_qpn == 1)
		assert_true(pkt.bth.opcode == ROCE_UD_SEND_ONLY && pkt.payload_len == 256);
	count.per_opcode[pkt.bth.opcode]++;
}

static void check_icrc(const char *file, const struct golden *g)
{
	enum roce_icrc_verdict unknown = g->ipv4 ? ROCE_ICRC_GOOD_FOR_SOME_ID : ROCE_ICRC_GOOD;
	uint32_t crc = roce_icrc(&g->path, g->ip_id, g->data, g->len - ROCE_ICRC_LEN);
	const uint8_t *tail = g->data + g->len - ROCE_ICRC_LEN;

	if (roce_icrc_check(&g->path, true, g->ip_id, g->data, g->len) != ROCE_ICRC_GOOD)
		fail_msg("%s: ICRC of packet %u", file, count.packets);
	assert_int_equal(crc, tail[0] | tail[1] << 8 | tail[2] << 16 | (uint32_t)tail[3] << 24);
	assert_int_equal(roce_icrc_check(&g->path, false, 0, g->data, g->len), unknown);
}

static bool is_bad(const struct golden *g, const uint8_t *data)
{
	return roce_icrc_check(&g->path, true, g->ip_id, data, g->len) == ROCE_ICRC_BAD;
}

/* Changes a byte of the packet, an address, a port or the identification. */
static void check_corruption(const char *file, const struct golden *g)
{
	uint8_t copy[ROCE_MAX_PACKET];
	struct golden other = *g;

	memcpy(copy, g->data, g->len);
	for (size_t i = 0; i < g->len; i++) {
		uint8_t flip = 1 + (i * 131 + count.packets) % 255;

		if (i == BTH_VARIANT_BYTE)
			continue;
		copy[i] ^= flip;
		if (!is_bad(g, copy))
			fail_msg("%s: packet %u, byte %zu: change not seen", file, count.packets,
				 i);
		copy[i] ^= flip;
		count.corrupted++;
	}
	other.path.src.raw[15] ^= 1;
	assert_true(is_bad(&other, g->data));
	other = *g;
	other.path.src_port ^= 0x100;
	assert_true(is_bad(&other, g->data));
	other = *g;
	other.ip_id ^= 0x8000;
	assert_int_equal(is_bad(&other, g->data), g->ipv4);
}

static void check_file(const char *path)
{
	char why[PCAP_ERRBUF_SIZE];
	pcap_t *pcap = pcap_open_offline(path, why);
	struct pcap_pkthdr *info;
	const uint8_t *frame;
	struct golden g;

	if (!pcap)
		fail_msg("%s", why);
	if (pcap_datalink(pcap) != DLT_EN10MB)
		fail_msg("%s: link type %s", path, pcap_datalink_val_to_name(pcap_datalink(pcap)));
	while (pcap_next_ex(pcap, &info, &frame) == 1) {
		count.frames++;
		if (!parse_frame(&g, frame, info->caplen))
			continue;
		check_packet(path, &g);
		check_icrc(path, &g);
		check_corruption(path, &g);
		count.packets++;
		*(g.ipv4 ? &count.ipv4 : &count.ipv6) += 1;
	}
	pcap_close(pcap);
	count.files++;
}

static void check_folder(const char *folder)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;

	assert_non_null(dir);
	while ((entry = readdir(dir)) != NULL) {
		const char *dot = strrchr(entry->d_name, '.');
		char path[4096];

		if (!dot || strcmp(dot, ".pcap") != 0)
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		check_file(path);
	}
	closedir(dir);
}

static void captures_of_soft_roce(void **state)
{
	for (char **folder = folders; *folder; folder++)
		check_folder(*folder);
	printf("%u files, %u frames, %u packets (%u IPv4, %u IPv6), %lu corruptions caught\n",
	       count.files, count.frames, count.packets, count.ipv4, count.ipv6, count.corrupted);
	for (unsigned code = 0; code < 256; code++)
		if (count.per_opcode[code])
			printf("%6u %s\n", count.per_opcode[code],
			       roce_opcode_info((uint8_t)code)->name);
	assert_true(count.files > 0 && count.ipv4 > 0 && count.ipv6 > 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(captures_of_soft_roce),
	};

	folders = argv + 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
