/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pair and buffers of a stream rsocket: posting messages, and their completions.
 *
 * All under rs->lock, unless stated otherwise.
 */
#ifndef VRB_RDMACM_RS_STREAM_H
#define VRB_RDMACM_RS_STREAM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include <infiniband/verbs.h>

#include "rsocket/rs_pace.h"
#include "rsocket/rs_rx.h"
#include "rsocket/rs_tx.h"
#include "rsocket/rs_wire.h"
#include "util/list.h"

enum {
	RS_CTRL_SLOTS = 4, /* concurrent messages without data */
	RS_LEAST_ROOM = 2048,
	RS_MOST_SENT = 65536,      /* bytes per message */
	RS_MOST_WRITTEN = 1 << 20, /* bytes at a time, without a message: the QP is locked */
};

struct rsocket;

struct rs_stream {
	struct ibv_comp_channel *events;
	struct ibv_cq *cq;
	bool armed;
	unsigned int unacked; /* completion events */
	uint32_t sq_size, rq_size, inline_max;
	struct rs_conn peer;

	struct rs_rx rx;
	uint8_t *ring;

	struct rs_tx tx;
	uint8_t *list; /* announcements by the peer, then its mappings */
	uint32_t iomap_size;
	uint32_t sq_free;
	struct rs_pace pace; /* under tx_turn */

	uint8_t *out; /* ring of data being sent */
	uint32_t out_size, out_at, out_used;

	uint8_t *slot; /* RS_CTRL_SLOTS of RS_IOMAP_LEN bytes */
	uint32_t slots_sent, slots_free;
	uint32_t posted; /* requests so far */

	uint8_t *memory; /* mapping that contains all of these */
	size_t memory_len;
	int file; /* behind it; -1: none */
	struct ibv_mr *ring_mr, *list_mr, *out_mr;

	bool lost;     /* data of ours may not have arrived */
	bool wrote;    /* has written to the peer's mappings by requests */
	bool cut;      /* the peer is told that the stream has broken off */
	bool complete; /* the peer has announced that it sends no more */

	struct list maps; /* struct rs_map.node */
	struct list announce;
};

/*
 * Creates CQ, QP and buffers for rs->id, which must have a device, and posts receives.  Returns 0
 * or an errno value.
 */
int rs_stream_create(struct rsocket *rs);

/* The queue pair sends and receives no more, and what it has received is in its CQ. */
void rs_stream_stop(struct rsocket *rs);

/* Destroys what exists of them.  rs->id stays. */
void rs_stream_destroy(struct rsocket *rs);

/* Encodes our connection data. */
void rs_stream_describe(const struct rsocket *rs, uint8_t data[RS_CONN_LEN]);

/* Takes in the peer's connection data.  Returns 0, EPROTO or ENOTSUP. */
int rs_stream_peer(struct rsocket *rs, const void *data, size_t len);

/*
 * Polls completions and sends due grants.  Returns true if anything has changed that a thread may
 * wait for.
 */
bool rs_stream_progress(struct rsocket *rs);

/*
 * Arms the CQ: the next completion makes rs->stream.events readable.  Check once more afterwards.
 */
void rs_stream_arm(struct rsocket *rs);

/* Consumes events of the channel.  Returns true if there were any. */
bool rs_stream_event(struct rsocket *rs);

/*
 * Messages are on their way, and there is room for as many: a sender need not look for completions
 * yet, which costs a system call over UDP.
 */
bool rs_stream_is_busy(const struct rsocket *rs);

/* Bytes that can be sent as one message now. */
uint32_t rs_stream_room(struct rsocket *rs);

/*
 * Sends n <= rs_stream_room() bytes as one message.  Under tx_turn.  Releases the lock while it
 * copies.
 */
void rs_stream_send(struct rsocket *rs, const struct iovec *iov, size_t skip, uint32_t n);

/*
 * Writes up to RS_MOST_WRITTEN bytes to a mapping of the peer, without a message, straight from the
 * buffer to a peer on this host.  Under tx_turn; releases the lock while it copies.  False: part of
 * the bytes may have been written, and rs_stream_write() has to send them.
 */
bool rs_stream_write_direct(struct rsocket *rs, const uint8_t *buf, uint32_t n,
			    const struct rs_region *to);

/* The same with a request.  n <= rs_stream_write_room(); otherwise as rs_stream_send(). */
void rs_stream_write(struct rsocket *rs, const uint8_t *buf, uint32_t n,
		     const struct rs_region *to);
uint32_t rs_stream_write_room(const struct rsocket *rs);

/* True if there is a slot for a message without data. */
static inline bool rs_stream_can_send_ctrl(const struct rs_stream *s)
{
	return s->slots_free != 0;
}

/* Sends DISCONNECT or SHUTDOWN.  Needs a slot. */
void rs_stream_send_ctrl(struct rsocket *rs, enum rs_ctrl what);

/* Writes a mapping of ours to the peer's table.  Needs a slot and a credit. */
void rs_stream_announce(struct rsocket *rs, uint32_t index, const struct rs_mapping *m);

/* Sends an empty message, as keepalive. */
void rs_stream_ping(struct rsocket *rs);

/* True if data we sent is outstanding. */
static inline bool rs_stream_has_sent(const struct rs_stream *s)
{
	return s->sq_free != s->sq_size - RS_CTRL_SLOTS;
}

/* True if nothing we sent is outstanding. */
static inline bool rs_stream_idle(const struct rs_stream *s)
{
	return !rs_stream_has_sent(s) && s->slots_free == RS_CTRL_SLOTS;
}

#endif
