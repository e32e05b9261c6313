/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the tests of host/ share: each has a run directory of its own, and joins as many hosts in it
 * as it likes.
 */
#ifndef TESTS_HOST_ENV_H
#define TESTS_HOST_ENV_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "host/host.h"

/* The run directory of the test that runs. */
extern char run_dir[64];

int make_run_dir(void **state);
int remove_run_dir(void **state);

#define IN_DIR(f) cmocka_unit_test_setup_teardown(f, make_run_dir, remove_run_dir)

struct host *join(void);

/* Is it one of those of the run directory, or has it gone elsewhere? */
bool is_here(const struct host *h);

/* A path in which no member is zero by chance. */
extern const struct net_path some_path;

#endif
