/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The layout of a process's shared segment (docs/SHM.md has a drawing and the crash matrix).
 *
 * The owner creates the file "s<slot>.seg" in the host's run directory; peers of the same user map
 * it. It holds the tables of a NIC, that is, the owner's identity, its QPs and its memory keys, and
 * one lane per peer slot: a ring that carries that peer's messages to the owner.
 *
 *	offset        size               what                          written by
 *	0             SEG_PAGE           header                        owner; peers: news, bitmaps
 *	SEG_QP_OFF    16,384 x 64 B      QP table, open addressing     owner
 *	SEG_MR_OFF    2^20 x 64 B         key table                     owner
 *	SEG_LANE_OFF  1,024 x 64 KiB     lane i: from slot i           peer i; owner: tails, flag
 *
 * Each part is mapped on its own, so it begins at a multiple of SEG_PAGE, the largest page size we
 * know of. The file is sparse: only ranges reserved with fallocate take memory. So a full tmpfs
 * causes an error code, never SIGBUS.
 *
 * Data that another process can write is untrusted: mask indices, copy lengths before checking
 * them, and pass pointers only to process_vm_readv/writev, which cannot fault. The owner does not
 * rely on its own tables: it reads back only the generations of QP entries, of which any will do.
 */
#ifndef VRB_LOCAL_LAYOUT_H
#define VRB_LOCAL_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "util/compiler.h"
#include "wq/key.h"

#define SEG_MAGIC 0x4745534e45425256ull	/* "VRBENSEG" read as little endian */

enum {
	SEG_LAYOUT = 14,	/* increases with every change of this file */

	SEG_PAGE = 64 * 1024,
	SEG_PEERS = 1024,	/* one lane for each host slot */
	SEG_QPS = 16384,
	SEG_KEYS = 1 << 20,
	SEG_KEY_CHUNK = 1024,	/* entries whose memory is reserved at a time */

	LANE_SLOTS = 128,
	LANE_SLOT_SIZE = 128,
	LANE_SLOT_HEADER = 32,
	LANE_INLINE_MAX = LANE_SLOT_SIZE - LANE_SLOT_HEADER,
	/* byte ring, for packets that do not fit a slot; with the rest it fills 32 KiB */
	LANE_BYTES = 16128,
	LANE_HAZARDS = 16,
};

struct seg_header {
	uint64_t magic;
	uint32_t layout;
	uint32_t header_size;
	uint64_t incarnation;	/* of the owner; see host.h */
	uint64_t netns;		/* inode of the owner's network namespace */
	/* inode of the owner's PID namespace: cross-memory attach needs pids of one namespace */
	uint64_t pidns;
	/* address of the owner's struct seg_identity; 0: peers do not access its memory */
	uint64_t identity;
	int32_t pid;
	int32_t slot;
	uint32_t ready;		/* L1: stored (release) 1 after all of the above */
	/* futex of the owner's keeper thread; FUTEX_OWNER_DIED once it has ended (keeper.h) */
	uint32_t keeper;

	/* Doorbell flag: 1 while no thread of the owner polls. L2, see lane.h. */
	uint32_t asleep cacheline_aligned;

	/*
	 * Lanes that senders have opened, or could not open because of a dead predecessor; news
	 * counts the changes. L6: the sender sets lane.sender, then the bit, then news (release);
	 * the owner loads news (acquire), then the lanes.
	 */
	uint32_t news;
	uint64_t opened[SEG_PEERS / 64];
	/* lanes that were ever used, and so have memory; bits are only set */
	uint64_t claimed[SEG_PEERS / 64];

	/*
	 * Chunks of the key table that have memory; bits are only set. Readers must not touch other
	 * chunks. L4: set (release) before a key is published.
	 */
	uint64_t key_chunks[SEG_KEYS / SEG_KEY_CHUNK / 64];

	/* L8: 1 while the owner makes heavy fences before it reads hazards; 0 in older versions */
	uint32_t heavy;
	/*
	 * L2: 1 while the owner polls steadily, so makes a heavy fence before it sleeps next; 0 in
	 * older versions
	 */
	uint32_t polled;
};

/*
 * Proves that a pid still names the expected process: process_vm_readv reads it together with the
 * wanted bytes. It is in private memory, which no peer can overwrite by accident.
 */
struct seg_identity {
	uint64_t magic;
	uint64_t incarnation;
};

enum {
	SEG_QP_ESTABLISHED = 1 << 0,	/* COMM_EST has been raised */
	SEG_QP_WAITS = 1 << 1,		/* XRC: for another process, which executes a request */
	SEG_QP_BLOCKED = 1 << 2,	/* its answers wait for room in a lane */
	/* three bits, enum ibv_mtu: of what it sends; 0: unknown, a version that does not tell */
	SEG_QP_MTU = 4,
};

/* What a process publishes about a QP. */
struct seg_qp {
	uint32_t qpn;		/* L4: 0 = empty, ~0 = deleted; stored last (release) */
	uint32_t gen;		/* odd while the rest changes, else even (sequence lock) */
	uint32_t dest_qpn;
	uint32_t pdn;
	uint16_t access;	/* IBV_ACCESS_REMOTE_*, IBV_ACCESS_FLUSH_* */
	/* low bits of the first PSN that it expects: tells its connections from each other */
	uint16_t rq_psn;
	uint8_t type;		/* enum ibv_qp_type */
	uint8_t state;		/* enum ibv_qp_state */
	uint8_t flags;		/* SEG_QP_ESTABLISHED ... SEG_QP_BLOCKED */
	uint8_t max_dest_rd_atomic;
	uint8_t dest_gid[16];
	uint8_t src_gid[16];
	uint64_t progress;	/* L11: newest ACK, see message.h; 0 = none */
};

/* Where a packet's bytes are. */
enum lane_where {
	LANE_INLINE,		/* all in the slot */
	LANE_RING,		/* all in the byte ring */
	/* headers and struct wq_seg[] in the byte ring; the payload stays in the sender's memory */
	LANE_PULL,
};

enum {
	/* a struct net_path precedes the packet (datagrams: the receiver needs a GRH) */
	LANE_PATH = 1 << 0,
	/* not a packet, but a struct xrc_msg (core/xrc/msg.h) */
	LANE_XRC = 1 << 1,
	/* the slot also carries an ACK of the same queue pair, in ack_psn and ack_aeth */
	LANE_ACK = 1 << 2,
	LANE_OFFER = 1 << 3,	/* not a packet, but a struct split_copy_offer */
	LANE_MESSAGE = 1 << 4,	/* a message: a request without packet headers (message.h) */
	LANE_LOSSY = 1 << 5,	/* the sender loses packets on purpose: a gap is a loss */
};

struct lane_head {
	uint32_t seq;		/* L5: index + 1, stored last (release) by the sender */
	uint32_t len;		/* length of path, packet and segments */
	uint8_t where;		/* enum lane_where */
	uint8_t flags;		/* LANE_PATH ... LANE_LOSSY */
	uint16_t nseg;		/* LANE_PULL */
	uint32_t ring_off;	/* offset into the byte ring, modulo LANE_BYTES */
	/* end of the byte ring, including this slot's bytes; counted as ring_off */
	uint32_t ring_end;
	uint32_t payload;	/* LANE_PULL: length of the payload */
	uint32_t ack_psn;	/* LANE_ACK */
	uint32_t ack_aeth;	/* LANE_ACK: syndrome:8 MSN:24 */
};

struct lane_slot {
	struct lane_head head;
	uint8_t data[LANE_INLINE_MAX];
};

/*
 * Claim words of a long payload that both ends copy: the receiver from the front, the sender from
 * the back; see split_copy.h.
 */
struct lane_split_copy {
	/*
	 * L9: id:32 | pieces claimed by the receiver:16 | pieces claimed by the sender:16;
	 * initialised by the receiver
	 */
	uint64_t claim;
	/* L9: written by the sender: id:32 | 1 if a copy failed:16 | pieces copied:16 */
	uint64_t done;
};

struct lane {
	uint64_t sender;	/* L6: incarnation of the current sender; 0 = none */
	/* address of the sender's struct seg_identity in its memory */
	uint64_t sender_identity;
	/* receiver: 1 if it can read the sender's memory */
	uint32_t can_pull;
	/*
	 * sender: upper bound of the receiver's regions that it has mapped; 0 = no doorbell needed
	 */
	uint32_t maps;

	/* L8: indices of the keys that the sender uses for one-sided accesses now; 0 = none. */
	uint32_t hazard[LANE_HAZARDS] cacheline_aligned;

	uint32_t tail cacheline_aligned;	/* L7: receiver: slots before this one are free */
	uint32_t ring_tail;			/* L7: ring bytes before this offset are free */

	struct lane_split_copy split_copy cacheline_aligned;

	struct lane_slot slot[LANE_SLOTS] cacheline_aligned;
	uint8_t bytes[LANE_BYTES] cacheline_aligned;
};

#define SEG_QP_OFF   ((uint64_t)SEG_PAGE)
#define SEG_MR_OFF   (SEG_QP_OFF + (uint64_t)SEG_QPS * sizeof(struct seg_qp))
#define SEG_MR_ENTRY 64ull
#define SEG_LANE_OFF (SEG_MR_OFF + SEG_KEYS * SEG_MR_ENTRY)
#define SEG_LANE_SIZE ((sizeof(struct lane) + SEG_PAGE - 1) / SEG_PAGE * SEG_PAGE)
#define SEG_SIZE     (SEG_LANE_OFF + SEG_PEERS * SEG_LANE_SIZE)

_Static_assert(sizeof(struct seg_header) <= SEG_PAGE, "header fits its page");
_Static_assert(sizeof(struct seg_qp) == 64, "one QP, one cache line");
_Static_assert(sizeof(struct lane_slot) == LANE_SLOT_SIZE, "slot size");
_Static_assert(sizeof(struct lane) == 32 * 1024, "whole pages");
_Static_assert(offsetof(struct lane_slot, data) == LANE_SLOT_HEADER,
	       "header and a small payload share a line");
_Static_assert(sizeof(struct mr_entry) == SEG_MR_ENTRY, "entries of the key table");
_Static_assert(SEG_MR_OFF % SEG_PAGE == 0 && SEG_LANE_OFF % SEG_PAGE == 0,
	       "parts are page aligned");
_Static_assert(SEG_KEY_CHUNK * SEG_MR_ENTRY % SEG_PAGE == 0,
	       "memory is reserved in whole pages");
/* The offsets that docs/SHM.md states. */
#define AT(type, field, offset)                                                                    \
	_Static_assert(offsetof(struct type, field) == (offset), #type "." #field)
AT(seg_header, incarnation, 16);
AT(seg_header, identity, 40);
AT(seg_header, ready, 56);
AT(seg_header, keeper, 60);
AT(seg_header, asleep, 64);
AT(seg_header, news, 68);
AT(seg_header, opened, 72);
AT(seg_header, claimed, 200);
AT(seg_header, key_chunks, 328);
AT(seg_header, heavy, 456);
AT(seg_header, polled, 460);
AT(seg_qp, gen, 4);
AT(seg_qp, type, 20);
AT(seg_qp, flags, 22);
AT(seg_qp, dest_gid, 24);
AT(seg_qp, progress, 56);
AT(mr_entry, sum, 60);
AT(lane, sender_identity, 8);
AT(lane, can_pull, 16);
AT(lane, maps, 20);
AT(lane, hazard, 64);
AT(lane, tail, 128);
AT(lane, ring_tail, 132);
AT(lane, split_copy, 192);
AT(lane, slot, 256);
AT(lane, bytes, 16640);
AT(lane_split_copy, done, 8);
#undef AT
_Static_assert(SEG_MR_OFF == 1114112 && SEG_LANE_OFF == 68222976 && SEG_LANE_SIZE == 65536,
	       "offsets of the parts");

#endif
