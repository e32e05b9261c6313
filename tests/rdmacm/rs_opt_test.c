/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Options of rsockets: which are kept, doubled, inherited or refused; keepalive; defaults from
 * files.
 */
#include <fcntl.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rspair.h"

static int get(int fd, int level, int name)
{
	socklen_t len = sizeof(int);
	int v = -1;

	CHECK_EQ(rgetsockopt(fd, level, name, &v, &len), 0);
	CHECK_EQ(len, sizeof(int));
	return v;
}

static void set(int fd, int level, int name, int v)
{
	CHECK_EQ(rsetsockopt(fd, level, name, &v, sizeof(v)), 0);
}

static void kept(void)
{
	static const struct {
		int level, name, set, get;
	} row[] = {
		{ SOL_SOCKET, SO_REUSEADDR, 1, 1 },    { SOL_SOCKET, SO_RCVBUF, 50000, 100000 },
		{ SOL_SOCKET, SO_SNDBUF, 1, 4096 },    { SOL_SOCKET, SO_OOBINLINE, 1, 1 },
		{ SOL_SOCKET, SO_KEEPALIVE, 1, 1 },    { IPPROTO_TCP, TCP_NODELAY, 1, 1 },
		{ IPPROTO_TCP, TCP_KEEPIDLE, 33, 33 }, { IPPROTO_TCP, TCP_KEEPCNT, 3, 3 },
		{ IPPROTO_TCP, TCP_KEEPINTVL, 4, 4 },  { IPPROTO_IP, IP_TOS, 0x20, 0x20 },
		{ SOL_RDMA, RDMA_SQSIZE, 1, 16 },      { SOL_RDMA, RDMA_RQSIZE, 100, 100 },
		{ SOL_RDMA, RDMA_INLINE, 16, 16 },     { SOL_RDMA, RDMA_IOMAPSIZE, 300, 256 },
	};
	int fd = rsocket(AF_INET, SOCK_STREAM, 0), zero = 0;

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		set(fd, row[i].level, row[i].name, row[i].set);
		CHECK_EQ(get(fd, row[i].level, row[i].name), row[i].get);
	}
	CHECK_EQ(get(fd, SOL_SOCKET, SO_TYPE), SOCK_STREAM);
	CHECK_EQ(get(fd, SOL_SOCKET, SO_ERROR), 0);
	CHECK_EQ(get(fd, SOL_SOCKET, SO_BROADCAST), 0);
	CHECK_FAILS(rsetsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &zero, sizeof(zero)), EINVAL);
	CHECK_FAILS(rsetsockopt(fd, SOL_SOCKET, SO_DEBUG, &zero, sizeof(zero)), ENOTSUP);
	CHECK_FAILS(rsetsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &zero, 1), EINVAL);
	CHECK_FAILS(rfcntl(fd, F_GETOWN), ENOTSUP);
	CHECK_EQ(rfcntl(fd, F_SETFD, FD_CLOEXEC), 0);
	CHECK_EQ(rfcntl(fd, F_GETFD), FD_CLOEXEC);
	CHECK_EQ(rclose(fd), 0);
}

/*
 * Those of a UDP socket go to the one that carries first datagrams, as a byte, too; but not what
 * would split them.
 */
static void of_datagrams(void)
{
	int fd = rsocket(AF_INET, SOCK_DGRAM, 0), size = 100, on = 1;
	unsigned char byte = 8;

	CHECK_EQ(rsetsockopt(fd, IPPROTO_IP, IP_TOS, &byte, sizeof(byte)), 0);
	CHECK_EQ(get(fd, IPPROTO_IP, IP_TOS), 8);
	CHECK_EQ(rsetsockopt(fd, IPPROTO_IP, IP_MULTICAST_TTL, &byte, sizeof(byte)), 0);
	CHECK_EQ(rsetsockopt(fd, SOL_SOCKET, SO_BROADCAST, &on, sizeof(on)), 0);
	CHECK_FAILS(rsetsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &size, sizeof(size)), ENOTSUP);
	CHECK_FAILS(rsetsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof(on)), ENOTSUP);
	CHECK_EQ(rclose(fd), 0);
}

static void of_a_connection(void)
{
	struct rspair p = rspair_make(LOOPBACK, 8);
	int v = 20;

	CHECK_EQ(get(p.fd[1], SOL_RDMA, RDMA_IOMAPSIZE), 8);
	CHECK(get(p.fd[0], IPPROTO_TCP, TCP_MAXSEG) >= 256);
	CHECK_FAILS(rsetsockopt(p.fd[0], SOL_RDMA, RDMA_SQSIZE, &v, sizeof(v)), EINVAL);
	/* The buffer size is fixed once the rsocket is connected. */
	set(p.fd[0], SOL_SOCKET, SO_RCVBUF, 1000);
	CHECK(get(p.fd[0], SOL_SOCKET, SO_RCVBUF) > 2000);
	rspair_close(&p);
}

static struct ibv_path_data path_of(int fd, socklen_t wanted)
{
	struct ibv_path_data path = { .flags = 0 };
	socklen_t len = sizeof(path);

	CHECK_EQ(rgetsockopt(fd, SOL_RDMA, RDMA_ROUTE, &path, &len), 0);
	CHECK_EQ(len, wanted);
	return path;
}

/* The path of a connection; before there is one, that which the program sets. */
static void route(void)
{
	struct rspair p = rspair_make(LOOPBACK, 0);
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);
	struct ibv_path_data path, kept;

	path_of(fd, 0);
	for (int i = 0; i < 2; i++) {
		path = path_of(p.fd[i], sizeof(path));
		CHECK_EQ(path.flags, IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY |
					     IBV_PATH_FLAG_BIDIRECTIONAL);
		CHECK_EQ(path.path.dgid.raw[12], 127);
		CHECK_MEM(&path.path.sgid, &path.path.dgid, 16);
		CHECK_EQ(path.path.pkey, htobe16(0xffff));
		CHECK_EQ(1 << ((path.path.mtu & 0x3f) + 7), get(p.fd[i], IPPROTO_TCP, TCP_MAXSEG));
	}
	CHECK_EQ(rsetsockopt(fd, SOL_RDMA, RDMA_ROUTE, &path, sizeof(path)), 0);
	kept = path_of(fd, sizeof(path));
	CHECK_MEM(&kept, &path, sizeof(path));
	CHECK_EQ(rclose(fd), 0);
	rspair_close(&p);
}

static struct tcp_info info(int fd)
{
	struct tcp_info info;
	socklen_t len = sizeof(info);

	CHECK_EQ(rgetsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len), 0);
	return info;
}

/* As on Linux, TCP_INFO of a listener tells its queue.  A connection counts from its answer on. */
static void of_a_listener(void)
{
	struct sockaddr_storage at;
	int listener = rspair_listen(LOOPBACK, &at), fd = rsocket(AF_INET, SOCK_STREAM, 0), child;

	CHECK_EQ(info(listener).tcpi_state, TCP_LISTEN);
	CHECK_EQ(info(listener).tcpi_unacked, 0);
	CHECK(info(listener).tcpi_sacked > 0);
	CHECK_EQ(rconnect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	CHECK_EQ(info(listener).tcpi_unacked, 1);
	child = raccept(listener, NULL, NULL);
	CHECK(child >= 0);
	CHECK_EQ(info(listener).tcpi_unacked, 0);
	CHECK_EQ(info(child).tcpi_unacked, 0);
	CHECK_EQ(info(child).tcpi_state, TCP_ESTABLISHED);
	CHECK_EQ(rclose(child), 0);
	CHECK_EQ(rclose(fd), 0);
	CHECK_EQ(rclose(listener), 0);
}

/* A receive that times out. */
static void timeouts(void)
{
	struct rspair p = rspair_make(LOOPBACK, 0);
	struct timeval t = { .tv_usec = 20000 };
	char c;

	CHECK_EQ(rsetsockopt(p.fd[0], SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)), 0);
	CHECK_FAILS(rrecv(p.fd[0], &c, 1, 0), EAGAIN);
	rspair_close(&p);
}

/* Keepalive probes are invisible to the peer's program. */
static void keepalive(void)
{
	struct rspair p = rspair_make(LOOPBACK, 0);
	char c;

	set(p.fd[0], SOL_SOCKET, SO_KEEPALIVE, 1);
	set(p.fd[0], IPPROTO_TCP, TCP_KEEPIDLE, 1);
	CHECK_EQ(rspair_poll(p.fd[1], POLLIN, 1500), 0);
	CHECK_EQ(rspair_poll(p.fd[0], POLLIN, 0), 0);
	CHECK_EQ(rsend(p.fd[0], "x", 1, 0), 1);
	CHECK_EQ(rrecv(p.fd[1], &c, 1, 0), 1);
	rspair_close(&p);
}

static void write_default(const char *folder, const char *name, const char *text)
{
	char path[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "w");
	CHECK(f);
	fputs(text, f);
	fclose(f);
}

static void remove_default(const char *folder, const char *name)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	CHECK_EQ(unlink(path), 0);
}

/* The defaults are read once, by the first call of the process. */
static void defaults(void)
{
	char folder[] = "/tmp/rs-opt-XXXXXX";
	int fd;

	CHECK(mkdtemp(folder));
	write_default(folder, "mem_default", "262144\n");
	write_default(folder, "sqsize_default", "70000");
	write_default(folder, "rqsize_default", "nonsense");
	write_default(folder, "inline_default", "0\n");
	setenv("VERBENA_RSOCKET_DIR", folder, 1);
	fd = rsocket(AF_INET, SOCK_STREAM, 0);
	CHECK_EQ(get(fd, SOL_SOCKET, SO_RCVBUF), 262144);
	CHECK_EQ(get(fd, SOL_SOCKET, SO_SNDBUF), 131072);
	CHECK_EQ(get(fd, SOL_RDMA, RDMA_SQSIZE), 0xfffe);
	CHECK_EQ(get(fd, SOL_RDMA, RDMA_RQSIZE), 384);
	CHECK_EQ(get(fd, SOL_RDMA, RDMA_INLINE), 0);
	CHECK_EQ(rclose(fd), 0);
	remove_default(folder, "mem_default");
	remove_default(folder, "sqsize_default");
	remove_default(folder, "rqsize_default");
	remove_default(folder, "inline_default");
	CHECK_EQ(rmdir(folder), 0);
}

int main(void)
{
	defaults();
	kept();
	of_datagrams();
	of_a_connection();
	route();
	of_a_listener();
	timeouts();
	keepalive();
	return 0;
}
