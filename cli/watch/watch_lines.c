/* SPDX-License-Identifier: Apache-2.0 */
/* A watch as lines on standard output, text or JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <flmem/report.h>
#include <flmem/text.h>

#include "print/print_watch.h"
#include "watch/watch_output.h"

/* Readers see each line immediately; a closed pipe ends the watch. */
static bool flush_lines(void *state)
{
	(void)state;
	return fflush(stdout) == 0 && !ferror(stdout);
}

static bool print_json(char *line)
{
	if (line)
		fputs(line, stdout);
	free(line);
	return line;
}

static bool json_sample(void *state, const struct flmem_watch_sample *sample)
{
	(void)state;
	return print_json(flmem_report_watch_sample_json(sample));
}

static bool json_round(void *state, const struct flmem_watch_round *round)
{
	(void)state;
	return print_json(flmem_report_watch_round_json(round));
}

static bool json_action(void *state, const struct flmem_watch_action *action)
{
	(void)state;
	return print_json(flmem_report_watch_action_json(action));
}

static int json_finish(void *state, const struct flmem_watch_summary *summary,
		       const struct flmem_watch_advice *advice, struct flmem_error *err)
{
	(void)state;
	if (!print_json(flmem_report_watch_summary_json(summary, advice)))
		return flmem_error_set(err, FLMEM_EFAILED, 0, "out of memory");
	return 0;
}

static bool text_sample(void *state, const struct flmem_watch_sample *sample)
{
	(void)state;
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

static void warn_lost(void *state, const char *path, int error)
{
	char shown[128];

	(void)state;
	fprintf(stderr,
		"flmem watch: cannot record to '%s': %s; free some disk space, the watch goes on\n",
		flmem_text_escape(path, shown, sizeof(shown)), strerror(error));
}

void watch_output_summary(struct watch_output *ret_output)
{
	*ret_output = (struct watch_output){.finish = text_finish};
}

void watch_output_lines(bool json, bool quiet, struct watch_output *ret_output)
{
	*ret_output = (struct watch_output){.finish = json ? json_finish : text_finish,
					    .record_lost = warn_lost};
	if (quiet)
		return;
	ret_output->sample = json ? json_sample : text_sample;
	ret_output->round = json ? json_round : text_round;
	ret_output->action = json ? json_action : text_action;
	ret_output->tick = flush_lines;
}
