/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * State shared by the Verbena processes of one user on one host: liveness, ownership of QP numbers,
 * and a way to pass packets and doorbells to each other. There is no daemon: the state is in files
 * of a directory with mode 0700 (docs/HOST.md has the layout, the protocol, and the effect of a
 * crash at each point).
 *
 * A process holds a slot while it lives, proved by a file lock that the kernel releases when the
 * process ends. The next process that joins or looks up their owner reclaims the slots, QP numbers
 * and files of dead processes.
 *
 * Private mode: if no directory can be used (not writable, full, of another user, in use by another
 * version), the process allocates QP numbers alone. Others can then reach it only by packets, QPs
 * of other processes are unknown to it, and it cannot share its UDP port. One warning gives the
 * reason. All calls below work in private mode, as if no other process existed.
 *
 * Thread-safe; the locks inside are leaves (level 8 in core/base/state.h). Calls that read the
 * shared table make a few system calls; none waits for another process longer than an update of the
 * table takes.
 *
 * Data from the shared files and the socket is copied, then checked, then used.
 */
#ifndef VRB_HOST_HOST_H
#define VRB_HOST_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "util/net.h"

enum {
	HOST_SLOTS = 1024,
	HOST_NO_SLOT = -1,
	HOST_BLOCK_BITS = 8,		/* QP numbers are allocated to processes in blocks of 256 */
	HOST_BLOCKS = 1 << (24 - HOST_BLOCK_BITS),
	/* each block belongs to a shard, and each shard may have its own socket */
	HOST_SHARDS = 9,
	HOST_PACKET_MAX = 9216,		/* longest packet that can be forwarded */
	HOST_MAD_LEN = 256,
};

struct host;

/*
 * The positions of a process's sockets in the reuseport groups of its UDP port, IPv4 and IPv6; -1
 * if unknown. Packets for a shard of unknown position go to the socket of shard 0.
 */
struct host_steer {
	int32_t at[HOST_SHARDS][2];
};

struct host_peer {
	pid_t pid;		/* in its own PID namespace, which may be another than ours */
	uint64_t incarnation;	/* random, unique to the process; never 0 */
	uint64_t netns;		/* cookie of its network namespace, 0 if unknown */
	uint16_t udp_port;	/* 0: no UDP wire */
	struct host_steer steer;
};

/*
 * Joins the host. dir: absolute path of the run directory, NULL or "" for none. If it cannot be
 * used: /dev/shm/verbena-<uid>, then /tmp/verbena-<uid>. Returns 0 (also in private mode),
 * ENOMEM, EMFILE or ENFILE.
 */
int host_join(const char *dir, struct host **out);

/* Returns the slot, the QP numbers and the files. */
void host_leave(struct host *h);

/* In a forked child: closes descriptors and frees memory; the parent's slot and files stay. */
void host_forget(struct host *h);

/* Returns false in private mode. */
bool host_shared(const struct host *h);

/* Identifies the group of processes that use the same table; 0 in private mode. */
uint64_t host_group(const struct host *h);

/* Changes whenever a member joins or leaves, or its blocks or positions change. */
uint64_t host_generation(const struct host *h);

/* Changes when a member has closed its UDP sockets, or has died: others may have moved. */
uint64_t host_departures(const struct host *h);

/* Returns this process's slot; HOST_NO_SLOT in private mode. */
int host_slot(const struct host *h);

/* Returns this process's incarnation; random in private mode, too. */
uint64_t host_incarnation(const struct host *h);

/*
 * Returns the descriptor of the run directory, -1 in private mode. Files whose name starts with the
 * slot's prefix ("s0007.") are unlinked when the slot is released or reclaimed; other parts of the
 * library use such names for their files.
 */
int host_dirfd(const struct host *h);
const char *host_dir(const struct host *h);
void host_file_name(int slot, const char *suffix, char name[32]);	/* "s0007.SUFFIX" */

/* The address of a slot's socket of that name; not in private mode. Returns 0 or ENAMETOOLONG. */
struct sockaddr_un;
int host_socket_address(const struct host *h, int slot, const char *suffix,
			struct sockaddr_un *sun);

/*
 * Allocates a QP number of a shard that no live process of this host uses: never 0, 1 or 0xffffff.
 * The start is random, and a freed number is reused as late as possible. Returns 0, ENOMEM if all
 * are in use, or another errno value if the table cannot be changed.
 */
int host_qpn_alloc(struct host *h, unsigned int shard, uint32_t *qpn);
void host_qpn_free(struct host *h, uint32_t qpn);

/*
 * Allocates a number of shard 0 in its own block, so that another process can take it over from the
 * slot that owns it. The old owner still calls host_qpn_free(), which then changes nothing in the
 * table. host_qpn_take() returns 0, EINVAL if that slot does not own the number, or another errno
 * value if the table cannot be changed.
 */
int host_qpn_alloc_alone(struct host *h, uint32_t *qpn);
int host_qpn_take(struct host *h, uint32_t qpn, int giver);

/* Takes a shard's first block, if it can, so that its first number brings no new one. */
void host_qpn_prepare(struct host *h, unsigned int shard);

/* Returns how many blocks the process has ever taken; changes with each new block. */
unsigned int host_blocks_taken(const struct host *h);

/*
 * Returns true if this process owns the number. Reads the table only for a number that can be taken
 * over.
 */
bool host_qpn_mine(struct host *h, uint32_t qpn);

/* The shard of a number of this process; 0 for others. */
unsigned int host_qpn_shard(struct host *h, uint32_t qpn);

/*
 * Returns the slot of the live process that owns the number's block; HOST_NO_SLOT if there is none
 * or it is unknown. Reclaims a dead owner.
 */
int host_owner(struct host *h, uint32_t qpn);

/* Reads a slot; false if it is empty. Does not check that its process is alive. */
bool host_peer(struct host *h, int slot, struct host_peer *peer);

/* Returns true if the slot's process is in this process's network namespace. */
bool host_same_network(struct host *h, int slot);

enum host_liveness {
	HOST_DEAD,
	HOST_ALIVE,
	HOST_UNKNOWN,	/* the table cannot be read now */
};

enum host_liveness host_liveness(struct host *h, int slot, uint64_t incarnation);

/* Returns true while the process with this incarnation is known to be alive. */
bool host_alive(struct host *h, int slot, uint64_t incarnation);

/* Is the slot's process stopped, by a signal or a debugger? False, too, if that is unknown. */
bool host_is_stopped(struct host *h, int slot);

/* Returns true if any live process of this host has this incarnation. Slow. */
bool host_incarnation_alive(struct host *h, uint64_t incarnation);

/*
 * Locks eight bytes, given by their address in the owner, against the atomics of all processes of
 * this host; see atomics.h. Without contention this is as fast as the atomic itself.
 */
void host_lock_atomics(struct host *h, uint64_t address);
void host_unlock_atomics(struct host *h, uint64_t address);

/* Reclaims the resources of a slot's process if it is dead; returns true if it was. */
bool host_reclaim(struct host *h, int slot);

/* Reclaims the resources of all dead processes. Returns their number. */
unsigned int host_reap(struct host *h);

/*
 * Forwards a packet that arrived here to the process that owns the QP number. Tries so often, at
 * intervals of LIMIT_INBOX_FULL_NS, while the owner's inbox is full; after that only once until it
 * has had room again. Returns 0; ENOENT if no other live process of this network namespace owns the
 * number; EAGAIN if the inbox is full (the packet is lost, as on a network); EMSGSIZE.
 */
int host_hand(struct host *h, uint32_t qpn, const struct net_path *path, const void *data,
	      size_t len, unsigned int tries);

/*
 * Forwards a MAD that arrived here, or was sent here, to the process in a slot; incarnation 0: any.
 * Returns 0; ENOENT if there is no such process in this network namespace; EAGAIN if its inbox is
 * full now.
 */
int host_hand_mad(struct host *h, int slot, uint64_t incarnation, const struct net_path *path,
		  const uint8_t mad[HOST_MAD_LEN]);

/*
 * host_publish_manager(): records whether this process manages connections. host_managers(): stores
 * the slots of the other processes of this network namespace that do, and returns their number, at
 * most cap.
 */
void host_publish_manager(struct host *h, bool on);
unsigned int host_managers(struct host *h, int *slots, unsigned int cap);

/* Records that this process listens for requests. Returns true the first time. */
bool host_publish_listener(struct host *h);

/*
 * Sends an XRC message (core/xrc/msg.h), in up to HOST_XRC_PARTS pieces of
 * HOST_PACKET_MAX bytes in total, to the inbox of a process. Returns 0 if the message will arrive
 * complete, and in order with others of this sender; ENOENT if the process is gone, EAGAIN if its
 * inbox is full, EMSGSIZE.
 */
enum { HOST_XRC_PARTS = 4 };
int host_send_xrc(struct host *h, int slot, uint64_t incarnation, const struct iovec *part,
		      unsigned int n);

/*
 * Marks: any number of processes may hold a mark, named by 60 bits; it exists while a live process
 * holds it. host_mark() takes a mark: with `create` it may be new, with `exclusive` it must be.
 * Returns 0, ENOENT, EEXIST, or EBUSY if the table's lock cannot be taken. A process takes a mark
 * once; in private mode no other process holds any.
 */
int host_mark(struct host *h, uint64_t name, bool create, bool exclusive);
void host_unmark(struct host *h, uint64_t name);

/*
 * Wakes the progress thread of a process. Returns 0, also if unread doorbells are pending; ENOENT
 * if the process is gone.
 */
int host_ring(struct host *h, int slot, uint64_t incarnation);

/*
 * A socket for host_ring_by(), which rings also after this process has given up its right to use
 * the run directory, as a server that drops its privileges does; it is faster, too. -1: none can
 * be had, or too few descriptors are left. The caller closes it.
 */
int host_bell_open(struct host *h, int slot, uint64_t incarnation);

/* As host_ring(); bell may be -1. */
int host_ring_by(struct host *h, int bell, int slot, uint64_t incarnation);

/*
 * Keepalive probe from one process to another, or the answer, for core/local/keepalive.c. Does not
 * wait; fills in slot and from. Returns 0; ENOENT if the slot's process is not the one in `to`;
 * EAGAIN if its inbox is full.
 */
struct host_keepalive {
	uint64_t from, to;	/* incarnations */
	uint64_t asked_at;	/* time by the prober's clock */
	int32_t slot;		/* slot of the sender */
	uint32_t answer;	/* enum host_keepalive_answer */
};
enum host_keepalive_answer {
	HOST_KEEPALIVE_PROBE,
	HOST_KEEPALIVE_ANSWER,
	HOST_KEEPALIVE_WAITS,	/* an answer: requests of XRC QPs there wait for other processes */
};
int host_send_keepalive(struct host *h, int slot, struct host_keepalive *p);

/* Readable when a packet or doorbell is pending; -1 in private mode. Non-blocking. */
int host_inbox_fd(const struct host *h);

enum host_msg {
	HOST_NOTHING,		/* inbox is empty */
	HOST_PACKET,		/* *path, *len and buf: as passed to host_hand() */
	/* *path, *len (HOST_MAD_LEN) and buf: as passed to host_hand_mad() */
	HOST_MAD,
	/* *path, *len and buf: as passed to host_relay_request() */
	HOST_REQUEST,
	HOST_DOORBELL,
	/* buf: a struct host_keepalive, for this process or an earlier one in its slot */
	HOST_KEEPALIVE,
	HOST_XRC,		/* *len and buf: as passed to host_send_xrc() */
	HOST_MOVE,		/* buf: a struct host_move with any values */
	HOST_GARBAGE,		/* an invalid datagram; continue */
};

/* Receives one datagram. buf has HOST_PACKET_MAX bytes. Any number of threads. */
enum host_msg host_inbox_recv(struct host *h, struct net_path *path, void *buf, size_t *len);

/* Receives up to n datagrams with one system call; fewer: the inbox was empty then. Any thread. */
enum { HOST_INBOX_BATCH = 4 };
struct host_datagram {
	enum host_msg kind;
	struct net_path path;
	size_t len;
	uint8_t data[HOST_PACKET_MAX];
};
unsigned int host_inbox_recv_batch(struct host *h, struct host_datagram *m, unsigned int n);

#endif
