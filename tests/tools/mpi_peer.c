/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Compiled by mpi.py with the compiler of each MPI: collectives of several sizes, each element
 * checked, then point-to-point messages around a ring.  Rank 0 prints "RANKS ranks, BAD bad".
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, ranks;

static unsigned int value(int from, int to, int i)
{
	return (unsigned int)from * 1000003u + (unsigned int)to * 10007u + (unsigned int)i;
}

static long alltoall(int n)
{
	unsigned int *out = malloc(sizeof(*out) * (size_t)(n * ranks));
	unsigned int *in = malloc(sizeof(*in) * (size_t)(n * ranks));
	long bad = 0;

	for (int i = 0; i < n * ranks; i++)
		out[i] = value(rank, i / n, i % n);
	MPI_Alltoall(out, n, MPI_UNSIGNED, in, n, MPI_UNSIGNED, MPI_COMM_WORLD);
	for (int i = 0; i < n * ranks; i++)
		bad += in[i] != value(i / n, rank, i % n);
	free(out);
	free(in);
	return bad;
}

static long allreduce(int n)
{
	long long *out = malloc(sizeof(*out) * (size_t)n), *in = malloc(sizeof(*in) * (size_t)n);
	long long total = (long long)ranks * (ranks - 1) / 2;
	long bad = 0;

	for (int i = 0; i < n; i++)
		out[i] = (long long)rank * (i + 1);
	MPI_Allreduce(out, in, n, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < n; i++)
		bad += in[i] != total * (i + 1);
	free(out);
	free(in);
	return bad;
}

static long ring(int n)
{
	int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
	unsigned int *out = malloc(sizeof(*out) * (size_t)n), *in = malloc(sizeof(*in) * (size_t)n);
	long bad = 0;

	for (int i = 0; i < n; i++)
		out[i] = value(rank, next, i);
	MPI_Sendrecv(out, n, MPI_UNSIGNED, next, n, in, n, MPI_UNSIGNED, previous, n,
		     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	for (int i = 0; i < n; i++)
		bad += in[i] != value(previous, rank, i);
	free(out);
	free(in);
	return bad;
}

int main(int argc, char **argv)
{
	static const int sizes[] = { 1, 7, 256, 4099, 65536, 262147 };
	long bad = 0, all = 0;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		bad += alltoall(sizes[i]) + allreduce(sizes[i]) + ring(sizes[i]);
	MPI_Reduce(&bad, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	if (!rank)
		printf("%d ranks, %ld bad\n", ranks, all);
	MPI_Finalize();
	return 0;
}
