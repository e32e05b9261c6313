/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See introspect.h. Owns the listening socket. Runs in the progress thread and holds no lock on
 * entry: it takes vrb.lock, context locks, vrb.poll_lock and QP locks in turn to copy numbers, and
 * formats the copies afterwards.
 */
#include "core/diag/introspect.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/context.h"
#include "core/base/rx_queues.h"
#include "core/base/state.h"
#include "core/cq/cq.h"
#include "core/device/device.h"
#include "core/mad/gsi.h"
#include "core/mem/key_table.h"
#include "core/qp/qp.h"
#include "core/qp/qp_table.h"
#include "host/host.h"
#include "run/clock.h"
#include "run/log.h"
#include "run/progress.h"
#include "util/atomic.h"
#include "util/file_room.h"
#include "util/utf8.h"

enum {
	BACKLOG = 8,
	/* objects of a kind in one reply; a count gives the total */
	MAX_SHOWN = 4096,
};

static int listener = -1;

/* ---- copies ---- */

struct qp_view {
	char device[IBV_SYSFS_NAME_MAX];
	uint32_t qpn, dest_qpn, mtu, sq_psn, rq_psn;
	uint8_t type, state, timeout;
	bool same_host, direct;
	bool building;		/* between ibv_wr_start and ibv_wr_complete */
	struct net_addr peer;
	uint32_t sq_head, sq_next, sq_done, sq_size, rq_head, rq_next, rq_size;
	uint32_t send_cq, recv_cq;
	bool has_srq;
	struct roce_counters counters;
};

struct cq_view {
	char device[IBV_SYSFS_NAME_MAX];
	uint32_t handle, entries, head, tail, users;
	uint8_t armed;
	bool overrun, events;
	bool polling;		/* between ibv_start_poll and ibv_end_poll */
};

struct mr_view {
	uint32_t lkey, rkey, pdn, access;
	uint64_t va, length;
	uint8_t kind;
};

struct context_view {
	char device[IBV_SYSFS_NAME_MAX];
	unsigned int pd, mr, mw, ah, cq, qp, srq, xrcd, channel;
};

struct id_view {
	char device[IBV_SYSFS_NAME_MAX];
	char state[24], exchange[24];
	uint32_t port_space, qpn;
	uint8_t type;
	struct net_addr src, dst;
	uint16_t src_port, dst_port;
};

/* A growing array. Elements beyond MAX_SHOWN are only counted. */
struct views {
	size_t size, n, total;
	char *data;
};

static void *add_view(struct views *v)
{
	char *data;

	v->total++;
	if (v->n == MAX_SHOWN)
		return NULL;
	if ((v->n & (v->n - 1)) == 0) {
		data = realloc(v->data, (v->n ? v->n * 2 : 1) * v->size);
		if (!data)
			return NULL;
		v->data = data;
	}
	return memset(v->data + v->n++ * v->size, 0, v->size);
}

/* Must hold vrb.poll_lock. */
static void view_qp(struct vrb_qp *qp, void *arg)
{
	struct qp_view *v = add_view(arg);
	const struct wq_qp *wq = &qp->wq;

	if (!v)
		return;
	lock_acquire(&qp->lock);
	snprintf(v->device, sizeof(v->device), "%s", qp->config.ctx->dev->ibv.name);
	v->qpn = wq->qpn;
	v->dest_qpn = wq->dest_qpn;
	v->mtu = wq->mtu;
	v->sq_psn = wq->sq_psn;
	v->rq_psn = wq->rq_psn;
	v->type = wq->type;
	v->state = wq->state;
	v->timeout = wq->timeout;
	v->building = lock_in_use(&qp->post.batch.lock);
	v->same_host = qp->peer.process != NULL;
	v->direct = v->same_host && wq->direct;
	v->peer = wq->path.dst;
	v->sq_head = wq->sq.head;
	v->sq_next = wq->sq.next;
	v->sq_done = wq->sq.done;
	v->sq_size = wq->sq.ring.limit;
	v->rq_head = wq->rq.head;
	v->rq_next = wq->rq.next;
	v->rq_size = wq->rq.ring.limit;
	v->has_srq = wq->has_srq;
	v->send_cq = qp->config.send_cq ? qp->config.send_cq->ibv.handle : 0;
	v->recv_cq = qp->config.recv_cq ? qp->config.recv_cq->ibv.handle : 0;
	v->counters = *roce_qp_counters(&qp->roce);
	lock_release(&qp->lock);
}

static void view_cqs(struct vrb_context *ctx, struct views *out)
{
	struct list *pos;

	list_for_each (pos, &ctx->cqs) {
		struct vrb_cq *cq = list_entry(pos, struct vrb_cq, node);
		struct cq_view *v = add_view(out);

		if (!v)
			continue;
		lock_acquire(&cq->lock);
		snprintf(v->device, sizeof(v->device), "%s", ctx->dev->ibv.name);
		v->handle = cq->ibv.handle;
		v->entries = cq->mask + 1;
		v->head = cq->head;
		v->tail = cq->tail;
		v->users = load_relaxed(&cq->users);
		v->armed = cq->armed;
		v->overrun = cq->overrun;
		v->events = cq->channel != NULL;
		v->polling = lock_in_use(&cq->poll_lock);
		lock_release(&cq->lock);
	}
}

static void view_context(struct vrb_context *ctx, struct views *out)
{
	struct context_view *v = add_view(out);

	if (!v)
		return;
	snprintf(v->device, sizeof(v->device), "%s", ctx->dev->ibv.name);
	v->pd = ctx->n[CTX_PD];
	v->mr = ctx->n[CTX_MR];
	v->mw = ctx->n[CTX_MW];
	v->ah = ctx->n[CTX_AH];
	v->cq = ctx->n[CTX_CQ];
	v->qp = ctx->n[CTX_QP];
	v->srq = ctx->n[CTX_SRQ];
	v->xrcd = ctx->n[CTX_XRCD];
	v->channel = ctx->n[CTX_CHANNEL];
}

static void view_contexts(struct views *contexts, struct views *cqs)
{
	struct list *pos;

	pthread_mutex_lock(&vrb.lock);
	list_for_each (pos, &vrb.contexts) {
		struct vrb_context *ctx = list_entry(pos, struct vrb_context, node);

		pthread_mutex_lock(&ctx->lock);
		view_context(ctx, contexts);
		view_cqs(ctx, cqs);
		pthread_mutex_unlock(&ctx->lock);
	}
	pthread_mutex_unlock(&vrb.lock);
}

static void view_mrs(struct views *out)
{
	uint32_t end = mr_table_end();

	for (uint32_t i = 1; i < end; i++) {
		struct mr_entry *e = mr_entry_get(i << 8);
		struct mr_view *v = e ? add_view(out) : NULL;

		if (v)
			*v = (struct mr_view){ e->lkey, e->rkey,   e->pdn, e->access,
					       e->va,   e->length, e->kind };
		if (e)
			mr_entry_put(e);
	}
}

/* Must hold vrb.poll_lock. */
static void view_id(void *arg, const struct cm_shown *id)
{
	struct id_view *v = add_view(arg);

	if (!v)
		return;
	snprintf(v->device, sizeof(v->device), "%s", id->device);
	snprintf(v->state, sizeof(v->state), "%s", id->state);
	snprintf(v->exchange, sizeof(v->exchange), "%s", id->exchange);
	v->port_space = id->port_space;
	v->qpn = id->qpn;
	v->type = (uint8_t)id->qp_type;
	v->src = id->src;
	v->dst = id->dst;
	v->src_port = id->src_port;
	v->dst_port = id->dst_port;
}

/* ---- JSON ---- */

/* A program's or an interface's name may be any bytes. */
static void put_name(FILE *f, const char *name)
{
	fputc('"', f);
	while (*name) {
		unsigned int n = utf8_length(name);

		if (!n)
			fputs(UTF8_REPLACEMENT, f);
		else if (*name == '"' || *name == '\\' || (n == 1 && *name < ' '))
			fprintf(f, "\\u%04x", (unsigned char)*name);
		else
			fwrite(name, 1, n, f);
		name += n ? n : 1;
	}
	fputc('"', f);
}

/* The first member of most objects. */
static void put_device(FILE *f, const char *name)
{
	fputs("{\"device\":", f);
	put_name(f, name);
	fputc(',', f);
}

static void put_counters(FILE *f, const struct roce_counters *c)
{
	static const struct {
		const char *name;
		size_t offset;
	} rows[] = {
#define ROW(name) { #name, offsetof(struct roce_counters, name) }
		ROW(sent_pkts),          ROW(rcvd_pkts),         ROW(sent_bytes),
		ROW(rcvd_bytes),         ROW(duplicate_request), ROW(out_of_seq_request),
		ROW(rcvd_rnr_err),       ROW(rcvd_seq_err),      ROW(send_rnr_err),
		ROW(retransmitted_pkts), ROW(dropped_pkts),      ROW(rdma_sends),
		ROW(rdma_recvs),         ROW(unreceived_msgs),   ROW(broken_msgs),
		ROW(refused_msgs),       ROW(lost_pkts),
#undef ROW
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint64_t v;

		memcpy(&v, (const char *)c + rows[i].offset, sizeof(v));
		fprintf(f, "%s\"%s\":%llu", i ? "," : "", rows[i].name, (unsigned long long)v);
	}
}

static void put_qp(FILE *f, const void *view)
{
	const struct qp_view *v = view;
	char peer[INET6_ADDRSTRLEN] = "";

	if (v->type != IBV_QPT_UD && !net_addr_is_zero(&v->peer))
		inet_ntop(AF_INET6, v->peer.raw, peer, sizeof(peer));
	put_device(f, v->device);
	fprintf(f, "\"qpn\":%u,\"type\":\"%s\",\"state\":\"%s\",\"transport\":\"%s\",",
		v->qpn, vrb_qp_type_name(v->type), vrb_qp_state_name(v->state),
		v->direct ? "local direct" : v->same_host ? "local" : "udp");
	fprintf(f, "\"peer_qpn\":%u,\"peer\":\"%s\",\"mtu\":%u,\"sq_psn\":%u,\"rq_psn\":%u,",
		v->dest_qpn, peer, v->mtu,
		v->sq_psn, v->rq_psn);
	fprintf(f, "\"sends_posted\":%u,\"sends_done\":%u,\"sends_waiting\":%u,\"send_depth\":%u,",
		v->sq_head, v->sq_done, v->sq_head - v->sq_done, v->sq_size);
	fprintf(f,
		"\"recvs_posted\":%u,\"recvs_taken\":%u,\"recvs_waiting\":%u,\"recv_depth\":%u,"
		"\"srq\":%s,",
		v->rq_head, v->rq_next, v->rq_head - v->rq_next, v->rq_size,
		v->has_srq ? "true" : "false");
	fprintf(f, "\"timeout\":%u,\"building\":%s,", v->timeout, v->building ? "true" : "false");
	fprintf(f, "\"send_cq\":%u,\"recv_cq\":%u,\"counters\":{", v->send_cq, v->recv_cq);
	put_counters(f, &v->counters);
	fputs("}}", f);
}

static void put_cq(FILE *f, const void *view)
{
	const struct cq_view *v = view;

	put_device(f, v->device);
	fprintf(f, "\"handle\":%u,\"entries\":%u,\"waiting\":%u,\"completions\":%u,",
		v->handle, v->entries, v->head - v->tail, v->head);
	fprintf(f, "\"users\":%u,\"events\":%s,\"armed\":%s,\"solicited\":%s,", v->users,
		v->events ? "true" : "false", v->armed ? "true" : "false",
		v->armed == VRB_CQ_ARM_SOLICITED ? "true" : "false");
	fprintf(f, "\"polling\":%s,\"overrun\":%s}", v->polling ? "true" : "false",
		v->overrun ? "true" : "false");
}

static void put_mr(FILE *f, const void *view)
{
	static const char *const kinds[] = { "free", "region", "window", "null", "device memory" };
	const struct mr_view *v = view;

	fprintf(f, "{\"kind\":\"%s\",\"lkey\":%u,\"rkey\":%u,\"pd\":%u,\"access\":%u,",
		v->kind < ARRAY_SIZE(kinds) ? kinds[v->kind] : "?", v->lkey, v->rkey, v->pdn,
		v->access);
	fprintf(f, "\"address\":%llu,\"length\":%llu}", (unsigned long long)v->va,
		(unsigned long long)v->length);
}

static const char *port_space(uint32_t ps)
{
	switch (ps) {
	case 0x0002: return "IPOIB";
	case 0x0106: return "TCP";
	case 0x0111: return "UDP";
	default: return "IB";
	}
}

/* An IPv4 address is printed in dotted form, the wildcard as "*". */
static void put_address(FILE *f, const char *name, const struct net_addr *a, uint16_t port)
{
	char text[INET6_ADDRSTRLEN] = "*";

	if (net_is_ipv4(a))
		inet_ntop(AF_INET, a->raw + 12, text, sizeof(text));
	else if (!net_addr_is_zero(a))
		inet_ntop(AF_INET6, a->raw, text, sizeof(text));
	fprintf(f, ",\"%s\":\"%s\",\"%s_port\":%u", name, text, name, port);
}

static void put_id(FILE *f, const void *view)
{
	const struct id_view *v = view;

	put_device(f, v->device);
	fprintf(f,
		"\"state\":\"%s\",\"exchange\":\"%s\",\"port_space\":\"%s\",\"type\":\"%s\","
		"\"qpn\":%u",
		v->state, v->exchange, port_space(v->port_space),
		vrb_qp_type_name(v->type), v->qpn);
	put_address(f, "src", &v->src, v->src_port);
	put_address(f, "dst", &v->dst, v->dst_port);
	fputc('}', f);
}

static void put_context(FILE *f, const void *view)
{
	const struct context_view *v = view;

	put_device(f, v->device);
	fprintf(f,
		"\"pd\":%u,\"mr\":%u,\"mw\":%u,\"ah\":%u,\"cq\":%u,\"qp\":%u,\"srq\":%u,",
		v->pd, v->mr, v->mw, v->ah, v->cq, v->qp, v->srq);
	fprintf(f, "\"xrcd\":%u,\"channel\":%u}", v->xrcd, v->channel);
}

static void put_views(FILE *f, const char *name, struct views *v, void (*put)(FILE *, const void *))
{
	fprintf(f, ",\"n_%s\":%zu,\"%s\":[", name, v->total, name);
	for (size_t i = 0; i < v->n; i++) {
		if (i)
			fputc(',', f);
		put(f, v->data + i * v->size);
	}
	fputc(']', f);
	free(v->data);
}

static void put_process(FILE *f)
{
	struct rx_stats all, *s = &all;

	vrb_rx_stats_sum(s);
	fprintf(f, "{\"version\":\"%s\",\"pid\":%d,\"uid\":%u,\"program\":", VRB_VERSION,
		(int)getpid(), (unsigned int)getuid());
	put_name(f, program_invocation_short_name);
	fprintf(f, ",\"time_ns\":%llu,\"udp\":%s,\"local\":%s,", (unsigned long long)clock_now(),
		vrb.wire ? "true" : "false", vrb.local ? "true" : "false");
	fprintf(f, "\"sent_pkts\":%llu,\"rcvd_pkts\":%llu,\"icrc_errors\":%llu,\"malformed\":%llu,",
		(unsigned long long)s->sent_pkts, (unsigned long long)s->rcvd_pkts,
		(unsigned long long)s->icrc_errors, (unsigned long long)s->malformed);
	fprintf(f, "\"unknown_qp\":%llu,\"wrong_path\":%llu,\"not_ready\":%llu,",
		(unsigned long long)s->unknown_qp, (unsigned long long)s->wrong_path,
		(unsigned long long)s->not_ready);
	fprintf(f, "\"handed\":%llu,\"lost\":%llu",
		(unsigned long long)s->handed, (unsigned long long)(s->hand_lost + s->send_lost));
}

static void write_answer(FILE *f)
{
	struct views contexts = { .size = sizeof(struct context_view) };
	struct views qps = { .size = sizeof(struct qp_view) };
	struct views cqs = { .size = sizeof(struct cq_view) };
	struct views mrs = { .size = sizeof(struct mr_view) };
	struct views ids = { .size = sizeof(struct id_view) };

	view_contexts(&contexts, &cqs);
	lock_acquire(&vrb.poll_lock);
	vrb_qp_table_for_each(view_qp, &qps);
	vrb_gsi_ids(view_id, &ids);
	lock_release(&vrb.poll_lock);
	view_mrs(&mrs);
	put_process(f);
	put_views(f, "contexts", &contexts, put_context);
	put_views(f, "qps", &qps, put_qp);
	put_views(f, "cqs", &cqs, put_cq);
	put_views(f, "mrs", &mrs, put_mr);
	put_views(f, "cm_ids", &ids, put_id);
	fputs("}\n", f);
}

/* ---- the socket ---- */

/* Does not block: a new connection has room for one byte. */
static void send_file(int to, int file)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { 0 };
	char byte = 'A';
	struct iovec iov = { &byte, 1 };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.buf,
			     .msg_controllen = sizeof(control.buf) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&mh);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &file, sizeof(file));
	if (sendmsg(to, &mh, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		log_debug(LOG_CORE, "the client of the introspection socket has gone: %m");
}

static void send_text(int to, const char *text, size_t len)
{
	int file = memfd_create("verbena-answer", MFD_CLOEXEC);

	if (file >= 0 && file_may_have(len) && write(file, text, len) == (ssize_t)len)
		send_file(to, file);
	if (file >= 0)
		close(file);
}

static void answer(int to)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		return;
	write_answer(f);
	if (fclose(f) == 0)
		send_text(to, text, len);
	free(text);
}

static bool on_query(void *arg, int fd)
{
	int to = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (to < 0 && file_is_shortage(errno)) {
		/*
		 * Without a descriptor no client can be accepted, and the thread would find it
		 * waiting again and again: closing the socket ends it.
		 */
		vrb_introspect_stop();
		vrb_introspect_start();
	}
	if (to < 0)
		return false;
	answer(to);
	close(to);
	return true;
}

/* A long directory name is reached through /proc/self/fd, like the inbox. */
static bool address(struct sockaddr_un *sun)
{
	char name[32];
	int n;

	host_file_name(host_slot(vrb.host), "query", name);
	*sun = (struct sockaddr_un){ .sun_family = AF_UNIX };
	n = snprintf(sun->sun_path, sizeof(sun->sun_path), "%s/%s", host_dir(vrb.host), name);
	if (n >= (int)sizeof(sun->sun_path))
		n = snprintf(sun->sun_path, sizeof(sun->sun_path), "/proc/self/fd/%d/%s",
			     host_dirfd(vrb.host), name);
	return n < (int)sizeof(sun->sun_path);
}

void vrb_introspect_start(void)
{
	struct sockaddr_un sun;

	if (!host_shared(vrb.host) || !address(&sun))
		return;
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (listener < 0)
		return;
	unlink(sun.sun_path);
	if (bind(listener, (struct sockaddr *)&sun, sizeof(sun)) < 0 ||
	    chmod(sun.sun_path, 0600) < 0 ||
	    listen(listener, BACKLOG) < 0 ||
	    progress_watch(vrb.progress, listener, PROGRESS_OWN, on_query, NULL)) {
		log_debug(LOG_CORE, "%s: %m", sun.sun_path);
		close(listener);
		listener = -1;
	}
}

void vrb_introspect_stop(void)
{
	if (listener < 0)
		return;
	progress_unwatch(vrb.progress, listener);
	close(listener);
	listener = -1;
}

void vrb_introspect_forget(void)
{
	if (listener >= 0)
		close(listener);
	listener = -1;
}
