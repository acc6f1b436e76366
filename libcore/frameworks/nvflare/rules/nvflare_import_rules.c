/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about Python that takes classes by names in strings, or runs other files. */
#include "frameworks/nvflare/nvflare_classes.h"

#include <string.h>

#include "base/text/text.h"
#include "frameworks/launch/launch_calls.h"

/* Reports an import by name, whose result is not followed. */
static void report_import(struct flmem_check *check, const struct flmem_node *call)
{
	const struct flmem_node *module = FLMEM_NODE_AT(call, "args", "0");
	const char *text = flmem_node_string(module);

	if (text ? flmem_text_starts(text, "nvflare.")
		 : flmem_node_is_kind(module, FLMEM_NODE_EXPRESSION))
		flmem_check_report(check,
				   &(struct flmem_remark){.node = module, .path = "import_module"});
}

/*
 * Whether a function imports or calls by a name, besides importlib. Names that are literals are in
 * "paths".
 */
static bool imports_by_name(const char *path)
{
	static const char *const names[] = {"pkgutil.resolve_name",    "pydoc.locate",
					    "hydra.utils.instantiate", "hydra.utils.call",
					    "hydra.utils.get_class",   "hydra.utils.get_object",
					    "hydra.utils.get_method",  NULL};

	return flmem_text_is_one_of(path, names);
}

static void report_name(struct flmem_check *check, const struct flmem_node *call)
{
	const struct flmem_node *name = FLMEM_NODE_AT(call, "args", "0");

	if (flmem_node_is_kind(name, FLMEM_NODE_EXPRESSION))
		flmem_check_report(check,
				   &(struct flmem_remark){.node = name,
							  .path = flmem_nvflare_path_text(call),
							  .detail = "the name is known only when "
								    "the script runs"});
}

/*
 * Whether a string is the module of importlib.import_module("a.b"), which is reported separately.
 */
static bool is_imported_module(const struct flmem_check *check, const struct flmem_node *text)
{
	static const char *const lists[] = {"calls", "methods"};
	static const char *const names[] = {"importlib.import_module", "__import__", NULL};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(lists); i++)
		for (const struct flmem_node *n = flmem_nvflare_first(check, lists[i]); n;
		     n = n->next) {
			const struct flmem_node *module = FLMEM_NODE_AT(n, "args", "0");

			if (flmem_text_is_one_of(flmem_nvflare_path_text(n), names) && module &&
			    module->place.start == text->place.start)
				return true;
		}
	return false;
}

/* Moves back over characters of a set. */
static size_t step_back(const char *text, size_t at, const char *characters)
{
	while (at && text[at - 1] && strchr(characters, text[at - 1]))
		at--;
	return at;
}

bool flmem_nvflare_is_module_entry(const struct flmem_check *check, const struct flmem_node *text)
{
	static const char list[] = "modules", letters[] = "abcdefghijklmnopqrstuvwxyz";
	const size_t length = sizeof(list) - 1;
	const char *all = check->input->document.text.data;
	size_t at = step_back(all, text->place.start, " \t\r\n\"'([{,");
	size_t method = step_back(all, at, letters);

	if (method && all[method - 1] == '.' && all[at] == '(')
		at = method - 1;
	return at >= length && strncmp(all + at - length, list, length) == 0;
}

/*
 * Reports names of classes in strings: "_target_": "nvflare...FedAvgRecipe",
 * sys.modules["nvflare..."].
 */
static void report_paths(struct flmem_check *check)
{
	for (const struct flmem_node *n = flmem_nvflare_first(check, "paths"); n; n = n->next) {
		if (!flmem_nvflare_class_find(n->text) &&
		    !(flmem_nvflare_is_module(n->text) && flmem_nvflare_is_module_entry(check, n)))
			continue;
		if (!is_imported_module(check, n))
			flmem_check_report(check, &(struct flmem_remark){
							  .node = n,
							  .path = flmem_nvflare_short_name(n->text),
							  .detail = "its name is in a string"});
	}
}

/* Whether a string names a module of NVFlare that report_paths() does not report. */
static bool is_other_module(const char *text)
{
	return text && (strcmp(text, "nvflare") == 0 ||
			(flmem_text_starts(text, "nvflare.") && !flmem_nvflare_is_module(text)));
}

static void report_replaced_module(struct flmem_check *check, const struct flmem_node *name)
{
	flmem_check_report(check, &(struct flmem_remark){.node = name,
							 .path = "sys.modules",
							 .detail = "a module of NVFlare is "
								   "replaced"});
}

/*
 * Reports sys.modules["nvflare"] = other, sys.modules.pop("nvflare.recipe"), del
 * sys.modules["nvflare"].
 */
static void report_replaced_modules(struct flmem_check *check)
{
	for (const struct flmem_node *n = flmem_nvflare_first(check, "calls"); n; n = n->next) {
		const struct flmem_node *name = FLMEM_NODE_AT(n, "args", "0"), *key;

		if (!flmem_text_starts(flmem_nvflare_path_text(n), "sys.modules.") ||
		    flmem_text_ends(flmem_nvflare_path_text(n), ".get"))
			continue;
		if (is_other_module(flmem_node_string(name)))
			report_replaced_module(check, name);
		key = flmem_node_is_kind(name, FLMEM_NODE_MAP) ? name->first : NULL;
		for (; key; key = key->next)
			if (is_other_module(key->key))
				report_replaced_module(check, key);
	}
}

/* Whether a call is locals()["Name"](...); other uses of entries are among the uses of recipes. */
static bool calls_local(const struct flmem_check *check, const struct flmem_node *call)
{
	const char *end = check->input->document.text.data + call->place.end;

	return strcmp(flmem_nvflare_path_text(call), "locals") == 0 && *end == '[' &&
	       (end = strchr(end, ']')) && end[1] == '(';
}

/* Reports globals()["Name"] and globals().get(name). */
static void report_globals(struct flmem_check *check, const struct flmem_node *call)
{
	const char *text = check->input->document.text.data;

	if (strchr("[.", text[call->place.end]))
		flmem_check_report(check,
				   &(struct flmem_remark){.node = flmem_node_get(call, "path"),
							  .path = flmem_nvflare_path_text(call)});
}

/* Whether a call is get_ipython().run_line_magic("run", FILE). */
static bool runs_file(const struct flmem_node *call)
{
	const char *magic = flmem_node_string(FLMEM_NODE_AT(call, "args", "0"));

	return strcmp(flmem_nvflare_path_text(call), "run_line_magic") == 0 && magic &&
	       (strcmp(magic, "run") == 0 || strcmp(magic, "load") == 0);
}

static void report_file(struct flmem_check *check, const struct flmem_node *call)
{
	flmem_check_report(check, &(struct flmem_remark){.node = flmem_node_get(call, "path"),
							 .path = "run",
							 .detail = "another file is run"});
}

static bool runs_another_file(const char *path)
{
	return flmem_text_starts(path, "runpy.run_") ||
	       flmem_text_ends(path, "importlib.util.spec_from_file_location") ||
	       flmem_text_ends(path, ".SourceFileLoader");
}

/* Whether Hydra resolves a value to a class, or to a name of a module beside the file. */
static bool is_target(const struct flmem_node *node)
{
	if (!node->key || strcmp(node->key, "_target_") != 0)
		return false;
	return node->kind == FLMEM_NODE_EXPRESSION ||
	       (flmem_node_string(node) && flmem_nvflare_class_find(node->text));
}

static void report_yaml_targets(struct flmem_check *check, const struct flmem_node *node)
{
	if (is_target(node))
		flmem_check_report(check,
				   &(struct flmem_remark){
					   .node = node,
					   .detail = "Hydra makes the object of this map and of "
						     "what overrides it"});
	for (const struct flmem_node *n = node->first; n && n->parent == node; n = n->next)
		report_yaml_targets(check, n);
}

/* Words in code that exec() and eval() run, by which it is about NVFlare. */
static const char *const nvflare_import_code_words[] = {"nvflare", "Recipe", "memory_gc_rounds",
							NULL};

static void imported_by_name(struct flmem_check *check)
{
	const struct flmem_node *n;

	if (check->kind == &flmem_nvflare_target_file)
		report_yaml_targets(check, check->input->document.root);

	for (n = flmem_nvflare_first(check, "calls"); n; n = n->next)
		if (strcmp(flmem_nvflare_path_text(n), "importlib.import_module") == 0)
			report_import(check, n);
		else if (imports_by_name(flmem_nvflare_path_text(n)))
			report_name(check, n);
		else if (runs_another_file(flmem_nvflare_path_text(n)))
			report_file(check, n);
	report_paths(check);
	report_replaced_modules(check);
	for (n = flmem_nvflare_first(check, "methods"); n; n = n->next)
		if (strcmp(flmem_nvflare_path_text(n), "__import__") == 0)
			report_import(check, n);
		else if (strcmp(flmem_nvflare_path_text(n), "globals") == 0 ||
			 calls_local(check, n))
			report_globals(check, n);
		else if (runs_file(n))
			report_file(check, n);
	if (check->kind == &flmem_nvflare_python_file)
		flmem_launch_check_code(check, "nvflare", nvflare_import_code_words);
}

static bool target_is_likely(enum flmem_syntax syntax, const struct flmem_buf *text)
{
	(void)syntax;
	return flmem_file_has_word(text, "_target_") && flmem_file_has_word(text, "nvflare.");
}

static bool yaml_has_target(const struct flmem_node *node)
{
	bool found = is_target(node);

	for (const struct flmem_node *n = node->first; n && n->parent == node && !found;
	     n = n->next)
		found = yaml_has_target(n);
	return found;
}

static bool is_target_file(const struct flmem_document *document)
{
	return document->root && yaml_has_target(document->root);
}

/* Whether a path is nvflare.collab, or in it. */
static bool is_of_collab(const char *path)
{
	static const char package[] = "nvflare.collab";
	const size_t length = sizeof(package) - 1;

	return flmem_text_starts(path, package) && (!path[length] || path[length] == '.');
}

static bool makes_collab_recipe(const struct flmem_rule_input *input)
{
	const struct flmem_node *n = NULL;

	if (input->kind == &flmem_nvflare_python_file)
		n = flmem_node_first(flmem_node_get(input->document.root, "calls"));
	while (n && !(flmem_nvflare_class_of(n) && is_of_collab(flmem_nvflare_class_of(n)->path)))
		n = n->next;
	return n;
}

void flmem_nvflare_report_collab(struct flmem_check *check)
{
	const struct flmem_node *import = flmem_nvflare_first(check, "imports");

	while (import && !is_of_collab(import->text))
		import = import->next;
	for (size_t i = 0; import && i < check->bundle->count; i++)
		if (makes_collab_recipe(&check->bundle->inputs[i]))
			return;
	if (import)
		flmem_check_report(check, &(struct flmem_remark){.node = import,
								 .path = "collab",
								 .detail = "it never cleans up"});
}

const struct flmem_input_kind flmem_nvflare_target_file = {
	.any_root = true,
	.is_likely = target_is_likely,
	.is_one = is_target_file,
	.by_words = true,
};

static const struct flmem_rule_row nvflare_import_rows[] = {
	{
		.rule = {.id = "NVF-IMPORTED-BY-NAME",
			 .severity = FLMEM_SEVERITY_INFO,
			 .framework = FLMEM_FRAMEWORK_NVFLARE,
			 .condition =
				 "importlib.import_module or __import__ of a module of "
				 "NVFlare, or of a variable; the name of a class in a string (for "
				 "Hydra or pkgutil, for example), also in YAML, there also of a "
				 "module beside it that is about NVFlare; exec of what is not a "
				 "literal, and exec under another name; eval of what a call or a "
				 "text with fields makes; exec or eval of a text about it, or of "
				 "a variable where such a text is in the script; "
				 "names that are looked up in globals(); a module of NVFlare that "
				 "is replaced in sys.modules; another file that it runs "
				 "by runpy or importlib, or a notebook by %run",
			 .message = "cannot tell which classes are taken from this module, and "
				    "with which settings; check the exported job",
			 .source = "NVFlare code, 2.7.2 to 2.9.0"},
		.inputs = {&flmem_nvflare_python_file, &flmem_nvflare_target_file},
		.check = imported_by_name,
	},
};

const struct flmem_rule_table flmem_nvflare_import_rules = {nvflare_import_rows,
							    FLMEM_ARRAY_SIZE(nvflare_import_rows)};
