/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Generates UDP packets as fast as the device takes them, for udp_capture.c: each payload begins
 * with the packet's number (64 bits, big endian).  Headers are written once and sent with ever new
 * payloads.
 *
 *	udp_generate [-d DEVICE] [-n PACKETS] [-s PAYLOAD] [-m DESTINATION_MAC] \
 *		     [-a DESTINATION_IP] PORT
 *
 * Addresses default to our own: packets to ourselves, which the loopback device delivers.  Built on
 * libverbena: verbena(3).
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <verbena/verbena.h>

enum {
	SLOTS = 512, /* packets in flight to the device */
	HEADER_ROW = 64,
	SOURCE_PORT = 4000,
	TIMEOUT_MS = 1000,
};

struct header {
	struct ether_header eth;
	struct iphdr ip;
	struct udphdr udp;
} __attribute__((packed));

struct generator {
	uint8_t *headers, *payloads;
	size_t payload;
	uint64_t wanted, posted, done, failed;
};

static void fail(void)
{
	fprintf(stderr, "udp_generate: %s\n", verbena_error());
	exit(1);
}

static void complain(const char *what)
{
	fprintf(stderr, "udp_generate: %s\n", what);
	exit(1);
}

/* The first IPv4 address of the device's port, and the MAC address of the interface behind it. */
static void find_self(struct verbena_context *ctx, struct header *h)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct ibv_gid_entry entry;
	struct ifreq request = { 0 };

	for (int i = 0; i < 256; i++) {
		if (ibv_query_gid_ex(ctx->context, ctx->port_num, i, &entry, 0) ||
		    memcmp(entry.gid.raw, mapped, sizeof(mapped)) != 0)
			continue;
		memcpy(&h->ip.saddr, entry.gid.raw + 12, 4);
		if (!if_indextoname(entry.ndev_ifindex, request.ifr_name) ||
		    ioctl(fd, SIOCGIFHWADDR, &request))
			complain("the device has no interface");
		memcpy(h->eth.ether_shost, request.ifr_hwaddr.sa_data, 6);
		close(fd);
		return;
	}
	complain("the device has no IPv4 address");
}

static uint16_t checksum(const void *header, size_t len)
{
	const uint8_t *bytes = header;
	uint32_t sum = 0;

	for (size_t i = 0; i < len; i += 2)
		sum += (uint32_t)(bytes[i] << 8 | bytes[i + 1]);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return htons((uint16_t)~sum);
}

static void finish_header(struct header *h, size_t payload, uint16_t port, bool offload)
{
	h->eth.ether_type = htons(ETHERTYPE_IP);
	h->ip.version = 4;
	h->ip.ihl = sizeof(h->ip) / 4;
	h->ip.tot_len = htons((uint16_t)(sizeof(h->ip) + sizeof(h->udp) + payload));
	h->ip.ttl = 64;
	h->ip.protocol = IPPROTO_UDP;
	h->udp.source = htons(SOURCE_PORT);
	h->udp.dest = htons(port);
	h->udp.len = htons((uint16_t)(sizeof(h->udp) + payload));
	/* Without offload the UDP checksum stays 0, which means none. */
	if (!offload)
		h->ip.check = checksum((uint8_t *)h + offsetof(struct header, ip), sizeof(h->ip));
}

static void number(struct generator *g, uint64_t slot)
{
	uint64_t n = htobe64(g->posted++);

	memcpy(g->payloads + slot * g->payload, &n, sizeof(n));
}

static int on_sent(struct ibv_wc *wcs, int num_wc, struct ibv_send_wr *wrs, void *arg)
{
	struct generator *g = arg;
	int again = 0;

	(void)wrs;
	for (int i = 0; i < num_wc; i++, g->done++) {
		g->failed += wcs[i].status != IBV_WC_SUCCESS;
		if (g->posted == g->wanted)
			continue;
		number(g, wcs[i].wr_id);
		again++;
	}
	return g->failed || g->done == g->wanted ? -1 : again;
}

/* What the command line says, beside the generator's own numbers. */
struct settings {
	const char *device, *mac, *address;
	uint16_t port;
};

static bool parse(struct generator *g, struct settings *set, int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "d:n:s:m:a:")) != -1) {
		switch (option) {
		case 'd': set->device = optarg; break;
		case 'n': g->wanted = strtoull(optarg, NULL, 0); break;
		case 's': g->payload = strtoull(optarg, NULL, 0); break;
		case 'm': set->mac = optarg; break;
		case 'a': set->address = optarg; break;
		default: return false;
		}
	}
	if (optind != argc - 1)
		return false;
	set->port = (uint16_t)atoi(argv[optind]);
	return g->payload >= sizeof(uint64_t) && g->payload <= 65507 && g->wanted;
}

static void make_header(struct header *h, struct verbena_context *ctx, const struct settings *set,
			size_t payload, bool offload)
{
	uint8_t *mac = h->eth.ether_dhost;
	in_addr_t to;

	find_self(ctx, h);
	h->ip.daddr = h->ip.saddr;
	memcpy(mac, h->eth.ether_shost, 6);
	if (set->address) {
		if (inet_pton(AF_INET, set->address, &to) != 1)
			complain("not an IPv4 address");
		h->ip.daddr = to;
	}
	if (set->mac && sscanf(set->mac, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &mac[0], &mac[1], &mac[2],
			       &mac[3], &mac[4], &mac[5]) != 6)
		complain("not a MAC address");
	finish_header(h, payload, set->port, offload);
}

/* Posts the first packets as one list; from then on the loop posts what has left. */
static void send_all(struct generator *g, struct verbena_context *ctx, const struct header *header,
		     unsigned int flags)
{
	struct verbena_buf bufs[] = {
		{ .addr = g->headers,
		  .row = HEADER_ROW,
		  .num_pkt = SLOTS,
		  .npad = HEADER_ROW - sizeof(*header) },
		{ .addr = g->payloads, .row = g->payload, .num_pkt = SLOTS },
	};
	uint32_t first = g->wanted < SLOTS ? (uint32_t)g->wanted : SLOTS;
	struct verbena_send_wrs sends;

	for (int i = 0; i < SLOTS; i++)
		memcpy(g->headers + i * HEADER_ROW, header, sizeof(*header));
	for (uint32_t i = 0; i < first; i++)
		number(g, i);
	if (verbena_create_send_wrs(ctx, bufs, 2, first, flags | VERBENA_POST, &sends) ||
	    verbena_repost_loop(on_sent, ctx, sends.wrs, first, TIMEOUT_MS, g) ||
	    verbena_destroy_send_wrs(&sends))
		fail();
}

int main(int argc, char **argv)
{
	struct generator g = { .wanted = 1000000, .payload = 64 };
	struct settings settings = { .device = "vrb0" };
	struct verbena_context_options options;
	struct verbena_context *ctx;
	struct header header = { 0 };
	bool offload;

	if (!parse(&g, &settings, argc, argv)) {
		fprintf(stderr, "usage: udp_generate [-d DEVICE] [-n PACKETS] [-s PAYLOAD] "
				"[-m DESTINATION_MAC] "
				"[-a DESTINATION_IP] PORT\n");
		return 2;
	}

	verbena_context_options_init(&options, sizeof(options));
	options.max_send_wr = SLOTS;
	options.max_send_sge = 2;
	ctx = verbena_create_context(settings.device, 1, &options);
	if (!ctx)
		fail();
	offload = verbena_hascapability(ctx, IBV_DEVICE_RAW_IP_CSUM);
	make_header(&header, ctx, &settings, g.payload, offload);

	g.headers = calloc(SLOTS, HEADER_ROW);
	g.payloads = calloc(SLOTS, g.payload);
	if (!g.headers || !g.payloads)
		complain(strerror(errno));
	send_all(&g, ctx, &header, offload ? VERBENA_OFFLOAD : 0);
	printf("sent %llu packets, failed %llu\n", (unsigned long long)(g.done - g.failed),
	       (unsigned long long)g.failed);

	if (verbena_destroy_context(ctx))
		fail();
	free(g.headers);
	free(g.payloads);
	return g.failed != 0;
}
