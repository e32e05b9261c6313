/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Captures UDP packets of one destination port at line rate: headers go into one buffer, payloads
 * into another, where they lie back to back as if the network had sent an array.  udp_generate.c is
 * the other side; it numbers its packets, so that losses can be counted here.
 *
 *	udp_capture [-d DEVICE] [-n PACKETS] [-t SECONDS] [-s PAYLOAD] PORT
 *
 * Ends after PACKETS packets, or when nothing has come for SECONDS (default: 2) after the first
 * one.  Built on libverbena: verbena(3).
 */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <verbena/verbena.h>

enum {
	/* packets that may come while earlier ones are read; few, so that they stay in the cache */
	SLOTS = 512,
	HEADER = 42,	  /* Ethernet 14, IPv4 without options 20, UDP 8 */
	HEADER_ROW = 64,  /* with padding, so that each header begins a cache line */
	TIMEOUT_MS = 100, /* how often an idle loop calls back to decide whether to continue */
};

struct capture {
	uint8_t *headers, *payloads;
	size_t payload; /* bytes of a row */

	uint64_t wanted; /* packets; 0: no limit */
	int timeout_ms; /* without a packet */

	uint64_t packets, bytes, failed;
	uint64_t end; /* the highest number seen, plus 1 */
	int idle_ms;
	double began, ended;
};

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void look_at(struct capture *c, const struct ibv_wc *wc)
{
	uint64_t number;

	if (wc->status != IBV_WC_SUCCESS) {
		c->failed++;
		return;
	}
	c->packets++;
	c->bytes += wc->byte_len;
	/* wc->wr_id is the slot: here are the packet's two parts. */
	memcpy(&number, c->payloads + wc->wr_id * c->payload, sizeof(number));
	number = be64toh(number);
	if (wc->byte_len >= HEADER + sizeof(number) && number >= c->end)
		c->end = number + 1;
}

/* Each slot is used again at once, so the scatter lists stay as they are. */
static int on_packets(struct ibv_wc *wcs, int num_wc, struct ibv_recv_wr *wrs, void *arg)
{
	struct capture *c = arg;

	(void)wrs;
	if (!num_wc) {
		c->idle_ms += TIMEOUT_MS;
		return c->packets && c->idle_ms >= c->timeout_ms ? -1 : 0;
	}
	c->ended = seconds();
	if (!c->packets)
		c->began = c->ended;
	c->idle_ms = 0;
	for (int i = 0; i < num_wc; i++)
		look_at(c, &wcs[i]);
	if (c->failed)
		return -1;
	return c->wanted && c->packets >= c->wanted ? -1 : num_wc;
}

static void fail(void)
{
	fprintf(stderr, "udp_capture: %s\n", verbena_error());
	exit(1);
}

static void report(const struct capture *c)
{
	const uint8_t *ip = c->headers + 14;
	double time = c->ended - c->began;

	/* What the last packet in slot 0 looked like. */
	printf("from %u.%u.%u.%u to %u.%u.%u.%u, TTL %u\n", ip[12], ip[13], ip[14], ip[15], ip[16],
	       ip[17], ip[18], ip[19], ip[8]);
	printf("received %llu packets, %llu bytes, lost %llu, failed %llu\n",
	       (unsigned long long)c->packets, (unsigned long long)c->bytes,
	       (unsigned long long)(c->end > c->packets ? c->end - c->packets : 0),
	       (unsigned long long)c->failed);
	printf("%.0f packets/s\n", time > 0 ? (double)(c->packets - 1) / time : 0.0);
}

/* A queue pair for raw packets, with room for SLOTS of them in two parts each. */
static struct verbena_context *open_device(const char *name)
{
	struct verbena_context_options options;
	struct verbena_context *ctx;

	verbena_context_options_init(&options, sizeof(options));
	options.max_recv_wr = SLOTS;
	options.max_recv_sge = 2;
	ctx = verbena_create_context(name, 1, &options);
	if (!ctx)
		fail();
	return ctx;
}

/* Buffers, scatter lists, work requests; all posted, and the queue pair ready to receive. */
static void prepare(struct capture *c, struct verbena_context *ctx, struct verbena_recv_wrs *recvs)
{
	c->headers = aligned_alloc(HEADER_ROW, (size_t)SLOTS * HEADER_ROW);
	c->payloads = calloc(SLOTS, c->payload);
	if (!c->headers || !c->payloads) {
		fprintf(stderr, "udp_capture: %s\n", strerror(errno));
		exit(1);
	}

	struct verbena_buf bufs[] = {
		{ .addr = c->headers,
		  .row = HEADER_ROW,
		  .num_pkt = SLOTS,
		  .npad = HEADER_ROW - HEADER },
		{ .addr = c->payloads, .row = c->payload, .num_pkt = SLOTS },
	};

	if (verbena_create_recv_wrs(ctx, bufs, 2, SLOTS, VERBENA_POST, recvs))
		fail();
}

/* From now on the packets come. */
static struct ibv_flow *ask_for(struct verbena_context *ctx, uint16_t port)
{
	struct verbena_flow_options rule;
	struct ibv_flow *flow;

	verbena_flow_options_init(&rule, sizeof(rule));
	rule.dport = port;
	flow = verbena_create_flow(ctx, &rule);
	if (!flow)
		fail();
	return flow;
}

int main(int argc, char **argv)
{
	struct capture c = { .timeout_ms = 2000, .payload = 9216 };
	struct verbena_context *ctx;
	struct verbena_recv_wrs recvs;
	struct ibv_flow *flow;
	const char *device = "vrb0";
	int option;

	while ((option = getopt(argc, argv, "d:n:t:s:")) != -1) {
		switch (option) {
		case 'd': device = optarg; break;
		case 'n': c.wanted = strtoull(optarg, NULL, 0); break;
		case 't': c.timeout_ms = atoi(optarg) * 1000; break;
		case 's': c.payload = strtoull(optarg, NULL, 0); break;
		default: return 2;
		}
	}
	if (optind != argc - 1 || c.payload < sizeof(uint64_t)) {
		fprintf(stderr, "usage: udp_capture [-d DEVICE] [-n PACKETS] [-t SECONDS] "
				"[-s PAYLOAD] PORT\n");
		return 2;
	}

	ctx = open_device(device);
	prepare(&c, ctx, &recvs);
	flow = ask_for(ctx, (uint16_t)atoi(argv[optind]));
	printf("capturing on %s\n", ctx->dev_name);
	fflush(stdout);
	if (verbena_repost_loop(on_packets, ctx, recvs.wrs, SLOTS, TIMEOUT_MS, &c))
		fail();
	report(&c);

	/* The rule first, then the regions, then what they belong to. */
	if (verbena_destroy_flow(flow) || verbena_destroy_recv_wrs(&recvs) ||
	    verbena_destroy_context(ctx))
		fail();
	free(c.headers);
	free(c.payloads);
	return c.failed != 0;
}
