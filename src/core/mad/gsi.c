/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/mad/gsi.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "cm/stateless.h"
#include "core/base/object_timer.h"
#include "core/base/state.h"
#include "core/base/tap.h"
#include "core/mad/admission.h"
#include "core/mad/comm_id.h"
#include "core/mad/exit_mad.h"
#include "core/mad/mad_queue.h"
#include "core/tx/tx_batch.h"
#include "host/host.h"
#include "host/relay.h"
#include "host/service.h"
#include "roce/const.h"
#include "roce/icrc.h"
#include "roce/opcode.h"
#include "roce/pkt.h"
#include "run/clock.h"
#include "run/config.h"
#include "run/log.h"
#include "run/netdev.h"
#include "run/progress.h"
#include "util/atomic.h"
#include "util/be.h"
#include "util/compiler.h"
#include "wire/offsets.h"
#include "wire/relay.h"

enum {
	/* limits in MADs: with those of living processes, of dead ones, and from the wire */
	QUEUE = 2048,
	QUEUE_DEAD = QUEUE * 3 / 4,
	QUEUE_WIRE = QUEUE / 2,
	/* requests from the wire for full inboxes: in all, and of sources that send many */
	QUEUE_REQUESTS = 128,
	QUEUE_CROWDED = QUEUE_REQUESTS / 2,
	HOP_LIMIT = 64,
	MANAGERS = HOST_SLOTS,
	KNOWN = 16,			/* cached decisions about addresses */
	SELF_ROUNDS = 4,		/* of the queue, at a time */
	/* slot of a pending MAD: a request whose service has no listener yet */
	UNCLAIMED = HOST_NO_SLOT - 1,
	EVERYONE = HOST_NO_SLOT - 2,	/* one for every process with a CM */
};

/* The socket filters of the wire compare what the decoders read. */
_Static_assert((int)MAD_AT == ROCE_BTH_LEN + ROCE_DETH_LEN && (int)MAD_QPN == ROCE_QP1, "MAD");
_Static_assert((int)MAD_REQ == CM_REQ && (int)MAD_MRA == CM_MRA && (int)MAD_DREP == CM_DREP &&
	       (int)MAD_SIDR_REQ == CM_SIDR_REQ, "CM attributes");

#define KNOWN_FOR     VRB_SECOND
/* first and last interval between attempts on a full inbox */
#define RETRY_FIRST   (100 * VRB_USEC)
#define RETRY_LAST    (64 * VRB_MSEC)
/* when a queued MAD makes room for others: by then its sender has repeated it */
#define QUEUE_TIMEOUT (10 * VRB_SECOND)
#define BROADCAST_GAP (VRB_MSEC)
/*
 * How long a request waits for a listener. Programs that exchange "connect now" do not wait for
 * each other's rdma_listen() (perftest: its second connection). A kernel CM is slow enough that it
 * succeeds; we are faster. A rejection still takes only milliseconds.
 */
#define GRACE         (60 * VRB_MSEC)

struct known {
	struct net_addr addr;
	uint32_t ifindex;
	bool own;
	uint64_t at;
};

static struct {
	const struct vrb_gsi_ops *ops;	/* vrb.poll_lock; NULL: this process has no CM */
	void *arg;
	uint64_t broadcast_at;		/* vrb.poll_lock; time of the last broadcast */
	bool in_timeout;		/* atomic: the user's timeout() runs */
	bool unanswered;		/* atomic: it has sent by the wire */
	struct object_timer deadline;

	struct lock lock;		/* protects everything below */
	uint64_t wanted;		/* earliest time passed to vrb_gsi_arm() */
	uint64_t retry, pause;		/* of the queue */
	struct known known[KNOWN];
	unsigned int next_known;
} gsi;

/* ---- time ---- */

/* Makes the process's timer fire at `at` or earlier. */
static void arm(uint64_t at)
{
	if (timers_arm(vrb.timers, &gsi.deadline.timer, at))
		progress_hurry(vrb.progress, at);
}

void vrb_gsi_ids(cm_show_fn fn, void *to)
{
	if (gsi.ops && gsi.ops->ids)
		gsi.ops->ids(gsi.arg, fn, to);
}

void vrb_gsi_arm(uint64_t at)
{
	lock_acquire(&gsi.lock);
	gsi.wanted = min(gsi.wanted, at);
	lock_release(&gsi.lock);
	arm(at);
}

/* Where a MAD comes from, which also decides whether vrb.poll_lock is held. */
enum origin {
	FROM_WIRE,	/* the wire or another process; vrb.poll_lock is held */
	FROM_HERE,	/* this process; vrb.poll_lock is not held */
};

/* A MAD on its way to its addressee. */
struct routed_mad {
	const struct net_path *path;
	const uint8_t *mad;
	const struct cm_msg *m;		/* the same, decoded */
	enum origin origin;
	uint64_t now;
};

/* ---- the queue ---- */

/* A MAD to queue, before it is copied. */
static struct queued_mad waiting_mad(const struct routed_mad *r, int slot, uint64_t incarnation)
{
	struct queued_mad p = { .path = *r->path, .slot = slot, .incarnation = incarnation };
	uint64_t timeout = slot == UNCLAIMED ? GRACE : QUEUE_TIMEOUT;

	p.until = time_after(r->now, timeout);
	memcpy(p.mad, r->mad, sizeof(p.mad));
	return p;
}

static void try_queue(uint64_t at)
{
	lock_acquire(&gsi.lock);
	gsi.retry = min(gsi.retry, at);
	lock_release(&gsi.lock);
	arm(at);
}

static bool enqueue(const struct routed_mad *r, int slot, uint64_t incarnation, uint64_t at,
		    unsigned int limit)
{
	struct queued_mad p = waiting_mad(r, slot, incarnation);

	if (!vrb_mad_queue_add(&p, limit, r->now))
		return false;
	try_queue(at);
	return true;
}

/* Waits until the peer's inbox has room or the peer ends. */
static bool keep(const struct routed_mad *r, int slot, uint64_t incarnation, uint32_t comm_id,
		 uint64_t at)
{
	struct queued_mad p = waiting_mad(r, slot, incarnation);

	p.until = VRB_NEVER;
	if (!vrb_mad_queue_keep(&p, comm_id))
		return false;
	try_queue(at);
	return true;
}

/* ---- addresses ---- */

static bool look_up(const struct net_addr *a, uint32_t ifindex, uint64_t now, bool *own)
{
	bool found = false;

	lock_acquire(&gsi.lock);
	for (unsigned int i = 0; i < KNOWN && !found; i++) {
		const struct known *k = &gsi.known[i];

		found = k->ifindex == ifindex && net_addr_equal(&k->addr, a) &&
			now - k->at < KNOWN_FOR;
		if (found)
			*own = k->own;
	}
	lock_release(&gsi.lock);
	return found;
}

/* Whether the destination of a path is an address of this network namespace. */
static bool ends_here(const struct net_path *path, uint64_t now)
{
	const struct net_addr *a = &path->dst;
	uint32_t ifindex = path->ifindex;
	bool own;

	if (look_up(a, ifindex, now, &own))
		return own;
	own = netdev_owns(a, ifindex, &path->src);
	lock_acquire(&gsi.lock);
	gsi.known[gsi.next_known++ % KNOWN] = (struct known){ *a, ifindex, own, now };
	lock_release(&gsi.lock);
	return own;
}

/* ---- dispatch ---- */

static struct net_path reversed(const struct net_path *path)
{
	struct net_path back = *path;

	back.src = path->dst;
	back.dst = path->src;
	return back;
}

static void reply_stateless(const struct routed_mad *r)
{
	const struct net_path back = reversed(r->path);
	struct cm_msg answer;
	uint8_t mad[CM_MAD_LEN];

	if (!cm_stateless_reply(&answer, r->m))
		return;
	cm_encode(mad, &answer);
	vrb_gsi_send(&back, mad);
}

/* Must hold vrb.poll_lock. */
static void deliver(const struct routed_mad *r)
{
	if (tapped() && !vrb_tap_mad(&(struct tap_mad){ .path = r->path, .mad = r->mad }))
		return;
	if (gsi.ops)
		gsi.ops->receive(gsi.arg, r->path, r->mad, r->now);
	else
		reply_stateless(r);
}

/* The sender retransmits the MAD, as after a loss on the network. */
static void note_lost(void)
{
	log_limited(LOG_CORE, LOG_WARN,
		    "dropped a MAD: too many are queued for processes that do not read them");
}

static bool is_request(const struct cm_msg *m)
{
	return m->type == CM_REQ || m->type == CM_SIDR_REQ;
}

static uint32_t sender_of(const struct cm_msg *m)
{
	return m->type == CM_DREQ ? m->dreq.local_id : m->rej.local_id;
}

/* A request or REP that is refused at once has no connection here: its sender repeats it. */
static bool ends_connection(const struct cm_msg *m)
{
	bool refuses = m->type == CM_REJ && m->rej.reason == CM_REJ_INVALID_COMM_ID;

	return (m->type == CM_DREQ || m->type == CM_REJ) && sender_of(m) && !refuses;
}

static unsigned int limit_of(enum origin origin)
{
	return origin == FROM_WIRE ? QUEUE_WIRE : QUEUE;
}

/*
 * A MAD for a process whose inbox is full.  Few requests from the wire wait for room: in a flood
 * the queue would hold nothing else, and what belongs to a connection would find no room.
 */
static void wait_for_room(const struct routed_mad *r, int slot, uint64_t incarnation)
{
	uint64_t at = r->now + RETRY_FIRST;

	if (r->origin == FROM_WIRE && is_request(r->m)) {
		if (!enqueue(r, slot, incarnation, at,
			     vrb_admission_is_crowded(&r->path->src) ? QUEUE_CROWDED :
								       QUEUE_REQUESTS))
			vrb_admission_refused();
	} else if (r->origin == FROM_HERE && ends_connection(r->m)) {
		if (!keep(r, slot, incarnation, sender_of(r->m), at))
			note_lost();
	} else if (!enqueue(r, slot, incarnation, at, limit_of(r->origin))) {
		note_lost();
	}
}

static bool is_self(int slot)
{
	return slot == host_slot(vrb.host) || slot == HOST_NO_SLOT;
}

/* Passes a MAD to the process in a slot; false if there is none. */
static bool give(const struct routed_mad *r, int slot, uint64_t incarnation)
{
	if (!is_self(slot)) {
		/* What ends a connection must not overtake what began it. */
		int err = ends_connection(r->m) && vrb_mad_queue_any_for(slot) ?
				  EAGAIN :
				  host_hand_mad(vrb.host, slot, incarnation, r->path, r->mad);

		if (err == EAGAIN)
			wait_for_room(r, slot, incarnation);
		return err != ENOENT;
	}
	if (r->origin == FROM_WIRE)
		deliver(r);
	else if (!enqueue(r, slot, 0, r->now, QUEUE))
		note_lost();
	return true;
}

static bool give_to_service(const struct routed_mad *r, uint64_t service_id)
{
	struct cm_ip_header ip;
	uint8_t family = cm_ip_header_of(&ip, r->m);
	uint64_t incarnation;
	int slot;

	return host_service_find(vrb.host, service_id, &r->path->dst, r->path->ifindex, family,
				 &slot, &incarnation) &&
	       give(r, slot, incarnation);
}

/* Limits broadcasts of MADs from the wire: processing costs more than sending. */
static bool may_broadcast(uint64_t now)
{
	if (now - gsi.broadcast_at < BROADCAST_GAP)
		return false;
	gsi.broadcast_at = now;
	return true;
}

/* Passes a MAD to every process with a CM. */
static void give_to_all(const struct routed_mad *r)
{
	int slots[MANAGERS];
	unsigned int n = host_managers(vrb.host, slots, MANAGERS);

	for (unsigned int i = 0; i < n; i++)
		give(r, slots[i], 0);
	give(r, HOST_NO_SLOT, 0);
}

/* ---- to other users and run directories ---- */

static size_t build_packet(uint8_t *to, const uint8_t *mad)
{
	static uint32_t psn;
	const struct roce_pkt pkt = {
		.bth = { .opcode = ROCE_UD_SEND_ONLY,
			 .pkey = ROCE_PKEY_DEFAULT,
			 .dest_qpn = ROCE_QP1,
			 .psn = fetch_add_relaxed(&psn, 1) & 0xffffff },
		.deth = { .qkey = ROCE_QKEY_GSI, .src_qpn = ROCE_QP1 },
	};
	size_t len = roce_encode_headers(to, &pkt);

	memcpy(to + len, mad, CM_MAD_LEN);
	return len + CM_MAD_LEN;
}

void vrb_gsi_send_by_wire(const struct net_path *path, const uint8_t *mad)
{
	struct vrb_tx_batch *b = vrb_tx_batch_own();

	if (!b)
		return;
	vrb_tx_batch_seal(b, NULL, path, build_packet(vrb_tx_batch_room(b), mad), false);
	vrb_tx_batch_flush(b);
}

/* Others hold the UDP port. */
static bool is_relayed(void)
{
	return vrb.wire && load_relaxed(&vrb.wire->relayed);
}

/*
 * Leaves a MAD to a process that holds the port, which knows to whom it is. What comes from there
 * is for this process, or for none.
 */
static bool leave_to_holder(const struct routed_mad *r)
{
	if (r->origin == FROM_HERE)
		vrb_gsi_send_by_wire(r->path, r->mad);
	return r->origin == FROM_HERE;
}

bool vrb_gsi_relay(const struct net_path *path, const uint8_t *mad, unsigned int number)
{
	uint8_t packet[ROCE_BTH_LEN + ROCE_DETH_LEN + CM_MAD_LEN + ROCE_ICRC_LEN];
	size_t len = build_packet(packet, mad);
	uint32_t icrc;
	int err;

	if (!vrb.wire)
		return false;
	icrc = htole32(roce_icrc(path, 0, packet, len));
	memcpy(packet + len, &icrc, sizeof(icrc));
	err = relay_packet(vrb.wire, number, path, packet, len + ROCE_ICRC_LEN, true);
	return err != ENOENT;
}

/* A request that no process of this run directory listens for. */
static bool give_to_others(const struct routed_mad *r, uint64_t service_id)
{
	if (is_relayed())
		return leave_to_holder(r);
	return vrb.wire &&
	       !host_relay_request(vrb.host, vrb.wire->port, service_id, r->path, r->mad);
}

/*
 * A communication id names a slot or a relay number (util/net.h). A process without a slot uses a
 * random one. The ids of processes that hold the port name slots, and not of this one's table where
 * this one does not hold it.
 */
static bool give_to_id(const struct routed_mad *r, uint64_t id)
{
	int place = (int)vrb_comm_id_place((uint32_t)id), slot = HOST_NO_SLOT;

	if (vrb_comm_id_mine((uint32_t)id))
		return give(r, HOST_NO_SLOT, 0);
	if (!is_relayed() && give(r, place, 0))
		return true;
	if (place >= NET_RELAY_FIRST)
		slot = host_relay_slot(vrb.host, (unsigned int)place);
	if (slot != HOST_NO_SLOT)
		return give(r, slot, 0);
	if (is_relayed())
		return leave_to_holder(r);
	return vrb_gsi_relay(r->path, r->mad, (unsigned int)place);
}

static void dispatch(const struct net_path *path, const uint8_t *mad, enum origin origin,
		     uint64_t now)
{
	bool given = true, waits = false;
	struct cm_msg m;
	const struct routed_mad r = { path, mad, &m, origin, now };
	uint64_t number;

	if (cm_decode_head(&m, mad, CM_MAD_LEN) != CM_DECODED)
		return;
	switch (cm_addressee(&m, &number)) {
	case CM_TO_SERVICE:
		given = give_to_service(&r, number) || give_to_others(&r, number);
		waits = !given &&
			enqueue(&r, UNCLAIMED, 0, now + VRB_MSEC, limit_of(origin));
		break;
	case CM_TO_ID:
		given = give_to_id(&r, number);
		break;
	case CM_TO_ALL:
		/* It is a rejection, which its sender does not repeat. */
		if (origin == FROM_HERE || may_broadcast(now))
			give_to_all(&r);
		else if (!enqueue(&r, EVERYONE, 0, gsi.broadcast_at + BROADCAST_GAP,
				  QUEUE_REQUESTS))
			note_lost();
		break;
	}
	if (!given && !waits)
		reply_stateless(&r);
}

/* ---- in and out ---- */

void vrb_gsi_input(const struct roce_pkt *pkt, uint64_t now)
{
	uint16_t type;

	if (pkt->bth.opcode != ROCE_UD_SEND_ONLY || pkt->deth.qkey != ROCE_QKEY_GSI ||
	    pkt->payload_len != CM_MAD_LEN ||
	    !roce_pkey_match(pkt->bth.pkey, ROCE_PKEY_DEFAULT))
		return;
	type = get_be16(pkt->payload + CM_ATTRIBUTE_AT);
	if (type == CM_REQ || type == CM_SIDR_REQ)
		vrb_admission_request(&pkt->path.src, now);
	dispatch(&pkt->path, pkt->payload, FROM_WIRE, now);
}

/* Whether MADs on a path from this process take the wire. */
static bool by_wire(const struct net_path *path, uint64_t now)
{
	return vrb.wire && (config_get()->transport == CONFIG_UDP || !ends_here(path, now));
}

/* The process that passed the MAD on did the lookup, so it is delivered here in any case. */
bool vrb_gsi_handed(const struct net_path *path, const uint8_t *mad, size_t len, uint64_t now)
{
	const struct net_path back = reversed(path);
	uint64_t number;
	struct cm_msg m;

	if (len != CM_MAD_LEN || cm_decode_head(&m, mad, len) != CM_DECODED)
		return false;
	deliver(&(struct routed_mad){ path, mad, &m, FROM_WIRE, now });
	return cm_addressee(&m, &number) == CM_TO_ID && by_wire(&back, now);
}

void vrb_gsi_relayed(const struct net_path *path, const uint8_t *mad, uint64_t now)
{
	dispatch(path, mad, FROM_WIRE, now);
}

bool vrb_gsi_unanswered(void)
{
	return unlikely(load_relaxed(&gsi.unanswered)) && swap_acq_rel(&gsi.unanswered, false);
}

int vrb_gsi_send(const struct net_path *path, const uint8_t *mad)
{
	uint64_t now = clock_now();
	struct net_path p = *path;
	bool in_vain = false;

	if (!p.hop_limit)
		p.hop_limit = HOP_LIMIT;
	if (tapped() && !vrb_tap_mad(&(struct tap_mad){
				.path = &p, .mad = mad, .out = true, .in_vain = &in_vain }))
		return in_vain ? ETIMEDOUT : 0;
	if (by_wire(&p, now)) {
		if (load_relaxed(&gsi.in_timeout))
			store_relaxed(&gsi.unanswered, true);
		vrb_gsi_send_by_wire(&p, mad);
		return 0;
	}
	if (!ends_here(&p, now))
		return ENETUNREACH;
	dispatch(&p, mad, FROM_HERE, now);
	return 0;
}

int vrb_gsi_send_for_dead(const struct net_path *path, const uint8_t *mad)
{
	uint64_t now = clock_now();

	if (!ends_here(path, now))
		return vrb_gsi_send(path, mad);
	/* Leaves more room than MADs from the wire may use. */
	if (vrb_mad_queue_limited() >= QUEUE_DEAD)
		return EAGAIN;
	dispatch(path, mad, FROM_HERE, now);
	return 0;
}

/* ---- retries ---- */

static bool claimed(const struct routed_mad *r)
{
	uint64_t service_id;

	cm_addressee(r->m, &service_id);
	return give_to_service(r, service_id) || give_to_others(r, service_id);
}

/* Returns true if the MAD must stay queued. */
static bool try_again(const struct queued_mad *p, uint64_t now)
{
	struct cm_msg m;
	const struct routed_mad r = { &p->path, p->mad, &m, FROM_WIRE, now };
	int err = 0;

	cm_decode_head(&m, p->mad, sizeof(p->mad));
	if (p->slot == UNCLAIMED)
		err = claimed(&r) ? 0 : now < p->until ? EAGAIN : ENOENT;
	else if (p->slot == EVERYONE && !may_broadcast(now))
		err = EAGAIN;
	else if (p->slot == EVERYONE)
		give_to_all(&r);
	else if (is_self(p->slot))
		deliver(&r);
	else
		err = host_hand_mad(vrb.host, p->slot, p->incarnation, r.path, r.mad);
	if (err == ENOENT)
		reply_stateless(&r);
	return err == EAGAIN;
}

/* Inboxes found full in this round; other MADs for them are not tried. */
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

/* Tries each queued MAD once, in order. */
static void run_queue(uint64_t now)
{
	struct full full = { { 0 } };
	bool waits = false, moved = false;
	unsigned int n;

	lock_acquire(&gsi.lock);
	gsi.retry = VRB_NEVER;
	lock_release(&gsi.lock);
	n = vrb_mad_queue_length();
	while (n--) {
		struct queued_mad *p = vrb_mad_queue_take();

		if (!p)
			break;
		if (is_full(&full, p->slot) || try_again(p, now)) {
			note_full(&full, p->slot);
			vrb_mad_queue_put_back(p);
			waits = true;
		} else {
			moved = true;
			vrb_mad_queue_drop(p);
		}
	}
	lock_acquire(&gsi.lock);
	gsi.pause = waits && !moved ? min(2 * gsi.pause, RETRY_LAST) : RETRY_FIRST;
	if (waits)
		gsi.retry = min(gsi.retry, now + gsi.pause);
	lock_release(&gsi.lock);
}

/* ---- start and stop ---- */

static bool is_due(const uint64_t *at, uint64_t now)
{
	bool due;

	lock_acquire(&gsi.lock);
	due = time_reached(*at, now);
	lock_release(&gsi.lock);
	return due;
}

/*
 * An answer that has come is no reason to repeat the request, though this process has had no CPU to
 * read it: a REQ that was rejected meanwhile would be a new one, which nobody waits for.
 */
static void take_answers(struct expiry *e)
{
	if (e->taken || !is_due(&gsi.wanted, e->now))
		return;
	e->taken = true;
	e->take_all(e->now, e->poller);
}

/* What this process sends itself is queued behind. */
static void run_queue_to_self(uint64_t now)
{
	for (unsigned int i = 0; i < SELF_ROUNDS && is_due(&gsi.retry, now); i++)
		run_queue(now);
}

static void expire(uint64_t now)
{
	uint64_t next;
	bool due;

	run_queue_to_self(now);
	lock_acquire(&gsi.lock);
	due = time_reached(gsi.wanted, now);
	if (due)
		gsi.wanted = VRB_NEVER;
	lock_release(&gsi.lock);
	if (due && gsi.ops) {
		store_relaxed(&gsi.in_timeout, true);
		gsi.ops->timeout(gsi.arg, now);
		store_relaxed(&gsi.in_timeout, false);
	}
	lock_acquire(&gsi.lock);
	next = min(gsi.wanted, gsi.retry);
	lock_release(&gsi.lock);
	arm(next);
}

static void on_timer(struct object_timer *d, struct expiry *e)
{
	take_answers(e);
	expire(e->now);
}

int vrb_gsi_start(void)
{
	int err;

	gsi.wanted = gsi.retry = VRB_NEVER;
	gsi.pause = RETRY_FIRST;
	vrb_comm_id_start();
	err = vrb_timer_add(&gsi.deadline, on_timer);
	return err ? err : vrb_admission_start();
}

void vrb_gsi_stop(void)
{
	timers_remove(vrb.timers, &gsi.deadline.timer);
	vrb_admission_stop();
	vrb_mad_queue_clear();
}

void vrb_gsi_forget(void)
{
	gsi.ops = NULL;
	lock_renew(&gsi.lock);
	vrb_mad_queue_forget();
	gsi.deadline = (struct object_timer){ 0 };
	vrb_admission_forget();
	vrb_exit_mad_forget();
}

int vrb_gsi_open(const struct vrb_gsi_ops *ops, void *arg)
{
	int err = 0;

	lock_acquire(&vrb.poll_lock);
	if (gsi.ops) {
		err = EBUSY;
	} else {
		gsi.ops = ops;
		gsi.arg = arg;
	}
	lock_release(&vrb.poll_lock);
	if (!err) {
		host_publish_manager(vrb.host, true);
		vrb_exit_mad_start();
	}
	return err;
}

void vrb_gsi_close(void)
{
	lock_acquire(&vrb.poll_lock);
	vrb_mad_queue_forget_exit_mads();
	lock_release(&vrb.poll_lock);
	vrb_exit_mad_stop();
	host_publish_manager(vrb.host, false);
	lock_acquire(&vrb.poll_lock);
	gsi.ops = NULL;
	lock_release(&vrb.poll_lock);
	lock_acquire(&gsi.lock);
	gsi.wanted = VRB_NEVER;
	lock_release(&gsi.lock);
}
