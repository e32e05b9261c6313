/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Compiled by mpi.py. Each rank has a sending and a receiving thread per rank, which wait for each
 * other at locks of MPI and UCX: a poller that holds one must not leave the CPU to them. Each
 * element is checked. Rank 0 prints "RANKS ranks, BAD bad".
 *
 *	mpi_threads TIMES
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	ELEMENTS = 25000,	/* 100 kB: many packets, where these are datagrams */
	RANKS_MAX = 8,
};

struct flow {
	pthread_t thread;
	int peer;
	long bad;
};

static int rank, ranks, times;

static unsigned int value(int from, int to, int turn, int i)
{
	return (unsigned int)from * 1000003u + (unsigned int)to * 10007u +
	       (unsigned int)turn * 101u + (unsigned int)i;
}

static void *send_all(void *arg)
{
	struct flow *f = arg;
	unsigned int *out = malloc(sizeof(*out) * ELEMENTS);

	for (int turn = 0; turn < times; turn++) {
		for (int i = 0; i < ELEMENTS; i++)
			out[i] = value(rank, f->peer, turn, i);
		MPI_Send(out, ELEMENTS, MPI_UNSIGNED, f->peer, 1, MPI_COMM_WORLD);
	}
	free(out);
	return NULL;
}

static void *receive_all(void *arg)
{
	struct flow *f = arg;
	unsigned int *in = malloc(sizeof(*in) * ELEMENTS);

	for (int turn = 0; turn < times; turn++) {
		MPI_Recv(in, ELEMENTS, MPI_UNSIGNED, f->peer, 1, MPI_COMM_WORLD,
			 MPI_STATUS_IGNORE);
		for (int i = 0; i < ELEMENTS; i++)
			f->bad += in[i] != value(f->peer, rank, turn, i);
	}
	free(in);
	return NULL;
}

int main(int argc, char **argv)
{
	struct flow out[RANKS_MAX] = { 0 }, in[RANKS_MAX] = { 0 };
	long bad = 0, all = 0;
	int provided;

	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	times = argc > 1 ? atoi(argv[1]) : 1;
	if (provided != MPI_THREAD_MULTIPLE || ranks > RANKS_MAX)
		MPI_Abort(MPI_COMM_WORLD, 1);
	for (int i = 0; i < ranks; i++) {
		out[i].peer = in[i].peer = i;
		pthread_create(&in[i].thread, NULL, receive_all, &in[i]);
		pthread_create(&out[i].thread, NULL, send_all, &out[i]);
	}
	for (int i = 0; i < ranks; i++) {
		pthread_join(out[i].thread, NULL);
		pthread_join(in[i].thread, NULL);
		bad += in[i].bad;
	}
	MPI_Reduce(&bad, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("%d ranks, %ld bad\n", ranks, all);
	MPI_Finalize();
	return 0;
}
