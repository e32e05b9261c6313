/* SPDX-License-Identifier: BSD-2-Clause */
#include "host_env.h"

#include <stdlib.h>
#include <string.h>

#include "place.h"

char run_dir[64];

const struct net_path some_path = {
	.src.raw = { 0xfe, 0x80, [15] = 1 },
	.dst.raw = { [10] = 0xff, 0xff, 192, 0, 2, 1 },
	.ifindex = 3,
	.flow_label = 0xabcde,
	.src_port = 0xc123,
	.dst_port = 4791,
	.traffic_class = 0x6b,
	.hop_limit = 63,
	.sl = 5,
};

int make_run_dir(void **state)
{
	place_make_dir(run_dir);
	return 0;
}

int remove_run_dir(void **state)
{
	place_remove_dir(run_dir);
	return 0;
}

struct host *join(void)
{
	struct host *h;

	if (host_join(run_dir, &h))
		abort();
	return h;
}

bool is_here(const struct host *h)
{
	return host_shared(h) && strcmp(host_dir(h), run_dir) == 0;
}
