/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets of the early socket and of the ring become frames.
 *
 * In the ring each packet follows its metadata, and a block is returned after its last packet:
 *
 *	| tpacket3_hdr | sockaddr_ll | ... virtio_net_hdr | packet |
 *
 * The early socket has the same metadata in its address and control messages. Its packets are older
 * than those of the ring, so it is read first, until it is certainly empty.
 */
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "raw/cut.h"
#include "raw/state.h"
#include "util/atomic.h"
#include "util/be.h"
#include "util/compiler.h"
#include "util/inet.h"
#include "util/time.h"

enum {
	STREAM = 32,	/* packets that pile up make a stream, */
};

#define STREAM_WITHIN (5 * VRB_MSEC)	/* in this time */

#define EARLY_LINGER (20 * VRB_MSEC)

/* The kernel's metadata of a packet. */
struct packet {
	uint8_t *data;		/* with room for a tag in front */
	uint32_t len;
	uint32_t status;	/* TP_STATUS_* */
	uint16_t tag, tag_type;
	uint8_t type;		/* PACKET_* */
	uint64_t time;		/* of day */
	struct virtio_net_hdr net;
};

struct reading {
	struct packet_port *port;
	int64_t offset;		/* of the monotonic clock from the time of day */
	raw_frame_fn fn;
	void *arg;
};

/* Reinserts the tag that the kernel removed. */
static void put_tag(struct raw_frame *f, const struct packet *k)
{
	uint8_t *at = f->data - RAW_TAG_LEN;
	uint16_t type = k->status & TP_STATUS_VLAN_TPID_VALID ? k->tag_type : ETH_P_8021Q;

	memmove(at, f->data, 2 * ETH_ALEN);
	put_be16(put_be16(at + 2 * ETH_ALEN, type), k->tag);
	f->data = at;
	f->len += RAW_TAG_LEN;
}

static bool is_mine(const struct packet_port *p, const uint8_t *dst)
{
	return (dst[0] & 1) || memcmp(dst, p->mac, ETH_ALEN) == 0;
}

static uint8_t gso_type(const struct virtio_net_hdr *v)
{
	return v->gso_type & ~VIRTIO_NET_HDR_GSO_ECN;
}

/* Delivers a packet as one frame or several; returns how many. */
static unsigned int take_packet(const struct reading *r, const struct packet *k)
{
	const struct virtio_net_hdr *v = &k->net;
	struct raw_frame f = {
		.data = k->data,
		.len = k->len,
		.time = k->time + r->offset,
		.sum_ok = k->status & (TP_STATUS_CSUM_VALID | TP_STATUS_CSUMNOTREADY),
	};

	if (unlikely(f.len < RAW_HEADER_LEN))
		return 0;
	f.outgoing = k->type == PACKET_OUTGOING && !is_mine(r->port, f.data);
	if ((v->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) && !gso_type(v))
		inet_complete_sum(f.data, v->csum_start, v->csum_offset, f.len);
	if (k->status & TP_STATUS_VLAN_VALID)
		put_tag(&f, k);
	if (unlikely(gso_type(v)))
		return raw_cut(&f, v->gso_size, r->port->cut, r->fn, r->arg);
	r->fn(r->arg, &f);
	return 1;
}

static int64_t clock_offset(uint64_t now)
{
	struct timespec wall;

	clock_gettime(CLOCK_REALTIME, &wall);
	return now - (wall.tv_sec * VRB_SECOND + wall.tv_nsec);
}

/* ---------------------------------------------------------------- the early socket */

static void read_control(struct packet *k, struct msghdr *m)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		struct tpacket_auxdata aux;
		struct timespec t;

		if (c->cmsg_level == SOL_PACKET && c->cmsg_type == PACKET_AUXDATA) {
			memcpy(&aux, CMSG_DATA(c), sizeof(aux));
			k->status = aux.tp_status;
			k->tag = aux.tp_vlan_tci;
			k->tag_type = aux.tp_vlan_tpid;
		} else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPNS) {
			memcpy(&t, CMSG_DATA(c), sizeof(t));
			k->time = t.tv_sec * VRB_SECOND + t.tv_nsec;
		}
	}
}

static void deliver(const struct reading *r, const struct packet *k, unsigned int *frames)
{
	unsigned int n = take_packet(r, k);

	*frames += n;
	r->port->widest = max(r->port->widest, n);
}

/* Reads up to n packets, at most PACKET_BATCH; returns their number. */
static unsigned int read_batch(const struct reading *r, unsigned int n, unsigned int *frames,
			       uint64_t now)
{
	struct packet_port *p = r->port;
	struct virtio_net_hdr net[PACKET_BATCH];
	struct sockaddr_ll from[PACKET_BATCH];
	struct iovec piece[PACKET_BATCH][2];
	struct mmsghdr msg[PACKET_BATCH];
	int got;

	for (unsigned int i = 0; i < n; i++) {
		piece[i][0] = (struct iovec){ &net[i], sizeof(net[i]) };
		piece[i][1] = (struct iovec){ p->early->data[i] + PACKET_HEADROOM, RAW_MAX_FRAME };
		msg[i].msg_hdr = (struct msghdr){ .msg_name = &from[i],
						  .msg_namelen = sizeof(from[i]),
						  .msg_iov = piece[i],
						  .msg_iovlen = 2,
						  .msg_control = p->early->control[i],
						  .msg_controllen = sizeof(p->early->control[i]) };
	}
	p->widest = 1;
	got = recvmmsg(p->port.fd[PACKET_EARLY], msg, n, MSG_DONTWAIT, NULL);
	for (int i = 0; i < got; i++) {
		struct packet k = { .data = p->early->data[i] + PACKET_HEADROOM,
				    .len = msg[i].msg_len - sizeof(net[i]),
				    .type = from[i].sll_pkttype,
				    .time = now - r->offset,
				    .net = net[i] };

		read_control(&k, &msg[i].msg_hdr);
		if (unlikely(msg[i].msg_len < sizeof(net[i]) ||
			     (msg[i].msg_hdr.msg_flags & MSG_TRUNC)))
			p->port.stats.lost++;
		else
			deliver(r, &k, frames);
	}
	return got > 0 ? got : 0;
}

/* From now on packets go to the ring. */
static void begin_stream(struct packet_port *p, uint64_t now)
{
	static struct sock_filter ring = BPF_STMT(BPF_RET | BPF_K, PACKET_RING);
	const struct sock_fprog program = { 1, &ring };
	int fd = p->port.fd[PACKET_EARLY];

	if (setsockopt(fd, SOL_PACKET, PACKET_FANOUT_DATA, &program, sizeof(program)))
		return;
	setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &(int){ 0 }, sizeof(int));
	p->streaming = true;
	p->early_until = time_after(now, EARLY_LINGER);
}

static bool may_have_early(const struct packet_port *p)
{
	return !p->streaming || p->early_until;
}

/* Counts packets read while the socket was not empty. */
static bool is_stream(struct packet_port *p, unsigned int got, uint64_t now)
{
	if (time_since(p->backlog_since, now) > STREAM_WITHIN) {
		p->backlog_since = now;
		p->backlog = 0;
	}
	p->backlog += got;
	return p->backlog >= STREAM;
}

static unsigned int recv_early(const struct reading *r, unsigned int most, uint64_t now)
{
	struct packet_port *p = r->port;
	unsigned int frames = 0, n, got;

	do {
		n = min((most - frames) / p->widest, (unsigned int)PACKET_BATCH);
		n = max(n, 1u);
		got = read_batch(r, n, &frames, now);
		if (is_stream(p, got, now) && !p->streaming)
			begin_stream(p, now);
	} while (got == n && frames < most);
	if (got < n)
		p->backlog = 0;
	if (got < n && p->streaming && now >= p->early_until)
		p->early_until = 0;
	return frames;
}

/* ---------------------------------------------------------------- the ring */

static struct tpacket_block_desc *block_at(const struct packet_port *p)
{
	return (struct tpacket_block_desc *)(p->ring + (size_t)p->block * PACKET_BLOCK);
}

/* Acquire: pairs with the kernel, which writes the block before it gives it away. */
static bool block_ready(const struct packet_port *p)
{
	return load_acquire(&block_at(p)->hdr.bh1.block_status) & TP_STATUS_USER;
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

static struct packet packet_at(struct tpacket3_hdr *h)
{
	const struct sockaddr_ll *from =
		(void *)((uint8_t *)h + TPACKET_ALIGN(sizeof(struct tpacket3_hdr)));
	struct packet k = {
		.data = (uint8_t *)h + h->tp_mac,
		.len = h->tp_snaplen,
		.status = h->tp_status,
		.tag = h->hv1.tp_vlan_tci,
		.tag_type = h->hv1.tp_vlan_tpid,
		.type = from->sll_pkttype,
		.time = h->tp_sec * VRB_SECOND + h->tp_nsec,
	};

	memcpy(&k.net, k.data - sizeof(k.net), sizeof(k.net));
	return k;
}

/* The maximum number of frames that a packet becomes. */
static unsigned int frames_in(const struct packet *k)
{
	return k->net.gso_size ? k->len / k->net.gso_size + 1 : 1;
}

static unsigned int recv_ring(const struct reading *r, unsigned int most)
{
	struct packet_port *p = r->port;
	unsigned int n = 0;

	while (n < most && (p->left || open_block(p))) {
		struct tpacket3_hdr *h = (void *)((uint8_t *)block_at(p) + p->next);

		if (p->left) {
			struct packet k = packet_at(h);

			if (n && n + frames_in(&k) > most)
				break;
			p->next += h->tp_next_offset;
			p->left--;
			if (likely(h->tp_snaplen == h->tp_len))
				n += take_packet(r, &k);
			else
				p->port.stats.lost++;
		}
		if (!p->left)
			return_block(p);
	}
	return n;
}

/* ---------------------------------------------------------------- both */

bool packet_ready(const struct raw_port *port)
{
	const struct packet_port *p = container_of(port, struct packet_port, port);

	return p->left || block_ready(p) || may_have_early(p);
}

unsigned int packet_recv(struct raw_port *port, unsigned int most, uint64_t now, raw_frame_fn fn,
			 void *arg)
{
	struct packet_port *p = container_of(port, struct packet_port, port);
	struct reading r = { .port = p, .fn = fn, .arg = arg };
	/* Read the early socket first: its packets are older. */
	bool ring = p->left || block_ready(p);
	unsigned int n = 0;

	if (!ring && !may_have_early(p))
		return 0;
	r.offset = clock_offset(now);
	if (may_have_early(p))
		n = recv_early(&r, most, now);
	if (ring && n < most)
		n += recv_ring(&r, most - n);
	port->stats.received += n;
	return n;
}
