/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_ROUND_MARKERS_H
#define FLMEM_FRAMEWORKS_ROUND_MARKERS_H

/*
 * Rounds as reported by logs. Each framework has a table of the texts that mark rounds; this file
 * searches lines of logs for them and merges the reports of several logs into one sequence. Lines
 * are untrusted bytes of any length. The text may be anywhere in a line, so that headers, colours,
 * centred texts on separate lines and JSON around it do not matter.
 */

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>

#include "base/cleanup.h"

enum flmem_round_kind {
	FLMEM_ROUND_STARTED,	   /* `before` NUMBER `after`: this round has started */
	FLMEM_ROUND_FINISHED,	   /* the same: the round has ended */
	FLMEM_ROUND_ALL_FINISHED,  /* `before`: the last round has ended */
	FLMEM_ROUND_COUNTED_START, /* `before`: a round starts, without its number */
	FLMEM_ROUND_COUNTED_END,   /* `before`: the round has ended */
	FLMEM_ROUND_CLIENT,	   /* `before` CLIENT `after`: one starts when it sends again */
	FLMEM_ROUND_CLIENT_CHUNK,  /* `before` CHUNK/CHUNKS `after` CLIENT: the same, in chunks */
	FLMEM_ROUND_TABLE_ROW, /* `before` ... "]: ", number in ten columns: a round's results */
};

/* A table of markers ends in a row without `before`. */
struct flmem_round_marker {
	enum flmem_round_kind kind;
	const char *before;
	const char *after; /* NULL: any text may follow */
};

#define FLMEM_ROUND_CLIENT_MAX 64U

struct flmem_rounds {
	regex_t regex; /* instead of the tables */
	bool has_regex;
	bool running;
	bool ending;   /* the task of the running round is over in the logs read so far */
	bool any;      /* a round was seen, and `current` is valid */
	bool numbered; /* logs report numbers, so rounds are no longer counted */
	uint64_t current;
	size_t source_log; /* the log that reported it */
	uint64_t counted;
	/* Logs with a reported task whose end was not reported; a bit for each. */
	uint64_t open_task_logs;
	uint64_t task_logs; /* logs that have reported a task */
	/* A round starts with the next update of this client. */
	char first_client[FLMEM_ROUND_CLIENT_MAX];
	bool in_chunks;
};

/* The changes by a line. If both are true, the next round starts where the last one ends. */
struct flmem_round_change {
	bool finished, started;
	uint64_t finished_number, started_number;
};

/*
 * `regex` is a POSIX extended expression that is searched for in each line instead of the tables of
 * the frameworks; its first group, if it has one, is the number of the round that starts. NULL:
 * none. FLMEM_EUSAGE if it does not compile.
 */
int flmem_rounds_init(struct flmem_rounds *rounds, const char *regex, struct flmem_error *err);

void flmem_rounds_clear(struct flmem_rounds *rounds);

#define FLMEM_AUTO_ROUNDS FLMEM_AUTO(flmem_rounds_clear)

/*
 * Reads one line of the log with this index; true if it changed the rounds. line[length] must be
 * readable and is set to NUL for the regular expression.
 */
bool flmem_rounds_read(struct flmem_rounds *rounds, size_t log, char *line, size_t length,
		       struct flmem_round_change *ret_change);

/*
 * Call it when all logs are read to their current ends; true if that changed the rounds. The end of
 * a client's task is deferred until then: the log of its server, which may be read later, may
 * report that the round continues.
 */
bool flmem_rounds_pause(struct flmem_rounds *rounds, struct flmem_round_change *ret_change);

#endif
