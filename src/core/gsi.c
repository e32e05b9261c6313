/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/gsi.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm/stateless.h"
#include "core/burst.h"
#include "core/deadline.h"
#include "core/drive.h"
#include "core/process.h"
#include "core/will.h"
#include "host/host.h"
#include "host/service.h"
#include "roce/const.h"
#include "roce/opcode.h"
#include "roce/pkt.h"
#include "run/clock.h"
#include "run/config.h"
#include "run/netdev.h"
#include "run/progress.h"
#include "util/atomic.h"
#include "util/compiler.h"

enum {
	QUEUE = 2048,			/* MADs; what comes from the wire gets half of it */
	HOP_LIMIT = 64,
	MANAGERS = HOST_SLOTS,
	SLOT_BITS = 10,			/* of a communication id, from the top */
	SERIAL_BITS = 32 - SLOT_BITS,
	KNOWN = 16,			/* addresses whose owner is remembered */
	UNCLAIMED = HOST_NO_SLOT - 1,	/* a parcel's slot: a request for which nobody listens yet */
};

#define KNOWN_FOR     VRB_SECOND
#define RETRY_FIRST   (100 * VRB_USEC)	/* a full inbox, which holds few messages, is tried again so soon while it empties, */
#define RETRY_LAST    (64 * VRB_MSEC)
#define PATIENCE      (10 * VRB_SECOND)	/* and given up after that: the peer has sent again long since */
#define BROADCAST_GAP (VRB_MSEC)
/*
 * A request waits so long for its listener.  Programs that tell each other "now connect" do not wait for each
 * other's rdma_listen() (perftest: its second connection); a kernel's detours give them the time, and our
 * host has none.  Refused is still a matter of milliseconds.
 */
#define GRACE         (60 * VRB_MSEC)

/* A MAD that waits; slot: to whom. */
struct parcel {
	struct list node;
	struct net_path path;
	int slot;
	uint64_t incarnation;
	uint64_t until;
	uint8_t mad[CM_MAD_LEN];
};

struct known {
	struct net_addr addr;
	uint32_t ifindex;
	bool own;
	uint64_t at;
};

static struct {
	const struct vrb_gsi_ops *ops;	/* vrb.drive. NULL: this process manages no connections */
	void *arg;
	uint64_t broadcast_at;		/* vrb.drive: the last one */
	struct deadline deadline;

	struct lock lock;		/* everything below */
	uint64_t wanted;		/* of vrb_gsi_arm() */
	uint64_t retry, pause;
	struct list queue;		/* struct parcel */
	unsigned int queued;
	struct known known[KNOWN];
	unsigned int next_known;

	uint32_t serial;		/* atomic */
	uint32_t first_id, key;
} gsi = { .queue = { &gsi.queue, &gsi.queue } };

/* ---- time ---- */

/* The process's own timer fires at `at` at the latest. */
static void arm(uint64_t at)
{
	if (timers_arm(vrb.timers, &gsi.deadline.timer, at))
		progress_hurry(vrb.progress, at);
}

void vrb_gsi_arm(uint64_t at)
{
	lock_acquire(&gsi.lock);
	gsi.wanted = min(gsi.wanted, at);
	lock_release(&gsi.lock);
	arm(at);
}

/* ---- the queue ---- */

static bool enqueue(const struct net_path *path, const uint8_t *mad, int slot, uint64_t incarnation, uint64_t at, bool from_wire)
{
	uint64_t patience = slot == UNCLAIMED ? GRACE : PATIENCE;
	struct parcel *p = malloc(sizeof(*p));

	if (!p)
		return false;
	*p = (struct parcel){ .path = *path, .slot = slot, .incarnation = incarnation, .until = time_after(clock_now(), patience) };
	memcpy(p->mad, mad, sizeof(p->mad));
	lock_acquire(&gsi.lock);
	if (gsi.queued >= (from_wire ? QUEUE / 2 : QUEUE)) {
		lock_release(&gsi.lock);
		free(p);
		return false;
	}
	list_add_tail(&gsi.queue, &p->node);
	gsi.queued++;
	gsi.retry = min(gsi.retry, at);
	lock_release(&gsi.lock);
	arm(at);
	return true;
}

static struct parcel *dequeue(void)
{
	struct parcel *p = NULL;

	lock_acquire(&gsi.lock);
	if (!list_empty(&gsi.queue)) {
		p = list_entry(gsi.queue.next, struct parcel, node);
		list_del(&p->node);
		gsi.queued--;
	}
	lock_release(&gsi.lock);
	return p;
}

static void clear_queue(void)
{
	struct parcel *p;

	while ((p = dequeue()))
		free(p);
}

/* ---- addresses ---- */

static bool look_up(const struct net_addr *a, uint32_t ifindex, uint64_t now, bool *own)
{
	bool found = false;

	lock_acquire(&gsi.lock);
	for (unsigned int i = 0; i < KNOWN && !found; i++) {
		const struct known *k = &gsi.known[i];

		found = k->ifindex == ifindex && net_addr_equal(&k->addr, a) && now - k->at < KNOWN_FOR;
		if (found)
			*own = k->own;
	}
	lock_release(&gsi.lock);
	return found;
}

static bool is_own_address(const struct net_addr *a, uint32_t ifindex, uint64_t now)
{
	bool own;

	if (look_up(a, ifindex, now, &own))
		return own;
	own = netdev_owns(a, ifindex);
	lock_acquire(&gsi.lock);
	gsi.known[gsi.next_known++ % KNOWN] = (struct known){ *a, ifindex, own, now };
	lock_release(&gsi.lock);
	return own;
}

/* ---- communication ids ---- */

/*
 * A permutation of the numbers of SERIAL_BITS bits: three rounds of Feistel, so that who has seen some does
 * not know the next.
 */
static uint32_t scramble(uint32_t n)
{
	const uint32_t half = SERIAL_BITS / 2, mask = (1u << half) - 1;
	uint32_t left = n >> half & mask, right = n & mask;

	for (uint32_t round = 0; round < 3; round++) {
		uint32_t mixed = (right ^ gsi.key ^ round << 28) * 0x9e3779b1u;
		uint32_t next = left ^ (mixed >> 17 & mask);

		left = right;
		right = next;
	}
	return left << half | right;
}

uint32_t vrb_gsi_comm_id(void)
{
	uint32_t id;

	do
		id = gsi.first_id | scramble(fetch_add_relaxed(&gsi.serial, 1) & ((1u << SERIAL_BITS) - 1));
	while (!id);
	return id;
}

static int slot_of_id(uint64_t id)
{
	return (int)(id >> SERIAL_BITS) & (HOST_SLOTS - 1);
}

/* ---- who is it for ---- */

/* Where a MAD comes from decides what may be done at once. */
enum origin {
	FROM_WIRE,	/* and from other processes: vrb.drive is held */
	FROM_HERE,
};

static void answer_for_nobody(const struct net_path *path, const struct cm_msg *m)
{
	struct net_path back = *path;
	struct cm_msg answer;
	uint8_t mad[CM_MAD_LEN];

	if (!cm_answer_for_nobody(&answer, m))
		return;
	back.src = path->dst;
	back.dst = path->src;
	cm_encode(mad, &answer);
	vrb_gsi_send(&back, mad);
}

/* Must hold vrb.drive. */
static void deliver(const struct net_path *path, const uint8_t *mad, const struct cm_msg *m, uint64_t now)
{
	if (gsi.ops)
		gsi.ops->receive(gsi.arg, path, mad, now);
	else
		answer_for_nobody(path, m);
}

static bool is_self(int slot)
{
	return slot == host_slot(vrb.host) || slot == HOST_NO_SLOT;
}

/* To the process in a slot. False: there is none. */
static bool give(int slot, uint64_t incarnation, const struct net_path *path, const uint8_t *mad, const struct cm_msg *m,
		 enum origin origin, uint64_t now)
{
	if (!is_self(slot)) {
		int err = host_hand_mad(vrb.host, slot, incarnation, path, mad);

		if (err == EAGAIN)
			enqueue(path, mad, slot, incarnation, now + RETRY_FIRST, origin == FROM_WIRE);
		return err != ENOENT;
	}
	if (origin == FROM_HERE)
		enqueue(path, mad, slot, 0, now, false);
	else
		deliver(path, mad, m, now);
	return true;
}

/* The family that a request's addresses are of, and the address that it is for. */
static uint8_t family_of(const struct cm_msg *m, const struct net_path *path, struct net_addr *dst)
{
	const uint8_t *data = m->type == CM_REQ ? m->req.private_data : m->sidr_req.private_data;
	struct cm_ip_header ip;

	cm_ip_header_decode(&ip, data);
	if (ip.version == 0 && (ip.ip_version == 4 || ip.ip_version == 6)) {
		*dst = ip.dst;
		return ip.ip_version;
	}
	*dst = path->dst;
	return 0;
}

static bool give_to_service(uint64_t service_id, const struct net_path *path, const uint8_t *mad, const struct cm_msg *m,
			    enum origin origin, uint64_t now)
{
	uint64_t incarnation;
	struct net_addr dst;
	uint8_t family = family_of(m, path, &dst);
	int slot;

	return host_service_find(vrb.host, service_id, &dst, path->ifindex, family, &slot, &incarnation) &&
	       give(slot, incarnation, path, mad, m, origin, now);
}

/* Whoever knows it. From the wire not too often: it costs us more than its sender. */
static void give_to_all(const struct net_path *path, const uint8_t *mad, const struct cm_msg *m, enum origin origin, uint64_t now)
{
	int slots[MANAGERS];
	unsigned int n;

	if (origin == FROM_WIRE) {
		if (now - gsi.broadcast_at < BROADCAST_GAP)
			return;
		gsi.broadcast_at = now;
	}
	n = host_managers(vrb.host, slots, MANAGERS);
	for (unsigned int i = 0; i < n; i++)
		give(slots[i], 0, path, mad, m, origin, now);
	give(HOST_NO_SLOT, 0, path, mad, m, origin, now);
}

/* A communication id names its slot; who has none has made up a number. */
static int slot_of(uint64_t id)
{
	uint32_t own = gsi.first_id >> SERIAL_BITS;
	int slot = slot_of_id(id);

	return (uint32_t)slot == own ? HOST_NO_SLOT : slot;
}

static void dispatch(const struct net_path *path, const uint8_t *mad, enum origin origin, uint64_t now)
{
	bool given = true, waits = false;
	uint64_t number;
	struct cm_msg m;

	if (cm_decode(&m, mad, CM_MAD_LEN) != CM_DECODED)
		return;
	switch (cm_addressee(&m, &number)) {
	case CM_TO_SERVICE:
		given = give_to_service(number, path, mad, &m, origin, now);
		waits = !given && enqueue(path, mad, UNCLAIMED, 0, now + VRB_MSEC, origin == FROM_WIRE);
		break;
	case CM_TO_ID:
		given = give(slot_of(number), 0, path, mad, &m, origin, now);
		break;
	case CM_TO_ALL:
		give_to_all(path, mad, &m, origin, now);
		break;
	}
	if (!given && !waits)
		answer_for_nobody(path, &m);
}

/* ---- in and out ---- */

void vrb_gsi_input(const struct roce_pkt *pkt, uint64_t now)
{
	if (pkt->bth.opcode != ROCE_UD_SEND_ONLY || pkt->deth.qkey != ROCE_QKEY_GSI || pkt->payload_len != CM_MAD_LEN ||
	    !roce_pkey_match(pkt->bth.pkey, ROCE_PKEY_DEFAULT))
		return;
	dispatch(&pkt->path, pkt->payload, FROM_WIRE, now);
}

/* Who handed it over has looked whose it is; it goes no further. */
void vrb_gsi_handed(const struct net_path *path, const uint8_t *mad, size_t len, uint64_t now)
{
	struct cm_msg m;

	if (len == CM_MAD_LEN && cm_decode(&m, mad, len) == CM_DECODED)
		deliver(path, mad, &m, now);
}

static void send_by_wire(const struct net_path *path, const uint8_t *mad)
{
	static uint32_t psn;
	const struct roce_pkt pkt = {
		.bth = { .opcode = ROCE_UD_SEND_ONLY, .pkey = ROCE_PKEY_DEFAULT, .dest_qpn = VRB_GSI_QPN,
			 .psn = fetch_add_relaxed(&psn, 1) & 0xffffff },
		.deth = { .qkey = ROCE_QKEY_GSI, .src_qpn = VRB_GSI_QPN },
	};
	struct vrb_burst *b = vrb_burst_own();
	uint8_t *p;
	size_t len;

	if (!b)
		return;
	p = vrb_burst_room(b);
	len = roce_encode_headers(p, &pkt);
	memcpy(p + len, mad, CM_MAD_LEN);
	vrb_burst_seal(b, path, len + CM_MAD_LEN, false);
	vrb_burst_flush(b);
}

int vrb_gsi_send(const struct net_path *path, const uint8_t *mad)
{
	uint64_t now = clock_now();
	struct net_path p = *path;

	if (!p.hop_limit)
		p.hop_limit = HOP_LIMIT;
	if (vrb.wire && (config_get()->transport == CONFIG_UDP || !is_own_address(&p.dst, p.ifindex, now))) {
		send_by_wire(&p, mad);
		return 0;
	}
	if (!is_own_address(&p.dst, p.ifindex, now))
		return ENETUNREACH;
	dispatch(&p, mad, FROM_HERE, now);
	return 0;
}

int vrb_gsi_send_for_dead(const struct net_path *path, const uint8_t *mad)
{
	uint64_t now = clock_now();

	if (!is_own_address(&path->dst, path->ifindex, now))
		return vrb_gsi_send(path, mad);
	dispatch(path, mad, FROM_HERE, now);
	return 0;
}

/* ---- later ---- */

static bool claimed(const struct parcel *p, const struct cm_msg *m, uint64_t now)
{
	uint64_t service_id;

	cm_addressee(m, &service_id);
	return give_to_service(service_id, &p->path, p->mad, m, FROM_WIRE, now);
}

/* True if it has to wait on. */
static bool try_again(const struct parcel *p, uint64_t now)
{
	struct cm_msg m;
	int err = 0;

	cm_decode(&m, p->mad, sizeof(p->mad));
	if (p->slot == UNCLAIMED)
		err = claimed(p, &m, now) ? 0 : now < p->until ? EAGAIN : ENOENT;
	else if (is_self(p->slot))
		deliver(&p->path, p->mad, &m, now);
	else
		err = host_hand_mad(vrb.host, p->slot, p->incarnation, &p->path, p->mad);
	if (err == ENOENT)
		answer_for_nobody(&p->path, &m);
	return err == EAGAIN && now < p->until;
}

static void requeue(struct parcel *p)
{
	lock_acquire(&gsi.lock);
	list_add_tail(&gsi.queue, &p->node);
	gsi.queued++;
	lock_release(&gsi.lock);
}

/* Which inboxes were found full in a round: what else is for them need not be tried. */
struct full {
	uint8_t slot[HOST_SLOTS / 8];
};

static bool is_full(const struct full *f, int slot)
{
	return slot >= 0 && f->slot[slot / 8] >> slot % 8 & 1;
}

static void note_full(struct full *f, int slot)
{
	if (slot >= 0)
		f->slot[slot / 8] |= (uint8_t)(1 << slot % 8);
}

/* What is queued by now, once each, in its order. */
static void run_queue(uint64_t now)
{
	struct full full = { { 0 } };
	bool waits = false, moved = false;
	unsigned int n;

	lock_acquire(&gsi.lock);
	n = gsi.queued;
	gsi.retry = VRB_NEVER;
	lock_release(&gsi.lock);
	while (n--) {
		struct parcel *p = dequeue();

		if (!p)
			break;
		if (is_full(&full, p->slot) || try_again(p, now)) {
			note_full(&full, p->slot);
			requeue(p);
			waits = true;
		} else {
			moved = true;
			free(p);
		}
	}
	lock_acquire(&gsi.lock);
	gsi.pause = waits && !moved ? min(2 * gsi.pause, RETRY_LAST) : RETRY_FIRST;
	if (waits)
		gsi.retry = min(gsi.retry, now + gsi.pause);
	lock_release(&gsi.lock);
}

void vrb_gsi_expire(uint64_t now)
{
	bool due, queued;
	uint64_t next;

	lock_acquire(&gsi.lock);
	due = time_reached(gsi.wanted, now);
	queued = time_reached(gsi.retry, now);
	if (due)
		gsi.wanted = VRB_NEVER;
	lock_release(&gsi.lock);
	if (queued)
		run_queue(now);
	if (due && gsi.ops)
		gsi.ops->timeout(gsi.arg, now);
	lock_acquire(&gsi.lock);
	next = min(gsi.wanted, gsi.retry);
	lock_release(&gsi.lock);
	arm(next);
}

/* ---- life ---- */

int vrb_gsi_start(void)
{
	int slot = host_slot(vrb.host);
	uint64_t random = config_random();

	gsi.deadline.kind = DEADLINE_GSI;
	gsi.wanted = gsi.retry = VRB_NEVER;
	gsi.pause = RETRY_FIRST;
	gsi.first_id = (slot == HOST_NO_SLOT ? (uint32_t)random % HOST_SLOTS : (uint32_t)slot) << SERIAL_BITS;
	gsi.key = (uint32_t)(random >> 32);
	store_relaxed(&gsi.serial, (uint32_t)config_random());
	return timers_add(vrb.timers, &gsi.deadline.timer);
}

void vrb_gsi_stop(void)
{
	timers_remove(vrb.timers, &gsi.deadline.timer);
	clear_queue();
}

void vrb_gsi_forget(void)
{
	gsi.ops = NULL;
	lock_init(&gsi.lock);
	list_init(&gsi.queue);
	gsi.queued = 0;
	gsi.deadline = (struct deadline){ 0 };
	vrb_will_forget();
}

int vrb_gsi_open(const struct vrb_gsi_ops *ops, void *arg)
{
	int err = 0;

	lock_acquire(&vrb.drive);
	if (gsi.ops) {
		err = EBUSY;
	} else {
		gsi.ops = ops;
		gsi.arg = arg;
	}
	lock_release(&vrb.drive);
	if (!err) {
		host_publish_manager(vrb.host, true);
		vrb_will_start();
	}
	return err;
}

void vrb_gsi_close(void)
{
	vrb_will_stop();
	host_publish_manager(vrb.host, false);
	lock_acquire(&vrb.drive);
	gsi.ops = NULL;
	lock_release(&vrb.drive);
	lock_acquire(&gsi.lock);
	gsi.wanted = VRB_NEVER;
	lock_release(&gsi.lock);
}
