/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A handle of an XRC receive QP that no process owns: every verb on it fails, and it remains
 * unattached.
 */
#include "core/xrc/remote_handle.h"

#include "core_env.h"

#include <errno.h>
#include <string.h>

#include "core/qp/qp.h"
#include "core/qp/xrcd.h"
#include "core/xrc/msg.h"
#include "host/host.h"
#include "place.h"

enum { UNUSED_QPN = 0xabcdef };

static const struct wq_ops no_ops;
static char dir[64];
static struct vrb_context *ctx;
static struct vrb_qp *handle;
static struct xrc_domain domain;
static struct vrb_xrcd xrcd = { .domain = &domain };

static int set_up(void **state)
{
	place_make_dir(dir);
	ctx = core_env_open();
	assert_int_equal(host_join(dir, &vrb.host), 0);
	handle = calloc(1, sizeof(*handle));
	assert_non_null(handle);
	vrb_qp_init(handle, IBV_QPT_XRC_RECV, &no_ops);
	handle->config.ctx = ctx;
	handle->config.xrcd = &xrcd;
	handle->ibv.context = &ctx->vctx.context;
	handle->wq.qpn = UNUSED_QPN;
	domain.has_inode = true;
	return 0;
}

static int tear_down(void **state)
{
	vrb_qp_fini(handle);
	free(handle);
	host_leave(vrb.host);
	vrb.host = NULL;
	core_env_close(ctx);
	place_remove_dir(dir);
	return 0;
}

static void expect_refused(void)
{
	assert_int_equal(vrb_remote_open(handle), EINVAL);
	assert_true(list_empty(&handle->xrc.node));
}

static void opens_only_qps_of_other_processes(void **state)
{
	expect_refused();
	/* A QP of this process is not remote. */
	assert_int_equal(host_qpn_alloc(vrb.host, 0, &handle->wq.qpn), 0);
	expect_refused();
	host_qpn_free(vrb.host, handle->wq.qpn);
	domain.has_inode = false;	/* no other process has a domain without an inode */
	expect_refused();
}

static void without_an_owner_calls_fail(void **state)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };

	assert_int_equal(vrb_remote_modify(handle, &attr, IBV_QP_STATE), EINVAL);
	assert_int_equal(vrb_remote_query(handle, &attr), EINVAL);
	assert_int_equal(handle->ibv.state, IBV_QPS_RESET);
}

static void ignores_events_of_other_handles(void **state)
{
	struct xrc_event e = { .type = IBV_EVENT_QP_FATAL };
	struct xrc_msg m = {
		.head = { .qpn = UNUSED_QPN, .slot = HOST_NO_SLOT, .body = sizeof(e) },
	};

	memcpy(m.body, &e, sizeof(e));
	vrb_remote_receive(&m);
	assert_true(list_empty(&ctx->events.events));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(opens_only_qps_of_other_processes, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(without_an_owner_calls_fail, set_up, tear_down),
		cmocka_unit_test_setup_teardown(ignores_events_of_other_handles, set_up,
						tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
