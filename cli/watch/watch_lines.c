/* SPDX-License-Identifier: Apache-2.0 */
/* Prints a watch as lines on standard output, text or JSON. */
#include <stdio.h>
#include <stdlib.h>

#include <flmem/report.h>
#include <flmem/text.h>

#include "print/print_format.h"
#include "print/print_watch.h"
#include "watch/watch_output.h"

/* A sample is printed when memory has changed by this much, and at this interval. */
#define CHANGE_BYTES   (UINT64_C(1) << 20)
#define CHANGE_SHARE   100U
#define PRINT_EVERY_US 60000000U

/* Readers see each line immediately; a closed pipe ends the watch. */
static bool flush_lines(void *state)
{
	(void)state;
	return fflush(stdout) == 0 && !ferror(stdout);
}

static bool print_watch_json(char *line)
{
	if (line)
		fputs(line, stdout);
	free(line);
	return line;
}

static bool json_sample(void *state, const struct flmem_watch_sample *sample)
{
	(void)state;
	return print_watch_json(flmem_report_watch_sample_json(sample));
}

static bool json_round(void *state, const struct flmem_watch_round *round)
{
	(void)state;
	return print_watch_json(flmem_report_watch_round_json(round));
}

static bool json_action(void *state, const struct flmem_watch_action *action)
{
	(void)state;
	return print_watch_json(flmem_report_watch_action_json(action));
}

static int json_finish(void *state, const struct flmem_watch_summary *summary,
		       const struct flmem_watch_advice *advice, struct flmem_error *err)
{
	(void)state;
	if (!print_watch_json(flmem_report_watch_summary_json(summary, advice)))
		return flmem_error_nomem(err, "cannot print the summary");
	return 0;
}

/* This is the sample of a process that was printed last. */
struct printed_sample {
	pid_t pid;
	uint64_t start_time, at_us, rss_bytes;
};

struct line_output {
	struct printed_sample *printed;
	size_t count, room;
};

static struct printed_sample *add_printed(struct line_output *lines,
					  const struct flmem_watch_process *process)
{
	size_t room = lines->room ? lines->room * 2 : 16;
	struct printed_sample *grown = lines->printed;

	if (lines->count == lines->room) {
		grown = reallocarray(lines->printed, room, sizeof(*grown));
		if (!grown)
			return NULL;
		lines->printed = grown;
		lines->room = room;
	}
	lines->printed[lines->count] = (struct printed_sample){
		.pid = process->pid, .start_time = process->start_time, .rss_bytes = UINT64_MAX};
	return &lines->printed[lines->count++];
}

static struct printed_sample *find_printed(struct line_output *lines,
					   const struct flmem_watch_process *process)
{
	for (size_t i = 0; i < lines->count; i++)
		if (lines->printed[i].pid == process->pid &&
		    lines->printed[i].start_time == process->start_time)
			return &lines->printed[i];
	return add_printed(lines, process);
}

/* Returns whether a sample is printed: in a log file a line every second would hide the events. */
static bool is_news(const struct printed_sample *last, const struct flmem_watch_sample *sample)
{
	uint64_t before = last->rss_bytes, now = sample->rss_bytes;
	uint64_t change = now > before ? now - before : before - now;

	return sample->at_us - last->at_us >= PRINT_EVERY_US ||
	       (change >= CHANGE_BYTES && change >= before / CHANGE_SHARE);
}

static bool text_sample(void *state, const struct flmem_watch_sample *sample)
{
	struct printed_sample *last = find_printed(state, sample->process);

	if (last && !is_news(last, sample))
		return true;
	if (last) {
		last->at_us = sample->at_us;
		last->rss_bytes = sample->rss_bytes;
	}
	print_watch_sample(sample);
	return true;
}

static bool text_round(void *state, const struct flmem_watch_round *round)
{
	(void)state;
	print_watch_round(round);
	return true;
}

static bool text_action(void *state, const struct flmem_watch_action *action)
{
	(void)state;
	print_watch_action(action);
	return true;
}

static int text_finish(void *state, const struct flmem_watch_summary *summary,
		       const struct flmem_watch_advice *advice, struct flmem_error *err)
{
	(void)state;
	(void)advice;
	(void)err;
	print_watch_summary(summary);
	return 0;
}

static void print_warning(void *state, const char *text)
{
	char shown[ESCAPED_MESSAGE_MAX];

	(void)state;
	fprintf(stderr, "flmem watch: %s\n", flmem_text_escape(text, shown, sizeof(shown)));
}

static void close_lines(void *state)
{
	struct line_output *lines = state;

	free(lines->printed);
	free(lines);
}

void watch_output_warnings(struct watch_output *ret_output)
{
	*ret_output = (struct watch_output){.warning = print_warning};
}

void watch_output_summary(struct watch_output *ret_output)
{
	*ret_output = (struct watch_output){.finish = text_finish};
}

int watch_output_lines(bool json, bool quiet, struct watch_output *ret_output,
		       struct flmem_error *err)
{
	struct line_output *lines = calloc(1, sizeof(*lines));

	if (!lines)
		return flmem_error_nomem(err, "cannot print lines");
	*ret_output = (struct watch_output){.state = lines,
					    .finish = json ? json_finish : text_finish,
					    .warning = print_warning,
					    .close = close_lines};
	if (quiet)
		return 0;
	ret_output->sample = json ? json_sample : text_sample;
	ret_output->round = json ? json_round : text_round;
	ret_output->action = json ? json_action : text_action;
	ret_output->tick = flush_lines;
	return 0;
}
