/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include <flmem/detect.h>
#include <flmem/host.h>
#include <flmem/report.h>
#include <flmem/text.h>

#include "cmd.h"
#include "options/targets.h"
#include "print/print_detect.h"
#include "print/print_host.h"

/*
 * This is the time limit for all processes, in microseconds: --name and --all can select hundreds.
 */
#define BUDGET_US_OF_ALL 2000000U

struct detect_options {
	struct target_options targets;
	bool no_heap;
	bool ask_runtime;
	uint64_t budget_us;
	uint64_t timeout_us;
	bool assume_seccomp;
	bool json;
};

/* Prints a heap string of JSON and frees it; false for NULL (out of memory). */
static bool put_json(char *text)
{
	if (!text)
		return false;
	fputs(text, stdout);
	free(text);
	return true;
}

static int fail_report_nomem(const struct cmd *cmd)
{
	struct flmem_error err = {0};

	flmem_error_nomem(&err, "cannot print the report");
	return cmd_fail(cmd, false, &err);
}

static int report_host(const struct cmd *cmd, bool json)
{
	struct flmem_host_report host;
	struct flmem_error err = {0};
	bool printed = true;

	if (flmem_host_read(&host, &err))
		return cmd_fail(cmd, json, &err);
	if (json)
		printed = put_json(flmem_report_host_json(&host));
	else
		print_host(&host, stdout);
	flmem_host_report_clear(&host);
	return printed ? 0 : fail_report_nomem(cmd);
}

/* Reports a read that failed as one line on stderr. */
static void report_gap(const struct cmd *cmd, int code, const char *message)
{
	struct flmem_error err = {0};

	flmem_error_set(&err, code, 0, "%s", message);
	cmd_fail(cmd, false, &err);
}

static void report_denied(const struct cmd *cmd, const struct flmem_process_report *process)
{
	char message[FLMEM_ERROR_MESSAGE_MAX];

	snprintf(message, sizeof(message), "cannot read the memory of process %d: %s; %s",
		 (int)process->pid, process->denied_why, process->denied_how);
	report_gap(cmd, FLMEM_EPERM, message);
}

/* Reports processes in which --ask-runtime failed. */
static void report_failed_queries(const struct cmd *cmd, const struct flmem_detect_report *report)
{
	for (size_t i = 0; i < report->process_count; i++)
		if (report->processes[i].query.code)
			report_gap(cmd, report->processes[i].query.code,
				   report->processes[i].query.reason);
}

/* Reports failures of targets given by pid: an incomplete report of any of them is a failure. */
static int report_failures(const struct cmd *cmd, const struct flmem_detect_report *report)
{
	struct cmd_codes codes = {0};

	for (size_t i = 0; i < report->skipped_count; i++) {
		report_gap(cmd, report->skipped[i].code, report->skipped[i].message);
		cmd_codes_add(&codes, report->skipped[i].code);
	}
	for (size_t i = 0; i < report->process_count; i++) {
		const struct flmem_process_report *process = &report->processes[i];

		if (process->denied_why)
			report_denied(cmd, process);
		cmd_codes_add(&codes, process->query.code   ? process->query.code
				      : process->denied_why ? FLMEM_EPERM
							    : 0);
	}
	report_failed_queries(cmd, report);
	return cmd_codes_combine(&codes);
}

/*
 * Prints one line for all processes whose memory may not be read, with the reason of the first.
 * Returns their number.
 */
static size_t report_denied_targets(const struct cmd *cmd, const struct flmem_detect_report *report)
{
	const struct flmem_process_report *first = NULL;
	char message[FLMEM_ERROR_MESSAGE_MAX], counted[FLMEM_TEXT_COUNTED_MAX];
	size_t count = 0;

	for (size_t i = 0; i < report->process_count; i++)
		if (report->processes[i].denied_why) {
			first = first ?: &report->processes[i];
			count++;
		}
	if (count == 1)
		report_denied(cmd, first);
	if (count < 2)
		return count;
	snprintf(message, sizeof(message), "cannot read the memory of %s: %s; %s",
		 flmem_text_counted(count, "process", counted, sizeof(counted)), first->denied_why,
		 first->denied_how);
	report_gap(cmd, FLMEM_EPERM, message);
	return count;
}

/* Reports skipped targets of a search: exits in the meantime are normal and only noted. */
static int report_skipped(const struct cmd *cmd, const struct flmem_detect_report *report)
{
	char note[96], count[FLMEM_TEXT_COUNTED_MAX];
	size_t ended = 0;
	int code = 0;

	for (size_t i = 0; i < report->skipped_count; i++) {
		if (report->skipped[i].code == FLMEM_ENOPROC) {
			ended++;
			continue;
		}
		code = report->skipped[i].code;
		report_gap(cmd, code, report->skipped[i].message);
	}
	snprintf(note, sizeof(note), "%s exited meanwhile; skipped",
		 flmem_text_counted(ended, "process", count, sizeof(count)));
	if (ended)
		report_gap(cmd, FLMEM_ENOPROC, note);
	report_failed_queries(cmd, report);
	if (report_denied_targets(cmd, report) < report->process_count)
		return 0;
	if (report->process_count)
		return FLMEM_EPERM;
	return ended ? FLMEM_ENOPROC : code;
}

static int report_targets(const struct cmd *cmd, const struct detect_options *options)
{
	struct flmem_targets targets = {0};
	struct flmem_detect_report report = {0};
	struct flmem_detect_options how = {
		.skip_heap = options->no_heap,
		.ask = options->ask_runtime,
		.budget_us = options->budget_us,
		.timeout_us = options->timeout_us,
		.assume_seccomp = options->assume_seccomp,
	};
	struct flmem_error err = {0};
	bool printed = true;
	int rc = targets_select(&options->targets, &targets, &err);

	if (!how.budget_us && !targets_are_explicit(&options->targets))
		how.total_budget_us = BUDGET_US_OF_ALL;
	if (!rc)
		rc = flmem_detect(targets.pids, targets.count, &how, &report, &err);
	flmem_targets_clear(&targets);
	if (rc)
		return cmd_fail(cmd, options->json, &err);
	if (options->json)
		printed = put_json(flmem_report_detect_json(&report));
	else
		print_detect(&report, stdout);
	rc = targets_are_explicit(&options->targets) ? report_failures(cmd, &report)
						     : report_skipped(cmd, &report);
	flmem_detect_report_clear(&report);
	return printed ? flmem_code_exit_status(rc) : fail_report_nomem(cmd);
}

/* Refuses an option without effect: the user has then left out another one. */
static int check_detect_options(const struct detect_options *o, struct flmem_error *err)
{
	bool targets = targets_given(&o->targets);

	if ((o->timeout_us || o->assume_seccomp) && !o->ask_runtime)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "--timeout and --assume-seccomp need --ask-runtime");
	if (o->budget_us && o->no_heap)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "--budget and --no-heap exclude each other");
	if (!targets && (o->ask_runtime || o->no_heap || o->budget_us))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "--ask-runtime, --no-heap and --budget are about targets; "
				       "add --pid, --name, --tree or --all");
	return 0;
}

static int run_detect(const struct cmd *cmd, void *options, const struct opt_rest *rest)
{
	const struct detect_options *o = options;
	struct flmem_error err = {0};

	if (cmd_no_arguments(cmd, rest, &err) || check_detect_options(o, &err))
		return cmd_fail(cmd, o->json, &err);
	if (!targets_given(&o->targets) && !o->targets.role && !o->targets.min_rss_bytes)
		return report_host(cmd, o->json);
	return report_targets(cmd, o);
}

static const struct opt detect_options_table[] = {
	TARGET_OPTIONS(struct detect_options, targets),
	{
		.name = "no-heap",
		.kind = OPT_FLAG,
		.offset = offsetof(struct detect_options, no_heap),
		.help = "skip the heap analysis; no verdict is given",
	},
	{
		.name = "budget",
		.kind = OPT_DURATION,
		.offset = offsetof(struct detect_options, budget_us),
		.metavar = "TIME",
		.help = "time limit for reading the heap of one process (default 1s; 2s in total "
			"with --name, --all and --tree)",
	},
	{
		.name = "ask-runtime",
		.kind = OPT_FLAG,
		.offset = offsetof(struct detect_options, ask_runtime),
		.help = "also query allocators and PyTorch for figures that cannot be read from "
			"outside; borrows a thread for well under a millisecond",
	},
	{
		.name = "timeout",
		.kind = OPT_DURATION,
		.offset = offsetof(struct detect_options, timeout_us),
		.metavar = "TIME",
		.help = "with --ask-runtime: wait at most this long for a thread to borrow "
			"(default 2s)",
	},
	{
		.name = "assume-seccomp",
		.kind = OPT_FLAG,
		.offset = offsetof(struct detect_options, assume_seccomp),
		.help = "with --ask-runtime: if the seccomp filters of the target cannot be read, "
			"assume that they allow the calls; if they do not, the kernel may kill the "
			"target",
	},
	{
		.name = "json",
		.kind = OPT_FLAG,
		.offset = offsetof(struct detect_options, json),
		.help = "print one JSON object",
	},
	{0},
};

static const char *const detect_examples[] = {
	"flmem detect",
	"the facts and features of this host",
	"flmem detect --pid 4242",
	"the allocators, memory, settings and role of process 4242",
	"flmem detect --all --role server",
	"all federated-learning servers",
	"flmem detect --tree 4242 --min-rss 500M --json",
	"a process and its descendants, those with at least 500 MiB, as JSON",
	NULL,
};

const struct cmd cmd_detect = {
	.name = "detect",
	.ends_first = true,
	.summary = "reports the allocators, memory, settings and roles of live processes, and a "
		   "verdict",
	.description = "For each target process it reports the allocators and which of them serves "
		       "malloc, the memory, the settings at start, the federated-learning "
		       "framework and role, the memory limit, and a verdict: which class most of "
		       "the resident memory (RSS) belongs to. Without a target it reports the "
		       "facts and features of this host.\n\n"
		       "The main classes are live (the program holds it), retained (the program "
		       "has freed it, the allocator keeps it, and a trim returns it to the "
		       "kernel), fragmented (freed, but on pages that a trim cannot release), "
		       "cached (kept for the next allocations), and shared memory and files.\n\n"
		       "No process is stopped, except that --ask-runtime borrows one thread "
		       "briefly. Secrets in command lines and settings are hidden.",
	.examples = detect_examples,
	.options = detect_options_table,
	.options_size = sizeof(struct detect_options),
	.run = run_detect,
};
