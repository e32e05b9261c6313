/* SPDX-License-Identifier: BSD-2-Clause */
/* Which way frames go; what both kinds of port have in common. */
#include <errno.h>
#include <sys/socket.h>

#include "raw/state.h"
#include "run/log.h"

/*
 * Frames on the loopback interface stay on this host, so an ordinary user gets a virtual segment.
 * Other interfaces carry frames of other hosts.
 */
int raw_open(struct host *host, const struct raw_interface *on, enum config_raw how,
	     struct raw_port **out)
{
	int err;

	if (how == CONFIG_RAW_VIRTUAL)
		return raw_virtual_open(host, on, out);
	err = raw_packet_open(on, out);
	if (err != EPERM || how == CONFIG_RAW_PACKET)
		return err;
	if (on->loopback)
		return raw_virtual_open(host, on, out);
	log_warn(LOG_WIRE, "raw packets on %s need CAP_NET_RAW; VERBENA_RAW=virtual uses a segment "
		 "between your own processes", on->name);
	return EPERM;
}

void raw_take_error(const struct raw_port *p)
{
	for (unsigned int i = 0; i < RAW_FDS; i++) {
		int err;
		socklen_t len = sizeof(err);

		if (p->fd[i] >= 0)
			getsockopt(p->fd[i], SOL_SOCKET, SO_ERROR, &err, &len);
	}
}
