/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The inbox: an AF_UNIX datagram socket per slot, bound in the run directory, so that it works
 * across network namespaces and is closed with its process. The directory's mode keeps other users
 * from sending.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host/inbox.h"
#include "host/state.h"
#include "host/steer.h"
#include "run/log.h"
#include "util/atomic.h"
#include "util/cancel.h"
#include "util/compiler.h"
#include "util/sleep.h"
#include "util/tuning.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

enum { INBOX_BUFFER = 4 << 20 };

int host_socket_address(const struct host *h, int slot, const char *suffix, struct sockaddr_un *sun)
{
	char name[32];
	int n;

	host_file_name(slot, suffix, name);
	*sun = (struct sockaddr_un){ .sun_family = AF_UNIX };
	n = snprintf(sun->sun_path, sizeof(sun->sun_path), "%s/%s", h->sock_prefix, name);
	return n >= (int)sizeof(sun->sun_path) ? ENAMETOOLONG : 0;
}

static int inbox_address(const struct host *h, int slot, struct sockaddr_un *sun)
{
	return host_socket_address(h, slot, "sock", sun);
}

/* If the directory's name is too long, uses its descriptor. */
static void choose_prefix(struct host *h)
{
	if (strlen(h->dir.path) + sizeof("/s0000.sock") <= sizeof(h->sock_prefix))
		memcpy(h->sock_prefix, h->dir.path, strlen(h->dir.path) + 1);
	else
		snprintf(h->sock_prefix, sizeof(h->sock_prefix), "/proc/self/fd/%d", h->dir.fd);
}

int inbox_open(struct host *h)
{
	int size = INBOX_BUFFER;
	struct sockaddr_un sun;
	char name[32];
	int err;

	choose_prefix(h);
	err = inbox_address(h, h->slot, &sun);
	if (err)
		return err;
	h->inbox = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (h->inbox < 0)
		return errno;
	host_file_name(h->slot, "sock", name);
	unlinkat(h->dir.fd, name, 0);
	if (bind(h->inbox, (struct sockaddr *)&sun, sizeof(sun)) < 0)
		return errno;
	/* The socket also sends, and unread messages count against the sender's buffer. */
	setsockopt(h->inbox, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	return 0;
}

uint64_t inbox_netns(const struct host *h)
{
	uint64_t cookie = 0;
	socklen_t len = sizeof(cookie);

	if (h->inbox < 0 || getsockopt(h->inbox, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &len) < 0)
		return 0;
	return cookie;
}

int host_inbox_fd(const struct host *h)
{
	return h->inbox;
}

/* Records whether a slot's inbox was full; returns the previous value. */
static bool mark_deaf(struct host *h, int slot, bool deaf)
{
	uint8_t bit = (uint8_t)(1 << slot % 8);
	uint8_t *p = &h->deaf[slot / 8];

	if (deaf)
		return fetch_or_acq_rel(p, bit) & bit;
	if (load_relaxed(p) & bit)
		fetch_and_acq_rel(p, (uint8_t)~bit);
	return false;
}

/* A message head and its payload. */
struct outgoing {
	struct msg_head head;
	struct iovec iov[1 + HOST_XRC_PARTS];
	unsigned int n;
};

static void outgoing_init(struct outgoing *l, uint16_t kind)
{
	l->head = (struct msg_head){ .magic = MSG_MAGIC, .kind = kind };
	l->iov[0] = (struct iovec){ &l->head, sizeof(l->head) };
	l->n = 1;
}

static void outgoing_add(struct outgoing *l, const void *data, size_t len)
{
	l->iov[l->n++] = (struct iovec){ (void *)data, len };
	l->head.len += (uint16_t)len;
}

/* Returns 0, EAGAIN if the inbox is full, ENOENT if there is no such process. */
static int send_once(struct host *h, int slot, struct outgoing *l)
{
	struct sockaddr_un sun;
	struct msghdr mh = {
		.msg_name = &sun, .msg_namelen = sizeof(sun), .msg_iov = l->iov, .msg_iovlen = l->n,
	};
	ssize_t sent;

	if (inbox_address(h, slot, &sun))
		return ENOENT;
	sent = sys_sendmsg(h->inbox, &mh, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sent >= 0)
		return 0;
	return sent == -EAGAIN || sent == -ENOBUFS || sent == -ENOMEM || sent == -EINTR ? EAGAIN :
	       ENOENT;
}

/* Waits briefly if the inbox is full, but only once until it has had room again. */
static int send_with_retries(struct host *h, int slot, struct outgoing *l, unsigned int tries)
{
	int err = send_once(h, slot, l);

	if (err == EAGAIN && !mark_deaf(h, slot, true))
		for (; tries && err == EAGAIN; tries--) {
			sleep_whole(LIMIT_INBOX_FULL_NS);
			err = send_once(h, slot, l);
		}
	if (!err)
		mark_deaf(h, slot, false);
	return err;
}

int host_hand(struct host *h, uint32_t qpn, const struct net_path *path, const void *data,
	      size_t len, unsigned int tries)
{
	struct host_peer peer;
	struct outgoing l;
	int slot;

	if (len > HOST_PACKET_MAX)
		return EMSGSIZE;
	if (!h->shared)
		return ENOENT;
	slot = table_owner_of(&h->table, (qpn & 0xffffff) >> HOST_BLOCK_BITS);
	if (slot == HOST_NO_SLOT || slot == h->slot || !host_peer(h, slot, &peer))
		return ENOENT;
	/* In another network namespace the same address means another host. */
	if (peer.netns && h->self.netns && peer.netns != h->self.netns)
		return ENOENT;
	outgoing_init(&l, KIND_PACKET);
	outgoing_add(&l, data, len);
	inbox_pack_path(&l.head, path);
	return send_with_retries(h, slot, &l, tries);
}

int host_hand_mad(struct host *h, int slot, uint64_t incarnation, const struct net_path *path,
		  const uint8_t mad[HOST_MAD_LEN])
{
	struct host_peer peer;
	struct outgoing l;

	if (!host_peer(h, slot, &peer) || (incarnation && peer.incarnation != incarnation) ||
	    peer.netns != h->self.netns)
		return ENOENT;
	outgoing_init(&l, KIND_MAD);
	outgoing_add(&l, mad, HOST_MAD_LEN);
	inbox_pack_path(&l.head, path);
	return send_once(h, slot, &l);
}

int host_send_xrc(struct host *h, int slot, uint64_t incarnation, const struct iovec *part,
		      unsigned int n)
{
	struct host_peer peer;
	struct outgoing l;
	size_t len = 0;

	for (unsigned int i = 0; i < n; i++)
		len += part[i].iov_len;
	if (len > HOST_PACKET_MAX || n > HOST_XRC_PARTS)
		return EMSGSIZE;
	if (!host_peer(h, slot, &peer) || peer.incarnation != incarnation)
		return ENOENT;
	outgoing_init(&l, KIND_XRC);
	for (unsigned int i = 0; i < n; i++)
		outgoing_add(&l, part[i].iov_base, part[i].iov_len);
	return send_with_retries(h, slot, &l, LIMIT_INBOX_FULL_TRIES);
}

int host_ring(struct host *h, int slot, uint64_t incarnation)
{
	struct host_peer peer;
	struct outgoing l;
	int err;

	if (!host_peer(h, slot, &peer) || peer.incarnation != incarnation)
		return ENOENT;
	outgoing_init(&l, KIND_DOORBELL);
	err = send_once(h, slot, &l);
	return err == EAGAIN ? 0 : err;
}

int host_bell_open(struct host *h, int slot, uint64_t incarnation)
{
	struct sockaddr_un sun;
	struct host_peer peer;
	int fd;

	if (!host_peer(h, slot, &peer) || peer.incarnation != incarnation ||
	    inbox_address(h, slot, &sun))
		return -1;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -1;
	if (fd < LIMIT_BELL_FD && connect(fd, (struct sockaddr *)&sun, sizeof(sun)) == 0)
		return fd;
	close(fd);
	return -1;
}

int host_ring_by(struct host *h, int bell, int slot, uint64_t incarnation)
{
	struct outgoing l;
	struct msghdr mh = { .msg_iov = l.iov };
	ssize_t sent;

	if (bell < 0)
		return host_ring(h, slot, incarnation);
	outgoing_init(&l, KIND_DOORBELL);
	mh.msg_iovlen = l.n;
	sent = sys_sendmsg(bell, &mh, MSG_DONTWAIT | MSG_NOSIGNAL);
	return sent == -ECONNREFUSED || sent == -ENOTCONN ? ENOENT : 0;
}

int host_send_keepalive(struct host *h, int slot, struct host_keepalive *p)
{
	struct host_peer peer;
	struct outgoing l;

	if (!host_peer(h, slot, &peer) || peer.incarnation != p->to)
		return ENOENT;
	p->slot = h->slot;
	p->from = h->incarnation;
	outgoing_init(&l, KIND_KEEPALIVE);
	outgoing_add(&l, p, sizeof(*p));
	return send_once(h, slot, &l);
}

int host_send_move(struct host *h, int slot, const struct host_move *m)
{
	struct host_peer peer;
	struct outgoing l;

	if (!host_peer(h, slot, &peer))
		return ENOENT;
	outgoing_init(&l, KIND_MOVE);
	outgoing_add(&l, m, sizeof(*m));
	return send_once(h, slot, &l);
}

enum host_msg inbox_read(const struct msg_head *m, size_t got, struct net_path *path, size_t *len)
{
	if (got < sizeof(*m) || m->magic != MSG_MAGIC || m->len != got - sizeof(*m))
		return HOST_GARBAGE;
	if (m->kind == KIND_DOORBELL)
		return HOST_DOORBELL;
	*len = m->len;
	if (m->kind == KIND_XRC)
		return HOST_XRC;
	if (m->kind == KIND_KEEPALIVE)
		return m->len == sizeof(struct host_keepalive) ? HOST_KEEPALIVE : HOST_GARBAGE;
	if (m->kind == KIND_MOVE)
		return m->len == sizeof(struct host_move) ? HOST_MOVE : HOST_GARBAGE;
	if (m->kind != KIND_PACKET && (m->kind != KIND_MAD || m->len != HOST_MAD_LEN))
		return HOST_GARBAGE;
	inbox_unpack_path(path, m);
	return m->kind == KIND_MAD ? HOST_MAD : HOST_PACKET;
}

enum host_msg host_inbox_recv(struct host *h, struct net_path *path, void *buf, size_t *len)
{
	struct msg_head m;
	struct iovec iov[2] = {
		{ .iov_base = &m, .iov_len = sizeof(m) },
		{ .iov_base = buf, .iov_len = HOST_PACKET_MAX },
	};
	struct msghdr mh = { .msg_iov = iov, .msg_iovlen = 2 };
	ssize_t got;

	if (h->inbox < 0)
		return HOST_NOTHING;
	do
		got = sys_recvmsg(h->inbox, &mh, MSG_DONTWAIT);
	while (got == -EINTR);
	if (got < 0)
		return HOST_NOTHING;
	if (mh.msg_flags & MSG_TRUNC)
		return HOST_GARBAGE;
	return inbox_read(&m, (size_t)got, path, len);
}

unsigned int host_inbox_recv_batch(struct host *h, struct host_datagram *m, unsigned int n)
{
	struct msg_head head[HOST_INBOX_BATCH];
	struct iovec iov[HOST_INBOX_BATCH][2];
	struct mmsghdr mm[HOST_INBOX_BATCH] = { 0 };
	int got;

	n = min(n, (unsigned int)HOST_INBOX_BATCH);
	for (unsigned int i = 0; i < n; i++) {
		iov[i][0] = (struct iovec){ &head[i], sizeof(head[i]) };
		iov[i][1] = (struct iovec){ m[i].data, sizeof(m[i].data) };
		mm[i].msg_hdr = (struct msghdr){ .msg_iov = iov[i], .msg_iovlen = 2 };
	}
	do
		got = h->inbox < 0 ? 0 : sys_recvmmsg(h->inbox, mm, n, MSG_DONTWAIT);
	while (got == -EINTR);
	for (int i = 0; i < got; i++)
		m[i].kind = mm[i].msg_hdr.msg_flags & MSG_TRUNC ?
				    HOST_GARBAGE :
				    inbox_read(&head[i], mm[i].msg_len, &m[i].path, &m[i].len);
	got = max(got, 0);
	if (unlikely(h->relay.services >= 0))
		while ((unsigned int)got < n && relay_receive(h, &m[got]))
			got++;
	return (unsigned int)got;
}
