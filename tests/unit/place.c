/* SPDX-License-Identifier: BSD-2-Clause */
#include "place.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

void place_make_dir(char path[64])
{
	strcpy(path, "/dev/shm/verbena-test-XXXXXX");
	if (mkdtemp(path))
		return;
	strcpy(path, "/tmp/verbena-test-XXXXXX");
	if (!mkdtemp(path))
		abort();
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	return remove(path);
}

void place_remove_dir(const char *path)
{
	nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/*
 * As in tests/stock/harness.py: reserved by an abstract UNIX socket with the port in its name,
 * which stays open as long as the program.
 */
static bool reserve(uint16_t port)
{
	struct sockaddr_un token = { .sun_family = AF_UNIX };
	int n = snprintf(token.sun_path + 1, sizeof(token.sun_path) - 1, "verbena-test-port-%u",
			 port);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (bind(fd, (struct sockaddr *)&token,
		 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) == 0)
		return true;
	close(fd);
	return false;
}

static bool is_free(int family, uint16_t port)
{
	struct sockaddr_in6 any = { .sin6_family = (sa_family_t)family, .sin6_port = htons(port) };
	int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool ok;

	if (fd < 0)
		return true;
	ok = bind(fd, (struct sockaddr *)&any,
		  family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(any)) == 0;
	close(fd);
	return ok;
}

uint16_t place_free_port(void)
{
	uint64_t state = (uint64_t)getpid() << 20 ^ (uint64_t)time(NULL);

	for (;;) {
		uint16_t port = (uint16_t)(20000 + place_next(&state) % 12000);

		if (reserve(port) && is_free(AF_INET, port) && is_free(AF_INET6, port))
			return port;
	}
}

uint64_t place_seed(void)
{
	const char *s = getenv("VERBENA_SEED");
	struct timespec ts;
	uint64_t seed;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	seed = s ? strtoull(s, NULL, 0) : (uint64_t)ts.tv_nsec * 1000003 + (uint64_t)ts.tv_sec;
	printf("VERBENA_SEED=%llu\n", (unsigned long long)seed);
	return seed;
}

uint64_t place_next(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return *state >> 24;
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (write(fd, text, strlen(text)) < 0)
		printf("%s: %s\n", path, strerror(errno));
	close(fd);
}

bool place_enter_netns(void)
{
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	char map[32];
	uid_t uid = geteuid();
	int fd;

	if (unshare(CLONE_NEWNET) < 0) {
		if (unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0) {
			printf("no network namespace of our own: %s\n", strerror(errno));
			return false;
		}
		/* As root of it, or the rights would not survive an exec. */
		snprintf(map, sizeof(map), "0 %u 1", (unsigned int)uid);
		write_file("/proc/self/uid_map", map);
	}
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &lo) < 0) {
		printf("cannot bring up loopback: %s\n", strerror(errno));
		return false;
	}
	close(fd);
	return true;
}
