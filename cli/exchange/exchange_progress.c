/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange/exchange_progress.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include <flmem/text.h>

#include "print/print_format.h"
#include "signals.h"

#define NOTE_SECONDS 60U

/*
 * Prints a retry: the first one, and then one each minute, since a log must not fill while a server
 * is away.
 */
static void note_retry(void *context, const struct flmem_error *why)
{
	struct exchange_progress *progress = context;
	char shown[ESCAPED_MESSAGE_MAX];
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (progress->quiet ||
	    (progress->noted_s && (uint64_t)now.tv_sec - progress->noted_s < NOTE_SECONDS))
		return;
	progress->noted_s = (uint64_t)now.tv_sec;
	aggregate_progress_hide(&progress->bar);
	fprintf(stderr, "flmem exchange %s: trying again: %s\n", progress->verb,
		flmem_text_escape(why->message, shown, sizeof(shown)));
}

void exchange_progress_begin(struct exchange_progress *progress, const char *verb, bool quiet,
			     struct flmem_exchange_server *server)
{
	*progress = (struct exchange_progress){
		.bar = {.end_fd = signals_catch_end(), .drawn = !quiet && isatty(STDERR_FILENO)},
		.verb = verb,
		.quiet = quiet,
	};
	server->progress = aggregate_progress_tick;
	server->retrying = note_retry;
	server->context = progress;
}

void exchange_progress_end(struct exchange_progress *progress)
{
	aggregate_progress_end(&progress->bar);
}
