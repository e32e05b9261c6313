/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbena run: starts a program with Verbena's library first in the loader's path and the emulation
 * of /sys and /dev preloaded.  It only sets environment variables; verbena(1) lists them.
 */
#include <dlfcn.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run.h"
#include "tool.h"
#include "util/compiler.h"

#define SHIM "libverbena-preload.so"

static const struct {
	struct option option;
	const char *variable;
	const char *help;
} settings[] = {
	{ { "devices", required_argument, NULL, 'd' },
	  "VERBENA_DEVICES",
	  "interfaces, or name=interface" },
	{ { "transport", required_argument, NULL, 't' },
	  "VERBENA_TRANSPORT",
	  "auto, udp or local" },
	{ { "log", required_argument, NULL, 'l' },
	  "VERBENA_LOG",
	  "off error warn info debug trace, module=level" },
	{ { "log-file", required_argument, NULL, 'L' },
	  "VERBENA_LOG_FILE",
	  "where log lines go instead of stderr" },
	{ { "port", required_argument, NULL, 'p' },
	  "VERBENA_UDP_PORT",
	  "UDP port, 4791 if not given" },
	{ { "dir", required_argument, NULL, 'D' },
	  "VERBENA_DIR",
	  "directory that the processes share" },
	{ { "raw", required_argument, NULL, 'r' }, "VERBENA_RAW", "auto, packet or virtual" },
	{ { "progress", required_argument, NULL, 'P' }, "VERBENA_PROGRESS", "thread or none" },
	{ { "faults", required_argument, NULL, 'f' },
	  "VERBENA_FAULTS",
	  "what shall go wrong: rules or @FILE" },
	{ { "seed", required_argument, NULL, 's' },
	  "VERBENA_SEED",
	  "makes random numbers repeatable" },
};

static const struct option flags[] = {
	{ "no-preload", no_argument, NULL, 'n' },
	{ "print", no_argument, NULL, 'e' },
	{ "help", no_argument, NULL, 'h' },
};

/* The options' letters for getopt, which ends at the program's name. */
static const char *letters(void)
{
	static char text[sizeof("+:") + 2 * ARRAY_SIZE(settings) + ARRAY_SIZE(flags)];
	char *p = stpcpy(text, "+:");

	for (unsigned int i = 0; i < ARRAY_SIZE(settings); i++) {
		*p++ = (char)settings[i].option.val;
		*p++ = ':';
	}
	for (unsigned int i = 0; i < ARRAY_SIZE(flags); i++)
		*p++ = (char)flags[i].val;
	return text;
}

static const char *help_text(void)
{
	static char text[2048];
	size_t n = 0;

	for (unsigned int i = 0; i < ARRAY_SIZE(settings); i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n,
				      "  -%c, --%-10s VALUE   %-18s %s\n", settings[i].option.val,
				      settings[i].option.name, settings[i].variable,
				      settings[i].help);
	snprintf(text + n, sizeof(text) - n,
		 "  -n, --no-preload         do not emulate /sys/class/infiniband and "
		 "/dev/infiniband\n"
		 "  -e, --print              print the environment variables instead of running "
		 "anything\n");
	return text;
}

/* The folder of the library that this program uses. */
static bool library_folder(char folder[PATH_MAX])
{
	Dl_info info;
	char *slash;

	if (!dladdr((const void *)ibv_get_device_list, &info) || !realpath(info.dli_fname, folder))
		return false;
	slash = strrchr(folder, '/');
	if (slash)
		*slash = '\0';
	return slash != NULL;
}

/* Prepends or appends `what` to a list in the environment.  Returns false if out of memory. */
static bool extend(const char *name, const char *what, bool first)
{
	const char *old = getenv(name);
	char *value;
	int n;

	if (!old || !*old)
		return setenv(name, what, 1) == 0;
	n = asprintf(&value, "%s:%s", first ? what : old, first ? old : what);
	if (n < 0 || setenv(name, value, 1) != 0)
		return false;
	free(value);
	return true;
}

/* A space would end the name there; LD_LIBRARY_PATH leads to the file, too. */
static const char *name_for_loader(const char *shim)
{
	return strchr(shim, ' ') ? SHIM : shim;
}

/*
 * Programs built with a sanitizer: AddressSanitizer ends those for which a library is preloaded
 * before it; ThreadSanitizer reports data races in libraries whose locks it does not see. Of
 * options given twice the last counts, so the user's own come last.
 */
static const struct {
	const char *variable, *options;
} sanitizers[] = {
	{ "ASAN_OPTIONS", "verify_asan_link_order=0" },
	{ "TSAN_OPTIONS", "ignore_noninstrumented_modules=1" },
};

/* False: out of memory. */
static bool set_up_sanitizers(void)
{
	bool good = true;

	for (unsigned int i = 0; i < ARRAY_SIZE(sanitizers); i++)
		good &= extend(sanitizers[i].variable, sanitizers[i].options, true);
	return good;
}

/* What is for the program, and not for this tool, which the library would record or strike. */
static const char *const of_program[] = { "VERBENA_RECORD", "VERBENA_FAULTS" };

static void hide(char *values[ARRAY_SIZE(of_program)])
{
	for (unsigned int i = 0; i < ARRAY_SIZE(of_program); i++) {
		values[i] = getenv(of_program[i]);
		if (values[i])
			values[i] = strdup(values[i]);
		unsetenv(of_program[i]);
	}
}

/* False: out of memory. */
static bool show_again(char *values[ARRAY_SIZE(of_program)])
{
	bool good = true;

	for (unsigned int i = 0; i < ARRAY_SIZE(of_program); i++) {
		good &= !values[i] || setenv(of_program[i], values[i], 1) == 0;
		free(values[i]);
	}
	return good;
}

int run_prepare(bool preload)
{
	char *hidden[ARRAY_SIZE(of_program)];
	char folder[PATH_MAX], shim[PATH_MAX + sizeof(SHIM) + 1];
	int count;
	struct ibv_device **list;

	if (!library_folder(folder))
		return complain(EXIT_FAILED,
				"cannot find the libibverbs.so.1 that this tool is linked with");
	snprintf(shim, sizeof(shim), "%s/%s", folder, SHIM);
	if (preload && access(shim, R_OK) < 0)
		return complain(EXIT_FAILED, "%s: %s", shim, strerror(errno));
	if (!extend("LD_LIBRARY_PATH", folder, true) ||
	    (preload && !extend("LD_PRELOAD", name_for_loader(shim), false)) ||
	    !set_up_sanitizers())
		return complain(EXIT_FAILED, "out of memory");
	/*
	 * Creates the files that the preloaded library shows, for scripts that look for them first.
	 */
	hide(hidden);
	list = ibv_get_device_list(&count);
	if (list)
		ibv_free_device_list(list);
	return show_again(hidden) ? 0 : complain(EXIT_FAILED, "out of memory");
}

/* As a line for a shell. */
static void print_variable(const char *name)
{
	const char *value = getenv(name);

	if (!value)
		return;
	printf("export %s='", name);
	for (; *value; value++)
		if (*value == '\'')
			fputs("'\\''", stdout);
		else
			putchar(*value);
	puts("'");
}

static int print_environment(void)
{
	print_variable("LD_LIBRARY_PATH");
	print_variable("LD_PRELOAD");
	for (unsigned int i = 0; i < ARRAY_SIZE(sanitizers); i++)
		print_variable(sanitizers[i].variable);
	for (unsigned int i = 0; i < ARRAY_SIZE(settings); i++)
		print_variable(settings[i].variable);
	return EXIT_OK;
}

int run_start(char **argv)
{
	int err;

	execvp(argv[0], argv);
	err = errno;
	return complain(err == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN, "%s: %s", argv[0],
			strerror(err));
}

static const char *variable_of(int letter)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(settings); i++)
		if (settings[i].option.val == letter)
			return settings[i].variable;
	return NULL;
}

/* Arguments are those of iproute2's rdma. */
int cmd_rdma(int argc, char **argv)
{
	static const struct option options[] = { { "help", no_argument, NULL, 'h' }, { 0 } };
	int status;

	if (argc > 1 && strcmp(argv[1], "--help") == 0)
		return next_option(argc, argv, ":h", options,
				   "Runs rdma(8), which must be installed; verbena rdma help lists "
				   "its commands.\n") == -1
			       ? EXIT_OK
			       : EXIT_USAGE;
	status = run_prepare(true);
	argv[0] = (char *)"rdma";
	return status ? status : run_start(argv);
}

int cmd_run(int argc, char **argv)
{
	struct option options[ARRAY_SIZE(settings) + ARRAY_SIZE(flags) + 1] = { 0 };
	bool preload = true, print = false;
	int c, status;

	for (unsigned int i = 0; i < ARRAY_SIZE(settings); i++)
		options[i] = settings[i].option;
	memcpy(options + ARRAY_SIZE(settings), flags, sizeof(flags));
	while ((c = next_option(argc, argv, letters(), options, help_text())) != -1) {
		if (c == '?')
			return EXIT_USAGE;
		if (c == 'n')
			preload = false;
		else if (c == 'e')
			print = true;
		else
			setenv(variable_of(c), optarg, 1);
	}
	if (environment_is_bad())
		return EXIT_USAGE;
	if (optind >= argc && !print)
		return complain(EXIT_USAGE, "no program given: verbena run [options] -- COMMAND");
	status = run_prepare(preload);
	if (status)
		return status;
	return print ? print_environment() : run_start(argv + optind);
}
