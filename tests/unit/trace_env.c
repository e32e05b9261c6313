/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit/trace_env.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "verbena/tool.h"

enum { START = 1000000, MIB = 1 << 20 };

/* The tool's table of subcommands, which its help lists. */
const struct command commands[] = { { 0 } };

static uint64_t on_clock(const struct env_host *h, uint64_t time)
{
	return time + (uint64_t)h->off + (uint64_t)(h->drift * (int64_t)(time >> 20));
}

void env_open(struct env_host *h, uint8_t address, uint8_t boot, int64_t off, int64_t wall_off)
{
	static unsigned int n;
	struct record_origin o = { .boot_id = { boot }, .pid = address, .command = "program" };

	*h = (struct env_host){ .off = off, .address = address };
	o.started = on_clock(h, START);
	o.wall = 5000000000 + START + (uint64_t)wall_off;
	snprintf(o.host, sizeof(o.host), "host%u", boot);
	snprintf(h->path, sizeof(h->path), "/tmp/trace-test.%d.%u.vrec", (int)getpid(), n++);
	assert_int_equal(recording_open(&h->recording, h->path, MIB, false, &o), 0);
	record_writer_start(&h->writer, &h->recording, address);
}

void env_put(struct env_host *h, enum record_type type, const void *body, size_t len,
	     uint64_t time)
{
	void *out = record_reserve(&h->writer, len);

	assert_non_null(out);
	memcpy(out, body, len);
	record_commit(&h->writer, type, len, on_clock(h, time));
}

static void put_packet(struct env_host *h, uint8_t way, const struct env_host *from,
		       const struct env_host *to, uint64_t time, uint32_t psn)
{
	struct record_path path = { .id = (uint32_t)from->address << 8 | to->address,
				    .src = { from->address }, .dst = { to->address } };
	struct {
		struct record_packet p;
		uint8_t bth[TRACE_BTH];
	} packet = { .p = { .qpn = ENV_QPN, .path = path.id, .length = 16, .way = way,
			    .transport = RECORD_WIRE } };

	packet.bth[0] = 4;	/* RC SEND only */
	packet.bth[9] = (uint8_t)(psn >> 16);
	packet.bth[10] = (uint8_t)(psn >> 8);
	packet.bth[11] = (uint8_t)psn;
	env_put(h, RECORD_PATH, &path, sizeof(path), time);
	env_put(h, RECORD_PACKET, &packet, sizeof(packet.p) + TRACE_BTH, time);
}

void env_out(struct env_host *from, const struct env_host *to, uint64_t time, uint32_t psn)
{
	put_packet(from, RECORD_OUT, from, to, time, psn);
}

void env_in(const struct env_host *from, struct env_host *to, uint64_t time, uint32_t psn)
{
	put_packet(to, RECORD_IN, from, to, time, psn);
}

void env_read(struct env_host *h, unsigned int n, struct trace *t)
{
	char *names[ENV_HOSTS + 1] = { NULL };

	for (unsigned int i = 0; i < n; i++) {
		record_writer_end(&h[i].writer);
		recording_close(&h[i].recording);
		names[i] = h[i].path;
	}
	assert_int_equal(trace_open(t, names), 0);
}

void env_close(struct env_host *h, unsigned int n, struct trace *t)
{
	trace_close(t);
	for (unsigned int i = 0; i < n; i++)
		assert_int_equal(unlink(h[i].path), 0);
}

bool env_next(struct trace *t, unsigned int type, struct record *r)
{
	int status = 0;

	while (trace_next(t, r, &status))
		if (r->type == type)
			return true;
	assert_int_equal(status, 0);
	return false;
}
