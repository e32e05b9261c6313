/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What answers under an old, a private or no version: refusals in the manner of each call, and one
 * function behind all the names of the private node.
 *
 * usage: versions_test LIBRARY
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>

#include "check.h"

static void *lib;

typedef intptr_t (*call)(void *, void *, void *, void *);

static call old(const char *name, const char *node)
{
	void *sym = dlvsym(lib, name, node);
	call fn;

	if (!sym)
		fprintf(stderr, "%s@%s: %s\n", name, node, dlerror());
	CHECK(sym);
	memcpy(&fn, &sym, sizeof(fn));
	return fn;
}

static void first_release(void)
{
	static const struct {
		const char *name;
		int is_int;
		intptr_t answer;
	} rows[] = {
		{ "ibv_get_device_list", 0, 0 },     { "ibv_get_device_name", 0, 0 },
		{ "ibv_get_device_guid", 0, 0 },     { "ibv_open_device", 0, 0 },
		{ "ibv_close_device", 1, ENOSYS },   { "ibv_get_async_event", 1, -1 },
		{ "ibv_query_device", 1, ENOSYS },   { "ibv_query_port", 1, ENOSYS },
		{ "ibv_query_gid", 1, -1 },	     { "ibv_query_pkey", 1, -1 },
		{ "ibv_alloc_pd", 0, 0 },	     { "ibv_dealloc_pd", 1, ENOSYS },
		{ "ibv_reg_mr", 0, 0 },		     { "ibv_dereg_mr", 1, ENOSYS },
		{ "ibv_create_cq", 0, 0 },	     { "ibv_resize_cq", 1, ENOSYS },
		{ "ibv_destroy_cq", 1, ENOSYS },     { "ibv_get_cq_event", 1, -1 },
		{ "ibv_create_srq", 0, 0 },	     { "ibv_modify_srq", 1, ENOSYS },
		{ "ibv_query_srq", 1, ENOSYS },	     { "ibv_destroy_srq", 1, ENOSYS },
		{ "ibv_create_qp", 0, 0 },	     { "ibv_query_qp", 1, ENOSYS },
		{ "ibv_modify_qp", 1, ENOSYS },	     { "ibv_destroy_qp", 1, ENOSYS },
		{ "ibv_create_ah", 0, 0 },	     { "ibv_destroy_ah", 1, ENOSYS },
		{ "ibv_attach_mcast", 1, ENOSYS },   { "ibv_detach_mcast", 1, ENOSYS },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		intptr_t got;

		errno = 0;
		got = old(rows[i].name, "IBVERBS_1.0")(NULL, NULL, NULL, NULL);
		CHECK_EQ(rows[i].is_int ? (int)got : got, rows[i].answer);
		CHECK_EQ(errno, ENOSYS);
	}
	/* These calls cannot report an error. */
	old("ibv_free_device_list", "IBVERBS_1.0")(NULL, NULL, NULL, NULL);
	old("ibv_ack_async_event", "IBVERBS_1.0")(NULL, NULL, NULL, NULL);
	old("ibv_ack_cq_events", "IBVERBS_1.0")(NULL, NULL, NULL, NULL);
	old("ibv_register_driver", "IBVERBS_1.1")(NULL, NULL, NULL, NULL);
}

static const char *const private_nodes[] = {
	"IBVERBS_PRIVATE_34", "IBVERBS_PRIVATE_57", "IBVERBS_PRIVATE_59", "IBVERBS_PRIVATE_64",
	"IBVERBS_PRIVATE_65",
};

static void private_node(void)
{
	static const char *const names[] = {
		"ibv_cmd_alloc_pd",   "execute_ioctl",     "verbs_open_device",
		"__verbs_log",        "verbs_set_ops",     "verbs_allow_disassociate_destroy",
		"ibv_query_gid_type", "ibv_wr_opcode_str",
	};
	char registrar[] = "verbs_register_driver_NN";

	for (size_t n = 0; n < sizeof(private_nodes) / sizeof(private_nodes[0]); n++) {
		const char *node = private_nodes[n];

		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
			CHECK(dlvsym(lib, names[i], node) ==
			      dlvsym(lib, names[i], private_nodes[0]));
		memcpy(strstr(registrar, "driver_") + 7, strstr(node, "PRIVATE_") + 8, 2);
		old(registrar, node)(NULL, NULL, NULL, NULL);
	}

	CHECK_EQ((int)old("ibv_cmd_alloc_pd", private_nodes[0])(NULL, NULL, NULL, NULL),
		 EOPNOTSUPP);
	CHECK_EQ((int)old("ibv_cmd_poll_cq", private_nodes[0])(NULL, NULL, NULL, NULL), -1);
	errno = 0;
	CHECK_EQ(old("verbs_open_device", private_nodes[0])(NULL, NULL, NULL, NULL), 0);
	CHECK_EQ(errno, EOPNOTSUPP);
	CHECK_EQ(*(const char *)dlvsym(lib, "verbs_allow_disassociate_destroy", private_nodes[0]),
		 0);
	CHECK(!dlvsym(lib, "verbs_register_driver_34", "IBVERBS_PRIVATE_57"));
}

/* A program that does not ask for a version, as scripting languages do, gets today's. */
static void no_version(void)
{
	static const char *const names[] = { "ibv_get_device_list", "ibv_reg_mr",
					     "ibv_query_port" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		CHECK(dlsym(lib, names[i]));
		CHECK(dlsym(lib, names[i]) == dlvsym(lib, names[i], "IBVERBS_1.1"));
	}
	CHECK(!dlsym(lib, "vrb_1_0_get_device_list"));
	CHECK(!dlsym(lib, "vrb_private___verbs_log"));
}

int main(int argc, char **argv)
{
	CHECK_EQ(argc, 2);
	lib = dlopen(argv[1], RTLD_NOW);
	if (!lib)
		fprintf(stderr, "%s\n", dlerror());
	CHECK(lib);
	first_release();
	private_node();
	no_version();
	return 0;
}
