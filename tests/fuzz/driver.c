/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs a fuzz target without a fuzzer: deterministic random inputs as an ordinary test, or files to
 * repeat a finding.
 *
 *	TARGET RUNS		RUNS random inputs, seed from VERBENA_SEED
 *	TARGET FILE...		each file once
 *
 * Inputs lie in memory of exactly their size, so that a sanitizer sees a byte too many.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "unit/random.h"

enum { MAX_INPUT = 6000 };

/* Mostly short ones: headers are where decisions are made. */
static size_t random_size(void)
{
	switch (random_below(8)) {
	case 0:
		return random_below(MAX_INPUT);
	case 1:
		return random_below(512);
	default:
		return random_below(160);
	}
}

static void run_random(unsigned long runs)
{
	random_start();
	for (unsigned long i = 0; i < runs; i++) {
		size_t size = random_size();
		uint8_t *data = malloc(size ? size : 1);

		random_bytes(data, size);
		LLVMFuzzerTestOneInput(data, size);
		free(data);
	}
	printf("%lu random inputs\n", runs);
}

static void run_file(const char *name)
{
	FILE *file = fopen(name, "rb");
	uint8_t *data = malloc(1 << 20);
	uint8_t *exact;
	size_t size;

	if (!file) {
		perror(name);
		exit(1);
	}
	size = fread(data, 1, 1 << 20, file);
	fclose(file);
	exact = malloc(size ? size : 1);
	memcpy(exact, data, size);
	free(data);
	LLVMFuzzerTestOneInput(exact, size);
	free(exact);
	printf("%s: %zu bytes\n", name, size);
}

int main(int argc, char **argv)
{
	char *end;
	unsigned long runs;

	if (argc < 2) {
		fprintf(stderr, "usage: %s RUNS | FILE...\n", argv[0]);
		return 2;
	}
	runs = strtoul(argv[1], &end, 10);
	if (*end == '\0') {
		run_random(runs);
		return 0;
	}
	for (int i = 1; i < argc; i++)
		run_file(argv[i]);
	return 0;
}
