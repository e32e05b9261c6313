/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A virtual Ethernet segment: a hub between the processes of one user, on one host and in one
 * network namespace, that have the same interface open.  For users who may not open the real
 * interface.
 *
 * Each member has a Unix datagram socket in the run directory, "sNNNN.eth.IFINDEX.DEVICE"; a
 * datagram is a frame.  A sender sends it to every member, itself included; flow rules decide which
 * of them receive it. A member exists while its file does; sending to a dead one fails, until
 * host_reap() unlinks its file.
 *
 * A full queue of a member stops the sender, as Ethernet's flow control does (raw_send() returns
 * RAW_FULL, and `progress` counts the members that have the frame). A member that reads nothing for
 * DEAF_AFTER is skipped until it does. The sender computes checksums and segments.
 *
 * Locks: `lock` protects the list of members and their state; senders hold it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "host/host.h"
#include "raw/state.h"
#include "run/log.h"
#include "util/atomic.h"
#include "util/cancel.h"
#include "util/compiler.h"
#include "util/lock.h"
#include "util/time.h"

enum {
	MEMBERS = 256,
	BUFFER = 4 << 20,
};

#define DEAF_AFTER (20 * VRB_MSEC)
#define SETTLED    (50 * VRB_MSEC)	/* a directory changed longer ago shows it in its time */

struct member {
	struct sockaddr_un at;
	socklen_t at_len;
	int slot;
	unsigned int ordinal;	/* of the device, among those of its interface in its process */
	uint64_t full_since;	/* 0: it had room */
};

struct virtual_port {
	struct raw_port port;
	struct host *host;
	uint32_t ifindex;
	char suffix[24];	/* of the own socket's name */
	bool listens;		/* frames are received, not dropped; receivers only */
	struct lock lock;	/* everything below */
	struct timespec listed;	/* the directory's time when the members were read */
	bool settled;		/* they were, and it was old enough to tell the next change */
	unsigned int members;
	struct member member[MEMBERS];
	uint8_t frame[RAW_MAX_FRAME];	/* receivers only */
};

static struct virtual_port *to_virtual(struct raw_port *p)
{
	return container_of(p, struct virtual_port, port);
}

/* Members */

static void make_suffix(char suffix[24], uint32_t ifindex, unsigned int ordinal)
{
	snprintf(suffix, 24, "eth.%u.%u", ifindex, ordinal);
}

/* Is this the name of a member's socket? */
static bool parse_name(const struct virtual_port *p, const char *name, struct member *m)
{
	char suffix[24], expected[32];

	if (sscanf(name, "s%4d.eth.%*u.%u", &m->slot, &m->ordinal) != 2 || m->slot < 0 ||
	    m->slot >= HOST_SLOTS)
		return false;
	make_suffix(suffix, p->ifindex, m->ordinal);
	host_file_name(m->slot, suffix, expected);
	m->at_len = sizeof(m->at);
	return strcmp(name, expected) == 0 &&
	       host_socket_address(p->host, m->slot, suffix, &m->at) == 0;
}

static uint64_t full_before(const struct member *list, unsigned int n, const struct member *m)
{
	for (unsigned int i = 0; i < n; i++)
		if (list[i].slot == m->slot && list[i].ordinal == m->ordinal)
			return list[i].full_since;
	return 0;
}

/* False: they cannot be read now. */
static bool read_members(struct virtual_port *p)
{
	struct member *before = malloc(sizeof(p->member));
	unsigned int n = p->members;
	int fd = openat(host_dirfd(p->host), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	bool can_read = d && before;
	const struct dirent *e;

	if (!can_read)
		goto out;
	memcpy(before, p->member, sizeof(p->member));
	p->members = 0;
	while ((e = readdir(d)) && p->members < MEMBERS) {
		struct member m = { 0 };

		if (!parse_name(p, e->d_name, &m) || !host_same_network(p->host, m.slot))
			continue;
		m.full_since = full_before(before, n, &m);
		p->member[p->members++] = m;
	}
out:
	if (d)
		closedir(d);
	else if (fd >= 0)
		close(fd);
	free(before);
	return can_read;
}

static bool is_settled(const struct timespec *changed)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (now.tv_sec - changed->tv_sec) * (int64_t)VRB_SECOND + now.tv_nsec -
		       changed->tv_nsec > (int64_t)SETTLED;
}

/*
 * Reads the list again if the directory has changed, or may have changed within its time stamp's
 * resolution.
 */
static void follow_members(struct virtual_port *p)
{
	struct stat st;
	int cancel;

	if (!host_shared(p->host) || SYS_RESULT(fstat(host_dirfd(p->host), &st)) < 0)
		return;
	if (p->settled && st.st_mtim.tv_sec == p->listed.tv_sec &&
	    st.st_mtim.tv_nsec == p->listed.tv_nsec)
		return;
	p->listed = st.st_mtim;
	p->settled = is_settled(&st.st_mtim);
	cancel = cancel_off();
	p->settled &= read_members(p);
	cancel_on(cancel);
}

/* Sending */

enum delivery { DELIVERED, BUSY, UNREACHABLE, BAD_MEMORY };

static enum delivery give(struct virtual_port *p, struct member *m, const struct raw_out *o,
		       uint64_t now)
{
	struct msghdr mh = { .msg_name = &m->at,
			     .msg_namelen = m->at_len,
			     .msg_iov = (struct iovec *)o->piece,
			     .msg_iovlen = o->pieces };

	ssize_t sent = sys_sendmsg(p->port.fd[0], &mh, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (sent >= 0) {
		m->full_since = 0;
		return DELIVERED;
	}
	if (sent == -EFAULT)
		return BAD_MEMORY;
	if (sent != -EAGAIN && sent != -ENOBUFS && sent != -EINTR)
		return UNREACHABLE;
	if (!m->full_since)
		m->full_since = now;
	return time_since(m->full_since, now) < DEAF_AFTER ? BUSY : UNREACHABLE;
}

/*
 * Returns false if a member's queue is full or the frame's memory is gone. Must hold p->lock.
 */
static bool give_all(struct virtual_port *p, struct raw_out *o, uint64_t now, enum raw_sent *why)
{
	for (; o->progress < p->members; o->progress++)
		switch (give(p, &p->member[o->progress], o, now)) {
		case BUSY:
			*why = RAW_FULL;
			return false;
		case BAD_MEMORY:
			*why = RAW_BAD_MEMORY;
			return false;
		case UNREACHABLE:
			fetch_add_relaxed(&p->port.stats.refused, 1);
			break;
		case DELIVERED:
			break;
		}
	return true;
}

static unsigned int virtual_send(struct raw_port *port, struct raw_out *out, unsigned int n,
				 uint64_t now, enum raw_sent *why)
{
	struct virtual_port *p = to_virtual(port);
	unsigned int done = 0;

	lock_acquire(&p->lock);
	follow_members(p);
	while (done < n && give_all(p, &out[done], now, why))
		done++;
	lock_release(&p->lock);
	fetch_add_relaxed(&port->stats.sent, done);
	return done;
}

/* Receiving */

static bool virtual_ready(const struct raw_port *port)
{
	return true;
}

static unsigned int virtual_recv(struct raw_port *port, unsigned int most, uint64_t now,
				 raw_frame_fn fn, void *arg)
{
	struct virtual_port *p = to_virtual(port);
	unsigned int n = 0;

	while (n < most) {
		ssize_t len =
			recv(port->fd[0], p->frame, sizeof(p->frame), MSG_DONTWAIT | MSG_TRUNC);
		struct raw_frame f = { .data = p->frame, .len = len, .time = now };

		if (len < 0)
			break;
		n++;
		if (p->listens && len >= RAW_HEADER_LEN && (size_t)len <= sizeof(p->frame))
			fn(arg, &f);
	}
	port->stats.received += n;
	return n;
}

static int virtual_filter(struct raw_port *port, const struct sock_filter *program,
			  unsigned int len, enum raw_scope scope)
{
	static const struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
					none = BPF_STMT(BPF_RET | BPF_K, 0);
	struct sock_fprog prog = { .len = len, .filter = (struct sock_filter *)program };

	if (!program || !len)
		prog = (struct sock_fprog){ 1, (struct sock_filter *)(program ? &none : &all) };
	/* Unwanted frames do not fill the socket; their sender does not notice. */
	if (setsockopt(port->fd[0], SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)))
		return errno;
	to_virtual(port)->listens = !program || len;
	return 0;
}

static void virtual_count(struct raw_port *port)
{
}

/* Opening */

static void virtual_close(struct raw_port *port, bool ours)
{
	struct virtual_port *p = to_virtual(port);
	char name[32];

	if (ours && host_shared(p->host)) {
		host_file_name(host_slot(p->host), p->suffix, name);
		unlinkat(host_dirfd(p->host), name, 0);
	}
	if (port->fd[0] >= 0)
		close(port->fd[0]);
	lock_destroy(&p->lock);
	free(p);
}

static const struct raw_ops virtual_ops = {
	.ready = virtual_ready,
	.recv = virtual_recv,
	.send = virtual_send,
	.filter = virtual_filter,
	.count = virtual_count,
	.close = virtual_close,
};

static int join(struct virtual_port *p)
{
	struct sockaddr_un sun;
	char name[32];
	int err = host_socket_address(p->host, host_slot(p->host), p->suffix, &sun);

	if (err)
		return err;
	host_file_name(host_slot(p->host), p->suffix, name);
	unlinkat(host_dirfd(p->host), name, 0);
	return bind(p->port.fd[0], (struct sockaddr *)&sun, sizeof(sun)) ||
			       chmod(sun.sun_path, 0600) ? errno : 0;
}

/*
 * In private mode there are no other members: the kernel chooses a name. Anybody could send there,
 * so the socket is connected, to itself.
 */
static int join_alone(struct virtual_port *p)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	struct member *self = &p->member[0];

	if (bind(p->port.fd[0], (struct sockaddr *)&sun, sizeof(sa_family_t)))
		return errno;
	self->at_len = sizeof(self->at);
	if (getsockname(p->port.fd[0], (struct sockaddr *)&self->at, &self->at_len) ||
	    connect(p->port.fd[0], (struct sockaddr *)&self->at, self->at_len))
		return errno;
	p->members = 1;
	return 0;
}

int raw_virtual_open(struct host *host, const struct raw_interface *on, struct raw_port **out)
{
	struct virtual_port *p = calloc(1, sizeof(*p));
	int size = BUFFER;
	int err;

	if (!p)
		return ENOMEM;
	p->port.ops = &virtual_ops;
	p->port.is_virtual = true;
	p->host = host;
	lock_init(&p->lock);
	p->ifindex = on->index;
	make_suffix(p->suffix, on->index, on->ordinal);
	p->port.fd[1] = -1;
	p->port.fd[0] = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	err = p->port.fd[0] < 0 ? errno : 0;
	if (!err)
		setsockopt(p->port.fd[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	if (!err)
		err = host_shared(host) ? join(p) : join_alone(p);
	if (err) {
		virtual_close(&p->port, true);
		return err;
	}
	(void)virtual_filter(&p->port, (const struct sock_filter[1]){ { 0 } }, 0, RAW_OWN);
	log_info(LOG_WIRE, "raw packets of %s use a virtual segment", on->name);
	*out = &p->port;
	return 0;
}
