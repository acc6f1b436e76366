/* SPDX-License-Identifier: Apache-2.0 */
/* Commands inside the words of a script: substitutions, texts for commands that are not known. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "frameworks/launch/launch_scan.h"

#define WORDS_MAX FLMEM_LAUNCH_WORD_MAX

/* Whether a command writes a file that a shell reads: the one behind ">" on its line. */
bool flmem_launch_writes_script(const struct flmem_launch_scan *scan)
{
	static const char *const ends[] = {".sh", ".bash",   ".sbatch",	     ".slurm", ".pbs",
					   "rc",  "profile", "/environment", ".env"};
	const char *line = scan->text + scan->at;
	const char *at = memchr(line, '>', strcspn(line, "\n;&|"));
	size_t file;

	if (!at)
		return false;
	at += strspn(at, "> \t\"'");
	file = strcspn(at, " \t\r\n;&|\"'");
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(ends); i++) {
		size_t length = strlen(ends[i]);

		if (file >= length && strncmp(at + file - length, ends[i], length) == 0)
			return true;
	}
	return false;
}

/* Behind "$(" at `text`, the bracket that ends it; at most `end`. */
static const char *substitution_end(const char *text, const char *end)
{
	int depth = 1;

	for (; text < end; text++) {
		depth += (*text == '(') - (*text == ')');
		if (!depth)
			return text;
	}
	return end;
}

/* `COMMAND`, and "$(COMMAND)" in quotes; without these the words of the script are its own. */
void flmem_launch_note_substitutions(struct flmem_launch_scan *scan,
				     const struct flmem_launch_word *word)
{
	const char *at = scan->text + word->place.start, *end = scan->text + word->place.end;
	const struct flmem_launch_text text = {
		.place = &word->place, .scope = scan->scope, .dropper = scan->now.dropper};
	bool single = false;

	for (; at < end; at++) {
		const char *start = at + (*at == '`' ? 1 : 2), *close;
		struct flmem_launch_text inner = text;
		int launch = -1;

		single ^= *at == '\'';
		if (single || (*at != '`' && !(*at == '$' && at + 1 < end && at[1] == '(')))
			continue;
		close = *at == '`' ? memchr(start, '`', (size_t)(end - start))
				   : substitution_end(start, end);
		if (!close)
			return;
		{
			FLMEM_AUTO_FREE char *command = strndup(start, (size_t)(close - start));

			inner.text = command;
			scan->launches->cut |= !command;
			if (command)
				flmem_launch_read_text(scan->launches, &inner, &launch);
		}
		at = close;
	}
}

/* Commands whose texts are shown to people, searched for or compared. */
static bool only_shows_text(const char *command)
{
	static const char *const names[] = {
		"[",	   "[[",      "test",	  "grep",    "egrep", "fgrep", "sed",	   "awk",
		"tr",	   "read",    "case",	  "export",  "local", "cut",   "pkill",	   "pgrep",
		"killall", "declare", "readonly", "typeset", "find",  "git",   "gh",	   "hg",
		"svn",	   "curl",    "wget",	  "http",    "mail",  "mailx", "sendmail", "jq",
		"python",  "python3", "make",	  NULL};
	static const char *const parts[] = {"echo", "print", "log",    "info",	 "warn",    "err",
					    "die",  "fail",  "note",   "msg",	 "usage",   "say",
					    "step", "title", "head",   "banner", "section", "cat",
					    "exit", "abort", "notify", "debug"};

	if (flmem_text_is_one_of(command, names) || strchr(command, '='))
		return true;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(parts); i++)
		if (strcasestr(command, parts[i]))
			return true;
	return false;
}

/* A text that begins as a command does: a sentence rather has the program inside. */
static bool begins_as_command(const char *text)
{
	size_t first = strcspn(text, " "), second = first + strspn(text + first, " ");
	const char *equals = strchr(text, '=');
	char words[WORDS_MAX];

	if ((equals && equals < text + first) || memchr(text, '/', first) ||
	    flmem_text_starts(text, "python"))
		return true;
	second += strcspn(text + second, " ");
	snprintf(words, sizeof(words), "%.*s", (int)(second < WORDS_MAX ? second : 0), text);
	return flmem_launch_is_likely(words);
}

/* alias NAME='COMMAND', and a quoted command that a program gets which is not known. */
void flmem_launch_note_unfollowed(struct flmem_launch_scan *scan,
				  const struct flmem_launch_word *word)
{
	const char *command = scan->now.command, *text = word->text;
	const char *equals = strchr(text, '=');
	bool alias = strcmp(command, "alias") == 0;

	if (!scan->shell || scan->now.launch >= 0 || !*command || !strchr(text, ' ') ||
	    (!alias && only_shows_text(command)))
		return;
	if (alias && equals)
		text = equals + 1;
	if (flmem_launch_is_likely_in(scan->launches->text, text) && begins_as_command(text))
		flmem_launch_add_doubt(scan->launches, &word->place, flmem_launch_by_others);
}
