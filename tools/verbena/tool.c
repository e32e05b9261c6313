/* SPDX-License-Identifier: BSD-2-Clause */
/* Common parts of the subcommands: error messages, options, devices, colours. */
#include "tool.h"

#include <errno.h>
#include <getopt.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <json-c/json.h>

#include "fault/words.h"
#include "util/utf8.h"

const char *tool_command;

/* musl knows no names: those that calls of verbs return, then. */
const char *tool_errno_name(int value)
{
#ifdef HAVE_STRERRORNAME_NP
	return strerrorname_np(value);
#else
	return fault_name_for(fault_errnos, (uint64_t)value);
#endif
}

int complain(int status, const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	fprintf(stderr, "verbena%s%s: ", tool_command ? " " : "", tool_command ? tool_command : "");
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return status;
}

/*
 * getopt's own message would name the program only. A known letter stands for a long option that
 * takes no value; of several letters in one word, optind is not behind that yet.
 */
static void bad_option(char **argv, int opt, const char *letters)
{
	const char *word = argv[optind - 1];

	if (opt == ':')
		complain(EXIT_USAGE, "option %s needs a value", word);
	else if (optopt && !strchr(letters, optopt))
		complain(EXIT_USAGE, "unknown option -%c; try --help", optopt);
	else
		complain(EXIT_USAGE, "unknown option %s; try --help", word);
}

void print_help(const char *help)
{
	for (const struct command *c = commands; c->name; c++)
		if (strcmp(c->name, tool_command) == 0)
			printf("usage: verbena %s %s\n%s.\n%s", c->name, c->args, c->help, help);
}

int next_option(int argc, char **argv, const char *letters, const struct option *options,
		const char *help)
{
	int c;

	opterr = 0;
	c = getopt_long(argc, argv, letters, options, NULL);
	if (c == 'h') {
		print_help(help);
		exit(EXIT_OK);
	}
	if (c != '?' && c != ':')
		return c;
	bad_option(argv, c, letters);
	return '?';
}

bool no_arguments(int argc, char **argv, int first)
{
	if (first >= argc)
		return true;
	complain(EXIT_USAGE, "unexpected argument '%s'; try --help", argv[first]);
	return false;
}

struct ibv_device **all_devices(int *count, int *status)
{
	struct ibv_device **list = ibv_get_device_list(count);

	if (!list)
		*status =
			complain(errno == EPERM || errno == EACCES ? EXIT_REFUSED : EXIT_NO_DEVICE,
				 "cannot list devices: %s (verbena doctor says why)",
				 strerror(errno));
	return list;
}

static struct ibv_device *find_device(struct ibv_device **list, const char *name)
{
	while (*list && name && strcmp(ibv_get_device_name(*list), name) != 0)
		list++;
	return *list;
}

struct ibv_context *open_device(const char *name, int *status)
{
	struct ibv_device **list = all_devices(NULL, status);
	struct ibv_context *ctx = NULL;
	struct ibv_device *dev;

	if (!list)
		return NULL;
	dev = find_device(list, name);
	if (dev)
		ctx = ibv_open_device(dev);
	if (!dev && name)
		*status = complain(EXIT_NO_DEVICE, "no device '%s' (verbena devices lists them)",
				   name);
	else if (!dev)
		*status = complain(EXIT_NO_DEVICE, "no devices (verbena doctor says why)");
	else if (!ctx)
		*status = complain(errno == ENOMEM ? EXIT_FAILED : EXIT_REFUSED,
				   "cannot open %s: %s (verbena doctor says why)",
				   ibv_get_device_name(dev), strerror(errno));
	ibv_free_device_list(list);
	return ctx;
}

void port_netdev(struct ibv_context *ctx, unsigned int port, char name[16])
{
	struct ibv_port_attr attr;
	struct ibv_gid_entry entry;

	name[0] = '\0';
	if (ibv_query_port(ctx, (uint8_t)port, &attr))
		return;
	for (int i = 0; i < attr.gid_tbl_len; i++)
		if (!ibv_query_gid_ex(ctx, port, (uint32_t)i, &entry, 0) &&
		    if_indextoname(entry.ndev_ifindex, name))
			return;
	name[0] = '\0';
}

bool netdev_is_up(const char *name)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq req = { 0 };
	bool up;

	if (fd < 0)
		return false;
	memcpy(req.ifr_name, name, strnlen(name, IFNAMSIZ - 1));
	up = ioctl(fd, SIOCGIFFLAGS, &req) == 0 && (req.ifr_flags & IFF_UP) &&
	     (req.ifr_flags & IFF_RUNNING);
	close(fd);
	return up;
}

struct json_object *json_text(const char *text)
{
	char *copy = NULL;
	size_t len;
	FILE *f = open_memstream(&copy, &len);
	struct json_object *o;

	while (f && *text) {
		unsigned int n = utf8_length(text);

		if (n)
			fwrite(text, 1, n, f);
		else
			fputs(UTF8_REPLACEMENT, f);
		text += n ? n : 1;
	}
	if (!f || fclose(f))
		exit(complain(EXIT_FAILED, "out of memory"));
	o = json_object_new_string(copy);
	free(copy);
	return o;
}

void print_json(struct json_object *o)
{
	puts(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PRETTY |
						       JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(o);
}

const char *colour(const char *sequence)
{
	static int wanted = -1;

	if (wanted < 0)
		wanted = isatty(STDOUT_FILENO) && !getenv("NO_COLOR");
	return wanted ? sequence : "";
}

void group_text(const unsigned char *raw, size_t len, char *text)
{
	for (size_t i = 0; i < len; i += 2)
		text += sprintf(text, "%s%02x%02x", i ? ":" : "", raw[i], raw[i + 1]);
}
