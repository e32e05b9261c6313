/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private definitions of libverbena. The library is outside the layers: it uses only public verbs,
 * takes no lock and starts no thread.
 *
 * One thread may send and another receive on a context. Shared members are written only while the
 * context is created or connected; error texts are per thread.
 */
#ifndef VERBENA_PRIVATE_H
#define VERBENA_PRIVATE_H

#include <verbena/verbena.h>

#define API __attribute__((visibility("default")))
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

struct context {
	struct verbena_context pub; /* first: the two are converted into each other */
	char dev_name[64];
	struct verbena_context_options opt; /* with sizes as resolved */
	struct verbena_address self;	    /* unused for raw packets */
	struct verbena_address peer;
	bool connected; /* peer is valid */
	uint8_t gid_index;
	uint8_t mtu; /* enum ibv_mtu of the port */
	uint8_t max_rd_atomic, max_dest_rd_atomic;
};

static inline struct context *of_pub(struct verbena_context *pub)
{
	return (struct context *)pub;
}

static inline const struct context *of_const_pub(const struct verbena_context *pub)
{
	return (const struct context *)pub;
}

/* Sets errno and the message, and appends the text of err. Returns -1. */
int fail(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* As fail(), for a work request that could not be posted. */
int fail_wr(int err, const char *verb, uint64_t wr_id);

/* Returns 0 if num_wr packets of bufs can be described; else -1 with EINVAL. */
int bufs_check(const struct verbena_buf *bufs, uint32_t num_bufs, uint32_t num_wr);

/*
 * Copies a program's struct, whose first member is its size, into ours of `known` bytes. Returns 0,
 * EINVAL or E2BIG, and reports errors. `what` names the struct in the message.
 */
int options_copy(void *to, size_t known, const void *from, const char *what);

/* Stores the defaults for the part of the struct that both sides know. Returns 0 or -1. */
int options_init(void *options, size_t size, const void *defaults, size_t known, const char *what);

/* path.c: finds ctx->self and ctx->gid_index. Returns 0 or -1. */
int path_find_self(struct context *ctx);

/* path.c: ENOTCONN if the QP's type needs a peer and has none. Returns 0 or -1. */
int path_check(struct context *ctx);

/* path.c: transitions. Each moves the QP on from any state. Returns 0 or -1. */
int qp_to_init(struct context *ctx);	   /* from RESET and ERROR; else no effect */
int qp_to_receiving(struct context *ctx); /* to RTR, unless it is beyond */
int qp_to_sending(struct context *ctx);   /* to RTS */

#endif
