/* SPDX-License-Identifier: BSD-2-Clause */
/* Mappings: what the peer may write into, in order with the stream, within its bounds. */
#include "rspair.h"

enum {
	MAPS = 2,
	SIZE = 300000,
};

static uint8_t memory[SIZE], data[SIZE];

/* The writer has been told of what is mapped once a byte of the stream has come. */
static void sync_to(const struct rspair *p)
{
	char c;

	CHECK_EQ(rsend(p->fd[1], "x", 1, 0), 1);
	CHECK_EQ(rrecv(p->fd[0], &c, 1, 0), 1);
}

/* And what was written before a byte of the stream is there when that comes. */
static void sync_from(const struct rspair *p)
{
	char c;

	CHECK_EQ(rsend(p->fd[0], "x", 1, 0), 1);
	CHECK_EQ(rrecv(p->fd[1], &c, 1, 0), 1);
}

static void writes(void)
{
	struct rspair p = rspair_make(LOOPBACK, MAPS);

	for (int i = 0; i < SIZE; i++)
		data[i] = (uint8_t)(i * 13 + (i >> 9));
	CHECK_EQ(riomap(p.fd[1], memory, SIZE, PROT_WRITE, 0, 1000), 1000);
	sync_to(&p);
	CHECK_EQ(riowrite(p.fd[0], data, SIZE, 1000, 0), SIZE);
	sync_from(&p);
	CHECK_MEM(memory, data, SIZE);
	/* Beyond its end, and where nothing is. */
	CHECK_EQ(riowrite(p.fd[0], data, 100, 1000 + SIZE - 10, 0), 10);
	CHECK_EQ(riowrite(p.fd[0], data, 100, 999, 0), 0);
	CHECK_EQ(riowrite(p.fd[0], data, 100, 1000 + SIZE, 0), 0);
	rspair_close(&p);
}

static void tables(void)
{
	struct rspair p = rspair_make(LOOPBACK, MAPS);
	off_t at = (off_t)(uintptr_t)data;

	CHECK_EQ(riomap(p.fd[0], data, 10, PROT_WRITE, 0, -1), at);
	CHECK_EQ(riomap(p.fd[0], data, 20, PROT_NONE, 0, 7), 7);
	CHECK_EQ(riomap(p.fd[0], data + 20, 10, PROT_WRITE, 0, 8), 8);
	CHECK_FAILS(riomap(p.fd[0], data, 30, PROT_WRITE, 0, 9), ENOMEM);
	CHECK_EQ(riounmap(p.fd[0], data, 20), 0);
	CHECK_FAILS(riounmap(p.fd[0], data, 20), EINVAL);
	CHECK_FAILS(riomap(p.fd[0], data, 10, PROT_EXEC, 0, 0), EINVAL);
	rspair_close(&p);
	/* A peer that has no table. */
	p = rspair_make(LOOPBACK, 0);
	CHECK_FAILS(riomap(p.fd[0], data, 10, PROT_WRITE, 0, 0), ENOMEM);
	CHECK_EQ(riowrite(p.fd[0], data, 10, 0, 0), 0);
	rspair_close(&p);
}

/* What was mapped in the place of another is what the peer writes to. */
static void again(void)
{
	struct rspair p = rspair_make(LOOPBACK, MAPS);

	CHECK_EQ(riomap(p.fd[1], memory, 10, PROT_WRITE, 0, 0), 0);
	for (int i = 1; i < 10; i++) {
		CHECK_EQ(riomap(p.fd[1], memory + i * 10, 10, PROT_WRITE, 0, i * 10), i * 10);
		CHECK_FAILS(riomap(p.fd[1], memory, 10, PROT_WRITE, 0, 1000), ENOMEM);
		sync_to(&p);
		data[0] = (uint8_t)(100 + i);
		CHECK_EQ(riowrite(p.fd[0], data, 10, i * 10, 0), 10);
		sync_from(&p);
		CHECK_EQ(memory[i * 10], 100 + i);
		CHECK_EQ(riounmap(p.fd[1], memory + (i - 1) * 10, 10), 0);
	}
	rspair_close(&p);
}

int main(void)
{
	writes();
	again();
	tables();
	return 0;
}
