/* SPDX-License-Identifier: BSD-2-Clause */
/* verbena capture: writes packets that match a flow rule to a pcap file. */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <pcap/pcap.h>
#include <verbena/verbena.h>

#include "tool.h"
#include "util/compiler.h"

enum {
	MEMORY = 64 << 20,	/* bytes for packets that are not written yet */
	FEWEST = 64, MOST = 8192, /* packets */
	TIMEOUT_MS = 100,	/* interval at which an idle capture checks time and signals */
	BEYOND_MTU = 14 + 8,	/* Ethernet header, two VLAN tags */
};

struct capture {
	const char *device, *interface, *expression, *file;
	struct verbena_flow_options rule;
	bool selects;		/* the rule has a selector */
	uint64_t count;		/* 0: no limit */
	double seconds;		/* 0: no limit */

	uint8_t *slots;
	size_t row;
	pcap_t *pcap;
	pcap_dumper_t *dump;
	struct bpf_program filter;

	struct timespec end;
	uint64_t captured, bytes, filtered;
	enum ibv_wc_status failure;
	int broken;		/* errno value of a failed write */
};

/* ---- Selectors ---- */

/* Format of a selector's value, and width of its member in the rule. */
enum kind { MAC, IP, NUMBER8, NUMBER16 };

static const struct selector {
	const char *name;
	enum kind kind;
	size_t offset;
} selectors[] = {
#define SELECTOR(name, kind) { #name, kind, offsetof(struct verbena_flow_options, name) }
	SELECTOR(dmac, MAC),          SELECTOR(smac, MAC),       SELECTOR(ethtype, NUMBER16),
	SELECTOR(vlan, NUMBER16),     SELECTOR(sip, IP),         SELECTOR(dip, IP),
	SELECTOR(proto, NUMBER8),     SELECTOR(tos, NUMBER8),    SELECTOR(ttl, NUMBER8),
	SELECTOR(flags, NUMBER8),     SELECTOR(dport, NUMBER16), SELECTOR(sport, NUMBER16),
	SELECTOR(priority, NUMBER16),
#undef SELECTOR
};

static bool parse_number(const char *text, uint64_t most, uint64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 0);
	return text[0] >= '0' && text[0] <= '9' && !*end && !errno && *value <= most;
}

static bool parse_mac(const char *text, uint8_t mac[6])
{
	unsigned int byte[6];
	int len = 0;

	if (sscanf(text, "%2x:%2x:%2x:%2x:%2x:%2x%n", &byte[0], &byte[1], &byte[2], &byte[3],
		   &byte[4], &byte[5], &len) != 6 ||
	    text[len])
		return false;
	for (int i = 0; i < 6; i++)
		mac[i] = (uint8_t)byte[i];
	return true;
}

static bool parse_selector(const struct selector *s, const char *text, void *rule)
{
	void *member = (char *)rule + s->offset;
	struct in_addr ip;
	uint64_t number;

	switch (s->kind) {
	case MAC:
		return parse_mac(text, member);
	case IP:
		if (inet_pton(AF_INET, text, &ip) != 1)
			return false;
		*(uint32_t *)member = ntohl(ip.s_addr);
		return true;
	case NUMBER8:
		if (!parse_number(text, UINT8_MAX, &number))
			return false;
		*(uint8_t *)member = (uint8_t)number;
		return true;
	case NUMBER16:
		if (!parse_number(text, UINT16_MAX, &number))
			return false;
		*(uint16_t *)member = (uint16_t)number;
		return true;
	}
	return false;
}

static bool parse_type(const char *text, enum ibv_flow_attr_type *type)
{
	static const char *const names[] = {
		[IBV_FLOW_ATTR_NORMAL] = "normal",
		[IBV_FLOW_ATTR_ALL_DEFAULT] = "all",
		[IBV_FLOW_ATTR_MC_DEFAULT] = "mc",
		[IBV_FLOW_ATTR_SNIFFER] = "sniffer",
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(text, names[i]) == 0) {
			*type = (enum ibv_flow_attr_type)i;
			return true;
		}
	return false;
}

/* ---- Options ---- */

static const char help[] =
	"  -d, --device NAME      device (default: the first)\n"
	"  -i, --interface NAME   or the interface behind it\n"
	"  -c, --count N          stop after N packets\n"
	"  -s, --seconds S        stop after S seconds\n"
	"  -f, --filter EXPR      only what matches, as in pcap-filter(7)\n"
	"Which packets are captured (default: a copy of everything):\n"
	"  --type TYPE            normal (default with a selector), all, mc, sniffer\n"
	"  --dmac, --smac MAC     --ethtype, --vlan N\n"
	"  --sip, --dip ADDRESS   --proto, --tos, --ttl, --flags N\n"
	"  --dport, --sport PORT  of UDP; with --tcp of TCP\n"
	"  --priority N           0 first\n"
	"FILE - is standard output.  ^C ends the capture, too.\n";

static int bad_value(const char *option, const char *value)
{
	complain(EXIT_USAGE, "--%s: cannot understand '%s'; try --help", option, value);
	return EXIT_USAGE;
}

enum { TYPE = 256, TCP, SELECT };

/* getopt's table: plain options, then selectors. */
static void list_options(struct option *o)
{
	static const struct option plain[] = {
		{ "device", required_argument, NULL, 'd' },
		{ "interface", required_argument, NULL, 'i' },
		{ "count", required_argument, NULL, 'c' },
		{ "seconds", required_argument, NULL, 's' },
		{ "filter", required_argument, NULL, 'f' },
		{ "type", required_argument, NULL, TYPE },
		{ "tcp", no_argument, NULL, TCP },
		{ "help", no_argument, NULL, 'h' },
	};

	memcpy(o, plain, sizeof(plain));
	o += ARRAY_SIZE(plain);
	for (unsigned int i = 0; i < ARRAY_SIZE(selectors); i++)
		*o++ = (struct option){ selectors[i].name, required_argument, NULL,
					SELECT + (int)i };
	*o = (struct option){ 0 };
}

static int take_option(struct capture *c, int option)
{
	char *end;

	switch (option) {
	case 'd':
		c->device = optarg;
		return 0;
	case 'i':
		c->interface = optarg;
		return 0;
	case 'f':
		c->expression = optarg;
		return 0;
	case 'c':
		return parse_number(optarg, UINT64_MAX, &c->count) && c->count
			       ? 0
			       : bad_value("count", optarg);
	case 's':
		c->seconds = strtod(optarg, &end);
		return end != optarg && !*end && c->seconds > 0 && c->seconds < 1e9
			       ? 0
			       : bad_value("seconds", optarg);
	case TYPE:
		c->selects = true;
		return parse_type(optarg, &c->rule.flow_type) ? 0 : bad_value("type", optarg);
	case TCP:
		c->rule.tcpudp = VERBENA_TCP;
		return 0;
	default:
		c->selects = true;
		return parse_selector(&selectors[option - SELECT], optarg, &c->rule) ?
			       0 : bad_value(selectors[option - SELECT].name, optarg);
	}
}

static int parse_options(struct capture *c, int argc, char **argv)
{
	struct option options[8 + ARRAY_SIZE(selectors) + 1];
	int option;

	list_options(options);
	while ((option = next_option(argc, argv, ":d:i:c:s:f:h", options, help)) != -1)
		if (option == '?' || take_option(c, option))
			return EXIT_USAGE;
	if (optind >= argc)
		return complain(EXIT_USAGE, "no file given; try --help");
	c->file = argv[optind];
	if (c->device && c->interface)
		return complain(EXIT_USAGE, "--device or --interface, not both");
	if (!c->selects)
		c->rule.flow_type = IBV_FLOW_ATTR_SNIFFER;
	return no_arguments(argc, argv, optind + 1) ? EXIT_OK : EXIT_USAGE;
}

/* ---- Device and file ---- */

/* Name of the requested device, and its interface's MTU. */
static int find_device(const struct capture *c, char name[64], int *mtu)
{
	struct ifreq request = { 0 };
	struct ibv_device **list;
	int status = EXIT_NO_DEVICE, fd;

	list = all_devices(NULL, &status);
	if (!list)
		return status;
	for (struct ibv_device **d = list; *d && status != EXIT_OK; d++) {
		const char *this = ibv_get_device_name(*d);
		struct ibv_context *ctx;

		if (c->device && strcmp(this, c->device) != 0)
			continue;
		ctx = ibv_open_device(*d);
		if (!ctx)
			continue;
		port_netdev(ctx, 1, request.ifr_name);
		ibv_close_device(ctx);
		if (c->interface && strcmp(request.ifr_name, c->interface) != 0)
			continue;
		snprintf(name, 64, "%s", this);
		status = EXIT_OK;
	}
	ibv_free_device_list(list);
	if (status != EXIT_OK && !c->interface && !c->device)
		return complain(EXIT_NO_DEVICE, "no devices (verbena doctor says why)");
	if (status != EXIT_OK)
		return complain(EXIT_NO_DEVICE, "no device %s%s (verbena netdevs lists them)",
				c->interface ? "for interface " : "",
				c->interface ? c->interface : c->device);
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	*mtu = fd >= 0 && ioctl(fd, SIOCGIFMTU, &request) == 0 ? request.ifr_mtu : UINT16_MAX;
	close(fd);
	return EXIT_OK;
}

static int open_file(struct capture *c)
{
	c->pcap = pcap_open_dead_with_tstamp_precision(DLT_EN10MB, (int)c->row,
						       PCAP_TSTAMP_PRECISION_NANO);
	if (!c->pcap)
		return complain(EXIT_FAILED, "out of memory");
	if (c->expression &&
	    pcap_compile(c->pcap, &c->filter, c->expression, 1, PCAP_NETMASK_UNKNOWN))
		return complain(EXIT_USAGE, "--filter: %s", pcap_geterr(c->pcap));
	if (strcmp(c->file, "-") == 0 && isatty(STDOUT_FILENO))
		return complain(
			EXIT_USAGE,
			"refusing to write a pcap file to a terminal: name a file or use a pipe");
	c->dump = pcap_dump_open(c->pcap, c->file);
	if (!c->dump)
		return complain(errno == EACCES || errno == EPERM ? EXIT_REFUSED : EXIT_FAILED,
				"%s", pcap_geterr(c->pcap));
	/* Writes the header now, so that a reader of a pipe gets the format. */
	if (pcap_dump_flush(c->dump))
		return complain(EXIT_FAILED, "%s: %s", c->file, strerror(errno));
	return EXIT_OK;
}

/* ---- The capture itself ---- */

static volatile sig_atomic_t stopped;

static void stop(int signal)
{
	stopped = 1;
}

static bool is_over(const struct capture *c)
{
	struct timespec now;

	if (stopped || c->broken || c->failure || (c->count && c->captured >= c->count))
		return true;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return c->seconds > 0 && (now.tv_sec > c->end.tv_sec ||
				  (now.tv_sec == c->end.tv_sec && now.tv_nsec >= c->end.tv_nsec));
}

static void keep(struct capture *c, const struct ibv_wc *wc, const struct timespec *now)
{
	struct pcap_pkthdr header = { .ts = { now->tv_sec, now->tv_nsec },
				      .caplen = wc->byte_len,
				      .len = wc->byte_len };
	const uint8_t *packet = c->slots + wc->wr_id * c->row;

	if (c->expression && !pcap_offline_filter(&c->filter, &header, packet)) {
		c->filtered++;
		return;
	}
	pcap_dump((uint8_t *)c->dump, &header, packet);
	c->captured++;
	c->bytes += wc->byte_len;
}

static int on_packets(struct ibv_wc *wcs, int num_wc, struct ibv_recv_wr *wrs, void *arg)
{
	struct capture *c = arg;
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	errno = 0;
	for (int i = 0; i < num_wc && (!c->count || c->captured < c->count); i++) {
		if (wcs[i].status == IBV_WC_SUCCESS)
			keep(c, &wcs[i], &now);
		else
			c->failure = wcs[i].status;
	}
	/* Idle: flush, so that a reader gets all packets. */
	if (!num_wc)
		pcap_dump_flush(c->dump);
	if (ferror(pcap_dump_file(c->dump)))
		c->broken = errno ? errno : EIO;
	return is_over(c) ? -1 : num_wc;
}

static int tell(const char *what)
{
	int err = errno;

	return complain(err == EPERM || err == EACCES ? EXIT_REFUSED
			: err == ENODEV               ? EXIT_NO_DEVICE
						      : EXIT_FAILED,
			"%s: %s%s", what, verbena_error(),
			err == EPERM ? " (run it as root)" : "");
}

static int run(struct capture *c, struct verbena_context *ctx, uint32_t slots)
{
	struct verbena_buf buf = { .addr = c->slots, .row = c->row, .num_pkt = slots };
	struct sigaction act = { .sa_handler = stop };
	struct verbena_recv_wrs recvs;
	struct ibv_flow *flow;
	int status = EXIT_OK;

	if (verbena_create_recv_wrs(ctx, &buf, 1, slots, VERBENA_POST, &recvs))
		return tell("cannot receive");
	clock_gettime(CLOCK_MONOTONIC, &c->end);
	c->end.tv_sec += (time_t)c->seconds;
	c->end.tv_nsec += (long)((c->seconds - (double)(time_t)c->seconds) * 1e9);
	if (c->end.tv_nsec >= 1000000000) {
		c->end.tv_sec++;
		c->end.tv_nsec -= 1000000000;
	}
	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	flow = verbena_create_flow(ctx, &c->rule);
	if (!flow)
		status = tell("cannot create the flow rule");
	else
		fprintf(stderr, "verbena capture: listening on %s\n", ctx->dev_name);
	if (flow && verbena_repost_loop(on_packets, ctx, recvs.wrs, slots, TIMEOUT_MS, c))
		status = tell("the capture failed");
	verbena_destroy_flow(flow);
	verbena_destroy_recv_wrs(&recvs);
	return status;
}

static int finish(struct capture *c)
{
	if (!c->broken && pcap_dump_flush(c->dump))
		c->broken = errno;
	if (c->broken)
		return complain(EXIT_FAILED, "%s: %s", c->file, strerror(c->broken));
	if (c->failure)
		return complain(EXIT_FAILED, "receiving failed: %s (verbena explain says more)",
				ibv_wc_status_str(c->failure));
	fprintf(stderr, "verbena capture: %llu packets, %llu bytes",
		(unsigned long long)c->captured, (unsigned long long)c->bytes);
	if (c->expression)
		fprintf(stderr, ", %llu did not match", (unsigned long long)c->filtered);
	fputc('\n', stderr);
	return EXIT_OK;
}

static int capture(struct capture *c)
{
	struct verbena_context_options options;
	struct verbena_context *ctx;
	char device[64];
	uint32_t slots;
	int mtu = 0, status = find_device(c, device, &mtu);

	if (status != EXIT_OK)
		return status;
	c->row = ((size_t)mtu + BEYOND_MTU + 63) & ~(size_t)63;
	slots = MEMORY / c->row < FEWEST ? FEWEST
		: MEMORY / c->row > MOST ? MOST
					 : (uint32_t)(MEMORY / c->row);
	verbena_context_options_init(&options, sizeof(options));
	options.max_recv_wr = (int)slots;
	options.max_send_wr = 0;
	ctx = verbena_create_context(device, 1, &options);
	if (!ctx)
		return tell("cannot open");
	status = open_file(c);
	c->slots = status == EXIT_OK ? calloc(slots, c->row) : NULL;
	if (status == EXIT_OK && !c->slots)
		status = complain(EXIT_FAILED, "out of memory");
	if (status == EXIT_OK)
		status = run(c, ctx, slots);
	verbena_destroy_context(ctx);
	if (status == EXIT_OK)
		status = finish(c);
	free(c->slots);
	return status;
}

int cmd_capture(int argc, char **argv)
{
	struct capture c = { 0 };
	int status;

	verbena_flow_options_init(&c.rule, sizeof(c.rule));
	status = parse_options(&c, argc, argv);
	if (status == EXIT_OK)
		status = capture(&c);
	if (c.dump)
		pcap_dump_close(c.dump);
	if (c.pcap) {
		pcap_freecode(&c.filter);
		pcap_close(c.pcap);
	}
	return status;
}
