/* SPDX-License-Identifier: BSD-2-Clause */
/* verbena record: runs a program with VERBENA_RECORD set, as verbena run does. */
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "run.h"
#include "tool.h"

static const struct option options[] = {
	{ "output", required_argument, NULL, 'o' }, { "what", required_argument, NULL, 'w' },
	{ "size", required_argument, NULL, 's' },   { "help", no_argument, NULL, 'h' },
	{ 0 },
};

static const char help[] =
	"  -o, --output DIR   where each process writes a file; verbena-recording if not given\n"
	"  -w, --what LIST    verbs,packets,engine,memory,stacks; the first three if not given\n"
	"  -s, --size MIB     of a file, which keeps what was last (16); all: keeps everything\n"
	"verbena trace shows what was recorded.\n";

/* The path is absolute, since programs change their folder. It must hold no other recordings. */
static int set_folder(const char *folder)
{
	char path[PATH_MAX];
	struct dirent *e;
	bool used = false;
	DIR *dir;

	if (mkdir(folder, 0777) && errno != EEXIST)
		return complain(errno == EACCES ? EXIT_REFUSED : EXIT_FAILED, "%s: %s", folder,
				strerror(errno));
	dir = opendir(folder);
	if (!dir || !realpath(folder, path)) {
		if (dir)
			closedir(dir);
		return complain(EXIT_FAILED, "%s: %s", folder, strerror(errno));
	}
	while ((e = readdir(dir)))
		used |= strstr(e->d_name, ".vrec") != NULL;
	closedir(dir);
	if (used)
		return complain(EXIT_FAILED, "%s: there are recordings in it already", folder);
	setenv("VERBENA_RECORD", path, 1);
	return 0;
}

int cmd_record(int argc, char **argv)
{
	const char *folder = "verbena-recording";
	int c, status;

	while ((c = next_option(argc, argv, "+:o:w:s:h", options, help)) != -1) {
		if (c == '?')
			return EXIT_USAGE;
		if (c == 'o')
			folder = optarg;
		else
			setenv(c == 'w' ? "VERBENA_RECORD_WHAT" : "VERBENA_RECORD_SIZE", optarg, 1);
	}
	if (environment_is_bad())
		return EXIT_USAGE;
	if (optind >= argc)
		return complain(EXIT_USAGE,
				"no program given: verbena record [options] -- COMMAND");
	status = run_prepare(true);
	if (!status)
		status = set_folder(folder);
	return status ? status : run_start(argv + optind);
}
