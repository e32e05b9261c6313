/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices of ids.  They are opened with the first id or channel; if no open device has an address,
 * the list of devices is read again.
 */
#include "rdmacm/device.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>

#include "rdmacm/qp1.h"
#include "util/compiler.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct list devices = { &devices, &devices };

/* ---- Opening.  Must hold the lock ---- */

static struct device *find_open(const struct ibv_device *ibv)
{
	struct list *pos;

	list_for_each (pos, &devices) {
		struct device *dev = list_entry(pos, struct device, node);

		if (dev->verbs->device == ibv)
			return dev;
	}
	return NULL;
}

/* NULL: a context of the parent process. */
static struct device *find_context(const struct ibv_context *verbs)
{
	struct list *pos;

	list_for_each (pos, &devices) {
		struct device *dev = list_entry(pos, struct device, node);

		if (dev->verbs == verbs)
			return dev;
	}
	return NULL;
}

/* Clamps to the 8 bits that connection messages have for it. */
static uint8_t to_u8(int n)
{
	return (uint8_t)min(n, UINT8_MAX);
}

static int open_device(struct ibv_device *ibv, struct device **out)
{
	struct device *dev = find_open(ibv);
	struct ibv_device_attr attr;

	*out = dev;
	if (dev)
		return 0;
	dev = calloc(1, sizeof(*dev));
	if (!dev)
		return ENOMEM;
	dev->verbs = ibv_open_device(ibv);
	if (!dev->verbs || ibv_query_device(dev->verbs, &attr)) {
		if (dev->verbs)
			ibv_close_device(dev->verbs);
		free(dev);
		return ENODEV;
	}
	dev->guid = be64toh(attr.node_guid);
	dev->ack_delay = attr.local_ca_ack_delay;
	dev->max_rd_atomic = to_u8(attr.max_qp_rd_atom);
	dev->max_init_rd_atomic = to_u8(attr.max_qp_init_rd_atom);
	list_add_tail(&devices, &dev->node);
	*out = dev;
	return 0;
}

/*
 * Interfaces come and go, such as those of containers.  A device of one that has gone stays while
 * an id, or the program, has something open.
 */
static void close_gone(void)
{
	struct list *pos, *next;

	list_for_each_safe (pos, next, &devices) {
		struct device *dev = list_entry(pos, struct device, node);

		if (dev->users || !qp1.gone(dev->verbs))
			continue;
		list_del(&dev->node);
		ibv_close_device(dev->verbs);
		free(dev);
	}
}

static int open_all(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int i, err = 0;

	if (!list)
		return errno;
	close_gone();
	for (i = 0; list[i] && err != ENOMEM; i++) {
		struct device *dev;

		err = open_device(list[i], &dev);
	}
	ibv_free_device_list(list);
	return err == ENOMEM ? ENOMEM : 0;
}

static int use(struct device *dev)
{
	if (!dev->pd)
		dev->pd = ibv_alloc_pd(dev->verbs);
	if (!dev->pd)
		return errno;
	dev->users++;
	return 0;
}

static void unuse(struct device *dev)
{
	if (--dev->users)
		return;
	/* What the program has left in them keeps them; the next user gets the same ones. */
	if (!ibv_dealloc_pd(dev->pd))
		dev->pd = NULL;
	if (dev->xrcd && !ibv_close_xrcd(dev->xrcd))
		dev->xrcd = NULL;
}

/* ---- Addresses ---- */

static bool has_gid(struct device *dev, const struct net_addr *gid, uint32_t ifindex,
		    struct place *out)
{
	struct vrb_gid_place at;

	if (!qp1.find_gid(dev->verbs, gid, &at))
		return false;
	if (net_is_link_local(gid) && ifindex && at.ifindex != ifindex)
		return false;
	*out = (struct place){
		.dev = dev,
		.port_num = at.port_num,
		.gid_index = at.gid_index,
		.ifindex = at.ifindex,
		.mtu = at.mtu,
	};
	return true;
}

static bool find_gid(const struct net_addr *gid, uint32_t ifindex, struct place *out)
{
	struct list *pos;

	list_for_each (pos, &devices)
		if (has_gid(list_entry(pos, struct device, node), gid, ifindex, out))
			return true;
	return false;
}

int device_find(const struct net_addr *gid, uint32_t ifindex, struct place *out)
{
	int err = 0;

	qp1.catch_up();
	pthread_mutex_lock(&lock);
	if (!find_gid(gid, ifindex, out)) {
		err = open_all();
		if (!err && !find_gid(gid, ifindex, out))
			err = ENODEV;
	}
	if (!err)
		err = use(out->dev);
	pthread_mutex_unlock(&lock);
	return err;
}

void device_put(struct device *dev)
{
	pthread_mutex_lock(&lock);
	unuse(dev);
	pthread_mutex_unlock(&lock);
}

/*
 * Listing devices is expensive: once there is one, later calls rely on it, and fail later if it has
 * gone.  They are opened here so that it takes one list, and so that a server's first request,
 * which gets its device only then, need not wait.
 */
int device_any(void)
{
	bool any;

	if (qp1_find())
		return ENODEV;
	pthread_mutex_lock(&lock);
	if (list_empty(&devices))
		open_all();
	any = !list_empty(&devices);
	pthread_mutex_unlock(&lock);
	return any ? 0 : ENODEV;
}

int device_xrcd(struct device *dev, struct ibv_xrcd **out)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	int err = 0;

	pthread_mutex_lock(&lock);
	if (!dev->xrcd)
		dev->xrcd = ibv_open_xrcd(dev->verbs, &attr);
	if (!dev->xrcd)
		err = errno;
	*out = dev->xrcd;
	pthread_mutex_unlock(&lock);
	return err;
}

/* ---- Lists of devices ---- */

static int index_of(const struct device *dev)
{
	return ibv_get_device_index(dev->verbs->device);
}

static void sort_by_index(struct device **list, int n)
{
	int i, j;

	for (i = 1; i < n; i++) {
		struct device *dev = list[i];

		for (j = i; j > 0 && index_of(list[j - 1]) > index_of(dev); j--)
			list[j] = list[j - 1];
		list[j] = dev;
	}
}

/* Stores the open devices that still exist in list, and returns their number. */
static int present(struct device **list)
{
	struct ibv_device **now = ibv_get_device_list(NULL);
	int i, n = 0;

	for (i = 0; now && now[i]; i++) {
		struct device *dev = find_open(now[i]);

		if (dev && !use(dev))
			list[n++] = dev;
	}
	if (now)
		ibv_free_device_list(now);
	sort_by_index(list, n);
	return n;
}

static int list_locked(struct ibv_context ***out, int *count)
{
	struct device **found;
	struct list *pos;
	int i, most = 0, err = open_all();

	if (err)
		return err;
	list_for_each (pos, &devices)
		most++;
	found = calloc((size_t)most + 1, sizeof(*found));
	if (!found)
		return ENOMEM;
	*count = present(found);
	*out = (struct ibv_context **)found;
	for (i = 0; i < *count; i++)
		(*out)[i] = found[i]->verbs;
	if (*count)
		return 0;
	free(found);
	return ENODEV;
}

int device_list(struct ibv_context ***list, int *count)
{
	int err = device_any();

	if (err)
		return err;
	pthread_mutex_lock(&lock);
	err = list_locked(list, count);
	pthread_mutex_unlock(&lock);
	return err;
}

void device_list_put(struct ibv_context **list)
{
	int i;

	pthread_mutex_lock(&lock);
	for (i = 0; list[i]; i++) {
		struct device *dev = find_context(list[i]);

		if (dev)
			unuse(dev);
	}
	pthread_mutex_unlock(&lock);
}

void device_forget(void)
{
	pthread_mutex_init(&lock, NULL);
	list_init(&devices);
}
