/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * FLUSH to persistence takes as long as the disk, for which this program's msync() stands in.
 * Meanwhile every other queue pair must work, responses on the same one stay in order, and no
 * polling thread of the program blocks.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "world.h"

enum {
	LEN = 4096,
	ROUNDS = 20,
};

static struct world w;
static struct ibv_cq *cq;
/* `persists` posts the FLUSH, `disk` executes it. */
static struct ibv_qp *persists, *disk, *other;
static struct ibv_mr *mr;
static struct buffer buf;
static uint8_t *memory;
static sem_t msync_entered, msync_may_return;
static int msync_result;	/* result of msync(): 0 or an errno value */
static int not_cancelled;

/* Replaces the C library's function for the library under test. */
__attribute__((visibility("default"))) int msync(void *addr, size_t len, int flags)
{
	pthread_testcancel();
	CHECK(memory >= (uint8_t *)addr && memory + LEN <= (uint8_t *)addr + len);
	CHECK_EQ(sem_post(&msync_entered), 0);
	while (sem_wait(&msync_may_return) && errno == EINTR)
		;
	errno = msync_result;
	return msync_result ? -1 : 0;
}

static void make_memory(void)
{
	char path[] = "/tmp/verbena-flush-XXXXXX";
	int fd = mkstemp(path);

	CHECK(fd >= 0);
	CHECK_EQ(unlink(path), 0);
	CHECK_EQ(ftruncate(fd, LEN), 0);
	memory = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(memory != MAP_FAILED);
	close(fd);
	mr = ibv_reg_mr(w.pd, memory, LEN, WORLD_ACCESS | IBV_ACCESS_FLUSH_PERSISTENT);
	CHECK(mr);
}

static void bring_up(struct ibv_qp *qp, uint32_t peer)
{
	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++) {
		struct ibv_qp_attr attr;
		int mask = world_attr(&w, IBV_QPT_RC, s, peer, &attr);

		attr.qp_access_flags |= IBV_ACCESS_FLUSH_PERSISTENT;
		attr.timeout = 0;	/* no timeout: the disk may take long */
		CHECK_EQ(ibv_modify_qp(qp, &attr, mask), 0);
	}
}

static void make_pair(void)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { 16, 16, 1, 1 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = w.pd,
		.send_ops_flags = IBV_QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_RDMA_WRITE,
	};

	persists = ibv_create_qp_ex(w.ctx, &init);
	CHECK(persists);
	disk = world_qp(&w, IBV_QPT_RC, cq, NULL);
	bring_up(disk, persists->qp_num);
	bring_up(persists, disk->qp_num);
}

static void destroy_pair(void)
{
	CHECK_EQ(ibv_destroy_qp(disk), 0);
	CHECK_EQ(ibv_destroy_qp(persists), 0);
}

static void post_flush(uint64_t wr_id)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(persists);

	ibv_wr_start(ex);
	ex->wr_id = wr_id;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_flush(ex, mr->rkey, (uintptr_t)memory, LEN, IBV_FLUSH_PERSISTENT, IBV_FLUSH_RANGE);
	CHECK_EQ(ibv_wr_complete(ex), 0);
}

/* The other QPs poll, which brings the request to the responder. */
static void wait_until_begun(void)
{
	struct ibv_wc wc;

	while (sem_trywait(&msync_entered))
		CHECK_EQ(ibv_poll_cq(cq, 1, &wc), 0);
}

static void others_go_on(void)
{
	struct ibv_sge sge = world_sge(&buf, 0, 64);
	struct ibv_send_wr write = world_rdma(IBV_WR_RDMA_WRITE, 2, &sge, &buf, LEN);
	struct ibv_wc wc[2];

	post_flush(1);
	wait_until_begun();
	world_post(persists, &write);	/* after the FLUSH */
	for (int i = 0; i < ROUNDS; i++) {
		world_recv(other, 3, world_sge(&buf, 128, 64));
		world_send(other, 4, sge);
		world_poll(cq, wc, 2);
		CHECK(wc[0].wr_id + wc[1].wr_id == 3 + 4);
	}
	CHECK_EQ(sem_post(&msync_may_return), 0);
	world_expect(cq, 1, IBV_WC_SUCCESS);
	world_expect(cq, 2, IBV_WC_SUCCESS);
}

static void *poll_cancelled(void *arg)
{
	pthread_cancel(pthread_self());
	post_flush(5);
	world_expect(cq, 5, IBV_WC_SUCCESS);
	not_cancelled = 1;
	pthread_testcancel();
	return NULL;
}

static void no_cancellation_point(void)
{
	pthread_t t;

	CHECK_EQ(sem_post(&msync_may_return), 0);
	CHECK_EQ(pthread_create(&t, NULL, poll_cancelled, NULL), 0);
	pthread_join(t, NULL);
	CHECK_EQ(not_cancelled, 1);
	wait_until_begun();
}

static void failing_disk(void)
{
	msync_result = EIO;
	CHECK_EQ(sem_post(&msync_may_return), 0);
	post_flush(6);
	world_expect(cq, 6, IBV_WC_REM_ACCESS_ERR);
	CHECK_EQ(sem_wait(&msync_entered), 0);
	msync_result = 0;
}

/* Destroys the queue pairs while the disk write is in progress. */
static void queue_pairs_are_destroyed_meanwhile(void)
{
	destroy_pair();
	make_pair();
	post_flush(7);
	wait_until_begun();
	destroy_pair();
	CHECK_EQ(sem_post(&msync_may_return), 0);
}

int main(void)
{
	setenv("VERBENA_LOG", "error", 1);
	CHECK_EQ(sem_init(&msync_entered, 0, 0), 0);
	CHECK_EQ(sem_init(&msync_may_return, 0, 0), 0);
	world_open(&w);
	cq = world_cq(&w, 16);
	buf = world_buffer(&w, 2 * LEN, WORLD_ACCESS);
	make_memory();
	make_pair();
	other = world_qp(&w, IBV_QPT_RC, cq, NULL);
	world_connect(&w, other, other);
	others_go_on();
	no_cancellation_point();
	failing_disk();
	queue_pairs_are_destroyed_meanwhile();
	CHECK_EQ(ibv_destroy_qp(other), 0);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	munmap(memory, LEN);
	world_free(&buf);
	CHECK_EQ(ibv_destroy_cq(cq), 0);
	world_close(&w);
	return 0;
}
