/* SPDX-License-Identifier: BSD-2-Clause */
/* verbena gids, and show_gids. */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include <json-c/json.h>

#include "tool.h"

typedef void (*entry_fn)(const char *device, const struct ibv_gid_entry *entry, const char *netdev,
			 void *arg);

/* No address: zero, or a link-local prefix followed by zeros. */
static bool is_empty(const union ibv_gid *gid)
{
	static const unsigned char link_local[8] = { 0xfe, 0x80 };

	return !gid->global.interface_id && (!gid->global.subnet_prefix ||
					     memcmp(gid->raw, link_local, sizeof(link_local)) == 0);
}

/* Returns the number of entries. */
static int each_entry(struct ibv_context *ctx, entry_fn fn, void *arg)
{
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	struct ibv_gid_entry entry;
	int found = 0;

	if (ibv_query_device(ctx, &attr))
		return 0;
	for (uint8_t p = 1; p <= attr.phys_port_cnt && !ibv_query_port(ctx, p, &port); p++) {
		for (int i = 0; i < port.gid_tbl_len; i++) {
			char netdev[IF_NAMESIZE] = "";

			if (ibv_query_gid_ex(ctx, p, (uint32_t)i, &entry, 0) ||
			    is_empty(&entry.gid))
				continue;
			if_indextoname(entry.ndev_ifindex, netdev);
			fn(ibv_get_device_name(ctx->device), &entry, netdev, arg);
			found++;
		}
	}
	return found;
}

static const char *version(const struct ibv_gid_entry *entry)
{
	return entry->gid_type == IBV_GID_TYPE_ROCE_V2 ? "v2" : "v1";
}

/* The IPv4 address in a mapped GID; false if it is none. */
static bool ipv4_text(const union ibv_gid *gid, char text[INET_ADDRSTRLEN])
{
	static const unsigned char mapped[12] = { [10] = 0xff, [11] = 0xff };

	return memcmp(gid->raw, mapped, sizeof(mapped)) == 0 &&
	       inet_ntop(AF_INET, gid->raw + 12, text, INET_ADDRSTRLEN);
}

/* The traditional script takes a first group of zeros for IPv4. */
static void print_entry(const char *device, const struct ibv_gid_entry *e, const char *netdev,
			void *arg)
{
	char gid[40], ipv4[INET_ADDRSTRLEN];

	group_text(e->gid.raw, sizeof(e->gid.raw), gid);
	printf("%s\t%u\t%u\t%s\t", device, e->port_num, e->gid_index, gid);
	if (!e->gid.raw[0] && !e->gid.raw[1] &&
	    inet_ntop(AF_INET, e->gid.raw + 12, ipv4, sizeof(ipv4)))
		printf("%s  ", ipv4);
	else
		printf("\t");
	printf("\t%s\t%s\n", version(e), netdev);
}

static void add_entry(const char *device, const struct ibv_gid_entry *e, const char *netdev,
		      void *arg)
{
	struct json_object *o = json_object_new_object();
	char gid[40], ipv4[INET_ADDRSTRLEN];

	group_text(e->gid.raw, sizeof(e->gid.raw), gid);
	json_object_object_add(o, "device", json_text(device));
	json_object_object_add(o, "port", json_object_new_int((int)e->port_num));
	json_object_object_add(o, "index", json_object_new_int((int)e->gid_index));
	json_object_object_add(o, "gid", json_object_new_string(gid));
	if (ipv4_text(&e->gid, ipv4))
		json_object_object_add(o, "ipv4", json_object_new_string(ipv4));
	json_object_object_add(o, "type",
			       json_object_new_string(e->gid_type == IBV_GID_TYPE_ROCE_V2
							      ? "RoCE v2"
							      : "RoCE v1"));
	json_object_object_add(o, "netdev", json_text(netdev));
	json_object_array_add(arg, o);
}

/* All devices, or the named one.  Returns the number of entries, -1 if there is no such device. */
static int each_device(struct ibv_device **list, const char *wanted, entry_fn fn, void *arg)
{
	int n = 0;
	bool found = !wanted;

	for (; *list; list++) {
		struct ibv_context *ctx;

		if (wanted && strcmp(wanted, ibv_get_device_name(*list)) != 0)
			continue;
		found = true;
		ctx = ibv_open_device(*list);
		if (!ctx)
			continue;
		n += each_entry(ctx, fn, arg);
		ibv_close_device(ctx);
	}
	return found ? n : -1;
}

static int print_table(struct ibv_device **list, const char *wanted)
{
	int n;

	printf("DEV\tPORT\tINDEX\tGID\t\t\t\t\tIPv4  \t\tVER\tDEV\n");
	printf("---\t----\t-----\t---\t\t\t\t\t------------  \t---\t---\n");
	n = each_device(list, wanted, print_entry, NULL);
	printf("n_gids_found=%d\n", n < 0 ? 0 : n);
	return n;
}

int cmd_gids(int argc, char **argv)
{
	static const struct option options[] = { { "json", no_argument, NULL, 'j' },
						 { "help", no_argument, NULL, 'h' },
						 { 0 } };
	struct json_object *all = NULL;
	struct ibv_device **list;
	const char *wanted;
	int n, c, status;

	while ((c = next_option(argc, argv, ":jh", options, "  -j, --json   machine-readable\n")) !=
	       -1) {
		if (c == '?')
			return EXIT_USAGE;
		all = all ? all : json_object_new_array();
	}
	wanted = argv[optind];
	if (wanted && !no_arguments(argc, argv, optind + 1))
		return EXIT_USAGE;
	list = all_devices(NULL, &status);
	if (!list)
		return status;
	n = 0;
	for (struct ibv_device **d = list; *d && wanted; d++)
		n += strcmp(wanted, ibv_get_device_name(*d)) == 0;
	if (wanted && !n)
		status = complain(EXIT_NO_DEVICE, "no device '%s' (verbena devices lists them)",
				  wanted);
	else
		status = EXIT_OK;
	if (!status && !all)
		print_table(list, wanted);
	if (!status && all) {
		each_device(list, wanted, add_entry, all);
		print_json(all);
	}
	ibv_free_device_list(list);
	return status;
}

int alias_show_gids(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (!list) {
		fprintf(stderr, "show_gids: cannot list devices: %s\n", strerror(errno));
		return 1;
	}
	print_table(list, argc > 1 ? argv[1] : NULL);
	ibv_free_device_list(list);
	return 0;
}
