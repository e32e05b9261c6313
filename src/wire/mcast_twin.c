/* SPDX-License-Identifier: BSD-2-Clause */
/* Sockets whose filter drops everything. */
#include "wire/mcast_twin.h"

#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "run/log.h"

struct twin {
	struct list node;
	struct net_addr group;
	uint32_t ifindex;
	int fd;
};

static bool set_up(int fd, const struct net_addr *group, uint32_t ifindex, uint16_t port)
{
	struct sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
	const struct sock_fprog program = { 1, &drop };
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct ip_mreqn member = { .imr_ifindex = (int)ifindex };
	const int on = 1, off = 0;

	memcpy(&to.sin_addr, group->raw + 12, 4);
	member.imr_multiaddr = to.sin_addr;
	return !setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) &&
	       !setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) &&
	       !setsockopt(fd, IPPROTO_IP, IP_MULTICAST_ALL, &off, sizeof(off)) &&
	       !(port && bind(fd, (const struct sockaddr *)&to, sizeof(to))) &&
	       !setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &member, sizeof(member));
}

/* Returns 0 or the errno value. */
static int open_twin(struct twin *t, uint16_t port)
{
	int err;

	t->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP);
	if (t->fd >= 0 && set_up(t->fd, &t->group, t->ifindex, port))
		return 0;
	err = errno;
	log_debug(LOG_WIRE, "cannot join a multicast group with a second socket: %m");
	if (t->fd >= 0)
		close(t->fd);
	return err;
}

static void close_twin(struct twin *t)
{
	list_del(&t->node);
	close(t->fd);
	free(t);
}

int mcast_twin_join(struct list *twins, const struct net_addr *group, uint32_t ifindex,
		    uint16_t port)
{
	struct twin *t = calloc(1, sizeof(*t));
	int err;

	if (!t)
		return ENOMEM;
	*t = (struct twin){ .group = *group, .ifindex = ifindex };
	err = open_twin(t, port);
	if (err)
		free(t);
	else
		list_add_tail(twins, &t->node);
	return err;
}

bool mcast_twin_leave(struct list *twins, const struct net_addr *group, uint32_t ifindex)
{
	struct list *pos, *tmp;

	list_for_each_safe(pos, tmp, twins) {
		struct twin *t = list_entry(pos, struct twin, node);

		if (t->ifindex != ifindex || !net_addr_equal(&t->group, group))
			continue;
		close_twin(t);
		return true;
	}
	return false;
}

void mcast_twin_close_all(struct list *twins)
{
	struct list *pos, *tmp;

	list_for_each_safe(pos, tmp, twins)
		close_twin(list_entry(pos, struct twin, node));
}
