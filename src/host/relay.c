/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/relay.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host/inbox.h"
#include "host/state.h"
#include "util/atomic.h"
#include "util/cancel.h"

/* ---- numbers ---- */

void relay_init(struct relay *r)
{
	r->services = -1;
}

void relay_close(struct relay *r)
{
	for (unsigned int i = 0; i < r->n_service; i++)
		close(r->service[i].fd);
	free(r->service);
	if (r->services >= 0)
		close(r->services);
	*r = (struct relay){ 0 };
	relay_init(r);
}

int host_relay_take(struct host *h, unsigned int number)
{
	int err;

	if (h->relay.services < 0)
		h->relay.services = epoll_create1(EPOLL_CLOEXEC);
	if (h->relay.services < 0)
		return errno;
	lock_acquire(&h->lock);
	err = qpns_use_number(&h->qpns, number);
	lock_release(&h->lock);
	if (!err)
		h->relay.number = number;
	return err;
}

unsigned int host_relay_number(const struct host *h)
{
	return h->relay.number;
}

int host_relay_slot(struct host *h, unsigned int number)
{
	return host_owner(h, number << NET_RELAY_QPN_BITS);
}

void host_relay_trust(struct host *h, uid_t user)
{
	store_relaxed(&h->relay.holder, user);
}

int host_relay_fd(const struct host *h)
{
	return h->relay.services;
}

/* ---- services ---- */

static socklen_t name_service(struct sockaddr_un *sun, uint16_t port, uint64_t service_id,
			      const struct net_addr *addr)
{
	const size_t cap = sizeof(sun->sun_path) - 1;
	int n;

	*sun = (struct sockaddr_un){ .sun_family = AF_UNIX };
	n = snprintf(sun->sun_path + 1, cap, "verbena-service-%u-%016" PRIx64 "-", port,
		     service_id);
	for (unsigned int i = 0; i < sizeof(addr->raw); i++)
		n += snprintf(sun->sun_path + 1 + n, cap - (size_t)n, "%02x", addr->raw[i]);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static int open_socket(void)
{
	return socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

/* Must hold h->lock. */
static struct relay_service *find_service(struct relay *r, uint64_t service_id,
					  const struct net_addr *addr)
{
	for (unsigned int i = 0; i < r->n_service; i++)
		if (r->service[i].service_id == service_id &&
		    net_addr_equal(&r->service[i].addr, addr))
			return &r->service[i];
	return NULL;
}

/* Returns the socket, or -1 with errno set. */
static int bind_name(uint16_t port, uint64_t service_id, const struct net_addr *addr)
{
	struct sockaddr_un sun;
	socklen_t len = name_service(&sun, port, service_id, addr);
	int fd = open_socket(), on = 1, err;

	if (fd < 0 || (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) == 0 &&
		       bind(fd, (struct sockaddr *)&sun, len) == 0))
		return fd;
	err = errno;
	close(fd);
	errno = err;
	return -1;
}

/* Must hold h->lock. */
static int add_service(struct relay *r, struct relay_service s)
{
	struct relay_service *more = realloc(r->service, (r->n_service + 1) * sizeof(*more));
	struct epoll_event e = { .events = EPOLLIN, .data.fd = s.fd };

	if (!more)
		return ENOMEM;
	r->service = more;
	if (epoll_ctl(r->services, EPOLL_CTL_ADD, s.fd, &e) < 0)
		return errno;
	r->service[r->n_service++] = s;
	return 0;
}

int host_relay_listen(struct host *h, uint16_t port, uint64_t service_id,
		      const struct net_addr *addr)
{
	struct relay_service *found, s = { service_id, *addr, .users = 1 };
	int err = 0;

	lock_acquire(&h->lock);
	found = find_service(&h->relay, service_id, addr);
	if (found) {
		found->users++;
	} else {
		s.fd = bind_name(port, service_id, addr);
		err = s.fd < 0 ? errno : add_service(&h->relay, s);
		if (err && s.fd >= 0)
			close(s.fd);
	}
	lock_release(&h->lock);
	return err;
}

void host_relay_unlisten(struct host *h, uint64_t service_id, const struct net_addr *addr)
{
	struct relay *r = &h->relay;
	struct relay_service *found;

	lock_acquire(&h->lock);
	found = find_service(r, service_id, addr);
	if (found && !--found->users) {
		epoll_ctl(r->services, EPOLL_CTL_DEL, found->fd, NULL);
		close(found->fd);
		*found = r->service[--r->n_service];
	}
	lock_release(&h->lock);
}

/* Returns false if there is none. */
static bool send_to_listener(int fd, struct msghdr *mh)
{
	return sys_sendmsg(fd, mh, MSG_DONTWAIT | MSG_NOSIGNAL) != -ECONNREFUSED;
}

/*
 * What stopped listeners have not read counts against the buffer of the socket that sent it. So
 * each request has a socket of its own: else it would be lost for all others, too.
 */
int host_relay_request(struct host *h, uint16_t port, uint64_t service_id,
		       const struct net_path *path, const uint8_t *mad)
{
	static const struct net_addr any;
	const struct net_addr *addr[] = { &path->dst, &any };
	struct msg_head head = { .magic = MSG_MAGIC, .kind = KIND_MAD, .len = HOST_MAD_LEN };
	struct iovec iov[2] = { { &head, sizeof(head) }, { (void *)mad, HOST_MAD_LEN } };
	int cancel = cancel_off(), own = open_socket(), fd = own >= 0 ? own : h->inbox;
	bool found = false;

	inbox_pack_path(&head, path);
	for (unsigned int i = 0; fd >= 0 && !found && i < 2; i++) {
		struct sockaddr_un sun;

		found = send_to_listener(fd, &(struct msghdr){
			.msg_name = &sun,
			.msg_namelen = name_service(&sun, port, service_id, addr[i]),
			.msg_iov = iov, .msg_iovlen = 2,
		});
	}
	if (own >= 0)
		close(own);
	cancel_on(cancel);
	return found ? 0 : ENOENT;
}

static bool is_trusted(struct host *h, struct msghdr *mh)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(mh); c; c = CMSG_NXTHDR(mh, c)) {
		struct ucred sender;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS ||
		    c->cmsg_len != CMSG_LEN(sizeof(sender)))
			continue;
		memcpy(&sender, CMSG_DATA(c), sizeof(sender));
		return sender.uid == load_relaxed(&h->relay.holder);
	}
	return false;
}

static ssize_t receive(struct host *h, int fd, struct msg_head *head, struct host_datagram *m)
{
	uint8_t control[CMSG_SPACE(sizeof(struct ucred))]
		__attribute__((aligned(sizeof(struct cmsghdr))));
	struct iovec iov[2] = { { head, sizeof(*head) }, { m->data, sizeof(m->data) } };
	struct msghdr mh = { .msg_iov = iov, .msg_iovlen = 2, .msg_control = control,
			     .msg_controllen = sizeof(control) };
	ssize_t got = sys_recvmsg(fd, &mh, MSG_DONTWAIT);

	return got >= 0 && (mh.msg_flags & MSG_TRUNC || !is_trusted(h, &mh)) ? 0 : got;
}

/* A sandbox may refuse to look at all of them at once. Must hold h->lock. */
static ssize_t receive_any(struct host *h, struct msg_head *head, struct host_datagram *m)
{
	const struct relay *r = &h->relay;
	struct epoll_event e;
	int n = sys_epoll_look(r->services, &e, 1);
	ssize_t got = -1;

	if (n == 1)
		return receive(h, e.data.fd, head, m);
	for (unsigned int i = 0; n < 0 && got < 0 && i < r->n_service; i++)
		got = receive(h, r->service[i].fd, head, m);
	return got;
}

/* The lock keeps the socket from being closed, and its number from being another's. */
bool relay_receive(struct host *h, struct host_datagram *m)
{
	struct msg_head head;
	ssize_t got;

	lock_acquire(&h->lock);
	got = receive_any(h, &head, m);
	lock_release(&h->lock);
	if (got < 0)
		return false;
	m->kind = inbox_read(&head, (size_t)got, &m->path, &m->len);
	m->kind = m->kind == HOST_MAD ? HOST_REQUEST : HOST_GARBAGE;
	return true;
}
