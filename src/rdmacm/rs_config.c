/* SPDX-License-Identifier: BSD-2-Clause */
/* Default settings from /etc/rdma/rsocket. */
#include "rdmacm/rs_config.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "util/compiler.h"

#define FOLDER "/etc/rdma/rsocket"

enum {
	MOST_INLINE = 4096,
	DAY_S = 86400,
};

static struct rs_config config = {
	.polling_time = 10,
	.inline_default = 64,
	.sqsize_default = 384,
	.rqsize_default = 384,
	.mem_default = 1 << 17,
	.wmem_default = 1 << 17,
	.keep_idle = 7200,
};

/* Leaves *value unchanged if the file does not exist or holds no number. */
static void read_number(const char *path, uint32_t *value, uint32_t least, uint32_t most)
{
	FILE *f = fopen(path, "re");
	long long n;

	if (!f)
		return;
	if (fscanf(f, "%lld", &n) == 1)
		*value = (uint32_t)min(max(n, (long long)least), (long long)most);
	fclose(f);
}

static void configure(void)
{
	const struct {
		const char *name;
		uint32_t *value;
		uint32_t least, most;
	} files[] = {
		{ "polling_time", &config.polling_time, 0, 1000000 },
		{ "inline_default", &config.inline_default, 0, MOST_INLINE },
		{ "sqsize_default", &config.sqsize_default, RS_QUEUE_LEAST, RS_QUEUE_MOST },
		{ "rqsize_default", &config.rqsize_default, RS_QUEUE_LEAST, RS_QUEUE_MOST },
		{ "mem_default", &config.mem_default, RS_MEMORY_LEAST, RS_MEMORY_MOST },
		{ "wmem_default", &config.wmem_default, RS_MEMORY_LEAST, RS_MEMORY_MOST },
		{ "iomap_size", &config.iomap_size, 0, RS_IOMAP_MOST },
	};
	const char *folder = secure_getenv("VERBENA_RSOCKET_DIR");
	char path[4096];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(files); i++) {
		int n = snprintf(path, sizeof(path), "%s/%s", folder ? folder : FOLDER,
				 files[i].name);

		if (n > 0 && (size_t)n < sizeof(path))
			read_number(path, files[i].value, files[i].least, files[i].most);
	}
	read_number("/proc/sys/net/ipv4/tcp_keepalive_time", &config.keep_idle, 1, 365 * DAY_S);
}

const struct rs_config *rs_config(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, configure);
	return &config;
}
