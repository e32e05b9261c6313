/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes and removes the files of sysfs_tree.h. vrb.lock protects the `described` of a device. */
#include "core/device/sysfs_tree.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/device/device.h"
#include "core/device/sysfs_file.h"
#include "util/be.h"
#include "util/compiler.h"
#include "util/hash.h"

enum {
	UVERBS_ABI = 6,
	RDMA_CM_ABI = 4,
	TREE_FORMAT = 1,	/* raised when the files' names or texts change */
	GIDS_OF_OTHERS = 16,
};

void vrb_sysfs_name(struct vrb_device *dev)
{
	const char *top = vrb_sysfs_root();
	int n;

	/* Without a tree, paths look like those of a kernel device. */
	if (!top)
		top = "/sys";
	n = snprintf(dev->ibv.ibdev_path, sizeof(dev->ibv.ibdev_path), "%s/class/infiniband/%s",
		     top, dev->ibv.name);
	if (n >= (int)sizeof(dev->ibv.ibdev_path))
		dev->ibv.ibdev_path[0] = '\0';
	n = snprintf(dev->ibv.dev_path, sizeof(dev->ibv.dev_path), "%s/class/infiniband_verbs/%s",
		     top, dev->ibv.dev_name);
	if (n >= (int)sizeof(dev->ibv.dev_path))
		dev->ibv.dev_path[0] = '\0';
}

/* GUIDs and GIDs are printed in groups of four digits. */
static const char *groups(const uint8_t *raw, size_t len, char *text)
{
	char *p = text;

	for (size_t i = 0; i < len; i += 2)
		p += sprintf(p, "%s%02x%02x", i ? ":" : "", raw[i], raw[i + 1]);
	return text;
}

static void put_cpus(const struct sysfs_place *p)
{
	long n = sysconf(_SC_NPROCESSORS_CONF);
	char text[512] = "";
	size_t len = 0;

	n = max(1l, min(n, 1024l));
	for (long group = (n - 1) / 32; group >= 0; group--) {
		long bits = min(n - group * 32, 32l);
		uint32_t mask = bits == 32 ? UINT32_MAX : (1u << bits) - 1;

		len += snprintf(text + len, sizeof(text) - len, "%s%08x", len ? "," : "", mask);
	}
	vrb_sysfs_put(p, "local_cpus", "%s", text);
}

/* For programs that look for the PCI function of a device. */
static void put_bus(const struct vrb_device *dev)
{
	const struct ibv_device_attr *limits = &vrb_device_limits.orig_attr;
	struct sysfs_place p = vrb_sysfs_place("devices/%s", dev->ibv.name);
	struct sysfs_place net =
		vrb_sysfs_place("devices/%s/net/%s", dev->ibv.name, dev->port.ifname);

	vrb_sysfs_put(&p, "vendor", "0x%04x", limits->vendor_id & 0xffff);
	vrb_sysfs_put(&p, "device", "0x%04x", limits->vendor_part_id);
	vrb_sysfs_put(&p, "numa_node", "-1");
	vrb_sysfs_put(&p, "current_link_width", "16");
	vrb_sysfs_put(&p, "current_link_speed", "16.0 GT/s PCIe");
	put_cpus(&p);
	vrb_sysfs_put(&net, "ifindex", "%u", load_relaxed(&dev->port.ifindex));
}

static void put_node(const struct vrb_device *dev)
{
	struct sysfs_place p =
		vrb_sysfs_place("devices/%s/infiniband/%s", dev->ibv.name, dev->ibv.name);
	struct sysfs_place class = vrb_sysfs_place("class/infiniband");
	char text[SYSFS_PATH];
	uint8_t guid[8];

	put_be64(guid, dev->node_guid);
	vrb_sysfs_put(&p, "node_type", "1: CA");
	vrb_sysfs_put(&p, "node_guid", "%s", groups(guid, sizeof(guid), text));
	vrb_sysfs_put(&p, "sys_image_guid", "%s", groups(guid, sizeof(guid), text));
	vrb_sysfs_put(&p, "node_desc", "verbena %s", dev->ibv.name);
	vrb_sysfs_put(&p, "fw_ver", "%s", vrb_device_limits.orig_attr.fw_ver);
	vrb_sysfs_put(&p, "hw_rev", "0x%x", vrb_device_limits.orig_attr.hw_ver);
	vrb_sysfs_put(&p, "hca_type", "verbena");
	vrb_sysfs_put(&p, "board_id", "VRB0000000001");
	vrb_sysfs_put(&p, "parent", "%s", dev->port.ifname);
	vrb_sysfs_put_link(&p, "device", "../..");
	snprintf(text, sizeof(text), "../../devices/%s/infiniband/%s", dev->ibv.name,
		 dev->ibv.name);
	vrb_sysfs_put_link(&class, dev->ibv.name, text);
}

static const char *speed_name(const struct ibv_port_attr *attr)
{
	switch (attr->active_speed) {
	case 1: return "SDR";
	case 2: return "DDR";
	case 4: return "QDR";
	case 32: return "EDR";
	case 64: return "HDR";
	default: return "NDR";
	}
}

static void put_port(struct vrb_device *dev, const struct ibv_port_attr *attr, uint32_t downs)
{
	struct sysfs_place p =
		vrb_sysfs_place("devices/%s/infiniband/%s/ports/1", dev->ibv.name, dev->ibv.name);
	bool active = attr->state == IBV_PORT_ACTIVE;
	uint64_t speed = vrb_port_speed(&dev->port);	/* in units of 100 Mbit/s */
	int lanes = attr->active_width == 4 ? 8 : attr->active_width == 2 ? 4 : 1;

	vrb_sysfs_put(&p, "state", "%s", active ? "4: ACTIVE" : "1: DOWN");
	vrb_sysfs_put(&p, "phys_state", "%s", active ? "5: LinkUp" : "3: Disabled");
	vrb_sysfs_put(&p, "rate", "%u%s Gb/sec (%dX %s)", (unsigned int)(speed / 10), speed % 10 ?
		      ".5" : "",
	    lanes, speed_name(attr));
	vrb_sysfs_put(&p, "link_layer", "Ethernet");
	vrb_sysfs_put(&p, "lid", "0x%x", attr->lid);
	vrb_sysfs_put(&p, "lid_mask_count", "%u", attr->lmc);
	vrb_sysfs_put(&p, "sm_lid", "0x%x", attr->sm_lid);
	vrb_sysfs_put(&p, "sm_sl", "%u", attr->sm_sl);
	vrb_sysfs_put(&p, "cap_mask", "0x%08x", attr->port_cap_flags);
	/* Not a sum over processes: the kernel counts link losses once. */
	p = vrb_sysfs_place("devices/%s/infiniband/%s/ports/1/hw_counters", dev->ibv.name,
			    dev->ibv.name);
	vrb_sysfs_put(&p, "link_downed", "%u", downs);
	p = vrb_sysfs_place("devices/%s/infiniband/%s/ports/1/pkeys", dev->ibv.name, dev->ibv.name);
	vrb_sysfs_put(&p, "0", "0x%04x", VRB_PKEY_DEFAULT);
}

/*
 * As with soft RoCE, an empty slot has a zero GID and no type. Slots after the last used one have
 * no files.
 */
static void put_gids(const struct vrb_device *dev, const struct net_addr *gids)
{
	const char *name = dev->ibv.name;
	struct sysfs_place table =
		vrb_sysfs_place("devices/%s/infiniband/%s/ports/1/gids", name, name);
	struct sysfs_place types =
		vrb_sysfs_place("devices/%s/infiniband/%s/ports/1/gid_attrs/types", name, name);
	struct sysfs_place ndevs =
		vrb_sysfs_place("devices/%s/infiniband/%s/ports/1/gid_attrs/ndevs", name, name);
	unsigned int used = 0;
	char text[64], slot[16];

	for (unsigned int i = 0; i < VRB_GID_TABLE; i++)
		if (!net_addr_is_zero(&gids[i]))
			used = i + 1;
	for (unsigned int i = 0; i < max(used, dev->described_gids); i++) {
		snprintf(slot, sizeof(slot), "%u", i);
		if (i < used)
			vrb_sysfs_put(&table, slot, "%s",
				      groups(gids[i].raw, sizeof(gids[i].raw), text));
		else
			vrb_sysfs_drop(&table, slot);
		if (!net_addr_is_zero(&gids[i])) {
			vrb_sysfs_put(&types, slot, "RoCE v2");
			vrb_sysfs_put(&ndevs, slot, "%s", dev->port.ifname);
		} else {
			vrb_sysfs_drop(&types, slot);
			vrb_sysfs_drop(&ndevs, slot);
		}
	}
}

static void put_uverbs(const struct vrb_device *dev)
{
	struct sysfs_place p = vrb_sysfs_place("class/infiniband_verbs");
	struct sysfs_place uverbs = vrb_sysfs_place("class/infiniband_verbs/%s", dev->ibv.dev_name);
	struct sysfs_place cm = vrb_sysfs_place("class/misc/rdma_cm");
	struct sysfs_place dev_dir = vrb_sysfs_place("dev/infiniband");

	/* A world-accessible character device: programs check for one before they try a device. */
	vrb_sysfs_put_link(&dev_dir, dev->ibv.dev_name, "/dev/null");
	vrb_sysfs_put(&p, "abi_version", "%d", UVERBS_ABI);
	vrb_sysfs_put(&uverbs, "ibdev", "%s", dev->ibv.name);
	vrb_sysfs_put(&uverbs, "dev", "231:%d", 192 + dev->index);
	vrb_sysfs_put(&uverbs, "abi_version", "1");
	vrb_sysfs_put(&cm, "abi_version", "%d", RDMA_CM_ABI);
}

/* Covers everything that the files show of a device, but what no process of the host changes. */
static uint64_t fingerprint(const struct vrb_device *dev, const struct ibv_port_attr *attr,
			    const struct net_addr *gids, uint32_t downs)
{
	const uint32_t number[] = { TREE_FORMAT, downs, dev->index,
				    load_relaxed(&dev->port.ifindex) };
	const char *const name[] = { dev->ibv.name, dev->ibv.dev_name, dev->port.ifname,
				     vrb_device_limits.orig_attr.fw_ver };
	uint64_t h = hash_bytes(HASH_START, attr, sizeof(*attr));

	h = hash_bytes(h, gids, VRB_GID_TABLE * sizeof(*gids));
	h = hash_bytes(h, number, sizeof(number));
	h = hash_bytes(h, &dev->node_guid, sizeof(dev->node_guid));
	for (unsigned int i = 0; i < ARRAY_SIZE(name); i++)
		h = hash_bytes(h, name[i], strlen(name[i]) + 1);
	return h ? h : 1;
}

/*
 * A mark that all files of a device are there says which fingerprint they have, so that a process
 * need not read them. It lies where the device's link leads: without the link it is not found. The
 * files may be in /tmp, where what nobody reads is deleted after some days; so it counts for a day.
 */
static const char mark_name[] = ".described";

static struct sysfs_place mark_place(const struct vrb_device *dev)
{
	return vrb_sysfs_place("class/infiniband/%s", dev->ibv.name);
}

static bool is_marked(const struct vrb_device *dev, const char *mark)
{
	struct sysfs_place p = mark_place(dev);
	struct sysfs_place uverbs = vrb_sysfs_place("class/infiniband_verbs/%s", dev->ibv.dev_name);
	struct sysfs_place files = vrb_sysfs_place("dev/infiniband");

	return vrb_sysfs_is_recent(&p, mark_name, mark) && vrb_sysfs_exists(&uverbs, "ibdev") &&
	       vrb_sysfs_exists(&files, dev->ibv.dev_name);
}

static void put_files(struct vrb_device *dev, const struct ibv_port_attr *attr,
		      const struct net_addr *gids, uint32_t downs)
{
	put_bus(dev);
	put_node(dev);
	put_port(dev, attr, downs);
	/* Another process may have left files of more slots than this one knows. */
	if (!dev->described)
		dev->described_gids = GIDS_OF_OTHERS;
	put_gids(dev, gids);
	put_uverbs(dev);
}

/* Processes that describe a device differently, before and after a change, do so in turn. */
static void put_marked(struct vrb_device *dev, const struct ibv_port_attr *attr,
		       const struct net_addr *gids, uint32_t downs, const char *mark)
{
	struct sysfs_place p = mark_place(dev);
	int lock = vrb_sysfs_lock();

	vrb_sysfs_drop(&p, mark_name);
	put_files(dev, attr, gids, downs);
	if (lock < 0)
		return;
	vrb_sysfs_count_begin(dev);
	vrb_sysfs_put(&p, mark_name, "%s", mark);
	close(lock);
}

void vrb_sysfs_publish(struct vrb_device *dev)
{
	struct net_addr gids[VRB_GID_TABLE];
	struct ibv_port_attr attr;
	char mark[32];
	uint32_t downs;
	uint64_t now;

	if (!vrb_sysfs_root())
		return;
	vrb_port_query(&dev->port, &attr);
	downs = vrb_port_downs(&dev->port);
	vrb_port_gids(&dev->port, gids);
	now = fingerprint(dev, &attr, gids, downs);
	if (now == dev->described)
		return;
	snprintf(mark, sizeof(mark), "%016llx", (unsigned long long)now);
	if (!is_marked(dev, mark))
		put_marked(dev, &attr, gids, downs, mark);
	dev->described = now;
	dev->described_gids = 0;
	for (unsigned int i = 0; i < VRB_GID_TABLE; i++)
		if (!net_addr_is_zero(&gids[i]))
			dev->described_gids = i + 1;
}

static bool listed(struct vrb_device *const *list, int count, const char *name)
{
	for (int i = 0; i < count; i++)
		if (strcmp(list[i]->ibv.name, name) == 0 ||
		    strcmp(list[i]->ibv.dev_name, name) == 0)
			return true;
	return false;
}

/* Removes what it can of a directory's entries. */
static void empty(const char *path)
{
	DIR *d = opendir(path);
	const struct dirent *e;

	while (d && (e = readdir(d)))
		unlinkat(dirfd(d), e->d_name, 0);
	if (d)
		closedir(d);
}

static void prune(const struct sysfs_place *p, struct vrb_device *const *list, int count)
{
	DIR *d = opendir(p->path);
	const struct dirent *e;

	while (d && (e = readdir(d))) {
		char path[SYSFS_PATH + sizeof(e->d_name)];

		if (e->d_name[0] == '.' || strcmp(e->d_name, "abi_version") == 0 ||
		    listed(list, count, e->d_name))
			continue;
		if (unlinkat(dirfd(d), e->d_name, 0) == 0 || (errno != EISDIR && errno != EPERM))
			continue;
		snprintf(path, sizeof(path), "%s/%s", p->path, e->d_name);
		empty(path);
		rmdir(path);
	}
	if (d)
		closedir(d);
}

/* The directories below devices/ stay, but nothing links to them. */
void vrb_sysfs_prune(struct vrb_device *const *list, int count)
{
	struct sysfs_place class, verbs, files;

	if (!vrb_sysfs_root())
		return;
	class = vrb_sysfs_place("class/infiniband");
	verbs = vrb_sysfs_place("class/infiniband_verbs");
	files = vrb_sysfs_place("dev/infiniband");
	prune(&class, list, count);
	prune(&verbs, list, count);
	prune(&files, list, count);
}

