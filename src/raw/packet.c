/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames by AF_PACKET: sockets that receive (packet_recv.c) and one that sends (packet_send.c).
 * This file opens them and installs their filters.
 *
 * Receiving begins with a plain socket, the early one, which delivers a frame at once. For a stream
 * of frames a mapped ring (TPACKET_V3) takes over: it costs a fraction per frame, but delivers a
 * block only when it is full or a millisecond old. (TPACKET_V2 delivers each frame, but its slots
 * of equal size take four times the cache, which costs a fifth of the rate with 64-byte frames.)
 * Both are in one fanout group, whose program selects the socket for a packet and can be replaced
 * atomically, so that no packet is lost or received twice.
 *
 * Because the sender has its own socket, the receiver sees what it sends, as with a NIC's loopback:
 * on the loopback interface as incoming frames, elsewhere as outgoing ones, of which the filter
 * passes those for this interface or for a group.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_arp.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "raw/state.h"
#include "util/atomic.h"
#include "util/be.h"
#include "util/compiler.h"

#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif
#ifndef PACKET_FANOUT_FLAG_IGNORE_OUTGOING
#define PACKET_FANOUT_FLAG_IGNORE_OUTGOING 0x4000
#endif

enum {
	BLOCKS = 128,
	BLOCKS_MIN = 4,
	BLOCK_AGE_MS = 1,
	FRAME_MIN = 2048,	/* unused by TPACKET_V3, but required */
	SEND_BUFFER = 4 << 20,
	EARLY_BUFFER = 16 << 20,
	PROLOGUE = 9,
	TAKE_ALL = 0x7fffffff,
};

/* Reading the kernel's counters resets them. */
static void packet_count(struct raw_port *port)
{
	for (unsigned int i = 0; i < RAW_FDS; i++) {
		struct tpacket_stats_v3 st;
		socklen_t len = sizeof(st);

		if (port->fd[i] >= 0 &&
		    getsockopt(port->fd[i], SOL_PACKET, PACKET_STATISTICS, &st, &len) == 0)
			fetch_add_relaxed(&port->stats.lost, st.tp_drops);
	}
}

/* Filtering */

/* Passes outgoing frames only if a NIC would loop them back. Returns the number of instructions. */
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
	struct sock_filter *whole;
	struct sock_fprog prog;
	unsigned int n;
	int err = 0;

	if (!program || !len) {
		program = program ? &none : &all;
		len = 1;
	}
	if (len > BPF_MAXINSNS - PROLOGUE)
		return EINVAL;
	whole = malloc((PROLOGUE + len) * sizeof(*whole));
	if (!whole)
		return ENOMEM;
	n = scope == RAW_SNIFF ? 0 : prologue(p, whole);
	memcpy(whole + n, program, len * sizeof(*program));
	prog = (struct sock_fprog){ .filter = whole, .len = n + len };
	for (unsigned int i = 0; i < RAW_FDS && !err; i++)
		if (p->port.fd[i] >= 0 && setsockopt(p->port.fd[i], SOL_SOCKET, SO_ATTACH_FILTER,
						     &prog, sizeof(prog)))
			err = errno;
	free(whole);
	return err;
}

static int membership(const struct packet_port *p, int option, int type)
{
	struct packet_mreq m = { .mr_ifindex = p->ifindex, .mr_type = type };

	return setsockopt(p->port.fd[PACKET_RING], SOL_PACKET, option, &m, sizeof(m)) ? errno : 0;
}

/* The packet membership for a scope; 0: none. */
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
	struct packet_port *p = container_of(port, struct packet_port, port);
	int ret = change_scope(p, scope);

	return ret ? ret : attach(p, program, len, scope);
}

/* Opening */

static void packet_close(struct raw_port *port, bool ours)
{
	struct packet_port *p = container_of(port, struct packet_port, port);

	if (p->ring)
		munmap(p->ring, p->ring_len);
	for (unsigned int i = 0; i < RAW_FDS; i++)
		if (port->fd[i] >= 0)
			close(port->fd[i]);
	if (p->send_fd >= 0)
		close(p->send_fd);
	free(p->early);
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
	/* With protocol 0 it receives nothing until it is bound to a protocol. */
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
	struct tpacket_req3 req = { .tp_block_size = PACKET_BLOCK,
				    .tp_frame_size = FRAME_MIN,
				    .tp_retire_blk_tov = BLOCK_AGE_MS };
	int err = ENOMEM;

	for (p->blocks = BLOCKS; p->blocks >= BLOCKS_MIN && err == ENOMEM; p->blocks /= 2) {
		req.tp_block_nr = p->blocks;
		req.tp_frame_nr = p->blocks * (PACKET_BLOCK / FRAME_MIN);
		err = 0;
		if (setsockopt(p->port.fd[PACKET_RING], SOL_PACKET, PACKET_RX_RING, &req,
			       sizeof(req)))
			err = errno;
		if (!err)
			break;
	}
	if (err)
		return err;
	p->ring_len = (size_t)p->blocks * PACKET_BLOCK;
	p->ring = mmap(NULL, p->ring_len, PROT_READ | PROT_WRITE, MAP_SHARED,
		       p->port.fd[PACKET_RING], 0);
	if (p->ring == MAP_FAILED) {
		p->ring = NULL;
		return errno;
	}
	return 0;
}

/* The socket with the ring. */
static int open_ring(struct packet_port *p)
{
	static const struct sock_filter nothing;
	int fd = packet_socket(), err;

	p->port.fd[PACKET_RING] = fd;
	if (fd < 0)
		return -fd;
	err = set(fd, PACKET_VERSION, TPACKET_V3);
	if (!err)
		err = set(fd, PACKET_VNET_HDR, 1);
	if (!err)
		err = make_ring(p);
	if (!err && p->loopback)
		set(fd, PACKET_IGNORE_OUTGOING, 1);
	if (!err)
		err = attach(p, &nothing, 0, RAW_OWN);
	return err ? err : bind_to(fd, p->ifindex, ETH_P_ALL);
}

/* The first member of the group has number 0 in its program. */
static int join_group(const struct packet_port *p, int fd, uint16_t id, uint32_t flags)
{
	flags |= PACKET_FANOUT_CBPF | (p->loopback ? PACKET_FANOUT_FLAG_IGNORE_OUTGOING : 0);
	return set(fd, PACKET_FANOUT, (int)(id | flags << 16));
}

/*
 * Joins the early socket and the ring in a group. The early socket must hold all frames until the
 * ring takes over, which needs a larger buffer than usual.
 */
static int open_early(struct packet_port *p)
{
	static const struct sock_filter nothing;
	int fd = packet_socket(), err, id = 0, size = EARLY_BUFFER;
	socklen_t len = sizeof(id);

	p->port.fd[PACKET_EARLY] = fd;
	p->early = malloc(sizeof(*p->early));
	if (fd < 0 || !p->early)
		return ENOMEM;
	err = set(fd, PACKET_VNET_HDR, 1);
	if (!err)
		err = set(fd, PACKET_AUXDATA, 1);
	if (!err && (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) ||
		     setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &(int){ 1 }, sizeof(int))))
		err = errno;
	if (!err)
		err = attach(p, &nothing, 0, RAW_OWN);
	if (!err)
		err = bind_to(fd, p->ifindex, ETH_P_ALL);
	if (!err)
		err = join_group(p, fd, 0, PACKET_FANOUT_FLAG_UNIQUEID);
	if (!err && getsockopt(fd, SOL_PACKET, PACKET_FANOUT, &id, &len))
		err = errno;
	return err ? err : join_group(p, p->port.fd[PACKET_RING], (uint16_t)id, 0);
}

static int open_receiver(struct packet_port *p)
{
	int err = open_ring(p);

	if (err || open_early(p) == 0)
		return err;
	/* Without a group every frame arrives in the ring. */
	if (p->port.fd[PACKET_EARLY] >= 0)
		close(p->port.fd[PACKET_EARLY]);
	p->port.fd[PACKET_EARLY] = -1;
	p->streaming = true;
	return 0;
}

/* A tunnel's packets may have no Ethernet header, and rules and programs expect one. */
static int check_type(const struct packet_port *p)
{
	struct sockaddr_ll sll;
	socklen_t len = sizeof(sll);

	if (getsockname(p->send_fd, (struct sockaddr *)&sll, &len))
		return errno;
	if (sll.sll_hatype == ARPHRD_ETHER || sll.sll_hatype == ARPHRD_LOOPBACK)
		return 0;
	return EOPNOTSUPP;
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
	if (!err)
		err = bind_to(p->send_fd, p->ifindex, 0);
	return err ? err : check_type(p);
}

int raw_packet_open(const struct raw_interface *on, struct raw_port **out)
{
	struct packet_port *p = calloc(1, sizeof(*p));
	int err = ENOMEM;

	if (!p)
		return ENOMEM;
	p->port = (struct raw_port){ .ops = &packet_ops,
				    .fd = { -1, -1 },
				    .offloads = true };
	p->send_fd = -1;
	p->widest = 1;
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
