/* SPDX-License-Identifier: Apache-2.0 */
/* Follows the parts of a shell script: groups, functions, conditions, heredocs. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "frameworks/launch/launch_scan.h"

static enum flmem_launch_scope_kind scope_kind(const struct flmem_launch_scan *scan)
{
	return scan->launches->scopes[scan->scope].kind;
}

/* Begins a part. If the table is full, what follows belongs to the part around it. */
static void enter_scope(struct flmem_launch_scan *scan, enum flmem_launch_scope_kind kind,
			bool decided)
{
	struct flmem_launches *launches = scan->launches;
	size_t id = launches->scope_count + 1;

	if (id >= FLMEM_LAUNCH_SCOPES_MAX) {
		launches->cut = true;
		return;
	}
	launches->scope_count = id;
	launches->scopes[id] = (struct flmem_launch_scope){
		.kind = kind, .parent = scan->scope, .decided = decided};
	scan->scope = (unsigned char)id;
}

unsigned char flmem_launch_own_scope(struct flmem_launch_scan *scan)
{
	unsigned char around = scan->scope, own;

	enter_scope(scan, FLMEM_LAUNCH_SUBSHELL, false);
	own = scan->scope;
	scan->scope = around;
	return own;
}

static bool leave_scope(struct flmem_launch_scan *scan, enum flmem_launch_scope_kind kind)
{
	if (!scan->scope || scope_kind(scan) != kind)
		return false;
	scan->scope = scan->launches->scopes[scan->scope].parent;
	return true;
}

static void leave_chains(struct flmem_launch_scan *scan)
{
	while (leave_scope(scan, FLMEM_LAUNCH_CHAIN))
		continue;
}

static void read_heredoc_text(struct flmem_launch_scan *scan, size_t length)
{
	FLMEM_AUTO_FREE char *text = strndup(scan->text + scan->at, length);
	struct flmem_place place = {
		.start = scan->at, .end = scan->at, .line = scan->line, .column = 1};
	int launch = -1;

	scan->launches->cut |= !text;
	if (!text || (!flmem_launch_is_likely_in(scan->text, text) && !strstr(text, ".py")))
		return;
	if (!scan->line_runs) {
		flmem_launch_add_doubt(scan->launches, &place,
				       "the text of a heredoc starts it, elsewhere or not at all; "
				       "check the file that it becomes");
		return;
	}
	flmem_launch_read_text(scan->launches,
			       &(struct flmem_launch_text){.text = text,
							   .place = &place,
							   .scope = scan->scope,
							   .dropper = scan->heredoc_drops,
							   .is_heredoc = true},
			       &launch);
}

/* Reads the lines from the one after the command to the one of the mark. */
static void read_heredoc(struct flmem_launch_scan *scan, const char *mark)
{
	size_t length = 0, mark_length = strlen(mark);
	const char *text = scan->text + scan->at;

	while (text[length]) {
		const char *line = text + length + strspn(text + length, "\t");
		size_t end = strcspn(line, "\r\n");

		if (end == mark_length && strncmp(line, mark, end) == 0)
			break;
		length += strcspn(text + length, "\n");
		length += text[length] == '\n';
	}
	read_heredoc_text(scan, length);
	flmem_launch_skip(scan, length);
	flmem_launch_skip(scan, strcspn(scan->text + scan->at, "\n"));
}

static void end_script_line(struct flmem_launch_scan *scan)
{
	flmem_launch_skip(scan, 1);
	for (size_t i = 0; i < scan->mark_count; i++) {
		read_heredoc(scan, scan->marks[i]);
		flmem_launch_skip(scan, 1);
	}
	scan->mark_count = 0;
	scan->line_runs = scan->build_step = false;
	scan->heredoc_drops = NULL;
}

/*
 * Notes && and ||: whether the command after runs depends on those before. A row of && is one part.
 */
static void note_chain(struct flmem_launch_scan *scan, char mark, bool decided)
{
	if (mark == '|')
		leave_chains(scan);
	if (scope_kind(scan) != FLMEM_LAUNCH_CHAIN)
		enter_scope(scan, FLMEM_LAUNCH_CHAIN, decided);
	flmem_launch_skip(scan, 2);
}

/* Notes ";;": of the branches of a case statement only one runs. */
static void note_next_case(struct flmem_launch_scan *scan)
{
	bool decided = scan->launches->scopes[scan->scope].decided;

	if (leave_scope(scan, FLMEM_LAUNCH_CONDITION))
		enter_scope(scan, FLMEM_LAUNCH_CONDITION, decided);
	flmem_launch_skip(scan, 2);
}

/* Commands that fail only if the script is broken: one after their && counts as always running. */
static bool is_preparation(const char *command)
{
	static const char *const names[] = {"cd", "pushd", "popd", "mkdir", "ulimit", "true", ":"};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(names); i++)
		if (strcmp(command, names[i]) == 0)
			return true;
	return false;
}

/* Whether the last command of a pipe runs in the shell itself, as in zsh and ksh. */
static bool keeps_last(const struct flmem_launch_scan *scan)
{
	size_t length = strcspn(scan->text, "\n");

	return flmem_text_starts(scan->text, "#!") &&
	       (memmem(scan->text, length, "zsh", 3) || memmem(scan->text, length, "ksh", 3));
}

/*
 * Notes whether the statement is part of a pipe or in the background (not "2>&1", "&>"): its
 * variables do not reach later commands.
 */
static void note_forked(struct flmem_launch_scan *scan, const char *p, bool empty)
{
	bool pipe = scan->shell && *p == '|' && p[1] != '|';
	bool background = scan->shell && *p == '&' && p[1] != '&' && p[1] != '>' &&
			  (p == scan->text || p[-1] != '>');

	scan->now.apart = pipe || background || (scan->after_pipe && !keeps_last(scan));
	if (!empty)
		scan->after_pipe = pipe;
}

void flmem_launch_note_separator(struct flmem_launch_scan *scan)
{
	const char *p = scan->text + scan->at;
	bool empty =
		!*scan->now.command && scan->now.first_variable == scan->launches->variable_count;
	bool decided =
		scan->now.mentions_variable || (*p == '&' && is_preparation(scan->now.command));

	note_forked(scan, p, empty);
	flmem_launch_end_statement(scan);
	if (scan->shell && (*p == '&' || *p == '|') && p[1] == *p) {
		note_chain(scan, *p, decided);
		return;
	}
	if (*p != '|' && !(empty && *p == '\n'))
		leave_chains(scan);
	if (*p == '\n')
		end_script_line(scan);
	else if (scan->shell && *p == ';' && p[1] == ';')
		note_next_case(scan);
	else
		flmem_launch_skip(scan, 1);
}

/* Whether "NAME()" begins a function here. */
static bool is_function_definition(const struct flmem_launch_scan *scan)
{
	const char *p = scan->text + scan->at + 1;

	return p[strspn(p, " \t")] == ')' && *scan->now.command &&
	       strcmp(scan->now.command, scan->now.previous) == 0;
}

static void open_round(struct flmem_launch_scan *scan)
{
	char before = scan->at ? scan->text[scan->at - 1] : '\n';

	if (is_function_definition(scan)) {
		flmem_launch_end_statement(scan);
		scan->next_group_function = true;
		flmem_launch_skip(scan, strcspn(scan->text + scan->at, ")"));
	} else if (*scan->now.command || strchr("$<>=", before) ||
		   scope_kind(scan) == FLMEM_LAUNCH_WORDS) {
		enter_scope(scan, FLMEM_LAUNCH_WORDS, false);
		scan->in_array = before == '=';
	} else {
		enter_scope(scan,
			    scan->next_group_function ? FLMEM_LAUNCH_FUNCTION
						      : FLMEM_LAUNCH_SUBSHELL,
			    false);
		scan->next_group_function = false;
	}
}

/* Ends what "(" began. After a pattern of "case" it only ends the pattern. */
static void close_round(struct flmem_launch_scan *scan)
{
	if (leave_scope(scan, FLMEM_LAUNCH_WORDS)) {
		scan->in_array = false;
		return;
	}
	flmem_launch_end_statement(scan);
	leave_chains(scan);
	if (!leave_scope(scan, FLMEM_LAUNCH_SUBSHELL))
		leave_scope(scan, FLMEM_LAUNCH_FUNCTION);
}

static void note_curly(struct flmem_launch_scan *scan, char mark)
{
	if (*scan->now.command && !(scan->next_group_function && mark == '{'))
		return;
	if (mark == '{') {
		flmem_launch_end_statement(scan);
		enter_scope(scan,
			    scan->next_group_function ? FLMEM_LAUNCH_FUNCTION : FLMEM_LAUNCH_GROUP,
			    false);
		scan->next_group_function = false;
		return;
	}
	flmem_launch_end_statement(scan);
	leave_chains(scan);
	if (!leave_scope(scan, FLMEM_LAUNCH_GROUP))
		leave_scope(scan, FLMEM_LAUNCH_FUNCTION);
}

void flmem_launch_note_bracket(struct flmem_launch_scan *scan)
{
	char mark = scan->text[scan->at];

	if (scan->shell && mark == '(')
		open_round(scan);
	else if (scan->shell && mark == ')')
		close_round(scan);
	else if (scan->shell && (mark == '{' || mark == '}'))
		note_curly(scan, mark);
	flmem_launch_skip(scan, 1);
}

bool flmem_launch_note_keyword(struct flmem_launch_scan *scan, const char *text)
{
	static const char *const openers[] = {"if",   "while",	"until", "for",
					      "case", "select", NULL};
	static const char *const closers[] = {"fi", "done", "esac", NULL};
	static const char *const others[] = {"then", "do", "!", "time", NULL};
	struct flmem_launch_scope *scope = &scan->launches->scopes[scan->scope];

	if (scan->now.is_condition && flmem_launch_mentions_variable(text))
		scope->decided = true;
	if (*scan->now.command)
		return false;
	if (flmem_text_is_one_of(text, openers)) {
		enter_scope(scan, FLMEM_LAUNCH_CONDITION, false);
		scan->now.is_condition = true;
	} else if (flmem_text_is_one_of(text, closers)) {
		leave_scope(scan, FLMEM_LAUNCH_CONDITION);
	} else if (strcmp(text, "else") == 0 || strcmp(text, "elif") == 0) {
		bool decided = scope->decided;

		if (leave_scope(scan, FLMEM_LAUNCH_CONDITION))
			enter_scope(scan, FLMEM_LAUNCH_CONDITION, decided);
	} else if (strcmp(text, "function") == 0) {
		scan->next_group_function = true;
	} else if (!flmem_text_is_one_of(text, others)) {
		return false;
	}
	return true;
}

/* Marks are "<<MARK", "<<-MARK" and "<< MARK", also joined to a word. "<<<" precedes a text. */
bool flmem_launch_note_heredoc(struct flmem_launch_scan *scan, const struct flmem_launch_word *word)
{
	const char *mark = strstr(word->text, "<<");
	bool quoted = strchr("\"'", scan->text[word->place.start]);

	if (!scan->mark_next && (!mark || quoted || mark[2] == '<'))
		return false;
	if (scan->mark_next)
		mark = word->text;
	else
		mark += 2;
	mark += *mark == '-';
	scan->mark_next = !*mark;
	scan->launches->cut |= scan->mark_count == FLMEM_LAUNCH_HEREDOCS;
	if (!*mark || (!isalpha((unsigned char)*mark) && *mark != '_') ||
	    scan->mark_count == FLMEM_LAUNCH_HEREDOCS)
		return true;
	snprintf(scan->marks[scan->mark_count++], FLMEM_LAUNCH_MARK_MAX, "%.*s",
		 FLMEM_LAUNCH_MARK_MAX - 1, mark);
	scan->heredoc_drops = scan->now.dropper;
	flmem_launch_note_stdin(scan, mark, &word->place);
	return true;
}

/*
 * Notes heredocs of RUN, COPY and ADD in a Dockerfile. What their text sets holds for the commands
 * in it only, as in a script.
 */
bool flmem_launch_note_image_heredoc(struct flmem_launch_scan *scan,
				     const struct flmem_launch_word *word)
{
	bool copies = !scan->shell && (strcmp(scan->now.command, "COPY") == 0 ||
				       strcmp(scan->now.command, "ADD") == 0);

	if ((!copies && !scan->build_step) || !flmem_launch_note_heredoc(scan, word))
		return false;
	scan->line_runs = true;
	return true;
}
