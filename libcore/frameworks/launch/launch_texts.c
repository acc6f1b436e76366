/* SPDX-License-Identifier: Apache-2.0 */
/* Reads commands that are a word or a heredoc of a script: bash -c "COMMAND". */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "frameworks/framework.h"
#include "frameworks/launch/launch_programs.h"
#include "frameworks/launch/launch_scan.h"

#define HERE_STRING "<<<"
#define COMMAND_MAX (FLMEM_LAUNCH_WORD_MAX + 8)
/* How far the end of a pipe is searched, so that the time stays proportional to the script. */
#define PIPE_BYTES_MAX	  512U
#define PIPE_COMMANDS_MAX 4

#define READER_MAX 16

/* Whether a text unsets a variable before a launch in it: bash -c "unset NAME; COMMAND". */
static bool ends_in_text(const struct flmem_launches *inner, int launch, const char *name)
{
	for (size_t i = inner->variable_count; i--;) {
		const struct flmem_launch_variable *row = &inner->variables[i];

		if ((flmem_launch_is(row, name) || !*row->name) &&
		    flmem_launch_reach(inner, row, launch) == FLMEM_LAUNCH_ALWAYS)
			return row->unset;
	}
	return false;
}

/* Adds a launch that a text starts, with the variables that the text sets for it. */
static int add_inner_launch(struct flmem_launches *launches, const struct flmem_launches *inner,
			    size_t index, const struct flmem_launch_text *text)
{
	struct flmem_launch one = inner->launches[index];
	const char *name;
	int launch;
	bool bare;

	one.place = *text->place;
	one.scope = text->scope;
	bare = one.dropper;
	if (text->dropper) {
		/*
		 * The last launch of a word gets the variables of the statement that the word is
		 * in.
		 */
		bare |= text->is_heredoc || index + 1 < inner->launch_count;
		one.dropper = text->dropper;
	}
	launch = flmem_launch_add(launches, &one);
	if (bare)
		flmem_launch_add_unset(launches, "", launch, text->place);
	for (size_t i = 0; launch >= 0 && (name = flmem_launch_name_at(i)); i++) {
		const struct flmem_launch_variable *row =
			flmem_launch_find(inner, (int)index, name);

		if (row)
			flmem_launch_add_variable(launches, name, row->known ? row->value : NULL,
						  launch, text->place);
		else if (ends_in_text(inner, (int)index, name))
			flmem_launch_add_unset(launches, name, launch, text->place);
	}
	return launch;
}

bool flmem_launch_read_text(struct flmem_launches *launches, const struct flmem_launch_text *text,
			    int *launch)
{
	struct flmem_launches inner = FLMEM_LAUNCHES_WITHIN(launches, 1);

	if (!flmem_launch_is_likely_for(launches, text->text) && !strstr(text->text, ".py") &&
	    !strstr(text->text, " -m ") && !flmem_launch_is_code(text->text))
		return false;
	if (inner.depth > FLMEM_LAUNCH_DEPTH_MAX) {
		launches->cut = true;
		return false;
	}
	flmem_launch_read_script(text->text, true, &inner);
	launches->open |= inner.open;
	launches->cut |= inner.cut;
	for (size_t i = 0; i < inner.doubt_count; i++) {
		const struct flmem_launch_doubt *doubt = &inner.doubts[i];

		if (*doubt->script)
			flmem_launch_add_script(launches, text->place, doubt->script);
		else
			flmem_launch_add_doubt(launches, text->place, doubt->why);
	}
	for (size_t i = 0; i < inner.launch_count; i++)
		*launch = add_inner_launch(launches, &inner, i, text);
	return inner.launch_count;
}

bool flmem_launch_read_inner(struct flmem_launches *launches, const char *text,
			     const struct flmem_place *place, int *launch)
{
	return flmem_launch_read_text(
		launches, &(struct flmem_launch_text){.text = text, .place = place}, launch);
}

/* Adds a doubt at tmux: a server that already runs starts commands with its own variables. */
static void note_tmux(struct flmem_launch_scan *scan, const struct flmem_launch_word *word)
{
	const struct flmem_launches *launches = scan->launches;
	bool sets = false;

	for (size_t i = 0; i < launches->variable_count; i++) {
		const struct flmem_launch_variable *row = &launches->variables[i];

		sets |= row->launch < 0 && !row->local && !row->unset;
	}
	if (sets && strcmp(scan->now.command, "tmux") == 0)
		flmem_launch_add_doubt(scan->launches, &word->place,
				       "a tmux server that runs already has its own variables");
}

/* Whether the program reads commands from its input: a shell, ssh, su. */
static bool reads_commands(const struct flmem_launch_scan *scan)
{
	enum flmem_launch_runner runner = scan->now.runner;

	return runner == FLMEM_LAUNCH_BY_SHELL || runner == FLMEM_LAUNCH_BY_SSH ||
	       runner == FLMEM_LAUNCH_BY_SU;
}

/* Replaces backslash sequences as printf and "echo -e" do. */
static void resolve_escapes(char *text)
{
	for (char *at = strchr(text, '\\'); at; at = strchr(at + 1, '\\'))
		if (at[1] == 'n' || at[1] == 't')
			at[0] = at[1] = '\n';
}

const char *flmem_launch_split_string(const struct flmem_launch_scan *scan, const char *text,
				      const char *before)
{
	static const char *const options[] = {"--split-string=", "-S", "-vS"};

	if (scan->now.runner != FLMEM_LAUNCH_BY_ENV)
		return NULL;
	if (strcmp(before, "-S") == 0 || strcmp(before, "-vS") == 0 ||
	    flmem_text_starts(before, "--split"))
		return text;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(options); i++)
		if (flmem_text_starts(text, options[i]) && text[strlen(options[i])])
			return text + strlen(options[i]);
	return NULL;
}

/* The text after "<<<" of a program; NULL if the word is no such text. */
static const char *here_string_of(const struct flmem_launch_scan *scan, const char *text,
				  const char *before)
{
	bool attached = flmem_text_starts(text, HERE_STRING);

	if (!scan->shell || (!attached && strcmp(before, HERE_STRING) != 0))
		return NULL;
	text += attached ? strlen(HERE_STRING) : 0;
	return text + (*text == '$'); /* $'...' */
}

/*
 * Whether a text is a command by the program before it: ssh HOST "COMMAND", eval "COMMAND", echo
 * "COMMAND" | bash.
 */
static bool is_text_of_runner(const struct flmem_launch_scan *scan, const char *text)
{
	enum flmem_launch_runner runner = scan->now.runner;

	return (runner == FLMEM_LAUNCH_BY_SSH || runner == FLMEM_LAUNCH_BY_TEXT) &&
	       strchr(text, ' ');
}

/* Whether the word before is an option with the letter c, as in bash -c "COMMAND". */
static bool is_behind_c(const char *before)
{
	size_t length = strlen(before);

	return length >= 2 && *before == '-' && before[1] != '-' && before[length - 1] == 'c';
}

/* Copies the command that a word holds. Returns false if it holds none. */
static bool copy_command(const struct flmem_launch_scan *scan, const char *text, const char *before,
			 char command[COMMAND_MAX])
{
	static const char wrap[] = "--wrap=";
	const char *split = flmem_launch_split_string(scan, text, before);
	const char *string = here_string_of(scan, text, before);
	bool wrapped = flmem_text_starts(text, wrap), behind = strcmp(before, "--wrap") == 0;

	if (string && !reads_commands(scan))
		return false;
	if (!split && !string && !wrapped && !behind && !is_behind_c(before) &&
	    !is_text_of_runner(scan, text))
		return false;
	snprintf(command, COMMAND_MAX, "%s%s", split ? "env " : "",
		 split	   ? split
		 : string  ? string
		 : wrapped ? text + sizeof(wrap) - 1
			   : text);
	if (string || scan->now.prints)
		resolve_escapes(command);
	return true;
}

/* Reads Python code that is in no file: python3 <<< "CODE", echo "CODE" | python3. */
static bool note_code_text(struct flmem_launch_scan *scan, const struct flmem_launch_word *word,
			   const char *before)
{
	const char *string = here_string_of(scan, word->text, before);

	if (scan->now.prints == FLMEM_LAUNCH_TO_PYTHON)
		string = word->text;
	if (!string || (!scan->now.interprets && !scan->now.prints))
		return false;
	return flmem_launch_note_own_code(scan, string, &word->place);
}

/* Adds a doubt at a text that is printed for another program, or into a file that a shell reads. */
static bool note_printed(struct flmem_launch_scan *scan, const struct flmem_launch_word *word)
{
	bool starts = flmem_launch_is_likely_for(scan->launches, word->text);
	bool written = scan->shell &&
		       (strcmp(scan->now.command, "echo") == 0 ||
			strcmp(scan->now.command, "printf") == 0) &&
		       (((starts || flmem_launch_mentions_variable(word->text)) &&
			 flmem_launch_writes_script(scan)) ||
			(flmem_launch_makes_job(word->text) && flmem_launch_writes_python(scan)));

	if (!strchr(word->text, ' ') ||
	    (!written && (scan->now.prints != FLMEM_LAUNCH_TO_OTHERS || !starts)))
		return false;
	flmem_launch_add_doubt(scan->launches, &word->place,
			       "another command runs what this one prints: check what runs");
	return true;
}

bool flmem_launch_note_text(struct flmem_launch_scan *scan, const struct flmem_launch_word *word,
			    const char *before)
{
	char command[COMMAND_MAX];
	struct flmem_launch_text text = {.text = command,
					 .place = &word->place,
					 .scope = scan->scope,
					 .dropper = scan->now.dropper};
	size_t doubts = scan->launches->doubt_count;

	if (scan->shell)
		flmem_launch_note_substitutions(scan, word);
	if (note_printed(scan, word) || note_code_text(scan, word, before))
		return true;
	if (!copy_command(scan, word->text, before, command)) {
		flmem_launch_note_unfollowed(scan, word);
		return false;
	}
	if (!flmem_launch_read_text(scan->launches, &text, &scan->now.launch)) {
		scan->now.runs_file |= scan->launches->doubt_count > doubts;
		/* env -S "-i NAME=VALUE" PROGRAM */
		if (flmem_text_starts(command, "env -i"))
			flmem_launch_drop(scan, &word->place, "env -i");
		return false;
	}
	note_tmux(scan, word);
	return true;
}

/*
 * What the program named by a word of a pipe does with its input. "at" and "batch" run commands
 * later, with the same variables.
 */
static enum flmem_launch_prints pipe_reader(const char *word, size_t length, bool first)
{
	static const char *const shells[] = {"bash", "sh", "dash",  "zsh",
					     "ksh",  "at", "batch", NULL};
	static const char *const others[] = {"ssh",  "xargs",  "parallel", "crontab",
					     "qsub", "sbatch", NULL};
	char name[READER_MAX];

	for (size_t i = length; i; i--)
		if (word[i - 1] == '/') {
			length -= i;
			word += i;
			break;
		}
	snprintf(name, sizeof(name), "%.*s", (int)(length < READER_MAX ? length : 0), word);
	if (first && flmem_text_starts(name, "python"))
		return FLMEM_LAUNCH_TO_PYTHON;
	if (flmem_text_is_one_of(name, shells))
		return first ? FLMEM_LAUNCH_TO_SHELL : FLMEM_LAUNCH_TO_OTHERS;
	return flmem_text_is_one_of(name, others) ? FLMEM_LAUNCH_TO_OTHERS : FLMEM_LAUNCH_NOWHERE;
}

/* The text after the quoted part that begins at `text`; at most `end`. */
static const char *skip_quotes(const char *text, const char *end)
{
	const char *close = text + 1;

	while (close < end && *close != *text)
		close += *close == '\\' && *text == '"' && close + 1 < end ? 2 : 1;
	return close < end ? close + 1 : end;
}

/* The end of the first command of a pipe; at most `end`. */
static const char *command_end(const char *text, const char *end)
{
	while (text < end) {
		switch (*text) {
		case '"':
		case '\'':
			text = skip_quotes(text, end);
			break;
		case '\\':
			text += 2;
			break;
		case '&': /* "&>", and "2>&1" after its ">" */
			if (text[1] != '>' && text[-1] != '>')
				return text;
			text++;
			break;
		case '|':
		case ';':
		case '\n':
			return text;
		default:
			text++;
		}
	}
	return end;
}

/* What one command of a pipe does with its input. `first`: it is the first one after the pipe. */
static enum flmem_launch_prints reader_in(const char *text, const char *end, bool first)
{
	enum flmem_launch_prints reader = FLMEM_LAUNCH_NOWHERE;

	while (text < end && !reader) {
		size_t length;

		text += strspn(text, " \t()");
		length = strcspn(text, " \t|;&()\n");
		if (text < end)
			reader = pipe_reader(text, length, first);
		first = false;
		text += length ? length : 1;
	}
	return reader;
}

/* What reads the output of the command whose words begin at `text`, also some commands later. */
static enum flmem_launch_prints find_reader(const char *text)
{
	const char *end = text + strnlen(text, PIPE_BYTES_MAX);
	enum flmem_launch_prints reader = FLMEM_LAUNCH_NOWHERE;

	text = command_end(text, end);
	for (int i = 0; i < PIPE_COMMANDS_MAX && !reader; i++) {
		const char *command = text + 1 + (text[0] && text[1] == '&');

		if (text >= end || *text != '|' || text[1] == '|')
			break;
		text = command_end(command, end);
		reader = reader_in(command, text, i == 0);
	}
	return reader;
}

bool flmem_launch_is_piped_to_others(const struct flmem_launch_scan *scan)
{
	return find_reader(scan->text + scan->at) != FLMEM_LAUNCH_NOWHERE;
}

void flmem_launch_note_output(struct flmem_launch_scan *scan, const struct flmem_launch_word *word)
{
	static const char *const prints[] = {"echo", "printf", "cat", NULL};

	if (!scan->shell || *scan->now.command || !flmem_text_is_one_of(word->text, prints))
		return;
	scan->now.prints = find_reader(scan->text + scan->at);
	if (scan->now.prints == FLMEM_LAUNCH_TO_SHELL)
		scan->now.runner = FLMEM_LAUNCH_BY_TEXT;
	/* cat FILE.py | python3 - */
	if (scan->now.prints == FLMEM_LAUNCH_TO_PYTHON && strcmp(word->text, "cat") == 0)
		scan->now.interprets = true;
}

/* The file of "<FILE" or "< FILE", not "<(COMMAND)"; NULL if the word names no such file. */
static const char *redirected_file(const struct flmem_launch_scan *scan,
				   const struct flmem_launch_word *word, const char *before)
{
	const char *text = word->text;

	if (strcmp(before, "<") == 0)
		return scan->text[word->place.start - 1] == '(' ? NULL : text;
	return text[0] == '<' && text[1] && !strchr("<(&>", text[1]) ? text + 1 : NULL;
}

/* The file from which a shell reads commands: cat FILE | bash, bash <FILE, ssh HOST <FILE.sh. */
static const char *file_of_commands(const struct flmem_launch_scan *scan,
				    const struct flmem_launch_word *word, const char *before)
{
	static const char *const shells[] = {"bash", "sh", "dash", "zsh", "ksh", NULL};
	const char *command = scan->now.command, *text = word->text;
	const char *file = redirected_file(scan, word, before);
	bool script = flmem_text_ends(text, ".sh") || flmem_text_ends(text, ".bash");

	if (flmem_text_is_one_of(command, shells) || (script && strcmp(command, "ssh") == 0))
		return file;
	if (strcmp(command, "cat") != 0 || strchr("-<>", *(file ? file : text)))
		return NULL;
	if (scan->now.prints != FLMEM_LAUNCH_TO_SHELL &&
	    !(script && scan->now.prints == FLMEM_LAUNCH_TO_OTHERS))
		return NULL;
	return file ? file : text;
}

void flmem_launch_note_commands(struct flmem_launch_scan *scan,
				const struct flmem_launch_word *word, const char *before)
{
	const char *file =
		scan->shell && scan->now.launch < 0 ? file_of_commands(scan, word, before) : NULL;

	if (file && !flmem_text_starts(file, "/dev/"))
		flmem_launch_add_doubt(scan->launches, &word->place,
				       "a shell reads the commands of another file");
}

static bool has_command_name(const struct flmem_launch_command *command, const char *name,
			     size_t length)
{
	return command->name_length == length && strncmp(command->name, name, length) == 0;
}

static struct flmem_launch_command *find_command(struct flmem_launch_scan *scan, const char *name,
						 size_t length)
{
	for (size_t i = 0; i < scan->command_count; i++)
		if (has_command_name(&scan->commands[i], name, length))
			return &scan->commands[i];
	return NULL;
}

/* Whether a text is a program whose verb decides what it starts: "PROGRAM VERB". */
static bool has_verbs(const char *text)
{
	const char *name = flmem_text_basename(text);
	struct flmem_launch_programs at = {0};
	const struct flmem_launch_program *p;

	while ((p = flmem_launch_program_next(&at)))
		if (flmem_launch_has_verb(p) && strcmp(p->before, name) == 0)
			return true;
	return false;
}

/*
 * Keeps the command of NAME="COMMAND". A later value that starts nothing removes it, unless that
 * value begins with "$".
 */
static void keep_command(struct flmem_launch_scan *scan, const struct flmem_launch_word *word,
			 size_t name_length)
{
	const char *name = scan->text + word->place.start;
	const char *value = name + name_length + 1, *end = scan->text + word->place.end;
	const char *text = word->text + name_length + 1;
	struct flmem_launch_command *command = find_command(scan, name, name_length);
	bool starts = has_verbs(text) || flmem_launch_is_likely_for(scan->launches, text);

	if (!starts && command && *text != '$')
		command->name_length = 0;
	if (!starts || (!command && scan->command_count == FLMEM_LAUNCH_COMMANDS))
		return;
	if (!command)
		command = &scan->commands[scan->command_count++];
	if (value < end && strchr("\"'", *value)) {
		value++;
		end -= end > value && strchr("\"'", end[-1]);
	}
	*command = (struct flmem_launch_command){.name = name,
						 .name_length = name_length,
						 .value = value,
						 .length = (size_t)(end - value)};
}

/* Whether a variable at this place is run as a command; false after echo, test and the like. */
static bool is_run_here(const struct flmem_launch_scan *scan)
{
	static const char *const runners[] = {"exec", "nohup", "eval", "time",	 "srun",   "sudo",
					      "bash", "sh",    "ssh",  "docker", "podman", NULL};

	return !*scan->now.command || strchr(scan->now.command, '=') ||
	       flmem_text_is_one_of(scan->now.command, runners);
}

/* Writes the program of "$(which PROGRAM)", `which PROGRAM`, $(command -v PROGRAM). */
static bool located_program(const char *text, char out[FLMEM_LAUNCH_PROGRAM_MAX])
{
	static const char *const locators[] = {"$(which ", "`which ", "$(command -v ",
					       "`command -v ", "$(type -p "};
	size_t length;

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(locators); i++) {
		if (!flmem_text_starts(text, locators[i]))
			continue;
		text += strlen(locators[i]);
		length = strcspn(text, " )`");
		snprintf(out, FLMEM_LAUNCH_PROGRAM_MAX, "%.*s", (int)length, text);
		return length < FLMEM_LAUNCH_PROGRAM_MAX;
	}
	return false;
}

const char *flmem_launch_program_of(struct flmem_launch_scan *scan, const char *text,
				    char out[FLMEM_LAUNCH_PROGRAM_MAX])
{
	const char *name = text + 1 + (*text == '$' && text[1] == '{');
	const struct flmem_launch_command *command =
		*text == '$' && is_run_here(scan)
			? find_command(scan, name, strspn(name, FLMEM_TEXT_NAME_LETTERS))
			: NULL;

	if (located_program(text, out))
		return out;
	if (!command || !command->name_length || command->length >= FLMEM_LAUNCH_PROGRAM_MAX)
		return flmem_text_basename(text);
	snprintf(out, FLMEM_LAUNCH_PROGRAM_MAX, "%.*s", (int)command->length, command->value);
	return has_verbs(out) ? flmem_text_basename(out) : flmem_text_basename(text);
}

bool flmem_launch_note_command(struct flmem_launch_scan *scan, const struct flmem_launch_word *word)
{
	const char *raw = scan->text + word->place.start, *name = word->text + 1;
	size_t length = strspn(word->text, FLMEM_TEXT_NAME_LETTERS);
	const struct flmem_launch_command *command;
	struct flmem_launch_text text = {
		.place = &word->place, .scope = scan->scope, .dropper = scan->now.dropper};

	if (!scan->shell || scan->now.launch >= 0)
		return false;
	if (length && word->text[length] == '=' && strncmp(raw, word->text, length + 1) == 0)
		keep_command(scan, word, length);
	if (*word->text != '$' || !is_run_here(scan))
		return false;
	name += *name == '{';
	command = find_command(scan, name, strspn(name, FLMEM_TEXT_NAME_LETTERS));
	if (!command || !command->name_length)
		return false;
	{
		FLMEM_AUTO_FREE char *line = strndup(command->value, command->length);

		text.text = line;
		scan->launches->cut |= !line;
		return line && flmem_launch_read_text(scan->launches, &text, &scan->now.launch);
	}
}
