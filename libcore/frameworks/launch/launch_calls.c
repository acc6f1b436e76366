/* SPDX-License-Identifier: Apache-2.0 */
/* Finds calls in Python that start programs, with the commands and variables that they pass. */
#include "frameworks/launch/launch_calls.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "documents/python/notebook_cells.h"
#include "frameworks/framework.h"
#include "frameworks/launch/launch_programs.h"
#include "frameworks/launch/launch_scan.h"

#define CALLS_BEFORE_MAX 1024U /* calls that are searched for a chdir() before a command */

static const char *call_path_text(const struct flmem_node *call)
{
	const char *path = flmem_node_string(flmem_node_get(call, "path"));

	return path ? path : "";
}

static const struct flmem_node *first_of(const struct flmem_node *root, const char *list)
{
	return flmem_node_first(flmem_node_get(root, list));
}

/* Packages whose objects start programs, here, on other hosts or in containers. */
static bool starts_by_package(const char *path)
{
	static const char *const packages[] = {"pexpect",
					       "sh",
					       "plumbum",
					       "fabric",
					       "invoke",
					       "docker",
					       "podman",
					       "paramiko",
					       "submitit",
					       "nox",
					       "sarge",
					       "delegator",
					       "anyio.run_process",
					       "anyio.open_process",
					       "trio.run_process",
					       "pty.spawn",
					       "psutil.Popen"};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(packages); i++) {
		size_t length = strlen(packages[i]);

		if (strncmp(path, packages[i], length) == 0 &&
		    (!path[length] || path[length] == '.'))
			return true;
	}
	return false;
}

bool flmem_launch_is_start(const char *path)
{
	static const char *const starts[] = {"subprocess.",	  "os.system", "os.popen",
					     "os.exec",		  "os.spawn",  "os.posix_spawn",
					     "asyncio.create_sub"};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(starts); i++)
		if (flmem_text_starts(path, starts[i]))
			return true;
	return starts_by_package(path);
}

bool flmem_launch_has_start(const struct flmem_node *root)
{
	const struct flmem_node *n = first_of(root, "calls");

	while (n && !flmem_launch_is_start(call_path_text(n)))
		n = n->next;
	return n;
}

/* Removes the prefix of a string, as in f"TEXT", from the end of `words`. */
static size_t drop_prefix(const char *words, size_t used)
{
	size_t start = used;

	while (start && used - start < 2 && strchr("fFrRbBuU", words[start - 1]))
		start--;
	return start && words[start - 1] != ' ' ? used : start;
}

/* Whether a "+" joins two strings into one: "A" + "B". */
static bool joins_texts(const char *text, size_t at)
{
	return text[at] == '+' && at && strchr(" \"'\n", text[at - 1]) &&
	       strchr(" \"'\n", text[at + 1]);
}

static size_t put_call_words(const char *text, size_t length, char *words, size_t used)
{
	for (size_t i = 0; i < length && used + 1 < FLMEM_LAUNCH_CALL_MAX; i++) {
		bool quote = strchr("\"'", text[i]) != NULL;
		char c = quote || strchr(",()[] \t\n", text[i]) || joins_texts(text, i) ? ' '
											: text[i];

		if (quote)
			used = drop_prefix(words, used);
		if (c != ' ' || (used && words[used - 1] != ' '))
			words[used++] = c;
	}
	words[used] = '\0';
	return used;
}

/*
 * The folder in which a command starts: its argument `cwd`, or the last os.chdir() before; or NULL.
 */
static const char *folder_of_call(const struct flmem_node *root, const struct flmem_node *call)
{
	const char *folder = flmem_node_string(FLMEM_NODE_AT(call, "args", "cwd"));
	const struct flmem_node *n = folder ? NULL : first_of(root, "calls");

	for (size_t i = 0; n && n->place.start < call->place.start && i < CALLS_BEFORE_MAX;
	     n = n->next, i++)
		if (flmem_text_ends(call_path_text(n), ".chdir"))
			folder = flmem_node_string(FLMEM_NODE_AT(n, "args", "0"));
	return folder;
}

/* Adds the program of sh.PROGRAM_NAME(), which is the function, with "-" for "_". */
static size_t put_program(const char *path, char *words, size_t used)
{
	int length;

	if (!flmem_text_starts(path, "sh."))
		return used;
	length = snprintf(words + used, FLMEM_LAUNCH_CALL_MAX - used, "%s ", path + strlen("sh."));
	for (char *c = words + used; (c = strchr(c, '_'));)
		*c = '-';
	return length > 0 && used + (size_t)length < FLMEM_LAUNCH_CALL_MAX ? used + (size_t)length
									   : used;
}

void flmem_launch_call_words(const struct flmem_document *document, const struct flmem_node *call,
			     char words[FLMEM_LAUNCH_CALL_MAX])
{
	const struct flmem_node *path = flmem_node_get(call, "path");
	const char *folder = folder_of_call(document->root, call);
	size_t start = path ? path->place.end : call->place.start, used = 0;

	if (folder && strlen(folder) < FLMEM_LAUNCH_CALL_MAX / 4)
		used = (size_t)snprintf(words, FLMEM_LAUNCH_CALL_MAX, "cd %s\n", folder);
	used = put_program(call_path_text(call), words, used);
	put_call_words(document->text.data + start, call->place.end - start, words, used);
}

/* Whether the first argument of a function of subprocess, os or asyncio is a command. */
static bool takes_command(const char *path)
{
	static const char *const names[] = {"subprocess.run",
					    "subprocess.Popen",
					    "subprocess.call",
					    "subprocess.check_call",
					    "subprocess.check_output",
					    "subprocess.getoutput",
					    "subprocess.getstatusoutput",
					    "os.system",
					    "os.popen",
					    "asyncio.create_subprocess_exec",
					    "asyncio.create_subprocess_shell",
					    NULL};

	return flmem_text_is_one_of(path, names) || flmem_text_starts(path, "os.exec");
}

static bool begins_with_python(const char *words)
{
	return flmem_text_starts(words, "sys.executable") ||
	       flmem_text_starts(words, "{sys.executable") || flmem_text_starts(words, "python");
}

/* Whether a command runs Python with a file that it does not name, not "-m pip" or "--version". */
static bool runs_any_python(const char *words)
{
	static const char *const others[] = {".py", " -m ", " -c ", " -V", " --version"};
	const char *rest = strchr(words, ' ');

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(others); i++)
		if (strstr(words, others[i]))
			return false;
	return rest && rest[1];
}

/* Whether a command begins with known text: ["git", x], f"mkdir {x}", not f"{tool} job". */
static bool begins_with_literal(const char *text)
{
	text += strspn(text, "[( \t\r\n");
	text += strspn(text, "fFrRbBuU");
	return strchr("\"'", *text) && !strchr("{$", text[strspn(text, "\"'")]);
}

/*
 * The text after the first literal of a command; NULL if it begins differently. The literal begins
 * at *ret_literal and has *ret_length bytes.
 */
static const char *literal_end(const char *text, const char **ret_literal, size_t *ret_length)
{
	const char *end;

	text += strspn(text, "[( \t\r\nfFrRbBuU");
	if (!strchr("\"'", *text) || !*text)
		return NULL;
	*ret_literal = text + 1;
	end = strchr(text + 1, *text);
	*ret_length = end ? (size_t)(end - text - 1) : 0;
	return end ? end + 1 : NULL;
}

/* Whether the verb of a program is a variable: ["PROGRAM", verb], f"PROGRAM {verb}". */
static bool has_unclear_verb(const char *text)
{
	struct flmem_launch_programs at = {0};
	const struct flmem_launch_program *p;
	const char *literal = NULL, *rest;
	size_t length = 0, name;

	rest = literal_end(text, &literal, &length);
	if (!rest)
		return false;
	name = strcspn(literal, " \"'");
	while ((p = flmem_launch_program_next(&at))) {
		const char *verb = literal + name;

		if (!p->before || strlen(p->before) != name ||
		    strncmp(literal, p->before, name) != 0)
			continue;
		verb += strspn(verb, " ");
		if (verb >= literal + length) {
			rest += strspn(rest, " \t\r\n,+");
			return *rest && !strchr("\"')]", *rest) &&
			       !(strchr("fFrRbBuU", *rest) && strchr("\"'", rest[1]));
		}
		return *verb == '{';
	}
	return false;
}

/* The argument of a call that is its command or its program; NULL if it has none. */
static const struct flmem_node *command_of_call(const struct flmem_node *call)
{
	static const char *const names[] = {"0", "args", "cmd", "*"};
	const struct flmem_node *args = flmem_node_get(call, "args"), *command = NULL;

	for (size_t i = 0; !command && i < FLMEM_ARRAY_SIZE(names); i++)
		command = flmem_node_get(args, names[i]);
	return command;
}

bool flmem_launch_is_unclear_call(const struct flmem_document *document,
				  const struct flmem_node *call)
{
	const struct flmem_node *command = command_of_call(call);
	char words[FLMEM_LAUNCH_CALL_MAX];
	const char *first = words, *text;

	if (!command || !takes_command(call_path_text(call)))
		return false;
	text = document->text.data + command->place.start;
	put_call_words(text, command->place.end - command->place.start, words, 0);
	first += *first == ' ';
	if (begins_with_python(first))
		return runs_any_python(first);
	return !begins_with_literal(text) || has_unclear_verb(text);
}

bool flmem_launch_call_only_names(const struct flmem_document *document,
				  const struct flmem_node *call)
{
	struct flmem_launches launches = {.text = document->text.data};
	char words[FLMEM_LAUNCH_CALL_MAX], first[FLMEM_LAUNCH_PROGRAM_MAX];
	const char *text = words;

	flmem_launch_call_words(document, call, words);
	text += strspn(text, " ");
	snprintf(first, sizeof(first), "%.*s", (int)strcspn(text, " "), text);
	if (!flmem_launch_is_naming(first) && strcmp(first, "echo") != 0 &&
	    strcmp(first, "printf") != 0)
		return false;
	flmem_launch_read_script(words, true, &launches);
	return !launches.launch_count;
}

bool flmem_launch_is_shell_method(const char *name)
{
	static const char *const names[] = {"system", "getoutput", "run_line_magic",
					    "run_cell_magic", NULL};

	return flmem_text_is_one_of(name, names);
}

bool flmem_launch_is_library_method(const struct flmem_node *root, const char *name)
{
	static const char *const names[] = {"run",   "sudo",	"exec_command", "exec_run",
					    "spawn", "execute", "sendline",	"submit",
					    "local", "Popen",	"popen",	NULL};
	const struct flmem_node *n = first_of(root, "imports");

	if (!flmem_text_is_one_of(name, names))
		return false;
	while (n && !starts_by_package(n->text))
		n = n->next;
	return n;
}

static bool has_variable_at(const struct flmem_launches *launches, size_t start)
{
	for (size_t i = 0; i < launches->variable_count; i++)
		if (launches->variables[i].place.start == start)
			return true;
	return false;
}

/* Adds a variable whose value is a literal; other values are known only when the Python runs. */
static void add_literal(struct flmem_launches *launches, const char *name,
			const struct flmem_node *value, int launch)
{
	const char *known = name ? flmem_launch_variable_name(name, strlen(name)) : NULL;

	if (known && flmem_node_string(value) && value->kind != FLMEM_NODE_EXPRESSION &&
	    !has_variable_at(launches, value->place.start))
		flmem_launch_add_variable(launches, known, value->text, launch, &value->place);
}

/* Adds the variables of a map and of the maps in it: runtime_env={"env_vars": {...}}. */
static void add_literals(struct flmem_launches *launches, const struct flmem_node *map, int launch)
{
	for (const struct flmem_node *n = flmem_node_first(map); n; n = n->next) {
		add_literal(launches, n->key, n, launch);
		if (n->kind == FLMEM_NODE_MAP)
			add_literals(launches, n, launch);
	}
}

/* Adds os.environ["NAME"] = VALUE and the like, which reach all programs started later. */
static void note_environ(const struct flmem_node *call, struct flmem_launches *launches)
{
	static const char *const setters[] = {"os.environ.__setitem__", "os.environ.setdefault",
					      "os.putenv", NULL};
	const char *path = call_path_text(call);
	const struct flmem_node *args = flmem_node_get(call, "args");
	const struct flmem_node *name = flmem_node_get(args, "0");

	if (flmem_text_is_one_of(path, setters) && flmem_node_string(name))
		add_literal(launches, name->text, flmem_node_get(args, "1"), -1);
}

/*
 * The place of the command of a call; for a line that IPython runs, the place of the call itself.
 */
static const struct flmem_place *place_of_command(const struct flmem_rule_input *input,
						  const struct flmem_node *call)
{
	const struct flmem_node *path = flmem_node_get(call, "path"),
				*command = command_of_call(call);
	struct flmem_place written;

	if (!command || flmem_notebook_written(&input->document, &path->place, &written))
		command = path;
	return &command->place;
}

/* Whether a line that a cell writes to a file belongs to the configuration of a framework. */
static bool is_configuration(const char *words)
{
	const struct flmem_buf text = {.data = (char *)(uintptr_t)words, .length = strlen(words)};

	for (size_t i = 0; flmem_frameworks[i]; i++)
		if (flmem_file_has_any_word(&text, flmem_frameworks[i]->config_words))
			return true;
	return false;
}

bool flmem_launch_writes_job(const char *words)
{
	const char *file = strchr(words, '>');

	words += strspn(words, " ");
	return (flmem_text_starts(words, "echo ") || flmem_text_starts(words, "printf ")) && file &&
	       strstr(file, ".py") && flmem_launch_makes_job(words);
}

/* Reads the command of a call as a shell script. Not inlined: `inner` is large. */
__attribute__((noinline)) static void read_started_command(const struct flmem_rule_input *input,
							   const struct flmem_node *call,
							   struct flmem_launches *launches)
{
	static const char *const env[] = {"env", "_env", "environment"};
	const char *text = input->document.text.data;
	const struct flmem_place *place = place_of_command(input, call);
	struct flmem_launches inner = {.text = text};
	char words[FLMEM_LAUNCH_CALL_MAX];
	int launch = -1;

	flmem_launch_call_words(&input->document, call, words);
	if (flmem_launch_writes_job(words) ||
	    (input->document.syntax == FLMEM_SYNTAX_NOTEBOOK && is_configuration(words)))
		flmem_launch_add_doubt(launches, place, FLMEM_LAUNCH_UNREAD_TEXT);
	flmem_launch_read_script(words, true, &inner);
	for (size_t i = 0; i < inner.launch_count; i++) {
		inner.launches[i].place = *place;
		if (!i || inner.launches[i].framework != inner.launches[i - 1].framework)
			launch = flmem_launch_add(launches, &inner.launches[i]);
	}
	for (size_t i = 0; i < inner.doubt_count && !inner.launch_count; i++)
		if (*inner.doubts[i].script)
			flmem_launch_add_script(launches, place, inner.doubts[i].script);
	if (!inner.launch_count && !inner.doubt_count &&
	    flmem_launch_is_unclear_call(&input->document, call))
		flmem_launch_add_doubt(launches, place,
				       "the command is known only when the script runs");
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(env) && launch >= 0; i++)
		add_literals(launches, FLMEM_NODE_AT(call, "args", env[i]), launch);
}

/* The call that starts a program and contains the offset `at`; NULL if there is none. */
static const struct flmem_node *start_around(const struct flmem_node *root, size_t at)
{
	static const char *const lists[] = {"calls", "methods"};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(lists); i++)
		for (const struct flmem_node *n = first_of(root, lists[i]); n; n = n->next) {
			const char *path = call_path_text(n);

			if (n->place.start <= at && at < n->place.end &&
			    (i ? flmem_launch_is_shell_method(path) ||
					     flmem_launch_is_library_method(root, path)
			       : flmem_launch_is_start(path)))
				return n;
		}
	return NULL;
}

bool flmem_launch_is_only_named(const struct flmem_document *document, size_t at)
{
	const struct flmem_node *call = start_around(document->root, at);

	return call && flmem_launch_call_only_names(document, call);
}

/* Adds the launch of a string that is a command, if no call around it was read. */
static void note_text(struct flmem_launch_texts *texts)
{
	struct flmem_launches *launches = texts->data;
	struct flmem_launch launch = {.place = texts->reader.word.place, .doubted = true};

	if (texts->reader.word.kind != FLMEM_PYTHON_STRING || flmem_launch_text_is_shown(texts))
		return;
	for (const struct flmem_framework_ops *const *f = flmem_frameworks; *f; f++) {
		const struct flmem_launch_program *program =
			flmem_launch_text_program(texts, (*f)->framework);

		if (!program)
			continue;
		if (start_around(texts->input->document.root, launch.place.start))
			return;
		launch.framework = (*f)->framework;
		launch.role = program->role;
		launch.place.line = flmem_document_line(&texts->input->document, launch.place.line);
		texts->stop = flmem_launch_add(launches, &launch) < 0;
		return;
	}
}

/* Adds env["NAME"] = "VALUE" on a copy of the environment, by the text after the key. */
static void note_item(const struct flmem_rule_input *input, const struct flmem_node *key,
		      struct flmem_launches *launches)
{
	const char *name = flmem_launch_variable_name(key->text, strlen(key->text));
	const char *all = input->document.text.data, *text = all + key->place.end, *end;
	struct flmem_place place = key->place;
	char value[FLMEM_LAUNCH_VALUE_MAX];

	text += strspn(text, " \t");
	if (!name || *text != ']')
		return;
	text += 1 + strspn(text + 1, " \t");
	if (*text != '=' || text[1] == '=')
		return;
	text += 1 + strspn(text + 1, " \t");
	end = *text && strchr("\"'", *text) ? strchr(text + 1, *text) : NULL;
	if (!end || memchr(text, '\n', (size_t)(end - text)))
		return;
	place.start = (size_t)(text - all);
	place.end = (size_t)(end + 1 - all);
	/* The same assignment was read as a call of os.environ. */
	if (has_variable_at(launches, place.start))
		return;
	snprintf(value, sizeof(value), "%.*s", (int)(end - text - 1), text + 1);
	flmem_launch_add_variable(launches, name, value, -1, &place);
}

bool flmem_launch_is_unread_text(const struct flmem_node *call)
{
	const char *text = flmem_node_string(FLMEM_NODE_AT(call, "args", "0"));
	struct flmem_buf buf;

	if (!text || strcmp(call_path_text(call), "_flmem.unread") != 0)
		return false;
	buf = (struct flmem_buf){.data = (char *)(uintptr_t)text, .length = strlen(text)};
	return flmem_launch_is_for_package(&buf) || flmem_launch_is_likely(text);
}

/* Adds a doubt about a configuration that a notebook cell writes to a file. */
static void note_unread_text(const struct flmem_node *call, struct flmem_launches *launches)
{
	if (flmem_launch_is_unread_text(call))
		flmem_launch_add_doubt(launches, &flmem_node_get(call, "path")->place,
				       FLMEM_LAUNCH_UNREAD_TEXT);
}

void flmem_launch_read_calls(const struct flmem_rule_input *input, struct flmem_launches *launches)
{
	const struct flmem_node *root = input->document.root, *n;
	struct flmem_launch_texts texts = {.input = input, .note = note_text, .data = launches};

	for (n = first_of(root, "calls"); n && !launches->cut; n = n->next) {
		note_environ(n, launches);
		note_unread_text(n, launches);
		if (flmem_launch_is_start(call_path_text(n)))
			read_started_command(input, n, launches);
		add_literals(launches, flmem_node_get(n, "args"), -1);
	}
	for (n = first_of(root, "methods"); n && !launches->cut; n = n->next) {
		const char *name = call_path_text(n);

		if (strcmp(name, "dict") == 0)
			add_literals(launches, flmem_node_get(n, "args"), -1);
		else if (flmem_launch_is_shell_method(name) ||
			 flmem_launch_is_library_method(root, name))
			read_started_command(input, n, launches);
	}
	for (n = first_of(root, "items"); n && !launches->cut; n = n->next)
		note_item(input, n, launches);
	flmem_launch_note_entry_points(root, launches);
	texts.stop = launches->cut; /* the tables are full: nothing more is kept */
	flmem_launch_texts_each(&texts);
}

static bool python_start_is_likely(enum flmem_syntax syntax, const struct flmem_buf *text)
{
	static const char *const words[] = {"subprocess", "os.",  "system(",	 "popen(", "Popen(",
					    "exec",	  "run(", "%%writefile", "%%file", NULL};

	(void)syntax;
	return flmem_launch_is_likely(text->data) ||
	       (flmem_launch_owner(text) &&
		(flmem_file_has_any_word(text, words) || flmem_launch_may_call_entry_point(text) ||
		 flmem_launch_mentions_variable(text->data)));
}

static bool starts_programs(const struct flmem_document *document)
{
	const struct flmem_node *n = first_of(document->root, "calls");

	while (n && !flmem_launch_is_unread_text(n))
		n = n->next;
	return n || flmem_launch_has_entry_point(document->root) ||
	       flmem_launch_is_likely(document->text.data) ||
	       (flmem_launch_owner(&document->text) &&
		(flmem_launch_has_start(document->root) ||
		 flmem_launch_mentions_variable(document->text.data)));
}

const struct flmem_input_kind flmem_launch_python_file = {
	.is_likely = python_start_is_likely,
	.is_one = starts_programs,
	.by_words = true,
	.content = FLMEM_CONTENT_PYTHON,
};
