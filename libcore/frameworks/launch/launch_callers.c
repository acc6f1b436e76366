/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds variables that a script gets from the file that starts it: an image, a unit, another
 * script.
 */
#include <string.h>

#include "base/text/text.h"
#include "frameworks/launch/launch_check.h"
#include "frameworks/launch/launch_scan.h"

/* Every script of a folder is searched in every other file: these limits bound the time. */
#define CALLER_FILES_MAX 1024U
#define CALLER_BYTES_MAX (64U << 10)
#define CALLERS_MAX	 3 /* levels of callers of callers */
#define CALLS_MAX	 64U

/* A search for files that start a script and set one of the variables for it. */
struct call_search {
	const struct flmem_bundle *bundle;
	const char *const *names; /* the variables to find; ends in NULL */
	const char *files[CALLERS_MAX];
	size_t depth;
	unsigned *calls; /* calls of scripts read so far, on all levels; not owned */
	bool any;
	enum flmem_launch_reach reach;
};

static bool is_whole_word(const char *text, const char *at, size_t length)
{
	static const char before[] = "/ \t\n\"'=[(,`", after[] = " \t\r\n\"',;&|)]`";

	return (at == text || strchr(before, at[-1])) && strchr(after, at[length]);
}

static const char *start_of_line(const char *text, const char *at)
{
	while (at > text && at[-1] != '\n')
		at--;
	return at + strspn(at, " \t");
}

static bool is_word_of(const char *at, const char *const *words)
{
	size_t length = strcspn(at, " \t\r\n");

	for (; *words; words++)
		if (strlen(*words) == length && strncmp(at, *words, length) == 0)
			return true;
	return false;
}

/* Whether a line is a comment or a command that only handles the file: cp, chmod, COPY. */
static bool only_names(const char *line)
{
	static const char *const words[] = {"COPY", "ADD", "RUN",    "chmod",	 "cp",
					    "mv",   "rm",  "cat",    "ls",	 "echo",
					    "git",  "scp", "printf", "dos2unix", NULL};

	line += *line == '-';
	line += strspn(line, " \t");
	return *line == '#' || is_word_of(line, words);
}

/* The place at or after `at` where a text starts the file `name`; NULL if there is none. */
static const char *find_call(const char *text, const char *at, const char *name)
{
	size_t length = strlen(name);

	for (; (at = strstr(at, name)); at += length)
		if (is_whole_word(text, at, length) && !only_names(start_of_line(text, at)))
			return at;
	return NULL;
}

/* Whether the command in front of the script passes on all that the shell exports. */
static bool is_plain_call(const char *text, const char *call)
{
	static const char *const runners[] = {"exec", "bash", "sh", ".", "nohup", "source", NULL};
	const char *at = start_of_line(text, call);

	while (at + strcspn(at, " \t\r\n") <= call) {
		if (!is_word_of(at, runners))
			return false;
		at += strcspn(at, " \t\r\n");
		at += strspn(at, " \t");
	}
	return true;
}

/* Whether the text between two offsets belongs to one statement: NAME=VALUE COMMAND. */
static bool is_one_statement(const char *text, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		if (strchr(";&|", text[i]) ||
		    (text[i] == '\n' && text[i - 1] != '\\' && text[i - 1] != '\r'))
			return false;
	return from < to;
}

/* Whether a variable of a caller reaches the script that the caller starts at `call`. */
static enum flmem_launch_reach reach_of_row(const struct flmem_launches *launches,
					    const struct flmem_launch_variable *row,
					    const char *call)
{
	size_t at = (size_t)(call - launches->text);
	bool own = launches->shell && is_one_statement(launches->text, row->place.end, at);

	if (row->unset || row->launch >= 0)
		return FLMEM_LAUNCH_NEVER;
	if (!launches->shell)
		return FLMEM_LAUNCH_ALWAYS;
	if (own)
		return FLMEM_LAUNCH_ALWAYS;
	if (row->local || row->place.start > at)
		return FLMEM_LAUNCH_NEVER;
	return row->scope || !is_plain_call(launches->text, call) ? FLMEM_LAUNCH_PERHAPS
								  : FLMEM_LAUNCH_ALWAYS;
}

/* Whether all variables of a file apply to the one program that it starts. */
static bool is_of_one_program(const char *file)
{
	const char *name = flmem_text_basename(file);

	return flmem_text_starts(name, "Dockerfile") || flmem_text_starts(name, "Containerfile") ||
	       flmem_text_ends(name, ".service");
}

static enum flmem_launch_reach reach_in_script(const struct flmem_rule_input *caller,
					       const char *call, const char *const *names)
{
	enum flmem_launch_reach reach = FLMEM_LAUNCH_NEVER;
	struct flmem_launches launches;

	flmem_launches_read(caller, &launches);
	if (launches.open || launches.musl || launches.cut)
		return FLMEM_LAUNCH_PERHAPS;
	for (size_t i = 0; i < launches.variable_count; i++) {
		enum flmem_launch_reach row =
			flmem_text_is_one_of(launches.variables[i].name, names)
				? reach_of_row(&launches, &launches.variables[i], call)
				: FLMEM_LAUNCH_NEVER;

		reach = row > reach ? row : reach;
	}
	if (reach == FLMEM_LAUNCH_ALWAYS && !launches.shell && !is_of_one_program(caller->file))
		return FLMEM_LAUNCH_PERHAPS;
	return reach;
}

/* For YAML, the container or task that has the variables is not determined. */
static enum flmem_launch_reach reach_in_document(const struct flmem_buf *text,
						 const char *const *names)
{
	static const char *const files[] = {"env_file", "envFrom", "EnvironmentFile=", "alpine",
					    NULL};

	return flmem_file_has_any_word(text, names) || flmem_file_has_any_word(text, files)
		       ? FLMEM_LAUNCH_PERHAPS
		       : FLMEM_LAUNCH_NEVER;
}

/* Not inlined: its caller recurses, and each level would hold the launches on the stack. */
__attribute__((noinline)) static enum flmem_launch_reach
reach_at(const struct call_search *search, const struct flmem_rule_input *caller, const char *call)
{
	return caller->document.syntax == FLMEM_SYNTAX_PLAIN &&
			       !flmem_launch_is_unread(caller->file, caller->document.text.data)
		       ? reach_in_script(caller, call, search->names)
		       : reach_in_document(&caller->document.text, search->names);
}

/* Adds what one caller does. If the callers differ, the variable may or may not be set. */
static void add_reach(struct call_search *search, enum flmem_launch_reach reach)
{
	if (search->any && search->reach != reach)
		reach = FLMEM_LAUNCH_PERHAPS;
	search->any = true;
	search->reach = reach;
}

static bool is_searched(const struct call_search *search, const char *file)
{
	for (size_t i = 0; i < search->depth; i++)
		if (strcmp(search->files[i], file) == 0)
			return true;
	return false;
}

static void search_callers(struct call_search *search, const char *file);

/* Checks each place where a caller starts the script, and if it sets nothing, its own callers. */
static void note_calls(struct call_search *search, const struct flmem_rule_input *caller,
		       const char *name)
{
	const char *text = caller->document.text.data;
	const char *call = text;

	while ((call = find_call(text, call, name))) {
		enum flmem_launch_reach reach = ++*search->calls > CALLS_MAX
							? FLMEM_LAUNCH_PERHAPS
							: reach_at(search, caller, call);

		if (!reach && search->depth < CALLERS_MAX) {
			struct call_search above = *search;

			above.any = false;
			search_callers(&above, caller->file);
			reach = above.any ? above.reach : reach;
		}
		add_reach(search, reach);
		call += strlen(name);
	}
}

static void note_caller(struct call_search *search, const struct flmem_rule_input *caller,
			const char *name)
{
	const struct flmem_document *document = &caller->document;
	bool read = document->syntax == FLMEM_SYNTAX_PLAIN ||
		    document->syntax == FLMEM_SYNTAX_YAML || document->syntax == FLMEM_SYNTAX_HOCON;

	if (*search->calls <= CALLS_MAX && flmem_launch_is_kind(caller->kind) && read &&
	    document->text.data && document->text.length <= CALLER_BYTES_MAX &&
	    !is_searched(search, caller->file))
		note_calls(search, caller, name);
}

static void search_callers(struct call_search *search, const char *file)
{
	const struct flmem_bundle *bundle = search->bundle;
	const char *name = flmem_text_basename(file);

	search->files[search->depth++] = file;
	for (size_t i = 0; i < bundle->count; i++)
		note_caller(search, &bundle->inputs[i], name);
	for (size_t i = 0; i < bundle->other_count; i++)
		note_caller(search, &bundle->others[i], name);
}

static bool is_compose(const char *name)
{
	return flmem_text_starts(name, "compose.") || flmem_text_starts(name, "docker-compose.");
}

/* Whether foreman or honcho reads the file; both also read .env in its folder. */
static bool is_procfile(const char *name)
{
	return strcmp(name, "Procfile") == 0;
}

/* Whether a path is a drop-in of a unit: UNIT.d/NAME.conf. */
static bool is_drop_in(const char *path, const char *unit)
{
	static const char mark[] = ".d/";
	const char *name = flmem_text_basename(path), *folder = name;
	size_t length = strlen(unit);

	while (folder > path && (folder == name || folder[-1] != '/'))
		folder--;
	return strncmp(folder, unit, length) == 0 &&
	       strncmp(folder + length, mark, strlen(mark)) == 0;
}

/*
 * Whether a file is read together with the checked one: drop-ins of a unit, .env of a Procfile, an
 * override of Compose, a Dockerfile that Compose builds.
 */
static bool belongs_to(const struct flmem_rule_input *part, const struct flmem_rule_input *input)
{
	const char *name = flmem_text_basename(input->file);
	const char *other = flmem_text_basename(part->file);

	if (flmem_text_ends(name, ".service"))
		return is_drop_in(part->file, name);
	if (is_procfile(name))
		return strcmp(other, ".env") == 0;
	if (!is_compose(name))
		return false;
	if (is_compose(other))
		return !strstr(name, ".override.") != !strstr(other, ".override.");
	return is_of_one_program(other) && flmem_file_has_word(&input->document.text, "build:");
}

static enum flmem_launch_reach reach_of_part(const struct call_search *search,
					     const struct flmem_rule_input *part,
					     const struct flmem_rule_input *input)
{
	if (!flmem_launch_is_kind(part->kind) || !part->document.text.data ||
	    !belongs_to(part, input))
		return FLMEM_LAUNCH_NEVER;
	return reach_in_document(&part->document.text, search->names);
}

static void search_parts(struct call_search *search, const struct flmem_rule_input *input)
{
	const struct flmem_bundle *bundle = search->bundle;
	enum flmem_launch_reach reach = FLMEM_LAUNCH_NEVER;
	const char *name = flmem_text_basename(input->file);

	if (!is_compose(name) && !is_procfile(name) && !flmem_text_ends(name, ".service"))
		return;
	for (size_t i = 0; i < bundle->count && !reach; i++)
		reach = reach_of_part(search, &bundle->inputs[i], input);
	for (size_t i = 0; i < bundle->other_count && !reach; i++)
		reach = reach_of_part(search, &bundle->others[i], input);
	if (reach)
		add_reach(search, reach);
}

enum flmem_launch_reach flmem_launch_reach_of_callers(const struct flmem_check *check,
						      const char *const *names)
{
	unsigned calls = 0;
	struct call_search search = {.bundle = check->bundle, .names = names, .calls = &calls};

	if (check->bundle->count + check->bundle->other_count > CALLER_FILES_MAX)
		return FLMEM_LAUNCH_NEVER;
	if (check->input->document.syntax == FLMEM_SYNTAX_PLAIN)
		search_callers(&search, check->input->file);
	search_parts(&search, check->input);
	return search.reach;
}

bool flmem_launch_sets_for_others(const struct flmem_buf *text)
{
	static const char *const files[] = {"env_file", "envFrom", "EnvironmentFile=", NULL};

	/* "sbatch --mem" in another file overrides the memory that a script asks for. */
	return text->data && (flmem_launch_mentions_variable(text->data) ||
			      flmem_file_has_any_word(text, files) ||
			      (strstr(text->data, "sbatch") && strstr(text->data, "--mem")));
}
