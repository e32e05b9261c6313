/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The private interface of libibverbs for librdmacm: management datagrams of QP 1, and the state
 * that the processes of one host must share for communication management (docs/CM.md). Exported
 * under the version node VERBENA_PRIVATE_8, which is renamed with every change: the two libraries
 * must come from the same build.
 *
 * QP 1 belongs to the host. A MAD that arrives at any of its processes is passed to its addressee:
 * a request to the listener of its service id, any other MAD to the process that assigned its
 * communication id. If there is no addressee, the process at which the MAD arrived answers it, with
 * or without librdmacm.
 *
 * Threads and locks.  Any thread may call, but vrb_mad_open() and vrb_mad_close() must not be
 * called in a callback.  Callbacks come from the progress thread, or from a program's that polls a
 * CQ or is in vrb_mad_await(), one at a time, and under a lock of libibverbs that verbs take
 * (vrb.poll_lock).  So:
 *	- a lock that a callback takes must not be held where a verb is called;
 *	- vrb_mad_send(), vrb_mad_arm(), vrb_mad_at_exit(), vrb_mad_comm_id() and vrb_mad_now() may
 *	be called in callbacks and under that lock;
 *	- the calls about a binding but vrb_mad_listen() may be made under that lock, none of them
 *	in a callback: they wait for other processes.
 * A callback must not wait.
 *
 * A forked child cannot use what its parent has opened: calls that send or bind fail with EIO
 * there, others have no effect, and vrb_mad_close() frees the child's copy.
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
	 * A MAD for this process, exactly VRB_MAD_LEN bytes; only its header has been checked.
	 * path->src is the peer, path->dst this host, path->ifindex the interface on which it
	 * arrived, or 0.
	 */
	void (*receive)(void *arg, const struct net_path *path, const uint8_t mad[VRB_MAD_LEN],
			uint64_t now);

	/* The deadline of vrb_mad_arm() has passed. */
	void (*timeout)(void *arg, uint64_t now);

	/*
	 * An interface has gone (all contexts of the device are dead), or has another link address.
	 * Called under vrb.lock, also from a thread that lists devices, and concurrently with the
	 * other callbacks. NULL: not needed.
	 */
	void (*device)(void *arg, const struct ibv_device *dev, enum vrb_mad_news news);

	/* Calls fn for each id. */
	void (*ids)(void *arg, cm_show_fn fn, void *to);
};

/*
 * Joins the host if no open context has done so. Callbacks may be called before it returns; *out is
 * set before the first one.  Returns 0, ENOMEM, EBUSY (one per process), or the error that keeps
 * the device from working, with *out NULL.
 */
int vrb_mad_open(const struct vrb_mad_ops *ops, void *arg, struct vrb_mad **out);

/* When it returns, no callback is running. Releases all services and exit MADs. */
void vrb_mad_close(struct vrb_mad *m);

/* Returns the clock of deadlines, in nanoseconds. */
uint64_t vrb_mad_now(void);

/*
 * timeout() is called at `at` at the latest; no effect if an earlier call is armed. The call
 * disarms it.
 */
void vrb_mad_arm(struct vrb_mad *m, uint64_t at);

/*
 * Sends from path->src, an address of this host, to path->dst; traffic_class, hop_limit (0: 64) and
 * flow_label count, and ifindex for link-local addresses.  Between addresses of this network
 * namespace nothing is lost while the receiver is alive. Returns 0, even if the network loses it,
 * ENETUNREACH (there is no wire), ETIMEDOUT (a rule on faults loses it however often it is sent),
 * or EIO.
 */
int vrb_mad_send(struct vrb_mad *m, const struct net_path *path, const uint8_t mad[VRB_MAD_LEN]);

/*
 * Sends delayed ACKs now, so that a MAD does not overtake the ACK of data received before it. Must
 * hold no lock that a callback takes.
 */
void vrb_mad_settle(struct vrb_mad *m);

/*
 * Returns a communication id, not 0: unique on the host, and not reused by this process for 4
 * million others.
 */
uint32_t vrb_mad_comm_id(struct vrb_mad *m);

/*
 * vrb_mad_catch_up() processes changes of the interfaces; one system call if nothing has changed.
 * vrb_mad_find_gid() then looks up a GID in the table of a context's port without any system call:
 * calling ibv_query_gid_table() and ibv_query_port() for each device is too expensive for each of
 * thousands of connections. Returns false, leaving *at unchanged, if the port does not have the
 * GID.
 */
struct vrb_gid_place {
	uint8_t port_num;
	uint8_t gid_index;
	uint32_t ifindex;
	uint8_t mtu;	/* enum ibv_mtu: the active MTU */
};

void vrb_mad_catch_up(void);

/* The interface has gone, as of vrb_mad_catch_up(), and nothing is open in the context. */
bool vrb_mad_gone(struct ibv_context *verbs);

bool vrb_mad_find_gid(struct ibv_context *verbs, const struct net_addr *gid,
		      struct vrb_gid_place *at);

/*
 * vrb_mad_polls(): VERBENA_PROGRESS=none: there is no progress thread, so waiting code must call
 * vrb_mad_poll() meanwhile; m may be NULL. The latter may always be called, and runs one bounded
 * round; returns true if it did any work. Not in a callback, nor under a lock that a callback
 * takes.
 */
bool vrb_mad_polls(struct vrb_mad *m);
bool vrb_mad_poll(struct vrb_mad *m);

/*
 * Waits for an eventfd that a callback will write, for a millisecond at most, in the place of the
 * progress thread (core/progress/stand_in.h), and reads it into *count.  Returns 0, EINTR, or
 * EAGAIN: the caller reads it itself, and may sleep.  Not in a callback, nor under a lock that a
 * callback takes.
 */
int vrb_mad_await(struct vrb_mad *m, int eventfd, uint64_t *count);

/*
 * Sets the MAD that other processes send if this process dies, one per communication id; mad NULL
 * clears it.
 */
void vrb_mad_at_exit(struct vrb_mad *m, uint32_t comm_id, const struct net_path *path,
		  const uint8_t *mad);

/*
 * For the end of the process: has the progress thread call `job`, because the caller may hold any
 * lock, and waits for it (progress_at_exit()). Not in a callback.
 */
void vrb_mad_run_last(struct vrb_mad *m, void (*job)(void));

/* A service id and the addresses at which it accepts requests. */
struct vrb_service {
	/*
	 * the low 16 bits are the port; 0: a free one of net.ipv4.ip_local_port_range, returned
	 * here
	 */
	uint64_t service_id;
	struct net_addr addr;	/* all zero: any */
	uint32_t ifindex;	/* for a link-local address, which is per interface */
	uint8_t family;		/* of the rdma_cm_id: 4, 6, or 0 for AF_IB */
	bool only_family;	/* "afonly"; always set for IPv4 */
	bool reuse;		/* RDMA_OPTION_ID_REUSEADDR */
};

struct vrb_binding;

/*
 * Binds like rdma_bind_addr(). Returns 0, EADDRINUSE (the same address), EADDRNOTAVAIL (one of the
 * two is "any", or no port is free), ENOMEM, ENOBUFS (the host's table is full), EBUSY (another
 * process holds the host's table and makes no progress).
 */
int vrb_mad_bind(struct vrb_mad *m, struct vrb_service *want, struct vrb_binding **out);

/*
 * Starts to listen; the port is then no longer shared. EADDRINUSE, EADDRNOTAVAIL as for
 * vrb_mad_bind().
 */
int vrb_mad_listen(struct vrb_mad *m, struct vrb_binding *b);

/*
 * Selects whether an IPv6 wildcard accepts IPv6 only; call before it listens. Returns 0, EINVAL or
 * EBUSY.
 */
int vrb_mad_only_family(struct vrb_mad *m, struct vrb_binding *b, bool only);

/*
 * The listener has ended, and its port is free, but the program may still answer requests: until
 * the port is unbound their repetitions come here, while nobody else listens for them.
 */
void vrb_mad_end_listening(struct vrb_mad *m, struct vrb_binding *b);

void vrb_mad_unbind(struct vrb_mad *m, struct vrb_binding *b);

/*
 * Returns why packets to an address fail, from recent ICMP messages: EHOSTUNREACH, ECONNREFUSED,
 * ...; ENETDOWN: no wire to other hosts; 0: unknown.
 */
int vrb_mad_trouble(struct vrb_mad *m, const struct net_addr *dst);

#endif
