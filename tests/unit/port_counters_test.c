/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The counters of a device are the sum of those of its QPs, existing and destroyed, and of no other
 * device.
 */
#include "core/diag/port_counters.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/base/context.h"
#include "core/device/device.h"
#include "core/qp/qp.h"
#include "core/qp/qp_table.h"
#include "util/compiler.h"

static struct vrb_device devices[2];
static struct vrb_context contexts[2] = { { .dev = &devices[0] }, { .dev = &devices[1] } };

static struct vrb_qp *add_qp(unsigned int device, uint32_t qpn, uint64_t sent)
{
	struct vrb_qp *qp = calloc(1, sizeof(*qp));

	assert_non_null(qp);
	qp->config.ctx = &contexts[device];
	qp->wq.qpn = qpn;
	qp->roce.counters.sent_pkts = sent;
	qp->roce.counters.cnp_rcvd = 1;
	assert_int_equal(vrb_qp_table_add(qp), 0);
	return qp;
}

static void sums_the_qps_of_the_device(void **state)
{
	struct vrb_qp *qp[] = { add_qp(0, 0x11, 1), add_qp(0, 0x7ff011, 20), add_qp(1, 0x12, 300) };
	struct roce_counters sum;

	devices[0].retired.sent_pkts = 4000;
	vrb_device_counters(&devices[0], &sum);
	assert_int_equal(sum.sent_pkts, 4021);
	assert_int_equal(sum.cnp_rcvd, 2);
	assert_int_equal(sum.dropped_pkts, 0);
	vrb_device_counters(&devices[1], &sum);
	assert_int_equal(sum.sent_pkts, 300);
	for (size_t i = 0; i < ARRAY_SIZE(qp); i++) {
		vrb_qp_table_remove(qp[i]);
		free(qp[i]);
	}
	vrb_device_counters(&devices[0], &sum);
	assert_int_equal(sum.sent_pkts, 4000);
	vrb_qp_table_free();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sums_the_qps_of_the_device),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
