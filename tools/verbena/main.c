/* SPDX-License-Identifier: BSD-2-Clause */
/* Selects the command by the name of the link or by the first argument. */
#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fault.h"
#include "run/config.h"
#include "tool.h"
#include "util/compiler.h"

const struct command commands[] = {
	{ "run", cmd_run, "[options] -- COMMAND...", "Runs a program on Verbena", true },
	{ "rdma", cmd_rdma, "dev|link|resource|statistic",
	  "iproute2's rdma, of Verbena's devices" },
	{ "devices", cmd_devices, "[--json]", "Lists the devices" },
	{ "info", cmd_info, "[--json] [DEVICE]", "Shows a device's attributes and its port" },
	{ "gids", cmd_gids, "[--json] [DEVICE]", "Shows the GID tables" },
	{ "netdevs", cmd_netdevs, "[--json]", "Shows which interface is behind which device" },
	{ "watch", cmd_watch, "[--json] [DEVICE]", "Prints asynchronous events as they arrive" },
	{ "top", cmd_top, "[--json] [-n TIMES] [-i SECONDS]",
	  "Shows what the user's processes do" },
	{ "ps", cmd_ps, "[--json] [PID]", "Shows which processes hold which objects" },
	{ "doctor", cmd_doctor, "[--json]", "Checks this machine and says what to do", true },
	{ "explain", cmd_explain, "[--json] STATUS|ERRNO|CODE|EVENT", "Explains an error",
	  true },
	{ "fault", cmd_fault, "add|list|clear|check|sweep ...", "Makes things go wrong on purpose",
	  true },
	{ "capture", cmd_capture, "[options] FILE", "Writes packets to a pcap file" },
	{ "record", cmd_record, "[options] -- COMMAND...",
	  "Runs a program and records what it does", true },
	{ "trace", cmd_trace, "show|summary|pcapng|perfetto|html [options] FILE...",
	  "Shows what was recorded", true },
	{ "perf", cmd_perf, "[--json] [--svg FILE] [--quick]", "Measures this machine" },
	{ "completion", cmd_completion, "", "Prints a completion script for bash", true },
	{ NULL },
};

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} aliases[] = {
	{ "ibv_devices", alias_ibv_devices },
	{ "ibv_devinfo", alias_ibv_devinfo },
	{ "ibv_asyncwatch", alias_ibv_asyncwatch },
	{ "show_gids", alias_show_gids },
	{ "ibdev2netdev", alias_ibdev2netdev },
	{ "get-rdma-device-info", alias_device_info },
};

static int help(void)
{
	puts("usage: verbena COMMAND [options]\n"
	     "RDMA verbs on any Linux machine, in user space.\n");
	for (const struct command *c = commands; c->name; c++)
		printf("  %s%-11s%s %-34s %s\n", BOLD, c->name, PLAIN, c->args, c->help);
	puts("\nverbena COMMAND --help lists a command's options; verbena --version prints the "
	     "version.\n"
	     "Exit status: 0 done, 1 failed or found a problem, 2 bad option, argument or "
	     "VERBENA_*\n"
	     "variable, 3 no such device, 4 denied by the system.  More in verbena(1), "
	     "verbena(7).");
	return EXIT_OK;
}

static const char *from_environment(void *arg, const char *name)
{
	return getenv(name);
}

static void tell(void *arg, const char *line)
{
	/* The library prints "NAME=value is ignored: ...", and continues. */
	const char *what = strstr(line, " is ignored: ");

	if (!*(bool *)arg && what)
		complain(EXIT_USAGE, "%.*s: %s", (int)(what - line), line,
			 what + strlen(" is ignored: "));
	else if (!*(bool *)arg)
		complain(EXIT_USAGE, "%s", line);
	*(bool *)arg = true;
}

bool environment_is_bad(void)
{
	static struct config cfg;
	bool bad = false;

	config_parse(&cfg, from_environment, tell, &bad);
	return bad || fault_environment_is_bad();
}

/* What was printed may have found no room. */
static int end_output(void)
{
	int err = fflush(stdout) ? errno : ferror(stdout) ? EIO : 0;

	return err ? complain(EXIT_FAILED, "standard output: %s", strerror(err)) : EXIT_OK;
}

static int run_command(const struct command *c, int argc, char **argv)
{
	int status;

	tool_command = c->name;
	if (!c->any_environment && environment_is_bad())
		return EXIT_USAGE;
	status = c->run(argc, argv);
	return status ? status : end_output();
}

int main(int argc, char **argv)
{
	const char *name = argc && strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];

	for (unsigned int i = 0; i < ARRAY_SIZE(aliases); i++)
		if (argc && strcmp(name, aliases[i].name) == 0)
			return aliases[i].run(argc, argv);
	if (argc < 2)
		return complain(EXIT_USAGE, "no command given; try verbena --help");
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
	    strcmp(argv[1], "help") == 0)
		return help();
	if (strcmp(argv[1], "--version") == 0)
		return printf("verbena %s\n", VRB_VERSION) < 0;
	for (const struct command *c = commands; c->name; c++)
		if (strcmp(argv[1], c->name) == 0)
			return run_command(c, argc - 1, argv + 1);
	return complain(EXIT_USAGE, "no command '%s'; try verbena --help", argv[1]);
}
