/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/claim.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "run/config.h"
#include "run/log.h"

/* The group and a number unique to the process follow. */
static int print_port(char *to, size_t cap, uint16_t port)
{
	return snprintf(to, cap, "verbena-udp-%u-", port);
}

int claim_port(uint16_t port, uint64_t group)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	const size_t cap = sizeof(sun.sun_path) - 1;
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int len;

	if (fd < 0)
		return -1;
	len = print_port(sun.sun_path + 1, cap, port);
	len += snprintf(sun.sun_path + 1 + len, cap - (size_t)len, "%016" PRIx64 "-%016" PRIx64,
			group, config_random());
	if (bind(fd, (struct sockaddr *)&sun,
		 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len)) == 0)
		return fd;
	log_debug(LOG_WIRE, "cannot claim UDP port %u for this run directory: %m", port);
	close(fd);
	return -1;
}

bool claim_of_others(uint16_t port, uint64_t group)
{
	FILE *f = fopen("/proc/net/unix", "re");
	char line[512], wanted[32];
	bool found = false;

	/* The kernel shows the zero byte of an abstract name like this. */
	wanted[0] = '@';
	print_port(wanted + 1, sizeof(wanted) - 1, port);
	while (f && !found && fgets(line, sizeof(line), f)) {
		const char *name = strstr(line, wanted);
		uint64_t other;

		found = name && sscanf(name + strlen(wanted), "%16" SCNx64, &other) == 1 &&
			other != group;
	}
	if (f)
		fclose(f);
	return found;
}
