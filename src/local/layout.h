/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every byte of a process's shared segment (docs/SHM.md draws it and has the crash matrix).
 *
 * The owner creates the file "s<slot>.seg" in the host's run directory; peers of the same user map
 * it. It holds what a NIC would look up for them: the owner's identity, its QPs and its memory
 * keys; and one lane per peer slot, a ring that carries this peer's messages to the owner.
 *
 *	offset        size               what                          written by
 *	0             SEG_PAGE           header                        owner; peers: doorbell, news
 *	SEG_QP_OFF    16,384 x 64 B      QP table, open addressing     owner
 *	SEG_MR_OFF    2^20 x 64 B         key table                     owner
 *	SEG_LANE_OFF  1,024 x LANE_SIZE  lane i: from slot i           peer i; owner: the two tails
 *
 * Each part begins at a multiple of SEG_PAGE, the largest page size that we know of, because it is
 * mapped on its own. The file is sparse: only ranges reserved with fallocate take memory, so that a
 * full tmpfs is an error code and never SIGBUS.
 *
 * What another process can write is untrusted: indices are masked, lengths checked after copying
 * out, and pointers are only ever handed to process_vm_readv/writev, which cannot fault us.  The
 * owner never reads its own tables back.
 */
#ifndef VRB_LOCAL_LAYOUT_H
#define VRB_LOCAL_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "util/compiler.h"
#include "wq/key.h"

#define SEG_MAGIC 0x4745534e45425256ull	/* "VRBENSEG" read as little endian */

enum {
	SEG_LAYOUT = 7,		/* grows with every change of this file */

	SEG_PAGE = 64 * 1024,
	SEG_PEERS = 1024,	/* one lane for each host slot */
	SEG_QPS = 16384,
	SEG_KEYS = 1 << 20,
	SEG_KEY_CHUNK = 1024,	/* keys whose memory is taken at a time */

	LANE_SLOTS = 256,
	LANE_SLOT_SIZE = 128,
	LANE_SLOT_HEADER = 32,
	LANE_INLINE_MAX = LANE_SLOT_SIZE - LANE_SLOT_HEADER,
	LANE_BYTES = 64 * 1024,	/* ring for packets that fit no slot */
	LANE_HAZARDS = 16,
};

struct seg_header {
	uint64_t magic;
	uint32_t layout;
	uint32_t header_size;
	uint64_t incarnation;	/* of the owner; see host.h */
	uint64_t netns;		/* inode of the owner's network namespace */
	/* inode of the owner's PID namespace: CMA needs pids of the same namespace */
	uint64_t pidns;
	uint64_t identity;	/* address of the owner's struct seg_identity in its memory */
	int32_t pid;
	int32_t slot;
	uint32_t ready;		/* L1: stored (release) 1 after all of the above */
	/* thread that vouches for the owner; FUTEX_OWNER_DIED once it has ended (keeper.h) */
	uint32_t keeper;

	/* Doorbell: 1 while no thread of the owner polls. L2, see lane.h. */
	uint32_t asleep cacheline_aligned;

	/*
	 * Lanes that senders have opened, or found in the way of opening (left by a dead sender);
	 * news counts the changes. L6: sender: set lane.sender, then the bit, then news (release);
	 * owner: load news (acquire), then look.
	 */
	uint32_t news;
	uint64_t opened[SEG_PEERS / 64];
	/* lanes that have ever been used, and so have memory; only grows */
	uint64_t claimed[SEG_PEERS / 64];

	/* Chunks of the key table that have memory; only grows. Others must not be touched. L4: set
	 * (release) before a key is published. */
	uint64_t key_chunks[SEG_KEYS / SEG_KEY_CHUNK / 64];
};

/*
 * Proves that a pid still names the expected process: process_vm_readv reads it together with the
 * wanted bytes.  In private memory, where no peer can change it by mistake.
 */
struct seg_identity {
	uint64_t magic;
	uint64_t incarnation;
};

/* What peers may know of a QP. */
struct seg_qp {
	uint32_t qpn;		/* L4: 0 = empty, ~0 = deleted; stored last (release) */
	uint32_t gen;		/* odd while the rest changes; even otherwise (sequence lock) */
	uint32_t dest_qpn;
	uint32_t pdn;
	uint32_t access;	/* IBV_ACCESS_REMOTE_* */
	uint8_t type;		/* enum ibv_qp_type */
	uint8_t state;		/* enum ibv_qp_state */
	uint8_t established;	/* COMM_EST was raised already */
	uint8_t max_dest_rd_atomic;
	uint8_t dest_gid[16];
	uint8_t src_gid[16];
	uint64_t progress;	/* L11: newest ACK, see message.h; 0 = none */
};

/* How a packet travels. */
enum lane_where {
	LANE_INLINE,		/* whole, in the slot */
	LANE_RING,		/* whole, in the byte ring */
	/* headers, then struct wq_seg[], in the byte ring; the payload stays with the sender */
	LANE_PULL,
};

enum {
	/* a struct net_path precedes the packet (datagrams: the receiver wants a GRH) */
	LANE_PATH = 1 << 0,
	/* not a packet but a message of another part of the library (core/xrc/msg.h) */
	LANE_MESSAGE = 1 << 1,
	/* an ACK of the same queue pair comes with the packet, in ack_psn and ack_aeth */
	LANE_ACK = 1 << 2,
	LANE_OFFER = 1 << 3,	/* not a packet but a struct split_copy_offer */
	LANE_BARE = 1 << 4,	/* a request without packet headers, see message.h */
};

struct lane_head {
	uint32_t seq;		/* L5: index + 1, stored last (release) by the sender */
	uint32_t len;		/* bytes of path, packet and segments */
	uint8_t where;		/* enum lane_where */
	uint8_t flags;		/* LANE_PATH ... LANE_BARE */
	uint16_t nseg;		/* LANE_PULL */
	uint32_t ring_off;	/* free-running offset into the byte ring */
	/* free-running end of what the byte ring holds up to and with this slot */
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
 * A long payload that both ends copy, the receiver from the front and the sender from the back; see
 * split_copy.h.
 */
struct lane_split_copy {
	/* L9: id:32 | pieces the receiver took:16 | pieces the sender took:16; opened by the
	 * receiver */
	uint64_t claim;
	/* L9: sender: id:32 | 0 or 1, a copy failed:16 | pieces it has copied:16 */
	uint64_t done;
};

struct lane {
	uint64_t sender;	/* L6: incarnation of the sender that may use it; 0 = none */
	/* address of the sender's struct seg_identity in its memory */
	uint64_t sender_identity;
	/* receiver: 1 once it has found that it may read the sender's memory */
	uint32_t can_pull;

	/* L8: indices of the keys that the sender is using for one-sided accesses right now; 0 =
	 * none. */
	uint32_t hazard[LANE_HAZARDS] cacheline_aligned;

	uint32_t tail cacheline_aligned;	/* L7: receiver: slots before it are free */
	uint32_t ring_tail;			/* L7: bytes of the ring before it are free */

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
_Static_assert(offsetof(struct lane_slot, data) == LANE_SLOT_HEADER,
	       "header and a small payload share a line");
_Static_assert(sizeof(struct mr_entry) == SEG_MR_ENTRY, "entries of the key table");
_Static_assert(SEG_MR_OFF % SEG_PAGE == 0 && SEG_LANE_OFF % SEG_PAGE == 0,
	       "parts are page aligned");
_Static_assert(SEG_KEY_CHUNK * SEG_MR_ENTRY % SEG_PAGE == 0,
	       "and what memory is taken for at a time");
/* The numbers of docs/SHM.md. */
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
AT(seg_qp, gen, 4);
AT(seg_qp, type, 20);
AT(seg_qp, established, 22);
AT(seg_qp, dest_gid, 24);
AT(seg_qp, progress, 56);
AT(mr_entry, sum, 60);
AT(lane, sender_identity, 8);
AT(lane, can_pull, 16);
AT(lane, hazard, 64);
AT(lane, tail, 128);
AT(lane, ring_tail, 132);
AT(lane, split_copy, 192);
AT(lane, slot, 256);
AT(lane, bytes, 33024);
AT(lane_split_copy, done, 8);
#undef AT
_Static_assert(SEG_MR_OFF == 1114112 && SEG_LANE_OFF == 68222976 && SEG_LANE_SIZE == 131072,
	       "parts of the segment");

#endif
