/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ties between records: a completion to its work request, a packet to the request that it is part
 * of, and a packet that came in to the one that left. Records are numbered in the order of time.
 */
#ifndef VRB_TOOL_TRACE_TIE_H
#define VRB_TOOL_TRACE_TIE_H

#include "trace.h"
#include "trace_map.h"

/* Where something happens: a QP, SRQ, WQ or CQ, or, with kind 0, a thread. */
struct trace_track {
	size_t file;
	uint32_t number;
	uint16_t kind;	/* enum record_kind */
};

struct trace_tie {
	uint32_t track;
	/* Of a completion and a stack: its work request; of a packet that left: that of which it is
	 * part. */
	uint32_t request;
	/* Of a packet: the one at the other end, if that came before. */
	uint32_t other;
};

/* The device that packets with a path pass. */
struct trace_device {
	uint64_t guid;
	char name[64];	/* empty: not known */
};

struct trace_ties {
	bool clocks;	/* several: a packet may seem to come before it left */
	struct trace_map posts, packets, paths, by_name, last_posts;
	struct trace_track *track;
	uint32_t n_tracks, room;
	struct record_path *path;
	struct trace_device *device;	/* of each path */
	uint32_t n_paths, path_room;
};

/* All of the next record, whose number is n; TRACE_NONE where there is none. */
void trace_tie(struct trace_ties *t, const struct record *r, uint32_t n, struct trace_tie *tie);

/* The track of that name; made if need be. */
uint32_t trace_track(struct trace_ties *t, size_t file, unsigned int kind, uint32_t number);

/* The path of a packet; NULL: the recording does not say. */
const struct record_path *trace_path(const struct trace_ties *t, const struct record *r);

/* Its device, beside that. */
const struct trace_device *trace_device(const struct trace_ties *t, const struct record *r);

/* To be called for each record, where trace_tie() is not: paths and devices. */
void trace_remember(struct trace_ties *t, const struct record *r);

/* What both ends know of a packet, and `way`; false: it does not say enough. */
bool trace_packet_key(const struct trace_ties *t, const struct record *r, unsigned int way,
		      struct trace_key *key);

/* Fields of a packet's BTH, of TRACE_BTH bytes. */
enum { TRACE_BTH = 12 };
static inline uint32_t trace_bth_qpn(const uint8_t *bth)
{
	return (uint32_t)bth[5] << 16 | (uint32_t)bth[6] << 8 | bth[7];
}

static inline uint32_t trace_bth_psn(const uint8_t *bth)
{
	return (uint32_t)bth[9] << 16 | (uint32_t)bth[10] << 8 | bth[11];
}

void trace_ties_free(struct trace_ties *t);

#endif
