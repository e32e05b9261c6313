/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The private interface of libibverbs for librdmacm: management datagrams of QP 1, and what the
 * processes of one host must agree on for communication management (docs/CM.md).  Exported under
 * the version node VERBENA_PRIVATE_1, which is renamed with every change: the two libraries are
 * built together and work together only so.
 *
 * QP 1 is the host's.  A MAD that arrives at any of its processes is handed to the one that it is
 * for: a request to the listener of its service id, everything else to the process that assigned
 * its communication id.  What has no addressee is answered by the process at which it arrived,
 * whether that has a librdmacm or not.
 *
 * Threads and locks.  Any thread may call, but vrb_mad_open() and vrb_mad_close() must not be
 * called in a callback.  Callbacks come from the progress thread, or from a program's that polls a
 * CQ, one at a time, and under a lock of libibverbs that verbs take (vrb.poll_lock).  So:
 *	- a lock that a callback takes must not be held where a verb is called;
 *	- vrb_mad_send(), vrb_mad_arm(), vrb_mad_at_exit(), vrb_mad_comm_id() and vrb_mad_now() may
 *	be called in callbacks and under that lock;
 *	- what binds and listens may be called under that lock, but not in a callback: it waits for
 *	other processes.
 * A callback must not wait.
 *
 * In a forked child everything that was open is the parent's: all calls fail with EIO there,
 * vrb_mad_close() frees what the child has of it.
 */
#ifndef VRB_VERBS_MAD_H
#define VRB_VERBS_MAD_H

#include <stdbool.h>
#include <stdint.h>

#include "cm/shown.h"
#include "util/net.h"

enum { VRB_MAD_LEN = 256 };

struct ibv_device;
struct ibv_context;
struct vrb_mad;

enum vrb_mad_news { VRB_MAD_DEVICE_GONE, VRB_MAD_NEW_LINK_ADDRESS };

struct vrb_mad_ops {
	/*
	 * A MAD for this process, exactly VRB_MAD_LEN bytes; its header has been looked at, and no
	 * more. path->src is the peer, path->dst ours, path->ifindex where it came in or 0.
	 */
	void (*receive)(void *arg, const struct net_path *path, const uint8_t mad[VRB_MAD_LEN],
			uint64_t now);

	/* The time of vrb_mad_arm() has come. */
	void (*timeout)(void *arg, uint64_t now);

	/*
	 * An interface has gone (all contexts of the device are dead), or has another link address.
	 * Comes under vrb.lock, also from a thread that lists devices, and beside the other
	 * callbacks.  NULL: need not be told.
	 */
	void (*device)(void *arg, const struct ibv_device *dev, enum vrb_mad_news news);

	/* Calls fn for each id. */
	void (*ids)(void *arg, cm_show_fn fn, void *to);
};

/*
 * Brings up the process's part in the host if no open context has done so yet.  Callbacks may come
 * before it returns; *out is set before the first one.  Returns 0, ENOMEM, EBUSY (one per process),
 * or what keeps the device from working; *out is NULL then.
 */
int vrb_mad_open(const struct vrb_mad_ops *ops, void *arg, struct vrb_mad **out);

/* No callback runs when it returns. Gives back all services, and forgets all exit MADs. */
void vrb_mad_close(struct vrb_mad *m);

/* The clock of deadlines, in nanoseconds. */
uint64_t vrb_mad_now(void);

/*
 * timeout() comes at `at` at the latest; does nothing if it comes earlier already. After it came,
 * there is none.
 */
void vrb_mad_arm(struct vrb_mad *m, uint64_t at);

/*
 * Sends from path->src, an address of this host, to path->dst; traffic_class, hop_limit (0: 64) and
 * flow_label count, and ifindex for link-local addresses.  To an address of this network namespace
 * nothing is lost while the receiver lives.  Returns 0, also when it is lost on the way,
 * ENETUNREACH (there is no wire), or EIO.
 */
int vrb_mad_send(struct vrb_mad *m, const struct net_path *path, const uint8_t mad[VRB_MAD_LEN]);

/*
 * ACKs that wait for more to answer leave now.  A device sends them at once; a program that says by
 * MAD what comes next must not seem to overtake what it has received.  Must hold no lock that a
 * callback takes.
 */
void vrb_mad_settle(struct vrb_mad *m);

/*
 * A communication id that no other process of the host gives out, and this one not again for 4
 * million others; never 0.
 */
uint32_t vrb_mad_comm_id(struct vrb_mad *m);

/*
 * The active MTU of a context's port, enum ibv_mtu.  ibv_query_port() also counts what each QP has
 * dropped, which a connection among thousands should not pay for.
 */
uint8_t vrb_mad_mtu(struct ibv_context *verbs);

/*
 * VERBENA_PROGRESS=none: there is no progress thread, and waiting code calls vrb_mad_poll()
 * meanwhile.  That may be called in any case: one bounded round, true if anything was done.  Not in
 * a callback, and under no lock that one takes.
 */
bool vrb_mad_polls(struct vrb_mad *m);
bool vrb_mad_poll(struct vrb_mad *m);

/*
 * What other processes send if this process dies, per communication id; mad NULL: nothing any more.
 * One per id.
 */
void vrb_mad_at_exit(struct vrb_mad *m, uint32_t comm_id, const struct net_path *path,
		  const uint8_t *mad);

/* A service id and addresses that requests for it may come to. */
struct vrb_service {
	/* the low 16 bits are the port; 0: a free one of net.ipv4.ip_local_port_range, and told
	 * here */
	uint64_t service_id;
	struct net_addr addr;	/* all zero: any */
	uint32_t ifindex;	/* of a link-local address, which is another one elsewhere */
	uint8_t family;		/* of the id: 4, 6, or 0 for AF_IB */
	bool only_family;	/* "afonly"; IPv4 always is */
	bool reuse;		/* RDMA_OPTION_ID_REUSEADDR */
};

struct vrb_binding;

/*
 * Binds, as rdma_bind_addr() does.  Returns 0, EADDRINUSE (the same address), EADDRNOTAVAIL (one of
 * the two is any, or no port is free), ENOMEM, ENOBUFS (too many share the port), EBUSY (another
 * process holds the host's table and does not go on).
 */
int vrb_mad_bind(struct vrb_mad *m, struct vrb_service *want, struct vrb_binding **out);

/*
 * Requests come here from now on. The port is not shared any more then: EADDRINUSE, EADDRNOTAVAIL
 * as above.
 */
int vrb_mad_listen(struct vrb_mad *m, struct vrb_binding *b);

/*
 * Whether an IPv6 wildcard takes IPv6 only, from now on; before it listens. Returns 0, EINVAL or
 * EBUSY.
 */
int vrb_mad_only_family(struct vrb_mad *m, struct vrb_binding *b, bool only);

void vrb_mad_unbind(struct vrb_mad *m, struct vrb_binding *b);

/*
 * Why packets to an address fail, by recent ICMP messages: EHOSTUNREACH, ECONNREFUSED ...;
 * ENETDOWN: there is no wire to other hosts; 0: nothing is known.
 */
int vrb_mad_trouble(struct vrb_mad *m, const struct net_addr *dst);

#endif
