/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * get-rdma-device-info IFACE: what a script needs to use RDMA on an interface, one name=value per
 * line.
 *
 * The GID index is that of the interface's IPv4 address, or of its first address if it has none.  A
 * VLAN interface has its own device; if $VERBENA_DEVICES leaves it out, the device of its lower
 * interface is returned, as on hardware.
 */
#include <dirent.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "tool.h"

struct found {
	char device[64];
	unsigned int port, index;
	int mtu;
};

static bool is_ipv4(const union ibv_gid *gid)
{
	static const unsigned char mapped[12] = { [10] = 0xff, [11] = 0xff };

	return memcmp(gid->raw, mapped, sizeof(mapped)) == 0;
}

/* Best GID of a port: IPv4 first. */
static bool search_port(struct ibv_context *ctx, uint8_t p, unsigned int ifindex, struct found *f)
{
	struct ibv_port_attr attr;
	struct ibv_gid_entry e;
	bool any = false;

	if (ibv_query_port(ctx, p, &attr))
		return false;
	for (int i = 0; i < attr.gid_tbl_len; i++) {
		if (ibv_query_gid_ex(ctx, p, (uint32_t)i, &e, 0) || e.ndev_ifindex != ifindex ||
		    e.gid_type != IBV_GID_TYPE_ROCE_V2 || (any && !is_ipv4(&e.gid)))
			continue;
		*f = (struct found){ .port = p, .index = (unsigned int)i, .mtu = attr.active_mtu };
		snprintf(f->device, sizeof(f->device), "%s", ibv_get_device_name(ctx->device));
		any = true;
		if (is_ipv4(&e.gid))
			break;
	}
	return any;
}

static bool search(struct ibv_device **list, unsigned int ifindex, struct found *f)
{
	bool any = false;

	for (; *list && !any; list++) {
		struct ibv_context *ctx = ibv_open_device(*list);
		struct ibv_device_attr attr;

		if (!ctx)
			continue;
		if (ibv_query_device(ctx, &attr))
			attr.phys_port_cnt = 0;
		for (uint8_t p = 1; p <= attr.phys_port_cnt && !any; p++)
			any = search_port(ctx, p, ifindex, f);
		ibv_close_device(ctx);
	}
	return any;
}

/*
 * The lower interface of a VLAN or similar interface: "lower_<name>" in sysfs, or derived from its
 * name if sysfs is hidden.  0: none.
 */
static unsigned int lower_interface(const char *ifname)
{
	char path[64 + IF_NAMESIZE], base[IF_NAMESIZE];
	const struct dirent *e;
	unsigned int index = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/sys/class/net/%s", ifname);
	d = opendir(path);
	while (d && (e = readdir(d)))
		if (strncmp(e->d_name, "lower_", 6) == 0)
			index = if_nametoindex(e->d_name + 6);
	if (d)
		closedir(d);
	if (index || !strrchr(ifname, '.'))
		return index;
	snprintf(base, sizeof(base), "%.*s", (int)(strrchr(ifname, '.') - ifname), ifname);
	return if_nametoindex(base);
}

static int refuse(const char *ifname, const char *why)
{
	fprintf(stderr, "get-rdma-device-info: %s: %s\n", ifname, why);
	return 1;
}

int alias_device_info(int argc, char **argv)
{
	struct ibv_device **list;
	unsigned int ifindex;
	struct found f;
	bool any;

	if (argc != 2 || argv[1][0] == '-') {
		fprintf(stderr, "usage: get-rdma-device-info INTERFACE, for example eth0\n");
		return 1;
	}
	ifindex = if_nametoindex(argv[1]);
	if (!ifindex)
		return refuse(argv[1], "no such network interface");
	list = ibv_get_device_list(NULL);
	if (!list)
		return refuse(argv[1], strerror(errno));
	any = search(list, ifindex, &f);
	if (!any && lower_interface(argv[1]))
		any = search(list, lower_interface(argv[1]), &f);
	ibv_free_device_list(list);
	if (!any)
		return refuse(argv[1], netdev_is_up(argv[1])
					       ? "no RDMA device: it has no address, or "
						 "VERBENA_DEVICES leaves it out"
					       : "no RDMA device: the interface is down");
	printf("device_name=%s\ngid_index=%u\nib_port=%u\nmtu_index=%d\n", f.device, f.index,
	       f.port, f.mtu);
	return 0;
}
