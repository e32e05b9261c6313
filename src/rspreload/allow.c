/* SPDX-License-Identifier: BSD-2-Clause */
/* The lines of preload_config: "program domain type protocol". */
#include "rspreload/allow.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "util/compiler.h"

#define FOLDER "/etc/rdma/rsocket"

enum {
	FIELD = 64,
	LINES = 128,
	IB = 27, /* AF_IB */
};

static char *lines[LINES];
static unsigned int count;

static void read_lines(void)
{
	const char *folder = secure_getenv("VERBENA_RSOCKET_DIR");
	char path[4096], *line = NULL;
	size_t room = 0;
	FILE *f;

	if (snprintf(path, sizeof(path), "%s/preload_config", folder ? folder : FOLDER) >=
	    (int)sizeof(path))
		return;
	f = fopen(path, "re");
	if (!f)
		return;
	while (count < LINES && getline(&line, &room, f) > 0) {
		line[strcspn(line, "#\n")] = 0;
		if (line[strspn(line, " \t")] && (lines[count] = strdup(line)))
			count++;
	}
	free(line);
	fclose(f);
}

/* "*", or the name, with or without one of the prefixes. */
static bool names(const char *field, const char *name, const char *prefix, const char *other)
{
	if (!strcmp(field, "*"))
		return true;
	if (!strncasecmp(field, prefix, strlen(prefix)))
		field += strlen(prefix);
	else if (!strncasecmp(field, other, strlen(other)))
		field += strlen(other);
	return !strcasecmp(field, name);
}

static const char *domain_name(int domain)
{
	return domain == AF_INET ? "INET" : domain == AF_INET6 ? "INET6" : domain == IB ? "IB" : "";
}

bool allow_line(const char *line, const char *program, int domain, int type, int protocol)
{
	char name[FIELD], d[FIELD], t[FIELD], p[FIELD];
	bool stream = type == SOCK_STREAM;

	if (sscanf(line, "%63s %63s %63s %63s", name, d, t, p) != 4)
		return false;
	if (strcmp(name, "*") && strncmp(program, name, strlen(name)))
		return false;
	return names(d, domain_name(domain), "AF_", "PF_") &&
	       names(t, stream ? "STREAM" : "DGRAM", "SOCK_", "SOCK_") &&
	       names(p, stream ? "TCP" : "UDP", "IPPROTO_", "IPPROTO_");
}

static bool possible(int domain, int type, int protocol)
{
	if (domain != AF_INET && domain != AF_INET6 && domain != IB)
		return false;
	if (type == SOCK_STREAM)
		return !protocol || protocol == IPPROTO_TCP;
	return type == SOCK_DGRAM && (!protocol || protocol == IPPROTO_UDP);
}

bool allow(int domain, int type, int protocol)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	unsigned int i;

	if (!possible(domain, type, protocol))
		return false;
	pthread_once(&once, read_lines);
	for (i = 0; i < count; i++)
		if (allow_line(lines[i], program_invocation_short_name, domain, type, protocol))
			return true;
	return !count;
}
