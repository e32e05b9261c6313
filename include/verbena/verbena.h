/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libverbena: packets through RDMA verbs, on a level above them.
 *
 * A context owns everything that one queue pair needs: device, protection domain, channels, completion queues.
 * Builders turn packet buffers into work requests and scatter lists; a loop takes completions, shows them to a
 * callback and posts the requests again; flow rules come from a plain struct.  Everything below is in plain sight:
 * the members of the structs are ordinary verbs objects, and any verb may be used on them.
 *
 * Calls that return int give 0, or -1 with errno set; calls that return a pointer give NULL with errno set.
 * verbena_error() has the sentence to it.  Unless a call says otherwise it may be used from several threads as long
 * as they work on different contexts.  verbena(3)
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
	VERBENA_MAX = -1, /* of a size: as much as the device has */
};

/*
 * How to create a context.  verbena_context_options_init() gives every member its default, so that programs built
 * with this header go on with later libraries, and the other way round.
 */
struct verbena_context_options {
	size_t size; /* of this struct, as the program knows it */
	bool force;  /* false: a port that is not active is an error */

	/* Sizes, at least; VERBENA_MAX or 1 (the default) and more. */
	int send_cqe, recv_cqe;		/* entries of the completion queues; made to hold the requests */
	int max_send_wr, max_recv_wr;	/* work requests posted at a time; 0 is allowed */
	int max_send_sge, max_recv_sge; /* elements of a scatter list; 0 is allowed */

	/* Whether completions raise events (true).  Without, verbena_repost_loop() polls and never sleeps. */
	bool req_notify_send, req_notify_recv;
	bool solicited_only_send, solicited_only_recv; /* only events that the sender solicits (false) */

	/* For experts. */
	int comp_vector;	  /* of both completion queues (0) */
	uint32_t max_inline_data; /* bytes (0) */
	enum ibv_qp_type qp_type; /* IBV_QPT_RAW_PACKET; or _RC, _UC, _UD */

	/* For queue pairs that talk to queue pairs. */
	int gid_index;		      /* our address; -1: choose, IPv4 first */
	uint32_t qkey;		      /* UD: what senders must know (0) */
	unsigned int qp_access_flags; /* RC, UC: what the peer may do, enum ibv_access_flags (0) */
};

/* Everything is the library's: to be read and to be passed to verbs, not to be changed. */
struct verbena_context {
	const char *dev_name;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *send_comp_channel, *recv_comp_channel; /* their descriptors do not block */
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_qp *qp; /* every send raises a completion (sq_sig_all) */
	struct ibv_ah *ah; /* UD: the way to the peer of verbena_connect(); else NULL */
	struct ibv_wc *send_wcs, *recv_wcs; /* send_cqe and recv_cqe of them; where the loop puts completions */

	/* What there is, which may be more than was asked for. */
	uint32_t send_cqe, recv_cqe;
	uint32_t max_send_wr, max_recv_wr;
	uint32_t max_send_sge, max_recv_sge;
	uint32_t max_inline_data;

	uint8_t port_num;
};

/* Sets the defaults; size is sizeof(*options).  EINVAL: NULL, or a size that no version of the struct had. */
int verbena_context_options_init(struct verbena_context_options *options, size_t size);

/*
 * Opens the device of that name (ibv_devices(1)) and creates all objects, the queue pair in state INIT.  options
 * NULL: the defaults.  Free with verbena_destroy_context().
 *
 * EINVAL: an argument or option out of range.  E2BIG: the options are of a later version and use what this library
 * does not know.  ENODEV: no such device.  ENETDOWN: the port is not active.  EPERM: the right is missing
 * (CAP_NET_RAW for raw packets).  ENOMEM.  Others as the verb that failed.
 */
struct verbena_context *verbena_create_context(const char *dev_name, unsigned int port_num,
					       const struct verbena_context_options *options);

/*
 * Destroys everything in ctx; NULL is fine.  No other thread may use it.  EBUSY: memory regions, flow rules or other
 * objects of the program's are left on it.  Then nothing but the call itself may follow, after they are gone.
 */
int verbena_destroy_context(struct verbena_context *ctx);

/*
 * Has the device one capability, of enum ibv_device_cap_flags or, for the second call, of enum
 * ibv_raw_packet_caps?  The numbers of the two overlap, hence two calls.  cap must be exactly one that the header
 * names: else false, with errno EINVAL.  Thread-safe.
 */
bool verbena_hascapability(const struct verbena_context *ctx, uint64_t cap);
bool verbena_hascapability_raw(const struct verbena_context *ctx, uint32_t cap);

/* ---- Peers: for RC, UC and UD.  verbena_connect(3) ---- */

/* Where a queue pair can be reached: 32 bytes to be carried to the peer by any means, integers in host order. */
struct verbena_address {
	union ibv_gid gid;
	uint32_t qpn;
	uint32_t psn;  /* the first that we send */
	uint32_t qkey; /* UD */
	uint16_t lid;
	uint8_t mtu; /* enum ibv_mtu */
	uint8_t reserved;
};

/* Our own, for the peer. EOPNOTSUPP: raw packets have no such address. */
int verbena_get_address(const struct verbena_context *ctx, struct verbena_address *address);

/*
 * Names the peer.  RC, UC: takes effect when the queue pair leaves INIT (verbena_post_wrs() with modify_qp).
 * UD: makes ctx->ah, and verbena_create_send_wrs() addresses its requests to the peer; may be called again for
 * another one when no request that uses the old ctx->ah is posted.
 * EINVAL: not an address.  EISCONN: RC or UC beyond INIT.  EOPNOTSUPP: raw packets.
 */
int verbena_connect(struct verbena_context *ctx, const struct verbena_address *peer);

/* ---- Work requests from packet buffers.  verbena_create_sges(3), verbena_create_send_wrs(3) ---- */

/*
 * Packets, or one part of each packet (all headers, all payloads), one behind the other.  A row may end in padding
 * that only serves the alignment of the next.
 */
struct verbena_buf {
	void *addr;
	size_t row;	/* bytes from one packet to the next, padding included */
	size_t num_pkt; /* rows */
	size_t npad;	/* bytes of padding at the end of each row; less than row */
};

/*
 * Scatter lists for the first num_wr packets: element b of packet i is at [i * num_bufs + b], points to row i of
 * bufs[b], is row - npad bytes long and has lkeys[b].  All bufs must have the same num_pkt, which num_wr must not
 * exceed.  Free with free().  EINVAL: any of that, a NULL, a zero, npad >= row, a length beyond 32 bits.  ENOMEM.
 * Thread-safe.
 */
struct ibv_sge *verbena_create_sges(const struct verbena_buf *bufs, uint32_t num_bufs, const uint32_t *lkeys,
				    uint32_t num_wr);

/* Work requests with their scatter lists: wrs[i].wr_id is i, each is linked to the next. */
struct verbena_send_wrs {
	struct ibv_send_wr *wrs;
	struct ibv_sge *sges; /* num_bufs for each request */
	struct ibv_mr **mrs;  /* num_bufs that the call registered; NULL if it was given some */
	uint32_t num_wr, num_bufs;
};

struct verbena_recv_wrs {
	struct ibv_recv_wr *wrs;
	struct ibv_sge *sges;
	struct ibv_mr **mrs;
	uint32_t num_wr, num_bufs;
};

enum verbena_wrs_flags {
	VERBENA_POST = 1 << 0,	  /* post them all, with modify_qp */
	VERBENA_OFFLOAD = 1 << 1, /* sends: the device fills in the checksums of IP, TCP and UDP */
};

/*
 * Registers bufs with ctx (IBV_ACCESS_LOCAL_WRITE), builds a work request for each of the first num_wr packets, a
 * send being a signaled IBV_WR_SEND, and posts them if flags say so.  flags: enum verbena_wrs_flags.  The buffers
 * stay the program's; *set is written only on success.  Free with verbena_destroy_send_wrs(), _recv_wrs().
 * EINVAL as verbena_create_sges(), or an unknown flag.  Others as ibv_reg_mr(3) and verbena_post_wrs().
 */
int verbena_create_send_wrs(struct verbena_context *ctx, const struct verbena_buf *bufs, uint32_t num_bufs,
			    uint32_t num_wr, unsigned int flags, struct verbena_send_wrs *set);
int verbena_create_recv_wrs(struct verbena_context *ctx, const struct verbena_buf *bufs, uint32_t num_bufs,
			    uint32_t num_wr, unsigned int flags, struct verbena_recv_wrs *set);

/*
 * The same for memory that is registered: bufs[b] lies within mrs[b], which stays the program's.  Nothing is
 * posted, and sends of UD have no address yet.  EINVAL also for a buf outside its region.  Thread-safe.
 */
int verbena_create_send_wrs_mrs(struct ibv_mr *const *mrs, const struct verbena_buf *bufs, uint32_t num_bufs,
				uint32_t num_wr, struct verbena_send_wrs *set);
int verbena_create_recv_wrs_mrs(struct ibv_mr *const *mrs, const struct verbena_buf *bufs, uint32_t num_bufs,
				uint32_t num_wr, struct verbena_recv_wrs *set);

/*
 * Frees the arrays, deregisters what the call registered, and zeroes *set; NULL and zeroes are fine.  Requests that
 * are still posted would complete with IBV_WC_LOC_PROT_ERR.
 */
int verbena_destroy_send_wrs(struct verbena_send_wrs *set);
int verbena_destroy_recv_wrs(struct verbena_recv_wrs *set);

/* ---- Posting.  verbena_post_wrs(3), verbena_repost_loop(3) ---- */

/*
 * Posts a list of work requests.  With modify_qp the queue pair is taken to where they can be served: for sends to
 * RTS before, for receives to RTR (or it stays beyond) after posting; from ERROR by way of RESET, which forgets what
 * was posted.  ENOTCONN: RC or UC without verbena_connect().  EINVAL, ENOMEM: as ibv_post_send(3); verbena_error()
 * names the wr_id, the requests before it are posted.  Sends and receives may be posted by one thread each.
 */
int verbena_post_send_wrs(struct verbena_context *ctx, struct ibv_send_wr *wr, bool modify_qp);
int verbena_post_recv_wrs(struct verbena_context *ctx, struct ibv_recv_wr *wr, bool modify_qp);

/*
 * Sees completions wcs[0] to wcs[num_wc - 1], num_wc 0 after a timeout; wrs and arg as given to the loop.  Gives the
 * requests of the first completions, which are wrs[wcs[0].wr_id] and so on, their next buffers, and returns how many
 * of them to post again; more than num_wc counts as num_wc.  Negative ends the loop.
 */
typedef int (*verbena_send_callback)(struct ibv_wc *wcs, int num_wc, struct ibv_send_wr *wrs, void *arg);
typedef int (*verbena_recv_callback)(struct ibv_wc *wcs, int num_wc, struct ibv_recv_wr *wrs, void *arg);

/*
 * Takes completions of ctx, calls back for each batch, and when timeout_ms milliseconds have passed without one;
 * negative: waits for ever.  wrs: all num_wr requests in use, the wr_id of each being its index.  Signals do not end
 * the wait.  Allocates nothing.  One thread for sends and one for receives may loop on a context.
 *
 * 0 when the callback ended it.  EINVAL: an argument, or a completion that is to be posted again has a wr_id that is
 * no index.  Others as ibv_poll_cq(3), ibv_post_send(3), poll(2).
 */
int verbena_repost_send_loop(verbena_send_callback callback, struct verbena_context *ctx, struct ibv_send_wr *wrs,
			     uint32_t num_wr, int timeout_ms, void *arg);
int verbena_repost_recv_loop(verbena_recv_callback callback, struct verbena_context *ctx, struct ibv_recv_wr *wrs,
			     uint32_t num_wr, int timeout_ms, void *arg);

/* ---- Flow rules: which packets are received.  verbena_create_flow(3) ---- */

enum verbena_tcpudp {
	VERBENA_UDP, /* the default */
	VERBENA_TCP,
};

/* What a rule matches.  A selector of 0 matches everything; integers are in host byte order. */
struct verbena_flow_options {
	size_t size; /* of this struct, as the program knows it */

	enum ibv_flow_attr_type flow_type; /* IBV_FLOW_ATTR_NORMAL; or _ALL_DEFAULT, _MC_DEFAULT, _SNIFFER */
	uint16_t priority;		   /* 0: first */
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
	enum verbena_tcpudp tcpudp; /* what dport and sport belong to; alone it selects nothing (proto does) */
};

/* Sets the defaults: a normal rule of first priority that matches everything.  size is sizeof(*options). */
int verbena_flow_options_init(struct verbena_flow_options *options, size_t size);

/*
 * A rule for ctx's queue pair and port, or for any queue pair; options NULL: the defaults.  Free with
 * verbena_destroy_flow().  EINVAL, E2BIG: as verbena_create_context().  Others as ibv_create_flow(3).
 */
struct ibv_flow *verbena_create_flow(struct verbena_context *ctx, const struct verbena_flow_options *options);
struct ibv_flow *verbena_create_flow_qp(struct ibv_qp *qp, unsigned int port_num,
					const struct verbena_flow_options *options);

/* The rule ends: its packets are no longer received.  NULL is fine. */
int verbena_destroy_flow(struct ibv_flow *flow);

/* ---- Errors ---- */

/* What failed last in this thread, and why: one line without a newline, "" at first.  Valid until the next failure. */
const char *verbena_error(void);

#ifdef __cplusplus
}

/* By the type of the requests. */
static inline int verbena_post_wrs(struct verbena_context *ctx, struct ibv_send_wr *wr, bool modify_qp)
{
	return verbena_post_send_wrs(ctx, wr, modify_qp);
}

static inline int verbena_post_wrs(struct verbena_context *ctx, struct ibv_recv_wr *wr, bool modify_qp)
{
	return verbena_post_recv_wrs(ctx, wr, modify_qp);
}

static inline int verbena_repost_loop(verbena_send_callback callback, struct verbena_context *ctx,
				      struct ibv_send_wr *wrs, uint32_t num_wr, int timeout_ms, void *arg)
{
	return verbena_repost_send_loop(callback, ctx, wrs, num_wr, timeout_ms, arg);
}

static inline int verbena_repost_loop(verbena_recv_callback callback, struct verbena_context *ctx,
				      struct ibv_recv_wr *wrs, uint32_t num_wr, int timeout_ms, void *arg)
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
