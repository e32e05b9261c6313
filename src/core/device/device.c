/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The device registry: interfaces, device names and notification of changes. vrb.lock protects
 * `registry`.
 */
#include "core/device/device.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/context.h"
#include "core/base/limits.h"
#include "core/base/state.h"
#include "core/cq/async_event.h"
#include "core/device/numbering.h"
#include "core/device/sysfs_tree.h"
#include "run/config.h"
#include "run/log.h"
#include "run/netdev.h"
#include "util/compiler.h"
#include "util/hash.h"

/*
 * Linked by pointers to the devices themselves, so that leak checkers find those that outlive their
 * users.
 */
static struct vrb_device *registry;

void vrb_device_query(struct vrb_device *dev, struct ibv_device_attr_ex *attr)
{
	*attr = vrb_device_limits;
	attr->orig_attr.node_guid = htobe64(dev->node_guid);
	attr->orig_attr.sys_image_guid = htobe64(dev->node_guid);
}

/*
 * The modified EUI-64 of the MAC. Without a MAC: a hash of host and interface name, marked as
 * locally administered.
 */
static uint64_t make_guid(const struct netdev *nd, uint32_t ordinal)
{
	static const uint8_t none[6];
	const uint8_t *m = nd->mac;
	char host[256] = "";

	if (memcmp(m, none, sizeof(none)) != 0)
		return (uint64_t)(m[0] ^ 2) << 56 | (uint64_t)m[1] << 48 | (uint64_t)m[2] << 40 |
		       (uint64_t)(0xfffe - ordinal) << 24 | m[3] << 16 | m[4] << 8 | m[5];
	gethostname(host, sizeof(host) - 1);
	return (hash_bytes(hash_bytes(HASH_START + ordinal, host, strlen(host)), nd->name,
			   strlen(nd->name)) & ~(3ull << 56)) | 2ull << 56;
}

/* Must hold vrb.lock. */
static struct vrb_device *find(const char *ifname, uint32_t ordinal)
{
	struct vrb_device *dev = registry;

	while (dev && (strcmp(dev->port.ifname, ifname) != 0 || dev->ordinal != ordinal))
		dev = dev->next;
	return dev;
}

/* Must hold vrb.lock. */
static bool name_taken(const char *name)
{
	for (const struct vrb_device *dev = registry; dev; dev = dev->next)
		if (strcmp(dev->ibv.name, name) == 0)
			return true;
	return false;
}

/* Must hold vrb.lock. */
static bool index_taken(int index)
{
	for (const struct vrb_device *dev = registry; dev; dev = dev->next)
		if (dev->index == index)
			return true;
	return false;
}

static bool number_taken(uint32_t number)
{
	char name[IBV_SYSFS_NAME_MAX];

	snprintf(name, sizeof(name), "vrb%u", number);
	return index_taken((int)number) || name_taken(name);
}

struct scan {
	struct vrb_numbers *numbers;
	struct vrb_device **list;
	int count;
};

/* `wanted` is the configured name; if it is empty, the name is vrb<N>. Must hold vrb.lock. */
static struct vrb_device *device_new(const struct netdev *nd, uint32_t ordinal, const char *wanted,
				     struct scan *scan)
{
	struct vrb_device *dev = calloc(1, sizeof(*dev));

	if (!dev)
		return NULL;
	dev->refs = 1;	/* the registry's */
	dev->index = (int)vrb_number_of(scan->numbers, nd->ifindex, ordinal, number_taken);
	if (*wanted && !name_taken(wanted))
		snprintf(dev->ibv.name, sizeof(dev->ibv.name), "%s", wanted);
	else
		snprintf(dev->ibv.name, sizeof(dev->ibv.name), "vrb%d", dev->index);
	dev->ordinal = ordinal;
	dev->node_guid = make_guid(nd, ordinal);
	dev->ibv.node_type = IBV_NODE_CA;
	dev->ibv.transport_type = IBV_TRANSPORT_IB;
	snprintf(dev->ibv.dev_name, sizeof(dev->ibv.dev_name), "uverbs%d", dev->index);
	vrb_port_init(&dev->port, nd);
	flow_table_init(&dev->flows);
	lock_init(&dev->egress_lock);
	vrb_sysfs_name(dev);
	dev->next = registry;
	registry = dev;
	return dev;
}

/* Returns false if memory is exhausted. Must hold vrb.lock. */
static bool scan_add(struct scan *scan, const struct netdev *nd, uint32_t ordinal,
		     const char *wanted)
{
	struct vrb_device *dev = find(nd->name, ordinal);

	if (!dev)
		dev = device_new(nd, ordinal, wanted, scan);
	if (!dev)
		return false;
	dev->refs++;
	scan->list[scan->count++] = dev;
	return true;
}

/* RoCE needs an address, and an interface that is down cannot be used yet. */
static bool usable(const struct netdev *nd)
{
	return nd->up && nd->n_addrs;
}

/* Adds the devices that the configuration defines for an interface. Must hold vrb.lock. */
static bool scan_interface(struct scan *scan, const struct netdev *nd)
{
	const struct config *cfg = config_get();
	uint32_t ordinal = 0;

	for (unsigned int i = 0; i < cfg->n_devices; i++) {
		if (strcmp(cfg->device[i].ifname, nd->name) != 0)
			continue;
		if (!scan_add(scan, nd, ordinal++, cfg->device[i].name))
			return false;
	}
	if (ordinal || cfg->restrict_devices)
		return true;
	return scan_add(scan, nd, 0, "");
}

/* Must hold vrb.lock. */
static void notify_contexts(const struct vrb_device *dev, uint32_t events)
{
	static const enum ibv_event_type order[] = { IBV_EVENT_PORT_ERR, IBV_EVENT_GID_CHANGE,
						     IBV_EVENT_LID_CHANGE, IBV_EVENT_PORT_ACTIVE,
						     IBV_EVENT_DEVICE_FATAL };
	struct list *pos;

	list_for_each (pos, &vrb.contexts) {
		struct vrb_context *ctx = list_entry(pos, struct vrb_context, node);

		if (ctx->dev != dev)
			continue;
		for (unsigned int i = 0; i < ARRAY_SIZE(order); i++)
			if (events & 1u << order[i])
				vrb_event_port(ctx, order[i]);
	}
}

/* under vrb.lock */
static vrb_device_watcher watcher;
static void *watcher_arg;

void vrb_device_watch(vrb_device_watcher fn, void *arg)
{
	pthread_mutex_lock(&vrb.lock);
	watcher = fn;
	watcher_arg = arg;
	pthread_mutex_unlock(&vrb.lock);
}

/* Must hold vrb.lock. */
static void notify_watcher(const struct vrb_device *dev, enum vrb_device_news news)
{
	if (watcher)
		watcher(watcher_arg, &dev->ibv, news);
}

/* Must hold vrb.lock. */
static void follow_all(const struct netdev *nds, unsigned int n)
{
	for (struct vrb_device *dev = registry; dev; dev = dev->next) {
		const struct netdev *nd = NULL;
		bool moved, lost;
		uint32_t events;

		for (unsigned int i = 0; i < n && !nd; i++)
			if (strcmp(nds[i].name, dev->port.ifname) == 0 && !dev->removed)
				nd = &nds[i];
		moved = nd && memcmp(dev->port.mac, nd->mac, sizeof(nd->mac)) != 0;
		events = vrb_port_follow(&dev->port, nd);
		/* Raised once per device, as the kernel does on hot removal. */
		lost = !nd && !dev->gone;
		if (lost)
			events |= 1u << IBV_EVENT_DEVICE_FATAL;
		dev->gone = !nd;
		if (moved)
			notify_watcher(dev, VRB_DEVICE_NEW_MAC);
		if (!events)
			continue;
		notify_contexts(dev, events);
		if (lost)
			notify_watcher(dev, VRB_DEVICE_GONE);
		vrb_sysfs_publish(dev);
	}
}

/* under vrb.lock: the interfaces could not be listed (no descriptor, no memory) after a change */
static bool stale;

/* Must hold vrb.lock. */
static void refresh(void)
{
	struct netdev *nds;
	unsigned int n;

	stale = netdev_list(&nds, &n) != 0;
	if (stale)
		return;
	follow_all(nds, n);
	free(nds);
}

void vrb_device_force(const struct vrb_device *dev, enum ibv_event_type event)
{
	pthread_mutex_lock(&vrb.lock);
	for (struct vrb_device *one = registry; one; one = one->next) {
		if (dev && one != dev)
			continue;
		if (event == IBV_EVENT_DEVICE_FATAL)
			one->removed = true;
		vrb_port_force(&one->port, event);
	}
	refresh();
	pthread_mutex_unlock(&vrb.lock);
}

/*
 * One critical section: a thread that finds no news must see the effects of the news that another
 * took.
 */
bool vrb_device_catch_up(void)
{
	bool news;

	pthread_mutex_lock(&vrb.lock);
	news = vrb.monitor >= 0 && netdev_monitor_drain(vrb.monitor);
	if (news || stale)
		refresh();
	pthread_mutex_unlock(&vrb.lock);
	return news;
}

/* Must hold vrb.lock. */
static void put(struct vrb_device *dev)
{
	struct vrb_device **at = &registry;

	if (--dev->refs)
		return;
	while (*at != dev)
		at = &(*at)->next;
	*at = dev->next;
	lock_destroy(&dev->port.lock);
	lock_destroy(&dev->egress_lock);
	free(dev);
}

static bool is_same(const struct vrb_device *dev, const struct netdev *nd)
{
	return !strcmp(dev->port.ifname, nd->name) && dev->port.ifindex == nd->ifindex &&
	       !memcmp(dev->port.mac, nd->mac, sizeof(nd->mac));
}

/*
 * Programs name devices of a list that they have freed, and open them, as rdma-core lets them; so
 * an unused device stays as long as its interface. Must hold vrb.lock.
 */
static void drop_unused(const struct netdev *nds, unsigned int n)
{
	struct vrb_device *dev, *next;

	for (dev = registry; dev; dev = next) {
		bool exists = false;

		next = dev->next;
		for (unsigned int i = 0; i < n && !exists; i++)
			exists = !dev->removed && is_same(dev, &nds[i]);
		if (!exists && dev->refs == 1)
			put(dev);
	}
}

/*
 * Interfaces of VERBENA_DEVICES without a device, once. One that only has a name given may be that
 * of another machine.
 */
static void tell_missing(const struct netdev *nds, unsigned int n)
{
	const struct config *cfg = config_get();
	bool any = false;

	for (unsigned int i = 0; i < n; i++)
		any |= usable(&nds[i]);
	if (!any)
		log_warn(LOG_CORE, "there is no device: no network interface is up and has an "
			 "address, not even loopback (ip link set lo up)");
	for (unsigned int i = 0; i < cfg->n_devices; i++) {
		const struct config_device *wanted = &cfg->device[i];
		unsigned int at = 0;

		while (at < n && strcmp(nds[at].name, wanted->ifname) != 0)
			at++;
		if (at == n || !usable(&nds[at]))
			log_at(LOG_CORE, wanted->name[0] ? LOG_INFO : LOG_WARN,
			       "VERBENA_DEVICES: %s %s", wanted->ifname,
			       at == n ? "is no interface here" : "is down or has no address");
	}
}

/* Must hold vrb.lock. */
static int build_list(struct scan *scan, const struct netdev *nds, unsigned int n)
{
	static bool told;
	bool all = true;

	if (log_first(&told))
		tell_missing(nds, n);
	drop_unused(nds, n);
	follow_all(nds, n);
	scan->list = calloc(n + CONFIG_DEVICES + 1, sizeof(struct vrb_device *));
	scan->numbers = malloc(sizeof(*scan->numbers));
	if (!scan->list || !scan->numbers) {
		free(scan->numbers);
		return ENOMEM;
	}
	vrb_numbers_begin(scan->numbers, nds, n);
	for (unsigned int i = 0; i < n && all; i++)
		all = !usable(&nds[i]) || scan_interface(scan, &nds[i]);
	vrb_numbers_end(scan->numbers);
	free(scan->numbers);
	if (!all)
		return ENOMEM;
	for (int i = 0; i < scan->count; i++)
		vrb_sysfs_publish(scan->list[i]);
	vrb_sysfs_prune(scan->list, scan->count);
	return 0;
}

struct vrb_device **vrb_device_list(int *count)
{
	struct scan scan = { 0 };
	struct netdev *nds = NULL;
	unsigned int n;
	int err;

	/* Under the lock: an older look would undo what another thread has found out meanwhile. */
	pthread_mutex_lock(&vrb.lock);
	err = netdev_list(&nds, &n);
	if (!err)
		err = build_list(&scan, nds, n);
	if (err)
		while (scan.count)
			put(scan.list[--scan.count]);
	pthread_mutex_unlock(&vrb.lock);
	free(nds);
	if (err) {
		free(scan.list);
		errno = err;
		return NULL;
	}
	*count = scan.count;
	return scan.list;
}

void vrb_device_get(struct vrb_device *dev)
{
	pthread_mutex_lock(&vrb.lock);
	dev->refs++;
	pthread_mutex_unlock(&vrb.lock);
}

void vrb_device_put(struct vrb_device *dev)
{
	pthread_mutex_lock(&vrb.lock);
	put(dev);
	pthread_mutex_unlock(&vrb.lock);
}

void vrb_device_after_fork(void)
{
	for (struct vrb_device *dev = registry; dev; dev = dev->next) {
		lock_renew(&dev->port.lock);
		lock_renew(&dev->egress_lock);
		dev->egress_rules = 0;
		flow_table_init(&dev->flows);	/* the copied lists are the parent's */
	}
}
