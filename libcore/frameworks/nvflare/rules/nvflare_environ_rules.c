/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about variables that the Python of a job sets for itself or for programs that it starts. */
#include "frameworks/nvflare/nvflare_classes.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "documents/python/python.h"
#include "frameworks/launch/launch_calls.h"
#include "frameworks/launch/launch_scan.h"
#include "frameworks/nvflare/rules/nvflare_launch_rules.h"

enum place_of_variable {
	NOWHERE,
	IN_OWN_PROCESS,
	IN_CHILD,
	DROPPED, /* removed from its environment, so that programs it starts lack it */
};

/*
 * Where a call sets variables: os.environ[...] =, setdefault(), update(), putenv(); env= of a call
 * that starts a program.
 */
static enum place_of_variable place_of_call(const char *path)
{
	static const char *const own[] = {"os.environ.__setitem__", "os.environ.setdefault",
					  "os.environ.update", "os.putenv"};

	static const char *const drops[] = {"os.environ.pop", "os.environ.clear",
					    "os.environ.__delitem__", "os.unsetenv"};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(own); i++)
		if (strcmp(path, own[i]) == 0)
			return IN_OWN_PROCESS;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(drops); i++)
		if (strcmp(path, drops[i]) == 0)
			return DROPPED;
	return flmem_launch_is_start(path) ? IN_CHILD : NOWHERE;
}

/*
 * Whether the allocator reads a variable, which it does when the process starts; others are read
 * later.
 */
static bool is_of_allocator(const char *name)
{
	static const char *const names[] = {FLMEM_LAUNCH_ARENA_MAX, FLMEM_LAUNCH_LD_PRELOAD,
					    FLMEM_LAUNCH_MALLOC_CONF, FLMEM_LAUNCH_TUNABLES};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(names); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

/* Whether os.exec() is called: the program that it starts has the variables set before. */
static void compute_executes(const struct flmem_check *check, struct flmem_memo *ret_value)
{
	const struct flmem_node *n = flmem_nvflare_first(check, "calls");

	while (n && !flmem_text_starts(flmem_nvflare_path_text(n), "os.exec"))
		n = n->next;
	ret_value->number = n != NULL;
}

static bool executes_another(const struct flmem_check *check)
{
	return flmem_check_memo(check, compute_executes).number;
}

/*
 * Whether a call starts, or may start, a process of a federation with the variables of this
 * process.
 */
static bool starts_with_environment(const struct flmem_check *check, const struct flmem_node *call)
{
	const struct flmem_node *env = FLMEM_NODE_AT(call, "args", "env");
	const char *text = check->input->document.text.data;
	char words[FLMEM_LAUNCH_CALL_MAX];

	if (!flmem_launch_is_start(flmem_nvflare_path_text(call)) ||
	    (env && env->kind == FLMEM_NODE_MAP && !flmem_node_get(env, "**")))
		return false;
	flmem_launch_call_words(&check->input->document, call, words);
	return flmem_nvflare_start_by(check, call) || flmem_launch_is_likely_in(text, words);
}

/* Offset of the last such call; 0 if there is none. */
static void compute_last_such_start(const struct flmem_check *check, struct flmem_memo *ret_value)
{
	const struct flmem_node *n = flmem_nvflare_first(check, "calls");

	for (; n; n = n->next)
		if (starts_with_environment(check, n))
			ret_value->number = (int64_t)n->place.start;
}

static bool starts_child_after(const struct flmem_check *check, const struct flmem_node *node)
{
	return flmem_check_memo(check, compute_last_such_start).number > (int64_t)node->place.start;
}

/* Whether the script calls NVFlare, and so is part of a federation itself. */
static void compute_calls_nvflare(const struct flmem_check *check, struct flmem_memo *ret_value)
{
	const struct flmem_node *n = flmem_nvflare_first(check, "calls");

	while (n && !flmem_text_starts(flmem_nvflare_path_text(n), "nvflare."))
		n = n->next;
	ret_value->number = n != NULL;
}

/* Called for each variable of a call; `name` is NULL if it is not known. */
typedef void note_variable(struct flmem_check *check, enum place_of_variable place,
			   const char *name, const struct flmem_node *node);

static void visit_name(struct flmem_check *check, enum place_of_variable place, const char *text,
		       const struct flmem_node *node, note_variable *note)
{
	const char *name = text ? flmem_launch_variable_name(text, strlen(text)) : NULL;

	if (name || !text)
		note(check, place, name, node);
}

/* Visits the keys of a dictionary. "**" and "0" of dict() are not names of variables. */
static void visit_map(struct flmem_check *check, enum place_of_variable place,
		      const struct flmem_node *map, note_variable *note)
{
	for (const struct flmem_node *n = flmem_node_first(map); n; n = n->next)
		if (n->key)
			visit_name(check, place, n->key, n, note);
}

/* Visits the variables of update(entries, NAME=value, **more). */
static void visit_update(struct flmem_check *check, const struct flmem_node *entries,
			 const struct flmem_node *args, note_variable *note)
{
	if (flmem_node_is_kind(entries, FLMEM_NODE_EXPRESSION))
		visit_name(check, IN_OWN_PROCESS, NULL, entries, note);
	visit_map(check, IN_OWN_PROCESS, entries, note);
	visit_map(check, IN_OWN_PROCESS, args, note);
	if (flmem_node_get(args, "**"))
		visit_name(check, IN_OWN_PROCESS, NULL, flmem_node_get(args, "**"), note);
}

/*
 * Whether a call is patch.dict(os.environ, ...) of mock, also with "os.environ"; not
 * dict(os.environ, ...).
 */
static bool is_environ_patch(const struct flmem_check *check, const struct flmem_node *call)
{
	const struct flmem_node *path = flmem_node_get(call, "path");
	const struct flmem_node *patched = FLMEM_NODE_AT(call, "args", "0");
	const char *text = check->input->document.text.data;

	return patched && strcmp(patched->text, "os.environ") == 0 &&
	       strcmp(flmem_nvflare_short_name(flmem_nvflare_path_text(call)), "dict") == 0 &&
	       !flmem_text_starts(text + path->place.start, "dict");
}

static void visit_patch(struct flmem_check *check, const struct flmem_node *call,
			note_variable *note)
{
	const struct flmem_node *args = flmem_node_get(call, "args");
	const struct flmem_node *entries = flmem_node_get(args, "1");
	const struct flmem_node *clears = flmem_node_get(args, "clear");

	if (!is_environ_patch(check, call))
		return;
	visit_update(check, entries ? entries : flmem_node_get(args, "values"), args, note);
	if (clears && !flmem_python_is_false(clears))
		visit_name(check, DROPPED, NULL, clears, note);
}

/* Visits monkeypatch.setenv(NAME, value) of pytest. */
static void visit_fixture(struct flmem_check *check, const struct flmem_node *call,
			  note_variable *note)
{
	const char *method = flmem_nvflare_path_text(call);
	const struct flmem_node *name = FLMEM_NODE_AT(call, "args", "0");
	bool sets = strcmp(method, "setenv") == 0;

	if ((sets || strcmp(method, "delenv") == 0) && flmem_node_string(name))
		visit_name(check, sets ? IN_OWN_PROCESS : DROPPED, name->text, name, note);
}

/* Visits the variables that a call passes to the program that it starts. */
static void visit_child(struct flmem_check *check, const struct flmem_node *args,
			note_variable *note)
{
	static const char *const names[] = {"env", "_env", "environment"};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(names); i++)
		visit_map(check, IN_CHILD, flmem_node_get(args, names[i]), note);
}

static void visit_call(struct flmem_check *check, const struct flmem_node *call,
		       note_variable *note)
{
	const char *path = flmem_nvflare_path_text(call);
	enum place_of_variable place = place_of_call(path);
	const struct flmem_node *args = flmem_node_get(call, "args");
	const struct flmem_node *first = flmem_node_get(args, "0");

	if (place == IN_CHILD) {
		visit_child(check, args, note);
	} else if (place == IN_OWN_PROCESS && flmem_text_ends(path, ".update")) {
		visit_update(check, first, args, note);
	} else if ((place == IN_OWN_PROCESS || place == DROPPED) && first) {
		visit_name(check, place, flmem_node_string(first), first, note);
	} else if (place == DROPPED) {
		visit_name(check, place, NULL, flmem_node_get(call, "path"), note);
	}
}

/* Visits the keys of a list that name variables, except those of entries of os.environ. */
static void visit_keys(struct flmem_check *check, const char *list, note_variable *note)
{
	const struct flmem_node *key = flmem_nvflare_first(check, list);
	const struct flmem_node *call = flmem_nvflare_first(check, "calls");

	for (; key; key = key->next) {
		/*
		 * Both lists are in the order of the text, so neither is searched from its start.
		 */
		while (call && call->place.start < key->place.start)
			call = call->next;
		if (!call || call->place.start != key->place.start)
			visit_name(check, IN_CHILD, key->text, key, note);
	}
}

/* Visits dictionaries that may become the environment of a process. */
static void visit_dictionaries(struct flmem_check *check, note_variable *note)
{
	const struct flmem_node *n = flmem_nvflare_first(check, "methods");

	for (; n; n = n->next)
		if (strcmp(flmem_nvflare_path_text(n), "dict") == 0)
			visit_map(check, IN_CHILD, flmem_node_get(n, "args"), note);
	visit_keys(check, "keys", note);
}

static void visit_script(struct flmem_check *check, note_variable *note)
{
	const struct flmem_node *n = flmem_nvflare_first(check, "calls");

	for (; n; n = n->next) {
		visit_call(check, n, note);
		visit_patch(check, n, note);
	}
	for (n = flmem_nvflare_first(check, "methods"); n; n = n->next) {
		visit_patch(check, n, note);
		visit_fixture(check, n, note);
	}
	visit_keys(check, "items", note);
	if (flmem_launch_has_start(check->subject))
		visit_dictionaries(check, note);
}

/*
 * Why a variable may be set in time for another program; "" if it is only for another program; NULL
 * if it is set too late.
 */
static const char *in_time_for(const struct flmem_check *check, const struct flmem_node *node)
{
	if (executes_another(check))
		return "cannot tell whether os.exec() follows";
	if (!starts_child_after(check, node))
		return NULL;
	return flmem_check_memo(check, compute_calls_nvflare).number
		       ? "cannot tell whether it is for what the script starts after it"
		       : "";
}

static void note_late(struct flmem_check *check, enum place_of_variable place, const char *name,
		      const struct flmem_node *node)
{
	static const enum flmem_severity info = FLMEM_SEVERITY_INFO;
	const char *why;

	if (place != IN_OWN_PROCESS || !name || !is_of_allocator(name))
		return;
	why = in_time_for(check, node);
	if (!why || *why)
		flmem_check_report(check, &(struct flmem_remark){.node = node,
								 .path = name,
								 .severity = why ? &info : NULL,
								 .detail = why});
}

static void environ_late(struct flmem_check *check)
{
	visit_script(check, note_late);
}

static void note_unclear(struct flmem_check *check, enum place_of_variable place, const char *name,
			 const struct flmem_node *node)
{
	const char *detail = place == IN_CHILD ? "it is for a process that the script starts"
			     : place == DROPPED
				     ? name ? "what the script starts after this lacks it"
					    : "what the script starts after this lacks all of them"
			     : name ? "whether it is read before or after"
				    : "which variables are set is known only when the script runs";

	if (name && place == IN_OWN_PROCESS && is_of_allocator(name))
		return;
	if (name && strcmp(name, FLMEM_LAUNCH_TMPDIR) == 0 && !check->found->disk_offload)
		return;
	flmem_check_report(check, &(struct flmem_remark){.node = node,
							 .path = name ? name : "os.environ",
							 .detail = detail});
}

static void note_unclear_named(struct flmem_check *check, enum place_of_variable place,
			       const char *name, const struct flmem_node *node)
{
	if (name)
		note_unclear(check, place, name, node);
}

/*
 * Reports a module that starts programs, or sets variables whose names it does not show: it may
 * affect any program.
 */
static void check_module_variables(struct flmem_check *check)
{
	visit_script(check, note_unclear_named);
	flmem_nvflare_check_loaders(check);
}

static void environ_cannot_tell(struct flmem_check *check)
{
	const struct flmem_node *n;

	if (check->input->kind == &flmem_nvflare_client_file) {
		flmem_nvflare_check_job_commands(check);
		return;
	}
	if (check->input->kind == &flmem_nvflare_module_file) {
		check_module_variables(check);
		return;
	}
	if (check->kind == &flmem_launch_python_file) {
		flmem_launch_check_starts(check);
		return;
	}
	visit_script(check, note_unclear);
	flmem_nvflare_check_commands(check);
	flmem_nvflare_check_texts(check);
	for (n = flmem_nvflare_first(check, "attributes"); n; n = n->next)
		if (strcmp(n->text, "environ") == 0)
			note_unclear(check, IN_OWN_PROCESS, NULL, n);
}

#define NVFLARE .framework = FLMEM_FRAMEWORK_NVFLARE
#define SCRIPT	.inputs = {&flmem_nvflare_python_file, &flmem_nvflare_module_file}

static const struct flmem_rule_row nvflare_environ_rows[] = {
	{
		.rule = {.id = "NVF-ENVIRON-LATE",
			 .severity = FLMEM_SEVERITY_WARNING,
			 NVFLARE,
			 .condition =
				 "a script that sets MALLOC_ARENA_MAX, LD_PRELOAD, MALLOC_CONF "
				 "or GLIBC_TUNABLES in os.environ, unless what it starts after "
				 "that gets it (for information where it also calls os.exec, or "
				 "NVFlare itself)",
			 .message = "the allocator of this process has read its variables before, "
				    "so this applies only to processes that the script starts; "
				    "set it where Python is started",
			 .source = "glibc 2.36, malloc/arena.c; jemalloc 5.3, src/jemalloc.c"},
		SCRIPT,
		.check = environ_late,
	},
	{
		.rule = {.id = "NVF-ENVIRON-CANNOT-TELL",
			 .severity = FLMEM_SEVERITY_INFO,
			 NVFLARE,
			 .condition =
				 "a script that sets other variables which rules check in "
				 "os.environ, takes any out of it, sets them for a process that "
				 "it starts, or in "
				 "a dictionary that may be for one, sets "
				 "variables whose names are not literals, or starts NVFlare, "
				 "runs another file of Python that is not checked or runs a "
				 "simulator, has a text that sets such variables or is a command "
				 "that starts NVFlare, whatever runs it, starts a program that is "
				 "a "
				 "variable, sets variables by a command, also by one for "
				 "clients, or from a file (load_dotenv); such a command in an "
				 "exported job",
			 .message = "cannot tell which process gets which variables and settings; "
				    "check what runs with flmem recommend --pid",
			 .source = "Python documentation, os.environ and subprocess"},
		.inputs = {&flmem_nvflare_python_file, &flmem_nvflare_module_file,
			   &flmem_nvflare_client_file, &flmem_launch_python_file},
		.check = environ_cannot_tell,
	},
};

const struct flmem_rule_table flmem_nvflare_environ_rules = {
	nvflare_environ_rows, FLMEM_ARRAY_SIZE(nvflare_environ_rows)};
