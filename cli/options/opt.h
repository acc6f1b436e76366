/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_OPT_H
#define FLMEM_CLI_OPT_H

/*
 * Describes options as tables. A command describes its options once, in an array that ends in a row
 * without a name; parsing, help, completions, man pages and the nearest-name hint all use that
 * array. Values are stored at `offset` in the command's own options struct, so there are no
 * globals.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <flmem/error.h>

enum opt_kind {
	OPT_FLAG,     /* bool; no value */
	OPT_TEXT,     /* const char * */
	OPT_TEXTS,    /* struct opt_texts; may repeat */
	OPT_NUMBER,   /* uint64_t */
	OPT_COUNT,    /* uint64_t, with a decimal suffix: 8B */
	OPT_SIZE,     /* uint64_t, bytes */
	OPT_DURATION, /* uint64_t, microseconds */
	OPT_PID,      /* pid_t */
	OPT_PIDS,     /* struct opt_pids; may repeat, comma lists allowed */
	OPT_CHOICE,   /* const char *, one of `choices` */
};

/* This says what a shell completes as the value. */
enum opt_complete {
	OPT_COMPLETE_NONE,
	OPT_COMPLETE_FILE,
	OPT_COMPLETE_DIRECTORY,
	OPT_COMPLETE_PID,
	OPT_COMPLETE_COMMAND,
	OPT_COMPLETE_TOPIC, /* topics of `flmem help` */
};

struct opt {
	const char *name; /* long name without its dashes */
	char letter;	  /* short name; 0: none */
	enum opt_kind kind;
	size_t offset;
	const char *metavar;	    /* placeholder, unless a few choices stand there; NULL: none */
	const char *const *choices; /* NULL-terminated, for OPT_CHOICE */
	enum opt_complete complete;
	bool zero; /* the number may be 0; without this, 0 is refused, since it means not given */
	bool once; /* a second value is refused instead of replacing the first */
	size_t given;	  /* offset of a bool that is set when the option is given; 0: none */
	const char *help; /* help text: one sentence without a full stop */
};

/* Every command accepts it, so no table lists it. */
extern const struct opt opt_help;

/* These are the options of the program itself, given in place of a command. */
extern const struct opt opt_globals[];

struct opt_pids {
	pid_t *values;
	size_t count;
};

struct opt_texts {
	const char **values;
	size_t count;
};

/* These are words of a command line; values[count] is NULL. */
struct opt_rest {
	char **values;
	int count;
};

/*
 * Parses `words` (argv after the command's name) into `options` and leaves the words that are not
 * options in `words`. Options are accepted anywhere before "--"; with `stop_at_first` the first
 * other word ends them (for commands that take a command line). FLMEM_EUSAGE for an unknown option
 * (the message names the nearest one), a missing value or an invalid value.
 */
int opt_parse(const struct opt *table, void *options, struct opt_rest *words, bool stop_at_first,
	      struct flmem_error *err);

/* Returns true for an option whose value is the next word: "--role", "-r", but not "--role=x". */
bool opt_takes_next_word(const struct opt *table, const char *word);

/* Returns the index of a choice in its list, or `absent` if `value` is NULL or not in the list. */
unsigned opt_choice_index(const char *const *choices, const char *value, unsigned absent);

/* Frees what opt_parse() allocated inside `options`. */
void opt_clear(const struct opt *table, void *options);

/*
 * Returns the name nearest to `word` by edit distance, or NULL when the distance exceeds 1/3 of its
 * length.
 */
const char *opt_nearest(const char *word, const char *const *names, size_t count);

/* Does the same for the long names of a table; `word` begins with two dashes. */
const char *opt_nearest_option(const struct opt *table, const char *word);

#endif
