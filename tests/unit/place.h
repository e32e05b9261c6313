/* SPDX-License-Identifier: BSD-2-Clause */
/* A private environment for a test: a run directory, a free UDP port, a seed that is printed. */
#ifndef VRB_TESTS_PLACE_H
#define VRB_TESTS_PLACE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Creates a directory of mode 0700 and writes its name into path. It is in memory if possible, like
 * a program's run directory: a test of files mapped from there must not wait for a busy disk.
 */
void place_make_dir(char path[64]);

/* Removes the directory and its contents. */
void place_remove_dir(const char *path);

/* Returns a UDP port that is free now for IPv4 and IPv6, and that no other test gets. */
uint16_t place_free_port(void);

/* Returns $VERBENA_SEED, or a seed from the clock; prints it. */
uint64_t place_seed(void);

/* Returns the next number of a sequence. */
uint64_t place_next(uint64_t *state);

/*
 * Moves this process into a network namespace of its own, with the privilege to change it, and
 * brings the loopback interface up. Returns false, with the reason printed, where that is not
 * permitted. Must be called in a forked child.
 */
bool place_enter_netns(void);

#endif
