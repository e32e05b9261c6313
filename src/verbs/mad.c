/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls of mad.h for opening, fork and bindings; core/mad/gsi.h has the rest.
 *
 * Locks: vrb_mad.lock, a leaf but for the host's, protects the list of bindings.
 */
#include "verbs/mad.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "core/base/context.h"
#include "core/base/state.h"
#include "core/device/device.h"
#include "core/device/port.h"
#include "core/mad/comm_id.h"
#include "core/mad/gsi.h"
#include "core/mad/exit_mad.h"
#include "core/process/process.h"
#include "core/progress/poll_loop.h"
#include "core/progress/rx_steering.h"
#include "core/progress/stand_in.h"
#include "core/tx/tx_sched.h"
#include "host/host.h"
#include "host/relay.h"
#include "host/service.h"
#include "run/clock.h"
#include "run/config.h"
#include "run/netdev.h"
#include "run/progress.h"
#include "util/atomic.h"
#include "util/list.h"
#include "verbs/symver.h"
#include "wire/wire.h"

struct vrb_mad {
	struct vrb_gsi_ops ops;
	void (*device)(void *arg, const struct ibv_device *dev, enum vrb_mad_news news);
	void *arg;
	/* generation of the process that opened it; a child of that process cannot use it */
	unsigned int generation;
	pthread_mutex_t lock;
	struct list bindings;
};

struct vrb_binding {
	struct list node;
	uint32_t at;
	uint64_t service_id;
	struct net_addr addr;
	bool relayed;	/* it listens for relayed requests, too */
};

static bool inherited(const struct vrb_mad *m)
{
	return m->generation != load_relaxed(&vrb.generation);
}

static void device_news(void *arg, const struct ibv_device *dev, enum vrb_device_news news)
{
	struct vrb_mad *m = arg;

	if (!inherited(m))
		m->device(m->arg, dev,
			  news == VRB_DEVICE_GONE ? VRB_MAD_DEVICE_GONE : VRB_MAD_NEW_LINK_ADDRESS);
}

VRB_EXPORT int vrb_mad_open(const struct vrb_mad_ops *ops, void *arg, struct vrb_mad **out)
{
	struct vrb_mad *m = calloc(1, sizeof(*m));
	int err;

	*out = m;
	if (!m)
		return ENOMEM;
	m->ops = (struct vrb_gsi_ops){ ops->receive, ops->timeout, ops->ids };
	m->device = ops->device;
	m->arg = arg;
	pthread_mutex_init(&m->lock, NULL);
	list_init(&m->bindings);
	err = vrb_process_get();
	if (!err) {
		m->generation = load_relaxed(&vrb.generation);
		err = vrb_gsi_open(&m->ops, arg);
		if (err)
			vrb_process_put();
	}
	if (err) {
		*out = NULL;
		free(m);
		return err;
	}
	if (m->device)
		vrb_device_watch(device_news, m);
	return 0;
}

/* Of a process that does not hold the UDP port, other run directories learn it so. */
static int listen_for_relayed(struct vrb_binding *b)
{
	int err;

	if (!vrb.wire || !host_relay_number(vrb.host) || b->relayed)
		return 0;
	err = host_relay_listen(vrb.host, vrb.wire->port, b->service_id, &b->addr);
	b->relayed = !err;
	return err;
}

static void end_relayed(struct vrb_binding *b)
{
	if (b->relayed)
		host_relay_unlisten(vrb.host, b->service_id, &b->addr);
	b->relayed = false;
}

static void unbind(struct vrb_binding *b, bool ours)
{
	list_del(&b->node);
	if (ours) {
		end_relayed(b);
		host_service_unbind(vrb.host, b->at);
	}
	free(b);
}

VRB_EXPORT void vrb_mad_close(struct vrb_mad *m)
{
	bool ours = !inherited(m);

	/* A child has its own copies of the registry and of its watcher. */
	if (m->device)
		vrb_device_watch(NULL, NULL);
	if (ours)
		vrb_gsi_close();
	while (!list_empty(&m->bindings))
		unbind(list_entry(m->bindings.next, struct vrb_binding, node), ours);
	if (ours)
		vrb_process_put();
	free(m);
}

VRB_EXPORT uint64_t vrb_mad_now(void)
{
	return clock_now();
}

VRB_EXPORT void vrb_mad_arm(struct vrb_mad *m, uint64_t at)
{
	if (!inherited(m))
		vrb_gsi_arm(at);
}

VRB_EXPORT int vrb_mad_send(struct vrb_mad *m, const struct net_path *path,
			    const uint8_t mad[VRB_MAD_LEN])
{
	return inherited(m) ? EIO : vrb_gsi_send(path, mad);
}

VRB_EXPORT void vrb_mad_settle(struct vrb_mad *m)
{
	if (!inherited(m))
		vrb_tx_try_flush_delayed();
}

VRB_EXPORT void vrb_mad_catch_up(void)
{
	vrb_device_catch_up();
}

VRB_EXPORT bool vrb_mad_gone(struct ibv_context *verbs)
{
	struct vrb_context *ctx = to_vrb_context(verbs);
	bool gone;

	pthread_mutex_lock(&vrb.lock);
	gone = ctx->dev->gone;
	pthread_mutex_unlock(&vrb.lock);
	pthread_mutex_lock(&ctx->lock);
	gone = gone && !vrb_context_objects(ctx);
	pthread_mutex_unlock(&ctx->lock);
	return gone;
}

VRB_EXPORT bool vrb_mad_find_gid(struct ibv_context *verbs, const struct net_addr *gid,
				 struct vrb_gid_place *at)
{
	struct vrb_port *port = &to_vrb_context(verbs)->dev->port;
	int index = vrb_port_find_gid(port, gid);
	struct ibv_port_attr attr;

	if (index < 0)
		return false;
	vrb_port_query(port, &attr);
	*at = (struct vrb_gid_place){
		.port_num = VRB_PORT_NUM,
		.gid_index = (uint8_t)index,
		.ifindex = load_relaxed(&port->ifindex),
		.mtu = (uint8_t)attr.active_mtu,
	};
	return true;
}

VRB_EXPORT uint32_t vrb_mad_comm_id(struct vrb_mad *m)
{
	return vrb_comm_id();
}

VRB_EXPORT void vrb_mad_at_exit(struct vrb_mad *m, uint32_t comm_id, const struct net_path *path,
			     const uint8_t *mad)
{
	if (!inherited(m))
		vrb_exit_mad_set(comm_id, path, mad);
}

VRB_EXPORT void vrb_mad_run_last(struct vrb_mad *m, void (*job)(void))
{
	if (!inherited(m))
		progress_at_exit(vrb.progress, job);
}

VRB_EXPORT bool vrb_mad_poll(struct vrb_mad *m)
{
	bool any;

	if (inherited(m))
		return false;
	any = vrb_poll_once(1);
	any |= vrb_poll_messages();
	return any;
}

VRB_EXPORT int vrb_mad_await(struct vrb_mad *m, int eventfd, uint64_t *count)
{
	return inherited(m) ? EAGAIN : vrb_stand_in_read(eventfd, count);
}

VRB_EXPORT bool vrb_mad_polls(struct vrb_mad *m)
{
	return !config_get()->progress_thread;
}

VRB_EXPORT int vrb_mad_bind(struct vrb_mad *m, struct vrb_service *want, struct vrb_binding **out)
{
	struct host_service s = {
		.service_id = want->service_id,
		.addr = want->addr,
		.ifindex = want->ifindex,
		.family = want->family,
		.only_family = want->only_family,
		.reuse = want->reuse,
	};
	struct vrb_binding *b;
	int err;

	if (inherited(m))
		return EIO;
	b = calloc(1, sizeof(*b));
	if (!b)
		return ENOMEM;
	err = host_service_bind(vrb.host, &s, &b->at);
	if (err) {
		free(b);
		return err;
	}
	want->service_id = b->service_id = s.service_id;
	b->addr = s.addr;
	pthread_mutex_lock(&m->lock);
	list_add_tail(&m->bindings, &b->node);
	pthread_mutex_unlock(&m->lock);
	*out = b;
	return 0;
}

VRB_EXPORT int vrb_mad_listen(struct vrb_mad *m, struct vrb_binding *b)
{
	int err = inherited(m) ? EIO : listen_for_relayed(b);

	if (!err)
		err = host_service_listen(vrb.host, b->at);
	if (err && !inherited(m))
		end_relayed(b);
	if (!err && host_publish_listener(vrb.host))
		vrb_steer_listener_added();
	return err;
}

VRB_EXPORT int vrb_mad_only_family(struct vrb_mad *m, struct vrb_binding *b, bool only)
{
	return inherited(m) ? EIO : host_service_only_family(vrb.host, b->at, only);
}

VRB_EXPORT void vrb_mad_end_listening(struct vrb_mad *m, struct vrb_binding *b)
{
	if (inherited(m))
		return;
	end_relayed(b);
	host_service_end_listening(vrb.host, b->at);
}

VRB_EXPORT void vrb_mad_unbind(struct vrb_mad *m, struct vrb_binding *b)
{
	bool ours = !inherited(m);

	if (ours)
		pthread_mutex_lock(&m->lock);
	unbind(b, ours);
	if (ours)
		pthread_mutex_unlock(&m->lock);
}

VRB_EXPORT int vrb_mad_trouble(struct vrb_mad *m, const struct net_addr *dst)
{
	if (inherited(m))
		return 0;
	if (!vrb.wire)
		return netdev_owns(dst, 0, NULL) ? 0 : ENETDOWN;
	return path_errors_latest(vrb.wire->path_errors, dst, clock_now());
}
