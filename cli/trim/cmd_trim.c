/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <flmem/report.h>
#include <flmem/text.h>
#include <flmem/trim.h>

#include "cmd.h"
#include "options/targets.h"
#include "print/print_format.h"
#include "print/print_trim.h"
#include "trim/trim_repeat.h"

struct trim_options {
	struct target_options targets;
	struct repeat_options repeat;
	const char *python;
	bool collect;
	bool cuda;
	bool full;
	bool dry_run;
	bool json;
	bool no_predict;
	uint64_t timeout_us;
	bool assume_seccomp;
	uint64_t settle_us;
};

static void print_planned_step(const struct flmem_trim_step *step)
{
	printf("  %-24s on thread %d", step->name, (int)step->thread);
	if (step->thread_state[0])
		printf(", blocked in %s", step->thread_state);
	putchar('\n');
}

/* Prints one step: name, duration, released bytes, detail. */
static void print_trim_step(const struct flmem_trim_step *step)
{
	char took[FORMAT_MAX], bytes[FORMAT_MAX], detail[sizeof(step->detail)];

	bool skipped = step->outcome == FLMEM_TRIM_SKIPPED || step->took_us.unknown;

	printf("  %-24s %s", step->name,
	       skipped ? flmem_trim_outcome_name(step->outcome)
		       : format_us(step->took_us.value, took));
	if (!skipped && !step->released_bytes.unknown)
		printf(", %s", format_bytes(step->released_bytes.value, bytes));
	if (step->detail[0])
		printf(": %s", flmem_text_escape(step->detail, detail, sizeof(detail)));
	putchar('\n');
}

static void print_trim_steps(const struct flmem_trim_result *r)
{
	for (size_t i = 0; i < r->step_count; i++) {
		if (r->steps[i].outcome == FLMEM_TRIM_PLANNED)
			print_planned_step(&r->steps[i]);
		else
			print_trim_step(&r->steps[i]);
	}
}

/*
 * Prints the output of the Python code line by line, escaped so that it cannot control the
 * terminal.
 */
static void print_output(const struct flmem_trim_result *r)
{
	char line[1024], shown[sizeof(line)];

	for (const char *at = r->output; *at;) {
		size_t length = strcspn(at, "\n");

		snprintf(line, sizeof(line), "%.*s", (int)length, at);
		printf("  | %s\n", flmem_text_escape(line, shown, sizeof(shown)));
		at += length + (at[length] == '\n');
	}
	if (r->output_cut)
		printf("  | ... cut\n");
}

static void print_released(const struct flmem_trim_result *r)
{
	char text[RELEASE_MAX], device[FORMAT_MAX];

	printf("process %d: %s", (int)r->pid, format_release(r, text));
	if (r->device_bytes)
		printf(", and %s of GPU memory", format_bytes(r->device_bytes, device));
	putchar('\n');
}

static void print_thread(const struct flmem_trim_result *r)
{
	char stopped[FORMAT_MAX], overhead[FORMAT_MAX];

	if (r->stopped_us.unknown)
		return;
	printf("  borrowed thread %d%s%s for %s (%s of it outside the calls); all other threads "
	       "kept "
	       "running\n",
	       (int)r->thread, r->thread_state[0] ? " from " : "", r->thread_state,
	       format_us(r->stopped_us.value, stopped), format_us(r->overhead_us.value, overhead));
}

static void print_planned(const struct flmem_trim_result *r)
{
	char predicted[FORMAT_MAX];

	if (r->predicted_bytes.unknown)
		printf("process %d: would release an unknown amount (%s) by\n", (int)r->pid,
		       r->predicted_bytes.unknown);
	else
		printf("process %d: would release %s by\n", (int)r->pid,
		       format_bytes(r->predicted_bytes.value, predicted));
}

static void print_trim_result(const struct flmem_trim_result *r)
{
	switch (r->outcome) {
	case FLMEM_TRIM_PLANNED:
		print_planned(r);
		break;
	case FLMEM_TRIM_RELEASED:
	case FLMEM_TRIM_UNMEASURED:
		print_released(r);
		break;
	case FLMEM_TRIM_NOTHING:
		printf("process %d: nothing to release\n", (int)r->pid);
		break;
	case FLMEM_TRIM_REFUSED:
	case FLMEM_TRIM_FAILED:
	case FLMEM_TRIM_SKIPPED:
		return; /* reported on stderr */
	}
	print_trim_steps(r);
	print_output(r);
	print_thread(r);
	if (r->note[0])
		printf("  note: %s\n", r->note);
}

/*
 * Returns 0 if all trims were made, the common code if all failed alike, else FLMEM_EPARTLY.
 * Targets found by a search that exited meanwhile do not count.
 */
static int combine_codes(const struct flmem_trim_result *results, size_t count, bool named)
{
	struct cmd_codes codes = {0};

	for (size_t i = 0; i < count; i++)
		if (results[i].code != FLMEM_ENOPROC || named)
			cmd_codes_add(&codes, results[i].code);
	return cmd_codes_combine(&codes);
}

/* This is above the limit of the library, so that the library reports its own limit. */
#define CODE_MAX (1U << 20)

static int read_code_file(const char *path, char **ret_text, struct flmem_trim_code *ret_code,
			  struct flmem_error *err)
{
	FILE *file = fopen(path, "re");
	char *text = malloc(CODE_MAX);
	size_t length = file && text ? fread(text, 1, CODE_MAX, file) : 0;
	bool failed = !file || !text || ferror(file);
	int error = errno;

	if (file)
		fclose(file);
	if (failed || length == CODE_MAX || memchr(text, '\0', length)) {
		free(text);
		if (failed)
			return flmem_error_set(err, FLMEM_EUSAGE, error, "cannot read '%s'", path);
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "'%s' %s", path,
				       length == CODE_MAX
					       ? "is larger than 1 MiB"
					       : "is not Python code: it contains a NUL byte");
	}
	*ret_text = text;
	*ret_code = (struct flmem_trim_code){path, text, length};
	return 0;
}

static struct flmem_trim_options trim_options_of(const struct trim_options *o,
						 const struct flmem_trim_code *code)
{
	return (struct flmem_trim_options){
		.dry_run = o->dry_run,
		.predict = (o->dry_run || o->json) && !o->no_predict,
		.timeout_us = o->timeout_us,
		.assume_seccomp = o->assume_seccomp,
		.settle_us = o->settle_us,
		.python = code,
		.collect = o->collect || o->full,
		.cuda = o->cuda || o->full,
		.lenient = o->full,
	};
}

static int trim_all(const struct cmd *cmd, const struct trim_options *o,
		    const struct flmem_targets *targets, struct flmem_trim_options options,
		    struct flmem_trim_result *results)
{
	for (size_t i = 0; i < targets->count; i++) {
		struct flmem_error err = {0};

		options.start_time = targets->start_times[i];
		if (flmem_trim_process(targets->pids[i], &options, &results[i], &err))
			cmd_fail(cmd, false, &err);
		if (!o->json)
			print_trim_result(&results[i]);
	}
	if (o->json) {
		char *text = flmem_report_trim_json(results, targets->count);

		if (text)
			fputs(text, stdout);
		free(text);
	}
	return flmem_code_exit_status(
		combine_codes(results, targets->count, targets_are_explicit(&o->targets)));
}

static int trim_once(const struct cmd *cmd, const struct trim_options *o,
		     const struct flmem_targets *targets, struct flmem_trim_options options)
{
	struct flmem_trim_result *results = calloc(targets->count, sizeof(*results));
	struct flmem_error err = {0};
	int status;

	if (!results) {
		flmem_error_nomem(&err, "cannot store the results");
		return cmd_fail(cmd, o->json, &err);
	}
	status = trim_all(cmd, o, targets, options, results);
	free(results);
	return status;
}

static int run_trim(const struct cmd *cmd, void *options, const struct opt_rest *rest)
{
	const struct trim_options *o = options;
	struct flmem_trim_options how;
	struct flmem_targets targets = {0};
	struct flmem_trim_code code;
	struct flmem_error err = {0};
	char *text = NULL;
	int status;

	if (cmd_no_arguments(cmd, rest, &err) || repeat_check(&o->repeat, o->dry_run, &err) ||
	    (o->python && read_code_file(o->python, &text, &code, &err)) ||
	    targets_select(&o->targets, &targets, &err)) {
		free(text);
		return cmd_fail(cmd, o->json, &err);
	}
	how = trim_options_of(o, o->python ? &code : NULL);
	status = repeat_wanted(&o->repeat) ? repeat_run(cmd, &o->repeat, o->json, &how, &targets)
					   : trim_once(cmd, o, &targets, how);
	free(text);
	flmem_targets_clear(&targets);
	return status;
}

static const struct opt trim_options_table[] = {
	TARGET_OPTIONS(struct trim_options, targets),
	{.name = "gc",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct trim_options, collect),
	 .help = "run Python's garbage collector in the target first (CPython 3.8 to 3.15)"},
	{.name = "cuda",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct trim_options, cuda),
	 .help = "also empty PyTorch's and CuPy's caches of CUDA device memory and pinned host "
		 "memory, and CUDA's own pools"},
	{.name = "full",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct trim_options, full),
	 .help = "same as --gc --cuda, but skip these steps in a process without Python"},
	{.name = "python",
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct trim_options, python),
	 .metavar = "FILE",
	 .complete = OPT_COMPLETE_FILE,
	 .help = "first run the Python code in this file (at most 64 KiB) in "
		 "the target"},
	{.name = "dry-run",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct trim_options, dry_run),
	 .help = "check everything, print the calls and the thread that would make them; change "
		 "nothing (may stop that thread for less than 1 ms)"},
	{.name = "timeout",
	 .kind = OPT_DURATION,
	 .offset = offsetof(struct trim_options, timeout_us),
	 .metavar = "TIME",
	 .help = "time limit for finding a safe moment, and again for the calls "
		 "(default 5s)"},
	{.name = "assume-seccomp",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct trim_options, assume_seccomp),
	 .help = "if the seccomp filters of the target cannot be read, assume that they allow the "
		 "calls of flmem and of finalisers; if they do not, the kernel may kill the "
		 "target"},
	{.name = "settle",
	 .kind = OPT_DURATION,
	 .offset = offsetof(struct trim_options, settle_us),
	 .metavar = "TIME",
	 .help = "wait this long before RSS is read again after the trim "
		 "(default 0)",
	 .zero = true},
	REPEAT_OPTIONS(struct trim_options, repeat),
	{.name = "json",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct trim_options, json),
	 .help = "print one JSON object; with --every or --when one line of "
		 "JSON for each event"},
	{.name = "no-predict",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct trim_options, no_predict),
	 .help = "with --json or --dry-run: skip the heap analysis that "
		 "predicts how much memory the trim will release"},
	{0},
};

static const char *const trim_examples[] = {
	"flmem trim --pid 4242",
	"return the memory that the allocator of process 4242 retains",
	"flmem trim --pid 4242 --dry-run",
	"print the steps and the thread, but change nothing",
	"flmem trim --pid 4242 --full",
	"run Python's garbage collector, trim, and empty the CUDA caches",
	"flmem trim --pid 4242 --python release.py",
	"first run code that releases the job's own caches; its output is printed",
	"flmem trim --pid 4242 --every 5m",
	"every five minutes, until it exits or trims become ineffective",
	"flmem trim --pid 4242 --when 'rss > 8G and trimmable > 20%'",
	"while the condition holds, at most once a minute",
	"flmem trim --all --role server --min-rss 1GiB",
	"all FL servers on this host with at least 1 GiB of RSS",
	NULL,
};

const struct cmd cmd_trim = {
	.name = "trim",
	.ends_first = true,
	.summary = "returns retained memory of live processes to the kernel",
	.description =
		"Calls the release function of the target's own allocator (glibc malloc_trim, "
		"jemalloc purge, tcmalloc ReleaseFreeMemory, mimalloc collect) on one "
		"borrowed idle thread, while all other threads keep running. Idle means that "
		"the thread waits in a system call; afterwards it continues to wait. The "
		"target needs no debugger, no restart and no code change. If it is not safe to "
		"touch, the command refuses it with the reason.\n\n"
		"With --every or --when it trims repeatedly, at intervals or while a "
		"condition holds, until the targets exit, a signal stops it (status 0), or "
		"--max-ineffective trims in a row release less than --min-release. Each trim "
		"is one log line on standard error, or with --json one line of JSON on "
		"standard output.",
	.examples = trim_examples,
	.options = trim_options_table,
	.options_size = sizeof(struct trim_options),
	.run = run_trim,
};
