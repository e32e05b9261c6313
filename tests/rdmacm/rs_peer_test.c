/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stream rsockets between two processes, where bytes are written straight into the peer's memory
 * with the local transport: all ways to receive, several threads, mappings, and a peer that stops
 * or is killed in the middle of a transfer. Every case has two new processes.
 */
#include <dirent.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rspair.h"

enum {
	MANY = 6000000,      /* bytes of a stream */
	PIECE = 200000,      /* bytes per call, at most; a ring has 128 KiB */
	BEFORE_END = 500000, /* bytes after which a process is stopped or killed */
	ROUNDS = 5,
	PART = 50000,
	RECORD = 30000,
	RECORDS = 100, /* of each thread */
	PAUSE_MS = 100,
	EXIT_LIMIT_S = 5, /* an exit waits for sent data twice as long */
};

static uint8_t byte_at(size_t i)
{
	return (uint8_t)(i * 29 + (i >> 11));
}

static void sleep_ms(int ms)
{
	nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000L }, NULL);
}

/* ---- Two processes ---- */

typedef void (*part_of_case)(int fd);

static pid_t other; /* the server's process, in the client */
static const char *client_faults;

static pid_t start(void)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid)
		alarm(WORLD_LIMIT_S * test_slower());
	return pid;
}

static pid_t start_server(part_of_case run, int to)
{
	struct sockaddr_storage at;
	int listener, fd;
	pid_t pid = start();

	if (pid)
		return pid;
	listener = rspair_listen(LOOPBACK, &at);
	CHECK_EQ(rsetsockopt(listener, SOL_RDMA, RDMA_IOMAPSIZE, &(int){ 1 }, sizeof(int)), 0);
	CHECK_EQ(write(to, &at, sizeof(at)), sizeof(at));
	fd = raccept(listener, NULL, NULL);
	CHECK(fd >= 0);
	run(fd);
	rclose(fd);
	exit(0);
}

static pid_t start_client(part_of_case run, int from)
{
	struct sockaddr_storage at;
	int fd;
	pid_t pid = start();

	if (pid)
		return pid;
	if (client_faults)
		setenv("VERBENA_FAULTS", client_faults, 1);
	CHECK_EQ(read(from, &at, sizeof(at)), sizeof(at));
	fd = rsocket(AF_INET, SOCK_STREAM, 0);
	CHECK(fd >= 0);
	CHECK_EQ(rsetsockopt(fd, SOL_RDMA, RDMA_IOMAPSIZE, &(int){ 1 }, sizeof(int)), 0);
	CHECK_EQ(rconnect(fd, (struct sockaddr *)&at, sizeof(struct sockaddr_in)), 0);
	run(fd);
	rclose(fd);
	exit(0);
}

static void join(pid_t pid, int signal)
{
	int status;

	CHECK_EQ(waitpid(pid, &status, 0), pid);
	if (signal) {
		CHECK(WIFSIGNALED(status));
		CHECK_EQ(WTERMSIG(status), signal);
	} else {
		CHECK_EQ(status, 0);
	}
}

/* Returns the client's process. */
static pid_t start_both(part_of_case server, part_of_case client)
{
	int pipes[2];
	pid_t pid;

	CHECK_EQ(pipe(pipes), 0);
	other = start_server(server, pipes[1]);
	pid = start_client(client, pipes[0]);
	close(pipes[0]);
	close(pipes[1]);
	return pid;
}

/* The signals are those that the processes end by; 0: they exit. */
static void between(part_of_case server, int server_signal, part_of_case client, int client_signal)
{
	join(start_both(server, client), client_signal);
	join(other, server_signal);
}

/* ---- Bytes ---- */

/* Sends bytes in pieces of many sizes. Returns how many; fewer than `total` after an error. */
static size_t send_bytes(int fd, size_t total)
{
	static uint8_t out[PIECE];
	size_t at = 0, piece = 1;
	ssize_t n;

	for (; at < total; at += (size_t)n) {
		size_t ask = piece < total - at ? piece : total - at;

		for (size_t i = 0; i < ask; i++)
			out[i] = byte_at(at + i);
		n = rsend(fd, out, ask, 0);
		if (n <= 0)
			break;
		piece = piece * 3 % PIECE + 1;
	}
	return at;
}

static void check_bytes(const uint8_t *in, size_t at, ssize_t n)
{
	for (ssize_t i = 0; i < n; i++)
		CHECK_EQ(in[i], byte_at(at + (size_t)i));
}

/*
 * Receives until the end or an error, in turn with flags and without, and peeks now and then.
 * Returns the number of bytes; *last is the result of the last call.
 */
static size_t recv_bytes(int fd, ssize_t *last)
{
	static const int flags[] = { 0, MSG_WAITALL, MSG_DONTWAIT, MSG_PEEK };
	static uint8_t in[PIECE];
	size_t at = 0, ask = 1, calls = 0;

	for (;;) {
		int flag = flags[calls++ % 4];
		ssize_t n = rrecv(fd, in, ask, flag);

		*last = n;
		if (n < 0 && flag == MSG_DONTWAIT && errno == EAGAIN)
			continue;
		if (n <= 0)
			return at;
		check_bytes(in, at, n);
		if (flag == MSG_PEEK)
			continue;
		at += (size_t)n;
		ask = ask * 5 % PIECE + 1;
	}
}

static void recv_all(int fd)
{
	ssize_t last;

	CHECK_EQ(recv_bytes(fd, &last), MANY);
	CHECK_EQ(last, 0);
}

static void *send_thread(void *arg)
{
	int fd = *(int *)arg;

	CHECK_EQ(send_bytes(fd, MANY), MANY);
	CHECK_EQ(rshutdown(fd, SHUT_WR), 0);
	return NULL;
}

/* Both processes send and receive at once. */
static void exchange(int fd)
{
	pthread_t sender;

	CHECK_EQ(pthread_create(&sender, NULL, send_thread, &fd), 0);
	recv_all(fd);
	CHECK_EQ(pthread_join(sender, NULL), 0);
}

/* ---- Several threads ---- */

static struct {
	int fd;
	unsigned int started; /* atomic */
} crowd;

static void *send_records(void *arg)
{
	uint8_t out[RECORD];

	memset(out, (int)__atomic_add_fetch(&crowd.started, 1, __ATOMIC_RELAXED), sizeof(out));
	for (int i = 0; i < RECORDS; i++)
		CHECK_EQ(rsend(crowd.fd, out, sizeof(out), 0), sizeof(out));
	return NULL;
}

static void two_senders(int fd)
{
	pthread_t thread[2];

	crowd.fd = fd;
	for (int i = 0; i < 2; i++)
		CHECK_EQ(pthread_create(&thread[i], NULL, send_records, NULL), 0);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(pthread_join(thread[i], NULL), 0);
}

static unsigned int records[2]; /* atomic */

static void *recv_records(void *arg)
{
	uint8_t in[RECORD];

	while (rrecv(crowd.fd, in, sizeof(in), MSG_WAITALL) == sizeof(in)) {
		CHECK(in[0] == 1 || in[0] == 2);
		for (int i = 1; i < RECORD; i++)
			CHECK_EQ(in[i], in[0]);
		__atomic_add_fetch(&records[in[0] - 1], 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* What a thread sends in one call is together, and so is what another one receives. */
static void two_receivers(int fd)
{
	pthread_t thread[2];

	crowd.fd = fd;
	for (int i = 0; i < 2; i++)
		CHECK_EQ(pthread_create(&thread[i], NULL, recv_records, NULL), 0);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(pthread_join(thread[i], NULL), 0);
	CHECK_EQ(records[0], RECORDS);
	CHECK_EQ(records[1], RECORDS);
}

/* ---- Waiting ---- */

static void send_part(int fd)
{
	char c;

	CHECK_EQ(send_bytes(fd, PART), PART);
	CHECK_EQ(rrecv(fd, &c, 1, 0), 1);
}

/* MSG_WAITALL returns what came before the timeout. */
static void time_out(int fd)
{
	static uint8_t in[2 * PART];
	struct timeval soon = { .tv_usec = PAUSE_MS * 1000 };
	size_t at = 0;

	CHECK_EQ(rsetsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon)), 0);
	while (at < PART) {
		ssize_t n = rrecv(fd, in + at, sizeof(in) - at, MSG_WAITALL);

		CHECK(n > 0 || errno == EAGAIN);
		if (n > 0)
			at += (size_t)n;
	}
	check_bytes(in, 0, PART);
	CHECK_EQ(at, PART);
	CHECK_FAILS(rrecv(fd, in, 1, MSG_WAITALL), EAGAIN);
	CHECK_EQ(rsend(fd, "x", 1, 0), 1);
}

/* ---- Mappings ---- */

static uint8_t memory[PIECE];

static void map_memory(int fd)
{
	char c;

	CHECK_EQ(riomap(fd, memory, PIECE, PROT_WRITE, 0, 0), 0);
	for (int round = 1; round <= ROUNDS; round++) {
		CHECK_EQ(rsend(fd, "x", 1, 0), 1);
		CHECK_EQ(rrecv(fd, &c, 1, 0), 1);
		for (int i = 0; i < PIECE; i++)
			CHECK_EQ(memory[i], byte_at((size_t)(i + round)));
	}
}

static void write_memory(int fd)
{
	char c;

	for (int round = 1; round <= ROUNDS; round++) {
		CHECK_EQ(rrecv(fd, &c, 1, 0), 1);
		for (int i = 0; i < PIECE; i++)
			memory[i] = byte_at((size_t)(i + round));
		CHECK_EQ(riowrite(fd, memory, PIECE, 0, 0), PIECE);
		CHECK_EQ(rsend(fd, "x", 1, 0), 1);
	}
}

/* ---- Rings that a peer maps ---- */

/* A process that opens the file through /proc cannot make it shorter than what is mapped. */
static void cannot_truncate(int fd)
{
	char path[64], target[64];
	int rings = 0;

	for (int i = 0; i < fd + 64; i++) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", i);
		n = readlink(path, target, sizeof(target) - 1);
		if (n < 0)
			continue;
		target[n] = 0;
		if (!strstr(target, "verbena-rsocket"))
			continue;
		rings++;
		CHECK_FAILS(ftruncate(i, 0), EPERM);
	}
	CHECK(rings > 0);
	CHECK_EQ(send_bytes(fd, BEFORE_END), BEFORE_END);
}

static void recv_until_end(int fd)
{
	ssize_t last;

	CHECK_EQ(recv_bytes(fd, &last), BEFORE_END);
	CHECK_EQ(last, 0);
}

/* ---- A peer that stops or dies ---- */

static void *end_soon(void *arg)
{
	sleep_ms(*(int *)arg);
	kill(getpid(), SIGKILL);
	return NULL;
}

static int end_ms; /* differs from round to round */

static void be_killed_soon(void)
{
	pthread_t thread;

	CHECK_EQ(pthread_create(&thread, NULL, end_soon, &end_ms), 0);
}

/* In the middle of what it writes to the peer's mapping. */
static void write_memory_until_killed(int fd)
{
	char c;

	CHECK_EQ(rrecv(fd, &c, 1, 0), 1);
	be_killed_soon();
	for (;;)
		CHECK_EQ(riowrite(fd, memory, PIECE, 0, 0), PIECE);
}

static void map_for_killed(int fd)
{
	char c;

	CHECK_EQ(riomap(fd, memory, PIECE, PROT_WRITE, 0, 0), 0);
	CHECK_EQ(rsend(fd, "x", 1, 0), 1);
	CHECK(rrecv(fd, &c, 1, 0) <= 0);
	CHECK_EQ(riounmap(fd, memory, PIECE), 0);
}

/* The mapping goes while the peer writes to it. */
static void map_until_killed(int fd)
{
	char c;

	CHECK_EQ(riomap(fd, memory, PIECE, PROT_WRITE, 0, 0), 0);
	CHECK_EQ(rsend(fd, "x", 1, 0), 1);
	/* Until then that may wait for room or an ACK, and would be lost with the process. */
	CHECK_EQ(rrecv(fd, &c, 1, 0), 1);
	be_killed_soon();
	for (;;)
		pause();
}

static void write_memory_to_killed(int fd)
{
	char c;

	CHECK_EQ(rrecv(fd, &c, 1, 0), 1);
	CHECK_EQ(rsend(fd, "x", 1, 0), 1);
	while (riowrite(fd, memory, PIECE, 0, 0) == PIECE)
		;
	CHECK(rrecv(fd, &c, 1, 0) <= 0);
}

static void end_later(void)
{
	pthread_t thread;

	CHECK_EQ(pthread_create(&thread, NULL, end_soon, &end_ms), 0);
}

static void send_until_killed(int fd)
{
	end_later();
	send_bytes(fd, SIZE_MAX);
	pause();
}

static void recv_until_killed(int fd)
{
	ssize_t last;

	end_later();
	recv_bytes(fd, &last);
	pause();
}

/* What arrives of a sender that is killed is right up to its end, which comes soon. */
static void recv_from_killed(int fd)
{
	ssize_t last;

	recv_bytes(fd, &last);
	CHECK(last == 0 || errno == ECONNRESET || errno == EIO);
}

/* The same for a program that polls only, and could write until then. */
static void poll_killed(int fd)
{
	while (rspair_poll(fd, POLLIN | POLLOUT, WORLD_LIMIT_S * 1000) == POLLOUT)
		;
}

static void pause_until_killed(int fd)
{
	end_later();
	pause();
}

static void send_to_killed(int fd)
{
	CHECK(send_bytes(fd, SIZE_MAX) < SIZE_MAX);
	CHECK(errno == ECONNRESET || errno == EPIPE || errno == EIO);
}

static void *stop_other(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		sleep_ms(1 + 3 * i);
		CHECK_EQ(kill(other, SIGSTOP), 0);
		sleep_ms(PAUSE_MS);
		CHECK_EQ(kill(other, SIGCONT), 0);
	}
	return NULL;
}

/* The receiver is stopped and goes on; then nothing is lost. */
static void send_to_stopped(int fd)
{
	pthread_t thread;

	CHECK_EQ(pthread_create(&thread, NULL, stop_other, NULL), 0);
	CHECK_EQ(send_bytes(fd, MANY), MANY);
	CHECK_EQ(rshutdown(fd, SHUT_WR), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
}

static void recv_from_stopped(int fd)
{
	pthread_t thread;

	CHECK_EQ(pthread_create(&thread, NULL, stop_other, NULL), 0);
	recv_all(fd);
	CHECK_EQ(pthread_join(thread, NULL), 0);
}

static void send_all(int fd)
{
	send_thread(&fd);
}

/* Waits until the peer has no more use for this process. */
static void recv_all_and_wait(int fd)
{
	recv_all(fd);
	rshutdown(fd, SHUT_WR);
	sleep_ms(2 * ROUNDS * PAUSE_MS);
}

static void send_all_and_wait(int fd)
{
	send_all(fd);
	sleep_ms(2 * ROUNDS * PAUSE_MS);
}

/* ---- A peer that closes first ---- */

static int sent[2], gone[2], over[2]; /* pipes */
static _Thread_local unsigned int sleeps;

/* The library sleeps between two looks at what it waits for. */
__attribute__((visibility("default"))) int nanosleep(const struct timespec *time,
						     struct timespec *left)
{
	int err = clock_nanosleep(CLOCK_REALTIME, 0, time, left);

	sleeps++;
	errno = err;
	return err ? -1 : 0;
}

static void close_first(int fd)
{
	char c;

	CHECK_EQ(read(sent[0], &c, 1), 1);
	CHECK_EQ(rclose(fd), 0);
	CHECK_EQ(write(gone[1], "x", 1), 1);
	CHECK_EQ(read(over[0], &c, 1), 1);
}

/* What the peer did not get in time is not waited for. */
static void close_second(int fd)
{
	unsigned int before;
	char c;

	CHECK_EQ(rsend(fd, "x", 1, 0), 1);
	CHECK_EQ(write(sent[1], "x", 1), 1);
	CHECK_EQ(read(gone[0], &c, 1), 1);
	before = sleeps;
	CHECK_EQ(rclose(fd), 0);
	CHECK_EQ(sleeps, before);
	CHECK_EQ(write(over[1], "x", 1), 1);
}

static void close_in_turn(void)
{
	CHECK_EQ(pipe(sent), 0);
	CHECK_EQ(pipe(gone), 0);
	CHECK_EQ(pipe(over), 0);
	client_faults = "message tx opcode WRITE drop; packet tx opcode WRITE drop";
	between(close_first, 0, close_second, 0);
	client_faults = NULL;
}

/* ---- A process that exits ---- */

static void recv_part(int fd)
{
	ssize_t last;

	CHECK_EQ(recv_bytes(fd, &last), PART);
	CHECK_EQ(last, 0);
}

static void send_and_exit(int fd)
{
	CHECK_EQ(send_bytes(fd, PART), PART);
	exit(0);
}

static void shut_down_and_exit(int fd)
{
	CHECK_EQ(send_bytes(fd, PART), PART);
	CHECK_EQ(rshutdown(fd, SHUT_RDWR), 0);
	exit(0);
}

static void recv_any(int fd)
{
	ssize_t last;

	recv_bytes(fd, &last);
}

static void leave(int signal)
{
	exit(0);
}

/*
 * A signal's handler exits in the middle of a call. With the local transport a send that looks for
 * the file of the peer's memory raises the signal, under a lock that polls take.
 */
static void exit_within_send(int fd)
{
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_readlinkat, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { sizeof(f) / sizeof(f[0]), f };

	signal(SIGSYS, leave);
	alarm(EXIT_LIMIT_S * test_slower());
	CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	CHECK_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0), 0);
	CHECK_EQ(send_bytes(fd, MANY), MANY);
}

/* What it sent arrives, though some of it is lost at first. */
static void exit_without_close(void)
{
	client_faults = "message tx opcode WRITE every 3 drop; packet tx opcode WRITE every 3 drop";
	between(recv_part, 0, send_and_exit, 0);
	between(recv_part, 0, shut_down_and_exit, 0);
	client_faults = NULL;
	between(recv_any, 0, exit_within_send, 0);
	/* The end of the connection may be seen before the last completions. */
	for (int i = 0; i < 4 * ROUNDS; i++)
		between(recv_part, 0, shut_down_and_exit, 0);
}

/* A short connection whose RTU is lost ends before the passive side has seen it open. */
static void send_part_and_close(int fd)
{
	CHECK_EQ(send_bytes(fd, PART), PART);
}

static void ended_early(void)
{
	client_faults = "cm RTU drop";
	between(recv_part, 0, send_part_and_close, 0);
	between(recv_part, 0, send_and_exit, 0);
	client_faults = NULL;
}

/* ---- A stream whose end is lost ---- */

enum {
	IN_VAIN = 20,   /* bytes; each is a message */
	ARRIVE_MOST = 10,
};

static void check_reset(int fd, size_t most)
{
	int err = 0;
	socklen_t len = sizeof(err);
	size_t got = 0;
	ssize_t n;
	uint8_t c;

	while ((n = rrecv(fd, &c, 1, 0)) == 1)
		CHECK_EQ(c, byte_at(got++));
	CHECK_EQ(n, -1);
	CHECK_EQ(errno, ECONNRESET);
	CHECK(got <= most);
	CHECK(rspair_poll(fd, POLLIN, 0) & POLLERR);
	CHECK_EQ(rgetsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len), 0);
	CHECK_EQ(err, ECONNRESET);
	CHECK_FAILS(rsend(fd, &c, 1, 0), ECONNRESET);
}

/* What arrives of a stream is right, and the peer's end is not taken for the stream's. */
static void recv_until_reset(int fd)
{
	check_reset(fd, ARRIVE_MOST);
}

static void recv_until_failure(int fd)
{
	check_reset(fd, SIZE_MAX);
}

static int linger_s;

static void send_in_vain(int fd)
{
	struct linger linger = { .l_onoff = 1, .l_linger = linger_s };

	CHECK_EQ(rsetsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
	for (size_t i = 0; i < IN_VAIN; i++) {
		uint8_t c = byte_at(i);

		CHECK_EQ(rsend(fd, &c, 1, 0), 1);
	}
}

static void send_in_vain_and_exit(int fd)
{
	send_in_vain(fd);
	exit(0);
}

static void send_until_failure(int fd)
{
	uint8_t c;
	size_t i = 0;

	do
		c = byte_at(i++);
	while (rsend(fd, &c, 1, 0) == 1);
	CHECK_EQ(errno, EIO);
}

/* The peer goes on only when this process is gone. */
static void send_to_stopped_and_exit(int fd)
{
	struct linger linger = { .l_onoff = 1 };

	CHECK_EQ(rsetsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
	CHECK_EQ(kill(other, SIGSTOP), 0);
	CHECK_EQ(send_bytes(fd, PART), PART);
	exit(0);
}

/* If all arrives, it was the stream's end, though the sender did not know. */
static void recv_all_or_reset(int fd)
{
	ssize_t last;
	size_t got = recv_bytes(fd, &last);

	if (last) {
		CHECK_EQ(errno, ECONNRESET);
		CHECK(got < PART);
	} else {
		CHECK_EQ(got, PART);
	}
}

static void lost_ends(void)
{
	client_faults = "message tx opcode WRITE nth 6.. drop; packet tx opcode WRITE nth 6.. drop";
	for (linger_s = 0; linger_s < 2; linger_s++)
		between(recv_until_reset, 0, send_in_vain, 0);
	linger_s = 0;
	between(recv_until_reset, 0, send_in_vain_and_exit, 0);
	client_faults = "cm RTU drop; message tx opcode WRITE drop; packet tx opcode WRITE drop";
	between(recv_until_reset, 0, send_in_vain_and_exit, 0);
	client_faults = "completion tx nth 6 status RETRY_EXC_ERR";
	between(recv_until_failure, 0, send_until_failure, 0);
	client_faults = NULL;
	join(start_both(recv_all_or_reset, send_to_stopped_and_exit), 0);
	/* Only where it is stopped: a SIGCONT undoes the stop by which LeakSanitizer takes hold. */
	CHECK_EQ(kill(other, SIGCONT), 0);
	join(other, 0);
}

int main(void)
{
	between(exchange, 0, exchange, 0);
	between(two_receivers, 0, two_senders, 0);
	between(time_out, 0, send_part, 0);
	between(map_memory, 0, write_memory, 0);
	between(recv_until_end, 0, cannot_truncate, 0);
	between(recv_all_and_wait, 0, send_to_stopped, 0);
	between(send_all_and_wait, 0, recv_from_stopped, 0);
	for (int i = 0; i < ROUNDS; i++) {
		end_ms = 1 + 7 * i;
		between(recv_from_killed, 0, send_until_killed, SIGKILL);
		between(recv_until_killed, SIGKILL, send_to_killed, 0);
		between(map_for_killed, 0, write_memory_until_killed, SIGKILL);
		between(map_until_killed, SIGKILL, write_memory_to_killed, 0);
	}
	between(poll_killed, 0, pause_until_killed, SIGKILL);
	close_in_turn();
	exit_without_close();
	ended_early();
	lost_ends();
	return 0;
}
