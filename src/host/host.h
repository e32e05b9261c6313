/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the Verbena processes of one user on one host share: liveness, ownership of QP numbers, and
 * a way to pass packets and doorbells to each other.  No daemon: the processes keep it among
 * themselves, in files of a directory of mode 0700 (docs/HOST.md has the layout, the protocol and
 * what a crash at each point leaves).
 *
 * A process takes a slot for as long as it lives, proved by a file lock that the kernel drops with
 * it.  Slots, QP numbers and files of dead processes are reclaimed by the next process that joins
 * or looks up their owner.
 *
 * Private mode: where no directory can be used (not writable, full, foreign, made by another
 * version that still runs) the process numbers its QPs on its own; it then can be reached by
 * packets only, other processes' QPs look unknown, and it cannot share its UDP port. One warning
 * says why. All calls below work in private mode, as if no other process existed.
 *
 * Thread-safe; the lock inside is a leaf (level 8 in core/base/state.h).  Calls that look at the
 * shared table do a few system calls; none waits for another process longer than it takes that
 * process to update the table.
 *
 * Nothing read from the shared files or the socket is trusted beyond what is checked after it was
 * copied.
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
	HOST_BLOCK_BITS = 8,		/* QP numbers are handed to processes in blocks of 256 */
	HOST_BLOCKS = 1 << (24 - HOST_BLOCK_BITS),
	/* each block is of a shard, and each shard may have a socket of its own */
	HOST_SHARDS = 9,
	HOST_PACKET_MAX = 9216,		/* longest packet that can be handed over */
	HOST_MAD_LEN = 256,
};

struct host;

/*
 * Where a process has its sockets in the reuseport groups of its UDP port, IPv4 and IPv6; -1
 * unknown.  What is for a shard of unknown position goes where shard 0's does.
 */
struct host_steer {
	int32_t at[HOST_SHARDS][2];
};

struct host_peer {
	pid_t pid;		/* in its own PID namespace: for messages only */
	uint64_t incarnation;	/* random, of one process only; never 0 */
	uint64_t netns;		/* cookie of its network namespace, 0 if unknown */
	uint16_t udp_port;	/* 0: has no UDP wire */
	struct host_steer steer;
};

/*
 * Joins the host.  dir: absolute path of the run directory, NULL or "" for none.  If it cannot be
 * used: /dev/shm/verbena-<uid>, then /tmp/verbena-<uid>. Returns 0 (also when it could only come up
 * in private mode) or ENOMEM.
 */
int host_join(const char *dir, struct host **out);

/* Gives back the slot, the QP numbers and the files. */
void host_leave(struct host *h);

/*
 * In a forked child: closes descriptors and frees memory, and leaves the parent's slot and files
 * alone.
 */
void host_forget(struct host *h);

/* False in private mode. */
bool host_shared(const struct host *h);

/* Stands for all processes that are in the same table; 0 in private mode. */
uint64_t host_group(const struct host *h);

/* Changes with every change of the members or of what they own. */
uint64_t host_generation(const struct host *h);

/* Own slot; HOST_NO_SLOT in private mode. */
int host_slot(const struct host *h);

/* Own incarnation; random in private mode too. */
uint64_t host_incarnation(const struct host *h);

/*
 * The run directory as a descriptor, -1 in private mode.  Files whose name starts with the slot's
 * prefix ("s0007.") are unlinked when the slot is given back or reclaimed: other parts put theirs
 * there under such names.
 */
int host_dirfd(const struct host *h);
const char *host_dir(const struct host *h);
void host_file_name(int slot, const char *suffix, char name[32]);	/* "s0007.SUFFIX" */

/* Where a slot's socket of that name is bound; not in private mode. Returns 0 or ENAMETOOLONG. */
struct sockaddr_un;
int host_socket_address(const struct host *h, int slot, const char *suffix,
			struct sockaddr_un *sun);

/*
 * A QP number of a shard that no live process of this host has: never 0, 1 or 0xffffff.  The start
 * is random, a number that was freed comes back as late as possible.  Returns 0, ENOMEM when all
 * are taken, or another errno value if the table cannot be changed.
 */
int host_qpn_alloc(struct host *h, unsigned int shard, uint32_t *qpn);
void host_qpn_free(struct host *h, uint32_t qpn);

/*
 * A number of shard 0 in a block of its own, which can be taken over: by the process that is asked
 * to, from the slot that gives it.  The giver then still calls host_qpn_free(), which changes
 * nothing in the table.  host_qpn_take() returns 0, EINVAL if the giver does not own it, or why the
 * table cannot be changed.
 */
int host_qpn_alloc_alone(struct host *h, uint32_t *qpn);
int host_qpn_take(struct host *h, uint32_t qpn, int giver);

/* How many blocks of numbers the process has ever taken: changes whenever it has a new one. */
unsigned int host_blocks_taken(const struct host *h);

/* Does the table say that this process owns the number? */
bool host_qpn_mine(struct host *h, uint32_t qpn);

/*
 * The slot of the live process that owns the number's block; HOST_NO_SLOT if there is none or it is
 * not known. Finds dead owners and reclaims them.
 */
int host_owner(struct host *h, uint32_t qpn);

/*
 * What a slot's process has published; false if the slot is empty. Does not check that it is alive.
 */
bool host_peer(struct host *h, int slot, struct host_peer *peer);

/* Is the slot's process in the network namespace of this one? */
bool host_same_network(struct host *h, int slot);

/* True while the process with this incarnation lives. */
bool host_alive(struct host *h, int slot, uint64_t incarnation);

/* Does any process of this host that lives bear this incarnation? Slow. */
bool host_incarnation_alive(struct host *h, uint64_t incarnation);

/*
 * Excludes the atomics of all processes of this host on the eight bytes at an address, which is as
 * their owner has it; see atomics.h. Not slower than the atomic itself, but where another holds the
 * lock.
 */
void host_lock_atomics(struct host *h, uint64_t address);
void host_unlock_atomics(struct host *h, uint64_t address);

/* Reclaims what the process of a slot has left, if it is dead; true if it was. */
bool host_reclaim(struct host *h, int slot);

/* Reclaims what dead processes left. Returns how many there were. */
unsigned int host_reap(struct host *h);

/* Publishes that this process has the UDP port in these positions; port 0 when it is closed. */
void host_publish_wire(struct host *h, uint16_t udp_port, const struct host_steer *steer);

/*
 * The blocks of all processes that share this one's UDP port and network namespace, in ascending
 * order; the first is block 0. Returns how many, at most cap.
 */
size_t host_steer_map(struct host *h, struct net_steer *map, size_t cap);

/*
 * Hands a packet that arrived here to the process that owns the QP number.  Returns 0; ENOENT if no
 * other live process of this network namespace owns it; EAGAIN if the owner does not empty its
 * inbox (the packet is lost, as on a network); EMSGSIZE.
 */
int host_hand(struct host *h, uint32_t qpn, const struct net_path *path, const void *data,
	      size_t len);

/*
 * Hands a MAD that arrived here, or was sent here, to the process in a slot; incarnation 0: any.
 * Returns 0; ENOENT if there is no such process in this network namespace; EAGAIN if its inbox is
 * full now.
 */
int host_hand_mad(struct host *h, int slot, uint64_t incarnation, const struct net_path *path,
		  const uint8_t mad[HOST_MAD_LEN]);

/*
 * The slots of other processes of this network namespace that have said that they manage
 * connections. Returns how many, at most cap.
 */
void host_publish_manager(struct host *h, bool on);
unsigned int host_managers(struct host *h, int *slots, unsigned int cap);

/*
 * Sends a message of another part of the library, which is in up to HOST_MESSAGE_PARTS pieces,
 * HOST_PACKET_MAX bytes in all, to the inbox of a process.  Messages of one sender arrive in order,
 * whole, and if this returns 0.  Otherwise: ENOENT if the process is gone, EAGAIN if it does not
 * empty its inbox, EMSGSIZE.
 */
enum { HOST_MESSAGE_PARTS = 4 };
int host_send_message(struct host *h, int slot, uint64_t incarnation, const struct iovec *part,
		      unsigned int n);

/*
 * Marks: any number of processes may have a mark, named by 60 bits; it exists while one of them
 * lives and has it. host_mark() takes one: with `create` it may be new, with `exclusive` it must
 * be.  Returns 0, ENOENT, EEXIST, or EBUSY if the table's lock cannot be had.  A process takes a
 * mark once; in private mode it is the only one that has any.
 */
int host_mark(struct host *h, uint64_t name, bool create, bool exclusive);
void host_unmark(struct host *h, uint64_t name);

/*
 * Wakes the progress thread of a process. Returns 0, also when it has unread doorbells already;
 * ENOENT if it is gone.
 */
int host_ring(struct host *h, int slot, uint64_t incarnation);

/*
 * "Do you run?" from one process to another, and the answer, for core/local/keepalive.c.  Does not
 * wait; fills in slot and from.  Returns 0; ENOENT if the slot's process is not the one in `to`;
 * EAGAIN if its inbox is full.
 */
struct host_keepalive {
	uint64_t from, to;	/* incarnations */
	uint64_t asked_at;	/* by the caller's clock */
	int32_t slot;		/* of the sender */
	uint32_t answer;	/* 1: it is one */
};
int host_send_keepalive(struct host *h, int slot, struct host_keepalive *p);

/* Readable when a packet or a doorbell is there; -1 in private mode. Non-blocking. */
int host_inbox_fd(const struct host *h);

enum host_msg {
	HOST_NOTHING,		/* inbox is empty */
	HOST_PACKET,		/* *path, *len and buf are what host_hand() was given */
	/* *path, *len (HOST_MAD_LEN) and buf are what host_hand_mad() was given */
	HOST_MAD,
	HOST_DOORBELL,
	/*
	 * buf is a struct host_keepalive that was sent to this process, or to another one before it
	 */
	HOST_KEEPALIVE,
	HOST_MESSAGE,		/* *len and buf are what host_send_message() was given */
	HOST_GARBAGE,		/* something that was not understood; go on */
};

/*
 * Takes one message. buf has HOST_PACKET_MAX bytes. Any number of threads.
 */
enum host_msg host_inbox_recv(struct host *h, struct net_path *path, void *buf, size_t *len);

#endif
