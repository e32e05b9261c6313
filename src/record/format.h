/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The format of a recording, version 1 (docs/RECORD.md): a file header, then chunks of
 * RECORD_CHUNK_LEN bytes, each written by one thread at a time.  In the byte order of the
 * machine that wrote it: a reader of the other order takes it for another version.
 *
 *	0       struct record_file_header
 *	4096    struct record_chunk, records, ...
 *	4096 + RECORD_CHUNK_LEN    struct record_chunk, ...
 *
 * A record is a struct record_head, the struct of its type, and for some types a tail.  Its head
 * has a checksum over the record and over the identity of its chunk, so that other contents (zeros,
 * a record of an earlier use of the chunk, half a record) are not taken for one.
 *
 * Types and the numbers of verbs are published: never change or reuse one, only append.
 */
#ifndef VRB_RECORD_FORMAT_H
#define VRB_RECORD_FORMAT_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "wq/note.h"
#include "wq/verb.h"

#define RECORD_MAGIC "vrbrec\r\n" /* eight bytes; broken by transfers that convert text */

enum {
	RECORD_VERSION = 1,
	RECORD_HEADER_LEN = 4096,
	RECORD_CHUNK_LEN = 64 * 1024,
	RECORD_MAX_CHUNKS = 1 << 24, /* 1 TiB */
	RECORD_ALIGN = 16,
};

enum { RECORD_RING = 1 }; /* flags: chunks are used again; else the file grows */

/* The process that was recorded.  Strings end with a zero. */
struct record_origin {
	uint64_t started;    /* ns, on the clock of the records: CLOCK_MONOTONIC */
	uint64_t wall;       /* the same moment, ns since 1970 */
	uint8_t boot_id[16]; /* processes with the same one, and the same of the next, */
	uint32_t pid;
	uint32_t time_ns; /* share a clock: inode of the time namespace; 0: not known */
	char host[64];
	char command[256];
};

struct record_file_header {
	char magic[8];
	uint32_t version;
	uint32_t flags;
	uint64_t chunks; /* the most that the file can have */
	struct record_origin origin;
	uint64_t lost; /* atomic: records for which there was no room */
};

static_assert(sizeof(struct record_file_header) <= RECORD_HEADER_LEN, "one page");

/* A chunk's state: 0 before its first use, then its number << 1, | RECORD_OPEN while written. */
#define RECORD_OPEN 1ull

struct record_chunk {
	uint64_t state; /* atomic; no number comes twice in a file */
	uint64_t time;  /* not after that of its first record */
	uint32_t tid;
	uint32_t used; /* bytes with this header; valid when closed */
	uint64_t zero;
};

static_assert(sizeof(struct record_chunk) % RECORD_ALIGN == 0, "records are aligned");

struct record_head {
	uint16_t size;  /* of the whole record; a multiple of RECORD_ALIGN */
	uint8_t type;   /* enum record_type */
	uint8_t pad;    /* bytes at the end that mean nothing */
	uint32_t check; /* record_check() */
	uint64_t time;  /* ns; never before that of the thread's last record */
};

static_assert(sizeof(struct record_head) == RECORD_ALIGN, "first pair of words of the check");

/* The longest body with its tail. */
#define RECORD_MAX_LEN (RECORD_CHUNK_LEN - sizeof(struct record_chunk) - sizeof(struct record_head))

static_assert(RECORD_CHUNK_LEN - sizeof(struct record_chunk) <= UINT16_MAX, "record_head.size");

enum record_type {
	RECORD_VERB = 1,
	RECORD_OBJECT,
	RECORD_SEND,
	RECORD_RECV,
	RECORD_COMPLETION,
	RECORD_EVENT,
	RECORD_PATH,
	RECORD_PACKET,
	RECORD_ENGINE,
	RECORD_STACK,
	RECORD_MODULE,
	RECORD_FAULT,
	RECORD_DEVICE,
	RECORD_TYPES
};

/* Of objects. */
enum record_kind {
	RECORD_CONTEXT = 1,
	RECORD_PD,
	RECORD_MR,
	RECORD_MW,
	RECORD_CHANNEL,
	RECORD_CQ,
	RECORD_SRQ,
	RECORD_QP,
	RECORD_WQ,
	RECORD_AH,
	RECORD_XRCD,
	RECORD_DM,
	RECORD_COUNTERS,
	RECORD_FLOW,
	RECORD_PORT
};

/*
 * A call that returned.  Tail: its arguments, 64 bits each, in the order of its prototype.  Of the
 * data path only calls that failed, and those of poll_cq that took completions: their number is in
 * place of the last argument.
 */
struct record_verb {
	uint16_t verb; /* enum verb */
	uint16_t zero;
	int32_t result; /* errno; 0: success */
	uint64_t took;  /* ns; 0: not measured; the record's time is that of the return */
};

enum record_change { RECORD_CREATED, RECORD_DESTROYED, RECORD_STATE };

struct record_object {
	uint64_t handle; /* as verbs' arguments name it */
	uint64_t parent; /* handle of the PD or the context */
	uint32_t number; /* QP, CQ or SRQ number, key, port */
	uint16_t kind;   /* enum record_kind */
	uint16_t change; /* enum record_change */
	uint32_t state;  /* of a QP or port: after the change */
	uint32_t reason; /* of a QP: its type, enum ibv_qp_type */
};

/*
 * A work request of a send queue, as posted.  (qpn, index) names it: index counts the requests of a
 * queue from 0 and wraps.
 */
struct record_send {
	uint64_t wr_id;
	uint64_t remote_addr;
	uint32_t qpn;
	uint32_t index;
	uint32_t length;
	uint32_t rkey;
	uint32_t imm;    /* immediate data, or the key to invalidate */
	uint32_t flags;  /* enum ibv_send_flags */
	uint16_t opcode; /* enum ibv_wr_opcode */
	uint16_t num_sge;
	uint32_t zero;
};

struct record_recv {
	uint64_t wr_id;
	uint32_t number; /* of the QP, SRQ or WQ */
	uint32_t index;  /* of the request in that queue */
	uint32_t length;
	uint16_t kind; /* enum record_kind of `number` */
	uint16_t num_sge;
};

struct record_completion {
	uint64_t wr_id;
	uint32_t qpn;
	uint32_t cqn;
	uint32_t number; /* the queue that the work request was posted to, */
	uint32_t index;  /* and its index there */
	uint32_t length;
	uint32_t flags;  /* enum ibv_wc_flags */
	uint16_t kind;   /* RECORD_QP, RECORD_SRQ or RECORD_WQ */
	uint16_t opcode; /* enum ibv_wc_opcode */
	uint16_t status; /* enum ibv_wc_status */
	uint16_t reason; /* wq/reason.def */
};

#define RECORD_CQ_EVENT 0xffff /* a completion event; the others are enum ibv_event_type */

struct record_event {
	uint64_t handle; /* of the object that it is about */
	uint32_t number;
	uint16_t kind;
	uint16_t event;
};

/* Addresses that packets name by `id`; precedes the first of these packets. */
struct record_path {
	uint32_t id;
	uint16_t src_port; /* UDP */
	uint8_t traffic_class;
	uint8_t hop_limit;
	uint8_t src[16]; /* GIDs of the packets that leave */
	uint8_t dst[16];
};

/* The device that packets with this path pass. Tail: its name. Follows RECORD_PATH. */
struct record_device {
	uint32_t path;
	uint32_t zero;
	uint64_t guid;
};

enum record_way { RECORD_OUT, RECORD_IN };
enum record_transport { RECORD_WIRE, RECORD_LOCAL };

/* Tail: the packet from its BTH on, as much of it as was kept; a local message's as it would be. */
struct record_packet {
	uint32_t qpn; /* ours */
	uint32_t path;
	uint32_t index;    /* of the send or receive that it belongs to */
	uint32_t length;   /* from the BTH to the ICRC */
	uint8_t way;       /* enum record_way */
	uint8_t transport; /* enum record_transport */
	uint16_t kind;     /* of the queue of `index`; 0: it belongs to none */
	uint32_t zero;
};

struct record_engine {
	uint32_t qpn;
	uint32_t psn;
	uint16_t what;   /* enum note */
	uint16_t reason; /* wq/reason.def */
	uint32_t value;
};

/*
 * RECORD_STACK has a tail only: return addresses, the innermost first, of the thread's record
 * before it. The modules that they point into come before that one.
 */

/* Where a file is mapped, from its first segment to the end of its last. Tail: its path. */
struct record_module {
	uint64_t base;
	uint64_t length;
};

/* A fault on purpose strikes.  Tail: its rule as text. */
struct record_fault {
	uint64_t count; /* of the occasions that the rule matched, from 1 */
	uint32_t qpn;   /* 0: no QP's */
	uint32_t rule;  /* its number, from 1 */
	uint16_t kind;  /* enum fault_kind */
	uint16_t what;  /* enum fault_what */
	uint8_t direction; /* enum fault_direction; 0: none */
	uint8_t opcode;    /* of a packet or message: BTH */
	uint16_t zero;
	uint32_t psn;
	uint32_t zero2;
};

/* Of each type: its name, the size of its struct, and the unit of its tail (0: it has none). */
struct record_type_info {
	const char *name;
	uint16_t size;
	uint16_t unit;
};

/* NULL: no type of this version. */
const struct record_type_info *record_type_info(unsigned int type);

/* E.g. "create_qp"; NULL: no verb of this version. */
const char *record_verb_name(unsigned int number);

static inline uint64_t record_chunk_offset(uint64_t n)
{
	return RECORD_HEADER_LEN + n * RECORD_CHUNK_LEN;
}

/* Bytes that a record with a body of len takes. */
static inline size_t record_size(size_t len)
{
	return (sizeof(struct record_head) + len + RECORD_ALIGN - 1) & ~(size_t)(RECORD_ALIGN - 1);
}

static inline uint64_t record_fold(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Seed of the checksums of a chunk's records; it differs in each use of a place in the file. */
static inline uint64_t record_seed(uint64_t state, uint64_t time, uint32_t tid)
{
	return record_fold((state | RECORD_OPEN) ^ 0x9e3779b97f4a7c15ull,
			   record_fold(time ^ 0xbf58476d1ce4e5b9ull, tid ^ 0x94d049bb133111ebull) |
				   1);
}

/* The first word of a record, the members before its time. */
static inline uint64_t record_first(size_t size, unsigned int type, size_t pad, uint32_t check)
{
	const struct record_head head = { (uint16_t)size, (uint8_t)type, (uint8_t)pad, check, 0 };
	uint64_t first;

	memcpy(&first, &head, sizeof(first));
	return first;
}

/*
 * The checksum of a record whose first word, without a checksum, is `first`.  One multiplication
 * for 16 bytes, all independent.  It detects accidents, not forgery.
 */
static inline uint32_t record_check(uint64_t seed, uint64_t first, const void *record, size_t size)
{
	const uint8_t *p = record;
	uint64_t odd = 0x94d049bb133111ebull, sum, w[2];

	memcpy(w, p, sizeof(w));
	sum = record_fold(first ^ seed, w[1] ^ odd);
	for (size_t at = sizeof(w); at < size; at += sizeof(w)) {
		memcpy(w, p + at, sizeof(w));
		sum += record_fold(w[0] ^ seed, w[1] ^ (odd + at));
	}
	return (uint32_t)(sum ^ sum >> 32);
}

#endif
