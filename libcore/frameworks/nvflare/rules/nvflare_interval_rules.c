/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules about values of intervals that are not whole numbers >= 0. What happens then depends on the
 * class and the version: controllers check them in all versions, executors from 2.9 on, and recipes
 * convert some of them first.
 */
#include "frameworks/nvflare/nvflare_classes.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"

#define OFFLOAD "enable_tensor_disk_offload"

enum interval_value {
	NEGATIVE,
	TRUTH, /* true; false is the same as 0 */
	FRACTION,
	WHOLE_FRACTION, /* a fraction that is whole: 2.0 */
	DIGITS,		/* a string of digits: "2" */
	OTHER,
	VALUES,
};

enum interval_reader {
	CONTROLLER,  /* checked by check_non_negative_int() in all versions */
	EXECUTOR,    /* checked from 2.9 on */
	SWARM,	     /* never checked */
	MODEL,	     /* converted by the pydantic model of a recipe, for a client */
	MODEL_SERVER /* the same for a server, then checked as by CONTROLLER */
};

struct interval_effect {
	const char *text;
	enum flmem_severity severity;
};

#define REFUSED                                    \
	{                                          \
		"refuses it", FLMEM_SEVERITY_ERROR \
	}
#define FAILS                                                                                  \
	{                                                                                      \
		"accepts it, and the client then fails with a TypeError", FLMEM_SEVERITY_ERROR \
	}
#define OFF                                                              \
	{                                                                \
		"accepts it and never cleans up", FLMEM_SEVERITY_WARNING \
	}
#define EACH                                                                   \
	{                                                                      \
		"takes it as 1, a cleanup every round", FLMEM_SEVERITY_WARNING \
	}
#define ODD                                                                   \
	{                                                                     \
		"accepts it and counts by a fraction", FLMEM_SEVERITY_WARNING \
	}
#define CONVERTS                                                     \
	{                                                            \
		"takes it as a whole number", FLMEM_SEVERITY_WARNING \
	}

/* By reader and value, before 2.9 and from 2.9 on; read in 2.7.2, 2.8.3 and 2.9.0. */
static const struct interval_effect effects[][VALUES][2] = {
	[CONTROLLER] = {[NEGATIVE] = {REFUSED, REFUSED},
			[TRUTH] = {EACH, EACH},
			[FRACTION] = {REFUSED, REFUSED},
			[WHOLE_FRACTION] = {REFUSED, REFUSED},
			[DIGITS] = {REFUSED, REFUSED},
			[OTHER] = {REFUSED, REFUSED}},
	[EXECUTOR] = {[NEGATIVE] = {OFF, REFUSED},
		      [TRUTH] = {EACH, REFUSED},
		      [FRACTION] = {ODD, REFUSED},
		      [WHOLE_FRACTION] = {CONVERTS, REFUSED},
		      [DIGITS] = {FAILS, REFUSED},
		      [OTHER] = {FAILS, REFUSED}},
	[SWARM] = {[NEGATIVE] = {OFF, OFF},
		   [TRUTH] = {EACH, EACH},
		   [FRACTION] = {ODD, ODD},
		   [WHOLE_FRACTION] = {CONVERTS, CONVERTS},
		   [DIGITS] = {FAILS, FAILS},
		   [OTHER] = {FAILS, FAILS}},
	[MODEL] = {[NEGATIVE] = {OFF, REFUSED},
		   [TRUTH] = {EACH, EACH},
		   [FRACTION] = {REFUSED, REFUSED},
		   [WHOLE_FRACTION] = {CONVERTS, CONVERTS},
		   [DIGITS] = {CONVERTS, CONVERTS},
		   [OTHER] = {REFUSED, REFUSED}},
	[MODEL_SERVER] = {[NEGATIVE] = {REFUSED, REFUSED},
			  [TRUTH] = {EACH, EACH},
			  [FRACTION] = {REFUSED, REFUSED},
			  [WHOLE_FRACTION] = {CONVERTS, CONVERTS},
			  [DIGITS] = {CONVERTS, CONVERTS},
			  [OTHER] = {REFUSED, REFUSED}},
};

/* Whether a value is a whole number, which Python has of any length. */
static bool is_whole(const struct flmem_node *value)
{
	const char *text = value->text;

	return value->kind == FLMEM_NODE_INTEGER && *text && !text[strspn(text, "0123456789")];
}

/* Classifies a value. Returns false for a valid one, and for false, which is 0. */
static bool classify_value(const struct flmem_node *value, enum interval_value *ret_value)
{
	const char *text = value->text, *point = strchr(text, '.');
	int64_t number;

	if ((flmem_node_integer(value, &number) && number >= 0) || is_whole(value))
		return false;
	if (value->kind == FLMEM_NODE_BOOL && !flmem_node_is_true(value))
		return false;
	*ret_value = OTHER;
	if (value->kind == FLMEM_NODE_BOOL)
		*ret_value = TRUTH;
	else if (text[0] == '-' &&
		 (value->kind == FLMEM_NODE_INTEGER || value->kind == FLMEM_NODE_REAL))
		*ret_value = NEGATIVE;
	else if (value->kind == FLMEM_NODE_REAL)
		*ret_value =
			point && !point[1 + strspn(point + 1, "0")] ? WHOLE_FRACTION : FRACTION;
	else if (value->kind == FLMEM_NODE_STRING && *text && !text[strspn(text, "0123456789")])
		*ret_value = DIGITS;
	return true;
}

static enum interval_reader reader_of(const struct flmem_nvflare_class *known,
				      enum flmem_nvflare_side side)
{
	if (known && known->part == FLMEM_NVFLARE_SWARM_EXECUTOR)
		return SWARM;
	if (side == FLMEM_NVFLARE_SERVER)
		return known && known->converts ? MODEL_SERVER : CONTROLLER;
	return known && known->converts ? MODEL : EXECUTOR;
}

/* Writes what the version does with the value, or what each version does if it is not known. */
static void describe_effect(const struct interval_effect effect[2],
			    const struct flmem_version_number *release, char *out, size_t size,
			    enum flmem_severity *ret_severity)
{
	bool old = flmem_nvflare_is_before(release, "2.9");
	bool recent = flmem_nvflare_is_since(release, "2.9");

	*ret_severity = effect[recent].severity;
	if (!release->count && effect[1].severity < *ret_severity) /* the worse of the two */
		*ret_severity = effect[1].severity;
	if (old || recent)
		snprintf(out, size, "this version %s", effect[recent].text);
	else if (strcmp(effect[0].text, effect[1].text) == 0)
		snprintf(out, size, "every version from 2.7.2 to 2.9.0 %s", effect[0].text);
	else
		snprintf(out, size, "2.9.0 %s; 2.7.2 to 2.8.3 %s", effect[1].text, effect[0].text);
}

static void check_side(struct flmem_check *check, enum flmem_nvflare_side side)
{
	const char *name = flmem_nvflare_gc_name(check, side);
	const struct flmem_node *node = name ? flmem_nvflare_arg(check, name) : NULL;
	const struct flmem_node *value = flmem_check_resolve(check->input, node);
	const struct flmem_nvflare_class *known = flmem_nvflare_class_of(check->subject);
	enum flmem_severity severity;
	int64_t start, count;
	enum interval_value kind;
	char detail[200];

	if (!value || value->kind == FLMEM_NODE_EXPRESSION || !classify_value(value, &kind))
		return;
	describe_effect(effects[reader_of(known, side)][kind], &check->release, detail,
			sizeof(detail), &severity);
	flmem_nvflare_report_gc(
		check, side,
		(struct flmem_remark){
			.detail = detail,
			.proposed = side == FLMEM_NVFLARE_SERVER &&
						    !(flmem_nvflare_rounds(check, &start, &count) &&
						      (start + count) / 5 == start / 5)
					    ? "5"
					    : "1",
			.severity = &severity});
}

static void check_interval_invalid(struct flmem_check *check)
{
	if (check->input->kind != &flmem_nvflare_client_file)
		check_side(check, FLMEM_NVFLARE_SERVER);
	if (check->input->kind != &flmem_nvflare_server_file)
		check_side(check, FLMEM_NVFLARE_CLIENT);
}

/* Whether pydantic 2.13 converts a value to a boolean (its documentation, "Booleans"). */
static bool is_converted(const struct flmem_node *value)
{
	static const char *const words[] = {"0",  "1",	 "f",  "n",   "t",    "y",
					    "no", "off", "on", "yes", "true", "false"};
	const char *text = flmem_node_string(value);
	int64_t number;

	for (size_t i = 0; text && i < FLMEM_ARRAY_SIZE(words); i++)
		if (strcasecmp(text, words[i]) == 0)
			return true;
	if (value->kind == FLMEM_NODE_REAL)
		return strcmp(value->text, "0.0") == 0 || strcmp(value->text, "1.0") == 0;
	return !text && flmem_node_integer(value, &number) && (number == 0 || number == 1);
}

/*
 * Reports values of cuda_empty_cache that are not true or false. Executors keep the value, and
 * Python then takes any text as true. Recipes convert it, or refuse it.
 */
static void check_cuda_invalid(struct flmem_check *check)
{
	const struct flmem_nvflare_class *known = flmem_nvflare_class_of(check->subject);
	const struct flmem_node *node = flmem_nvflare_arg(check, "cuda_empty_cache");
	const struct flmem_node *value = flmem_check_resolve(check->input, node);
	static const enum flmem_severity error = FLMEM_SEVERITY_ERROR;
	bool converts = known && known->converts;
	int64_t number;

	if (!value || !known || !known->cuda || value->kind == FLMEM_NODE_BOOL ||
	    value->kind == FLMEM_NODE_EXPRESSION || (converts && is_converted(value)) ||
	    (flmem_node_integer(value, &number) && (number == 0 || number == 1)) ||
	    (value->kind == FLMEM_NODE_NULL && !converts))
		return;
	flmem_nvflare_report_arg(
		check, "cuda_empty_cache", node,
		(struct flmem_remark){
			.severity = converts ? &error : NULL,
			.detail = converts
					  ? "the recipe converts words like 'yes' and 'off', and "
					    "refuses other values"
					  : "NVFlare does not check it, and any text is true, also "
					    "'false'"});
}

/* Whether a class accepts a value other than true and false, and treats it as one of these. */
static bool takes_offload(const struct flmem_nvflare_class *known, const struct flmem_node *value)
{
	const char *text = flmem_node_string(value);

	return known->converts ? is_converted(value) : !text || !*text;
}

/*
 * Reports values of enable_tensor_disk_offload that are not true or false. Controllers keep the
 * value, and Python takes any text as true; a swarm client accepts a boolean only
 * (check_object_type() of 2.9.0). Recipes convert words, and refuse other texts.
 */
static void check_offload_invalid(struct flmem_check *check)
{
	static const enum flmem_severity error = FLMEM_SEVERITY_ERROR;
	const struct flmem_nvflare_class *known = flmem_nvflare_class_of(check->subject);
	const struct flmem_node *node = flmem_nvflare_arg(check, OFFLOAD);
	const struct flmem_node *value = flmem_check_resolve(check->input, node);
	bool swarm = known && (known->part == FLMEM_NVFLARE_SWARM_EXECUTOR ||
			       flmem_text_ends(known->path, ".SwarmLearningRecipe"));

	if (!value || !known || !known->offload || value->kind == FLMEM_NODE_BOOL ||
	    value->kind == FLMEM_NODE_EXPRESSION || (!swarm && takes_offload(known, value)))
		return;
	flmem_nvflare_report_arg(
		check, OFFLOAD, node,
		(struct flmem_remark){
			.severity = swarm || known->converts ? &error : NULL,
			.detail = swarm ? "the swarm client refuses any other value"
				  : known->converts
					  ? "the recipe converts words like 'yes' and 'off', and "
					    "refuses other values"
					  : "NVFlare does not check it, and any text is true, also "
					    "'false'"});
}

static const struct flmem_rule_row nvflare_interval_rows[] = {
	{
		.rule = {.id = "NVF-GC-INVALID",
			 .severity = FLMEM_SEVERITY_ERROR,
			 .framework = FLMEM_FRAMEWORK_NVFLARE,
			 .since = "2.7.2",
			 .fixable = true,
			 .condition =
				 "memory_gc_rounds that is not an integer of at least 0: "
				 "controllers refuse it in every version, executors from 2.9 on "
				 "(before, a negative one means off and a string fails at run "
				 "time), recipes convert numbers in strings; true means 1 (a "
				 "warning where the version accepts the value)",
			 .message = "memory_gc_rounds must be an integer of at least 0",
			 .source = "NVFlare code, 2.7.2, 2.8.3 and 2.9.0"},
		.inputs = {&flmem_nvflare_server_file, &flmem_nvflare_client_file,
			   &flmem_nvflare_python_file},
		.parts = true,
		.check = check_interval_invalid,
	},
	{
		.rule = {.id = "NVF-CUDA-INVALID",
			 .severity = FLMEM_SEVERITY_WARNING,
			 .framework = FLMEM_FRAMEWORK_NVFLARE,
			 .since = "2.7.2",
			 .condition = "cuda_empty_cache that is neither true nor false; of a "
				      "recipe (an error) what it does not convert to one",
			 .message = "cuda_empty_cache must be true or false",
			 .source = "NVFlare code, 2.7.2, 2.8.3 and 2.9.0"},
		.inputs = {&flmem_nvflare_client_file, &flmem_nvflare_python_file},
		.parts = true,
		.check = check_cuda_invalid,
	},
	{
		.rule = {.id = "NVF-OFFLOAD-INVALID",
			 .severity = FLMEM_SEVERITY_WARNING,
			 .framework = FLMEM_FRAMEWORK_NVFLARE,
			 .since = "2.8",
			 .condition = "enable_tensor_disk_offload that is a text; of a swarm "
				      "client (an error) also any other value that is neither "
				      "true nor false, of other recipes (an error) what they do "
				      "not convert to one",
			 .message = "enable_tensor_disk_offload must be true or false",
			 .source = "NVFlare code, 2.8.3 and 2.9.0"},
		.inputs = {&flmem_nvflare_server_file, &flmem_nvflare_client_file,
			   &flmem_nvflare_python_file},
		.parts = true,
		.check = check_offload_invalid,
	},
};

const struct flmem_rule_table flmem_nvflare_interval_rules = {
	nvflare_interval_rows, FLMEM_ARRAY_SIZE(nvflare_interval_rows)};
