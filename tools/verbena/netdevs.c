/* SPDX-License-Identifier: BSD-2-Clause */
/* verbena netdevs, and ibdev2netdev. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include <json-c/json.h>

#include "tool.h"

struct row {
	struct ibv_context *ctx;
	unsigned int port;
	struct ibv_device_attr attr;
	enum ibv_port_state state;
	char netdev[16];
};

typedef void (*row_fn)(const struct row *row, void *arg);

static void each_row(struct ibv_device **list, row_fn fn, void *arg)
{
	for (; *list; list++) {
		struct row row = { .ctx = ibv_open_device(*list) };
		struct ibv_port_attr port;

		if (!row.ctx)
			continue;
		if (ibv_query_device(row.ctx, &row.attr))
			row.attr.phys_port_cnt = 0;
		for (row.port = 1; row.port <= row.attr.phys_port_cnt; row.port++) {
			row.state = ibv_query_port(row.ctx, (uint8_t)row.port, &port) ? IBV_PORT_NOP
										      : port.state;
			port_netdev(row.ctx, row.port, row.netdev);
			fn(&row, arg);
		}
		ibv_close_device(row.ctx);
	}
}

static const char *up_or_down(const struct row *row)
{
	return netdev_is_up(row->netdev) ? "Up" : "Down";
}

static void print_row(const struct row *row, void *arg)
{
	printf("%s port %u ==> %s (%s)\n", ibv_get_device_name(row->ctx->device), row->port,
	       row->netdev, up_or_down(row));
}

static const char *state_name(enum ibv_port_state state)
{
	switch (state) {
	case IBV_PORT_ACTIVE: return "ACTIVE";
	case IBV_PORT_ARMED: return "ARMED";
	case IBV_PORT_INIT: return "INIT";
	default: return "DOWN";
	}
}

/* There is no PCI function; the column has the bus device's name in our own tree. */
static void print_row_verbose(const struct row *row, void *arg)
{
	const char *name = ibv_get_device_name(row->ctx->device);
	char board[64];

	if (ibv_read_sysfs_file(row->ctx->device->ibdev_path, "board_id", board, sizeof(board)) <=
	    0)
		snprintf(board, sizeof(board), "NA");
	printf("%s %s (MT%u - %s) Verbena software device fw %s port %u (%-6s) ==> %s (%s)\n", name,
	       name, row->attr.vendor_part_id, board, row->attr.fw_ver, row->port,
	       state_name(row->state), row->netdev, up_or_down(row));
}

static void add_row(const struct row *row, void *arg)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "device",
			       json_text(ibv_get_device_name(row->ctx->device)));
	json_object_object_add(o, "port", json_object_new_int((int)row->port));
	json_object_object_add(o, "netdev", json_text(row->netdev));
	json_object_object_add(o, "up", json_object_new_boolean(netdev_is_up(row->netdev)));
	json_object_object_add(o, "state", json_object_new_string(state_name(row->state)));
	json_object_array_add(arg, o);
}

int cmd_netdevs(int argc, char **argv)
{
	static const struct option options[] = { { "json", no_argument, NULL, 'j' },
						 { "verbose", no_argument, NULL, 'v' },
						 { "help", no_argument, NULL, 'h' },
						 { 0 } };
	struct json_object *all = NULL;
	struct ibv_device **list;
	row_fn fn = print_row;
	int c, status;

	while ((c = next_option(argc, argv, ":jvh", options,
				"  -v, --verbose   board, firmware and state too\n"
				"  -j, --json      machine-readable\n")) != -1) {
		if (c == '?')
			return EXIT_USAGE;
		if (c == 'v')
			fn = print_row_verbose;
		else
			all = all ? all : json_object_new_array();
	}
	if (!no_arguments(argc, argv, optind))
		return EXIT_USAGE;
	list = all_devices(NULL, &status);
	if (!list)
		return status;
	each_row(list, all ? add_row : fn, all);
	if (all)
		print_json(all);
	ibv_free_device_list(list);
	return EXIT_OK;
}

int alias_ibdev2netdev(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (!list) {
		fprintf(stderr, "ibdev2netdev: cannot list devices: %s\n", strerror(errno));
		return 1;
	}
	each_row(list, argc > 1 && strcmp(argv[1], "-v") == 0 ? print_row_verbose : print_row,
		 NULL);
	ibv_free_device_list(list);
	return 0;
}
