/* SPDX-License-Identifier: Apache-2.0 */
#include "help.h"

#include <string.h>

#include <flmem/condition.h>
#include <flmem/error.h>

#include "print/layout.h"

#define TOPIC_COLUMN 14

static void print_entry(const char *name, const char *text, FILE *out)
{
	if (strlen(name) + 2 < TOPIC_COLUMN)
		fprintf(out, "  %-*s", TOPIC_COLUMN - 2, name);
	else
		fprintf(out, "  %s\n%*s", name, TOPIC_COLUMN, "");
	layout_fold(text, TOPIC_COLUMN, TOPIC_COLUMN, out);
}

static int help_exit_codes(FILE *out)
{
	fputs("exit status:\n", out);
	for (int status = 0; status <= HELP_EXIT_STATUS_MAX; status++)
		if (flmem_exit_status_meaning(status))
			fprintf(out, "  %d  %s\n", status, flmem_exit_status_meaning(status));
	return 0;
}

static int help_conditions(FILE *out)
{
	layout_fold(
		"A comparison is a figure, one of > >= < <=, and a size (8G, 1.5GiB) or a "
		"percentage (20%, 12.5%). A percentage refers to rss; for cgroup and headroom it "
		"refers to the limit. Comparisons are combined with and, or, not and "
		"parentheses; not binds tightest, then and.",
		0, 0, out);
	fputs("\nfigures:\n", out);
	for (int i = 0; i < FLMEM_CONDITION_FIELD_COUNT; i++)
		print_entry(flmem_condition_field_name((enum flmem_condition_field)i),
			    flmem_condition_field_meaning((enum flmem_condition_field)i), out);
	fputc('\n', out);
	layout_fold("An unknown figure leaves a condition undecided unless the other comparisons "
		    "decide it; an undecided condition triggers no trim. The heap is read only if "
		    "the other figures do not decide, and an allocator whose figures need a call "
		    "(jemalloc, tcmalloc) is called only if reading does not suffice.",
		    0, 0, out);
	fputs("\nexample:\n  rss > 8G and (trimmable > 20% or headroom < 1G)\n", out);
	return 0;
}

const struct help_entry help_values[] = {
	{"SIZE", "512 (bytes), 64K, 1.5GiB or 4GB; K and KiB are 1024 bytes, KB is 1000, and so on "
		 "for M, G, T and P"},
	{"TIME", "100us, 250ms, 5s, 2m, 1h or 1d"},
	{"RATE", "a size per round or per hour: 10MiB/round, 1GiB/h"},
	{"PID", "the process ID that ps, top and flmem detect show"},
	{"REGEX", "a POSIX extended regular expression, in which \\d is a digit; it may match any "
		  "part of the text"},
	{"CONDITION", "figures of a process compared with limits; see 'flmem help conditions'"},
	{"VERSION", "2.8 or 2.9.0"},
	{0},
};

const struct help_entry help_environment[] = {
	{"NO_COLOR, TERM", "flmem watch: NO_COLOR turns colours off, and TERM=dumb the screen"},
	{"TMPDIR", "flmem recommend: where killed jobs of NVFlare may have left tensors (default "
		   "/tmp)"},
	{"DEBUGINFOD_URLS", "flmem profile: servers to ask for debug files, for the names of "
			    "native functions (default: none)"},
	{"SSL_CERT_FILE", "flmem aggregate and exchange: certificates of authorities to trust, "
			  "unless an option names others"},
	{"http_proxy, https_proxy, no_proxy",
	 "flmem aggregate and exchange: the proxies for addresses"},
	{"LD_LIBRARY_PATH, CONDA_PREFIX",
	 "where flmem also searches for the allocators that this host offers"},
	{"FLMEM_LIBRARY", "the Python module: the path of libflmem"},
	{0},
};

static int print_help_entries(const char *head, const struct help_entry *entries, FILE *out)
{
	fprintf(out, "%s:\n", head);
	for (; entries->name; entries++)
		print_entry(entries->name, entries->text, out);
	return 0;
}

static int help_print_values(FILE *out)
{
	return print_help_entries("values of options", help_values, out);
}

static int help_print_environment(FILE *out)
{
	return print_help_entries("environment variables that flmem reads", help_environment, out);
}

const struct help_topic help_topics[] = {
	{"exit-codes", "the exit status of every command", help_exit_codes},
	{"conditions", "the conditions of --when", help_conditions},
	{"values", "how to write sizes, times and other values", help_print_values},
	{"environment", "the environment variables that flmem reads", help_print_environment},
	{0},
};
