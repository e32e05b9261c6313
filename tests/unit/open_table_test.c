/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The process that owns an XRC receive QP: which processes may open it, and may then call and close
 * it.
 */
#include "core/xrc/open_table.h"

#include "core_env.h"

#include <errno.h>
#include <string.h>

#include "core/qp/qp.h"
#include "core/qp/qp_table.h"
#include "core/qp/xrcd.h"
#include "core/xrc/rpc.h"
#include "host/host.h"
#include "place.h"

enum { QPN = 0x123456 };

static const struct wq_ops no_ops;
static char dir[64];
static struct vrb_context *ctx;
static struct vrb_qp *qp;
static struct xrc_domain domain = { .has_inode = true, .key = { 1, 2, 3 } };
static struct xrc_msg m;
static unsigned int refused;	/* allocations */
static bool out_of_memory;

void *__real_malloc(size_t size);
__attribute__((visibility("default"))) void *__wrap_malloc(size_t size);

/* Replaces the library's malloc(); see meson.build. */
void *__wrap_malloc(size_t size)
{
	if (!out_of_memory)
		return __real_malloc(size);
	out_of_memory = ++refused < 10;
	return NULL;
}

static int set_up(void **state)
{
	struct host_peer self;

	place_make_dir(dir);
	ctx = core_env_open();
	assert_int_equal(host_join(dir, &vrb.host), 0);
	qp = calloc(1, sizeof(*qp));
	assert_non_null(qp);
	vrb_qp_init(qp, IBV_QPT_XRC_RECV, &no_ops);
	qp->config.ctx = ctx;
	qp->config.domain = &domain;
	qp->wq.qpn = QPN;
	assert_int_equal(vrb_qp_table_add(qp), 0);
	/* this process plays the other one */
	assert_true(host_peer(vrb.host, host_slot(vrb.host), &self));
	m = (struct xrc_msg){ .head = { .qpn = QPN, .slot = host_slot(vrb.host),
					.incarnation = self.incarnation } };
	memcpy(m.body, &domain.key, sizeof(domain.key));
	return 0;
}

static int tear_down(void **state)
{
	vrb_open_table_drop(qp);
	assert_true(list_empty(&qp->xrc.open_table));
	vrb_qp_table_remove(qp);
	vrb_qp_table_free();
	vrb_qp_fini(qp);
	free(qp);
	host_leave(vrb.host);
	vrb.host = NULL;
	core_env_close(ctx);
	place_remove_dir(dir);
	return 0;
}

static int open_it(void)
{
	uint32_t reply = UINT32_MAX;
	size_t len = 0;
	int err = vrb_open_table_on_open(&m, 0, &reply, &len);

	if (!err) {
		assert_int_equal(len, sizeof(reply));
		assert_int_equal(reply, IBV_QPS_RESET);
	}
	return err;
}

static int close_it(void)
{
	return vrb_open_table_on_close(&m, 0, NULL, NULL);
}

static void an_entry_lasts_from_open_to_close(void **state)
{
	assert_int_equal(close_it(), EINVAL);
	assert_int_equal(open_it(), 0);
	assert_int_equal(open_it(), 0);	/* through another handle: the same entry */
	assert_int_equal(close_it(), 0);
	assert_int_equal(close_it(), EINVAL);
}

static void refuses_other_qps(void **state)
{
	m.head.qpn = QPN + 1;
	assert_int_equal(open_it(), EINVAL);
	m.head.qpn = QPN;
	qp->wq.type = IBV_QPT_RC;
	assert_int_equal(open_it(), EINVAL);
	qp->wq.type = IBV_QPT_XRC_RECV;
	m.body[0] ^= 1;			/* another domain */
	assert_int_equal(open_it(), EINVAL);
	m.body[0] ^= 1;
	qp->xrc.migrating = VRB_HOME_LEAVES;
	assert_int_equal(open_it(), EAGAIN);
	qp->xrc.migrating = VRB_HOME_STAYS;
	m.head.incarnation++;		/* a process that no longer exists */
	assert_int_equal(open_it(), ESRCH);
}

static void only_opening_processes_call(void **state)
{
	struct ibv_qp_attr attr;
	size_t len = 0;

	assert_int_equal(vrb_open_table_on_query(&m, 0, &attr, &len), EINVAL);
	assert_int_equal(open_it(), 0);
	assert_int_equal(vrb_open_table_on_query(&m, 0, &attr, &len), 0);
	assert_int_equal(len, sizeof(attr));
	assert_int_equal(attr.qp_state, IBV_QPS_RESET);
	m.head.incarnation++;
	assert_int_equal(vrb_open_table_on_query(&m, 0, &attr, &len), EINVAL);
}

/* Regression: a context closed with objects left in it retried for ever. */
static void an_owner_without_memory_to_move_ends(void **state)
{
	assert_int_equal(open_it(), 0);
	refused = 0;
	out_of_memory = true;
	vrb_open_table_migrate_all(ctx);
	out_of_memory = false;
	assert_int_equal(refused, 1);
	assert_int_equal(close_it(), EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(an_entry_lasts_from_open_to_close, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(refuses_other_qps, set_up, tear_down),
		cmocka_unit_test_setup_teardown(only_opening_processes_call, set_up, tear_down),
		cmocka_unit_test_setup_teardown(an_owner_without_memory_to_move_ends,
						set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
