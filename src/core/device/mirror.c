/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/device/mirror.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "core/base/context.h"
#include "core/base/state.h"
#include "core/device/arp.h"
#include "core/device/device.h"
#include "host/host.h"
#include "raw/raw.h"
#include "roce/const.h"
#include "roce/icrc.h"
#include "roce/pkt.h"
#include "run/clock.h"
#include "run/log.h"
#include "run/progress.h"
#include "util/be.h"
#include "util/cancel.h"
#include "util/inet.h"
#include "util/list.h"
#include "util/lock.h"
#include "wire/wire.h"

enum {
	LOOK_MS = 50,
	TICK_MS = 20,	/* longer than a tick of any kernel */
	OTHERS = 16,   /* limit on listeners in other processes */
	QUEUED = 8192, /* limit on frames queued for a sniffer of this process */
	FULL_WAIT_MS = 1,
	DEAF_MS = 100, /* no frames to a listener for this long after it stayed full */
	BATCH = 64,
	UDP_HEADER = 8,
	DEFAULT_HOPS = 64,
	FRAME_MAX = INET_ETHERNET + INET_IPV6 + UDP_HEADER + ROCE_MAX_PACKET + ROCE_ICRC_LEN,
};

struct mirror_frame {
	struct list node;
	uint32_t len;
	uint8_t data[];
};

/* A device of this process with sniffers. */
struct mirror {
	vrb_mirror_deliver_fn deliver;
	struct list node;
	struct vrb_device *dev;
	unsigned int sniffers; /* protected by `changing` */
	uint32_t ifindex;
	bool wire;          /* also mirrors packets of the wire */
	int fd;             /* receives from other processes, or -1 */
	int bell;           /* readable when frames are queued */
	struct list frames; /* from this process; mirror_lock */
	unsigned int queued;
	uint8_t room[FRAME_MAX]; /* protected by vrb.poll_lock */
};

/* A listener in another process. */
struct other {
	int slot;
	uint32_t ifindex;
	bool wire;
	struct sockaddr_un at;
	uint64_t deaf_until;
};

unsigned int vrb_mirror_listeners;
uint64_t vrb_mirror_scan_at;

/* Serialises start and stop, which wait for the progress thread; like `opening` in raw_port.c. */
static pthread_mutex_t changing = PTHREAD_MUTEX_INITIALIZER;

static struct lock mirror_lock; /* protects everything below; zero is unlocked */
static struct list own = { &own, &own };
static struct other others[OTHERS];
static unsigned int num_others;
static struct timespec listed;
static int tx_socket = -1;

/* ---------------------------------------------------------------- listeners */

static void suffix_of(char suffix[24], const struct vrb_device *dev, uint32_t ifindex, bool wire)
{
	snprintf(suffix, 24, "tap.%u.%u.%u", ifindex, dev->ordinal, wire);
}

/* Must hold mirror_lock. */
static void count_listeners(void)
{
	unsigned int n = num_others;
	struct list *at;

	list_for_each (at, &own)
		n++;
	store_relaxed(&vrb_mirror_listeners, n);
}

/* Must hold mirror_lock. */
static void note_other(const char *name)
{
	unsigned int slot, ifindex, ordinal, wire;
	char suffix[24], whole[32];
	struct other o = { 0 };

	if (num_others == OTHERS ||
	    sscanf(name, "s%4u.tap.%u.%u.%u", &slot, &ifindex, &ordinal, &wire) != 4 ||
	    slot >= HOST_SLOTS || (int)slot == host_slot(vrb.host))
		return;
	snprintf(suffix, sizeof(suffix), "tap.%u.%u.%u", ifindex, ordinal, wire);
	host_file_name((int)slot, suffix, whole);
	if (strcmp(name, whole) || host_socket_address(vrb.host, (int)slot, suffix, &o.at) ||
	    !host_same_network(vrb.host, (int)slot))
		return;
	o.slot = (int)slot;
	o.ifindex = ifindex;
	o.wire = wire;
	others[num_others++] = o;
}

/* Must hold mirror_lock. False: they cannot be read now. */
static bool read_others(void)
{
	int fd = openat(host_dirfd(vrb.host), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;

	if (!d) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	num_others = 0;
	while ((e = readdir(d)))
		note_other(e->d_name);
	closedir(d);
	return true;
}

/*
 * True if the directory cannot have changed since it was listed. Two changes may have the same
 * mtime: within a tick of the kernel, or within two seconds on file systems with coarse timestamps.
 */
static bool unchanged(const struct stat *st)
{
	int64_t blur = listed.tv_nsec ? TICK_MS * VRB_MSEC : 2 * VRB_SECOND;
	struct timespec now;

	if (st->st_mtim.tv_sec != listed.tv_sec || st->st_mtim.tv_nsec != listed.tv_nsec)
		return false;
	clock_gettime(CLOCK_REALTIME, &now);
	return (now.tv_sec - listed.tv_sec) * (int64_t)VRB_SECOND +
		now.tv_nsec - listed.tv_nsec > blur;
}

void vrb_mirror_scan(uint64_t now)
{
	struct stat st;
	int cancel;

	store_relaxed(&vrb_mirror_scan_at, time_after(now, LOOK_MS * VRB_MSEC));
	if (!vrb.host || !host_shared(vrb.host) ||
	    SYS_RESULT(fstat(host_dirfd(vrb.host), &st)))
		return;
	cancel = cancel_off();
	lock_acquire(&mirror_lock);
	if (!unchanged(&st)) {
		listed = read_others() ? st.st_mtim : (struct timespec){ 0 };
		count_listeners();
	}
	lock_release(&mirror_lock);
	cancel_on(cancel);
}

/* ---------------------------------------------------------------- sending */

/* Between local peers both MACs are the interface's. */
static uint32_t build_frame(uint8_t *frame, const uint8_t mac[6], const struct net_path *path,
			    const uint8_t *packet, size_t len)
{
	bool ipv4 = net_is_ipv4(&path->dst);
	size_t udp = UDP_HEADER + len + ROCE_ICRC_LEN;
	uint32_t icrc = htole32(roce_icrc(path, 0, packet, len));
	struct inet ip;
	uint8_t *p = frame;

	memcpy(p, mac, 6);
	if (net_is_multicast(&path->dst))
		vrb_multicast_mac(&path->dst, p);
	memcpy(p + 6, mac, 6);
	p = put_be16(p + 12, ipv4 ? INET_TYPE_IPV4 : INET_TYPE_IPV6);
	p = inet_put_header(p, path, udp);
	p = put_be16(p, path->src_port);
	p = put_be16(p, path->dst_port);
	p = put_be16(p, (uint16_t)udp);
	p = put_be16(p, 0);
	memcpy(p, packet, len);
	memcpy(p + len, &icrc, sizeof(icrc));
	p += len + sizeof(icrc);
	if (inet_parse_frame(frame, (uint32_t)(p - frame), INET_BY_HEADER, &ip))
		inet_fill_payload_sum(frame, &ip);
	return (uint32_t)(p - frame);
}

/* Must hold mirror_lock. */
static void queue_frame(struct mirror *t, const uint8_t *frame, uint32_t len)
{
	struct mirror_frame *f = t->queued < QUEUED ? malloc(sizeof(*f) + len) : NULL;
	uint64_t one = 1;

	if (!f)
		return;
	f->len = len;
	memcpy(f->data, frame, len);
	list_add_tail(&t->frames, &f->node);
	if (!t->queued++ && write(t->bell, &one, sizeof(one)) < 0)
		return; /* the eventfd is readable already */
}

/* Must hold mirror_lock. */
static void send_frame(struct other *o, const uint8_t *frame, uint32_t len, uint64_t now)
{
	const struct sockaddr *at = (const struct sockaddr *)&o->at;

	if (now < o->deaf_until)
		return;
	for (unsigned int tries = 0; tries < 2; tries++) {
		struct pollfd room = { .fd = tx_socket, .events = POLLOUT };

		if (sendto(tx_socket, frame, len, MSG_DONTWAIT | MSG_NOSIGNAL, at,
			   sizeof(o->at)) >= 0)
			return;
		if (errno != EAGAIN && errno != ENOBUFS)
			break;
		if (tries == 0 && connect(tx_socket, at, sizeof(o->at)) == 0)
			poll(&room, 1, FULL_WAIT_MS); /* poll() waits only for a connected peer */
	}
	o->deaf_until = time_after(now, DEAF_MS * VRB_MSEC);
}

void vrb_mirror_packet(struct vrb_port *port, uint64_t now, const struct net_path *path,
		  const uint8_t *packet, size_t len, bool wire)
{
	struct net_path outer = *path;
	uint8_t frame[FRAME_MAX], mac[6];
	uint32_t ifindex, n;
	struct list *at;
	int cancel;

	lock_acquire(&port->lock);
	ifindex = port->ifindex;
	memcpy(mac, port->mac, sizeof(mac));
	lock_release(&port->lock);
	outer.src_port = vrb.wire ? wire_src_port(vrb.wire) : ROCE_UDP_PORT;
	outer.dst_port = vrb.wire ? wire_dst_port(vrb.wire) : ROCE_UDP_PORT;
	if (!outer.hop_limit)
		outer.hop_limit = DEFAULT_HOPS;
	n = build_frame(frame, mac, &outer, packet, len);
	cancel = cancel_off();
	lock_acquire(&mirror_lock);
	list_for_each (at, &own) {
		struct mirror *t = list_entry(at, struct mirror, node);

		if (t->ifindex == ifindex && (t->wire || !wire))
			queue_frame(t, frame, n);
	}
	if (num_others && tx_socket < 0)
		tx_socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	for (unsigned int i = 0; i < num_others; i++) {
		if (others[i].ifindex == ifindex && (others[i].wire || !wire))
			send_frame(&others[i], frame, n, now);
	}
	lock_release(&mirror_lock);
	cancel_on(cancel);
}

static struct mirror_frame *pop(struct mirror *t)
{
	struct mirror_frame *f = NULL;
	uint64_t rings;

	lock_acquire(&mirror_lock);
	if (t->queued) {
		f = list_entry(t->frames.next, struct mirror_frame, node);
		list_del(&f->node);
		if (!--t->queued && read(t->bell, &rings, sizeof(rings)) < 0)
			rings = 0;
	}
	lock_release(&mirror_lock);
	return f;
}

static bool take(struct mirror *t, uint64_t now)
{
	struct mirror_frame *f;
	unsigned int n = 0;
	ssize_t len;

	for (; n < BATCH && (f = pop(t)); n++) {
		t->deliver(t->dev, f->data, f->len, now);
		free(f);
	}
	while (t->fd >= 0 && n < BATCH &&
	       (len = recv(t->fd, t->room, sizeof(t->room), MSG_DONTWAIT)) >= 0) {
		t->deliver(t->dev, t->room, (uint32_t)len, now);
		n++;
	}
	return n > 0;
}

bool vrb_mirror_take(struct vrb_device *dev, uint64_t now)
{
	return dev->mirror && take(dev->mirror, now);
}

static bool on_frames(void *arg, int fd)
{
	bool any;

	lock_acquire(&vrb.poll_lock);
	any = take(arg, clock_now());
	lock_release(&vrb.poll_lock);
	return any;
}

/* Creates the socket that other processes send to. Returns 0 or an errno value. */
static int open_socket(struct mirror *t)
{
	int slot = host_slot(vrb.host), err = 0;
	struct sockaddr_un at;
	char suffix[24], name[32];

	if (!host_shared(vrb.host))
		return 0;
	suffix_of(suffix, t->dev, t->ifindex, t->wire);
	err = host_socket_address(vrb.host, slot, suffix, &at);
	if (err)
		return err;
	t->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (t->fd < 0)
		return errno;
	host_file_name(slot, suffix, name);
	unlinkat(host_dirfd(vrb.host), name, 0);
	if (bind(t->fd, (struct sockaddr *)&at, sizeof(at)) || chmod(at.sun_path, 0600))
		return errno;
	return progress_watch(vrb.progress, t->fd, PROGRESS_SHARED, on_frames, t);
}

static void close_socket(struct mirror *t)
{
	char suffix[24], name[32];
	int fd = t->fd;

	if (fd < 0)
		return;
	suffix_of(suffix, t->dev, t->ifindex, t->wire);
	host_file_name(host_slot(vrb.host), suffix, name);
	unlinkat(host_dirfd(vrb.host), name, 0);
	progress_unwatch(vrb.progress, fd);
	t->fd = -1;	/* first: a child forked meanwhile closes what it finds */
	close(fd);
}

static int open_bell(struct mirror *t)
{
	t->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (t->bell < 0)
		return errno;
	return progress_watch(vrb.progress, t->bell, PROGRESS_SHARED, on_frames, t);
}

static void free_mirror(struct mirror *t)
{
	struct list *at, *next;

	close_socket(t);
	if (t->bell >= 0) {
		progress_unwatch(vrb.progress, t->bell);
		close(t->bell);
	}
	list_for_each_safe (at, next, &t->frames)
		free(list_entry(at, struct mirror_frame, node));
	free(t);
}

/* Must hold `changing`. */
static int start(struct vrb_device *dev, vrb_mirror_deliver_fn deliver, bool wire)
{
	struct mirror *t = calloc(1, sizeof(*t));
	int err;

	if (!t)
		return ENOMEM;
	t->dev = dev;
	t->fd = t->bell = -1;
	t->deliver = deliver;
	t->wire = wire;
	list_init(&t->node);
	list_init(&t->frames);
	lock_acquire(&dev->port.lock);
	t->ifindex = load_relaxed(&dev->port.ifindex);
	lock_release(&dev->port.lock);
	err = open_bell(t);
	if (!err)
		err = open_socket(t);
	if (err) {
		free_mirror(t);
		return err;
	}
	lock_acquire(&vrb.poll_lock);
	dev->mirror = t;
	lock_release(&vrb.poll_lock);
	lock_acquire(&mirror_lock);
	list_add_tail(&own, &t->node);
	count_listeners();
	lock_release(&mirror_lock);
	return 0;
}

bool vrb_mirror_start(struct vrb_device *dev, vrb_mirror_deliver_fn deliver, bool wire)
{
	int err = 0;

	pthread_mutex_lock(&changing);
	if (!dev->mirror)
		err = start(dev, deliver, wire);
	if (!err)
		dev->mirror->sniffers++;
	else
		log_warn(LOG_CORE, "sniffers on %s do not see packets between local processes: %s",
			 dev->ibv.name, strerror(err));
	pthread_mutex_unlock(&changing);
	return !err;
}

void vrb_mirror_stop(struct vrb_device *dev)
{
	struct mirror *t;

	pthread_mutex_lock(&changing);
	t = dev->mirror;
	if (!--t->sniffers) {
		lock_acquire(&mirror_lock);
		list_del(&t->node);
		count_listeners();
		lock_release(&mirror_lock);
		lock_acquire(&vrb.poll_lock);
		dev->mirror = NULL;
		lock_release(&vrb.poll_lock);
		free_mirror(t);
	}
	pthread_mutex_unlock(&changing);
}

/* In a forked child. The mirrors belong to the parent; their memory is leaked. */
void vrb_mirror_forget(void)
{
	pthread_mutex_init(&changing, NULL);
	lock_renew(&mirror_lock);
	while (!list_empty(&own)) {
		struct mirror *t = list_entry(own.next, struct mirror, node);

		list_del(&t->node);
		t->dev->mirror = NULL;
		close(t->bell);
		if (t->fd >= 0)
			close(t->fd);
	}
	if (tx_socket >= 0)
		close(tx_socket);
	tx_socket = -1;
	num_others = 0;
	listed = (struct timespec){ 0 };
	store_relaxed(&vrb_mirror_listeners, 0);
}
