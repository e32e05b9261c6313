/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * OFED's XRC calls over a device implemented by this program: the current calls that they make, and
 * the table of registrations.
 */
#define VERBENA_LEGACY_XRC

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <infiniband/verbs.h>

enum { CHILD_LIMIT_S = 20 };

static struct verbs_context box;
static struct ibv_context *ctx = &box.context;
static struct ibv_xrcd domains[2];
static struct ibv_srq the_srq;
static struct ibv_qp qps[4];
static int destroyed[4], next_qp, destroy_result;
static void (*while_destroying)(void), (*while_modifying)(void);
static struct ibv_xrcd_init_attr seen_xrcd;
static struct ibv_srq_init_attr_ex seen_srq;
static struct ibv_qp_open_attr seen_open;

static struct ibv_xrcd *open_xrcd(struct ibv_context *c, struct ibv_xrcd_init_attr *attr)
{
	seen_xrcd = *attr;
	return &domains[0];
}

static int close_xrcd(struct ibv_xrcd *xrcd)
{
	return xrcd == &domains[0] ? 0 : EINVAL;
}

static struct ibv_srq *create_srq_ex(struct ibv_context *c, struct ibv_srq_init_attr_ex *attr)
{
	seen_srq = *attr;
	attr->attr.max_wr = 64;
	the_srq.context = ctx;
	return &the_srq;
}

static int get_srq_num(struct ibv_srq *srq, uint32_t *num)
{
	*num = 4711;
	return 0;
}

static struct ibv_qp *new_qp(void)
{
	struct ibv_qp *qp = &qps[next_qp++];

	qp->qp_num = 100 + (uint32_t)(qp - qps);
	return qp;
}

static struct ibv_qp *create_qp_ex(struct ibv_context *c, struct ibv_qp_init_attr_ex *attr)
{
	assert_int_equal(attr->comp_mask, IBV_QP_INIT_ATTR_XRCD);
	assert_int_equal(attr->qp_type, IBV_QPT_XRC_RECV);
	assert_ptr_equal(attr->xrcd, &domains[0]);
	return new_qp();
}

static struct ibv_qp *open_qp(struct ibv_context *c, struct ibv_qp_open_attr *attr)
{
	struct ibv_qp *qp;

	seen_open = *attr;
	if (attr->qp_num != 999) {
		errno = EINVAL;
		return NULL;
	}
	qp = new_qp();
	qp->qp_num = 999;
	return qp;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	return NULL;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	return NULL;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	if (while_modifying)
		while_modifying();
	return mask == IBV_QP_STATE ? 0 : EINVAL;
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		 struct ibv_qp_init_attr *init)
{
	attr->dest_qp_num = qp->qp_num;
	return 0;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	if (while_destroying)
		while_destroying();
	if (!destroy_result)
		destroyed[qp - qps]++;
	return destroy_result;
}

static int reset(void **state)
{
	memset(&box, 0, sizeof(box));
	box.sz = sizeof(box);
	ctx->abi_compat = __VERBS_ABI_IS_EXTENDED;
	box.open_xrcd = open_xrcd;
	box.close_xrcd = close_xrcd;
	box.create_srq_ex = create_srq_ex;
	box.get_srq_num = get_srq_num;
	box.create_qp_ex = create_qp_ex;
	box.open_qp = open_qp;
	domains[0].context = domains[1].context = ctx;
	memset(destroyed, 0, sizeof(destroyed));
	next_qp = 0;
	destroy_result = 0;
	while_destroying = NULL;
	return 0;
}

static void domain_and_srq(void **state)
{
	struct ibv_xrc_domain *d = ibv_open_xrc_domain(ctx, 5, O_CREAT);
	struct ibv_srq_init_attr attr = { .srq_context = &box,
					  .attr = { .max_wr = 50, .max_sge = 2 } };
	struct ibv_pd pd = { .context = ctx };
	struct ibv_cq *cq = (struct ibv_cq *)(void *)&qps[3];
	struct ibv_srq *srq;

	assert_ptr_equal(d, &domains[0]);
	assert_int_equal(seen_xrcd.comp_mask, IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS);
	assert_int_equal(seen_xrcd.fd, 5);
	assert_int_equal(seen_xrcd.oflags, O_CREAT);

	srq = ibv_create_xrc_srq(&pd, d, cq, &attr);
	assert_ptr_equal(srq, &the_srq);
	assert_int_equal(seen_srq.srq_type, IBV_SRQT_XRC);
	assert_ptr_equal(seen_srq.srq_context, &box);
	assert_ptr_equal(seen_srq.xrcd, &domains[0]);
	assert_ptr_equal(seen_srq.cq, cq);
	assert_int_equal(seen_srq.attr.max_sge, 2);
	assert_int_equal(attr.attr.max_wr, 64);
	assert_int_equal(srq->xrc_srq_num, 4711);
	assert_ptr_equal(srq->xrc_domain, d);
	assert_ptr_equal(srq->xrc_cq, cq);
	assert_int_equal(ibv_close_xrc_domain(d), 0);
}

/*
 * The offsets of MLNX_OFED 4, at which programs of that time read the members. They follow a mutex
 * and a condition variable, which on x86-64 are 40 and 48 bytes long.
 */
static void old_offsets(void **state)
{
	const size_t longer = sizeof(pthread_mutex_t) + sizeof(pthread_cond_t) - 88;

	assert_int_equal(offsetof(struct ibv_srq, xrc_srq_num), 152 + longer);
	assert_int_equal(offsetof(struct ibv_srq, xrc_domain), 160 + longer);
	assert_int_equal(offsetof(struct ibv_srq, xrc_cq), 168 + longer);
	assert_int_equal(offsetof(struct ibv_qp_init_attr, xrc_domain), 64);
	assert_int_equal(offsetof(struct ibv_send_wr, xrc_remote_srq_num), 72);
	assert_int_equal(sizeof(struct ibv_send_wr), 128);
}

static void receive_qp(void **state)
{
	struct ibv_xrc_domain *d = (struct ibv_xrc_domain *)(void *)&domains[0];
	struct ibv_xrc_domain *other = (struct ibv_xrc_domain *)(void *)&domains[1];
	struct ibv_qp_init_attr init = { .xrc_domain = NULL };
	struct ibv_qp_attr attr = { .dest_qp_num = 0 };
	uint32_t qpn = 0;

	assert_int_equal(ibv_create_xrc_rcv_qp(NULL, &qpn), EINVAL);
	assert_int_equal(ibv_create_xrc_rcv_qp(&init, &qpn), EINVAL);
	init.xrc_domain = d;
	assert_int_equal(ibv_create_xrc_rcv_qp(&init, &qpn), 0);
	assert_int_equal(qpn, 100);

	assert_int_equal(ibv_modify_xrc_rcv_qp(d, qpn, &attr, IBV_QP_STATE), 0);
	assert_int_equal(ibv_modify_xrc_rcv_qp(other, qpn, &attr, IBV_QP_STATE), EINVAL);
	assert_int_equal(ibv_modify_xrc_rcv_qp(d, 101, &attr, IBV_QP_STATE), EINVAL);
	init.xrc_domain = NULL;
	assert_int_equal(ibv_query_xrc_rcv_qp(d, qpn, &attr, 0, &init), 0);
	assert_int_equal(attr.dest_qp_num, qpn);
	assert_ptr_equal(init.xrc_domain, d);

	/* The creator is registered already; an unregistered QP is destroyed. */
	assert_int_equal(ibv_reg_xrc_rcv_qp(d, qpn), 0);
	assert_int_equal(next_qp, 1);
	destroy_result = EBUSY;
	assert_int_equal(ibv_unreg_xrc_rcv_qp(d, qpn), EBUSY);
	destroy_result = 0;
	assert_int_equal(ibv_unreg_xrc_rcv_qp(d, qpn), 0);
	assert_int_equal(destroyed[0], 1);
	assert_int_equal(ibv_unreg_xrc_rcv_qp(d, qpn), EINVAL);
}

static void registration_by_another_process(void **state)
{
	struct ibv_xrc_domain *d = (struct ibv_xrc_domain *)(void *)&domains[0];

	assert_int_equal(ibv_reg_xrc_rcv_qp(d, 998), EINVAL);
	assert_int_equal(ibv_reg_xrc_rcv_qp(d, 999), 0);
	assert_int_equal(seen_open.qp_num, 999);
	assert_int_equal(seen_open.qp_type, IBV_QPT_XRC_RECV);
	assert_ptr_equal(seen_open.xrcd, &domains[0]);
	assert_int_equal(ibv_unreg_xrc_rcv_qp(d, 999), 0);
	assert_int_equal(destroyed[0], 1);
}

/* What a thread does that has an event of QP 100, for whose acknowledgement destruction waits. */
static void handle_event(void)
{
	struct ibv_xrc_domain *d = (struct ibv_xrc_domain *)(void *)&domains[0];
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_xrc_rcv_qp(d, 100, &attr, 0, &init), EINVAL);
	assert_int_equal(ibv_unreg_xrc_rcv_qp(d, 100), EINVAL);
	assert_int_equal(ibv_query_xrc_rcv_qp(d, 101, &attr, 0, &init), 0);
}

static void calls_during_a_destruction(void **state)
{
	struct ibv_xrc_domain *d = (struct ibv_xrc_domain *)(void *)&domains[0];
	struct ibv_qp_init_attr init = { .xrc_domain = d };
	uint32_t qpn[2];

	for (int i = 0; i < 2; i++)
		assert_int_equal(ibv_create_xrc_rcv_qp(&init, &qpn[i]), 0);
	while_destroying = handle_event;
	assert_int_equal(ibv_unreg_xrc_rcv_qp(d, qpn[0]), 0);
	while_destroying = NULL;
	assert_int_equal(ibv_unreg_xrc_rcv_qp(d, qpn[1]), 0);
}

static sem_t inside, may_leave;

/* In the thread that modifies QP 100: until the other one has forked. */
static void wait_inside(void)
{
	sem_post(&inside);
	while (sem_wait(&may_leave))
		;
}

static void *modify(void *domain)
{
	struct ibv_qp_attr attr = { .dest_qp_num = 0 };

	return (void *)(intptr_t)ibv_modify_xrc_rcv_qp(domain, 100, &attr, IBV_QP_STATE);
}

/* The parent's QPs are not the child's, and a call that another thread was in is over there. */
static void a_forked_child(void **state)
{
	struct ibv_xrc_domain *d = (struct ibv_xrc_domain *)(void *)&domains[0];
	struct ibv_qp_init_attr init = { .xrc_domain = d };
	pthread_t thread;
	uint32_t qpn;
	void *result;
	int status;
	pid_t child;

	assert_int_equal(ibv_create_xrc_rcv_qp(&init, &qpn), 0);
	sem_init(&inside, 0, 0);
	sem_init(&may_leave, 0, 0);
	while_modifying = wait_inside;
	assert_int_equal(pthread_create(&thread, NULL, modify, d), 0);
	while (sem_wait(&inside))
		;
	child = fork();
	if (!child) {
		alarm(CHILD_LIMIT_S);
		_exit(modify(d) == (void *)EINVAL ? 0 : 1);
	}
	sem_post(&may_leave);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_null(result);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	while_modifying = NULL;
	assert_int_equal(ibv_unreg_xrc_rcv_qp(d, qpn), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(domain_and_srq, reset),
		cmocka_unit_test_setup(old_offsets, reset),
		cmocka_unit_test_setup(receive_qp, reset),
		cmocka_unit_test_setup(registration_by_another_process, reset),
		cmocka_unit_test_setup(calls_during_a_destruction, reset),
		cmocka_unit_test_setup(a_forked_child, reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
