/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A server that has no descriptor left refuses connections at once, also to clients on its host,
 * and takes them again when it has some. A call that fails for want of one changes nothing.
 */
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rspair.h"

enum { REFUSED = 1 };

static int client(const struct sockaddr_storage *at)
{
	int fd = rsocket(AF_INET, SOCK_STREAM, 0), err;

	CHECK(fd >= 0);
	err = rconnect(fd, (const struct sockaddr *)at, sizeof(struct sockaddr_in)) ? errno : 0;
	rclose(fd);
	return err;
}

static void run_clients(int from, int to)
{
	struct sockaddr_storage at;
	uint8_t go;

	CHECK_EQ(read(from, &at, sizeof(at)), sizeof(at));
	CHECK_EQ(client(&at), ECONNREFUSED);
	CHECK_EQ(write(to, &(uint8_t){ REFUSED }, 1), 1);
	CHECK_EQ(read(from, &go, 1), 1);
	CHECK_EQ(client(&at), 0);
	_exit(0);
}

/* So many descriptors are free below the limit. */
static void fill(struct rlimit *was, unsigned int but)
{
	struct rlimit limit;
	int next = fcntl(0, F_DUPFD, 0);

	CHECK(next >= 0);
	close(next);
	CHECK_EQ(getrlimit(RLIMIT_NOFILE, was), 0);
	limit = (struct rlimit){ (rlim_t)next + but, was->rlim_max };
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static int bind_any(int fd)
{
	const struct sockaddr_in any = { .sin_family = AF_INET };

	return rbind(fd, (const struct sockaddr *)&any, sizeof(any));
}

/* The first such call starts the library's service thread, which needs two descriptors. */
static int begin(int fd, int type)
{
	return type == SOCK_STREAM ? rlisten(fd, 1) : bind_any(fd);
}

static void begin_again(int type)
{
	bool stream = type == SOCK_STREAM;
	int fd = rsocket(AF_INET, type, 0);
	struct rlimit was;

	CHECK(fd >= 0);
	if (stream)
		CHECK_EQ(bind_any(fd), 0);
	/* A listener has one of its own. */
	fill(&was, stream);
	CHECK_FAILS(begin(fd, type), EMFILE);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &was), 0);
	CHECK_EQ(begin(fd, type), 0);
	CHECK_EQ(rclose(fd), 0);
}

static void in_child(void (*fn)(int type), int type)
{
	pid_t child = fork();
	int status;

	CHECK(child >= 0);
	if (!child) {
		fn(type);
		_exit(0);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
}

int main(void)
{
	int to_client[2], from_client[2], listener, fd, status;
	struct sockaddr_storage at;
	struct rlimit was;
	uint8_t refused;
	pid_t child;

	in_child(begin_again, SOCK_STREAM);
	in_child(begin_again, SOCK_DGRAM);
	CHECK_EQ(pipe(to_client), 0);
	CHECK_EQ(pipe(from_client), 0);
	child = fork();
	CHECK(child >= 0);
	if (!child)
		run_clients(to_client[0], from_client[1]);

	listener = rspair_listen(LOOPBACK, &at);
	fill(&was, 0);
	CHECK_EQ(write(to_client[1], &at, sizeof(at)), sizeof(at));
	CHECK_EQ(read(from_client[0], &refused, 1), 1);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &was), 0);
	CHECK_EQ(write(to_client[1], "", 1), 1);
	fd = raccept(listener, NULL, NULL);
	CHECK(fd >= 0);
	rclose(fd);
	rclose(listener);
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	return 0;
}
