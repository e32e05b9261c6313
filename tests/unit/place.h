/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A place of its own for a test: a private run directory, a free UDP port, a seed that is printed.
 */
#ifndef VRB_TESTS_PLACE_H
#define VRB_TESTS_PLACE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Makes a directory of mode 0700 and writes its name into path.  In memory if possible, as a
 * program's run directory is: a test of what is mapped from there must not wait for a disk that
 * others keep busy.
 */
void place_make_dir(char path[64]);

/* Removes it and all that is in it. */
void place_remove_dir(const char *path);

/* A UDP port that is free now, for IPv4 and IPv6, and that no other test gets. */
uint16_t place_free_port(void);

/* $VERBENA_SEED or one of the clock; prints it. */
uint64_t place_seed(void);

/* The next number of a sequence. */
uint64_t place_next(uint64_t *state);

/*
 * Moves this process into a network namespace of its own, with the rights to change it; loopback is
 * brought up. False, with the reason printed, where that is not allowed.  To be called in a forked
 * child.
 */
bool place_enter_netns(void);

#endif
