/* SPDX-License-Identifier: BSD-2-Clause */
/* Loads libibverbs' private interface. */
#include "rdmacm/qp1.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "run/log.h"
#include "util/compiler.h"

struct qp1 qp1;

static const struct {
	const char *name;
	size_t offset;
} calls[] = {
	{ "vrb_mad_open", offsetof(struct qp1, open) },
	{ "vrb_mad_close", offsetof(struct qp1, close) },
	{ "vrb_mad_now", offsetof(struct qp1, now) },
	{ "vrb_mad_arm", offsetof(struct qp1, arm) },
	{ "vrb_mad_send", offsetof(struct qp1, send) },
	{ "vrb_mad_settle", offsetof(struct qp1, settle) },
	{ "vrb_mad_catch_up", offsetof(struct qp1, catch_up) },
	{ "vrb_mad_find_gid", offsetof(struct qp1, find_gid) },
	{ "vrb_mad_gone", offsetof(struct qp1, gone) },
	{ "vrb_mad_comm_id", offsetof(struct qp1, comm_id) },
	{ "vrb_mad_at_exit", offsetof(struct qp1, at_exit) },
	{ "vrb_mad_run_last", offsetof(struct qp1, run_last) },
	{ "vrb_mad_bind", offsetof(struct qp1, bind) },
	{ "vrb_mad_listen", offsetof(struct qp1, listen) },
	{ "vrb_mad_only_family", offsetof(struct qp1, only_family) },
	{ "vrb_mad_end_listening", offsetof(struct qp1, end_listening) },
	{ "vrb_mad_unbind", offsetof(struct qp1, unbind) },
	{ "vrb_mad_trouble", offsetof(struct qp1, trouble) },
	{ "vrb_mad_polls", offsetof(struct qp1, polls) },
	{ "vrb_mad_poll", offsetof(struct qp1, poll) },
	{ "vrb_mad_await", offsetof(struct qp1, await) },
	{ "vrb_write_direct", offsetof(struct qp1, write_direct) },
};

static const char *path_of(const void *symbol)
{
	Dl_info info;

	return dladdr(symbol, &info) && info.dli_fname ? info.dli_fname : "?";
}

static void complain(void)
{
	log_error(LOG_VERBS,
		  "%s is Verbena's librdmacm, but %s is not Verbena's libibverbs, or is another "
		  "version: no device can be used. Put the folder that contains both first in "
		  "LD_LIBRARY_PATH, or start the program with \"verbena run --\"",
		  path_of(calls), path_of((const void *)(uintptr_t)ibv_get_device_list));
}

/* musl knows no versions. */
static void *symbol_of(void *library, const char *name)
{
#ifdef HAVE_DLVSYM
	return dlvsym(library, name, "VERBENA_PRIVATE_8");
#else
	return dlsym(library, name);
#endif
}

static bool found;

static void find(void)
{
	void *library = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
	size_t i;

	found = library != NULL;
	for (i = 0; i < ARRAY_SIZE(calls) && found; i++) {
		void *symbol = symbol_of(library, calls[i].name);

		found = symbol != NULL;
		memcpy((char *)&qp1 + calls[i].offset, &symbol, sizeof(symbol));
	}
	if (!found)
		complain();
	if (library)
		dlclose(library);
}

int qp1_find(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find);
	return found ? 0 : ENODEV;
}
