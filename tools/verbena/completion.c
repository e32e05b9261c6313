/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbena completion: a script for bash.  It gets options and actions from each command's --help,
 * device names, PIDs and codes from the tool itself.
 */
#include <getopt.h>
#include <stdio.h>

#include "tool.h"

/* Its beginning and its end, between which are the commands. */
static const char before[] =
	"_verbena()\n"
	"{\n"
	"\tlocal word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} words help\n"
	"\tif [ \"$COMP_CWORD\" -gt 1 ]; then\n"
	"\t\thelp=$(verbena \"$command\" --help 2>/dev/null)\n"
	"\t\twords=\"--help $(grep -oe '--[a-z][a-z-]*' <<<\"$help\")\n"
	"\t\t\t$(sed -n 's/^usage: verbena [a-z]* \\([a-z|]\\+\\).*/\\1/p' <<<\"$help\" |\n"
	"\t\t\ttr '|' ' ')\"\n"
	"\tfi\n"
	"\tcase $command in\n"
	"\trun|record|trace|fault|capture) compopt -o default 2>/dev/null ;;\n"
	"\tinfo|gids|watch)\n"
	"\t\twords+=\" $(verbena devices 2>/dev/null | awk 'NR > 2 { print $1 }')\" ;;\n"
	"\tps) words+=\" $(verbena ps 2>/dev/null | awk 'NR > 1 { print $1 }')\" ;;\n"
	"\texplain) words+=\" $(verbena explain --all 2>/dev/null | awk '{ print $3 }')\" ;;\n"
	"\tesac\n"
	"\t[ \"$COMP_CWORD\" -gt 1 ] || words='--help --version";
static const char after[] = "'\n"
			    "\tCOMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
			    "}\n"
			    "complete -F _verbena verbena\n";

int cmd_completion(int argc, char **argv)
{
	static const char help[] = "Use it: source <(verbena completion)\n";

	if (next_option(argc, argv, ":h",
			(const struct option[]){ { "help", 0, NULL, 'h' }, { 0 } }, help) != -1)
		return EXIT_USAGE;
	if (!no_arguments(argc, argv, 1))
		return EXIT_USAGE;
	fputs(before, stdout);
	for (const struct command *c = commands; c->name; c++)
		printf(" %s", c->name);
	fputs(after, stdout);
	return EXIT_OK;
}
