/* SPDX-License-Identifier: BSD-2-Clause */
/* See mad_side.h. */
#include "mad_side.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "fork_settled.h"
#include "util/be.h"

static void on_receive(void *arg, const struct net_path *path, const uint8_t mad[VRB_MAD_LEN],
		       uint64_t now)
{
	struct side *s = arg;
	struct arrived a = { .path = *path };

	memcpy(a.mad, mad, sizeof(a.mad));
	CHECK_EQ(send(s->sock[1], &a, sizeof(a), 0), sizeof(a));
}

static void on_timeout(void *arg, uint64_t now)
{
	struct side *s = arg;
	struct arrived a = { .mad = { 0 } };

	CHECK_EQ(send(s->sock[1], &a, sizeof(a), 0), sizeof(a));
}

const struct vrb_mad_ops side_ops = { on_receive, on_timeout };

void side_open(struct side *s)
{
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, s->sock) == 0);
	CHECK_EQ(vrb_mad_open(&side_ops, s, &s->m), 0);
}

void side_close(struct side *s)
{
	vrb_mad_close(s->m);
	close(s->sock[0]);
	close(s->sock[1]);
}

struct arrived next_mad(struct side *s)
{
	struct arrived a;

	CHECK_EQ(recv(s->sock[0], &a, sizeof(a), 0), sizeof(a));
	return a;
}

bool mad_waiting(struct side *s)
{
	struct pollfd p = { s->sock[0], POLLIN, 0 };

	return poll(&p, 1, 0) > 0;
}

void build_mad(uint8_t *mad, uint8_t attribute, uint32_t local, uint32_t remote)
{
	memset(mad, 0, VRB_MAD_LEN);
	mad[0] = 1;
	mad[1] = 7;
	mad[2] = 2;
	mad[3] = 3;
	mad[ATTRIBUTE_AT] = attribute;
	put_be32(mad + DATA_AT, local);
	put_be32(mad + DATA_AT + 4, remote);
}

void build_request(uint8_t *mad, uint8_t attribute, uint32_t local, uint64_t service_id)
{
	uint8_t *ip = mad + (attribute == REQ ? IP_AT : SIDR_IP_AT);

	build_mad(mad, attribute, local, 0);
	put_be64(mad + SERVICE_AT, service_id);
	ip[1] = 4 << 4;
	memcpy(ip + 4 + 12, loopback.raw + 12, 4);
	memcpy(ip + 20 + 12, loopback.raw + 12, 4);
}

void send_mad(struct side *s, const uint8_t *mad)
{
	const struct net_path path = { .src = loopback, .dst = loopback };

	CHECK_EQ(vrb_mad_send(s->m, &path, mad), 0);
}

uint32_t id_at(const struct arrived *a, unsigned int at)
{
	return get_be32(a->mad + DATA_AT + at);
}

/* ---- other processes ---- */

void write_word(struct process *p, uint32_t word)
{
	CHECK_EQ(write(p->pipe[1], &word, sizeof(word)), sizeof(word));
}

uint32_t read_word(struct process *p)
{
	uint32_t word;

	CHECK_EQ(read(p->pipe[0], &word, sizeof(word)), sizeof(word));
	return word;
}

void start_process(struct process *p, void (*run)(struct process *p))
{
	CHECK(pipe(p->pipe) == 0);
	fflush(stdout);
	p->pid = fork_settled();
	CHECK(p->pid >= 0);
	if (!p->pid) {
		alarm(LIMIT_S);
		run(p);
		_exit(0);
	}
}

void stop_process(struct process *p)
{
	kill(p->pid, SIGKILL);
	waitpid(p->pid, NULL, 0);
	close(p->pipe[0]);
	close(p->pipe[1]);
}

/* Has a device open, and manages no connections. */
static void run_idle_process(struct process *p)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;

	CHECK(ctx);
	write_word(p, 1);
	for (;;)
		pause();
}

struct process idle_process[IDLE_PROCESSES];

void start_idle_processes(void)
{
	for (int i = 0; i < IDLE_PROCESSES; i++) {
		start_process(&idle_process[i], run_idle_process);
		read_word(&idle_process[i]);
	}
}

void stop_idle_processes(void)
{
	for (int i = 0; i < IDLE_PROCESSES; i++)
		stop_process(&idle_process[i]);
}

void expect_rej(struct side *s, uint32_t id)
{
	struct arrived a = next_mad(s);

	CHECK_EQ(a.mad[ATTRIBUTE_AT], REJ);
	CHECK_EQ(id_at(&a, 4), id);
	CHECK_EQ(get_be16(a.mad + REASON_AT), 8);
}

int run_mad_case(const struct mad_case *cases, size_t n, char **argv)
{
	alarm(LIMIT_S);
	setenv("VERBENA_DEVICES", "lo", 1);
	setenv("VERBENA_TRANSPORT", argv[1] && argv[2] ? argv[2] : "auto", 1);
	for (size_t i = 0; i < n; i++)
		if (argv[1] && !strcmp(cases[i].name, argv[1])) {
			cases[i].run();
			return 0;
		}
	return 1;
}
