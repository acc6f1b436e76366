/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_ROUND_MARKERS_H
#define FLMEM_FRAMEWORKS_ROUND_MARKERS_H

/*
 * Finds rounds in logs. Each framework has a table of texts that mark rounds. The functions here
 * search lines of logs for these and merge the reports of several logs into one sequence. Lines are
 * untrusted bytes of any length. The text may be anywhere in a line, so that headers, colours,
 * centred texts on separate lines and JSON around it do not matter.
 */

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>

#include "base/cleanup.h"

/* What a marker means, and which texts and numbers it consists of. */
enum flmem_round_kind {
	FLMEM_ROUND_STARTED,	   /* `before` NUMBER `after`: round NUMBER has started */
	FLMEM_ROUND_FINISHED,	   /* `before` NUMBER `after`: round NUMBER has ended */
	FLMEM_ROUND_ALL_FINISHED,  /* `before`: the last round has ended */
	FLMEM_ROUND_COUNTED_START, /* `before`: a round starts, without its number */
	FLMEM_ROUND_COUNTED_END,   /* `before`: the round has ended */
	/* `before` CLIENT `after`: a round starts when the first client sends again. */
	FLMEM_ROUND_CLIENT,
	/* `before` CHUNK/CHUNKS `after` CLIENT: the same, for updates in chunks. */
	FLMEM_ROUND_CLIENT_CHUNK,
	/* `before` ... "]: ", number in ten columns: the results of a round. */
	FLMEM_ROUND_TABLE_ROW,
};

/* One marker. A table of markers ends in a row without `before`. */
struct flmem_round_marker {
	enum flmem_round_kind kind;
	const char *before;
	const char *after; /* NULL: any text may follow */
};

#define FLMEM_ROUND_CLIENT_MAX 64U

/* The rounds found so far in several logs. Use flmem_rounds_init(). */
struct flmem_rounds {
	regex_t regex; /* searched for instead of the tables of markers */
	bool has_regex;
	bool running;
	bool ending;	   /* the task of the running round has ended in the logs read so far */
	bool any;	   /* a round was seen: `current` is valid */
	bool numbered;	   /* logs report numbers: rounds are not counted any more */
	uint64_t current;  /* number of the running round, or of the last one */
	size_t source_log; /* index of the log that reported `current` */
	uint64_t counted;  /* rounds counted without numbers */
	/* Logs that reported a task but not its end; one bit for each log. */
	uint64_t open_task_logs;
	uint64_t task_logs; /* logs that have reported a task; one bit for each log */
	/* The client whose next update starts a round. */
	char first_client[FLMEM_ROUND_CLIENT_MAX];
	bool in_chunks; /* that client sends in chunks */
};

/* What a line changed. If both are true, the next round starts where the last one ends. */
struct flmem_round_change {
	bool finished, started;
	uint64_t finished_number, started_number;
};

/*
 * Initialises the rounds. `regex` is a POSIX extended expression that is searched for in each line
 * instead of the markers of the frameworks; its first group, if it has one, is the number of the
 * round that starts. NULL: the markers are used. FLMEM_EUSAGE if it does not compile.
 */
int flmem_rounds_init(struct flmem_rounds *rounds, const char *regex, struct flmem_error *err);

void flmem_rounds_clear(struct flmem_rounds *rounds);

#define FLMEM_AUTO_ROUNDS FLMEM_AUTO(flmem_rounds_clear)

/*
 * Reads one line of the log with the index `log`. Returns true if the line changed the rounds.
 * line[length] must be writable; it is set to NUL for the regular expression.
 */
bool flmem_rounds_read(struct flmem_rounds *rounds, size_t log, char *line, size_t length,
		       struct flmem_round_change *ret_change);

/*
 * Must be called when all logs are read to their current ends. Returns true if that changed the
 * rounds: the end of a client's task is deferred until then, as the log of its server, which may be
 * read later, may report that the round continues.
 */
bool flmem_rounds_pause(struct flmem_rounds *rounds, struct flmem_round_change *ret_change);

#endif
