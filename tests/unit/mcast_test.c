/* SPDX-License-Identifier: BSD-2-Clause */
/* Multicast groups: which QPs are members, per interface, and the limits of the device. */
#include "core/rx/mcast.h"

#include "core_env.h"

#include "core/base/limits.h"
#include "core/device/device.h"
#include "core/qp/qp.h"

enum { QPS = 4 };

static const struct wq_ops no_ops;
static const struct net_addr group = { .raw = { 0xff, 0x0e, [15] = 1 } };
static const struct net_addr other = { .raw = { 0xff, 0x0e, [15] = 2 } };
static const struct net_addr host = { .raw = { 0xfd, [15] = 1 } };

static struct vrb_context *ctx;
static struct vrb_device dev[2];
static struct vrb_qp qp[QPS];

/* Attachments that tear_down() removes. */
static struct attachment {
	struct attachment *next;
	struct vrb_qp *qp;
	unsigned int device;
	struct net_addr addr;
} *attached;

/* QPs 0 to 2 are on the device of interface 3, QP 3 on that of interface 4. */
static int set_up(void **state)
{
	ctx = core_env_open();
	ctx->dev = &dev[0];
	dev[0].port.ifindex = 3;
	dev[1].port.ifindex = 4;
	for (unsigned int i = 0; i < QPS; i++) {
		memset(&qp[i], 0, sizeof(qp[i]));
		vrb_qp_init(&qp[i], IBV_QPT_UD, &no_ops);
		qp[i].config.ctx = ctx;
	}
	return 0;
}

static void note(struct vrb_qp *member, void *arg)
{
	*(unsigned int *)arg |= 1u << (member - qp);
}

/* Returns a bit for each QP that gets a datagram to the group. */
static unsigned int members(const struct net_addr *addr, uint32_t ifindex)
{
	unsigned int set = 0;

	lock_acquire(&vrb.poll_lock);
	vrb_mcast_for_each(addr, ifindex, note, &set);
	lock_release(&vrb.poll_lock);
	return set;
}

static int attach_on(struct vrb_qp *q, unsigned int device, const struct net_addr *addr)
{
	struct attachment *a = calloc(1, sizeof(*a));

	assert_non_null(a);
	*a = (struct attachment){ .next = attached, .qp = q, .device = device, .addr = *addr };
	attached = a;
	ctx->dev = &dev[device];
	return vrb_mcast_attach(q, addr);
}

static int detach_on(struct vrb_qp *q, unsigned int device, const struct net_addr *addr)
{
	ctx->dev = &dev[device];
	return vrb_mcast_detach(q, addr);
}

static int tear_down(void **state)
{
	while (attached) {
		struct attachment *a = attached;

		attached = a->next;
		detach_on(a->qp, a->device, &a->addr);
		free(a);
	}
	for (unsigned int i = 0; i < QPS; i++) {
		assert_int_equal(qp[i].dispatch.groups, 0);
		vrb_qp_fini(&qp[i]);
	}
	core_env_close(ctx);
	return 0;
}

static void only_members_of_the_group_and_interface(void **state)
{
	assert_int_equal(attach_on(&qp[0], 0, &group), 0);
	assert_int_equal(attach_on(&qp[1], 0, &group), 0);
	assert_int_equal(attach_on(&qp[2], 0, &other), 0);
	assert_int_equal(attach_on(&qp[3], 1, &group), 0);
	assert_int_equal(members(&group, 3), 1 << 0 | 1 << 1);
	assert_int_equal(members(&group, 4), 1 << 3);
	assert_int_equal(members(&group, 0), 1 << 0 | 1 << 1 | 1 << 3);
	assert_int_equal(members(&other, 3), 1 << 2);
	assert_int_equal(members(&group, 5), 0);
}

/* ibv_attach_mcast(3): a second attachment has no effect, so one detachment ends both. */
static void attached_twice_is_attached_once(void **state)
{
	assert_int_equal(attach_on(&qp[0], 0, &group), 0);
	assert_int_equal(attach_on(&qp[0], 0, &group), 0);
	assert_int_equal(qp[0].dispatch.groups, 1);
	assert_int_equal(detach_on(&qp[0], 0, &group), 0);
	assert_int_equal(qp[0].dispatch.groups, 0);
	assert_int_equal(members(&group, 0), 0);
	assert_int_equal(detach_on(&qp[0], 0, &group), EINVAL);
}

static void members_leave_one_by_one(void **state)
{
	for (unsigned int i = 0; i < 3; i++)
		assert_int_equal(attach_on(&qp[i], 0, &group), 0);
	assert_int_equal(detach_on(&qp[1], 0, &group), 0);
	assert_int_equal(members(&group, 3), 1 << 0 | 1 << 2);
	assert_int_equal(detach_on(&qp[0], 0, &group), 0);
	assert_int_equal(detach_on(&qp[2], 0, &group), 0);
	assert_int_equal(members(&group, 3), 0);
	assert_int_equal(attach_on(&qp[1], 0, &group), 0);
	assert_int_equal(members(&group, 3), 1 << 1);
}

static void refused(void **state)
{
	assert_int_equal(attach_on(&qp[0], 0, &host), EINVAL);
	qp[0].wq.type = IBV_QPT_RC;
	assert_int_equal(attach_on(&qp[0], 0, &group), EINVAL);
	qp[0].wq.type = IBV_QPT_UD;
	assert_int_equal(detach_on(&qp[0], 0, &group), EINVAL);
	assert_int_equal(detach_on(&qp[0], 1, &group), EINVAL);
	assert_int_equal(qp[0].dispatch.groups, 0);
}

/* A group that cannot be opened leaves no state; a closed one makes room for another. */
static void as_many_groups_as_the_device_has(void **state)
{
	const unsigned int most = (unsigned int)vrb_device_limits.orig_attr.max_mcast_grp;
	struct net_addr addr = group;

	for (unsigned int i = 0; i <= most; i++) {
		addr.raw[12] = (uint8_t)(i >> 16);
		addr.raw[13] = (uint8_t)(i >> 8);
		addr.raw[14] = (uint8_t)i;
		assert_int_equal(attach_on(&qp[0], 0, &addr), i < most ? 0 : ENOMEM);
	}
	assert_int_equal(qp[0].dispatch.groups, most);
	assert_int_equal(members(&addr, 0), 0);
	addr = group;
	addr.raw[14] = 0;
	assert_int_equal(detach_on(&qp[0], 0, &addr), 0);
	assert_int_equal(attach_on(&qp[1], 0, &other), 0);
	assert_int_equal(members(&other, 3), 1 << 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(only_members_of_the_group_and_interface, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(attached_twice_is_attached_once, set_up, tear_down),
		cmocka_unit_test_setup_teardown(members_leave_one_by_one, set_up, tear_down),
		cmocka_unit_test_setup_teardown(refused, set_up, tear_down),
		cmocka_unit_test_setup_teardown(as_many_groups_as_the_device_has, set_up,
						tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
