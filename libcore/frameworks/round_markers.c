/* SPDX-License-Identifier: Apache-2.0 */
#include "frameworks/round_markers.h"

#include <string.h>

#include "base/text/regex.h"
#include "frameworks/framework.h"

/* Bytes of a line on which the regular expression is tried, since regexec(3) may take long. */
#define SEARCHED_MAX 4096U

/* Width of the columns of APPFL's tables, in characters. */
#define COLUMN 10U

/* The rest of a line that has not been read. */
struct log_cursor {
	const char *at, *end;
};

/* A marker that was found in a line. */
struct marker_match {
	enum flmem_round_kind kind;
	uint64_t number; /* number of the round, or of the chunk */
	const char *client;
	size_t client_length;
};

int flmem_rounds_init(struct flmem_rounds *rounds, const char *regex, struct flmem_error *err)
{
	int rc;

	*rounds = (struct flmem_rounds){0};
	if (!regex)
		return 0;
	rc = flmem_regex_compile(regex, REG_NEWLINE, "invalid regular expression for rounds",
				 &rounds->regex, err);
	rounds->has_regex = rc == 0;
	return rc;
}

void flmem_rounds_clear(struct flmem_rounds *rounds)
{
	if (rounds->has_regex)
		regfree(&rounds->regex);
	rounds->has_regex = false;
}

/* Moves the cursor past the next occurrence of the text. Returns false if there is none. */
static bool seek_text(struct log_cursor *c, const char *text)
{
	size_t length = strlen(text);
	const char *found = memmem(c->at, (size_t)(c->end - c->at), text, length);

	if (found)
		c->at = found + length;
	return found;
}

static bool read_marker_text(struct log_cursor *c, const char *text)
{
	size_t length = strlen(text);

	if ((size_t)(c->end - c->at) < length || memcmp(c->at, text, length) != 0)
		return false;
	c->at += length;
	return true;
}

static bool read_round_number(struct log_cursor *c, uint64_t *ret_number)
{
	const char *first = c->at;
	uint64_t number = 0;

	for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
		if (__builtin_mul_overflow(number, 10, &number) ||
		    __builtin_add_overflow(number, (uint64_t)(*c->at - '0'), &number))
			return false;
	*ret_number = number;
	return c->at > first;
}

static bool read_client(struct log_cursor *c, struct marker_match *mark)
{
	mark->client = c->at;
	while (c->at < c->end && (unsigned char)*c->at > ' ' && *c->at != '"' && *c->at != '\\')
		c->at++;
	mark->client_length = (size_t)(c->at - mark->client);
	return mark->client_length > 0;
}

/* Reads a number that is right-aligned in the ten columns after "]: " and followed by a space. */
static bool read_table_row(struct log_cursor *c, uint64_t *ret_number)
{
	struct log_cursor cell;

	if (!seek_text(c, "]: ") || (size_t)(c->end - c->at) <= COLUMN || c->at[COLUMN] != ' ')
		return false;
	cell = (struct log_cursor){.at = c->at, .end = c->at + COLUMN};
	while (cell.at < cell.end && *cell.at == ' ')
		cell.at++;
	return read_round_number(&cell, ret_number) && cell.at == cell.end;
}

/* Whether the text after `before` matches the marker. */
static bool matches_here(struct log_cursor *c, const struct flmem_round_marker *m,
			 struct marker_match *mark)
{
	uint64_t chunks;

	switch (m->kind) {
	case FLMEM_ROUND_ALL_FINISHED:
	case FLMEM_ROUND_COUNTED_START:
	case FLMEM_ROUND_COUNTED_END:
		return true;
	case FLMEM_ROUND_STARTED:
	case FLMEM_ROUND_FINISHED:
		return read_round_number(c, &mark->number) &&
		       (!m->after || read_marker_text(c, m->after));
	case FLMEM_ROUND_CLIENT:
		return read_client(c, mark) && (!m->after || read_marker_text(c, m->after));
	case FLMEM_ROUND_CLIENT_CHUNK:
		return read_round_number(c, &mark->number) && read_marker_text(c, "/") &&
		       read_round_number(c, &chunks) && read_marker_text(c, m->after) &&
		       read_client(c, mark);
	case FLMEM_ROUND_TABLE_ROW:
		return read_table_row(c, &mark->number);
	}
	return false;
}

static bool matches_marker(const struct flmem_round_marker *m, const char *line, size_t length,
			   struct marker_match *ret_mark)
{
	struct log_cursor c = {.at = line, .end = line + length};

	/*
	 * The same words may occur earlier in the line with other text after them, so the search
	 * goes on.
	 */
	while (seek_text(&c, m->before)) {
		struct log_cursor here = c;
		struct marker_match mark = {.kind = m->kind};

		if (matches_here(&here, m, &mark)) {
			*ret_mark = mark;
			return true;
		}
	}
	return false;
}

static bool find_in_tables(const char *line, size_t length, struct marker_match *ret_mark)
{
	for (const struct flmem_framework_ops *const *f = flmem_frameworks; *f; f++)
		for (const struct flmem_round_marker *m = (*f)->markers; m && m->before; m++)
			if (matches_marker(m, line, length, ret_mark))
				return true;
	return false;
}

/*
 * Returns the start of the line after a hole of NULs, at which a search would end. A log has such a
 * hole if it was truncated while its writer kept its offset.
 */
static char *pass_nuls(char *line, size_t *length)
{
	while (*length && !*line) {
		line++;
		(*length)--;
	}
	for (size_t i = 0; i < *length && i < SEARCHED_MAX; i++)
		if (!line[i])
			line[i] = ' ';
	return line;
}

static bool find_by_regex(const struct flmem_rounds *rounds, char *line, size_t length,
			  struct marker_match *ret_mark)
{
	regmatch_t groups[2];
	struct log_cursor c;

	line = pass_nuls(line, &length);
	line[length < SEARCHED_MAX ? length : SEARCHED_MAX] = '\0';
	if (regexec(&rounds->regex, line, 2, groups, 0) != 0)
		return false;
	*ret_mark = (struct marker_match){.kind = FLMEM_ROUND_COUNTED_START};
	if (rounds->regex.re_nsub < 1 || groups[1].rm_so < 0)
		return true;
	c = (struct log_cursor){.at = line + groups[1].rm_so, .end = line + groups[1].rm_eo};
	ret_mark->kind = FLMEM_ROUND_STARTED;
	return read_round_number(&c, &ret_mark->number) && c.at == c.end;
}

static bool finish_round(struct flmem_rounds *r, struct flmem_round_change *change)
{
	if (!r->running)
		return false;
	r->running = false;
	change->finished = true;
	change->finished_number = r->current;
	return true;
}

static bool start_round(struct flmem_rounds *r, size_t log, uint64_t number,
			struct flmem_round_change *change)
{
	finish_round(r, change);
	r->running = r->any = true;
	r->ending = false;
	r->current = number;
	r->source_log = log;
	change->started = true;
	change->started_number = number;
	return true;
}

/* The bit of a log in sets of logs; 0 for a log beyond the number of bits. */
static uint64_t log_bit(size_t log)
{
	return log < 64 ? UINT64_C(1) << log : 0;
}

/*
 * Makes a log that reports the round without tasks the source of it. Such a log is more reliable
 * than that of a client, which reports only its tasks.
 */
static void match_rest(struct flmem_rounds *r, size_t log)
{
	if (!(r->task_logs & log_bit(r->source_log)) || !log_bit(log) ||
	    r->task_logs & log_bit(log))
		return;
	r->source_log = log;
	r->ending = false;
}

static bool start_numbered(struct flmem_rounds *r, size_t log, uint64_t number,
			   struct flmem_round_change *change)
{
	bool first = !r->numbered;

	r->numbered = true;
	/*
	 * Another log has reported the round already, or its task has, which a client's log reports
	 * first.
	 */
	if (r->any && number == r->current && (r->running || !first)) {
		match_rest(r, log);
		return false;
	}
	/* A lower number means a new job, but only in the log that reported the last round. */
	if (!first && r->any && number < r->current && log != r->source_log)
		return false;
	return start_round(r, log, number, change);
}

/* Whether rounds of a log may be counted: without numbers, only one log can be. */
static bool may_count(const struct flmem_rounds *r, size_t log)
{
	return !r->numbered && (!r->any || log == r->source_log);
}

static bool start_counted(struct flmem_rounds *r, size_t log, struct flmem_round_change *change)
{
	return may_count(r, log) && start_round(r, log, r->counted++, change);
}

static bool start_task(struct flmem_rounds *r, size_t log, struct flmem_round_change *change)
{
	r->open_task_logs |= log_bit(log);
	r->task_logs |= log_bit(log);
	return start_counted(r, log, change);
}

/* Notes the end of a task: if the log reported the task and then its number, it ends the round. */
static void end_task(struct flmem_rounds *r, size_t log)
{
	bool own = r->open_task_logs & log_bit(log);

	r->open_task_logs &= ~log_bit(log);
	if (may_count(r, log) || (own && log == r->source_log))
		r->ending = true;
}

static bool is_client(const struct flmem_rounds *r, const struct marker_match *mark)
{
	return strlen(r->first_client) == mark->client_length &&
	       memcmp(r->first_client, mark->client, mark->client_length) == 0;
}

/*
 * Notes an update of a client. The first client seen defines the rounds: its next update starts a
 * round.
 */
static bool start_by_client(struct flmem_rounds *r, size_t log, const struct marker_match *mark,
			    struct flmem_round_change *change)
{
	if (!may_count(r, log) || mark->client_length >= sizeof(r->first_client))
		return false;
	if (!r->first_client[0]) {
		memcpy(r->first_client, mark->client, mark->client_length);
		r->first_client[mark->client_length] = '\0';
	}
	return is_client(r, mark) && start_counted(r, log, change);
}

/*
 * Notes a chunk of an update. A line that looks like a whole update precedes each chunk, so such
 * lines no longer count; the first chunk was counted by that line.
 */
static bool start_by_chunk(struct flmem_rounds *r, size_t log, const struct marker_match *mark,
			   struct flmem_round_change *change)
{
	bool known = r->in_chunks;

	r->in_chunks = true;
	return known && mark->number == 1 && start_by_client(r, log, mark, change);
}

bool flmem_rounds_read(struct flmem_rounds *rounds, size_t log, char *line, size_t length,
		       struct flmem_round_change *ret_change)
{
	struct marker_match mark;

	*ret_change = (struct flmem_round_change){0};
	if (rounds->has_regex ? !find_by_regex(rounds, line, length, &mark)
			      : !find_in_tables(line, length, &mark))
		return false;
	switch (mark.kind) {
	case FLMEM_ROUND_STARTED:
	case FLMEM_ROUND_TABLE_ROW:
		return start_numbered(rounds, log, mark.number, ret_change);
	case FLMEM_ROUND_FINISHED:
		return rounds->any && mark.number == rounds->current &&
		       finish_round(rounds, ret_change);
	case FLMEM_ROUND_ALL_FINISHED:
		return log == rounds->source_log && finish_round(rounds, ret_change);
	case FLMEM_ROUND_COUNTED_START:
		return start_task(rounds, log, ret_change);
	case FLMEM_ROUND_COUNTED_END:
		end_task(rounds, log);
		return false;
	case FLMEM_ROUND_CLIENT:
		return !rounds->in_chunks && start_by_client(rounds, log, &mark, ret_change);
	case FLMEM_ROUND_CLIENT_CHUNK:
		return start_by_chunk(rounds, log, &mark, ret_change);
	}
	return false;
}

bool flmem_rounds_pause(struct flmem_rounds *rounds, struct flmem_round_change *ret_change)
{
	bool ending = rounds->ending;

	rounds->ending = false;
	*ret_change = (struct flmem_round_change){0};
	return ending && finish_round(rounds, ret_change);
}
