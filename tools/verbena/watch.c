/* SPDX-License-Identifier: BSD-2-Clause */
/* verbena watch, and ibv_asyncwatch. */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "tool.h"
#include "util/compiler.h"

#define EVENT(name) [IBV_EVENT_##name] = "IBV_EVENT_" #name

/* All events, and the number of those in rdma-core's program. */
static const char *const names[] = {
	EVENT(CQ_ERR), EVENT(QP_FATAL), EVENT(QP_REQ_ERR), EVENT(QP_ACCESS_ERR), EVENT(COMM_EST),
	EVENT(SQ_DRAINED), EVENT(PATH_MIG), EVENT(PATH_MIG_ERR), EVENT(DEVICE_FATAL),
	EVENT(PORT_ACTIVE), EVENT(PORT_ERR), EVENT(LID_CHANGE), EVENT(PKEY_CHANGE),
	EVENT(SM_CHANGE),
	EVENT(SRQ_ERR), EVENT(SRQ_LIMIT_REACHED), EVENT(QP_LAST_WQE_REACHED),
	EVENT(CLIENT_REREGISTER), EVENT(GID_CHANGE), EVENT(WQ_FATAL),
}, *const traditional[] = {
	EVENT(DEVICE_FATAL), EVENT(PORT_ACTIVE), EVENT(PORT_ERR), EVENT(LID_CHANGE),
	EVENT(PKEY_CHANGE),
	EVENT(SM_CHANGE), EVENT(CLIENT_REREGISTER), EVENT(GID_CHANGE),
};

static void print_event_text(struct ibv_context *ctx, const struct ibv_async_event *ev)
{
	unsigned int type = ev->event_type;

	printf("%s: %s (%u), port %d\n", ibv_get_device_name(ctx->device),
	       type < ARRAY_SIZE(names) && names[type] ? names[type] : "unknown event", type,
	       ev->element.port_num);
}

/* One object per line, for readers of a pipe. */
static void print_event_json(struct ibv_context *ctx, const struct ibv_async_event *ev)
{
	struct json_object *o = json_object_new_object();
	unsigned int type = ev->event_type;

	json_object_object_add(o, "device", json_text(ibv_get_device_name(ctx->device)));
	json_object_object_add(o, "event",
			       json_object_new_string(type < ARRAY_SIZE(names) && names[type]
							      ? names[type]
							      : "unknown event"));
	json_object_object_add(o, "number", json_object_new_int((int)type));
	json_object_object_add(o, "port", json_object_new_int(ev->element.port_num));
	puts(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN));
	json_object_put(o);
}

static int follow(struct ibv_context **ctx, nfds_t n, bool json)
{
	struct pollfd *fds = calloc(n, sizeof(*fds));
	struct ibv_async_event ev;

	if (!fds)
		return complain(EXIT_FAILED, "out of memory");
	for (nfds_t i = 0; i < n; i++)
		fds[i] = (struct pollfd){ .fd = ctx[i]->async_fd, .events = POLLIN };
	while (poll(fds, n, -1) > 0 || errno == EINTR) {
		for (nfds_t i = 0; i < n; i++) {
			if (!(fds[i].revents & POLLIN) || ibv_get_async_event(ctx[i], &ev))
				continue;
			(json ? print_event_json : print_event_text)(ctx[i], &ev);
			ibv_ack_async_event(&ev);
		}
	}
	free(fds);
	return complain(EXIT_FAILED, "poll: %s", strerror(errno));
}

static int watch_all(bool json)
{
	int n, status, opened = 0;
	struct ibv_device **list = all_devices(&n, &status);
	struct ibv_context **ctx;

	if (!list)
		return status;
	ctx = calloc((size_t)n + 1, sizeof(struct ibv_context *));
	for (int i = 0; i < n && ctx; i++) {
		ctx[opened] = ibv_open_device(list[i]);
		if (ctx[opened])
			opened++;
	}
	ibv_free_device_list(list);
	if (opened) {
		if (!json)
			printf("watching %d device%s; end with ^C\n", opened,
			       opened == 1 ? "" : "s");
		return follow(ctx, (nfds_t)opened, json);
	}
	free(ctx);
	return complain(EXIT_NO_DEVICE, "no devices (verbena doctor says why)");
}

int cmd_watch(int argc, char **argv)
{
	static const struct option options[] = { { "json", no_argument, NULL, 'j' },
						 { "help", no_argument, NULL, 'h' },
						 { 0 } };
	struct ibv_context *ctx;
	bool json = false;
	int c, status;

	while ((c = next_option(argc, argv, ":jh", options,
				"  -j, --json   one object a line\n")) != -1) {
		if (c == '?')
			return EXIT_USAGE;
		json = true;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (optind == argc)
		return watch_all(json);
	if (!no_arguments(argc, argv, optind + 1))
		return EXIT_USAGE;
	ctx = open_device(argv[optind], &status);
	if (!ctx)
		return status;
	if (!json)
		printf("watching %s; end with ^C\n", argv[optind]);
	return follow(&ctx, 1, json);
}

static void usage(const char *name)
{
	printf("Usage:\n"
	       "  %s            start an asyncwatch process\n"
	       "\n"
	       "Options:\n"
	       "  -d, --ib-dev=<dev>     use IB device <dev> (default first device found)\n"
	       "  -h, --help             print a help text and exit\n",
	       name);
}

static int watch_traditionally(struct ibv_device *dev)
{
	struct ibv_context *ctx = ibv_open_device(dev);
	struct ibv_async_event ev;

	if (!ctx) {
		fprintf(stderr, "Couldn't get context for %s\n", ibv_get_device_name(dev));
		return 1;
	}
	printf("%s: async event FD %d\n", ibv_get_device_name(dev), ctx->async_fd);
	while (!ibv_get_async_event(ctx, &ev)) {
		unsigned int type = ev.event_type;

		printf("  event_type %s (%u), port %d\n",
		       type < ARRAY_SIZE(traditional) && traditional[type] ? traditional[type]
									   : "unexpected",
		       type, ev.element.port_num);
		ibv_ack_async_event(&ev);
	}
	return 1;
}

int alias_ibv_asyncwatch(int argc, char **argv)
{
	static const struct option options[] = { { "ib-dev", required_argument, NULL, 'd' },
						 { "help", no_argument, NULL, 'h' },
						 { 0 } };
	const char *wanted = NULL;
	struct ibv_device **list, **d;
	int c;

	setvbuf(stdout, NULL, _IOLBF, 0);
	while ((c = getopt_long(argc, argv, "d:h", options, NULL)) != -1) {
		if (c == 'd') {
			wanted = optarg;
			continue;
		}
		usage(argv[0]);
		return c != 'h';
	}
	list = ibv_get_device_list(NULL);
	if (!list) {
		perror("Failed to get IB devices list");
		return 1;
	}
	for (d = list; *d && wanted && strcmp(ibv_get_device_name(*d), wanted) != 0; d++)
		continue;
	if (!*d) {
		fprintf(stderr, "IB device %s not found\n", wanted ? wanted : "");
		return 1;
	}
	return watch_traditionally(*d);
}
