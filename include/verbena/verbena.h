/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libverbena: packets through RDMA verbs, as a layer above them.
 *
 * A context owns all objects that one queue pair needs: device, protection domain, channels,
 * completion queues.  Builders turn packet buffers into work requests and scatter lists; a loop
 * polls completions, passes them to a callback and posts the requests again; flow rules are created
 * from a plain struct.  The members of the structs are ordinary verbs objects, and any verb may be
 * used on them.
 *
 * Calls that return int: 0, or -1 with errno.  Calls that return a pointer: NULL with errno.
 * verbena_error() returns the error as text.  Unless stated otherwise, threads may make calls at
 * the same time on different contexts only.  verbena(3)
 */
#ifndef VERBENA_VERBENA_H
#define VERBENA_VERBENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Context: one queue pair and all it needs.  verbena_create_context(3) ---- */

enum {
	VERBENA_MAX = -1, /* a size: the maximum of the device */
};

/*
 * Options of a context, to be initialized by verbena_context_options_init().  Programs built with
 * this header work with later libraries, and with earlier ones if they set no newer member.
 */
struct verbena_context_options {
	size_t size; /* of this struct, for the program */
	bool force;  /* false: a port that is not active is an error */

	/* Minimum sizes; VERBENA_MAX, or 1 (default) and more. */
	/* entries of the completion queues; raised to the number of requests */
	int send_cqe, recv_cqe;
	int max_send_wr, max_recv_wr;	/* work requests posted at a time; 0 is allowed */
	int max_send_sge, max_recv_sge; /* elements of a scatter list; 0 is allowed */

	/*
	 * Completions raise events (default true).  If not, verbena_repost_loop() polls instead of
	 * sleeping.
	 */
	bool req_notify_send, req_notify_recv;
	/* events only for solicited completions (default false) */
	bool solicited_only_send, solicited_only_recv;

	/* Rarely needed. */
	int comp_vector;	  /* of both completion queues, 0 (default) and more */
	uint32_t max_inline_data; /* bytes (0) */
	enum ibv_qp_type qp_type; /* IBV_QPT_RAW_PACKET; or _RC, _UC, _UD */

	/* Not for raw packets. */
	int gid_index; /* our address in the GID table; -1 (default): choose, IPv4 first */
	uint32_t qkey;		      /* UD: required of datagrams to us (0) */
	unsigned int qp_access_flags; /* RC, UC: access of the peer, enum ibv_access_flags (0) */
};

/* Read-only; owned by the library.  The members may be passed to verbs. */
struct verbena_context {
	const char *dev_name;
	struct ibv_context *context;
	struct ibv_pd *pd;
	/* their descriptors are non-blocking */
	struct ibv_comp_channel *send_comp_channel, *recv_comp_channel;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_qp *qp; /* every send raises a completion (sq_sig_all) */
	struct ibv_ah *ah; /* UD: to the peer of verbena_connect(); else NULL */
	/* send_cqe and recv_cqe completions, for verbena_repost_loop() */
	struct ibv_wc *send_wcs, *recv_wcs;

	/* Actual sizes, which may exceed those requested. */
	uint32_t send_cqe, recv_cqe;
	uint32_t max_send_wr, max_recv_wr;
	uint32_t max_send_sge, max_recv_sge;
	uint32_t max_inline_data;

	uint8_t port_num;
};

/*
 * Sets the defaults; size is sizeof(*options).  EINVAL: NULL, or a size that no version of the
 * struct has.  Thread-safe.
 */
int verbena_context_options_init(struct verbena_context_options *options, size_t size);

/*
 * Opens the named device (ibv_devices(1)) and creates all objects, the queue pair in state INIT.
 * port_num: 1 and more.  options NULL: the defaults.  Copies its arguments.  Free the context with
 * verbena_destroy_context().  Thread-safe.
 *
 * EINVAL: an argument or option out of range.  E2BIG: a member of a later version is set.  ENODEV:
 * no such device.  ENETDOWN: the port is not active.  EADDRNOTAVAIL: the port has no address.
 * EPERM: no CAP_NET_RAW, for raw packets.  ENOMEM.  Others as the verb that failed.
 */
struct verbena_context *verbena_create_context(const char *dev_name, unsigned int port_num,
					       const struct verbena_context_options *options);

/*
 * Destroys the context and all its objects; NULL is allowed.  No other thread may use it.  EBUSY:
 * memory regions, flow rules or other objects of the program exist on it; destroy them and call it
 * again, no other call is allowed.
 */
int verbena_destroy_context(struct verbena_context *ctx);

/*
 * True if the device has this capability, of enum ibv_device_cap_flags or, for the second call, of
 * enum ibv_raw_packet_caps, whose values overlap.  cap must be exactly one that the header names;
 * else false with errno EINVAL.  Thread-safe.
 */
bool verbena_hascapability(const struct verbena_context *ctx, uint64_t cap);
bool verbena_hascapability_raw(const struct verbena_context *ctx, uint32_t cap);

/* ---- Peers: for RC, UC and UD.  verbena_connect(3) ---- */

/*
 * Address of a queue pair, to be sent to the peer by any means: 32 bytes, integers in host byte
 * order.
 */
struct verbena_address {
	union ibv_gid gid;
	uint32_t qpn;
	uint32_t psn;  /* first PSN that we send */
	uint32_t qkey; /* UD */
	uint16_t lid;
	uint8_t mtu; /* enum ibv_mtu */
	uint8_t reserved;
};

/* Returns our address.  EOPNOTSUPP: raw packets have none.  Thread-safe. */
int verbena_get_address(const struct verbena_context *ctx, struct verbena_address *address);

/*
 * Sets the peer, of which a copy is kept.  RC, UC: takes effect when the queue pair leaves INIT
 * (verbena_post_wrs() with modify_qp).  UD: creates ctx->ah, and verbena_create_send_wrs()
 * addresses its requests to the peer; may be called again for another peer when no posted request
 * uses the old ctx->ah.  EINVAL: invalid address.  EISCONN: RC or UC after INIT.  EOPNOTSUPP: raw
 * packets.
 */
int verbena_connect(struct verbena_context *ctx, const struct verbena_address *peer);

/* ---- Work requests for packet buffers.  verbena_create_send_wrs(3) ---- */

/*
 * Packets, or one part of each packet (all headers, all payloads), in consecutive rows.  A row may
 * end with padding that aligns the next one.
 */
struct verbena_buf {
	void *addr;
	size_t row;	/* bytes from one packet to the next, including padding */
	size_t num_pkt; /* rows */
	size_t npad;	/* bytes of padding at the end of each row; less than row */
};

/*
 * Creates scatter lists for the first num_wr packets: element b of packet i is at [i * num_bufs +
 * b], points to row i of bufs[b], is row - npad bytes long and has lkeys[b].  All bufs must have
 * the same num_pkt, which num_wr must not exceed.  Free with free().  EINVAL: otherwise; NULL,
 * zero, npad >= row, a length of more than 32 bits.  ENOMEM.  Thread-safe.
 */
struct ibv_sge *verbena_create_sges(const struct verbena_buf *bufs, uint32_t num_bufs,
				    const uint32_t *lkeys, uint32_t num_wr);

/* Work requests with their scatter lists: wrs[i].wr_id is i, and each is linked to the next. */
struct verbena_send_wrs {
	struct ibv_send_wr *wrs;
	struct ibv_sge *sges; /* num_bufs for each request */
	struct ibv_mr **mrs;  /* num_bufs that the call registered; NULL if given */
	uint32_t num_wr, num_bufs;
};

struct verbena_recv_wrs {
	struct ibv_recv_wr *wrs;
	struct ibv_sge *sges;
	struct ibv_mr **mrs;
	uint32_t num_wr, num_bufs;
};

enum verbena_wrs_flags {
	VERBENA_POST = 1 << 0,	  /* post them, with modify_qp */
	VERBENA_OFFLOAD = 1 << 1, /* sends: the device computes the checksums of IP, TCP and UDP */
};

/*
 * Registers bufs (IBV_ACCESS_LOCAL_WRITE), creates a work request for each of the first num_wr
 * packets (a send is a signaled IBV_WR_SEND), and posts them if requested.  flags: enum
 * verbena_wrs_flags.  The buffers belong to the program; *set is written only on success.  Free
 * with verbena_destroy_send_wrs(), _recv_wrs().  EINVAL as verbena_create_sges(), or an unknown
 * flag. Others as ibv_reg_mr(3) and verbena_post_wrs().
 */
int verbena_create_send_wrs(struct verbena_context *ctx, const struct verbena_buf *bufs,
			    uint32_t num_bufs, uint32_t num_wr, unsigned int flags,
			    struct verbena_send_wrs *set);
int verbena_create_recv_wrs(struct verbena_context *ctx, const struct verbena_buf *bufs,
			    uint32_t num_bufs, uint32_t num_wr, unsigned int flags,
			    struct verbena_recv_wrs *set);

/*
 * The same for registered memory: bufs[b] lies within mrs[b], which belongs to the program.
 * Nothing is posted, and UD sends are not addressed.  EINVAL also for a buf outside its region.
 * Thread-safe.
 */
int verbena_create_send_wrs_mrs(struct ibv_mr *const *mrs, const struct verbena_buf *bufs,
				uint32_t num_bufs, uint32_t num_wr, struct verbena_send_wrs *set);
int verbena_create_recv_wrs_mrs(struct ibv_mr *const *mrs, const struct verbena_buf *bufs,
				uint32_t num_bufs, uint32_t num_wr, struct verbena_recv_wrs *set);

/*
 * Frees the arrays, deregisters the regions that the call registered, and zeroes *set; NULL and
 * zeroes are allowed.  Requests still posted complete with IBV_WC_LOC_PROT_ERR.
 */
int verbena_destroy_send_wrs(struct verbena_send_wrs *set);
int verbena_destroy_recv_wrs(struct verbena_recv_wrs *set);

/* ---- Posting.  verbena_post_wrs(3), verbena_repost_loop(3) ---- */

/*
 * Posts a list of work requests.  With modify_qp the queue pair is moved to the state in which they
 * are processed: for sends to RTS before posting, for receives to RTR (unless it is later) after
 * posting; from ERROR through RESET, which drops posted requests.  ENOTCONN: RC or UC without
 * verbena_connect().  EINVAL, ENOMEM: as ibv_post_send(3); verbena_error() has the wr_id, and the
 * requests before it are posted.  One thread may post sends and another receives.
 */
int verbena_post_send_wrs(struct verbena_context *ctx, struct ibv_send_wr *wr, bool modify_qp);
int verbena_post_recv_wrs(struct verbena_context *ctx, struct ibv_recv_wr *wr, bool modify_qp);

/*
 * Called with completions wcs[0] to wcs[num_wc - 1], num_wc 0 after a timeout; wrs and arg as
 * passed to the loop.  Sets the next buffers of the first completed requests, wrs[wcs[0].wr_id] and
 * so on, and returns how many of them to post again, at most num_wc.  A negative value ends the
 * loop.
 */
typedef int (*verbena_send_callback)(struct ibv_wc *wcs, int num_wc, struct ibv_send_wr *wrs,
				     void *arg);
typedef int (*verbena_recv_callback)(struct ibv_wc *wcs, int num_wc, struct ibv_recv_wr *wrs,
				     void *arg);

/*
 * Polls completions of ctx and calls back for each batch, and after timeout_ms milliseconds without
 * one (negative: no timeout).  wrs: all num_wr requests in use, the wr_id of each being its index.
 * Signals do not end the wait.  Allocates nothing.  One thread may loop over sends of a context and
 * another over receives.
 *
 * Returns 0 if the callback ended it.  EINVAL: an argument, or a completion to post again whose
 * wr_id is not an index.  Others as ibv_poll_cq(3), ibv_post_send(3), poll(2).
 */
int verbena_repost_send_loop(verbena_send_callback callback, struct verbena_context *ctx,
			     struct ibv_send_wr *wrs, uint32_t num_wr, int timeout_ms, void *arg);
int verbena_repost_recv_loop(verbena_recv_callback callback, struct verbena_context *ctx,
			     struct ibv_recv_wr *wrs, uint32_t num_wr, int timeout_ms, void *arg);

/* ---- Flow rules: which packets are received.  verbena_create_flow(3) ---- */

enum verbena_tcpudp {
	VERBENA_UDP, /* the default */
	VERBENA_TCP,
};

/* What a rule matches.  A selector of 0 matches everything; integers are in host byte order. */
struct verbena_flow_options {
	size_t size; /* of this struct, for the program */

	/* IBV_FLOW_ATTR_NORMAL; or _ALL_DEFAULT, _MC_DEFAULT, _SNIFFER */
	enum ibv_flow_attr_type flow_type;
	uint16_t priority;		   /* 0 is matched first */
	uint32_t flow_flags;		   /* enum ibv_flow_flags */

	/* Ethernet */
	uint8_t dmac[6], smac[6];
	uint16_t ethtype; /* 0x0800: IPv4 */
	uint16_t vlan;	  /* tag: priority, CFI and VLAN ID */

	/* IPv4 */
	uint32_t sip, dip; /* 0x0a000123: 10.0.1.35 */
	uint8_t proto;
	uint8_t tos; /* DSCP and ECN */
	uint8_t ttl;
	uint8_t flags; /* as IBV_FLOW_SPEC_IPV4_EXT has them */

	/* TCP or UDP */
	uint16_t dport, sport;
	/* protocol of dport and sport; selects nothing without these (use proto) */
	enum verbena_tcpudp tcpudp;
};

/*
 * Sets the defaults: a normal rule of priority 0 that matches everything.  size is
 * sizeof(*options). Thread-safe.
 */
int verbena_flow_options_init(struct verbena_flow_options *options, size_t size);

/*
 * Creates a rule for ctx's queue pair and port, or for another queue pair; options NULL: the
 * defaults.  Free with verbena_destroy_flow(), before the queue pair.  EINVAL, E2BIG: as
 * verbena_create_context().  Others as ibv_create_flow(3).  Thread-safe.
 */
struct ibv_flow *verbena_create_flow(struct verbena_context *ctx,
				     const struct verbena_flow_options *options);
struct ibv_flow *verbena_create_flow_qp(struct ibv_qp *qp, unsigned int port_num,
					const struct verbena_flow_options *options);

/* Removes the rule: its packets are no longer received.  NULL is allowed. */
int verbena_destroy_flow(struct ibv_flow *flow);

/* ---- Errors ---- */

/*
 * The last failure in this thread: one line without a newline, "" before the first.  Owned by the
 * library; valid until the next failure.
 */
const char *verbena_error(void);

#ifdef __cplusplus
}

/* By the type of the requests. */
static inline int verbena_post_wrs(struct verbena_context *ctx, struct ibv_send_wr *wr,
				   bool modify_qp)
{
	return verbena_post_send_wrs(ctx, wr, modify_qp);
}

static inline int verbena_post_wrs(struct verbena_context *ctx, struct ibv_recv_wr *wr,
				   bool modify_qp)
{
	return verbena_post_recv_wrs(ctx, wr, modify_qp);
}

static inline int verbena_repost_loop(verbena_send_callback callback, struct verbena_context *ctx,
				      struct ibv_send_wr *wrs, uint32_t num_wr, int timeout_ms,
				      void *arg)
{
	return verbena_repost_send_loop(callback, ctx, wrs, num_wr, timeout_ms, arg);
}

static inline int verbena_repost_loop(verbena_recv_callback callback, struct verbena_context *ctx,
				      struct ibv_recv_wr *wrs, uint32_t num_wr, int timeout_ms,
				      void *arg)
{
	return verbena_repost_recv_loop(callback, ctx, wrs, num_wr, timeout_ms, arg);
}
#else
/* By the type of the requests. */
#define verbena_post_wrs(ctx, wr, modify_qp)                                                       \
	_Generic((wr),                                                                             \
		struct ibv_send_wr *: verbena_post_send_wrs,                                       \
		struct ibv_recv_wr *: verbena_post_recv_wrs)(ctx, wr, modify_qp)

#define verbena_repost_loop(callback, ctx, wrs, num_wr, timeout_ms, arg)                           \
	_Generic((wrs),                                                                            \
		struct ibv_send_wr *: verbena_repost_send_loop,                                    \
		struct ibv_recv_wr *: verbena_repost_recv_loop)(callback, ctx, wrs, num_wr,        \
								timeout_ms, arg)
#endif

#endif
