/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbena completion: a script for bash, generated from the table of commands.  It gets device
 * names and PIDs from the tool itself.
 */
#include <getopt.h>
#include <stdio.h>

#include "tool.h"

int cmd_completion(int argc, char **argv)
{
	static const char help[] = "Use it: source <(verbena completion)\n";

	if (next_option(argc, argv, ":h",
			(const struct option[]){ { "help", 0, NULL, 'h' }, { 0 } }, help) != -1)
		return EXIT_USAGE;
	if (!no_arguments(argc, argv, 1))
		return EXIT_USAGE;
	puts("_verbena()\n{\n\tlocal word=${COMP_WORDS[COMP_CWORD]} words\n\tcase ${COMP_WORDS[1]} "
	     "in");
	puts("\trun) compopt -o default 2>/dev/null; words='--devices --transport --log --log-file "
	     "--port --dir\n"
	     "\t\t--raw --progress --seed --no-preload --print --help --' ;;");
	puts("\tinfo|gids|watch) words=\"--json --help $(verbena devices 2>/dev/null | awk 'NR > 2 "
	     "{ print $1 }')\" ;;");
	puts("\tps) words=\"--json --help $(verbena ps 2>/dev/null | awk 'NR > 1 { print $1 }')\" "
	     ";;");
	puts("\ttop) words='--json --times --interval --help' ;;");
	puts("\texplain) words=\"--json --all --help $(verbena explain --all 2>/dev/null | awk '{ "
	     "print $3 }')\" ;;");
	puts("\tdoctor) words='--json --quiet --help' ;;");
	puts("\tcapture) compopt -o default 2>/dev/null; words='--device --interface --count "
	     "--seconds --filter --type\n"
	     "\t\t--dmac --smac --ethtype --vlan --sip --dip --proto --tos --ttl --flags --dport "
	     "--sport --tcp --priority --help' ;;");
	puts("\tnetdevs) words='--json --verbose --help' ;;");
	puts("\t*) words='--json --help' ;;\n\tesac");
	printf("\t[ \"$COMP_CWORD\" -gt 1 ] || words='--help --version");
	for (const struct command *c = commands; c->name; c++)
		printf(" %s", c->name);
	puts("'\n\tCOMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n}\ncomplete -F _verbena "
	     "verbena");
	return EXIT_OK;
}
