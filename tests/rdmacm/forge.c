/* SPDX-License-Identifier: BSD-2-Clause */
/* Forged MADs. */
#include "forge.h"

#include <arpa/inet.h>
#include <endian.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../unit/place.h"
#include "check.h"
#include "roce/icrc.h"
#include "roce/opcode.h"
#include "roce/pkt.h"

enum { PACKET = ROCE_MAX_HDR + CM_MAD_LEN + 4 };

static int sockets[FORGE_SOURCES];
static struct net_addr sources[FORGE_SOURCES];
static uint16_t source_ports[FORGE_SOURCES];
static uint16_t udp_port;

static struct net_addr gid_of(uint32_t ip)
{
	struct net_addr a = { { [10] = 0xff, [11] = 0xff } };
	uint32_t be = htonl(ip);

	memcpy(a.raw + 12, &be, 4);
	return a;
}

/* The addresses 127.9.x.y are used by the attacker only. */
void forge_open(uint16_t port)
{
	udp_port = port;
	for (int i = 0; i < FORGE_SOURCES; i++) {
		uint32_t ip = 0x7f090000u + (uint32_t)i * 257 + 1;
		struct sockaddr_in sa = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(ip) };
		int whole = IP_PMTUDISC_PROBE;
		socklen_t size = sizeof(sa);

		sockets[i] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		CHECK_EQ(bind(sockets[i], (struct sockaddr *)&sa, sizeof(sa)), 0);
		CHECK_EQ(getsockname(sockets[i], (struct sockaddr *)&sa, &size), 0);
		CHECK_EQ(setsockopt(sockets[i], IPPROTO_IP, IP_MTU_DISCOVER, &whole, sizeof(whole)),
			 0);
		sources[i] = gid_of(ip);
		source_ports[i] = ntohs(sa.sin_port);
	}
}

/* Builds a packet from one of the forger's addresses to 127.0.0.1; returns its length. */
static uint32_t make_packet(uint8_t packet[PACKET], int from, const struct cm_msg *m)
{
	struct net_path path = { .src = sources[from],
				 .dst = gid_of(INADDR_LOOPBACK),
				 .src_port = source_ports[from],
				 .dst_port = udp_port };
	struct roce_pkt pkt = {
		.bth = { .opcode = ROCE_UD_SEND_ONLY, .pkey = 0xffff, .dest_qpn = 1 },
		.deth = { .qkey = 0x80010000, .src_qpn = 1 },
	};
	uint32_t icrc, n = (uint32_t)roce_encode_headers(packet, &pkt);

	cm_encode(packet + n, m);
	n += CM_MAD_LEN;
	icrc = htole32(roce_icrc(&path, 0, packet, n));
	memcpy(packet + n, &icrc, sizeof(icrc));
	return n + (uint32_t)sizeof(icrc);
}

static struct sockaddr_in target(void)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_port = htons(udp_port),
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

void forge_send(int from, const struct cm_msg *m)
{
	struct sockaddr_in to = target();
	uint8_t packet[PACKET];
	uint32_t n = make_packet(packet, from, m);

	/* a packet dropped because of a full buffer is not resent */
	if (sendto(sockets[from], packet, n, 0, (struct sockaddr *)&to, sizeof(to)) < 0)
		return;
}

struct cm_msg forge_request(int from, uint64_t service, uint64_t *seed)
{
	struct cm_msg m = { .type = CM_REQ, .tid = place_next(seed) };
	struct cm_ip_header ip = { .ip_version = 4,
				   .src_port = 1,
				   .src = sources[from],
				   .dst = gid_of(INADDR_LOOPBACK) };

	m.req = (struct cm_req){
		.local_id = (uint32_t)place_next(seed) | 1,
		.service_id = service,
		.ca_guid = place_next(seed),
		.qpn = (uint32_t)place_next(seed) & 0xffffff,
		.remote_response_timeout = 20,
		.local_response_timeout = 20,
		.max_cm_retries = 15,
		.transport = CM_RC,
		.pkey = 0xffff,
		.mtu = 3,
		.primary = { .local_gid = sources[from],
			     .remote_gid = gid_of(INADDR_LOOPBACK),
			     .hop_limit = 64,
			     .ack_timeout = 17 },
	};
	cm_ip_header_encode(m.req.private_data, &ip);
	return m;
}

unsigned int forge_burst(int from, uint64_t service, uint64_t *seed)
{
	static uint8_t packets[FORGE_BURST][PACKET];
	struct sockaddr_in to = target();
	struct mmsghdr mm[FORGE_BURST];
	struct iovec iov[FORGE_BURST];
	int n;

	for (int i = 0; i < FORGE_BURST; i++) {
		struct cm_msg m = forge_request(from, service, seed);

		iov[i] = (struct iovec){ packets[i], make_packet(packets[i], from, &m) };
		mm[i].msg_hdr = (struct msghdr){ .msg_name = &to, .msg_namelen = sizeof(to),
						 .msg_iov = &iov[i], .msg_iovlen = 1 };
	}
	n = sendmmsg(sockets[from], mm, FORGE_BURST, 0);
	return n < 0 ? 0 : (unsigned int)n;
}
