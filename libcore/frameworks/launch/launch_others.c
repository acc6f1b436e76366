/* SPDX-License-Identifier: Apache-2.0 */
/* Reads commands inside words of a script: substitutions, and quoted texts for unknown programs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "frameworks/launch/launch_programs.h"
#include "frameworks/launch/launch_scan.h"

#define WORDS_MAX FLMEM_LAUNCH_WORD_MAX

/* The file after ">" or "| tee" on the line of a command; NULL if it writes none. */
static const char *written_file(const struct flmem_launch_scan *scan, size_t *ret_length)
{
	static const char tee[] = "tee ";
	const char *line = scan->text + scan->at;
	const char *at = memchr(line, '>', strcspn(line, "\n;&|"));

	if (!at) {
		at = line + strcspn(line, "\n;&|");
		at += *at == '|';
		at += strspn(at, " \t");
		if (!flmem_text_starts(at, tee))
			return NULL;
		at += strlen(tee);
		at += flmem_text_starts(at, "-a ") ? strlen("-a ") : 0;
	}
	at += strspn(at, "> \t\"'");
	*ret_length = strcspn(at, " \t\r\n;&|\"'");
	return at;
}

static bool writes_file_of(const struct flmem_launch_scan *scan, const char *const *ends)
{
	size_t file = 0;
	const char *at = written_file(scan, &file);

	for (; at && *ends; ends++) {
		size_t length = strlen(*ends);

		if (file >= length && strncmp(at + file - length, *ends, length) == 0)
			return true;
	}
	return false;
}

bool flmem_launch_writes_script(const struct flmem_launch_scan *scan)
{
	static const char *const ends[] = {".sh", ".bash",   ".sbatch",	     ".slurm", ".pbs",
					   "rc",  "profile", "/environment", ".env",   NULL};

	return writes_file_of(scan, ends);
}

bool flmem_launch_writes_python(const struct flmem_launch_scan *scan)
{
	static const char *const ends[] = {".py", NULL};

	return writes_file_of(scan, ends);
}

/* The bracket that ends "$(" before `text`; `end` if there is none before it. */
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

/* `COMMAND`, and "$(COMMAND)" in quotes; an unquoted $(COMMAND) is read as words of the script. */
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

/* Whether a text begins as a command does: a sentence has the program in the middle. */
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

/* alias NAME='COMMAND', and a quoted command that is an argument of an unknown program. */
void flmem_launch_note_unfollowed(struct flmem_launch_scan *scan,
				  const struct flmem_launch_word *word)
{
	const char *command = scan->now.command, *text = word->text;
	const char *equals = strchr(text, '=');
	bool alias = strcmp(command, "alias") == 0;

	if (!scan->shell || scan->now.launch >= 0 || !*command || !strchr(text, ' ') ||
	    (!alias && flmem_launch_only_shows(command)))
		return;
	if (alias && equals)
		text = equals + 1;
	if (flmem_launch_is_likely_for(scan->launches, text) && begins_as_command(text))
		flmem_launch_add_doubt(scan->launches, &word->place, flmem_launch_by_others);
}

/* Whether a text names a start script of a kit without its folder, in a file about that kit. */
static bool names_start_script(const struct flmem_launch_scan *scan, const char *text)
{
	struct flmem_launch_programs at = {0};
	const struct flmem_launch_program *program;
	const struct flmem_buf all = {.data = (char *)(uintptr_t)scan->launches->text,
				      .length = strlen(scan->launches->text)};

	while ((program = flmem_launch_program_next(&at))) {
		const char *name = strchr(program->word, '/');

		if (name && strchr(name, '.') && flmem_text_ends(text, name + 1) &&
		    (flmem_text_ends(text, program->word) ||
		     flmem_launch_has_mark(all.data, program) ||
		     flmem_launch_owner(&all) == at.owner->framework))
			return true;
	}
	return false;
}

/*
 * Notes start scripts that are found and run: find FOLDER -name start.sh -exec bash {} \\;, ls
 * FOLDER/start.sh | xargs bash, parallel.
 */
void flmem_launch_note_found(struct flmem_launch_scan *scan, const struct flmem_launch_word *word)
{
	static const char *const finders[] = {"find", "fd", "fdfind", "ls", "locate", NULL};
	static const char *const runners[] = {"xargs", "parallel", "rush", NULL};
	static const char *const options[] = {"-exec",	      "-execdir", "-ok",    "-okdir", "-x",
					      "--exec-batch", "-X",	  "--exec", NULL};
	struct flmem_launch_statement *now = &scan->now;
	const char *name = flmem_text_basename(word->text);

	if (!scan->shell || now->launch >= 0)
		return;
	if (!*now->command && flmem_text_is_one_of(name, finders)) {
		now->finds = true;
		now->runs_found = flmem_launch_is_piped_to_others(scan);
	} else if (flmem_text_is_one_of(name, runners)) {
		now->finds = now->runs_found = true;
	}
	now->runs_found |= now->finds && flmem_text_is_one_of(word->text, options);
	if (now->finds && !now->found.end && names_start_script(scan, word->text))
		now->found = word->place;
}

void flmem_launch_end_found(struct flmem_launch_scan *scan)
{
	const struct flmem_launch_statement *now = &scan->now;

	if (now->runs_found && now->found.end && now->launch < 0)
		flmem_launch_add_doubt(scan->launches, &now->found, flmem_launch_by_others);
}
