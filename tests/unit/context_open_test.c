/* SPDX-License-Identifier: BSD-2-Clause */
/* Contexts: opened, imported, closed with objects left in them, and inherited by fork. */
#include "core/process/context_open.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/device/device.h"
#include "core/mem/pd.h"
#include "fork_settled.h"
#include "left_out.h"
#include "place.h"

static char dir[64];
static struct vrb_device *dev;

static void fill(struct verbs_context *vctx)
{
}

static struct vrb_context *open_one(void)
{
	struct vrb_context *ctx;

	assert_int_equal(vrb_context_open(dev, fill, &ctx), 0);
	assert_int_equal(vrb_context_check(&ctx->vctx.context), 0);
	return ctx;
}

static void close_one(struct vrb_context *ctx)
{
	assert_int_equal(vrb_context_close(&ctx->vctx.context), 0);
}

static void each_context_has_its_own_descriptors(void **state)
{
	struct vrb_context *a = open_one(), *b = open_one();
	struct ibv_context *ca = &a->vctx.context, *cb = &b->vctx.context;
	int fd = ca->cmd_fd;

	assert_ptr_equal(ca->device, &dev->ibv);
	assert_int_not_equal(ca->cmd_fd, cb->cmd_fd);
	assert_int_not_equal(ca->async_fd, cb->async_fd);
	close_one(a);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	assert_int_equal(vrb_context_check(cb), 0);
	close_one(b);
	assert_int_equal(vrb_context_close(NULL), EINVAL);
}

static void a_duplicate_descriptor_imports_the_context(void **state)
{
	struct vrb_context *ctx = open_one(), *imported;
	int foreign = open("/dev/null", O_RDONLY), fd = dup(ctx->vctx.context.cmd_fd);

	assert_int_equal(vrb_context_import(foreign, fill, &imported), ENODEV);
	assert_int_equal(vrb_context_import(-1, fill, &imported), ENODEV);
	assert_int_equal(vrb_context_import(fd, fill, &imported), 0);
	assert_ptr_equal(imported->dev, dev);
	assert_int_equal(imported->vctx.context.cmd_fd, fd);
	close_one(ctx);
	assert_int_equal(vrb_context_check(&imported->vctx.context), 0);
	close_one(imported);
	close(foreign);
}

/* The memory of the context remains, since the objects point to it. */
static void a_closed_context_with_objects_is_dead(void **state)
{
	static struct vrb_context *ctx;	/* static: known to leak checkers */
	struct vrb_pd *pd;

	ctx = open_one();
	assert_int_equal(vrb_pd_alloc(ctx, &pd), 0);
	close_one(ctx);
	assert_int_equal(vrb_context_check(&ctx->vctx.context), ENODEV);
	assert_int_equal(vrb_context_close(&ctx->vctx.context), ENODEV);
}

/* Runs in the child. Returns the number of the failed check, or 0. */
static int use_inherited(struct vrb_context *ctx)
{
	struct ibv_context *c = &ctx->vctx.context, *own = c, *again = c;
	int cmd_fd = c->cmd_fd;

	if (vrb_context_check(c) != ENODEV)
		return 1;
	if (vrb_context_enter(&own) || own == c || vrb_context_check(own))
		return 2;
	if (own->device != c->device || c->cmd_fd == cmd_fd || c->cmd_fd != own->cmd_fd)
		return 3;
	if (vrb_context_enter(&again) || again != own)
		return 4;
	if (vrb_context_close(c) || vrb_context_close(c) != ENODEV)
		return 5;
	return vrb_context_enter(&c) == ENODEV ? 0 : 6;
}

static void a_child_gets_its_own_context(void **state)
{
	struct vrb_context *ctx;
	int status;
	pid_t pid;

#if defined(__SANITIZE_THREAD__)
	LEAVE_OUT("ThreadSanitizer does not support fork with several threads");
#endif
	ctx = open_one();
	pid = fork_settled();
	if (!pid)
		_exit(use_inherited(ctx));
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(vrb_context_check(&ctx->vctx.context), 0);
	close_one(ctx);
}

static int set_up(void **state)
{
	struct vrb_device **list;
	char port[8];
	int n = 0;

	place_make_dir(dir);
	snprintf(port, sizeof(port), "%u", place_free_port());
	setenv("VERBENA_DIR", dir, 1);
	setenv("VERBENA_UDP_PORT", port, 1);
	setenv("VERBENA_LOG", "off", 0);
	list = vrb_device_list(&n);
	if (!list || !n)
		return -1;
	dev = list[n - 1];
	while (n-- > 1)
		vrb_device_put(list[n - 1]);
	free(list);
	return 0;
}

static int tear_down(void **state)
{
	vrb_device_put(dev);
	place_remove_dir(dir);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_context_has_its_own_descriptors),
		cmocka_unit_test(a_duplicate_descriptor_imports_the_context),
		cmocka_unit_test(a_closed_context_with_objects_is_dead),
		cmocka_unit_test(a_child_gets_its_own_context),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
