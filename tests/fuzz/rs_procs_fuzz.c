/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rsockets between two processes, which the driver stops, or kills in the middle. An episode is one
 * connection of two new processes, or datagrams between them:
 *
 *	what is written before rclose(), rshutdown() or exit() is read, in order, once, and then
 *	the stream ends, however large the pieces, blocking or not;
 *	behind a peer that was killed the stream ends, perhaps early;
 *	a datagram is whole, comes from where it was sent, and none comes twice.
 *
 *	PROGRAM EPISODES TRANSPORT TRANSPORT	of each process: local, udp, auto
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fuzz/threads.h"
#include "rdmacm/rspair.h"
#include "util/atomic.h"

enum {
	MANY = 2000000,		/* bytes of a stream, at most */
	PIECE = 150000,		/* of a call: more than a ring */
	DATAGRAMS = 200,
	DATAGRAM = 1000,
	HEAD = 4,		/* of a datagram: its number */
	LIMIT_S = 60,
};

/* How a process ends what it has sent. */
enum ending { CLOSE, SHUTDOWN, EXIT, ENDINGS };

/* What the driver has chosen, and what both processes tell. */
struct episode {
	bool datagrams, killed, blocking[2];
	enum ending ending[2];
	uint64_t bytes[2], seed[2];
	struct sockaddr_storage at, of_client;
	uint32_t listens, ready;	/* ready: how many processes are connected */
	uint64_t got[2];
	bool sent_all;
};

static struct episode *episode;
static const char *transports[2];

static uint8_t byte_of(int side, uint64_t i)
{
	return (uint8_t)(i * 29 + (i >> 11) + (unsigned int)side * 101);
}

static uint64_t few_or_many(uint64_t most)
{
	return below(3) ? 1 + below(most) : 1 + below(200);
}

/* ---- Streams ---- */

static bool failed_as_killed(const char *what)
{
	EXPECT(episode->killed, "%s: %m", what);
	return true;
}

/* Returns false once the stream has ended. */
static bool receive_some(int fd, int side)
{
	static uint8_t buf[PIECE];
	ssize_t n = rrecv(fd, buf, few_or_many(PIECE), 0);

	if (n < 0 && errno == EAGAIN)
		return true;
	if (n < 0)
		return !failed_as_killed("rrecv");
	for (ssize_t i = 0; i < n; i++)
		EXPECT(buf[i] == byte_of(!side, episode->got[side] + (uint64_t)i),
		       "side %d: byte %" PRIu64 " of %" PRIu64, side,
		       episode->got[side] + (uint64_t)i, episode->bytes[!side]);
	episode->got[side] += (uint64_t)n;
	return n > 0;
}

static bool send_some(int fd, int side, uint64_t *sent)
{
	static uint8_t buf[PIECE];
	uint64_t len = few_or_many(PIECE);
	ssize_t n;

	if (len > episode->bytes[side] - *sent)
		len = episode->bytes[side] - *sent;
	for (uint64_t i = 0; i < len; i++)
		buf[i] = byte_of(side, *sent + i);
	n = rsend(fd, buf, len, 0);
	if (n < 0 && errno == EAGAIN)
		return true;
	if (n < 0)
		return !failed_as_killed("rsend");
	*sent += (uint64_t)n;
	return true;
}

/* The client sends first, the server receives first. */
static void run_blocking(int fd, int side)
{
	bool lives = true;
	uint64_t sent = 0;

	if (side)
		while (lives && episode->got[side] < episode->bytes[!side])
			lives = receive_some(fd, side);
	while (lives && sent < episode->bytes[side])
		lives = send_some(fd, side, &sent);
	if (!side)
		while (lives && episode->got[side] < episode->bytes[!side])
			lives = receive_some(fd, side);
}

static void run_both_ways(int fd, int side)
{
	uint64_t sent = 0;
	bool lives = true;

	while (lives && (sent < episode->bytes[side] ||
			 episode->got[side] < episode->bytes[!side])) {
		struct pollfd p = { .fd = fd, .events = POLLIN };

		if (sent < episode->bytes[side])
			p.events |= POLLOUT;
		EXPECT(rpoll(&p, 1, LIMIT_S * 1000 * (int)test_slower()) == 1,
		       "side %d: %" PRIu64 " of %" PRIu64 " sent, %" PRIu64 " of %" PRIu64
		       " received", side, sent, episode->bytes[side], episode->got[side],
		       episode->bytes[!side]);
		if (p.revents & POLLOUT)
			lives = send_some(fd, side, &sent);
		if (lives && p.revents & ~POLLOUT)
			lives = receive_some(fd, side);
	}
}

/* All has been sent and received, unless the peer was killed. */
static void end_stream(int fd, int side)
{
	EXPECT(episode->killed || episode->got[side] == episode->bytes[!side],
	       "side %d: the stream ended after %" PRIu64 " bytes of %" PRIu64, side,
	       episode->got[side], episode->bytes[!side]);
	if (episode->ending[side] == SHUTDOWN) {
		if (rshutdown(fd, SHUT_WR) && !episode->killed)
			EXPECT(false, "rshutdown: %m");
		while (receive_some(fd, side))
			if (!episode->blocking[side])
				usleep(100);
		EXPECT(episode->got[side] <= episode->bytes[!side], "more bytes than were sent");
	}
	if (episode->ending[side] != EXIT)
		EXPECT(rclose(fd) == 0 || episode->killed, "rclose: %m");
	exit(0);
}

static int connected(int side)
{
	int fd;

	if (side) {
		int listener = rspair_listen("127.0.0.1", &episode->at);

		store_release(&episode->listens, 1);
		fd = raccept(listener, NULL, NULL);
		EXPECT(fd >= 0, "raccept: %m");
		return fd;
	}
	while (!load_acquire(&episode->listens))
		usleep(100);
	fd = rsocket(AF_INET, SOCK_STREAM, 0);
	EXPECT(fd >= 0, "rsocket: %m");
	EXPECT(rconnect(fd, (struct sockaddr *)&episode->at, sizeof(struct sockaddr_in)) == 0,
	       "rconnect: %m");
	return fd;
}

static void run_stream(int side)
{
	int fd = connected(side);

	fetch_add_acq_rel(&episode->ready, 1);
	if (episode->blocking[side]) {
		run_blocking(fd, side);
	} else {
		EXPECT(rfcntl(fd, F_SETFL, O_NONBLOCK) == 0, "O_NONBLOCK: %m");
		run_both_ways(fd, side);
	}
	end_stream(fd, side);
}

/* ---- Datagrams, from the client to the server ---- */

static void send_datagrams(int fd)
{
	uint8_t buf[DATAGRAM];

	for (uint32_t n = 0; n < DATAGRAMS; n++) {
		size_t len = HEAD + below(DATAGRAM - HEAD);

		memcpy(buf, &n, HEAD);
		for (size_t i = HEAD; i < len; i++)
			buf[i] = byte_of((int)n, i);
		EXPECT(rsendto(fd, buf, len, 0, (struct sockaddr *)&episode->at,
			       sizeof(struct sockaddr_in)) == (ssize_t)len, "rsendto: %m");
		if (!n) {
			socklen_t size = sizeof(episode->of_client);

			rgetsockname(fd, (struct sockaddr *)&episode->of_client, &size);
		}
	}
	store_release(&episode->sent_all, true);
}

static void receive_datagrams(int fd)
{
	static bool seen[DATAGRAMS];
	bool over = false;

	while (1) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		struct sockaddr_in from;
		socklen_t size = sizeof(from);
		uint8_t buf[DATAGRAM];
		uint32_t n;
		ssize_t len;

		if (rpoll(&p, 1, 20) == 0) {
			if (over || episode->killed)
				return;
			over = load_acquire(&episode->sent_all);
			continue;
		}
		len = rrecvfrom(fd, buf, sizeof(buf), 0, (struct sockaddr *)&from, &size);
		if (len < 0 && errno == EAGAIN)
			continue;
		EXPECT(len >= HEAD, "rrecvfrom: %zd, %m", len);
		memcpy(&n, buf, HEAD);
		EXPECT(n < DATAGRAMS && !seen[n], "datagram %u", n);
		seen[n] = true;
		for (ssize_t i = HEAD; i < len; i++)
			EXPECT(buf[i] == byte_of((int)n, (uint64_t)i), "datagram %u of %zd", n,
			       len);
		episode->got[1] += (uint64_t)len;
	}
}

static void run_datagrams(int side)
{
	struct sockaddr_in any = { .sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(episode->at);
	int fd = rsocket(AF_INET, SOCK_DGRAM, 0);

	EXPECT(fd >= 0, "rsocket: %m");
	if (side) {
		EXPECT(rbind(fd, (struct sockaddr *)&any, sizeof(any)) == 0, "rbind: %m");
		EXPECT(rgetsockname(fd, (struct sockaddr *)&episode->at, &size) == 0, "name: %m");
		EXPECT(rfcntl(fd, F_SETFL, O_NONBLOCK) == 0, "O_NONBLOCK: %m");
		store_release(&episode->listens, 1);
		fetch_add_acq_rel(&episode->ready, 1);
		receive_datagrams(fd);
	} else {
		while (!load_acquire(&episode->listens))
			usleep(100);
		fetch_add_acq_rel(&episode->ready, 1);
		send_datagrams(fd);
	}
	EXPECT(rclose(fd) == 0, "rclose: %m");
	exit(0);
}

/* ---- The driver ---- */

static pid_t start(int side)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	EXPECT(pid >= 0, "fork: %m");
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(2 * LIMIT_S * test_slower());
	setenv("VERBENA_TRANSPORT", transports[side], 1);
	threads_random = episode->seed[side];
	if (episode->datagrams)
		run_datagrams(side);
	else
		run_stream(side);
	exit(1);
}

static void choose(void)
{
	memset(episode, 0, sizeof(*episode));
	episode->datagrams = below(5) == 0;
	/* Blocking ends take turns. */
	episode->blocking[0] = episode->blocking[1] = below(2);
	for (int i = 0; i < 2; i++) {
		episode->ending[i] = (enum ending)below(ENDINGS);
		episode->bytes[i] = below(4) ? few_or_many(MANY) : 0;
		episode->seed[i] = below(UINT64_MAX);
	}
	episode->killed = below(5) == 0;
}

static void interfere(const pid_t pid[2])
{
	pid_t to = pid[below(2)];

	while (episode->killed && load_acquire(&episode->ready) < 2)
		usleep(100);
	usleep((useconds_t)below(20000));
	if (episode->killed) {
		kill(to, SIGKILL);
		return;
	}
	for (uint64_t n = below(3); n; n--) {
		kill(to, SIGSTOP);
		usleep((useconds_t)below(30000));
		kill(to, SIGCONT);
		usleep((useconds_t)below(5000));
	}
}

static bool ended_well(int status)
{
	return status == 0 ||
	       (episode->killed && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void run_episode(unsigned long number)
{
	pid_t pid[2];
	int status;

	choose();
	for (int i = 1; i >= 0; i--)
		pid[i] = start(i);
	interfere(pid);
	for (int i = 0; i < 2; i++) {
		EXPECT(waitpid(pid[i], &status, 0) == pid[i], "waitpid: %m");
		EXPECT(ended_well(status),
		       "episode %lu, side %d: status 0x%x; blocking %d, endings %d %d, "
		       "killed %d, %" PRIu64 " of %" PRIu64 ", %" PRIu64 " of %" PRIu64,
		       number, i, status, episode->blocking[0], episode->ending[0],
		       episode->ending[1], episode->killed, episode->got[1], episode->bytes[0],
		       episode->got[0], episode->bytes[1]);
	}
}

int main(int argc, char **argv)
{
	unsigned long episodes = argc > 1 ? strtoul(argv[1], NULL, 10) : 20;
	uint64_t bytes = 0;

	for (int i = 0; i < 2; i++)
		transports[i] = argc > 2 + i ? argv[2 + i] : "local";
	threads_start();
	threads_begin(0);
	episode = mmap(NULL, sizeof(*episode), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	EXPECT(episode != MAP_FAILED, "mmap: %m");
	for (unsigned long i = 0; i < episodes; i++) {
		run_episode(i);
		bytes += episode->got[0] + episode->got[1];
	}
	printf("%lu episodes, %" PRIu64 " KiB\n", episodes, bytes >> 10);
	return 0;
}
