/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The references of packet capture: what a program gets from the kernel with nothing in between.
 *
 *	packet_ref receive INTERFACE PORT
 *		UDP packets of one destination port by TPACKET_V3, behind a socket filter.  Reads
 *		the number in each payload, and ends half a second after the last packet.  Prints:
 *		packets, lost.
 *	packet_ref send INTERFACE MAC SOURCE_IP DESTINATION_IP PORT PAYLOAD PACKETS
 *		Numbered packets as fast as sendmmsg() takes them.  Prints: seconds.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <net/if.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>

enum {
	BLOCK = 256 * 1024,
	BLOCKS = 128,
	BLOCK_AGE_MS = 1,
	BURST = 64,
	QUIET_MS = 500,
	HEADER = 42,
};

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void bind_to(int fd, const char *interface, uint16_t protocol)
{
	struct sockaddr_ll sll = { .sll_family = AF_PACKET,
				   .sll_protocol = htons(protocol),
				   .sll_ifindex = (int)if_nametoindex(interface) };

	if (bind(fd, (struct sockaddr *)&sll, sizeof(sll)))
		fail("bind");
}

static void set(int fd, int option, const void *value, socklen_t len, const char *what)
{
	if (setsockopt(fd, SOL_PACKET, option, value, len))
		fail(what);
}

/* ---- Receiving ---- */

static void filter_port(int fd, uint16_t port)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IP, 0, 6),
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 23),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 4),
		BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 14),
		BPF_STMT(BPF_LD | BPF_H | BPF_IND, 16),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, port, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, 0x40000),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)))
		fail("SO_ATTACH_FILTER");
}

struct seen {
	uint64_t packets, end;
};

static void look_at(struct seen *s, const struct tpacket3_hdr *h)
{
	uint64_t number;

	s->packets++;
	if (h->tp_snaplen < HEADER + sizeof(number))
		return;
	memcpy(&number, (const uint8_t *)h + h->tp_mac + HEADER, sizeof(number));
	number = be64toh(number);
	if (number >= s->end)
		s->end = number + 1;
}

static void look_through(struct seen *s, struct tpacket_block_desc *block)
{
	struct tpacket3_hdr *h = (void *)((uint8_t *)block + block->hdr.bh1.offset_to_first_pkt);

	for (uint32_t i = 0; i < block->hdr.bh1.num_pkts; i++) {
		look_at(s, h);
		h = (void *)((uint8_t *)h + h->tp_next_offset);
	}
}

static int receive(const char *interface, uint16_t port)
{
	int fd = socket(AF_PACKET, SOCK_RAW, 0), version = TPACKET_V3;
	struct tpacket_req3 req = {
		.tp_block_size = BLOCK,
		.tp_block_nr = BLOCKS,
		.tp_frame_size = 2048,
		.tp_frame_nr = BLOCKS * (BLOCK / 2048),
		.tp_retire_blk_tov = BLOCK_AGE_MS,
	};
	struct pollfd poller = { .fd = fd, .events = POLLIN };
	struct seen seen = { 0 };
	uint8_t *ring;

	if (fd < 0)
		fail("socket");
	set(fd, PACKET_VERSION, &version, sizeof(version), "PACKET_VERSION");
	set(fd, PACKET_RX_RING, &req, sizeof(req), "PACKET_RX_RING");
	ring = mmap(NULL, (size_t)BLOCK * BLOCKS, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (ring == MAP_FAILED)
		fail("mmap");
	filter_port(fd, port);
	bind_to(fd, interface, ETH_P_ALL);
	printf("capturing\n");
	fflush(stdout);
	for (unsigned int i = 0;;) {
		struct tpacket_block_desc *block = (void *)(ring + (size_t)i * BLOCK);

		if (!(__atomic_load_n(&block->hdr.bh1.block_status, __ATOMIC_ACQUIRE) &
		      TP_STATUS_USER)) {
			if (poll(&poller, 1, seen.packets ? QUIET_MS : -1) == 0)
				break;
			continue;
		}
		look_through(&seen, block);
		__atomic_store_n(&block->hdr.bh1.block_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
		i = (i + 1) % BLOCKS;
	}
	printf("received %llu packets, lost %llu\n", (unsigned long long)seen.packets,
	       (unsigned long long)(seen.end - seen.packets));
	return 0;
}

/* ---- Sending ---- */

struct packet {
	struct ethhdr eth;
	struct iphdr ip;
	struct udphdr udp;
	uint8_t payload[];
} __attribute__((packed));

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

static void fill(struct packet *p, char **argv, size_t payload)
{
	uint8_t *mac = p->eth.h_dest;
	uint32_t from = 0, to = 0;

	if (sscanf(argv[0], "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", mac, mac + 1, mac + 2, mac + 3,
		   mac + 4, mac + 5) != 6 ||
	    inet_pton(AF_INET, argv[1], &from) != 1 || inet_pton(AF_INET, argv[2], &to) != 1)
		fail("addresses");
	p->eth.h_source[0] = 2;
	p->eth.h_proto = htons(ETH_P_IP);
	p->ip.version = 4;
	p->ip.ihl = 5;
	p->ip.tot_len = htons((uint16_t)(sizeof(p->ip) + sizeof(p->udp) + payload));
	p->ip.ttl = 64;
	p->ip.protocol = IPPROTO_UDP;
	p->ip.saddr = from;
	p->ip.daddr = to;
	p->ip.check = checksum((uint8_t *)p + sizeof(p->eth), sizeof(p->ip));
	p->udp.source = htons(4000);
	p->udp.dest = htons((uint16_t)atoi(argv[3]));
	p->udp.len = htons((uint16_t)(sizeof(p->udp) + payload));
}

static int send_all(const char *interface, char **argv)
{
	int fd = socket(AF_PACKET, SOCK_RAW, 0), one = 1;
	size_t payload = strtoull(argv[4], NULL, 0), len = HEADER + payload;
	uint64_t count = strtoull(argv[5], NULL, 0), sent = 0;
	struct mmsghdr messages[BURST] = { 0 };
	struct iovec iovs[BURST];
	double began;

	if (fd < 0)
		fail("socket");
	set(fd, PACKET_QDISC_BYPASS, &one, sizeof(one), "PACKET_QDISC_BYPASS");
	bind_to(fd, interface, 0);
	for (int i = 0; i < BURST; i++) {
		iovs[i] = (struct iovec){ calloc(1, len), len };
		if (!iovs[i].iov_base)
			fail("calloc");
		fill(iovs[i].iov_base, argv, payload);
		messages[i].msg_hdr.msg_iov = &iovs[i];
		messages[i].msg_hdr.msg_iovlen = 1;
	}
	began = seconds();
	while (sent < count) {
		unsigned int n = count - sent < BURST ? (unsigned int)(count - sent) : BURST;
		int done;

		for (unsigned int i = 0; i < n; i++) {
			uint64_t number = htobe64(sent + i);

			memcpy((uint8_t *)iovs[i].iov_base + HEADER, &number, sizeof(number));
		}
		done = sendmmsg(fd, messages, n, 0);
		if (done < 0 && errno != ENOBUFS && errno != EAGAIN)
			fail("sendmmsg");
		sent += done > 0 ? (uint64_t)done : 0;
	}
	printf("%.6f\n", seconds() - began);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 4 && strcmp(argv[1], "receive") == 0)
		return receive(argv[2], (uint16_t)atoi(argv[3]));
	if (argc == 9 && strcmp(argv[1], "send") == 0)
		return send_all(argv[2], argv + 3);
	fprintf(stderr, "usage: packet_ref receive INTERFACE PORT | "
			"send INTERFACE MAC FROM TO PORT PAYLOAD PACKETS\n");
	return 2;
}
