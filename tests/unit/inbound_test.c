/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A lane for which memory is missing when its sender announces it. The sender is a second member of
 * the host in this process; the test plays the progress thread.
 */
#include "core/progress/poll_loop.h"

#include "core_env.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include "core/local/peer_link.h"
#include "host/host.h"
#include "local/local.h"
#include "place.h"

static char dir[64];
static struct vrb_context *ctx;
static struct host *other;
static struct local *sender;

static int set_up(void **state)
{
	struct stat st;

	place_make_dir(dir);
	setenv("VERBENA_TRANSPORT", "local", 1);
	ctx = core_env_open();
	assert_int_equal(host_join(dir, &vrb.host), 0);
	assert_int_equal(vrb_local_start(), 0);
	assert_int_equal(vrb_progress_start(), 0);
	assert_int_equal(stat("/proc/self/ns/net", &st), 0);
	assert_int_equal(host_join(dir, &other), 0);
	return local_start(other, st.st_ino, &sender);
}

static int tear_down(void **state)
{
	local_stop(sender);
	host_leave(other);
	vrb_progress_stop();
	vrb_local_stop();
	host_leave(vrb.host);
	core_env_close(ctx);
	place_remove_dir(dir);
	return 0;
}

static void limit_files(rlim_t size)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = size == RLIM_INFINITY ? limit.rlim_max : size;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static struct lane *lane_from_sender(void)
{
	struct lane *lane;

	lock_acquire(&vrb.poll_lock);
	lane = local_lane_from(vrb.local, host_incarnation(other));
	lock_release(&vrb.poll_lock);
	return lane;
}

/* Packets in the lane would remain there, since its sender has rung the doorbell already. */
static void a_lane_without_memory_is_retried(void **state)
{
	struct local_peer *peer;

	assert_int_equal(vrb_progress_ops.rest(NULL), PROGRESS_SLEEP);
	assert_true(vrb_progress_ops.deadline(NULL) == VRB_NEVER);
	peer = local_peer_in(sender, host_slot(vrb.host));
	assert_non_null(peer);
	limit_files(4096);
	assert_int_equal(vrb_progress_ops.rest(NULL), PROGRESS_SLEEP);
	limit_files(RLIM_INFINITY);
	assert_null(lane_from_sender());
	assert_true(vrb_progress_ops.deadline(NULL) != VRB_NEVER);
	assert_int_equal(vrb_progress_ops.rest(NULL), PROGRESS_SLEEP);
	assert_non_null(lane_from_sender());
	assert_true(vrb_progress_ops.deadline(NULL) == VRB_NEVER);
	local_peer_put(sender, peer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_lane_without_memory_is_retried,
						set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
