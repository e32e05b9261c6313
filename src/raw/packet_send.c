/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sends frames by sendmmsg(2), each preceded by a virtio_net_hdr that requests checksums and
 * segmentation. (A mapped transmit ring was measured slower: it builds the same buffers from
 * pages.) The kernel reads the pieces in place. No lock: any number of threads may send on a
 * socket.
 */
#include <errno.h>
#include <linux/virtio_net.h>
#include <string.h>
#include <sys/socket.h>

#include "raw/state.h"
#include "util/atomic.h"
#include "util/cancel.h"
#include "util/compiler.h"
#include "util/own_memory.h"
#include "util/time.h"

#define STUCK_AFTER (200 * VRB_MSEC)

static void describe(struct virtio_net_hdr *v, const struct raw_out *o)
{
	*v = (struct virtio_net_hdr){ .gso_type = VIRTIO_NET_HDR_GSO_NONE };
	if (o->sum_start) {
		v->flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
		v->csum_start = o->sum_start;
		v->csum_offset = o->sum_offset;
	}
	if (o->mss) {
		v->gso_type = o->ipv6 ? VIRTIO_NET_HDR_GSO_TCPV6 : VIRTIO_NET_HDR_GSO_TCPV4;
		v->gso_size = o->mss;
		v->hdr_len = o->hdr_len;
	}
}

/*
 * The queue of the interface is full, which is why the frame is gone; a NIC would have stopped the
 * sender. A queue that takes nothing for long never will: a frame may be too long for its rate.
 */
static bool worth_waiting(struct packet_port *p, uint64_t now)
{
	uint64_t since = load_relaxed(&p->full_since);

	if (!since)
		store_relaxed(&p->full_since, now);
	return !since || time_since(since, now) < STUCK_AFTER;
}

static void note_sent(struct packet_port *p)
{
	if (unlikely(load_relaxed(&p->full_since)))
		store_relaxed(&p->full_since, 0);
}

/* Handles the first frame that was not sent. Returns true if it counts as sent. */
static bool explain(struct packet_port *p, int err, uint64_t now, enum raw_sent *why)
{
	switch (err) {
	case ENOBUFS:
		*why = RAW_FULL;
		return !worth_waiting(p, now);
	case EAGAIN:
	case EINTR:
		*why = RAW_FULL;
		return false;
	case EMSGSIZE:
		*why = RAW_TOO_LONG;
		return false;
	case EFAULT:
		*why = RAW_BAD_MEMORY;
		return false;
	default:
		/* The interface is down or gone: the frame is lost, as on a wire. */
		return true;
	}
}

struct batch {
	struct iovec piece[RAW_BURST][RAW_PIECES + 1];
	struct virtio_net_hdr head[RAW_BURST];
	struct mmsghdr msg[RAW_BURST];
};

static __thread struct batch *own;

static void forget_own(void)
{
	own = NULL;
}

/* NULL: no memory. */
static struct batch *own_batch(void)
{
	if (likely(own))
		return own;
	own = own_memory(sizeof(*own), forget_own);
	if (own)
		memset(own, 0, sizeof(*own));
	return own;
}

unsigned int packet_send(struct raw_port *port, struct raw_out *out, unsigned int n, uint64_t now,
			 enum raw_sent *why)
{
	struct packet_port *p = container_of(port, struct packet_port, port);
	struct batch *b = own_batch();
	unsigned int done = 0;

	n = min(n, (unsigned int)RAW_BURST);
	if (!b) {	/* lost, as on a wire */
		fetch_add_relaxed(&port->stats.refused, n);
		return n;
	}
	for (unsigned int i = 0; i < n; i++) {
		describe(&b->head[i], &out[i]);
		b->piece[i][0] = (struct iovec){ &b->head[i], sizeof(b->head[i]) };
		memcpy(&b->piece[i][1], out[i].piece, out[i].pieces * sizeof(struct iovec));
		b->msg[i] = (struct mmsghdr){ .msg_hdr = { .msg_iov = b->piece[i],
							   .msg_iovlen = out[i].pieces + 1 } };
	}
	while (done < n) {
		int k = sys_sendmmsg(p->send_fd, b->msg + done, n - done, MSG_DONTWAIT);

		if (k > 0) {
			done += k;
			note_sent(p);
			fetch_add_relaxed(&port->stats.sent, k);
		} else if (explain(p, -k, now, why)) {
			done++;
			fetch_add_relaxed(&port->stats.refused, 1);
		} else {
			break;
		}
	}
	return done;
}
