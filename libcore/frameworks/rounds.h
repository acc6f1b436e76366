/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_ROUNDS_H
#define FLMEM_FRAMEWORKS_ROUNDS_H

/*
 * Rounds as logs tell of them. Each framework has a table of the texts that mark rounds; here they
 * are looked for in lines of logs, and what several logs say is made into one sequence. Lines are
 * untrusted bytes of any length. A line is matched wherever in it the text stands, so that headers,
 * colours, centred texts on lines of their own and JSON around it do not matter.
 */

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>

#include "base/cleanup.h"

enum flmem_round_kind {
	FLMEM_ROUND_STARTED,	   /* `before` NUMBER `after`: this round has started */
	FLMEM_ROUND_FINISHED,	   /* the same: it is over */
	FLMEM_ROUND_ALL_FINISHED,  /* `before`: the last round is over */
	FLMEM_ROUND_COUNTED_START, /* `before`: a round starts whose number is not told */
	FLMEM_ROUND_COUNTED_END,   /* `before`: it is over */
	FLMEM_ROUND_CLIENT,	   /* `before` CLIENT: a round starts when a client comes again */
	FLMEM_ROUND_CLIENT_CHUNK,  /* `before` CHUNK/CHUNKS `after` CLIENT: the same in pieces */
	FLMEM_ROUND_TABLE_ROW, /* `before` ... "]: ", number in ten columns: a round's results */
};

/* A table of them ends in a row without `before`. */
struct flmem_round_marker {
	enum flmem_round_kind kind;
	const char *before;
	const char *after; /* NULL: nothing need follow */
};

#define FLMEM_ROUND_CLIENT_MAX 64U

struct flmem_rounds {
	regex_t regex; /* instead of the tables */
	bool has_regex;
	bool running;
	bool ending;   /* the task of the round that runs is over, as far as logs were read */
	bool any;      /* some round was seen, `current` is one */
	bool numbered; /* numbers are told, so counting is not needed any more */
	uint64_t current;
	size_t leader; /* log that told of it */
	uint64_t counted;
	uint64_t tasked;    /* logs that told of a task and not yet of its end; a bit for each */
	uint64_t task_logs; /* that ever told of one */
	char client[FLMEM_ROUND_CLIENT_MAX]; /* whose coming again starts a round */
	bool in_chunks;
};

/* What a line changed. Both may be true: then the next round starts where the last one ends. */
struct flmem_round_change {
	bool finished, started;
	uint64_t finished_number, started_number;
};

/*
 * `regex` is a POSIX extended expression that is searched for in each line instead of the tables of
 * the frameworks; its first group, if it has one, is the number of the round that starts. NULL:
 * none. FLMEM_EUSAGE when it does not compile.
 */
int flmem_rounds_init(struct flmem_rounds *rounds, const char *regex, struct flmem_error *err);

void flmem_rounds_clear(struct flmem_rounds *rounds);

#define FLMEM_AUTO_ROUNDS FLMEM_AUTO(flmem_rounds_clear)

/*
 * Reads one line of the log with this index; true when it changed the rounds. line[length] must be
 * readable and is set to NUL for the regular expression.
 */
bool flmem_rounds_read(struct flmem_rounds *rounds, size_t log, char *line, size_t length,
		       struct flmem_round_change *ret_change);

/*
 * To be said when all logs have been read as far as they go; true when that changed the rounds. The
 * end of a client's task is put off until then: the log of its server, which may be read behind
 * its own, may tell that the round goes on.
 */
bool flmem_rounds_pause(struct flmem_rounds *rounds, struct flmem_round_change *ret_change);

#endif
