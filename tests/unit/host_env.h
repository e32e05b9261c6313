/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by the tests of host/: each test has a run directory of its own, in which it can join any
 * number of hosts.
 */
#ifndef TESTS_HOST_ENV_H
#define TESTS_HOST_ENV_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "host/host.h"

/* The run directory of the current test. */
extern char run_dir[64];

int make_run_dir(void **state);
int remove_run_dir(void **state);

#define IN_DIR(f) cmocka_unit_test_setup_teardown(f, make_run_dir, remove_run_dir)

struct host *join(void);

/* Returns whether the host is in the run directory and not in another one. */
bool is_here(const struct host *h);

/* A path in which no member is zero. */
extern const struct net_path some_path;

#endif
