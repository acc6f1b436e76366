/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_WATCH_OUTPUT_H
#define FLMEM_CLI_WATCH_OUTPUT_H

/*
 * What becomes of a watch. Several outputs may be told of the same one: lines on standard output, a
 * page, a screen. A new kind of output is one function that fills a struct watch_output, and one
 * line in cmd_watch.c.
 */

#include <stdbool.h>
#include <stddef.h>

#include <flmem/error.h>
#include <flmem/watch.h>

/* Any function may be NULL. Those that return false end the watch. */
struct watch_output {
	void *state;
	bool (*sample)(void *state, const struct flmem_watch_sample *sample);
	bool (*round)(void *state, const struct flmem_watch_round *round);
	bool (*action)(void *state, const struct flmem_watch_action *action);
	bool (*tick)(void *state);
	/* The watch is over; a failure becomes the exit status. */
	int (*finish)(void *state, const struct flmem_watch_summary *summary,
		      struct flmem_error *err);
	void (*close)(void *state); /* always, also after a watch that failed */
};

#define WATCH_OUTPUTS_MAX 4U

struct watch_outputs {
	struct watch_output outputs[WATCH_OUTPUTS_MAX];
	size_t count;
};

/* Callbacks that tell all outputs, which must outlive them. */
struct flmem_watch_callbacks watch_outputs_callbacks(struct watch_outputs *outputs);

/* All of them, also after one failed; the first failure. */
int watch_outputs_finish(struct watch_outputs *outputs, const struct flmem_watch_summary *summary,
			 struct flmem_error *err);

void watch_outputs_close(struct watch_outputs *outputs);

/* A line for each sample and round (none if `quiet`), and the summary. */
void watch_output_lines(bool json, bool quiet, struct watch_output *ret_output);

/*
 * A screen that is drawn again and again; false where there is no terminal, or none that can do it.
 * The watch with these options gets a board if it has none; to be closed before that board is.
 */
bool watch_output_live(struct flmem_watch_options *watch, struct watch_output *ret_output);

/* One HTML page, written at the end. FLMEM_EUSAGE when there is no place for it. */
int watch_output_page(const char *path, struct watch_output *ret_output, struct flmem_error *err);

#endif
