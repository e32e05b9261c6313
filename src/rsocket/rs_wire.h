/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protocol of stream rsockets in host byte order: private data of connection messages, buffer
 * announcements written into the peer's memory, and immediate data.  All access to their wire
 * format is in rs_wire.c.
 */
#ifndef VRB_RSOCKET_RS_WIRE_H
#define VRB_RSOCKET_RS_WIRE_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	RS_VERSION = 1,
	RS_CONN_LEN = 40,  /* private data of REQ and REP */
	RS_SGE_LEN = 16,   /* one announced buffer */
	RS_IOMAP_LEN = 24, /* one announced mapping */
	RS_SGL_ENTRIES = 2,
	RS_RESET_LEN = 24, /* private data of a DREQ */

	RS_IMM_BITS = 29, /* bits of a message's argument */
};

/* Memory of the peer. */
struct rs_region {
	uint64_t addr;
	uint32_t key;
	uint32_t length;
};

/* The order in which this machine reads announcements. */
#define RS_BIG_ENDIAN (BYTE_ORDER == BIG_ENDIAN)

struct rs_conn {
	bool big_endian; /* byte order of announcements to the sender */
	bool iomap;      /* it has a table of mappings after its announcements */
	uint16_t credits;
	uint32_t iomap_size;   /* entries */
	struct rs_region sgl;  /* destination of announcements; length in entries */
	struct rs_region ring; /* first buffer for data */
};

struct rs_mapping {
	uint64_t offset;
	struct rs_region to;
};

enum rs_op {
	RS_OP_DATA = 0,  /* data was written; argument: number of bytes */
	RS_OP_SGL = 4,   /* a buffer was announced, or credits granted; argument: the new limit */
	RS_OP_IOMAP = 6, /* a mapping was announced; argument: its index */
	RS_OP_CTRL = 7,  /* argument: enum rs_ctrl */
};

enum rs_ctrl {
	RS_CTRL_DISCONNECT,
	RS_CTRL_KEEPALIVE,
	RS_CTRL_SHUTDOWN,
};

void rs_conn_encode(uint8_t out[RS_CONN_LEN], const struct rs_conn *c);

/*
 * Returns 0, EPROTO (too short, or invalid) or ENOTSUP (other version).  Bytes after RS_CONN_LEN
 * are ignored.
 */
int rs_conn_decode(const uint8_t *data, size_t len, struct rs_conn *c);

/* Encodes a number of mappings in 8 bits; rounded down if above 128. */
uint8_t rs_scale8(uint32_t count);
uint32_t rs_unscale8(uint8_t v);

/* Announcements, in the byte order that the receiver requested. */
void rs_sge_encode(uint8_t out[RS_SGE_LEN], const struct rs_region *r, bool big_endian);
void rs_sge_decode(const uint8_t in[RS_SGE_LEN], struct rs_region *r);
void rs_mapping_encode(uint8_t out[RS_IOMAP_LEN], const struct rs_mapping *m, bool big_endian);
void rs_mapping_decode(const uint8_t in[RS_IOMAP_LEN], struct rs_mapping *m);

/*
 * Private data of the DREQ of a stream whose sender has given up: how many bytes it has sent, not
 * all of which may have arrived; RS_BROKEN: the stream has failed.  The stock library's DREQs have
 * no such data, and it ignores ours.
 */
#define RS_BROKEN UINT64_MAX
void rs_reset_encode(uint8_t out[RS_RESET_LEN], uint64_t sent);

/* Returns false if the data is something else. */
bool rs_reset_decode(const uint8_t in[RS_RESET_LEN], uint64_t *sent);

/* Immediate data, in host order. */
static inline uint32_t rs_imm(enum rs_op op, uint32_t arg)
{
	return (uint32_t)op << RS_IMM_BITS | (arg & ((1U << RS_IMM_BITS) - 1));
}

static inline unsigned int rs_imm_op(uint32_t imm)
{
	return imm >> RS_IMM_BITS;
}

static inline uint32_t rs_imm_arg(uint32_t imm)
{
	return imm & ((1U << RS_IMM_BITS) - 1);
}

#endif
