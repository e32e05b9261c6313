/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/process/wire_open.h"

#include <errno.h>
#include <string.h>

#include "core/base/state.h"
#include "core/progress/relayed.h"
#include "host/host.h"
#include "host/relay.h"
#include "host/steer.h"
#include "run/config.h"
#include "run/log.h"
#include "util/file_room.h"
#include "util/sleep.h"
#include "wire/udp.h"

enum { NUMBERS = NET_RELAY_LAST - NET_RELAY_FIRST + 1, LOOKS = 10 };

#define PAUSE (5 * VRB_MSEC)

static int open_number(uint16_t port, unsigned int number)
{
	struct wire *w;
	int err = udp_open_relayed(port, number, &w);

	if (err)
		return err;
	err = host_relay_take(vrb.host, number);
	if (err)
		wire_close(w);
	else
		vrb.wire = w;
	return err;
}

/* A number is in use where its port or its first QP numbers are. */
static int open_relayed(uint16_t port)
{
	uint32_t start = (uint32_t)config_random();
	int err = EADDRINUSE;

	for (uint32_t i = 0; (err == EADDRINUSE || err == EEXIST) && i < NUMBERS; i++)
		err = open_number(port, NET_RELAY_FIRST + (start + i) % NUMBERS);
	return err;
}

static int give_up(int err)
{
	udp_complain(config_get()->udp_port, host_group(vrb.host), err);
	return file_is_shortage(err) ? err : 0;
}

/*
 * Anybody can make a claim: those of others count for nothing while processes of this directory
 * hold the port, before and after it is bound.
 */
static int open_port(uint16_t port)
{
	uint64_t group = host_group(vrb.host);
	int err = udp_open(port, group, &vrb.wire);

	if (err != EADDRINUSE || !host_holds_port(vrb.host, port))
		return err;
	err = udp_open_held(port, group, &vrb.wire);
	if (err || host_holds_port(vrb.host, port))
		return err;
	wire_close(vrb.wire);
	return EADDRINUSE;
}

int vrb_wire_open(void)
{
	uint16_t port = config_get()->udp_port;
	int err = open_port(port);

	if (!err)
		return 0;
	vrb.wire = NULL;
	if (err != EADDRINUSE)
		return give_up(err);
	/* Who has just bound it will claim it. */
	for (unsigned int i = 0; err == EADDRINUSE && i < LOOKS; i++) {
		if (i)
			sleep_whole(PAUSE);
		err = vrb_relayed_connect();
	}
	/* Where nobody holds the port, another one has just begun or ended to. */
	if (err && err != EAGAIN && err != ENOENT)
		return give_up(err);
	err = open_relayed(port);
	if (err) {
		log_warn(LOG_CORE, "cannot reach other hosts: no relay number: %s", strerror(err));
		vrb_relayed_forget();
		return file_is_shortage(err) ? err : 0;
	}
	log_info(LOG_CORE, "another user or run directory holds UDP port %u: its processes relay "
		 "packets to this one, number %u", port, host_relay_number(vrb.host));
	return 0;
}
