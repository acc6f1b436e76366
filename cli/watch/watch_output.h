/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_WATCH_OUTPUT_H
#define FLMEM_CLI_WATCH_OUTPUT_H

/*
 * Declares the outputs of a watch. One watch can have several: lines on standard output, a page, a
 * screen. A new kind of output is one function that fills a struct watch_output, and one line in
 * cmd_watch.c.
 */

#include <stdbool.h>
#include <stddef.h>

#include <flmem/error.h>
#include <flmem/recommend.h>
#include <flmem/watch.h>

#include "options/opt.h"

/* Any function may be NULL. Returning false ends the watch. */
struct watch_output {
	void *state;
	bool (*sample)(void *state, const struct flmem_watch_sample *sample);
	bool (*round)(void *state, const struct flmem_watch_round *round);
	bool (*action)(void *state, const struct flmem_watch_action *action);
	bool (*tick)(void *state);
	void (*warning)(void *state, const char *text);
	/* Called at the end of the watch; a failure becomes the exit status. */
	int (*finish)(void *state, const struct flmem_watch_summary *summary,
		      const struct flmem_watch_advice *advice, struct flmem_error *err);
	void (*close)(void *state); /* always called, also after a failed watch */
};

#define WATCH_OUTPUTS_MAX 4U

struct watch_outputs {
	struct watch_output outputs[WATCH_OUTPUTS_MAX];
	size_t count;
};

/* Returns callbacks that forward to all outputs; the outputs must outlive them. */
struct flmem_watch_callbacks watch_outputs_callbacks(struct watch_outputs *outputs);

/* Finishes all outputs, also after one failed. Returns the first failure. */
int watch_outputs_finish(struct watch_outputs *outputs, const struct flmem_watch_summary *summary,
			 const struct flmem_watch_advice *advice, struct flmem_error *err);

void watch_outputs_close(struct watch_outputs *outputs);

/*
 * Makes an output of lines: one for each round, for each sample (as text only of those that
 * changed, or once a minute), and the summary; with `quiet` only the summary. Warnings go to
 * stderr.
 */
int watch_output_lines(bool json, bool quiet, struct watch_output *ret_output,
		       struct flmem_error *err);

/* Makes an output of the summary alone: a screen shows the rest. */
void watch_output_summary(struct watch_output *ret_output);

/*
 * Makes an output on a live screen. Returns false without a suitable terminal. The watch with these
 * options gets a snapshot if it has none; close the screen before the snapshot.
 */
bool watch_output_live(struct flmem_watch_options *watch, struct watch_output *ret_output);

/* Makes an output of warnings on stderr alone: standard output is for a page. */
void watch_output_warnings(struct watch_output *ret_output);

/* Returns true for "-", which means standard output. */
bool watch_page_is_stdout(const char *path);

/*
 * Makes an output of one HTML page, written at the end, with the largest sites of heap profiles.
 * The output keeps `profiles`. Returns FLMEM_EUSAGE if the file cannot be written there, or one
 * of `profiles` is not a heap profile.
 */
int watch_output_page(const char *path, const struct opt_texts *profiles,
		      struct watch_output *ret_output, struct flmem_error *err);

#endif
