/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the processes that share an XRC domain tell each other; docs/XRC.md has the protocol.
 *
 * A message is a head, then `body` bytes of a struct that its kind has, then `state` bytes of a roce_snapshot, then `packet` bytes of a
 * packet as it came or will go.  It travels in the lane to the process, or to its inbox.
 *
 * Received under vrb.drive.  May be sent under a QP's lock.
 */
#ifndef VRB_CORE_XRC_XRCMSG_H
#define VRB_CORE_XRC_XRCMSG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/xrc/xrcd.h"
#include "roce/snapshot.h"
#include "util/list.h"
#include "util/net.h"

struct local_peer;
struct vrb_receiver;

enum xrc_kind {
	XRC_LEND = 1,	/* home -> deputy: struct xrc_config, state */
	XRC_REQUEST,	/* home -> deputy: struct xrc_request, its segments, packet */
	XRC_CONFIG,	/* home -> deputy: struct xrc_config */
	XRC_RECALL,	/* home -> deputy */
	XRC_ANSWER,	/* deputy -> home: perhaps state, perhaps a packet to be sent */
	XRC_EVENT,	/* deputy -> home: struct xrc_event */
	XRC_NEWS,	/* home -> processes that have the QP open: struct xrc_event */
	XRC_ASK,	/* xrcask.h */
	XRC_REPLY,
};

struct xrc_head {
	uint32_t magic;
	uint8_t kind;		/* enum xrc_kind */
	uint8_t final;		/* XRC_ANSWER: all requests up to seq are answered, and nothing is left to say */
	uint16_t reserved;
	uint32_t qpn;
	uint32_t epoch;		/* of the loan; XRC_ASK: enum xrc_call; XRC_REPLY: what it returned */
	uint32_t seq;		/* of the question, of the request, or the last one before this answer; XRC_RECALL: the QP's state */
	uint32_t body, state, packet;
	int32_t slot;		/* of the sender */
	uint32_t reserved2;
	uint64_t incarnation;
};

/* What a deputy must know of the QP. */
struct xrc_config {
	struct xrc_key domain;
	struct net_path path, alt_path;
	uint32_t mtu, max_msg, dest_qpn, access;
	uint16_t pkey, pkey_index;
	uint8_t state, mig_state;
	uint8_t max_dest_rd_atomic, min_rnr_timer;
};

enum { XRC_SEGS = 64 };

/* A request as it came, with the place of its payload if that stayed in its sender's memory. */
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
	uint32_t type;		/* enum ibv_event_type; XRC_NEWS: or XRC_NEW_HOME */
	uint32_t fault;		/* enum reason */
};

/* A message that was received: everything but the packet has been copied. */
struct xrc_msg {
	struct xrc_head head;
	uint8_t body[sizeof(struct xrc_request) + XRC_SEGS * 16 + 64];
	uint8_t state[ROCE_SNAPSHOT_MAX];
	const uint8_t *packet;
};

/* A process to talk to. */
struct xrc_party {
	int slot;
	uint64_t incarnation;
	struct local_peer *peer;	/* with a reference; NULL: by the inbox */
	bool deaf;			/* its lane was full for a while: not waited for until it has room */
};

/* Fills in everything, and opens the lane. False if there is no such process. */
bool xrc_party_find(struct xrc_party *p, int slot);
void xrc_party_drop(struct xrc_party *p);
bool xrc_party_alive(struct xrc_party *p, uint64_t now);

/* Is it who sent this? */
bool xrc_party_sent(const struct xrc_party *p, const struct xrc_msg *m);

/* Can the party take a message of any size now? The inbox is believed to. */
bool xrc_party_room(struct xrc_party *p);

/*
 * Fills in the head's lengths and sender, and sends. Returns 0, EAGAIN (no room within a millisecond, or too long) or ENOENT (the process is gone).
 */
int xrc_tell(struct xrc_party *to, struct xrc_head *head, const void *body, size_t body_len,
	     const void *state, size_t state_len, const void *packet, size_t packet_len);

/* Takes a message apart and gives it to whom it concerns. QPs that may have something to say are put on the receiver's list. */
void xrc_receive(const uint8_t *data, size_t len, struct vrb_receiver *r, uint64_t now);

#endif
