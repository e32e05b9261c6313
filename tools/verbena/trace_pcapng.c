/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbena trace pcapng: packets, and messages between processes as the packets that they stand for,
 * in Ethernet frames. What was recorded whole has a correct ICRC; else the frame is cut off.
 * https://www.ietf.org/archive/id/draft-ietf-opsawg-pcapng-02.html
 */
#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "roce/icrc.h"
#include "roce/pkt.h"
#include "tool.h"
#include "trace.h"
#include "trace_tie.h"
#include "util/be.h"
#include "util/compiler.h"
#include "util/net.h"

enum {
	BLOCK_SECTION = 0x0a0d0d0a,
	BLOCK_INTERFACE = 1,
	BLOCK_PACKET = 6,
	OPTION_COMMENT = 1,
	OPTION_NAME = 2,
	OPTION_DESCRIPTION = 3,
	OPTION_FLAGS = 2,	/* of a packet */
	OPTION_TIME_UNIT = 9,
	ETHERNET = 14,
	IPV4 = 20,
	IPV6 = 40,
	UDP = 8,
	ANY_SRC_PORT = 49152,	/* of messages, which have none */
	ANY_HOPS = 64,
	HEADERS = ETHERNET + IPV6 + UDP,
	BLOCK_MAX = 64 * 1024,
};

/* An interface of the file: a device, or, if that is not known, a process. */
struct interface {
	const struct record_origin *host;
	uint64_t guid;
	char name[80];
};

/* A record, for the comments of packets: its wr_id, or number of its request. */
struct known {
	uint64_t wr_id;
	uint32_t request;
};

struct capture {
	struct trace *t;
	struct trace_ties ties;
	FILE *out;
	struct interface *interface;
	uint32_t interfaces;
	struct known *known;	/* by number of the record */
	uint32_t n, room;
	uint8_t block[BLOCK_MAX];
	uint32_t len;
	uint64_t packets;
};

static void *need(void *p)
{
	if (!p)
		exit(complain(EXIT_FAILED, "out of memory"));
	return p;
}

/* ---------------------------------------------------------------- blocks */

static void put(struct capture *c, const void *data, size_t len)
{
	size_t pad = -len & 3;

	if (c->len + len + pad > BLOCK_MAX)
		return;
	memcpy(c->block + c->len, data, len);
	memset(c->block + c->len + len, 0, pad);
	c->len += (uint32_t)(len + pad);
}

static void put32(struct capture *c, uint32_t v)
{
	v = htole32(v);
	put(c, &v, sizeof(v));
}

static void put_option(struct capture *c, uint16_t code, const void *data, size_t len)
{
	put32(c, code | (uint32_t)len << 16);
	put(c, data, len);
}

static void begin_block(struct capture *c, uint32_t type)
{
	c->len = 0;
	put32(c, type);
	put32(c, 0);
}

static void end_block(struct capture *c)
{
	uint32_t len = htole32(c->len + 4);

	memcpy(c->block + 4, &len, sizeof(len));
	put(c, &len, sizeof(len));
	fwrite(c->block, c->len, 1, c->out);
}

static void put_section(struct capture *c)
{
	begin_block(c, BLOCK_SECTION);
	put32(c, 0x1a2b3c4d);
	put32(c, 1);	/* version 1.0 */
	put32(c, UINT32_MAX);
	put32(c, UINT32_MAX);	/* length is not known */
	end_block(c);
}

static void put_interface(struct capture *c, const struct interface *i)
{
	const uint8_t nanoseconds = 9;
	char host[sizeof(i->host->host)];

	snprintf(host, sizeof(host), "%s", i->host->host);
	trace_make_printable(host);
	begin_block(c, BLOCK_INTERFACE);
	put32(c, 1);	/* Ethernet */
	put32(c, 0);	/* no limit on length */
	put_option(c, OPTION_NAME, i->name, strlen(i->name));
	put_option(c, OPTION_DESCRIPTION, host, strlen(host));
	put_option(c, OPTION_TIME_UNIT, &nanoseconds, sizeof(nanoseconds));
	put32(c, 0);
	end_block(c);
}

/* The number of a packet's interface, which is described before its first packet. */
static uint32_t interface_of(struct capture *c, const struct record *r)
{
	const struct trace_device *d = trace_device(&c->ties, r);
	struct interface new = { .host = &record_reader_file(c->t->reader, r->file)->origin };
	uint32_t i = 0;

	snprintf(new.name, sizeof(new.name), "%s",
		 d && d->name[0] ? d->name : c->t->label[r->file]);
	new.guid = d ? d->guid : 0;
	while (i < c->interfaces &&
	       (c->interface[i].guid != new.guid || strcmp(c->interface[i].name, new.name) != 0 ||
		strcmp(c->interface[i].host->host, new.host->host) != 0))
		i++;
	if (i < c->interfaces)
		return i;
	c->interface = need(realloc(c->interface, (i + 1) * sizeof(*c->interface)));
	c->interface[i] = new;
	c->interfaces++;
	put_interface(c, &new);
	return i;
}

/* ---------------------------------------------------------------- frames */

static uint16_t checksum(const uint8_t *p, size_t len)
{
	uint32_t sum = 0;

	for (size_t i = 0; i < len; i += 2)
		sum += (uint32_t)p[i] << 8 | p[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

/* As RoCE devices have it: an address that follows from the GID. */
static void put_mac(uint8_t mac[6], const struct net_addr *a)
{
	mac[0] = 0x02;
	mac[1] = 0;
	memcpy(mac + 2, a->raw + 12, 4);
}

/* Headers before the BTH of a packet of len bytes; returns their length. */
static size_t put_headers(uint8_t *f, const struct net_path *p, uint32_t len)
{
	bool v4 = net_is_ipv4(&p->dst);
	uint16_t udp = (uint16_t)min(len + UDP, UINT16_MAX - (uint32_t)IPV4);
	uint8_t *ip = f + ETHERNET, *u = ip + (v4 ? IPV4 : IPV6);

	memset(f, 0, HEADERS);
	put_mac(f, &p->dst);
	put_mac(f + 6, &p->src);
	put_be16(f + 12, v4 ? 0x0800 : 0x86dd);
	if (v4) {
		ip[0] = 0x45;
		ip[1] = p->traffic_class;
		put_be16(ip + 2, (uint16_t)(udp + IPV4));
		put_be16(ip + 6, 0x4000);	/* don't fragment */
		ip[8] = p->hop_limit;
		ip[9] = 17;
		memcpy(ip + 12, p->src.raw + 12, 4);
		memcpy(ip + 16, p->dst.raw + 12, 4);
		put_be16(ip + 10, checksum(ip, IPV4));
	} else {
		put_be32(ip, 6u << 28 | (uint32_t)p->traffic_class << 20);
		put_be16(ip + 4, udp);
		ip[6] = 17;
		ip[7] = p->hop_limit;
		memcpy(ip + 8, p->src.raw, 16);
		memcpy(ip + 24, p->dst.raw, 16);
	}
	put_be16(u, p->src_port);
	put_be16(u + 2, p->dst_port);
	put_be16(u + 4, udp);
	return (size_t)(u - f) + UDP;
}

static bool find_path(const struct capture *c, const struct record *r, struct net_path *out)
{
	const struct record_path *p = trace_path(&c->ties, r);

	if (!p)
		return false;
	*out = (struct net_path){
		.traffic_class = p->traffic_class,
		.hop_limit = p->hop_limit ? p->hop_limit : ANY_HOPS,
		.src_port = p->src_port ? p->src_port : ANY_SRC_PORT,
		.dst_port = ROCE_UDP_PORT,
	};
	memcpy(out->src.raw, p->src, 16);
	memcpy(out->dst.raw, p->dst, 16);
	return true;
}

/* A packet that came is part of the request of the one that left. */
static uint32_t request_of(const struct capture *c, const struct trace_tie *tie)
{
	if (tie->request != TRACE_NONE || tie->other == TRACE_NONE)
		return tie->request;
	return c->known[tie->other].request;
}

static void remember(struct capture *c, const struct record *r, const struct trace_tie *tie)
{
	struct known k = { .request = TRACE_NONE };

	if (c->n == c->room) {
		c->room = c->room ? 2 * c->room : 1024;
		c->known = need(realloc(c->known, c->room * sizeof(*c->known)));
	}
	if (r->type == RECORD_SEND)
		k.wr_id = ((const struct record_send *)r->body)->wr_id;
	else if (r->type == RECORD_PACKET)
		k.request = request_of(c, tie);
	c->known[c->n++] = k;
}

static void put_comment(struct capture *c, const struct record *r, uint32_t request)
{
	const struct record_packet *p = r->body;
	char text[160];
	int n = snprintf(text, sizeof(text), "%s QP 0x%x %s", c->t->label[r->file], p->qpn,
			 p->transport == RECORD_WIRE ? "wire" : "local");

	if (request != TRACE_NONE)
		snprintf(text + n, sizeof(text) - (size_t)n, " wr_id 0x%" PRIx64,
			 c->known[request].wr_id);
	put_option(c, OPTION_COMMENT, text, strlen(text));
}

/* What was kept, and, if that is all, pad and ICRC. */
static size_t put_payload(uint8_t *f, const struct record *r, const struct net_path *path)
{
	const struct record_packet *p = r->body;
	size_t kept = r->tail_len, pad = kept > 1 ? ((const uint8_t *)r->tail)[1] >> 4 & 3 : 0;
	uint32_t icrc;

	memcpy(f, r->tail, kept);
	if (kept + pad + ROCE_ICRC_LEN == p->length) {
		memset(f + kept, 0, pad);
		kept += pad;
	}
	if (kept + ROCE_ICRC_LEN != p->length)
		return kept;
	icrc = htole32(roce_icrc(path, 0, f, kept));
	memcpy(f + kept, &icrc, sizeof(icrc));
	return kept + sizeof(icrc);
}

static void put_packet(struct capture *c, const struct record *r, uint32_t request)
{
	static uint8_t frame[HEADERS + UINT16_MAX + 8];
	const struct record_packet *p = r->body;
	uint64_t time = trace_wall(c->t, r->time);
	uint32_t flags = htole32(p->way == RECORD_OUT ? 2 : 1), interface;
	struct net_path path;
	size_t headers, len;

	if (r->tail_len < 12 || r->tail_len > ROCE_MAX_PACKET || !find_path(c, r, &path))
		return;
	headers = put_headers(frame, &path, p->length);
	len = headers + put_payload(frame + headers, r, &path);
	interface = interface_of(c, r);
	begin_block(c, BLOCK_PACKET);
	put32(c, interface);
	put32(c, (uint32_t)(time >> 32));
	put32(c, (uint32_t)time);
	put32(c, (uint32_t)len);
	put32(c, (uint32_t)max(len, headers + min(p->length, UINT16_MAX - (uint32_t)HEADERS)));
	put(c, frame, len);
	put_option(c, OPTION_FLAGS, &flags, sizeof(flags));
	put_comment(c, r, request);
	put32(c, 0);
	end_block(c);
	c->packets++;
}

static int write_all(struct capture *c)
{
	struct record r;
	int status = 0;

	put_section(c);
	while (trace_next(c->t, &r, &status)) {
		struct trace_tie tie;

		trace_tie(&c->ties, &r, c->n, &tie);
		remember(c, &r, &tie);
		if (r.type == RECORD_PACKET)
			put_packet(c, &r, c->known[c->n - 1].request);
	}
	fprintf(stderr, "%" PRIu64 " packets\n", c->packets);
	return status;
}

static int convert(struct trace *t, FILE *out)
{
	struct capture *c = need(calloc(1, sizeof(*c)));
	int status;

	c->t = t;
	c->out = out;
	c->ties.clocks = t->clocks;
	status = write_all(c);
	trace_ties_free(&c->ties);
	free(c->interface);
	free(c->known);
	free(c);
	return status;
}

int trace_pcapng(int argc, char **argv)
{
	return trace_convert(argc, argv, convert);
}
