/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A simulation of the communication manager: hosts whose programs connect, accept, reject, delay
 * their answers, disconnect and are killed, on a network that loses, duplicates and reorders MADs.
 * Time is virtual; a seed determines the whole run.
 *
 * Each connection is checked: its events must come in an order that its side allows, and the two
 * ends of an established connection must agree on its parameters. A violation ends the test and
 * prints the seed.
 */
#ifndef SIM_CM_WORLD_H
#define SIM_CM_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "cm/cm.h"

struct cm_world_config {
	unsigned int hosts;
	unsigned int attempts;          /* number of connection attempts */
	uint32_t loss, duplication;	/* ppm */
	uint64_t delay_min, delay_max;	/* of a MAD */
	/* percent of the programs that reject, and that destroy the conn instead of answering */
	unsigned int refuse, destroy;
	unsigned int slow;      /* percent of the reactions that take seconds */
	unsigned int datagrams; /* percent of the attempts that use SIDR */
	unsigned int kills;     /* processes that are killed and restarted */
	bool exit_mads;         /* the host sends the exit MADs of killed processes */
	unsigned int backlog;   /* further requests are ignored; 0: no limit */
};

struct cm_world_result {
	/* attempts whose passive end was established, or whose SIDR request was answered */
	unsigned int connected;
	unsigned int refused, unreachable;
	uint64_t sent, retried, duplicates;
	/* ends still connected 2 s after the other end's process was killed */
	unsigned int orphans;
};

struct cm_world_config cm_world_random_config(uint64_t seed);

/* Runs until no action and no timer is left. */
struct cm_world_result cm_world_run(uint64_t seed, const struct cm_world_config *cfg);

#endif
