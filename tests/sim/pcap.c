/* SPDX-License-Identifier: BSD-2-Clause */
/* See pcap.h. Implements the subset of the pcap format that the captures use. */
#include "pcap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/be.h"

enum {
	FILE_HEADER = 24, RECORD_HEADER = 16, ETHERNET = 14, IPV4 = 20, IPV6 = 40, UDP = 8,
	TYPE_IPV4 = 0x0800, TYPE_IPV6 = 0x86dd, LINK_ETHERNET = 1,
};

static uint32_t get_le32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return le32toh(v);
}

static uint8_t *read_file(const char *path, size_t *len)
{
	FILE *f = fopen(path, "rb");
	uint8_t *data = NULL;

	if (!f)
		return NULL;
	fseek(f, 0, SEEK_END);
	*len = ftell(f);
	rewind(f);
	data = malloc(*len);
	if (fread(data, 1, *len, f) != *len) {
		free(data);
		data = NULL;
	}
	fclose(f);
	return data;
}

static void mapped_ipv4(struct net_addr *a, const uint8_t *ip)
{
	*a = (struct net_addr){ { [10] = 0xff, 0xff } };
	memcpy(a->raw + 12, ip, 4);
}

/* Length of the IP header, 0 if the packet cannot be RoCEv2. */
static size_t parse_ip(struct capture_packet *p, const uint8_t *ip, size_t len, uint16_t type)
{
	if (type == TYPE_IPV4 && len >= IPV4 + UDP && ip[0] == 0x45 && ip[9] == 17) {
		mapped_ipv4(&p->path.src, ip + 12);
		mapped_ipv4(&p->path.dst, ip + 16);
		p->path.traffic_class = ip[1];
		p->path.hop_limit = ip[8];
		p->ip_id = get_be16(ip + 4);
		return IPV4;
	}
	if (type == TYPE_IPV6 && len >= IPV6 + UDP && ip[6] == 17) {
		memcpy(p->path.src.raw, ip + 8, 16);
		memcpy(p->path.dst.raw, ip + 24, 16);
		p->path.traffic_class = get_be16(ip) >> 4;
		p->path.flow_label = get_be32(ip) & 0xfffff;
		p->path.hop_limit = ip[7];
		return IPV6;
	}
	return 0;
}

static bool parse_frame(struct capture_packet *p, const uint8_t *frame, size_t len)
{
	const uint8_t *udp;
	size_t ip;

	*p = (struct capture_packet){ 0 };
	if (len < ETHERNET)
		return false;
	ip = parse_ip(p, frame + ETHERNET, len - ETHERNET, get_be16(frame + 12));
	if (!ip)
		return false;
	udp = frame + ETHERNET + ip;
	p->path.src_port = get_be16(udp);
	p->path.dst_port = get_be16(udp + 2);
	p->data = udp + UDP;
	p->len = get_be16(udp + 4) - UDP;
	return p->path.dst_port == ROCE_UDP_PORT && p->len >= 16 &&
	       p->data + p->len <= frame + len;
}

/* Either resolution of time stamps: they are not read. */
static bool is_pcap(uint32_t magic)
{
	return magic == 0xa1b2c3d4 || magic == 0xa1b23c4d;
}

bool capture_load(struct capture *c, const char *path)
{
	size_t len, at = FILE_HEADER, record;

	*c = (struct capture){ .file = read_file(path, &len) };
	if (!c->file || len < FILE_HEADER || !is_pcap(get_le32(c->file)) ||
	    get_le32(c->file + 20) != LINK_ETHERNET) {
		capture_free(c);
		return false;
	}
	c->packet = calloc(len / RECORD_HEADER, sizeof(*c->packet));
	for (; at + RECORD_HEADER <= len; at += RECORD_HEADER + record) {
		record = get_le32(c->file + at + 8);
		if (record > len - at - RECORD_HEADER)
			break;
		c->n += parse_frame(&c->packet[c->n], c->file + at + RECORD_HEADER, record);
	}
	return true;
}

void capture_free(struct capture *c)
{
	free(c->packet);
	free(c->file);
	*c = (struct capture){ 0 };
}
