/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hosts with a communication manager each, and programs that connect, accept, refuse, wait,
 * disconnect and die, on a network that loses, repeats and reorders.  Virtual time; one seed, one
 * world.
 *
 * Each conn is watched: its events come in an order that its side may see, and what the two ends of
 * a connection believe of it agrees.  What goes wrong ends the test with the seed.
 */
#ifndef SIM_CM_WORLD_H
#define SIM_CM_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "cm/cm.h"

struct cm_world_config {
	unsigned int hosts;
	unsigned int attempts;		/* connections that are tried */
	uint32_t loss, duplication;	/* ppm */
	uint64_t delay_min, delay_max;	/* of a MAD */
	/* percent: programs that reject, and that destroy instead of answering */
	unsigned int refuse, vanish;
	unsigned int dawdle;		/* percent: programs that take seconds to react */
	unsigned int datagrams;		/* percent of attempts by SIDR */
	unsigned int deaths;		/* hosts' processes that are killed, and begin anew */
	bool exit_mads;			/* the host speaks for those that died */
	unsigned int backlog;		/* requests beyond it are ignored; 0: none is */
};

struct cm_world_result {
	/* attempts of which the passive end heard that they are, or a datagram's answer */
	unsigned int connected;
	unsigned int refused, unreachable;
	uint64_t sent, retried, duplicates;
	/* ends that still believed in a connection whose other end had died, 2 s later */
	unsigned int orphans;
};

struct cm_world_config cm_world_random_config(uint64_t seed);

/* Runs until nothing is left to do. */
struct cm_world_result cm_world_run(uint64_t seed, const struct cm_world_config *cfg);

#endif
