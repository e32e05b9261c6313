/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What mpi.py compiles with an MPI's own compiler: the traffic of the OSU micro-benchmarks
 * osu_mbw_mr (windows of messages between pairs), osu_multi_lat (pairs exchange one message at a
 * time) and osu_alltoall, with each element checked. Their sources are not in Debian.
 *
 *	mpi_patterns ITERATIONS		for short messages; a tenth of them for long ones
 *
 * Rank 0 prints "RANKS ranks, BAD bad".
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	WINDOW = 64,		/* as osu_mbw_mr has it */
	LONGEST = 1 << 20,
	LONG = 8192,		/* from here on, as in OSU, fewer iterations */
};

static int rank, ranks, iterations;
static unsigned char *out, *in;

static unsigned char value(int from, int round, int i)
{
	return (unsigned char)(from * 31 + round * 7 + i);
}

static void fill(unsigned char *at, int from, int round, int len)
{
	for (int i = 0; i < len; i++)
		at[i] = value(from, round, i);
}

static long wrong(const unsigned char *at, int from, int round, int len)
{
	long bad = 0;

	for (int i = 0; i < len; i++)
		bad += at[i] != value(from, round, i);
	return bad;
}

static int rounds(int len)
{
	int few = iterations / 10;

	return len < LONG ? iterations : few > 0 ? few : 1;
}

/* All messages of a window come from one buffer and go to one, as in osu_mbw_mr. */
static long windows(int len)
{
	int pairs = ranks / 2, sends = rank < pairs;
	int peer = sends ? rank + pairs : rank - pairs;
	MPI_Request request[WINDOW];
	long bad = 0;
	char ack = 0;

	for (int r = 0; r < rounds(len); r++) {
		if (sends)
			fill(out, rank, r, len);
		for (int i = 0; i < WINDOW; i++) {
			if (sends)
				MPI_Isend(out, len, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &request[i]);
			else
				MPI_Irecv(in, len, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &request[i]);
		}
		MPI_Waitall(WINDOW, request, MPI_STATUSES_IGNORE);
		if (sends) {
			MPI_Recv(&ack, 1, MPI_BYTE, peer, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		} else {
			bad += wrong(in, peer, r, len);
			MPI_Send(&ack, 1, MPI_BYTE, peer, 2, MPI_COMM_WORLD);
		}
	}
	return bad;
}

static long ping_pong(int len)
{
	int pairs = ranks / 2, first = rank < pairs;
	int peer = first ? rank + pairs : rank - pairs;
	long bad = 0;

	for (int r = 0; r < rounds(len); r++) {
		fill(out, rank, r, len);
		if (first)
			MPI_Send(out, len, MPI_BYTE, peer, 1, MPI_COMM_WORLD);
		MPI_Recv(in, len, MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (!first)
			MPI_Send(out, len, MPI_BYTE, peer, 1, MPI_COMM_WORLD);
		bad += wrong(in, peer, r, len);
	}
	return bad;
}

static long alltoall(int len)
{
	long bad = 0;

	for (int r = 0; r < rounds(len); r++) {
		for (int i = 0; i < ranks; i++)
			fill(out + (size_t)i * len, rank, r + i, len);
		MPI_Alltoall(out, len, MPI_BYTE, in, len, MPI_BYTE, MPI_COMM_WORLD);
		for (int i = 0; i < ranks; i++)
			bad += wrong(in + (size_t)i * len, i, r + rank, len);
	}
	return bad;
}

int main(int argc, char **argv)
{
	long bad = 0, all = 0;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	iterations = argc > 1 ? atoi(argv[1]) : 10;
	out = malloc((size_t)LONGEST * ranks);
	in = malloc((size_t)LONGEST * ranks);
	if (!out || !in || ranks % 2 != 0)
		MPI_Abort(MPI_COMM_WORLD, 1);
	for (int len = 1; len <= LONGEST; len *= 4)
		bad += windows(len) + ping_pong(len) + alltoall(len);
	MPI_Reduce(&bad, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	if (!rank)
		printf("%d ranks, %ld bad\n", ranks, all);
	free(out);
	free(in);
	MPI_Finalize();
	return 0;
}
