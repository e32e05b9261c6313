/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Subscriptions to multicast groups: what the process that does not hold the UDP port sends, and
 * what the holder does. The test plays the clock, the wire and the table of groups.
 */
#include "core/rx/subscriptions.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/object_timer.h"
#include "core/base/state.h"
#include "core/mad/group_mad.h"
#include "core/mad/gsi.h"
#include "core/rx/mcast.h"
#include "core/rx/subscriber.h"
#include "host/host.h"
#include "wire/relay.h"
#include "wire/wire.h"

enum { SLOT = 3, OTHER_SLOT = 4, NUMBER = 600, OWN_NUMBER = 700, IFINDEX = 2, PORT = 4791 };

struct vrb_process vrb;

static struct wire wire = { .port = PORT };
static uint64_t now = 100 * VRB_SECOND;

/* What was done. */
static struct group_mad sent, answered;
static unsigned int n_sent, n_answered, n_handed, n_relayed, n_held;
static uint32_t relayed_to;		/* a bit for each number from NUMBER */
static struct object_timer *timer[2];
static uint64_t due[2];
static unsigned int n_timer;

static struct group_place own[20];	/* the groups of the process's QPs */
static unsigned int n_own;

uint64_t clock_now(void);
uint64_t clock_now(void)
{
	return now;
}

int vrb_timer_add(struct object_timer *d, void (*expire)(struct object_timer *d, struct expiry *e))
{
	d->expire = expire;
	due[n_timer] = VRB_NEVER;
	timer[n_timer++] = d;
	return 0;
}

void vrb_timer_set(struct object_timer *d, uint64_t at)
{
	due[d == timer[1]] = at;
}

void vrb_timer_remove(struct object_timer *d)
{
	n_timer--;
}

int vrb_mcast_hold(const struct net_addr *group, uint32_t ifindex)
{
	n_held++;
	return 0;
}

void vrb_mcast_release(const struct net_addr *group, uint32_t ifindex)
{
	n_held--;
}

unsigned int vrb_mcast_list(struct group_place *to, unsigned int max)
{
	memcpy(to, own, (n_own < max ? n_own : max) * sizeof(*to));
	return n_own;
}

void vrb_gsi_send_by_wire(const struct net_path *path, const uint8_t *mad)
{
	assert_int_equal(path->dst_port, PORT);
	assert_true(group_mad_decode(&sent, mad, CM_MAD_LEN));
	n_sent++;
}

bool vrb_gsi_relay(const struct net_path *path, const uint8_t *mad, unsigned int number)
{
	assert_int_equal(path->src_port, PORT);
	assert_int_equal(path->dst_port, relay_port(number));
	assert_true(group_mad_decode(&answered, mad, CM_MAD_LEN));
	n_answered++;
	return true;
}

int relay_packet(struct wire *w, unsigned int number, const struct net_path *path,
		 const void *data, size_t len, bool look)
{
	n_relayed++;
	relayed_to |= 1u << (number - NUMBER);
	return 0;
}

uint16_t relay_port(unsigned int number)
{
	return (uint16_t)(49152 + number - NET_RELAY_FIRST);
}

unsigned int relay_number_of(const struct net_path *path)
{
	return net_is_loopback(&path->src) ? path->src_port - 49152u + NET_RELAY_FIRST : 0;
}

bool relay_is_at(const struct net_addr *dst, uint16_t port)
{
	return net_is_loopback(dst) && port >= relay_port(NET_RELAY_FIRST);
}

struct net_path relay_path(const struct wire *w, uint16_t src_port, uint16_t dst_port)
{
	struct net_path path = { .src_port = src_port, .dst_port = dst_port };

	path.src.raw[15] = path.dst.raw[15] = 1;
	return path;
}

bool host_shared(const struct host *h)
{
	return true;
}

int host_slot(const struct host *h)
{
	return SLOT;
}

int host_hand_mad(struct host *h, int slot, uint64_t incarnation, const struct net_path *path,
		  const uint8_t mad[HOST_MAD_LEN])
{
	assert_int_equal(slot, OTHER_SLOT);
	n_handed++;
	return 0;
}

static struct group_place group(uint8_t last)
{
	return (struct group_place){ .addr.raw = { 0xff, 0x15, [15] = last }, .ifindex = IFINDEX };
}

static int begin(void **state)
{
	now += 100 * VRB_SECOND;
	n_sent = n_answered = n_handed = n_relayed = n_timer = n_own = 0;
	relayed_to = 0;
	wire.src_port = PORT;
	vrb.wire = &wire;
	assert_int_equal(vrb_subscriber_start(), 0);
	assert_int_equal(vrb_subscriptions_start(), 0);
	return 0;
}

static int finish(void **state)
{
	vrb_subscriber_stop();
	vrb_subscriptions_stop();
	assert_int_equal(n_held, 0);
	wire.relayed = false;
	return 0;
}

static bool arrives(const struct net_path *path, const struct group_mad *m, bool handed)
{
	uint8_t mad[CM_MAD_LEN];

	group_mad_encode(mad, m);
	return vrb_subscriptions_mad(path, mad, sizeof(mad), handed, now);
}

/* The process with this number subscribes to these groups, and no others. */
static void subscribe(unsigned int number, unsigned int slot, uint8_t first, unsigned int n)
{
	const struct net_path path = relay_path(&wire, relay_port(number), PORT);
	struct group_mad m = { .kind = GROUP_MAD_KEEP, .slot = slot, .n = n };

	for (unsigned int i = 0; i < n; i++)
		m.group[i] = group((uint8_t)(first + i));
	assert_true(arrives(&path, &m, false));
}

/* Returns to how many it is relayed. */
static unsigned int packet_to(uint8_t last, uint32_t ifindex)
{
	const struct net_path path = { .dst = group(last).addr, .ifindex = ifindex };
	unsigned int before = n_relayed;

	vrb_subscriptions_relay(&path, (const uint8_t *)"", 1, now);
	return n_relayed - before;
}

/* The time of the timer comes, of the subscriber (0) or the holder (1). */
static void expire(unsigned int which)
{
	struct expiry e = { 0 };

	now = due[which];
	due[which] = VRB_NEVER;
	e.now = now;
	timer[which]->expire(timer[which], &e);
}

static void a_mad_is_read_as_it_was_written(void **state)
{
	struct group_mad m = { .kind = GROUP_MAD_KEEP, .slot = 511, .n = GROUP_MAD_MAX }, got;
	uint8_t mad[CM_MAD_LEN];

	for (unsigned int i = 0; i < m.n; i++)
		m.group[i] = group((uint8_t)i);
	group_mad_encode(mad, &m);
	assert_true(group_mad_decode(&got, mad, sizeof(mad)));
	assert_int_equal(got.slot, m.slot);
	assert_int_equal(got.n, m.n);
	assert_memory_equal(got.group, m.group, sizeof(m.group));
	assert_false(group_mad_decode(&got, mad, sizeof(mad) - 1));

	for (unsigned int i = 0; i < 4; i++) {
		/* its class, its method, how many groups, and the address of one */
		const unsigned int at[] = { 1, 3, 37, 44 };

		group_mad_encode(mad, &m);
		mad[at[i]] = at[i] == 37 ? GROUP_MAD_MAX + 1 : 0x20;
		assert_false(group_mad_decode(&got, mad, sizeof(mad)));
	}
	m.group[0].ifindex = 0;
	group_mad_encode(mad, &m);
	assert_false(group_mad_decode(&got, mad, sizeof(mad)));
}

static void each_subscriber_gets_one_copy(void **state)
{
	subscribe(NUMBER, SLOT, 1, 2);
	subscribe(NUMBER + 1, SLOT, 2, 2);
	subscribe(NUMBER, SLOT, 1, 2);
	assert_int_equal(n_answered, 3);
	assert_int_equal(answered.kind, GROUP_MAD_KEPT);
	assert_int_equal(answered.slot, SLOT);
	assert_int_equal(answered.n, 0);
	assert_int_equal(n_held, 4);
	assert_int_equal(packet_to(1, IFINDEX), 1);
	assert_int_equal(packet_to(2, IFINDEX), 2);
	assert_int_equal(packet_to(4, IFINDEX), 0);
	assert_int_equal(packet_to(2, IFINDEX + 1), 0);
	assert_int_equal(relayed_to, 3);

	subscribe(NUMBER, SLOT, 2, 1);
	assert_int_equal(packet_to(1, IFINDEX), 0);
	subscribe(NUMBER, SLOT, 0, 0);
	assert_int_equal(n_answered, 4);
	assert_int_equal(packet_to(2, IFINDEX), 1);
	assert_int_equal(n_held, 2);
}

static void what_is_not_repeated_lapses(void **state)
{
	uint64_t start = now;

	subscribe(NUMBER, SLOT, 1, 1);
	now += GROUP_MAD_LEASE / 2;
	subscribe(NUMBER + 1, SLOT, 1, 1);
	assert_int_equal(due[1], start + GROUP_MAD_LEASE);
	now = start + GROUP_MAD_LEASE;
	assert_int_equal(packet_to(1, IFINDEX), 1);	/* before the timer has looked */
	expire(1);
	assert_int_equal(n_held, 1);
	expire(1);
	assert_int_equal(n_held, 0);
	assert_int_equal(due[1], VRB_NEVER);
}

static void there_is_a_limit(void **state)
{
	for (unsigned int i = 0; i < SUBSCRIPTIONS_MAX / GROUP_MAD_MAX + 3; i++)
		subscribe(NUMBER + i, SLOT, 0, GROUP_MAD_MAX);
	assert_int_equal(n_held, SUBSCRIPTIONS_MAX);
	assert_int_equal(answered.n, GROUP_MAD_MAX);
	subscribe(NUMBER, SLOT, 0, GROUP_MAD_MAX);
	assert_int_equal(answered.n, 0);
	assert_int_equal(n_held, SUBSCRIPTIONS_MAX);
}

static void a_holder_that_ends_says_so(void **state)
{
	subscribe(NUMBER, SLOT, 1, 1);
	vrb_subscriptions_stop();
	assert_int_equal(answered.kind, GROUP_MAD_GONE);
	assert_int_equal(n_answered, 2);
	assert_int_equal(n_held, 0);
	n_timer = 1;
	assert_int_equal(vrb_subscriptions_start(), 0);
}

static void only_relayed_processes_of_this_host_are_heard(void **state)
{
	struct net_path path = relay_path(&wire, relay_port(NUMBER), PORT);
	struct group_mad m = { .kind = GROUP_MAD_KEEP, .slot = SLOT, .n = 1,
			       .group = { group(1) } };
	uint8_t other[CM_MAD_LEN] = { 1, 7 };

	assert_false(vrb_subscriptions_mad(&path, other, sizeof(other), false, now));
	path.src.raw[0] = 0x20;
	assert_true(arrives(&path, &m, false));
	assert_int_equal(n_held + n_answered, 0);
	/* An answer counts only for who has asked. */
	m.kind = GROUP_MAD_HERE;
	path = relay_path(&wire, PORT, relay_port(NUMBER));
	assert_true(arrives(&path, &m, false));
	assert_int_equal(n_sent + n_answered, 0);
}

static void it_goes_on_to_the_slot_once(void **state)
{
	const struct net_path path = relay_path(&wire, relay_port(NUMBER), PORT);
	const struct group_mad m = { .kind = GROUP_MAD_KEEP, .slot = OTHER_SLOT };

	subscribe(NUMBER, OTHER_SLOT, 1, 1);
	assert_int_equal(n_handed, 1);
	assert_true(arrives(&path, &m, true));
	assert_int_equal(n_handed, 1);
	assert_int_equal(n_held + n_answered, 0);
	assert_true(arrives(&path, &(struct group_mad){ .kind = GROUP_MAD_WHO,
							.slot = NET_RELAY_LAST }, false));
	assert_int_equal(answered.kind, GROUP_MAD_HERE);
	assert_int_equal(answered.slot, SLOT);
}

static void holder_says(enum group_mad_kind kind, unsigned int slot)
{
	const struct net_path path = relay_path(&wire, PORT, relay_port(OWN_NUMBER));

	assert_true(arrives(&path, &(struct group_mad){ .kind = kind, .slot = slot }, false));
}

static void a_subscriber_follows_one_holder(void **state)
{
	uint64_t heard;

	vrb_subscriber_changed();
	assert_int_equal(due[0], VRB_NEVER);	/* it holds the port */
	wire.relayed = true;
	wire.src_port = relay_port(OWN_NUMBER);
	own[0] = group(1);
	n_own = 1;
	vrb_subscriber_changed();
	expire(0);
	expire(0);
	assert_int_equal(n_sent, 2);
	assert_int_equal(sent.kind, GROUP_MAD_WHO);

	holder_says(GROUP_MAD_HERE, SLOT);
	holder_says(GROUP_MAD_HERE, OTHER_SLOT);
	heard = now;
	expire(0);
	assert_int_equal(sent.kind, GROUP_MAD_KEEP);
	assert_int_equal(sent.slot, SLOT);
	assert_int_equal(sent.n, 1);
	assert_memory_equal(&sent.group[0], &own[0], sizeof(own[0]));

	/* It repeats the subscription until it hears nothing for as long as that lasts. */
	while (now - heard < GROUP_MAD_LEASE)
		expire(0);
	assert_true(n_sent > 2 + 4);
	assert_int_equal(sent.kind, GROUP_MAD_WHO);
	holder_says(GROUP_MAD_HERE, OTHER_SLOT);
	expire(0);
	assert_int_equal(sent.slot, OTHER_SLOT);

	/* The first one was stopped, and continues. */
	holder_says(GROUP_MAD_KEPT, SLOT);
	assert_int_equal(sent.slot, SLOT);
	assert_int_equal(sent.n, 0);

	/* One that ends says so, but only the one that relays counts. */
	holder_says(GROUP_MAD_GONE, SLOT);
	expire(0);
	assert_int_equal(sent.kind, GROUP_MAD_KEEP);
	holder_says(GROUP_MAD_GONE, OTHER_SLOT);
	expire(0);
	assert_int_equal(sent.kind, GROUP_MAD_WHO);
	holder_says(GROUP_MAD_HERE, OTHER_SLOT);

	n_own = 0;
	vrb_subscriber_changed();
	expire(0);
	assert_int_equal(sent.slot, OTHER_SLOT);
	assert_int_equal(sent.n, 0);
	assert_int_equal(due[0], VRB_NEVER);
}

static void a_mad_has_room_for_some_groups(void **state)
{
	wire.relayed = true;
	for (n_own = 0; n_own < GROUP_MAD_MAX + 1; n_own++)
		own[n_own] = group((uint8_t)n_own);
	vrb_subscriber_changed();
	expire(0);
	holder_says(GROUP_MAD_HERE, SLOT);
	expire(0);
	assert_int_equal(sent.n, GROUP_MAD_MAX);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, finish)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_mad_is_read_as_it_was_written),
		CASE(each_subscriber_gets_one_copy),
		CASE(what_is_not_repeated_lapses),
		CASE(there_is_a_limit),
		CASE(a_holder_that_ends_says_so),
		CASE(only_relayed_processes_of_this_host_are_heard),
		CASE(it_goes_on_to_the_slot_once),
		CASE(a_subscriber_follows_one_holder),
		CASE(a_mad_has_room_for_some_groups),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
