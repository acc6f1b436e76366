/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <flmem/parse.h>
#include <flmem/recommend.h>
#include <flmem/text.h>
#include <flmem/watch.h>

#include "cmd.h"
#include "options/targets.h"
#include "signals.h"
#include "watch/watch_auto.h"
#include "watch/watch_listen.h"
#include "watch/watch_output.h"

struct watch_options {
	struct target_options targets;
	uint64_t interval_us;
	uint64_t duration_us;
	uint64_t rounds;
	struct opt_texts logs;
	const char *round_regex;
	const char *record;
	const char *replay;
	const char *listen;
	const char *report;
	struct opt_texts profiles;
	uint64_t fail_above_bytes;
	const char *fail_growth;
	struct auto_options automatic;
	struct flmem_condition *when; /* --when after parsing; owned */
	bool exact_peaks;
	bool wait;
	bool quiet;
	bool json;
};

/* Parses SIZE/round or SIZE/h. */
static int parse_growth(const char *text, struct flmem_growth_limit *ret_limit,
			struct flmem_error *err)
{
	const char *slash = strrchr(text, '/');
	char size[32];
	uint64_t bytes;

	if (slash && (size_t)(slash - text) < sizeof(size)) {
		memcpy(size, text, (size_t)(slash - text));
		size[slash - text] = '\0';
		if (flmem_parse_size(size, &bytes, NULL))
			bytes = 0;
		if (bytes && strcmp(slash, "/round") == 0) {
			ret_limit->per_round_bytes = bytes;
			return 0;
		}
		if (bytes && strcmp(slash, "/h") == 0) {
			ret_limit->per_hour_bytes = bytes;
			return 0;
		}
	}
	return flmem_parse_invalid(FLMEM_VALUE_RATE, text, "fail-growth", err);
}

/* Refuses options that a recording already determines. */
static int check_replay(const struct watch_options *o, struct flmem_error *err)
{
	if (targets_given(&o->targets) || o->targets.role || o->targets.min_rss_bytes)
		return flmem_error_set(
			err, FLMEM_EUSAGE, 0,
			"--replay shows all processes of the recording; remove the target options");
	if (o->automatic.on)
		return flmem_error_set(
			err, FLMEM_EUSAGE, 0,
			"--auto trims live processes and cannot be combined with --replay");
	if (o->record || o->logs.count || o->round_regex || o->rounds || o->duration_us ||
	    o->listen || o->wait || o->exact_peaks || o->interval_us)
		return flmem_error_set(
			err, FLMEM_EUSAGE, 0,
			"--replay cannot be combined with --record, --log, --listen, "
			"--round-regex, --rounds, --exact-peaks, --wait, --interval or --duration, "
			"which need a live watch");
	return 0;
}

static int check_streams(const struct watch_options *o, struct flmem_error *err)
{
	static const char dash[] = "-";

	if (o->profiles.count && !o->report)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "--profile shows heap profiles on the page of --report, "
				       "which is not given; flmem profile stats prints one");
	if (watch_page_is_stdout(o->report) && o->json)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "--report - and --json both write to standard output; give "
				       "the page a file");
	if ((o->record && strcmp(o->record, dash) == 0) ||
	    (o->replay && strcmp(o->replay, dash) == 0))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "a recording is a file: '-' is not one (./- is)");
	return 0;
}

static int make_watch_options(struct watch_options *o, struct flmem_watch_options *ret_options,
			      struct flmem_error *err)
{
	int rc = check_streams(o, err);

	if (rc)
		return rc;
	*ret_options = (struct flmem_watch_options){
		.interval_us = o->interval_us,
		.duration_us = o->duration_us,
		.rounds = o->rounds,
		.logs = o->logs.values,
		.log_count = o->logs.count,
		.round_regex = o->round_regex,
		.record_path = o->record,
		.fail_above_bytes = o->fail_above_bytes,
		.stop_fd = -1,
		.wait = o->wait,
		.exact_peaks = o->exact_peaks,
	};
	if (o->fail_growth && parse_growth(o->fail_growth, &ret_options->fail_growth, err))
		return err->code;
	if (auto_parse(&o->automatic, &o->when, &ret_options->automatic, err))
		return err->code;
	if (o->replay)
		return check_replay(o, err);
	return targets_selection(&o->targets, &ret_options->selection, err);
}

/* This is the state of one run of the command. */
struct session {
	struct flmem_watch_options watch;
	struct watch_listen listen;
	struct watch_outputs outputs;
	struct flmem_watch_summary summary;
	struct flmem_watch_advice advice;
};

/* Chooses the outputs that are not a screen. A page on standard output excludes all others. */
static int choose_lines(const struct watch_options *o, bool live, struct watch_output *ret_output,
			struct flmem_error *err)
{
	if (watch_page_is_stdout(o->report))
		watch_output_warnings(ret_output);
	else if (live)
		watch_output_summary(ret_output);
	else
		return watch_output_lines(o->json, o->quiet, ret_output, err);
	return 0;
}

/* Chooses all outputs. A screen replaces the lines, except for the summary. */
static int choose_outputs(const struct watch_options *o, struct session *session,
			  struct flmem_error *err)
{
	struct watch_outputs *all = &session->outputs;
	bool live = !o->replay && !o->json && !o->quiet && !watch_page_is_stdout(o->report) &&
		    watch_output_live(&session->watch, &all->outputs[all->count]);
	int rc = 0;

	all->count += live;
	if (o->report) {
		rc = watch_output_page(o->report, &o->profiles, &all->outputs[all->count], err);
		all->count += rc == 0;
	}
	if (!rc)
		rc = choose_lines(o, live, &all->outputs[all->count], err);
	all->count += !rc;
	return rc;
}

/* Opens the outputs. The screen opens last, as messages would overwrite it. */
static int begin_session(const struct watch_options *o, struct session *session,
			 struct flmem_error *err)
{
	int rc = 0;

	if (!o->replay) {
		cmd_raise_descriptor_limit(); /* it needs two descriptors for each process */
		session->watch.stop_fd = signals_catch_end();
		if (o->listen)
			rc = watch_listen_begin(o->listen, &session->watch, &session->listen, err);
	}
	return rc ? rc : choose_outputs(o, session, err);
}

static void end_session(struct session *session)
{
	flmem_watch_advice_clear(&session->advice);
	flmem_watch_summary_clear(&session->summary);
	watch_outputs_close(&session->outputs);
	watch_listen_end(&session->listen);
	if (session->watch.stop_fd >= 0)
		close(session->watch.stop_fd);
}

static int watch_or_replay(const struct watch_options *o, struct session *session,
			   struct flmem_error *err)
{
	const struct flmem_watch_callbacks callbacks = watch_outputs_callbacks(&session->outputs);
	int rc;

	if (o->replay)
		return flmem_watch_replay(o->replay, &session->watch, &callbacks, &session->summary,
					  err);
	rc = flmem_watch(&session->watch, &callbacks, &session->summary, err);
	if (rc == FLMEM_ENOPROC && !targets_are_explicit(&o->targets))
		targets_nothing_matched(&o->targets, err);
	return rc;
}

/*
 * Chooses the rules for findings. Lines without --json show no findings; a recording has no live
 * processes.
 */
static enum flmem_watch_rules choose_rules(const struct watch_options *o)
{
	if (o->report && !o->replay)
		return FLMEM_WATCH_RULES_LIVE;
	return o->report || o->json ? FLMEM_WATCH_RULES_TRENDS : FLMEM_WATCH_RULES_NONE;
}

/* Prints warnings about the recording on stderr. */
static void warn_about_recording(const struct watch_options *o,
				 const struct flmem_watch_summary *summary)
{
	char path[128], count[FLMEM_TEXT_COUNTED_MAX];

	if (summary->record_lost)
		fprintf(stderr,
			"flmem watch: %s could not be written to '%s': %s; free some disk space\n",
			flmem_text_counted(summary->record_lost, "block", count, sizeof(count)),
			flmem_text_escape(o->record, path, sizeof(path)),
			strerror(summary->record_errno));
	if (summary->record_skipped_bytes)
		fprintf(stderr, "flmem watch: %s of '%s' %s %s and skipped\n",
			flmem_text_counted(summary->record_skipped_bytes, "byte", count,
					   sizeof(count)),
			flmem_text_escape(o->replay, path, sizeof(path)),
			summary->record_skipped_bytes == 1 ? "is" : "are",
			summary->record_skipped_why);
	if (summary->record_overlaps)
		fprintf(stderr,
			"flmem watch: '%s' has %s that %s before the end of the one before: it was "
			"joined from recordings that overlap or are in another order, or the clock "
			"was set back; the trend of a process counts from there\n",
			flmem_text_escape(o->replay, path, sizeof(path)),
			flmem_text_counted(summary->record_overlaps, "watch", count, sizeof(count)),
			summary->record_overlaps == 1 ? "begins" : "begin");
}

static int watch_and_report(const struct watch_options *o, struct session *session,
			    struct flmem_error *err)
{
	int rc = begin_session(o, session, err);

	if (!rc)
		rc = watch_or_replay(o, session, err);
	if (!rc)
		rc = flmem_recommend_watch(&session->summary, choose_rules(o), &session->advice,
					   err);
	if (rc)
		return rc;
	rc = watch_outputs_finish(&session->outputs, &session->summary, &session->advice, err);
	warn_about_recording(o, &session->summary);
	return rc;
}

static void warn_undecided(const struct flmem_watch_summary *summary)
{
	for (size_t i = 0; i < summary->count; i++)
		if (summary->results[i].undecided)
			fprintf(stderr, "flmem watch: --fail-growth: process %d: %s\n",
				(int)summary->results[i].process.pid,
				summary->results[i].undecided);
}

/*
 * Returns whether it is undecided that the memory limit was exceeded: the lost part of a damaged
 * recording may have been above it.
 */
static bool is_above_undecided(const struct watch_options *o,
			       const struct flmem_watch_summary *summary)
{
	if (!o->fail_above_bytes || !summary->record_skipped_bytes)
		return false;
	fprintf(stderr, "flmem watch: --fail-above: undecided, as what is damaged may have been "
			"above the limit\n");
	return true;
}

/*
 * Returns the result. An exceeded limit takes precedence: it is certain, whatever else is missing.
 */
static int result_of(const struct watch_options *o, const struct flmem_watch_summary *summary)
{
	if (summary->limit_passed)
		return FLMEM_EFINDINGS;
	if (summary->record_lost)
		return FLMEM_EFAILED;
	if (!summary->limit_undecided)
		return is_above_undecided(o, summary) ? FLMEM_EUNDECIDED : 0;
	warn_undecided(summary);
	return FLMEM_EUNDECIDED;
}

static int watch_processes(const struct cmd *cmd, struct watch_options *o,
			   const struct opt_rest *rest)
{
	struct session session = {.watch = {.stop_fd = -1}};
	struct flmem_error err = {0};
	int rc, result;

	if (cmd_no_arguments(cmd, rest, &err) || make_watch_options(o, &session.watch, &err))
		return cmd_fail(cmd, o->json, &err);
	rc = watch_and_report(o, &session, &err);
	result = rc ? 0 : result_of(o, &session.summary);
	end_session(&session);
	if (rc)
		return cmd_fail(cmd, o->json, &err);
	return flmem_code_exit_status(result);
}

static int run_watch(const struct cmd *cmd, void *options, const struct opt_rest *rest)
{
	struct watch_options *o = options;
	int status = watch_processes(cmd, o, rest);

	flmem_condition_free(o->when);
	return status;
}

static const struct opt watch_options_table[] = {
	TARGET_OPTIONS(struct watch_options, targets),
	{.name = "interval",
	 .letter = 'i',
	 .kind = OPT_DURATION,
	 .offset = offsetof(struct watch_options, interval_us),
	 .metavar = "TIME",
	 .help = "sampling interval (default 1s, at least 10ms)"},
	{.name = "duration",
	 .letter = 'd',
	 .kind = OPT_DURATION,
	 .offset = offsetof(struct watch_options, duration_us),
	 .metavar = "TIME",
	 .help = "stop after this time (default: when the processes have exited)"},
	{.name = "log",
	 .letter = 'l',
	 .kind = OPT_TEXTS,
	 .offset = offsetof(struct watch_options, logs),
	 .metavar = "FILE",
	 .complete = OPT_COMPLETE_FILE,
	 .help = "log file of the job, in which the rounds are found: of "
		 "NVFlare (text or JSON), APPFL or Flower; may be repeated: a "
		 "process that writes to one of several logs uses the rounds of "
		 "that log"},
	{.name = "rounds",
	 .kind = OPT_NUMBER,
	 .offset = offsetof(struct watch_options, rounds),
	 .metavar = "N",
	 .help = "stop after this many complete rounds in the log"},
	{.name = "round-regex",
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct watch_options, round_regex),
	 .metavar = "REGEX",
	 .help = "for other logs: a line that matches starts a round; the first "
		 "group is the round number"},
	{.name = "record",
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct watch_options, record),
	 .metavar = "FILE",
	 .complete = OPT_COMPLETE_FILE,
	 .help = "append all samples and rounds to this file, for --replay and "
		 "flmem recommend"},
	{.name = "replay",
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct watch_options, replay),
	 .metavar = "FILE",
	 .complete = OPT_COMPLETE_FILE,
	 .help = "replay a recording instead of watching live processes"},
	{.name = "listen",
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct watch_options, listen),
	 .metavar = "ADDRESS:PORT",
	 .help = "serve metrics for Prometheus at http://ADDRESS:PORT/metrics; port 0 selects a "
		 "free port and prints it"},
	{.name = "report",
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct watch_options, report),
	 .metavar = "FILE",
	 .complete = OPT_COMPLETE_FILE,
	 .help = "write a self-contained HTML page at the end, with the figures "
		 "and the findings of 'flmem recommend'; '-' is standard output"},
	{.name = "profile",
	 .kind = OPT_TEXTS,
	 .offset = offsetof(struct watch_options, profiles),
	 .metavar = "FILE",
	 .complete = OPT_COMPLETE_FILE,
	 .help = "with --report: add this heap profile of 'flmem profile' to "
		 "the page, which then shows which code holds the memory; may "
		 "be repeated"},
	{.name = "fail-above",
	 .kind = OPT_SIZE,
	 .offset = offsetof(struct watch_options, fail_above_bytes),
	 .metavar = "SIZE",
	 .help = "exit with status 1 if the RSS of a process exceeded this size"},
	{.name = "fail-growth",
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct watch_options, fail_growth),
	 .metavar = "RATE",
	 .help = "exit with status 1 if the memory of a process grew faster, "
		 "for example 10MiB/round or 1GiB/h; with status 9 if the watch "
		 "was too short to decide that"},
	AUTO_OPTIONS(struct watch_options, automatic),
	{.name = "exact-peaks",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct watch_options, exact_peaks),
	 .help = "with --log: use the kernel's own peak of each round instead "
		 "of the highest sample; this resets the peak that the "
		 "processes themselves see (VmHWM, ru_maxrss)"},
	{.name = "wait",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct watch_options, wait),
	 .help = "with --name or --all: wait until a process matches"},
	{.name = "quiet",
	 .letter = 'q',
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct watch_options, quiet),
	 .help = "print the summary only"},
	{.name = "json",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct watch_options, json),
	 .help = "print one JSON object per line, the summary last"},
	{0},
};

static const char *const watch_examples[] = {
	"flmem watch --pid 4242",
	"watch process 4242 until it exits or Ctrl-C is pressed",
	"flmem watch --pid 4242 --log /srv/fl/server/log.txt",
	"by round, for the NVFlare job that writes this log",
	"flmem watch --all --role client --duration 10m --json",
	"all FL clients on this host for ten minutes, for a script",
	"flmem watch --tree 4242 --record /var/tmp/job.rec",
	"record the watch; flmem watch --replay /var/tmp/job.rec shows it again",
	"flmem watch --all --role client --quiet --listen 127.0.0.1:9477",
	"metrics of all FL clients on this host, for Prometheus to scrape",
	"flmem watch --replay /var/tmp/job.rec --report job.html",
	"write an HTML page: figures, trend, forecast, rounds",
	"flmem watch --pid 4242 --report job.html --profile client.prof",
	"also the code that allocated the memory, from flmem profile attach",
	"flmem watch --name train.py --fail-growth 50MiB/h",
	"for CI: status 1 if memory grows faster",
	"flmem watch --name simulator_worker --wait --record /var/tmp/job.rec",
	"start before the job does",
	"flmem watch --tree 4242 --log /srv/fl/server/log.txt --auto",
	"also trim retained memory after each round",
	NULL,
};

const struct cmd cmd_watch = {
	.name = "watch",
	.ends_first = true,
	.summary = "watches memory over time and by round: trend and forecast",
	.description =
		"Samples counters of the processes without affecting them, and at the end "
		"reports whether their memory is flat, climbing, stepped or falling, with a "
		"confidence, the growth rate, and the time until the limit of the control "
		"group or the host is reached. RSS that does not fall does not indicate a "
		"leak; RSS that is higher after each round does. With a log of the job (--log) "
		"memory "
		"is compared at the ends of rounds, otherwise over equal intervals of time.\n\n"
		"On a terminal it shows a screen with one row per process (needs ncurses); "
		"keys sort the rows, predict what a trim would release, and trim. If standard "
		"output is not a terminal, or TERM is dumb, it prints a line per round, and "
		"one when memory has changed or a minute has passed. NO_COLOR disables "
		"colours.",
	.examples = watch_examples,
	.options = watch_options_table,
	.options_size = sizeof(struct watch_options),
	.run = run_watch,
};
