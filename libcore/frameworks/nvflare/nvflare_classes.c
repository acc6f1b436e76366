/* SPDX-License-Identifier: Apache-2.0 */
#include "frameworks/nvflare/nvflare_classes.h"

#include <stdio.h>
#include <string.h>

#include <flmem/parse.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "frameworks/nvflare/nvflare_class_table.h"

#define OFFLOAD "enable_tensor_disk_offload"

#define OVERRIDING "memory_gc_rounds" /* argument of an interval in overrides */

#define CONVERTED_MAX 18U /* digits of a number of 64 bits */

const char *const flmem_nvflare_names[] = {
	"memory_gc_rounds",
	"server_memory_gc_rounds",
	"client_memory_gc_rounds",
	"cuda_empty_cache",
	OFFLOAD,
	NULL,
};

const char *flmem_nvflare_short_name(const char *path)
{
	const char *dot = strrchr(path, '.');

	return dot ? dot + 1 : path;
}

/* Whether a path is a name directly in the package that the first `length` characters name. */
static bool is_name_in(const char *package, size_t length, const char *path)
{
	return strncmp(path, package, length) == 0 && path[length] == '.' &&
	       !strchr(path + length + 1, '.');
}

/* Whether a path is PACKAGE.NAME of a class that its package, or the one above, exports. */
static bool is_exported(const struct flmem_nvflare_class *known, const char *path)
{
	static const char inner[] = ".recipes";
	size_t length = known->package ? strlen(known->package) : 0;

	if (!length ||
	    strcmp(flmem_nvflare_short_name(path), flmem_nvflare_short_name(known->path)) != 0)
		return false;
	return is_name_in(known->package, length, path) ||
	       (flmem_text_ends(known->package, inner) &&
		is_name_in(known->package, length - (sizeof(inner) - 1), path));
}

const struct flmem_nvflare_class *flmem_nvflare_class_find(const char *path)
{
	if (!flmem_text_starts(path, "nvflare."))
		return NULL;
	for (size_t i = 0; i < flmem_nvflare_class_count; i++)
		if (strcmp(path, flmem_nvflare_classes[i].path) == 0 ||
		    is_exported(&flmem_nvflare_classes[i], path))
			return &flmem_nvflare_classes[i];
	return NULL;
}

bool flmem_nvflare_is_module(const char *path)
{
	size_t length = strlen(path);

	for (size_t i = 0; i < flmem_nvflare_class_count; i++)
		if (strncmp(flmem_nvflare_classes[i].path, path, length) == 0 &&
		    flmem_nvflare_classes[i].path[length] == '.')
			return true;
	return false;
}

const char *flmem_nvflare_path_text(const struct flmem_node *call)
{
	const char *path = flmem_node_string(flmem_node_get(call, "path"));

	return path ? path : "";
}

const struct flmem_node *flmem_nvflare_first(const struct flmem_check *check, const char *list)
{
	return flmem_node_first(flmem_node_get(check->subject, list));
}

const struct flmem_node *flmem_nvflare_path(const struct flmem_node *subject)
{
	const struct flmem_node *path = flmem_node_get(subject, "path");

	return path ? path : flmem_node_get(subject, "class_path");
}

const struct flmem_nvflare_class *flmem_nvflare_class_of(const struct flmem_node *subject)
{
	const char *path = flmem_node_string(flmem_nvflare_path(subject));
	const char *name = flmem_node_string(flmem_node_get(subject, "name"));

	if (path)
		return flmem_nvflare_class_find(path);
	for (size_t i = 0; name && i < flmem_nvflare_class_count; i++)
		if (!strcmp(name, flmem_nvflare_short_name(flmem_nvflare_classes[i].path)))
			return &flmem_nvflare_classes[i];
	return NULL;
}

bool flmem_nvflare_resends(const struct flmem_nvflare_class *known)
{
	return strstr(known->path, "ClientAPILauncherExecutor");
}

bool flmem_nvflare_accepts(const struct flmem_nvflare_class *known, const char *name,
			   const char **ret_since)
{
	*ret_since = known->since;
	for (size_t i = 0; i < FLMEM_NVFLARE_SIDES; i++)
		if (known->intervals[i].arg && strcmp(name, known->intervals[i].arg) == 0)
			return true;
	if (strcmp(name, "cuda_empty_cache") == 0)
		return known->cuda;
	if (strcmp(name, OFFLOAD) != 0 || !known->offload)
		return false;
	*ret_since = known->offload;
	return true;
}

bool flmem_nvflare_is_before(const struct flmem_version_number *release, const char *bound)
{
	struct flmem_version_number other;

	return release->count && !flmem_version_number_parse(bound, &other, NULL) &&
	       flmem_version_number_compare(release, &other) < 0;
}

bool flmem_nvflare_is_since(const struct flmem_version_number *release, const char *bound)
{
	return release->count && !flmem_nvflare_is_before(release, bound);
}

static bool is_python_input(const struct flmem_rule_input *input)
{
	return input->kind == &flmem_nvflare_python_file;
}

/* From this position on, arguments of a call could be any. */
#define POSITIONS_KNOWN "8"

const struct flmem_node *flmem_nvflare_open_args(const struct flmem_check *check)
{
	static const char *const keys[] = {"**", "*", POSITIONS_KNOWN};
	const struct flmem_node *open = NULL;

	if (!is_python_input(check->input))
		return NULL;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(keys) && !open; i++)
		open = flmem_node_get(check->args, keys[i]);
	return open;
}

const struct flmem_node *flmem_nvflare_arg(const struct flmem_check *check, const char *name)
{
	return flmem_node_get(check->args, name);
}

const struct flmem_node *flmem_nvflare_map(const struct flmem_check *check,
					   const struct flmem_node *value)
{
	const struct flmem_node *names, *found;

	if (!is_python_input(check->input) || !flmem_node_is_kind(value, FLMEM_NODE_EXPRESSION))
		return value;
	names = flmem_node_get(check->input->document.root, "dictionaries");
	found = *value->text ? flmem_node_get(names, value->text) : NULL;
	return found ? found : value;
}

/* Reads a value as pydantic 2.13 does: "1", " +1 " and "1.0" become whole numbers. */
static bool convert_integer(const struct flmem_nvflare_class *known, const struct flmem_node *value,
			    int64_t *ret_value)
{
	const char *text = flmem_node_string(value), *end;
	char digits[CONVERTED_MAX + 1];
	uint64_t magnitude;
	bool negative;
	size_t length;

	if (!text || !known || !known->converts)
		return flmem_node_integer(value, ret_value);
	text += strspn(text, " \t\r\n");
	negative = *text == '-';
	text += negative || *text == '+';
	length = strspn(text, "0123456789");
	end = text + length;
	end += *end == '.' ? 1 + strspn(end + 1, "0") : 0;
	if (!length || length > CONVERTED_MAX || end[strspn(end, " \t\r\n")])
		return false;
	snprintf(digits, sizeof(digits), "%.*s", (int)length, text);
	if (flmem_parse_u64(digits, 0, INT64_MAX, &magnitude, NULL))
		return false;
	*ret_value = negative ? -(int64_t)magnitude : (int64_t)magnitude;
	return true;
}

const struct flmem_node *flmem_nvflare_overrides(const struct flmem_check *check,
						 enum flmem_nvflare_side side,
						 const char **ret_name)
{
	static const char *const names[] = {[FLMEM_NVFLARE_SERVER] = "server_config_overrides",
					    [FLMEM_NVFLARE_CLIENT] = "client_config_overrides"};
	const struct flmem_node *node = flmem_nvflare_arg(check, names[side]);
	const struct flmem_nvflare_class *known;

	*ret_name = names[side];
	if (!node) /* finding the class is a search, and most calls have no overrides */
		return NULL;
	known = flmem_nvflare_class_of(check->subject);
	if (!known || known->part != FLMEM_NVFLARE_RECIPE || node->kind == FLMEM_NODE_NULL)
		return NULL;
	return flmem_nvflare_map(check, node);
}

/* By recipe/cyclic.py and app_opt/pt/recipes/swarm.py of 2.9.0. */
const struct flmem_nvflare_class *
flmem_nvflare_overridden_class(const struct flmem_nvflare_class *recipe,
			       enum flmem_nvflare_side side)
{
	static const char *const paths[][FLMEM_NVFLARE_SIDES] = {
		{"nvflare.app_common.workflows.cyclic_ctl.CyclicController",
		 "nvflare.job_config.script_runner.ScriptRunner"},
		{"nvflare.app_common.ccwf.ccwf_job.SwarmServerConfig",
		 "nvflare.app_common.ccwf.ccwf_job.SwarmClientConfig"},
	};
	bool swarm = flmem_text_ends(recipe->path, ".SwarmLearningRecipe");

	if (!swarm && !flmem_text_ends(recipe->path, ".CyclicRecipe"))
		return NULL;
	return flmem_nvflare_class_find(paths[swarm][side]);
}

bool flmem_nvflare_is_overridden(const struct flmem_check *check, enum flmem_nvflare_side side,
				 const char *key, const struct flmem_node **ret_value)
{
	const char *name;
	const struct flmem_node *map = flmem_nvflare_overrides(check, side, &name);
	bool open = map && (map->kind != FLMEM_NODE_MAP || flmem_node_get(map, "**"));

	*ret_value = open ? NULL : flmem_node_get(map, key);
	return open || *ret_value;
}

/* Whether pydantic converts a word to true. */
static bool converts_to_true(const char *text)
{
	static const char *const words[] = {"1", "true", "t", "yes", "y", "on"};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(words); i++)
		if (strcasecmp(text, words[i]) == 0)
			return true;
	return false;
}

bool flmem_nvflare_is_on(const struct flmem_check *check, const char *name)
{
	const struct flmem_nvflare_class *known = flmem_nvflare_class_of(check->subject);
	const struct flmem_node *value;
	const char *text;
	int64_t number;

	if (!flmem_nvflare_is_overridden(check, FLMEM_NVFLARE_CLIENT, name, &value))
		value = flmem_check_resolve(check->input, flmem_nvflare_arg(check, name));
	text = flmem_node_string(value);

	/* Workflows take any value. Recipes convert words, which SwarmClientController refuses. */
	if (text && known && known->converts)
		return converts_to_true(text);
	if (text)
		return *text && known && known->part == FLMEM_NVFLARE_CONTROLLER;
	return flmem_node_is_true(value) || (flmem_node_integer(value, &number) && number);
}

/* The format of a member of ExchangeFormat, by its path or the name under which it is imported. */
static enum flmem_nvflare_format format_of_expression(const char *text)
{
	static const char *const others[] = {".RAW", ".NUMPY", ".KERAS_LAYER_WEIGHTS"};

	if (flmem_text_ends(text, ".PYTORCH"))
		return FLMEM_NVFLARE_FORMAT_PYTORCH;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(others); i++)
		if (flmem_text_ends(text, others[i]))
			return FLMEM_NVFLARE_FORMAT_OTHER;
	return FLMEM_NVFLARE_FORMAT_UNCLEAR;
}

enum flmem_nvflare_format flmem_nvflare_format_in(const struct flmem_node *value)
{
	const char *text = flmem_node_string(value);

	if (flmem_node_is_kind(value, FLMEM_NODE_EXPRESSION))
		return format_of_expression(value->text);
	return text && strcmp(text, "pytorch") == 0 ? FLMEM_NVFLARE_FORMAT_PYTORCH
						    : FLMEM_NVFLARE_FORMAT_OTHER;
}

enum flmem_nvflare_format flmem_nvflare_format_of(const struct flmem_check *check)
{
	const struct flmem_nvflare_class *known = flmem_nvflare_class_of(check->subject);
	const struct flmem_node *node =
		known && known->format ? flmem_nvflare_arg(check, known->format) : NULL;
	const struct flmem_node *value = flmem_check_resolve(check->input, node);

	if (!node && flmem_nvflare_open_args(check))
		return FLMEM_NVFLARE_FORMAT_UNCLEAR;
	if (!node)
		return known && known->pytorch ? FLMEM_NVFLARE_FORMAT_PYTORCH
					       : FLMEM_NVFLARE_FORMAT_OTHER;
	return value ? flmem_nvflare_format_in(value) : FLMEM_NVFLARE_FORMAT_UNCLEAR;
}

/*
 * For a class that flmem does not know, "memory_gc_rounds" is taken to mean the same as in NVFlare.
 */
const char *flmem_nvflare_gc_name(const struct flmem_check *check, enum flmem_nvflare_side side)
{
	const struct flmem_nvflare_class *known = flmem_nvflare_class_of(check->subject);

	if (known)
		return known->intervals[side].arg;
	return is_python_input(check->input) ? NULL : "memory_gc_rounds";
}

static bool is_beyond_counting(const struct flmem_node *value)
{
	int64_t unused;

	return flmem_node_is_kind(value, FLMEM_NODE_INTEGER) && *value->text &&
	       !value->text[strspn(value->text, "0123456789")] &&
	       !flmem_node_integer(value, &unused);
}

bool flmem_nvflare_gc_rounds(const struct flmem_check *check, enum flmem_nvflare_side side,
			     int64_t *ret_rounds, const struct flmem_node **ret_node)
{
	const struct flmem_nvflare_class *known = flmem_nvflare_class_of(check->subject);
	const char *name = flmem_nvflare_gc_name(check, side);
	const struct flmem_node *node = name ? flmem_nvflare_arg(check, name) : NULL, *value;

	*ret_node = node;
	/* The classes of a swarm recipe get both the argument and the overrides. */
	if (name && strcmp(name, OVERRIDING) != 0 &&
	    flmem_nvflare_is_overridden(check, side, OVERRIDING, &value))
		return false;
	value = flmem_check_resolve(check->input, node);
	if (flmem_node_is_kind(value, FLMEM_NODE_BOOL)) /* in Python, a boolean is a whole number */
		*ret_rounds = flmem_node_is_true(value);
	/* Python accepts any length, and no job has so many rounds. */
	else if (is_beyond_counting(value))
		*ret_rounds = INT64_MAX;
	else if (node)
		return convert_integer(known, value, ret_rounds);
	else if (known && known->intervals[side].exists &&
		 !(name && flmem_nvflare_open_args(check)))
		*ret_rounds = known->intervals[side].fallback;
	else
		return false;
	return true;
}

/* In Python the path of an argument begins with the class; in a job it is that of the node. */
void flmem_nvflare_report_arg(struct flmem_check *check, const char *name,
			      const struct flmem_node *node, struct flmem_remark remark)
{
	const char *class = flmem_node_string(flmem_node_get(check->subject, "path"));
	char under_args[64], path[192];

	if (is_python_input(check->input) && class) {
		snprintf(path, sizeof(path), "%.100s%s%.64s", flmem_nvflare_short_name(class),
			 node ? "." : "", node ? name : "");
		remark.path = path;
	}
	snprintf(under_args, sizeof(under_args), "args.%s", name);
	remark.node = node ? node : check->args ? check->args : check->subject;
	if (!node)
		remark.missing = check->args ? name : under_args;
	flmem_check_report(check, &remark);
}

void flmem_nvflare_report_gc(struct flmem_check *check, enum flmem_nvflare_side side,
			     struct flmem_remark remark)
{
	const struct flmem_nvflare_class *known = flmem_nvflare_class_of(check->subject);
	const char *name = flmem_nvflare_gc_name(check, side);
	char detail[192];

	if (name) {
		flmem_nvflare_report_arg(check, name, flmem_nvflare_arg(check, name), remark);
		return;
	}
	snprintf(detail, sizeof(detail),
		 "%s has no argument for it: set memory_gc_rounds in the job that it exports",
		 known ? flmem_nvflare_short_name(known->path) : "the class");
	flmem_check_report(
		check,
		&(struct flmem_remark){.node = flmem_node_get(check->subject, "path"),
				       .path = known ? flmem_nvflare_short_name(known->path) : NULL,
				       .detail = detail});
}

void flmem_nvflare_report_gc_off(struct flmem_check *check, enum flmem_nvflare_side side,
				 const char *proposed)
{
	const struct flmem_nvflare_class *known = flmem_nvflare_class_of(check->subject);
	struct flmem_remark remark = {.proposed = proposed};
	const struct flmem_node *node;
	char detail[128];
	int64_t rounds;

	if (!flmem_nvflare_gc_rounds(check, side, &rounds, &node) || rounds != 0)
		return;
	if (!node && known) {
		snprintf(detail, sizeof(detail), "absent, and the default of %s is 0",
			 flmem_nvflare_short_name(known->path));
		remark.detail = detail;
	}
	flmem_nvflare_report_gc(check, side, remark);
}

/* Reads an argument by its name or position. *ret_absent: the default of the class applies. */
static bool read_integer(const struct flmem_check *check, const char *name, const char *position,
			 int64_t *ret_value, bool *ret_absent)
{
	const struct flmem_node *node;

	*ret_absent = false;
	if (!flmem_nvflare_is_overridden(check, FLMEM_NVFLARE_SERVER, name, &node))
		node = flmem_nvflare_arg(check, name);
	else if (!node)
		return false;
	if (!node && position && is_python_input(check->input))
		node = flmem_node_get(check->args, position);
	*ret_absent = !node && !flmem_nvflare_open_args(check);
	return node && convert_integer(flmem_nvflare_class_of(check->subject),
				       flmem_check_resolve(check->input, node), ret_value);
}

bool flmem_nvflare_rounds(const struct flmem_check *check, int64_t *ret_start, int64_t *ret_count)
{
	const struct flmem_nvflare_class *known = flmem_nvflare_class_of(check->subject);
	int64_t start = 0, count = 0;
	bool absent;

	if (!read_integer(check, "num_rounds", known ? known->rounds_at : NULL, &count, &absent)) {
		if (!absent || !known)
			return false;
		count = known->rounds;
	}
	if (!read_integer(check, "start_round", NULL, &start, &absent) && !absent)
		return false;
	if (count <= 0 || start < 0 || count > INT64_MAX - start)
		return false;
	*ret_start = start;
	*ret_count = count;
	return true;
}

bool flmem_nvflare_lacks_rounds(const struct flmem_check *check)
{
	const struct flmem_nvflare_class *known = flmem_nvflare_class_of(check->subject);
	const char *position = known ? known->rounds_at : NULL;
	int64_t count;
	bool absent;

	return read_integer(check, "num_rounds", position, &count, &absent) && count <= 0;
}

/* The list of the parts of a file that may have rounds; NULL if it has none. */
static const struct flmem_node *parts_of(const struct flmem_rule_input *input)
{
	bool parts = input->kind == &flmem_nvflare_server_file || is_python_input(input);

	return parts ? flmem_node_get(input->document.root, input->kind->parts) : NULL;
}

/* Whether a file belongs to the job: a folder may hold several scripts, each of another job. */
static bool is_of_job(const struct flmem_check *check, const struct flmem_rule_input *input)
{
	return is_python_input(input) == is_python_input(check->input) &&
	       (!is_python_input(input) || input == check->input);
}

/* The rounds of all workflows of the job; 0: no workflow has a known number. */
static void compute_job_rounds(const struct flmem_check *check, struct flmem_memo *ret_value)
{
	int64_t start, count, most = 0;

	for (size_t i = 0; i < check->bundle->count; i++) {
		const struct flmem_rule_input *input = &check->bundle->inputs[i];
		const struct flmem_node *part = flmem_node_first(parts_of(input));

		if (!is_of_job(check, input))
			continue;
		for (; part; part = part->next) {
			struct flmem_check other = *check;

			other.input = input;
			other.subject = part;
			other.args = flmem_node_get(part, "args");
			if (flmem_nvflare_rounds(&other, &start, &count) && count > most)
				most = count;
		}
	}
	ret_value->number = most;
}

bool flmem_nvflare_job_rounds(const struct flmem_check *check, int64_t *ret_rounds)
{
	int64_t most = flmem_check_memo(check, compute_job_rounds).number;

	if (most)
		*ret_rounds = most;
	return most;
}

/* For a workflow without rounds; unknown for other calls, which in Python are parts, too. */
static enum flmem_nvflare_sends sends_of(const struct flmem_node *part)
{
	static const char *const once[] = {
		"nvflare.app_common.workflows.cmd_task_controller.CmdTaskController",
		"nvflare.app_opt.pt.recipes.fedeval.EvalController", NULL};
	static const char *const vary[] = {
		"nvflare.app_common.workflows.cross_site_model_eval.CrossSiteModelEval",
		"nvflare.app_common.workflows.cross_site_eval.CrossSiteEval", NULL};
	const char *path = flmem_nvflare_path_text(part);

	return flmem_text_is_one_of(path, once)	  ? FLMEM_NVFLARE_SENDS_ONCE
	       : flmem_text_is_one_of(path, vary) ? FLMEM_NVFLARE_SENDS_VARY
						  : FLMEM_NVFLARE_SENDS_UNKNOWN;
}

static void compute_job_sends(const struct flmem_check *check, struct flmem_memo *ret_value)
{
	enum flmem_nvflare_sends all = FLMEM_NVFLARE_SENDS_UNKNOWN;
	int64_t rounds;

	ret_value->number = all;
	if (flmem_nvflare_job_rounds(check, &rounds))
		return;
	for (size_t i = 0; i < check->bundle->count; i++) {
		const struct flmem_rule_input *input = &check->bundle->inputs[i];
		const struct flmem_node *part = flmem_node_first(parts_of(input));

		for (; part && is_of_job(check, input); part = part->next) {
			enum flmem_nvflare_sends one = sends_of(part);

			if (one == FLMEM_NVFLARE_SENDS_UNKNOWN && !is_python_input(input))
				return;
			if (one > all)
				all = one;
		}
	}
	ret_value->number = all;
}

enum flmem_nvflare_sends flmem_nvflare_job_sends(const struct flmem_check *check)
{
	return (enum flmem_nvflare_sends)flmem_check_memo(check, compute_job_sends).number;
}

/* Whether a part is a class of NVFlare whose arguments do not set memory. */
static bool lacks_settings(const struct flmem_node *part)
{
	const char *path = flmem_node_string(flmem_nvflare_path(part));

	return path && flmem_text_starts(path, "nvflare.") && !flmem_nvflare_class_find(path);
}

void flmem_nvflare_report_no_settings(struct flmem_check *check, const char *list,
				      const char *within)
{
	const struct flmem_node *n = flmem_node_first(flmem_node_get(check->subject, list));
	const struct flmem_node *found = NULL;

	for (; n; n = n->next) {
		const struct flmem_node *part = within ? flmem_node_get(n, within) : n;

		if (flmem_nvflare_class_of(part))
			return;
		if (!found && lacks_settings(part))
			found = flmem_nvflare_path(part);
	}
	if (found)
		flmem_check_report(check, &(struct flmem_remark){
						  .node = found,
						  .detail = flmem_nvflare_short_name(found->text)});
}
