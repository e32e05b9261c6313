/* SPDX-License-Identifier: BSD-2-Clause */
/* See mapped.h. */
#include "mapped.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND,
};

uint8_t *mapped_file(int fd)
{
	uint8_t *mem;

	CHECK(fd >= 0 && ftruncate(fd, MAPPED_SIZE) == 0);
	mem = mmap(NULL, MAPPED_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(mem != MAP_FAILED);
	return mem;
}

static int create_shm(void)
{
	char name[64];
	int fd;

	snprintf(name, sizeof(name), "/%s-%d", MAPPED_NAME, (int)getpid());
	fd = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
	return fd;
}

void mapped_unlink(void)
{
	char name[64];

	snprintf(name, sizeof(name), "/%s-%d", MAPPED_NAME, (int)getpid());
	CHECK(shm_unlink(name) == 0);
}

static void create_dm(struct rc *rc, struct mapped *t)
{
	struct ibv_alloc_dm_attr attr = { .length = MAPPED_SIZE };

	t->dm = ibv_alloc_dm(rc->ctx, &attr);
	CHECK(t->dm);
	t->mr = ibv_reg_dm_mr(rc->pd, t->dm, 0, MAPPED_SIZE, ACCESS | IBV_ACCESS_ZERO_BASED);
	CHECK(t->mr);
	t->rkey = t->mr->rkey;
}

void mapped_bind_window(struct rc *rc, struct mapped *t)
{
	struct ibv_mw_bind bind = {
		.bind_info = {
			.mr = t->mr,
			.addr = (uintptr_t)t->mem + 8,
			.length = MAPPED_SIZE - 8,
			.mw_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
					   IBV_ACCESS_REMOTE_ATOMIC,
		},
	};

	t->mw = ibv_alloc_mw(rc->pd, IBV_MW_TYPE_1);
	CHECK(t->mw);
	CHECK(ibv_bind_mw(rc->qp, t->mw, &bind) == 0);
	CHECK_EQ(rc_wait(rc).status, IBV_WC_SUCCESS);
	t->rkey = t->mw->rkey;
}

void mapped_create(struct rc *rc, struct mapped *t, const char *kind)
{
	*t = (struct mapped){ .fd = -1 };
	if (strcmp(kind, "DM") == 0) {
		create_dm(rc, t);
		return;
	}
	if (strcmp(kind, "SHM") == 0) {
		int fd = create_shm();

		t->mem = mapped_file(fd);
		close(fd);
	} else if (strcmp(kind, "BUF") == 0) {
		t->mem = ibv_alloc_buf(rc->pd, MAPPED_SIZE, &t->buf);
	} else if (strcmp(kind, "PRIVATE") == 0) {
		t->mem = calloc(1, MAPPED_SIZE);
	} else {
		t->fd = memfd_create(MAPPED_NAME, MFD_CLOEXEC);
		t->mem = mapped_file(t->fd);
	}
	if (strcmp(kind, "CLOSED") == 0)
		close(t->fd);
	t->mr = ibv_reg_mr(rc->pd, t->mem, MAPPED_SIZE, ACCESS);
	CHECK(t->mr);
	t->rkey = t->mr->rkey;
	t->addr = (uintptr_t)t->mem;
}

void mapped_read(const struct mapped *t, uint64_t offset, void *to, size_t len)
{
	if (t->dm)
		CHECK(ibv_memcpy_from_dm(to, t->dm, offset, len) == 0);
	else
		memcpy(to, t->mem + offset, len);
}

void mapped_destroy(struct mapped *t)
{
	if (t->mw)
		CHECK(ibv_dealloc_mw(t->mw) == 0);
	CHECK(ibv_dereg_mr(t->mr) == 0);
	if (t->dm)
		CHECK(ibv_free_dm(t->dm) == 0);
}

void mapped_send_addr(const struct mapped *t, int sock)
{
	struct rc_addr at = { .addr = t->addr + MAPPED_OFFSET, .rkey = t->rkey };

	CHECK(write(sock, &at, sizeof(at)) == sizeof(at));
}

void mapped_open(struct rc *rc, int sock, struct rc_addr *peer)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(RC_LIMIT_S);
	rc_open(rc, MAPPED_SIZE);
	rc_pair(rc, sock, peer, MAPPED_TIMEOUT, MAPPED_RETRIES);
}

pid_t mapped_start(struct rc *rc, void (*fn)(const char *kind, int sock), const char *kind,
		   int *sock)
{
	pid_t owner = mapped_spawn(fn, kind, sock);
	struct rc_addr peer;

	rc_open(rc, MAPPED_SIZE);
	rc_pair(rc, *sock, &peer, MAPPED_TIMEOUT, MAPPED_RETRIES);
	mapped_require_attach(owner, &peer);
	return owner;
}

struct rc_addr mapped_recv_addr(int sock)
{
	struct rc_addr at;

	CHECK(read(sock, &at, sizeof(at)) == sizeof(at));
	return at;
}

struct ibv_wc mapped_request(struct rc *rc, enum ibv_wr_opcode opcode, uint32_t len,
			     struct rc_addr at, uint64_t offset)
{
	at.addr += offset;
	CHECK(rc_post_send(rc, rc->qp, opcode, len, &at, 0) == 0);
	return rc_wait(rc);
}

uint64_t mapped_fetch_add(struct rc *rc, const struct rc_addr *at)
{
	uint64_t found;

	CHECK(rc_post_fetch_add(rc, rc->qp, 1, at, 0) == 0);
	CHECK_EQ(rc_wait(rc).status, IBV_WC_SUCCESS);
	memcpy(&found, rc->buf, sizeof(found));
	return found;
}

void mapped_work(struct rc *rc, const struct rc_addr *at, uint64_t first)
{
	for (uint64_t i = 0; i < MAPPED_ROUNDS; i++) {
		uint64_t value = 1000 + i;

		memcpy(rc->buf, &value, sizeof(value));
		CHECK_EQ(mapped_request(rc, IBV_WR_RDMA_WRITE, 8, *at, 8).status, IBV_WC_SUCCESS);
		memset(rc->buf, 0, 8);
		CHECK_EQ(mapped_request(rc, IBV_WR_RDMA_READ, 8, *at, 8).status, IBV_WC_SUCCESS);
		CHECK(memcmp(rc->buf, &value, sizeof(value)) == 0);
		CHECK_EQ(mapped_fetch_add(rc, at), first + i);
	}
}

int count_mappings(const char *of)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512];
	int n = 0;

	CHECK(f);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, of) != NULL;
	fclose(f);
	return n;
}

void mapped_join(pid_t child)
{
	int status;

	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

void mapped_require_attach(pid_t owner, const struct rc_addr *peer)
{
	char byte;
	struct iovec here = { &byte, 1 }, there = { (void *)(uintptr_t)peer->addr, 1 };

	if (process_vm_readv(owner, &here, 1, &there, 1, 0) != 1)
		SKIP("cross-memory attach is refused here");
}

pid_t mapped_spawn(void (*fn)(const char *kind, int sock), const char *kind, int *sock)
{
	int pair[2];
	pid_t child;

	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	fflush(stdout);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		close(pair[0]);
		fn(kind, pair[1]);
		exit(1);
	}
	close(pair[1]);
	*sock = pair[0];
	return child;
}
