/* SPDX-License-Identifier: BSD-2-Clause */
/* See sysfs.h. `root` is immutable once found; a device's `described` is under vrb.lock, `counted` under count_lock. */
#include "core/sysfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/context.h"
#include "core/device.h"
#include "core/qptab.h"
#include "core/process.h"
#include "host/dir.h"
#include "run/log.h"
#include "util/be.h"
#include "util/compiler.h"
#include "util/hash.h"

enum {
	UVERBS_ABI = 6,
	RDMA_CM_ABI = 4,
	WORD = 4,	/* port data counters count words */
	LOCK_TRIES = 50,
};

static char root[PATH_MAX];
static pthread_once_t root_once = PTHREAD_ONCE_INIT;
static pthread_mutex_t count_lock = PTHREAD_MUTEX_INITIALIZER;

static void find_root(void)
{
	/* Leaves room for what is below it in ibv_device.ibdev_path. */
	if (host_tree_path(root, IBV_SYSFS_PATH_MAX - 128))
		root[0] = '\0';
}

const char *vrb_sysfs_root(void)
{
	pthread_once(&root_once, find_root);
	return root[0] ? root : NULL;
}

void vrb_sysfs_name(struct vrb_device *dev)
{
	const char *top = vrb_sysfs_root();
	int n;

	/* Without files of its own a device is named like any other. */
	if (!top)
		top = "/sys";
	n = snprintf(dev->ibv.ibdev_path, sizeof(dev->ibv.ibdev_path), "%s/class/infiniband/%s", top,
		     dev->ibv.name);
	if (n >= (int)sizeof(dev->ibv.ibdev_path))
		dev->ibv.ibdev_path[0] = '\0';
	n = snprintf(dev->ibv.dev_path, sizeof(dev->ibv.dev_path), "%s/class/infiniband_verbs/%s", top,
		     dev->ibv.dev_name);
	if (n >= (int)sizeof(dev->ibv.dev_path))
		dev->ibv.dev_path[0] = '\0';
}

/* ---- Writing files below the root ---- */

/* Makes the directories that a path leads through. */
static void make_parents(const char *path)
{
	char part[PATH_MAX];
	size_t skip = strlen(root);

	snprintf(part, sizeof(part), "%s", path);
	for (char *p = part + skip; (p = strchr(p, '/')); p++) {
		*p = '\0';
		if (mkdir(part, 0755) < 0 && errno != EEXIST)
			log_debug(LOG_CORE, "%s: %m", part);
		*p = '/';
	}
}

static bool has_content(const char *path, const char *text, size_t len)
{
	char old[512];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, old, sizeof(old));
	close(fd);
	return n == (ssize_t)len && memcmp(old, text, len) == 0;
}

/* Puts a complete file into place, under a name that no other thread or process uses meanwhile. */
static void replace(const char *path, const char *text, size_t len)
{
	char temp[2 * PATH_MAX];
	bool ok;
	int fd;

	snprintf(temp, sizeof(temp), "%s.%d.tmp", path, (int)getpid());
	fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0 && errno == ENOENT) {
		make_parents(path);
		fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	}
	if (fd < 0) {
		log_debug(LOG_CORE, "%s: %m", temp);
		return;
	}
	ok = write(fd, text, len) == (ssize_t)len;
	close(fd);
	if (!ok || rename(temp, path) < 0)
		unlink(temp);
}

/* A directory of the tree, as a format to be completed by a file name. */
struct place {
	char path[PATH_MAX];
};

static struct place place(const char *fmt, ...) format_printf(1, 2);

static struct place place(const char *fmt, ...)
{
	struct place p;
	int n = snprintf(p.path, sizeof(p.path), "%s/", root);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(p.path + n, sizeof(p.path) - n, fmt, ap);
	va_end(ap);
	return p;
}

static void put(const struct place *p, const char *name, const char *fmt, ...) format_printf(3, 4);

/* The file `name` with one line of text. */
static void put(const struct place *p, const char *name, const char *fmt, ...)
{
	char path[PATH_MAX + 64], text[512];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text) - 1, fmt, ap);
	va_end(ap);
	n = min(n, (int)sizeof(text) - 2);
	text[n++] = '\n';
	if (snprintf(path, sizeof(path), "%s/%s", p->path, name) >= PATH_MAX)
		return;
	if (!has_content(path, text, n))
		replace(path, text, n);
}

static void put_link(const struct place *p, const char *name, const char *target)
{
	char path[PATH_MAX + 64];

	if (snprintf(path, sizeof(path), "%s/%s", p->path, name) >= PATH_MAX)
		return;
	if (symlink(target, path) == 0 || errno == EEXIST)
		return;
	make_parents(path);
	if (symlink(target, path) < 0)
		log_debug(LOG_CORE, "%s: %m", path);
}

static void drop(const struct place *p, const char *name)
{
	char path[PATH_MAX + 64];

	snprintf(path, sizeof(path), "%s/%s", p->path, name);
	unlink(path);
}

/* ---- What is in them ---- */

/* GUIDs and GIDs are written in groups of four digits. */
static const char *groups(const uint8_t *raw, size_t len, char *text)
{
	char *p = text;

	for (size_t i = 0; i < len; i += 2)
		p += sprintf(p, "%s%02x%02x", i ? ":" : "", raw[i], raw[i + 1]);
	return text;
}

static void put_cpus(const struct place *p)
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
	put(p, "local_cpus", "%s", text);
}

/* What a PCI function would show, for programs that look for the bus behind a device. */
static void put_bus(const struct vrb_device *dev)
{
	const struct ibv_device_attr *limits = &vrb_device_limits.orig_attr;
	struct place p = place("devices/%s", dev->ibv.name);
	struct place net = place("devices/%s/net/%s", dev->ibv.name, dev->port.ifname);

	put(&p, "vendor", "0x%04x", limits->vendor_id & 0xffff);
	put(&p, "device", "0x%04x", limits->vendor_part_id);
	put(&p, "numa_node", "-1");
	put(&p, "current_link_width", "16");
	put(&p, "current_link_speed", "16.0 GT/s PCIe");
	put_cpus(&p);
	put(&net, "ifindex", "%u", dev->port.ifindex);
}

static void put_node(const struct vrb_device *dev)
{
	struct place p = place("devices/%s/infiniband/%s", dev->ibv.name, dev->ibv.name);
	struct place class = place("class/infiniband");
	char text[PATH_MAX];
	uint8_t guid[8];

	put_be64(guid, dev->node_guid);
	put(&p, "node_type", "1: CA");
	put(&p, "node_guid", "%s", groups(guid, sizeof(guid), text));
	put(&p, "sys_image_guid", "%s", groups(guid, sizeof(guid), text));
	put(&p, "node_desc", "verbena %s", dev->ibv.name);
	put(&p, "fw_ver", "%s", vrb_device_limits.orig_attr.fw_ver);
	put(&p, "hw_rev", "0x%x", vrb_device_limits.orig_attr.hw_ver);
	put(&p, "hca_type", "verbena");
	put(&p, "board_id", "VRB0000000001");
	put(&p, "parent", "%s", dev->port.ifname);
	put_link(&p, "device", "../..");
	snprintf(text, sizeof(text), "../../devices/%s/infiniband/%s", dev->ibv.name, dev->ibv.name);
	put_link(&class, dev->ibv.name, text);
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
	struct place p = place("devices/%s/infiniband/%s/ports/1", dev->ibv.name, dev->ibv.name);
	bool active = attr->state == IBV_PORT_ACTIVE;
	uint64_t speed = vrb_port_speed(&dev->port);	/* 100 Mbit/s */
	int lanes = attr->active_width == 4 ? 8 : attr->active_width == 2 ? 4 : 1;

	put(&p, "state", "%s", active ? "4: ACTIVE" : "1: DOWN");
	put(&p, "phys_state", "%s", active ? "5: LinkUp" : "3: Disabled");
	put(&p, "rate", "%u%s Gb/sec (%dX %s)", (unsigned int)(speed / 10), speed % 10 ? ".5" : "",
	    lanes, speed_name(attr));
	put(&p, "link_layer", "Ethernet");
	put(&p, "lid", "0x%x", attr->lid);
	put(&p, "lid_mask_count", "%u", attr->lmc);
	put(&p, "sm_lid", "0x%x", attr->sm_lid);
	put(&p, "sm_sl", "%u", attr->sm_sl);
	put(&p, "cap_mask", "0x%08x", attr->port_cap_flags);
	/* The kernel's count, and no sum: all processes see the same. */
	p = place("devices/%s/infiniband/%s/ports/1/hw_counters", dev->ibv.name, dev->ibv.name);
	put(&p, "link_downed", "%u", downs);
	p = place("devices/%s/infiniband/%s/ports/1/pkeys", dev->ibv.name, dev->ibv.name);
	put(&p, "0", "0x%04x", VRB_PKEY_DEFAULT);
}

/* As with soft RoCE an empty slot has a zero GID and no type; slots beyond the last used one have no files. */
static void put_gids(const struct vrb_device *dev, const struct net_addr *gids)
{
	const char *name = dev->ibv.name;
	struct place table = place("devices/%s/infiniband/%s/ports/1/gids", name, name);
	struct place types = place("devices/%s/infiniband/%s/ports/1/gid_attrs/types", name, name);
	struct place ndevs = place("devices/%s/infiniband/%s/ports/1/gid_attrs/ndevs", name, name);
	unsigned int used = 0;
	char text[64], slot[16];

	for (unsigned int i = 0; i < VRB_GID_TABLE; i++)
		if (!net_addr_is_zero(&gids[i]))
			used = i + 1;
	for (unsigned int i = 0; i < max(used, dev->described_gids); i++) {
		snprintf(slot, sizeof(slot), "%u", i);
		if (i < used)
			put(&table, slot, "%s", groups(gids[i].raw, sizeof(gids[i].raw), text));
		else
			drop(&table, slot);
		if (!net_addr_is_zero(&gids[i])) {
			put(&types, slot, "RoCE v2");
			put(&ndevs, slot, "%s", dev->port.ifname);
		} else {
			drop(&types, slot);
			drop(&ndevs, slot);
		}
	}
}

static void put_uverbs(const struct vrb_device *dev)
{
	struct place p = place("class/infiniband_verbs");
	struct place uverbs = place("class/infiniband_verbs/%s", dev->ibv.dev_name);
	struct place cm = place("class/misc/rdma_cm");
	struct place dev_dir = place("dev/infiniband");

	/* A character device that everybody may open: programs ask for that before they try a device. */
	put_link(&dev_dir, dev->ibv.dev_name, "/dev/null");
	put(&p, "abi_version", "%d", UVERBS_ABI);
	put(&uverbs, "ibdev", "%s", dev->ibv.name);
	put(&uverbs, "dev", "231:%d", 192 + dev->index);
	put(&uverbs, "abi_version", "1");
	put(&cm, "abi_version", "%d", RDMA_CM_ABI);
}

/* Of all that the files show of the port. */
static uint64_t fingerprint(const struct ibv_port_attr *attr, const struct net_addr *gids,
			    uint32_t downs)
{
	uint64_t h = hash_bytes(HASH_START, attr, sizeof(*attr));

	h = hash_bytes(h, gids, VRB_GID_TABLE * sizeof(*gids));
	h = hash_bytes(h, &downs, sizeof(downs));
	return h ? h : 1;
}

void vrb_sysfs_publish(struct vrb_device *dev)
{
	struct net_addr gids[VRB_GID_TABLE];
	struct ibv_port_attr attr;
	uint32_t downs;
	uint64_t now;

	if (!vrb_sysfs_root())
		return;
	vrb_port_query(&dev->port, &attr);
	downs = vrb_port_downs(&dev->port);
	vrb_port_gids(&dev->port, gids);
	now = fingerprint(&attr, gids, downs);
	if (now == dev->described)
		return;
	put_bus(dev);
	put_node(dev);
	put_port(dev, &attr, downs);
	/* Another process may have left more slots than we know of. */
	dev->described_gids = dev->described ? dev->described_gids : 16;
	put_gids(dev, gids);
	dev->described_gids = 0;
	for (unsigned int i = 0; i < VRB_GID_TABLE; i++)
		if (!net_addr_is_zero(&gids[i]))
			dev->described_gids = i + 1;
	put_uverbs(dev);
	dev->described = now;
}

/* ---- Devices that are gone ---- */

static bool listed(struct vrb_device *const *list, int count, const char *name)
{
	for (int i = 0; i < count; i++)
		if (strcmp(list[i]->ibv.name, name) == 0 || strcmp(list[i]->ibv.dev_name, name) == 0)
			return true;
	return false;
}

/* Removes the entries of a directory, as far as they can be removed. */
static void empty(const char *path)
{
	DIR *d = opendir(path);
	const struct dirent *e;

	while (d && (e = readdir(d)))
		unlinkat(dirfd(d), e->d_name, 0);
	if (d)
		closedir(d);
}

static void prune(const struct place *p, struct vrb_device *const *list, int count)
{
	DIR *d = opendir(p->path);
	const struct dirent *e;

	while (d && (e = readdir(d))) {
		char path[PATH_MAX + sizeof(e->d_name)];

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

/* The directories behind devices/ stay: nothing leads there any more. */
void vrb_sysfs_prune(struct vrb_device *const *list, int count)
{
	struct place class, verbs, files;

	if (!vrb_sysfs_root())
		return;
	class = place("class/infiniband");
	verbs = place("class/infiniband_verbs");
	files = place("dev/infiniband");
	prune(&class, list, count);
	prune(&verbs, list, count);
	prune(&files, list, count);
}

/* ---- Counters ---- */

/* Files under the names that soft RoCE and InfiniBand give them; offsets in struct roce_counters. */
static const struct {
	const char *dir;
	const char *name;
	size_t offset;
	unsigned int unit;
} counters[] = {
#define HW(name) { "hw_counters", #name, offsetof(struct roce_counters, name), 1 }
	HW(sent_pkts),
	HW(rcvd_pkts),
	HW(duplicate_request),
	HW(out_of_seq_request),
	HW(rcvd_rnr_err),
	HW(rcvd_seq_err),
	HW(send_rnr_err),
	HW(send_err),
	HW(ack_deferred),
	HW(retry_exceeded_err),
	HW(retry_rnr_exceeded_err),
	HW(completer_retry_err),
	HW(retransmitted_pkts),
	HW(dropped_pkts),
	HW(rdma_sends),
	HW(rdma_recvs),
#undef HW
	{ "counters", "port_xmit_packets", offsetof(struct roce_counters, sent_pkts), 1 },
	{ "counters", "port_rcv_packets", offsetof(struct roce_counters, rcvd_pkts), 1 },
	{ "counters", "port_xmit_data", offsetof(struct roce_counters, sent_bytes), WORD },
	{ "counters", "port_rcv_data", offsetof(struct roce_counters, rcvd_bytes), WORD },
};

static uint64_t value_at(const struct roce_counters *c, size_t offset)
{
	uint64_t v;

	memcpy(&v, (const char *)c + offset, sizeof(v));
	return v;
}

static uint64_t read_number(const struct place *p, const char *name)
{
	char path[PATH_MAX + 64], text[32] = "";
	ssize_t n = 0;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", p->path, name);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	return n > 0 ? strtoull(text, NULL, 10) : 0;
}

/* Must hold count_lock and the file lock. */
static void add_counters(struct vrb_device *dev, const struct roce_counters *sum)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(counters); i++) {
		struct place p = place("devices/%s/infiniband/%s/ports/1/%s", dev->ibv.name,
				       dev->ibv.name, counters[i].dir);
		uint64_t unit = counters[i].unit;
		uint64_t delta = value_at(sum, counters[i].offset) / unit -
				 value_at(&dev->counted, counters[i].offset) / unit;

		put(&p, counters[i].name, "%llu",
		    (unsigned long long)(read_number(&p, counters[i].name) + delta));
	}
	dev->counted = *sum;
}

/* A holder needs about a millisecond, but may be stopped: what cannot be added in time is added next time. */
static bool lock_file(int fd)
{
	for (unsigned int i = 0; i < LOCK_TRIES; i++) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			return true;
		poll(NULL, 0, 1);
	}
	return false;
}

void vrb_sysfs_count(struct vrb_device *dev)
{
	struct roce_counters sum;
	char path[PATH_MAX + 16];
	int fd;

	if (!vrb_sysfs_root())
		return;
	vrb_qptab_counters(dev, &sum);
	pthread_mutex_lock(&count_lock);
	snprintf(path, sizeof(path), "%s/lock", root);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd >= 0 && lock_file(fd))
		add_counters(dev, &sum);
	if (fd >= 0)
		close(fd);
	pthread_mutex_unlock(&count_lock);
}

void vrb_sysfs_about_to_read(const char *dir)
{
	const char *top = vrb_sysfs_root();
	struct list *pos;

	if (!top || strncmp(dir, top, strlen(top)) != 0)
		return;
	pthread_mutex_lock(&vrb.lock);
	list_for_each (pos, &vrb.contexts)
		vrb_sysfs_count(list_entry(pos, struct vrb_context, node)->dev);
	pthread_mutex_unlock(&vrb.lock);
}
