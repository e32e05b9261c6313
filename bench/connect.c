/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections through rdma_cm on one host, set up and torn down one after another by each client.
 *
 *	connect rate CLIENTS SECONDS	prints connections per second, of all clients together
 *	connect latency COUNT PERCENT	prints the us within which PERCENT of rdma_connect() return
 *	connect tcp COUNT PERCENT	the same of connect(2)
 *
 *	connect flooded CLIENTS SECONDS	the rate, while FORGED requests come per second
 *	connect flooded-latency SECONDS PERCENT	the us of rdma_connect() meanwhile, then
 *	connect forged CLIENTS SECONDS	how many forged requests came per second
 *
 * Each has a server process; a connection has a queue pair at both ends.  The server refuses a
 * request that does not carry OURS.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>

#include "forge.h"

enum { DEPTH = 4, BACKLOG = 1024, TIMEOUT_MS = 2000, MOST_CLIENTS = 64, FORGED = 100000 };

static const char ours[] = { 'o', 'u', 'r', 's' };

static void check(int ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static struct sockaddr_in loopback(uint16_t port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port),
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

static void make_qp(struct rdma_cm_id *id, struct ibv_cq **cq)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC,
					 .cap = { DEPTH, DEPTH, 1, 1, 0 } };

	if (!*cq)
		*cq = ibv_create_cq(id->verbs, BACKLOG, NULL, NULL, 0);
	attr.send_cq = attr.recv_cq = *cq;
	check(*cq && !rdma_create_qp(id, NULL, &attr), "rdma_create_qp");
}

/* ---- Servers: tell their port, and go on until they are killed ---- */

static void answer(struct rdma_cm_id *id, bool genuine, struct ibv_cq **cq)
{
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };

	if (!genuine) {
		rdma_destroy_id(id);
		return;
	}
	make_qp(id, cq);
	if (!rdma_accept(id, &param))
		return;
	/* It has waited for so long that its sender has given up this try. */
	check(errno == EINVAL, "rdma_accept");
	rdma_destroy_qp(id);
	rdma_destroy_id(id);
}

static void serve_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, bool genuine,
			struct ibv_cq **cq)
{
	switch (event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		answer(id, genuine, cq);
		break;
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_DISCONNECTED:
		rdma_disconnect(id);
		rdma_destroy_qp(id);
		rdma_destroy_id(id);
		break;
	default:
		break;
	}
}

static void serve(int tell)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct sockaddr_in sa = loopback(0);
	struct rdma_cm_id *listener;
	struct rdma_cm_event *e;
	struct ibv_cq *cq = NULL;
	uint16_t port;

	check(ch && !rdma_create_id(ch, &listener, NULL, RDMA_PS_TCP), "rdma_create_id");
	check(!rdma_bind_addr(listener, (struct sockaddr *)&sa) && !rdma_listen(listener, BACKLOG),
	      "rdma_listen");
	port = ntohs(rdma_get_src_port(listener));
	check(write(tell, &port, sizeof(port)) == sizeof(port), "write");
	while (!rdma_get_cm_event(ch, &e)) {
		enum rdma_cm_event_type event = e->event;
		struct rdma_cm_id *id = e->id;
		bool genuine = event == RDMA_CM_EVENT_CONNECT_REQUEST &&
			       !memcmp(e->param.conn.private_data, ours, sizeof(ours));

		rdma_ack_cm_event(e);
		serve_event(id, event, genuine, &cq);
	}
}

static void serve_tcp(int tell)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), conn;
	struct sockaddr_in sa = loopback(0);
	socklen_t len = sizeof(sa);
	uint16_t port;

	check(!bind(fd, (struct sockaddr *)&sa, sizeof(sa)) && !listen(fd, BACKLOG) &&
	      !getsockname(fd, (struct sockaddr *)&sa, &len), "listen");
	port = ntohs(sa.sin_port);
	check(write(tell, &port, sizeof(port)) == sizeof(port), "write");
	while ((conn = accept(fd, NULL, NULL)) >= 0)
		close(conn);
}

static pid_t start(void (*server)(int tell), uint16_t *port)
{
	int pipes[2];
	pid_t pid;

	check(!pipe(pipes), "pipe");
	pid = fork();
	check(pid >= 0, "fork");
	if (!pid) {
		server(pipes[1]);
		_exit(1);
	}
	close(pipes[1]);
	check(read(pipes[0], port, sizeof(*port)) == sizeof(*port), "server");
	close(pipes[0]);
	return pid;
}

/* ---- Clients ---- */

/* One connection; returns the us that rdma_connect() took. */
static double connect_once(uint16_t port, struct ibv_cq **cq)
{
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7,
					 .private_data = ours, .private_data_len = sizeof(ours) };
	struct sockaddr_in sa = loopback(port);
	struct rdma_cm_id *id;
	double begin, took;

	check(!rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) &&
	      !rdma_resolve_addr(id, NULL, (struct sockaddr *)&sa, TIMEOUT_MS) &&
	      !rdma_resolve_route(id, TIMEOUT_MS), "rdma_resolve_route");
	make_qp(id, cq);
	begin = now_us();
	check(!rdma_connect(id, &param), "rdma_connect");
	took = now_us() - begin;
	rdma_disconnect(id);
	rdma_destroy_qp(id);
	rdma_destroy_id(id);
	return took;
}

static double connect_tcp_once(uint16_t port, struct ibv_cq **cq)
{
	struct sockaddr_in sa = loopback(port);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	double begin = now_us(), took;

	(void)cq;
	check(!connect(fd, (struct sockaddr *)&sa, sizeof(sa)), "connect");
	took = now_us() - begin;
	close(fd);
	return took;
}

/* ---- Forged requests ---- */

/* FORGED requests per second, as far as this machine can; counts them. */
static void flood(uint16_t port, unsigned int *forged)
{
	double begin = now_us();
	uint64_t seed = 1, sent = 0;

	forge_open((uint16_t)atoi(getenv("VERBENA_UDP_PORT")));
	for (int from = 0;; from = (from + 1) % FORGE_SOURCES) {
		unsigned int n = forge_burst(from, cm_service_id(RDMA_PS_TCP, port), &seed);

		sent += n;
		*forged += n;
		while ((double)sent > (now_us() - begin) * (FORGED / 1e6))
			usleep(100);
	}
}

static unsigned int *shared_counts(void)
{
	unsigned int *counts = mmap(NULL, (MOST_CLIENTS + 1) * sizeof(*counts),
				    PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	check(counts != MAP_FAILED, "mmap");
	return counts;
}

/* Returns its process, once it has begun. */
static pid_t start_flood(uint16_t port, unsigned int *forged)
{
	pid_t pid = fork();

	check(pid >= 0, "fork");
	if (!pid)
		flood(port, forged);
	while (!*(volatile unsigned int *)forged)
		usleep(1000);
	return pid;
}

static void end(pid_t pid)
{
	if (pid > 0)
		kill(pid, SIGKILL);
}

/* ---- What is measured ---- */

/* Prints what all clients make per second, or how many requests are forged meanwhile. */
static void rate(unsigned int clients, double seconds, bool flooded, bool show_forged)
{
	unsigned int *done = shared_counts(), *forged = &done[MOST_CLIENTS], sum = 0;
	uint16_t port;
	pid_t server = start(serve, &port), forger = flooded ? start_flood(port, forged) : 0;
	double begin = now_us();

	check(clients && clients <= MOST_CLIENTS, "clients");
	*forged = 0;
	for (unsigned int i = 0; i < clients; i++) {
		double end_us = now_us() + seconds * 1e6;
		struct ibv_cq *cq = NULL;

		if (fork())
			continue;
		for (; now_us() < end_us; done[i]++)
			connect_once(port, &cq);
		_exit(0);
	}
	for (unsigned int i = 0; i < clients; i++) {
		int status = 1;

		check(wait(&status) > 0 && !status, "a client failed");
	}
	/* The last connection may have taken long. */
	seconds = (now_us() - begin) / 1e6;
	for (unsigned int i = 0; i < clients; i++)
		sum += done[i];
	end(forger);
	end(server);
	printf("%.1f\n", (show_forged ? *forged : sum) / seconds);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void latency(void (*server)(int tell), double (*once)(uint16_t port, struct ibv_cq **cq),
		    unsigned int n, unsigned int percent)
{
	double *took = calloc(n, sizeof(*took));
	struct ibv_cq *cq = NULL;
	uint16_t port;
	pid_t pid = start(server, &port);

	check(took && n, "memory");
	for (unsigned int i = 0; i < n; i++)
		took[i] = once(port, &cq);
	qsort(took, n, sizeof(*took), by_value);
	end(pid);
	printf("%.1f\n", took[(size_t)(n - 1) * percent / 100]);
	free(took);
}

static void flooded_latency(double seconds, unsigned int percent)
{
	enum { MOST = 1 << 20 };
	double *took = calloc(MOST, sizeof(*took)), until;
	unsigned int n = 0, *forged = shared_counts();
	struct ibv_cq *cq = NULL;
	uint16_t port;
	pid_t server = start(serve, &port), forger = start_flood(port, forged);

	check(took != NULL, "memory");
	for (until = now_us() + seconds * 1e6; now_us() < until && n < MOST; n++)
		took[n] = connect_once(port, &cq);
	qsort(took, n, sizeof(*took), by_value);
	end(forger);
	end(server);
	printf("%.1f\n", took[(size_t)(n - 1) * percent / 100]);
	free(took);
}

int main(int argc, char **argv)
{
	unsigned int a = argc > 3 ? (unsigned int)atoi(argv[2]) : 0;
	unsigned int b = argc > 3 ? (unsigned int)atoi(argv[3]) : 0;

	if (argc == 4 && !strcmp(argv[1], "rate"))
		rate(a, b, false, false);
	else if (argc == 4 && !strcmp(argv[1], "flooded"))
		rate(a, b, true, false);
	else if (argc == 4 && !strcmp(argv[1], "forged"))
		rate(a, b, true, true);
	else if (argc == 4 && !strcmp(argv[1], "flooded-latency") && b <= 100)
		flooded_latency(a, b);
	else if (argc == 4 && !strcmp(argv[1], "latency") && b <= 100)
		latency(serve, connect_once, a, b);
	else if (argc == 4 && !strcmp(argv[1], "tcp") && b <= 100)
		latency(serve_tcp, connect_tcp_once, a, b);
	else
		return fprintf(stderr, "connect rate|flooded|forged CLIENTS SECONDS | "
				       "latency|tcp COUNT PERCENT | "
				       "flooded-latency SECONDS PERCENT\n"), 2;
	return 0;
}
