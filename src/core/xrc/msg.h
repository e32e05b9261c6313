/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages between processes that share an XRC domain; docs/XRC.md has the protocol.
 *
 * A message consists of a head, `body` bytes of the struct of its kind, `state` bytes of a
 * roce_snapshot and `packet` bytes of a received or outgoing packet. It is sent through the lane to
 * the process, or through its inbox.
 *
 * Received under vrb.poll_lock. May be sent under a QP's lock.
 */
#ifndef VRB_CORE_XRC_MSG_H
#define VRB_CORE_XRC_MSG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/qp/xrcd.h"
#include "roce/snapshot.h"
#include "util/list.h"
#include "util/net.h"

struct local_peer;
struct vrb_rx_queue;

enum xrc_kind {
	XRC_DELEGATE = 1,	/* home -> responder: struct xrc_config, state */
	XRC_REQUEST,	/* home -> responder: struct xrc_request, its segments, packet */
	XRC_CONFIG,	/* home -> responder: struct xrc_config */
	XRC_REVOKE,	/* home -> responder */
	XRC_ANSWER,	/* responder -> home: optional state, optional packet to send */
	XRC_EVENT,	/* responder -> home: struct xrc_event */
	XRC_NOTIFY,	/* home -> processes that have the QP open: struct xrc_event */
	XRC_RPC,	/* rpc.h */
	XRC_REPLY,
};

struct xrc_head {
	uint32_t magic;
	uint8_t kind;		/* enum xrc_kind */
	/* XRC_ANSWER: answers all requests up to seq; the responder has no more output */
	uint8_t final;
	uint16_t reserved;
	uint32_t qpn;
	/* epoch of the delegation; XRC_RPC: enum xrc_call; XRC_REPLY: result of the call */
	uint32_t epoch;
	/*
	 * number of the call or request, or of the last request that an answer covers; XRC_REVOKE:
	 * the QP's state
	 */
	uint32_t seq;
	uint32_t body, state, packet;
	int32_t slot;		/* sender */
	uint32_t reserved2;
	uint64_t incarnation;	/* sender */
};

/* The configuration that a remote responder needs. */
struct xrc_config {
	struct xrc_key domain;
	struct net_path path, alt_path;
	uint32_t mtu, max_msg, dest_qpn, access;
	uint16_t pkey, pkey_index;
	uint8_t state, mig_state;
	uint8_t max_dest_rd_atomic, min_rnr_timer;
};

enum { XRC_SEGS = 64 };

/* A received request, with the location of its payload if that is still in the sender's memory. */
struct xrc_request {
	struct net_path path;
	uint32_t payload;
	uint32_t num_seg;
	int32_t pid;
	uint32_t reserved;
	uint64_t identity, incarnation;
};

enum { XRC_NEW_HOME = 0xffff };

struct xrc_event {
	uint32_t type;		/* enum ibv_event_type; XRC_NOTIFY: or XRC_NEW_HOME */
	uint16_t fault;		/* enum reason */
	uint16_t fault_kind;	/* wq/qp.h */
};

/* A received message. Everything but the packet is a copy. */
struct xrc_msg {
	struct xrc_head head;
	uint8_t body[sizeof(struct xrc_request) + XRC_SEGS * 16 + 64];
	uint8_t state[ROCE_SNAPSHOT_MAX];
	const uint8_t *packet;
};

/* Another process of the domain. */
struct xrc_peer {
	int slot;
	uint64_t incarnation;
	struct local_peer *peer;	/* holds a reference; NULL: use the inbox */
	/* its lane was full for ROOM_TIMEOUT: do not wait again until it has had room */
	bool stalled;
};

/* Fills in all members and opens the lane if possible. False: no such process. */
bool xrc_peer_find(struct xrc_peer *p, int slot);
void xrc_peer_drop(struct xrc_peer *p);
bool xrc_peer_alive(struct xrc_peer *p, uint64_t now);

/* Did this process send the message? */
bool xrc_peer_sent(const struct xrc_peer *p, const struct xrc_msg *m);

/* Does the lane have room for a message of any size? The inbox is assumed to. */
bool xrc_peer_room(struct xrc_peer *p);

/*
 * Fills in the lengths and sender of the head and sends the message. Returns 0, EAGAIN (no room
 * within a millisecond, or too long) or ENOENT (the process has exited).
 */
int xrc_send(struct xrc_peer *to, struct xrc_head *head, const void *body, size_t body_len,
	     const void *state, size_t state_len, const void *packet, size_t packet_len);

/*
 * For messages that are not retried: a message that finds no room is kept until the process takes
 * it or exits, and no other message to that process overtakes it.
 */
void xrc_send_surely(struct xrc_peer *to, struct xrc_head *head, const void *body, size_t body_len);

/* As xrc_send(), past the messages that are kept (resend.c). */
int xrc_send_once(struct xrc_peer *to, struct xrc_head *head, const void *body, size_t body_len,
		  const void *state, size_t state_len, const void *packet, size_t packet_len);

/* Validates a message and copies all but the packet. False: malformed. */
bool xrc_parse(struct xrc_msg *m, const uint8_t *data, size_t len);

#endif
