/* SPDX-License-Identifier: BSD-2-Clause */
/* verbena devices, and ibv_devices. */
#include <endian.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include <json-c/json.h>

#include "tool.h"

static void print_table(struct ibv_device **list, int n)
{
	printf("    %-16s\t   node GUID\n", "device");
	printf("    %-16s\t----------------\n", "------");
	for (int i = 0; i < n; i++)
		printf("    %-16s\t%016llx\n", ibv_get_device_name(list[i]),
		       (unsigned long long)be64toh(ibv_get_device_guid(list[i])));
}

static struct json_object *to_json(struct ibv_device **list, int n)
{
	struct json_object *all = json_object_new_array();

	for (int i = 0; i < n; i++) {
		struct json_object *o = json_object_new_object();
		struct ibv_context *ctx = ibv_open_device(list[i]);
		uint64_t guid = ibv_get_device_guid(list[i]);
		char text[32], netdev[16] = "";

		group_text((const unsigned char *)&guid, sizeof(guid), text);
		if (ctx) {
			port_netdev(ctx, 1, netdev);
			ibv_close_device(ctx);
		}
		json_object_object_add(o, "name", json_text(ibv_get_device_name(list[i])));
		json_object_object_add(o, "node_guid", json_object_new_string(text));
		json_object_object_add(o, "index",
				       json_object_new_int(ibv_get_device_index(list[i])));
		json_object_object_add(o, "uverbs", json_object_new_string(list[i]->dev_name));
		json_object_object_add(o, "netdev", json_text(netdev));
		json_object_object_add(o, "path", json_text(list[i]->ibdev_path));
		json_object_array_add(all, o);
	}
	return all;
}

int cmd_devices(int argc, char **argv)
{
	static const struct option options[] = { { "json", no_argument, NULL, 'j' },
						 { "help", no_argument, NULL, 'h' },
						 { 0 } };
	struct ibv_device **list;
	bool json = false;
	int n, c, status;

	while ((c = next_option(argc, argv, "+:jh", options,
				"  -j, --json   machine-readable\n")) != -1) {
		if (c == '?')
			return EXIT_USAGE;
		json = true;
	}
	if (!no_arguments(argc, argv, optind))
		return EXIT_USAGE;
	list = all_devices(&n, &status);
	if (!list)
		return status;
	if (json)
		print_json(to_json(list, n));
	else
		print_table(list, n);
	ibv_free_device_list(list);
	return EXIT_OK;
}

int alias_ibv_devices(int argc, char **argv)
{
	int n;
	struct ibv_device **list = ibv_get_device_list(&n);

	if (!list) {
		fprintf(stderr, "Failed to get IB devices list: %s\n", strerror(errno));
		return 1;
	}
	print_table(list, n);
	ibv_free_device_list(list);
	return 0;
}
