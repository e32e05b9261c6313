/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Deregistration waits for the requests that use the region, and for no others, then for the locks
 * under which a copy may run. It checks each queue pair that has posted since the last
 * deregistration in its domain; queue pairs of other domains are not checked.
 */
#include "core/progress/drain.h"

#include "core_qp.h"

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/device/device.h"
#include "core/mem/key_table.h"
#include "core/mem/mr.h"
#include "core/progress/served_qps.h"
#include "place.h"
#include "run/clock.h"
#include "util/atomic.h"

enum {
	IDLE = 2000,
	BUSY = 20,
	REGIONS = 50,
	STOP_S = 60,
	MOMENTS = 20,	/* for a stop: as many readings of the clock from the start of the wait */
	LOOKS = 2,	/* for requests that name the region, and for copies that have begun */
};

/* A process that is stopped just before it reads the clock. */
static unsigned int reads_before_stop, stopped_s;

int clock_gettime(clockid_t id, struct timespec *t)
{
	int ret = (int)syscall(SYS_clock_gettime, id, t);

	if (reads_before_stop && !--reads_before_stop)
		stopped_s += STOP_S;
	t->tv_sec += stopped_s;
	return ret;
}

static const struct wq_ops no_ops;
static struct vrb_device dev;
static struct vrb_context *ctx;
static struct vrb_pd *pd, *other_pd;
static uint8_t memory[64];

static struct vrb_qp *new_qp(struct vrb_pd *of)
{
	struct vrb_qp *qp = core_qp_new(ctx, of, &no_ops);

	qp->wq.state = IBV_QPS_RTS;
	assert_int_equal(vrb_progress_add_qp(qp), 0);
	return qp;
}

static void destroy(struct vrb_qp *qp)
{
	vrb_progress_remove_qp(qp);
	core_qp_free(qp);
}

static void post(struct vrb_qp *qp, const struct ibv_sge *sge)
{
	lock_acquire(&qp->lock);
	core_qp_fill(qp, IBV_WR_RDMA_WRITE, sge);
	vrb_qp_note_posted(qp);
	lock_release(&qp->lock);
}

static void complete_all(struct vrb_qp *qp)
{
	lock_acquire(&qp->lock);
	qp->wq.sq.done = qp->wq.sq.next = qp->wq.sq.head;
	lock_release(&qp->lock);
}

/* Returns how many queue pairs this many deregistrations in `pd` check. */
static uint64_t checks_of(unsigned int regions)
{
	uint64_t before = vrb_drain_looks;

	while (regions--) {
		struct vrb_mr *m;

		assert_int_equal(vrb_mr_reg(pd, memory, sizeof(memory), (uintptr_t)memory, 0, &m),
				 0);
		assert_int_equal(vrb_mr_dereg(m, &vrb_mr_waits), 0);
	}
	return vrb_drain_looks - before;
}

static void idle_qps_cost_nothing(struct vrb_pd *of)
{
	static struct vrb_qp *qp[IDLE];

	for (int i = 0; i < IDLE; i++)
		qp[i] = new_qp(of);
	assert_int_equal(checks_of(REGIONS), 0);
	for (int i = 0; i < IDLE; i++)
		destroy(qp[i]);
}

static void idle_qps_of_this_domain(void **state)
{
	idle_qps_cost_nothing(pd);
}

static void idle_qps_of_another_domain(void **state)
{
	idle_qps_cost_nothing(other_pd);
}

static void qps_that_posted_are_checked_once(void **state)
{
	struct vrb_qp *qp[BUSY];

	for (int i = 0; i < BUSY; i++)
		qp[i] = new_qp(pd);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < BUSY; i++) {
			post(qp[i], NULL);
			post(qp[i], NULL);
			complete_all(qp[i]);
		}
		assert_int_equal(checks_of(1), BUSY);
		assert_int_equal(checks_of(REGIONS), 0);
	}
	post(qp[0], NULL);
	complete_all(qp[0]);
	for (int i = 0; i < BUSY; i++)
		destroy(qp[i]);
	assert_int_equal(checks_of(1), 0);
}

/* The request uses no region and never completes. */
static void check_busy_qp(struct vrb_pd *of, uint64_t checks)
{
	struct vrb_qp *qp = new_qp(of);

	post(qp, NULL);
	assert_int_equal(checks_of(REGIONS), checks);
	destroy(qp);
}

static void a_busy_qp_is_checked_each_time(void **state)
{
	check_busy_qp(pd, LOOKS * REGIONS);
}

static void busy_qps_of_another_domain_are_not_checked(void **state)
{
	check_busy_qp(other_pd, 0);
}

static void a_parent_domain_has_the_list_of_its_parent(void **state)
{
	struct ibv_parent_domain_init_attr attr = { .pd = &pd->ibv };
	struct vrb_pd *parent;

	assert_int_equal(vrb_pd_alloc_parent(ctx, &attr, &parent), 0);
	check_busy_qp(parent, LOOKS * REGIONS);
	assert_int_equal(vrb_pd_dealloc(parent), 0);
}

/* The response to a request, found by any poll. */
static struct {
	struct object_timer timer;
	struct vrb_qp *qp;
} answer;

static void response_arrives(struct object_timer *t, struct expiry *e)
{
	complete_all(answer.qp);
}

static void post_with_response(struct vrb_qp *qp, const struct ibv_sge *sge)
{
	answer.qp = qp;
	post(qp, sge);
	vrb_timer_set(&answer.timer, clock_now());
}

static bool is_done(const struct vrb_qp *qp)
{
	return qp->wq.sq.done == qp->wq.sq.head;
}

static void deregistration_polls_until_the_request_is_done(void **state)
{
	struct vrb_qp *qp = new_qp(pd);
	struct vrb_mr *mr;

	assert_int_equal(vrb_timer_add(&answer.timer, response_arrives), 0);
	assert_int_equal(vrb_mr_reg(pd, memory, sizeof(memory), (uintptr_t)memory, 0, &mr), 0);
	post_with_response(qp, &(struct ibv_sge){ (uintptr_t)memory, 1, mr->ibv.lkey });
	assert_int_equal(vrb_mr_dereg(mr, &vrb_mr_waits), 0);
	assert_true(is_done(qp));
	post_with_response(qp, NULL);
	vrb_drain_qp(qp);
	assert_true(is_done(qp));
	vrb_timer_remove(&answer.timer);
	destroy(qp);
}

/* What comes meanwhile is taken, whenever the process was stopped. */
static void a_stop_does_not_count_as_silence(void **state)
{
	struct vrb_qp *qp = new_qp(pd);

	assert_int_equal(vrb_timer_add(&answer.timer, response_arrives), 0);
	answer.qp = qp;
	for (unsigned int moment = 1; moment <= MOMENTS; moment++) {
		post(qp, NULL);
		vrb_timer_set(&answer.timer, clock_now() + STOP_S / 2 * VRB_SECOND);
		reads_before_stop = moment;
		vrb_drain_qp(qp);
		assert_true(is_done(qp));
	}
	vrb_timer_remove(&answer.timer);
	destroy(qp);
}

/* A thread that takes the locks of copies, and whether it has got all. */
static bool ended;	/* atomic */
static int dereg_error;

static void *dereg(void *mr)
{
	dereg_error = vrb_mr_dereg(mr, &vrb_mr_waits);
	store_release(&ended, true);
	return NULL;
}

/* A receive round may have found the key just before it died, and write. */
static void deregistration_waits_for_a_round(void **state)
{
	struct vrb_mr *mr;
	pthread_t thread;
	uint32_t lkey;

	store_relaxed(&ended, false);
	assert_int_equal(vrb_mr_reg(pd, memory, sizeof(memory), (uintptr_t)memory, 0, &mr), 0);
	lkey = mr->ibv.lkey;
	lock_acquire(&vrb.poll_lock);
	assert_int_equal(pthread_create(&thread, NULL, dereg, mr), 0);
	while (mr_entry_peek(lkey))
		sched_yield();
	assert_false(load_acquire(&ended));
	lock_release(&vrb.poll_lock);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(ended);
	assert_int_equal(dereg_error, 0);
}

static void *wait_for_copies(void *of)
{
	vrb_mr_waits.copies(of);
	store_release(&ended, true);
	return NULL;
}

/* So may a thread that posts, and read. */
static void deregistration_waits_for_a_post(void **state)
{
	struct vrb_qp *qp = new_qp(pd);
	pthread_t thread;

	store_relaxed(&ended, false);
	lock_acquire(&qp->lock);
	core_qp_fill(qp, IBV_WR_RDMA_WRITE, NULL);
	vrb_qp_note_posted(qp);
	assert_int_equal(pthread_create(&thread, NULL, wait_for_copies, pd), 0);
	while (lock_try(&vrb.poll_lock)) {
		lock_release(&vrb.poll_lock);
		sched_yield();
	}
	assert_false(load_acquire(&ended));
	lock_release(&qp->lock);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(ended);
	destroy(qp);
}

static char dir[64];

static int set_up(void **state)
{
	place_make_dir(dir);
	ctx = core_env_open();
	ctx->dev = &dev;
	assert_int_equal(host_join(dir, &vrb.host), 0);
	assert_int_equal(vrb_pd_alloc(ctx, &pd), 0);
	assert_int_equal(vrb_pd_alloc(ctx, &other_pd), 0);
	return 0;
}

static int tear_down(void **state)
{
	assert_int_equal(vrb_pd_dealloc(pd), 0);
	assert_int_equal(vrb_pd_dealloc(other_pd), 0);
	host_leave(vrb.host);
	core_env_close(ctx);
	place_remove_dir(dir);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(idle_qps_of_this_domain),
		cmocka_unit_test(idle_qps_of_another_domain),
		cmocka_unit_test(qps_that_posted_are_checked_once),
		cmocka_unit_test(a_busy_qp_is_checked_each_time),
		cmocka_unit_test(busy_qps_of_another_domain_are_not_checked),
		cmocka_unit_test(a_parent_domain_has_the_list_of_its_parent),
		cmocka_unit_test(deregistration_polls_until_the_request_is_done),
		cmocka_unit_test(a_stop_does_not_count_as_silence),
		cmocka_unit_test(deregistration_waits_for_a_round),
		cmocka_unit_test(deregistration_waits_for_a_post),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
