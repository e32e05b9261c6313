/* SPDX-License-Identifier: BSD-2-Clause */
/* Contexts and pairs of them for the tests of libverbena. */
#include "pair.h"

const char *loopback(void)
{
	static char name[64];
	struct ibv_device **list;
	int n;

	if (name[0])
		return name;
	list = ibv_get_device_list(&n);
	CHECK(list);
	if (!n)
		SKIP("no network interface");
	snprintf(name, sizeof(name), "%s", ibv_get_device_name(list[n - 1]));
	ibv_free_device_list(list);
	return name;
}

struct verbena_context_options options_of(enum ibv_qp_type type)
{
	struct verbena_context_options opt;

	OK(verbena_context_options_init(&opt, sizeof(opt)) == 0);
	opt.qp_type = type;
	opt.qkey = QKEY;
	return opt;
}

struct verbena_context *context_of(const struct verbena_context_options *opt)
{
	struct verbena_context *ctx = verbena_create_context(loopback(), 1, opt);

	OK(ctx);
	return ctx;
}

struct pair pair_create(const struct verbena_context_options *opt)
{
	struct pair p = { context_of(opt), context_of(opt) };
	struct verbena_address a, b;

	if (opt->qp_type == IBV_QPT_RAW_PACKET)
		return p;
	OK(verbena_get_address(p.a, &a) == 0);
	OK(verbena_get_address(p.b, &b) == 0);
	OK(verbena_connect(p.a, &b) == 0);
	OK(verbena_connect(p.b, &a) == 0);
	return p;
}

void pair_destroy(struct pair *p)
{
	OK(verbena_destroy_context(p->a) == 0);
	OK(verbena_destroy_context(p->b) == 0);
}

enum ibv_qp_type type_named(const char *name)
{
	static const struct {
		const char *name;
		enum ibv_qp_type type;
	} types[] = {
		{ "rc", IBV_QPT_RC },
		{ "uc", IBV_QPT_UC },
		{ "ud", IBV_QPT_UD },
		{ "raw", IBV_QPT_RAW_PACKET },
	};

	for (size_t i = 0; name && i < sizeof(types) / sizeof(types[0]); i++)
		if (strcmp(types[i].name, name) == 0)
			return types[i].type;
	CHECK(!"rc, uc, ud or raw");
	return IBV_QPT_RC;
}
