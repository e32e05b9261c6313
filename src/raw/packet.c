/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames by AF_PACKET: one socket with a mapped ring that receives, one that sends (packet_send.c).
 *
 * The ring is TPACKET_V3: frames lie packed in blocks, which the kernel hands over when they are full
 * or a millisecond old.  (Slots of equal size, TPACKET_V2, are there at once, but cost four times the
 * cache: with 64-byte frames a fifth of the rate.)  A block goes back when its last frame was copied.
 *
 *	| tpacket3_hdr | sockaddr_ll | ... virtio_net_hdr | frame |
 *
 * That the sender has a socket of its own makes what it sends visible to the receiver, as a NIC's
 * loopback does: on the loopback interface because it comes back by itself, elsewhere as outgoing
 * frames, of which the filter lets those pass that are for this interface or for a group.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "raw/cut.h"
#include "raw/state.h"
#include "run/log.h"
#include "util/atomic.h"
#include "util/be.h"
#include "util/compiler.h"
#include "util/inet.h"
#include "util/time.h"

#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif

enum {
	BLOCK = 256 * 1024,	/* a frame fits, whatever the kernel carries as one */
	BLOCKS = 128,
	BLOCKS_MIN = 4,
	BLOCK_AGE_MS = 1,
	FRAME_MIN = 2048,	/* of no meaning with TPACKET_V3, but asked for */
	SEND_BUFFER = 4 << 20,
	PROLOGUE = 9,
	TAKE_ALL = 0x7fffffff,
};

static struct packet_port *to_packet(struct raw_port *p)
{
	return container_of(p, struct packet_port, port);
}

/* Receiving */

static struct tpacket_block_desc *block_at(const struct packet_port *p)
{
	return (struct tpacket_block_desc *)(p->ring + (size_t)p->block * BLOCK);
}

/* Acquire: pairs with the kernel, which writes the block before it gives it away. */
static bool block_ready(const struct packet_port *p)
{
	return load_acquire(&block_at(p)->hdr.bh1.block_status) & TP_STATUS_USER;
}

static bool packet_ready(const struct raw_port *port)
{
	const struct packet_port *p = container_of(port, struct packet_port, port);

	return p->left || block_ready(p);
}

static bool open_block(struct packet_port *p)
{
	struct tpacket_block_desc *b = block_at(p);

	if (!block_ready(p))
		return false;
	p->left = b->hdr.bh1.num_pkts;
	p->next = b->hdr.bh1.offset_to_first_pkt;
	return true;
}

/* Release: what we read of it was read before the kernel writes it again. */
static void return_block(struct packet_port *p)
{
	store_release(&block_at(p)->hdr.bh1.block_status, TP_STATUS_KERNEL);
	p->block = (p->block + 1) % p->blocks;
}

/* The tag that the kernel took out goes back; there is room in front of the frame. */
static void put_tag(struct raw_frame *f, const struct tpacket3_hdr *h)
{
	uint8_t *at = f->data - RAW_TAG_LEN;
	uint16_t type = h->tp_status & TP_STATUS_VLAN_TPID_VALID ? h->hv1.tp_vlan_tpid :
								   ETH_P_8021Q;

	memmove(at, f->data, 2 * ETH_ALEN);
	put_be16(put_be16(at + 2 * ETH_ALEN, type), h->hv1.tp_vlan_tci);
	f->data = at;
	f->len += RAW_TAG_LEN;
}

static bool is_mine(const struct packet_port *p, const uint8_t *dst)
{
	return (dst[0] & 1) || memcmp(dst, p->mac, ETH_ALEN) == 0;
}

static void complete_sum(const struct raw_frame *f, const struct virtio_net_hdr *v)
{
	inet_complete_sum(f->data, v->csum_start, v->csum_offset, f->len);
}

static uint8_t gso_type(const struct virtio_net_hdr *v)
{
	return v->gso_type & ~VIRTIO_NET_HDR_GSO_ECN;
}

struct reading {
	struct packet_port *port;
	int64_t offset;		/* of the monotonic clock from the time of day */
	raw_frame_fn fn;
	void *arg;
};

/* How many frames a packet of the ring becomes, at most. */
static unsigned int frames_in(const struct tpacket3_hdr *h)
{
	struct virtio_net_hdr v;

	memcpy(&v, (const uint8_t *)h + h->tp_mac - sizeof(v), sizeof(v));
	return v.gso_size ? h->tp_snaplen / v.gso_size + 1 : 1;
}

/* Delivers one packet of the ring as one frame or several; returns how many. */
static unsigned int take_packet(const struct reading *r, struct tpacket3_hdr *h)
{
	const struct sockaddr_ll *from =
		(void *)((uint8_t *)h + TPACKET_ALIGN(sizeof(struct tpacket3_hdr)));
	struct raw_frame f = {
		.data = (uint8_t *)h + h->tp_mac,
		.len = h->tp_snaplen,
		.time = h->tp_sec * VRB_SECOND + h->tp_nsec + r->offset,
		.sum_ok = h->tp_status & (TP_STATUS_CSUM_VALID | TP_STATUS_CSUMNOTREADY),
	};
	struct virtio_net_hdr v;

	if (unlikely(h->tp_snaplen < h->tp_len || f.len < RAW_HEADER_LEN)) {
		r->port->port.stats.lost++;
		return 0;
	}
	memcpy(&v, f.data - sizeof(v), sizeof(v));
	f.outgoing = from->sll_pkttype == PACKET_OUTGOING && !is_mine(r->port, f.data);
	if ((v.flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) && !gso_type(&v))
		complete_sum(&f, &v);
	if (h->tp_status & TP_STATUS_VLAN_VALID)
		put_tag(&f, h);
	if (unlikely(gso_type(&v)))
		return raw_cut(&f, v.gso_size, r->port->cut, r->fn, r->arg);
	r->fn(r->arg, &f);
	return 1;
}

static int64_t clock_offset(uint64_t now)
{
	struct timespec wall;

	clock_gettime(CLOCK_REALTIME, &wall);
	return now - (wall.tv_sec * VRB_SECOND + wall.tv_nsec);
}

static unsigned int packet_recv(struct raw_port *port, unsigned int most, uint64_t now,
				raw_frame_fn fn, void *arg)
{
	struct packet_port *p = to_packet(port);
	struct reading r = { .port = p, .fn = fn, .arg = arg };
	unsigned int n = 0;

	if (!packet_ready(port))
		return 0;
	r.offset = clock_offset(now);
	while (n < most && (p->left || open_block(p))) {
		struct tpacket3_hdr *h = (void *)((uint8_t *)block_at(p) + p->next);

		if (p->left) {
			if (n && n + frames_in(h) > most)
				break;
			p->next += h->tp_next_offset;
			p->left--;
			n += take_packet(&r, h);
		}
		if (!p->left)
			return_block(p);
	}
	port->stats.received += n;
	return n;
}

/* The counters in the kernel start over when they are read. */
static void packet_count(struct raw_port *port)
{
	struct tpacket_stats_v3 st;
	socklen_t len = sizeof(st);

	if (getsockopt(port->fd, SOL_PACKET, PACKET_STATISTICS, &st, &len) == 0)
		fetch_add_relaxed(&port->stats.lost, st.tp_drops);
}

/* Filtering */

/* Outgoing frames only if they would come back. Returns the number of instructions. */
static unsigned int prologue(const struct packet_port *p, struct sock_filter *to)
{
	const struct sock_filter f[PROLOGUE] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_PKTTYPE)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_OUTGOING, 0, 7),
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 1, 5, 0),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, get_be32(p->mac), 0, 2),
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 4),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, get_be16(p->mac + 4), 1, 0),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};

	memcpy(to, f, sizeof(f));
	return PROLOGUE;
}

static int attach(struct packet_port *p, const struct sock_filter *program, unsigned int len,
		  enum raw_scope scope)
{
	static const struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, TAKE_ALL),
					none = BPF_STMT(BPF_RET | BPF_K, 0);
	struct sock_filter whole[BPF_MAXINSNS];
	unsigned int n = scope == RAW_SNIFF ? 0 : prologue(p, whole);
	struct sock_fprog prog = { .filter = whole };

	if (!program || !len) {
		program = program ? &none : &all;
		len = 1;
	}
	if (len > BPF_MAXINSNS - n)
		return EINVAL;
	memcpy(whole + n, program, len * sizeof(*program));
	prog.len = n + len;
	return setsockopt(p->port.fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)) ? errno : 0;
}

static int membership(const struct packet_port *p, int option, int type)
{
	struct packet_mreq m = { .mr_ifindex = p->ifindex, .mr_type = type };

	return setsockopt(p->port.fd, SOL_PACKET, option, &m, sizeof(m)) ? errno : 0;
}

/* The membership that a scope needs; 0: none. */
static int member_type(enum raw_scope scope)
{
	static const int type[] = { [RAW_GROUPS] = PACKET_MR_ALLMULTI,
				    [RAW_PROMISC] = PACKET_MR_PROMISC,
				    [RAW_SNIFF] = PACKET_MR_PROMISC };

	return type[scope];
}

static int change_scope(struct packet_port *p, enum raw_scope scope)
{
	int had = member_type(p->scope), wants = member_type(scope);
	int ret = 0;

	if (wants && wants != had)
		ret = membership(p, PACKET_ADD_MEMBERSHIP, wants);
	if (!ret && had && wants != had)
		membership(p, PACKET_DROP_MEMBERSHIP, had);
	if (!ret)
		p->scope = scope;
	return ret;
}

static int packet_filter(struct raw_port *port, const struct sock_filter *program,
			 unsigned int len, enum raw_scope scope)
{
	struct packet_port *p = to_packet(port);
	int ret = change_scope(p, scope);

	return ret ? ret : attach(p, program, len, scope);
}

/* Opening */

static void packet_close(struct raw_port *port, bool ours)
{
	struct packet_port *p = to_packet(port);

	if (p->ring)
		munmap(p->ring, p->ring_len);
	if (port->fd >= 0)
		close(port->fd);
	if (p->send_fd >= 0)
		close(p->send_fd);
	free(p->cut);
	free(p);
}

static const struct raw_ops packet_ops = {
	.ready = packet_ready,
	.recv = packet_recv,
	.send = packet_send,
	.filter = packet_filter,
	.count = packet_count,
	.close = packet_close,
};

static int set(int fd, int option, int value)
{
	return setsockopt(fd, SOL_PACKET, option, &value, sizeof(value)) ? errno : 0;
}

static int packet_socket(void)
{
	/* Protocol 0: hears nothing until it is bound to one. */
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	return fd < 0 ? -(errno == EACCES ? EPERM : errno) : fd;
}

static int bind_to(int fd, uint32_t ifindex, uint16_t protocol)
{
	struct sockaddr_ll sll = { .sll_family = AF_PACKET,
				   .sll_protocol = htons(protocol),
				   .sll_ifindex = ifindex };

	return bind(fd, (struct sockaddr *)&sll, sizeof(sll)) ? errno : 0;
}

/* As large as can be had. */
static int make_ring(struct packet_port *p)
{
	struct tpacket_req3 req = { .tp_block_size = BLOCK,
				    .tp_frame_size = FRAME_MIN,
				    .tp_retire_blk_tov = BLOCK_AGE_MS };
	int err = ENOMEM;

	for (p->blocks = BLOCKS; p->blocks >= BLOCKS_MIN && err == ENOMEM; p->blocks /= 2) {
		req.tp_block_nr = p->blocks;
		req.tp_frame_nr = p->blocks * (BLOCK / FRAME_MIN);
		err = 0;
		if (setsockopt(p->port.fd, SOL_PACKET, PACKET_RX_RING, &req, sizeof(req)))
			err = errno;
		if (!err)
			break;
	}
	if (err)
		return err;
	p->ring_len = (size_t)p->blocks * BLOCK;
	p->ring = mmap(NULL, p->ring_len, PROT_READ | PROT_WRITE, MAP_SHARED, p->port.fd, 0);
	if (p->ring == MAP_FAILED) {
		p->ring = NULL;
		return errno;
	}
	return 0;
}

static int open_receiver(struct packet_port *p)
{
	static const struct sock_filter nothing;
	int err;

	p->port.fd = packet_socket();
	if (p->port.fd < 0)
		return -p->port.fd;
	err = set(p->port.fd, PACKET_VERSION, TPACKET_V3);
	if (!err)
		err = set(p->port.fd, PACKET_VNET_HDR, 1);
	if (!err)
		err = make_ring(p);
	if (!err && p->loopback)
		set(p->port.fd, PACKET_IGNORE_OUTGOING, 1);
	if (!err)
		err = attach(p, &nothing, 0, RAW_OWN);
	return err ? err : bind_to(p->port.fd, p->ifindex, ETH_P_ALL);
}

static int open_sender(struct packet_port *p)
{
	int size = SEND_BUFFER;
	int err;

	p->send_fd = packet_socket();
	if (p->send_fd < 0)
		return -p->send_fd;
	if (setsockopt(p->send_fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)))
		setsockopt(p->send_fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	err = set(p->send_fd, PACKET_VNET_HDR, 1);
	return err ? err : bind_to(p->send_fd, p->ifindex, 0);
}

int raw_packet_open(const struct raw_interface *on, struct raw_port **out)
{
	struct packet_port *p = calloc(1, sizeof(*p));
	int err = ENOMEM;

	if (!p)
		return ENOMEM;
	p->port = (struct raw_port){ .ops = &packet_ops, .fd = -1, .offloads = true };
	p->send_fd = -1;
	p->ifindex = on->index;
	p->loopback = on->loopback;
	memcpy(p->mac, on->mac, sizeof(p->mac));
	p->cut = malloc(RAW_MAX_FRAME);
	if (p->cut)
		err = open_receiver(p);
	if (!err)
		err = open_sender(p);
	if (err) {
		packet_close(&p->port, true);
		return err;
	}
	*out = &p->port;
	return 0;
}
