/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Warns once, at the first call that starts a connection, if the program uses a librdmacm other
 * than Verbena's: that one asks the kernel for devices, and its error does not say why there are
 * none. Programs that are linked with it but do not call it, such as perftest without -R, get no
 * warning.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "util/atomic.h"
#include "util/compiler.h"

#define EXPORT __attribute__((visibility("default")))

struct rdma_event_channel;
struct rdma_cm_id;
struct rdma_addrinfo;
struct ibv_pd;
struct ibv_qp_init_attr;

static size_t folder_len(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? (size_t)(slash - path) : 0;
}

/* Ours is in the same folder as this library. */
static void note(void *fn)
{
	static uint32_t logged;
	Dl_info self, cm;
	size_t len;

	if (load_relaxed(&logged) || !dladdr((const void *)folder_len, &self) || !dladdr(fn, &cm))
		return;
	len = folder_len(self.dli_fname);
	if ((folder_len(cm.dli_fname) == len && !strncmp(self.dli_fname, cm.dli_fname, len)) ||
	    swap_acq_rel(&logged, 1))
		return;
	dprintf(STDERR_FILENO,
		"verbena: %s is not Verbena's librdmacm: it looks for devices of the kernel, and "
		"does not find Verbena's\n",
		cm.dli_fname);
}

/* A library loaded only by a plugin is not in the global scope (UCX). */
static void *find(const char *name)
{
	void *fn = dlsym(RTLD_NEXT, name),
	     *library = fn ? NULL : dlopen("librdmacm.so.1", RTLD_LAZY | RTLD_NOLOAD);

	if (!library)
		return fn;
	fn = dlsym(library, name);
	dlclose(library);
	return fn;
}

/*
 * Defines a call that starts a connection: warns, then calls the library's function of that name;
 * returns `none` if there is none.
 */
#define DEFINE(ret, none, name, params, args)                                                      \
	EXPORT ret name params;                                                                    \
	EXPORT ret name params                                                                     \
	{                                                                                          \
		__typeof__(&name) fn = (__typeof__(&name))find(#name);                             \
                                                                                                   \
		if (unlikely(!fn)) {                                                               \
			errno = ENOSYS;                                                            \
			return none;                                                               \
		}                                                                                  \
		note((void *)fn);                                                                  \
		return fn args;                                                                    \
	}

DEFINE(struct rdma_event_channel *, NULL, rdma_create_event_channel, (void), ())
DEFINE(int, -1, rdma_create_ep,
       (struct rdma_cm_id * *id, struct rdma_addrinfo *res, struct ibv_pd *pd,
	struct ibv_qp_init_attr *attr),
       (id, res, pd, attr))
DEFINE(int, -1, rsocket, (int domain, int type, int protocol), (domain, type, protocol))
