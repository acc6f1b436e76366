/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules about Python that replaces NVFlare's cleanup. In 2.9.0 controllers and the client API clean
 * up in _maybe_cleanup_memory(), a swarm client also in _cleanup_learn_task_memory(). All of them
 * call cleanup_memory() of fuel/utils/memory_utils.py, which the clients look up each time. Before
 * 2.9, ClientAPILauncherExecutor has _maybe_cleanup_cj_memory().
 */
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "frameworks/nvflare/nvflare_classes.h"
#include "frameworks/nvflare/nvflare_client_api.h"

/* Bytes of a function, class or line that are read: a hostile script has any number of them. */
#define SEARCHED_MAX   65536
#define LINE_MAX_BYTES 4096

static const char *const hooks[] = {"_maybe_cleanup_memory", "_cleanup_learn_task_memory",
				    "_maybe_cleanup_cj_memory", NULL};
static const char *const nvflare_cleanup_functions[] = {"cleanup_memory", "try_malloc_trim",
							"get_allocator_type", NULL};

static const char no_effect[] = "it does not clean up, so the setting has no effect";
static const char own_times[] = "cannot tell when it cleans up";
static const char unclear[] = "cannot tell what it does";
static const char mixed_in[] = "cannot tell whether a class of NVFlare's gets it";
static const char patched[] = "cannot tell how long";
static const char deleted[] = "it is deleted, so a call of it fails";

/* The module that defines these functions. */
static const char module_name[] = "nvflare.fuel.utils.memory_utils";

static void report_replaced(struct flmem_check *check, const struct flmem_node *node,
			    const char *name, const char *detail)
{
	static const enum flmem_severity info = FLMEM_SEVERITY_INFO;

	flmem_check_report(check,
			   &(struct flmem_remark){.node = node,
						  .path = name,
						  .detail = detail,
						  .severity = detail == no_effect ? NULL : &info});
}

/* What code would do in place of the cleanup, as text for a finding. */
static const char *judge_code(const char *text, size_t length)
{
	static const char *const cleans[] = {"cleanup_memory(", "gc.collect", "malloc_trim",
					     "_memory()", "super()"};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(cleans); i++)
		if (memmem(text, length, cleans[i], strlen(cleans[i])))
			return own_times;
	return no_effect;
}

/* Offset where the line of an offset begins; a NUL ends a cell of a notebook. */
static size_t code_line_start(const char *text, size_t at)
{
	size_t first = at > LINE_MAX_BYTES ? at - LINE_MAX_BYTES : 0;

	while (at > first && text[at - 1] != '\n' && text[at - 1])
		at--;
	return at;
}

static size_t code_indent(const char *line)
{
	return strspn(line, " \t");
}

static bool is_blank_line(const char *line)
{
	return strchr("#\r\n", line[code_indent(line)]);
}

/* Bytes from after the name of a function to the end of its body. */
static size_t code_body_length(const char *text, size_t at)
{
	size_t indent = code_indent(text + code_line_start(text, at));
	const char *p = text + at;

	while (*p && p < text + at + SEARCHED_MAX) {
		p += strcspn(p, "\n");
		p += *p == '\n';
		if (!is_blank_line(p) && code_indent(p) <= indent)
			break;
	}
	return (size_t)(p - text) - at;
}

static bool is_function(const char *text, const struct flmem_node *name)
{
	const char *start = text + code_line_start(text, name->place.start);

	start += code_indent(start);
	return flmem_text_starts(start, "def ") || flmem_text_starts(start, "async ");
}

static const char *judge_function(const struct flmem_check *check, const struct flmem_node *name)
{
	const char *text = check->input->document.text.data;
	size_t at = name->place.end;

	return judge_code(text + at, code_body_length(text, at));
}

/* What a function of the script does that is assigned by its name. */
static const char *judge_name(const struct flmem_check *check, const char *value, size_t length)
{
	const struct flmem_node *n = flmem_nvflare_first(check, "definitions");

	for (; n; n = n->next)
		if (strlen(n->text) == length && strncmp(n->text, value, length) == 0 &&
		    is_function(check->input->document.text.data, n))
			return judge_function(check, n);
	return unclear;
}

static const char *judge_value(const struct flmem_check *check, const char *value, size_t length)
{
	static const char *const nothing[] = {"None", "Mock(", "MagicMock(", "mock.Mock(",
					      "mock.MagicMock("};
	size_t blanks = strspn(value, " \t\r\n");

	blanks = blanks < length ? blanks : length;
	value += blanks;
	length -= blanks;
	while (length && strchr(" \t\r", value[length - 1]))
		length--;
	if (length > 6 && flmem_text_starts(value, "lambda"))
		return judge_code(value, length);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(nothing); i++)
		if (flmem_text_starts(value, nothing[i]))
			return no_effect;
	return judge_name(check, value, length);
}

static bool is_deleted(const char *text, const struct flmem_node *name)
{
	const char *line = text + code_line_start(text, name->place.start);

	return flmem_text_starts(line + code_indent(line), "del ");
}

/* What the value does that is assigned to the name. */
static const char *judge_assigned(const struct flmem_check *check, const struct flmem_node *name)
{
	const char *text = check->input->document.text.data + name->place.end;
	size_t length = strcspn(text, "\n#");
	const char *equals = memchr(text, '=', length);

	if (is_deleted(check->input->document.text.data, name))
		return deleted;
	return equals ? judge_value(check, equals + 1, length - (size_t)(equals + 1 - text))
		      : unclear;
}

static bool cleans_up(const char *path)
{
	const struct flmem_nvflare_class *known = flmem_nvflare_class_find(path);

	if (!known || known->part == FLMEM_NVFLARE_RECIPE)
		return flmem_nvflare_is_client_api(path);
	return known->intervals[FLMEM_NVFLARE_SERVER].exists ||
	       known->intervals[FLMEM_NVFLARE_CLIENT].exists;
}

/* Offset of the line of the class around a place; `at` if there is no class. */
static size_t find_class(const char *text, size_t at)
{
	size_t line = code_line_start(text, at), indent = code_indent(text + line);

	while (line && text[line - 1] && indent && line + SEARCHED_MAX > at) {
		line = code_line_start(text, line - 1);
		if (is_blank_line(text + line) || code_indent(text + line) >= indent)
			continue;
		indent = code_indent(text + line);
		if (flmem_text_starts(text + line + indent, "class "))
			return line;
	}
	return at;
}

/*
 * What to report about a class between two offsets: `judged` if it inherits a cleanup, NULL if it
 * inherits from NVFlare but no cleanup, else that it may be mixed into another class.
 */
static const char *judge_class(const struct flmem_check *check, size_t start, size_t end,
			       const char *judged)
{
	const struct flmem_node *n = flmem_nvflare_first(check, "bases");
	const char *result = mixed_in;

	for (; n; n = n->next) {
		if (n->place.start < start || n->place.start > end)
			continue;
		if (cleans_up(n->text))
			return judged;
		if (flmem_text_starts(n->text, "nvflare."))
			result = NULL;
	}
	return result;
}

/* Checks a method, or a name that is assigned in a class or by an object to itself. */
static void check_member(struct flmem_check *check, const struct flmem_node *name)
{
	const char *text = check->input->document.text.data;
	size_t class = find_class(text, name->place.start);
	const char *judged =
		is_function(text, name) ? judge_function(check, name) : judge_assigned(check, name);

	if (class == name->place.start)
		return;
	judged = judge_class(check, class, name->place.start, judged);
	if (judged)
		report_replaced(check, name, name->text, judged);
}

/*
 * Whether a name is cleanup_memory of any module of NVFlare that has it, or a function that it
 * calls.
 */
static bool is_cleanup_of(const char *module, size_t length, const char *name)
{
	static const struct {
		const char *module, *name;
	} called[] = {{"gc", "collect"}, {"torch.cuda", "empty_cache"}};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(called); i++)
		if (strlen(called[i].module) == length &&
		    strncmp(called[i].module, module, length) == 0)
			return strcmp(called[i].name, name) == 0;
	return flmem_text_starts(module, "nvflare.") &&
	       flmem_text_is_one_of(name, nvflare_cleanup_functions);
}

static const char *function_of(const char *path)
{
	const char *name = flmem_nvflare_short_name(path);

	if (name == path || !is_cleanup_of(path, (size_t)(name - path) - 1, name))
		return NULL;
	return flmem_text_starts(path, "nvflare.") ? name : path;
}

static void check_assignments(struct flmem_check *check)
{
	const struct flmem_node *n;

	for (n = flmem_nvflare_first(check, "definitions"); n; n = n->next)
		if (flmem_text_is_one_of(n->text, hooks))
			check_member(check, n);
	for (n = flmem_nvflare_first(check, "attributes"); n; n = n->next)
		if (flmem_text_is_one_of(n->text, hooks))
			report_replaced(check, n, n->text, judge_assigned(check, n));
	for (n = flmem_nvflare_first(check, "rebound"); n; n = n->next)
		if (function_of(n->text))
			report_replaced(check, n, function_of(n->text), judge_assigned(check, n));
}

/*
 * The name that setattr(OBJECT, NAME, VALUE) or patch.object(OBJECT, NAME) replaces; NULL if that
 * is not part of the cleanup.
 */
static const char *name_of_call(const struct flmem_node *call)
{
	const struct flmem_node *object = FLMEM_NODE_AT(call, "args", "0");
	const char *name = flmem_node_string(FLMEM_NODE_AT(call, "args", "1"));

	if (!name || !object)
		return NULL;
	if (flmem_text_is_one_of(name, hooks))
		return name;
	if (!flmem_node_is_kind(object, FLMEM_NODE_EXPRESSION))
		return NULL;
	return is_cleanup_of(object->text, strlen(object->text), name) ? name : NULL;
}

static void check_setter(struct flmem_check *check, const struct flmem_node *call)
{
	const struct flmem_node *value = FLMEM_NODE_AT(call, "args", "2");
	const char *path = flmem_nvflare_path_text(call), *name = name_of_call(call);
	bool sets = strcmp(path, "setattr") == 0 || strcmp(path, "__setattr__") == 0;

	if (!name || (!sets && strcmp(flmem_nvflare_short_name(path), "object") != 0))
		return;
	report_replaced(check, FLMEM_NODE_AT(call, "args", "1"), name,
			!sets	? patched
			: value ? judge_value(check,
					      check->input->document.text.data + value->place.start,
					      value->place.end - value->place.start)
				: unclear);
}

/* Reports del gc.collect, delattr(gc, "collect"). */
static void check_deleter(struct flmem_check *check, const struct flmem_node *call)
{
	const char *path = flmem_nvflare_path_text(call), *name = name_of_call(call);

	if (name && (strcmp(path, "delattr") == 0 || strcmp(path, "__delattr__") == 0))
		report_replaced(check, FLMEM_NODE_AT(call, "args", "1"), name, deleted);
}

/* Reports sys.modules["gc"] = object. */
static void check_module_entry(struct flmem_check *check, const struct flmem_node *call)
{
	const struct flmem_node *key = FLMEM_NODE_AT(call, "args", "0");
	const char *text = flmem_node_string(key);

	if (strcmp(flmem_nvflare_path_text(call), "sys.modules.__setitem__") != 0 || !key)
		return;
	if (text ? strcmp(text, "gc") == 0 || strcmp(text, "torch.cuda") == 0
		 : strstr(check->input->document.text.data, "memory_utils") != NULL)
		report_replaced(check, key, text ? text : "sys.modules", unclear);
}

/* Whether a key is that of an entry of __dict__, of an object or a module. */
static bool is_entry_of_dict(const struct flmem_check *check, const struct flmem_node *key)
{
	static const char dict[] = "__dict__[";
	size_t length = sizeof(dict) - 1, at = key->place.start;

	return at >= length &&
	       strncmp(check->input->document.text.data + at - length, dict, length) == 0;
}

static void check_strings(struct flmem_check *check)
{
	const struct flmem_node *n;

	for (n = flmem_nvflare_first(check, "keys"); n; n = n->next)
		if (flmem_text_is_one_of(n->text, hooks))
			report_replaced(check, n, n->text, unclear);
	for (n = flmem_nvflare_first(check, "items"); n; n = n->next)
		if (flmem_text_is_one_of(n->text, hooks) ||
		    (flmem_text_is_one_of(n->text, nvflare_cleanup_functions) &&
		     is_entry_of_dict(check, n)))
			report_replaced(check, n, n->text, unclear);
	for (n = flmem_nvflare_first(check, "paths"); n; n = n->next)
		if (flmem_text_starts(n->text, module_name) && function_of(n->text))
			report_replaced(check, n, function_of(n->text), patched);
		else if (strcmp(n->text, module_name) == 0 &&
			 flmem_nvflare_is_module_entry(check, n))
			report_replaced(check, n, "memory_utils", unclear);
}

static void cleanup_replaced(struct flmem_check *check)
{
	static const char *const lists[] = {"calls", "methods"};

	check_assignments(check);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(lists); i++)
		for (const struct flmem_node *n = flmem_nvflare_first(check, lists[i]); n;
		     n = n->next) {
			check_setter(check, n);
			check_deleter(check, n);
			check_module_entry(check, n);
		}
	check_strings(check);
}

static const struct flmem_rule_row nvflare_cleanup_rows[] = {
	{
		.rule = {.id = "NVF-CLEANUP-REPLACED",
			 .severity = FLMEM_SEVERITY_WARNING,
			 .framework = FLMEM_FRAMEWORK_NVFLARE,
			 .since = "2.7.2",
			 .condition =
				 "a class that overrides _maybe_cleanup_memory() of a controller "
				 "or "
				 "of the client API, or _cleanup_learn_task_memory() of a swarm "
				 "client, without anything that cleans up; cleanup_memory(), "
				 "try_malloc_trim() or get_allocator_type() of "
				 "nvflare.fuel.utils.memory_utils, gc.collect(), or "
				 "torch.cuda.empty_cache(), to which "
				 "something else is assigned, also by setattr(); information where "
				 "the replacement cleans up itself or is not in the script, where "
				 "the class inherits from none of NVFlare's, for mock.patch(), "
				 "where "
				 "such a function is deleted, and for an entry of sys.modules",
			 .message =
				 "this runs instead of NVFlare's own cleanup, so memory_gc_rounds "
				 "and cuda_empty_cache do only what it does; remove it, or clean "
				 "up in it",
			 .source = FLMEM_SOURCE_NVFLARE_CODE},
		.inputs = {&flmem_nvflare_python_file, &flmem_nvflare_module_file},
		.check = cleanup_replaced,
	},
};

const struct flmem_rule_table flmem_nvflare_cleanup_rules = {
	nvflare_cleanup_rows, FLMEM_ARRAY_SIZE(nvflare_cleanup_rows)};
