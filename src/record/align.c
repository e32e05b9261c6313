/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Clock alignment; see align.h.  Bounds of differences are edges of a graph, the closest ones its
 * shortest paths (Floyd and Warshall), and a negative cycle is a contradiction.
 */
#include "record/align.h"

void align_init(int64_t *most, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < n; j++)
			most[i * n + j] = i == j ? 0 : ALIGN_NONE;
}

static void bound(int64_t *most, int64_t value)
{
	if (value < *most)
		*most = value;
}

void align_message(int64_t *most, size_t n, size_t from, size_t to, uint64_t sent,
		   uint64_t received)
{
	bound(&most[from * n + to], (int64_t)(received - sent));
}

void align_same(int64_t *most, size_t n, size_t i, size_t j)
{
	bound(&most[i * n + j], 0);
	bound(&most[j * n + i], 0);
}

/* False: a cycle is negative, or a sum overflows 64 bits. */
static bool tighten(int64_t *most, size_t n)
{
	for (size_t k = 0; k < n; k++) {
		for (size_t i = 0; i < n; i++) {
			for (size_t j = 0; j < n; j++) {
				int64_t a = most[i * n + k], b = most[k * n + j], sum;

				if (a == ALIGN_NONE || b == ALIGN_NONE)
					continue;
				if (__builtin_add_overflow(a, b, &sum))
					return false;
				bound(&most[i * n + j], sum);
			}
			if (most[i * n + i] < 0)
				return false;
		}
	}
	return true;
}

/*
 * Where only one side of clock j is bounded, the fastest message took no time: the bound itself,
 * which agrees with all others.
 */
static bool close_side(int64_t *most, size_t n, size_t j)
{
	int64_t *there = &most[j], *back = &most[j * n], *open = back;

	if ((*there == ALIGN_NONE) == (*back == ALIGN_NONE))
		return true;
	if (*there == ALIGN_NONE) {
		open = there;
		there = back;
	}
	if (__builtin_sub_overflow(0, *there, open))
		return false;
	return tighten(most, n);
}

/* Rounded down, as all of them must be to stay within each other's bounds. */
static int64_t middle(int64_t a, int64_t b)
{
	return (a & b) + ((a ^ b) >> 1);
}

bool align_solve(int64_t *most, size_t n, struct align *out)
{
	if (!tighten(most, n))
		return false;
	for (size_t j = 0; j < n; j++) {
		int64_t back = most[j * n];

		out[j] = (struct align){ .least = INT64_MIN, .most = most[j] };
		if (back != ALIGN_NONE && __builtin_sub_overflow(0, back, &out[j].least))
			return false;
	}
	for (size_t j = 0; j < n; j++)
		if (!close_side(most, n, j))
			return false;
	/* Both ends of the intervals fulfil all bounds, so what lies in the middle does. */
	for (size_t j = 0; j < n; j++)
		if (most[j] != ALIGN_NONE)
			out[j].ahead = middle(-most[j * n], most[j]);
	return true;
}
