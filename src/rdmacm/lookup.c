/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma_resolve_addrinfo().  While its thread runs a lookup belongs to the thread, afterwards to its
 * id; if the id is destroyed first, the thread frees it.
 */
#include "rdmacm/lookup.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/cma.h"
#include "rdmacm/event.h"
#include "rdmacm/id.h"
#include "util/quiet_thread.h"

struct lookup {
	struct cma_id *id; /* NULL: the id was destroyed */
	bool running;
	char *node, *service;
	struct rdma_addrinfo *hints; /* or NULL */
	struct rdma_addrinfo *result;
};

static void lookup_free(struct lookup *l)
{
	free(l->node);
	free(l->service);
	rdma_freeaddrinfo(l->hints);
	rdma_freeaddrinfo(l->result);
	free(l);
}

void lookup_cancel(struct cma_id *id)
{
	struct lookup *l = id->lookup;

	id->lookup = NULL;
	if (!l)
		return;
	l->id = NULL;
	if (!l->running)
		lookup_free(l);
}

/* The event's status: an EAI_* code, or -errno. */
static int look_up(struct lookup *l)
{
	int err = rdma_getaddrinfo(l->node, l->service, l->hints, &l->result);

	return err == -1 ? -errno : err;
}

static void *run(void *arg)
{
	struct lookup *l = arg;
	int status = look_up(l);
	bool gone;

	cma_lock();
	l->running = false;
	gone = !l->id;
	if (!gone) {
		event_raise(l->id,
			    status ? RDMA_CM_EVENT_ADDRINFO_ERROR : RDMA_CM_EVENT_ADDRINFO_RESOLVED,
			    status);
		if (status)
			lookup_cancel(l->id);
	}
	cma_unlock();
	if (gone)
		lookup_free(l);
	return NULL;
}

static int start(struct lookup *l)
{
	pthread_t thread;
	int err = quiet_thread_start(&thread, run, l);

	if (!err)
		pthread_detach(thread);
	return err;
}

/* Copies the hints, except names, routes and connection data. */
static int copy_hints(struct lookup *l, const struct rdma_addrinfo *hints)
{
	return hints ? cma_verb(rdma_getaddrinfo(NULL, NULL, hints, &l->hints)) : 0;
}

static int make(const char *node, const char *service, const struct rdma_addrinfo *hints,
		struct lookup **out)
{
	struct lookup *l = calloc(1, sizeof(*l));
	int err;

	if (!l)
		return ENOMEM;
	l->node = node ? strdup(node) : NULL;
	l->service = service ? strdup(service) : NULL;
	err = (node && !l->node) || (service && !l->service) ? ENOMEM : copy_hints(l, hints);
	if (err) {
		lookup_free(l);
		return err;
	}
	*out = l;
	return 0;
}

/* RAI_SA means a query to InfiniBand's subnet administrator, which RoCE does not have. */
static int check(const char *node, const char *service, const struct rdma_addrinfo *hints)
{
	if (!node && !service && !hints)
		return EINVAL;
	if (hints && (hints->ai_flags & RAI_SA))
		return node || (hints->ai_flags & RAI_DNS) ? EOPNOTSUPP : ENOENT;
	return 0;
}

/* Under the lock. */
static int begin(struct cma_id *id, struct lookup *l)
{
	int err;

	if (id->lookup && id->lookup->running)
		return EBUSY;
	lookup_cancel(id);
	l->id = id;
	l->running = true;
	id->lookup = l;
	err = start(l);
	if (err)
		id->lookup = NULL;
	return err;
}

CMA_EXPORT int rdma_resolve_addrinfo(struct rdma_cm_id *pub, const char *node, const char *service,
				     const struct rdma_addrinfo *hints)
{
	struct cma_id *id = pub ? to_id(pub) : NULL;
	struct lookup *l = NULL;
	int err = id ? check(node, service, hints) : EINVAL;

	if (!err)
		err = make(node, service, hints, &l);
	if (err)
		return cma_result(err);
	err = id_enter_channel(id);
	if (!err) {
		err = begin(id, l);
		cma_unlock();
	}
	if (err) {
		lookup_free(l);
		return cma_result(err);
	}
	return id_wait(id);
}

CMA_EXPORT int rdma_query_addrinfo(struct rdma_cm_id *pub, struct rdma_addrinfo **info)
{
	struct cma_id *id = pub ? to_id(pub) : NULL;
	int err = info ? id_enter(id) : EINVAL;

	if (err)
		return cma_result(err);
	if (!id->lookup)
		err = ENOENT;
	else if (id->lookup->running)
		err = EBUSY;
	else {
		*info = id->lookup->result;
		id->lookup->result = NULL;
		lookup_cancel(id);
	}
	cma_unlock();
	return cma_result(err);
}
