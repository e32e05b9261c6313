/* SPDX-License-Identifier: BSD-2-Clause */
/* ibv_devinfo: options, messages and exit statuses are those of rdma-core's. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "info.h"
#include "tool.h"

struct request {
	const char *device;
	int port;
	bool list, verbose;
};

static void usage(const char *name)
{
	printf("Usage: %s             print the ca attributes\n"
	       "\n"
	       "Options:\n"
	       "  -d, --ib-dev=<dev>     use IB device <dev> (default all devices)\n"
	       "  -i, --ib-port=<port>   use port <port> of IB device (default all ports)\n"
	       "  -l, --list             print only the IB devices names\n"
	       "  -v, --verbose          print all the attributes of the IB device(s)\n",
	       name);
}

static int list_names(struct ibv_device **list, int n)
{
	printf("%d HCA%s found:\n", n, n == 1 ? "" : "s");
	for (int i = 0; i < n; i++)
		printf("\t%s\n", ibv_get_device_name(list[i]));
	printf("\n");
	return 0;
}

/* Returns 0, or an exit status after printing an error. */
static int parse(int argc, char **argv, struct request *r)
{
	static const struct option options[] = { { "ib-dev", required_argument, NULL, 'd' },
						 { "ib-port", required_argument, NULL, 'i' },
						 { "list", no_argument, NULL, 'l' },
						 { "verbose", no_argument, NULL, 'v' },
						 { 0 } };
	int c;

	while ((c = getopt_long(argc, argv, "d:i:lv", options, NULL)) != -1) {
		if (c == 'd')
			r->device = optarg;
		else if (c == 'l')
			r->list = true;
		else if (c == 'v')
			r->verbose = true;
		if (c == 'i')
			r->port = atoi(optarg);
		if (c == '?' || (c == 'i' && r->port <= 0)) {
			usage(argv[0]);
			return c == '?' ? 255 : 1;
		}
	}
	return 0;
}

/* Describes all devices, or the named one, like rdma-core's. */
static int describe(struct ibv_device **list, const struct request *r)
{
	int status = 0;
	bool found = false;

	for (; *list; list++) {
		if (r->device && strcmp(r->device, ibv_get_device_name(*list)) != 0)
			continue;
		found = true;
		status |= devinfo_print(*list, (unsigned int)r->port, r->verbose);
		if (r->device)
			break;
	}
	if (found)
		return status;
	if (r->device)
		fprintf(stderr, "IB device '%s' wasn't found\n", r->device);
	else
		fprintf(stderr, "No IB devices found\n");
	return 255;
}

int alias_ibv_devinfo(int argc, char **argv)
{
	struct request r = { 0 };
	struct ibv_device **list;
	int n, status = parse(argc, argv, &r);

	if (status)
		return status;
	list = ibv_get_device_list(&n);
	if (!list) {
		fprintf(stderr, "Failed to get IB devices list: %s\n", strerror(errno));
		return 255;
	}
	status = r.list ? list_names(list, n) : describe(list, &r);
	ibv_free_device_list(list);
	return status;
}
