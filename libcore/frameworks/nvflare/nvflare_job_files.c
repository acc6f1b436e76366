/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports strings of a script that name a configuration file of a job: what the script writes to
 * the file is in force instead of the settings of the recipe.
 */
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "documents/python/python.h"
#include "frameworks/nvflare/recipes/nvflare_recipes.h"

#define LEVELS_MAX   64U
#define WORDS_MAX    64U /* words after a name that are searched for the mode of open() */
#define REPORTED_MAX 64U
#define NAMES_MAX    16U
#define WALKS_MAX    8U

static const char written[] = "it names a configuration file of a job, which it may write";

/* An open bracket: of a call of `function`, or of none. */
struct file_level {
	struct flmem_python_word function, first; /* `first` is the first string in the bracket */
	unsigned index;				  /* of the current argument, from 0 */
};

struct job_file_search {
	struct flmem_check *check;
	struct flmem_python_reader reader;
	struct file_level levels[LEVELS_MAX];
	size_t depth;
	bool writes;				   /* the script writes files at all */
	bool raises;				   /* the statement raises an error */
	struct flmem_python_word name;		   /* the name that the statement assigns to */
	struct flmem_python_word names[NAMES_MAX]; /* names that hold such a path */
	size_t name_count;
	bool reports, grown; /* this walk reports; this walk has added a name */
	unsigned reported;
};

static bool names_file(const struct flmem_python_word *word)
{
	static const char name[] = "config_fed_";

	return memmem(word->text, word->place.end - word->place.start, name, sizeof(name) - 1);
}

/* Whether a function only reads, tests or shows a file whose name it gets. */
static bool only_reads_file(const struct flmem_python_word *function)
{
	static const char *const names[] = {"load",
					    "exists",
					    "isfile",
					    "is_file",
					    "endswith",
					    "startswith",
					    "read_text",
					    "read_bytes",
					    "loads",
					    "print",
					    "info",
					    "debug",
					    "warning",
					    "error",
					    "get",
					    "glob",
					    "rglob",
					    "format",
					    "add_argument",
					    "load_file",
					    "ArgumentParser",
					    "assertIn",
					    "assertTrue",
					    "assertEqual",
					    "getsize",
					    "unread",
					    "fullmatch",
					    "match",
					    "search",
					    "compile",
					    "from_file",
					    "parse_file",
					    "log",
					    NULL};

	static const char *const verbs[] = {"load",   "read",  "parse", "check",
					    "verify", "print", "show",	"is_"};

	for (size_t i = 0; function->text && i < FLMEM_ARRAY_SIZE(verbs); i++)
		if (flmem_text_starts(function->text, verbs[i]))
			return true;
	return flmem_python_is_any(function, names);
}

/* Whether a function makes a path of its arguments. */
static bool makes_path(const struct flmem_python_word *function)
{
	static const char *const names[] = {"join",	 "Path",       "PurePath", "str",
					    "PosixPath", "abspath",    "fspath",   "joinpath",
					    "realpath",	 "expanduser", NULL};

	return flmem_python_is_any(function, names);
}

/*
 * Whether a function copies: shutil.copy(SOURCE, TARGET) leaves the source unchanged, unlike a
 * move.
 */
static bool copies_file(const struct flmem_python_word *function)
{
	static const char *const names[] = {"copy",	"copy2", "copyfile", "copyfileobj",
					    "copytree", "put",	 "upload",   NULL};

	return flmem_python_is_any(function, names);
}

static bool starts_program(const struct flmem_python_word *function)
{
	static const char *const names[] = {"system", "run",	      "call",  "check_call",
					    "Popen",  "check_output", "popen", "getoutput",
					    "local",  "sx",	      NULL};

	return flmem_python_is_any(function, names);
}

/*
 * Whether a command does not write: "cat FILE". "nvflare job create" is reported by another rule.
 */
static bool is_reading_command(const struct flmem_python_word *word)
{
	static const char *const programs[] = {
		"cat",	"ls", "head", "tail", "less", "grep", "more",	 "diff",
		"tree", "wc", "jq",   "find", "stat", "echo", "nvflare", "python -m json.tool"};
	const char *text = word->text + strcspn(word->text, "\"'");
	size_t length = word->place.end - word->place.start;

	text += strspn(text, "\"' \t\n");
	if (memchr(word->text, '>', length) || memmem(word->text, length, "tee ", 4) ||
	    memmem(word->text, length, "sed", 3) || memmem(word->text, length, "-exec", 5))
		return false;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(programs); i++)
		if (flmem_text_starts(text, programs[i]) &&
		    strchr(" \"'", text[strlen(programs[i])]))
			return true;
	return false;
}

/* Whether open(), after "(NAME", has a mode that only reads. */
static bool opens_to_read(struct flmem_python_reader ahead)
{
	int depth = 1;

	for (unsigned i = 0; i < WORDS_MAX && ahead.word.kind != FLMEM_PYTHON_END; i++) {
		const struct flmem_python_word word = ahead.word;
		char mark = word.kind == FLMEM_PYTHON_MARK ? *word.text : '\0';

		depth += (mark && strchr("([{", mark)) - (mark && strchr(")]}", mark));
		if (depth <= 0)
			return true;
		flmem_python_advance(&ahead);
		if (depth != 1 || mark != ',')
			continue;
		if (flmem_python_accept(&ahead, "encoding"))
			continue;
		if (flmem_python_accept(&ahead, "mode"))
			flmem_python_accept(&ahead, "=");
		return ahead.word.kind == FLMEM_PYTHON_STRING && ahead.word.text[1] == 'r' &&
		       ahead.word.text[2] != '+' && ahead.word.text[3] != '+';
	}
	return false;
}

/* Whether a method of a path writes, as ".write_text(...)". *ret_known: there is a method. */
static bool method_writes(struct flmem_python_reader ahead, bool *ret_known)
{
	static const char *const reads[] = {"read_text", "read_bytes", "exists", "is_file", "name",
					    "parent",	 "stat",       "suffix", "stem",    NULL};

	*ret_known = flmem_python_accept(&ahead, ".");
	if (!*ret_known)
		return false;
	if (flmem_python_accept(&ahead, "open")) {
		flmem_python_accept(&ahead, "(");
		if (flmem_python_is(&ahead.word, ")"))
			return false;
		flmem_python_accept(&ahead, "mode");
		flmem_python_accept(&ahead, "=");
		return ahead.word.kind != FLMEM_PYTHON_STRING || ahead.word.text[1] != 'r' ||
		       ahead.word.text[2] == '+' || ahead.word.text[3] == '+';
	}
	return !flmem_python_is_any(&ahead.word, reads);
}

static bool is_compared_name(const struct job_file_search *search,
			     const struct flmem_python_reader *ahead)
{
	const char *text = search->check->input->document.text.data;
	size_t at = search->reader.before.place.start;

	if (flmem_python_is(&search->reader.before, "=") && at && strchr("=!", text[at - 1]))
		return true;
	return flmem_python_is(&ahead->word, "in") || flmem_python_is(&ahead->word, "not") ||
	       (flmem_python_is(&ahead->word, "=") && ahead->word.text[1] == '=');
}

/*
 * Whether a call may write the file that is its argument `index`; `ahead` is after that argument.
 */
static bool call_writes(const struct flmem_python_word *function, unsigned index,
			const struct flmem_python_reader *ahead)
{
	if (flmem_python_is(function, "open"))
		return index == 0 && !opens_to_read(*ahead);
	if (copies_file(function))
		return index > 0;
	return !only_reads_file(function);
}

/* Moves from the word after an argument to the end of its bracket. */
static void skip_to_close(struct flmem_python_reader *ahead)
{
	static const char *const closes[] = {")", "]", "}", NULL};

	for (unsigned i = 0; i < WORDS_MAX && ahead->word.kind != FLMEM_PYTHON_END &&
			     !flmem_python_is_any(&ahead->word, closes);
	     i++)
		flmem_python_advance(ahead);
}

/* Keeps the name to which the statement assigns the path, so that uses of the name count. */
static bool keeps_path(struct job_file_search *search)
{
	char name[FLMEM_PYTHON_DOTTED_MAX], other[FLMEM_PYTHON_DOTTED_MAX];

	if (!search->name.text || !flmem_python_word_text(&search->name, name))
		return false;
	for (size_t i = 0; i < search->name_count; i++)
		if (flmem_python_word_text(&search->names[i], other) && !strcmp(name, other))
			return true;
	if (search->name_count == NAMES_MAX)
		return false;
	search->names[search->name_count++] = search->name;
	search->grown = true;
	return true;
}

/* Whether the script may write the file that the current word names. */
static bool may_write(struct job_file_search *search)
{
	const struct flmem_python_word *command = &search->reader.word;
	struct flmem_python_reader ahead = search->reader;
	bool known;

	flmem_python_advance(&ahead);
	if (is_compared_name(search, &ahead) || search->raises || search->depth >= LEVELS_MAX)
		return false;
	if (flmem_python_is(&ahead.word, "."))
		return method_writes(ahead, &known);
	for (size_t depth = search->depth; depth; depth--) {
		const struct file_level *level = &search->levels[depth];

		if (level->first.text)
			command = &level->first;
		if (starts_program(&level->function))
			return !is_reading_command(command);
		if (level->function.text && !makes_path(&level->function))
			return call_writes(&level->function, level->index, &ahead);
		skip_to_close(&ahead);
		flmem_python_advance(&ahead);
		if (method_writes(ahead, &known) || known)
			return method_writes(ahead, &known);
	}
	return !keeps_path(search) && search->writes;
}

static void note_file_mark(struct job_file_search *search)
{
	const struct flmem_python_word *word = &search->reader.word;
	bool named = search->reader.before.kind == FLMEM_PYTHON_NAME && *word->text == '(';

	if (strchr("([{", *word->text)) {
		if (++search->depth < LEVELS_MAX)
			search->levels[search->depth] = (struct file_level){0};
		if (named && search->depth < LEVELS_MAX)
			search->levels[search->depth].function = search->reader.before;
	} else if (strchr(")]}", *word->text)) {
		search->depth -= search->depth > 0;
	} else if (*word->text == ',' && search->depth < LEVELS_MAX) {
		search->levels[search->depth].index++;
	}
}

static bool is_documentation(const struct job_file_search *search)
{
	struct flmem_python_reader ahead = search->reader;

	flmem_python_advance(&ahead);
	return flmem_python_at_statement(&search->reader) && !search->reader.python.brackets &&
	       flmem_python_ends(&ahead.word);
}

/* Notes the name in "NAME = ..." and "for NAME in ...". */
static void begin_file_statement(struct job_file_search *search)
{
	struct flmem_python_reader ahead = search->reader;
	bool loop = flmem_python_accept(&ahead, "for");
	struct flmem_python_word name = ahead.word;

	search->depth = 0;
	search->levels[0] = (struct file_level){0};
	search->raises = flmem_python_is(&name, "raise") || flmem_python_is(&name, "assert");
	flmem_python_advance(&ahead);
	search->name = (struct flmem_python_word){0};
	if (name.kind == FLMEM_PYTHON_NAME &&
	    (loop ? flmem_python_is(&ahead.word, "in")
		  : flmem_python_is(&ahead.word, "=") && ahead.word.text[1] != '='))
		search->name = name;
}

static bool is_path_name(const struct job_file_search *search, const struct flmem_python_word *word)
{
	char name[FLMEM_PYTHON_DOTTED_MAX];

	if (word->kind != FLMEM_PYTHON_NAME || flmem_python_is(&search->reader.before, ".") ||
	    word->place.start == search->name.place.start)
		return false;
	for (size_t i = 0; i < search->name_count; i++)
		if (flmem_python_word_text(&search->names[i], name) && flmem_python_is(word, name))
			return true;
	return false;
}

static void check_file_word(struct job_file_search *search)
{
	const struct flmem_python_word *word = &search->reader.word;
	struct file_level *level =
		&search->levels[search->depth < LEVELS_MAX ? search->depth : LEVELS_MAX - 1];

	if (word->kind == FLMEM_PYTHON_MARK)
		note_file_mark(search);
	if (word->kind == FLMEM_PYTHON_STRING && !level->first.text && search->depth)
		level->first = *word;
	if (!is_path_name(search, word) &&
	    (word->kind != FLMEM_PYTHON_STRING || !names_file(word) || is_documentation(search)))
		return;
	if (!may_write(search) || !search->reports || search->reported++ >= REPORTED_MAX)
		return;
	flmem_nvflare_report_word(search->check, word, "file", written);
}

static void walk_files(struct job_file_search *search)
{
	const struct flmem_python_part part = {.line = 1};
	const struct flmem_python_source source = {
		.text = search->check->input->document.text.data, .parts = &part, .count = 1};

	search->grown = false;
	flmem_python_start(&search->reader, &source, 0);
	for (; search->reader.word.kind != FLMEM_PYTHON_END;
	     flmem_python_advance(&search->reader)) {
		if (flmem_python_at_statement(&search->reader) && !search->reader.python.brackets)
			begin_file_statement(search);
		check_file_word(search);
	}
}

/* Whether a script uses any function that writes files. */
static bool writes_files(const char *text)
{
	static const char *const words[] = {"\"w\"",   "'w'",	   "write_text", "write_bytes",
					    "shutil.", ".write(",  ".dump(",	 "os.replace",
					    "\"wb\"",  "'wb'",	   "os.rename",	 "\"r+\"",
					    "'r+'",    "mode=\"w", "mode='w",	 NULL};

	for (size_t i = 0; words[i]; i++)
		if (strstr(text, words[i]))
			return true;
	return false;
}

void flmem_nvflare_check_job_files(struct flmem_check *check)
{
	const char *text = check->input->document.text.data;
	struct job_file_search search = {.check = check};

	if (!strstr(text, "config_fed_"))
		return;
	search.writes = writes_files(text);
	for (unsigned i = 0; i < WALKS_MAX && (!i || search.grown); i++)
		walk_files(&search);
	search.reports = true;
	walk_files(&search);
}
