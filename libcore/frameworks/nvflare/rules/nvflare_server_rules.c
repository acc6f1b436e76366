/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about config_fed_server, and rules about both workflows and executors. */
#include "frameworks/nvflare/nvflare_classes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <flmem/text.h>

#include "base/text/text.h"

#define SERVER_FILE &flmem_nvflare_server_file
#define CLIENT_FILE &flmem_nvflare_client_file
#define BOTH_FILES  SERVER_FILE, CLIENT_FILE
#define PYTHON	    &flmem_nvflare_python_file

/*
 * Whether a cleanup occurs in `count` rounds. It depends on the number of completed rounds, with
 * those before start_round.
 */
static bool interval_triggers(int64_t start, int64_t count, int64_t interval)
{
	return (start + count) / interval > start / interval;
}

/* The interval to propose: 5 rounds, or 1 in a job that is too short for that. */
static const char *good_interval(const struct flmem_check *check)
{
	int64_t start, count;

	return flmem_nvflare_rounds(check, &start, &count) && !interval_triggers(start, count, 5)
		       ? "1"
		       : "5";
}

static void server_gc_off(struct flmem_check *check)
{
	const struct flmem_nvflare_class *known = flmem_nvflare_class_of(check->subject);

	if (!known || !known->gc_ignored)
		flmem_nvflare_report_gc_off(check, FLMEM_NVFLARE_SERVER, good_interval(check));
}

/*
 * Reports an interval that the class ignores: a warning if the user sets it and relies on it, else
 * for information, since the server still has no cleanups.
 */
static void gc_ignored(struct flmem_check *check)
{
	static const enum flmem_severity info = FLMEM_SEVERITY_INFO;
	const struct flmem_nvflare_class *known = flmem_nvflare_class_of(check->subject);
	const struct flmem_node *node;
	int64_t rounds = 0;
	const char *name;
	bool set;

	if (!known || !known->gc_ignored)
		return;
	name = flmem_nvflare_short_name(known->path);
	set = flmem_nvflare_gc_rounds(check, FLMEM_NVFLARE_SERVER, &rounds, &node) && node &&
	      rounds > 0;
	if (set) {
		flmem_nvflare_report_gc(check, FLMEM_NVFLARE_SERVER,
					(struct flmem_remark){.detail = name});
		return;
	}
	node = flmem_nvflare_path(check->subject);
	flmem_check_report(
		check, &(struct flmem_remark){.node = node ? node : check->subject,
					      .path = check->input->kind == PYTHON ? name : NULL,
					      .detail = name,
					      .severity = &info});
}

/* Returns ", the default" if the arguments do not hold the number of rounds. */
static const char *default_rounds_text(const struct flmem_check *check)
{
	return flmem_nvflare_arg(check, "num_rounds") ? "" : ", the default";
}

/*
 * Returns the interval as text. A number of Python above int64_t is kept as INT64_MAX, and its text
 * is printed.
 */
static const char *interval_text(int64_t interval, const struct flmem_node *node, char out[32])
{
	if (interval == INT64_MAX && node->kind == FLMEM_NODE_INTEGER)
		snprintf(out, 32, "%.31s", node->text);
	else
		snprintf(out, 32, "%" PRId64, interval);
	return out;
}

static void server_never_cleans(struct flmem_check *check)
{
	const struct flmem_node *node;
	int64_t interval, start, count;
	char detail[160], text[32];

	if (!flmem_nvflare_gc_rounds(check, FLMEM_NVFLARE_SERVER, &interval, &node) || !node ||
	    interval <= 0 || !flmem_nvflare_rounds(check, &start, &count) ||
	    interval_triggers(start, count, interval))
		return;
	snprintf(detail, sizeof(detail), "rounds %" PRId64 " to %" PRId64 "%s, cleanup every %s",
		 start, start + count - 1, default_rounds_text(check),
		 interval_text(interval, node, text));
	flmem_nvflare_report_gc(
		check, FLMEM_NVFLARE_SERVER,
		(struct flmem_remark){.detail = detail, .proposed = good_interval(check)});
}

/*
 * Counts what a client sends: a result per round at least, more if it also validates. Returns false
 * if it is not known.
 */
static bool count_sends(const struct flmem_check *check, int64_t *ret_count, const char **ret_unit)
{
	const struct flmem_nvflare_class *known = flmem_nvflare_class_of(check->subject);
	int64_t start;

	*ret_unit = "round";
	if (known && known->sends) {
		*ret_count = known->sends;
		*ret_unit = "result"; /* a result that a client sends */
		return true;
	}
	if (flmem_nvflare_rounds(check, &start, ret_count) ||
	    flmem_nvflare_job_rounds(check, ret_count))
		return true;
	*ret_count = 1;
	*ret_unit = "result";
	return flmem_nvflare_job_sends(check) == FLMEM_NVFLARE_SENDS_ONCE;
}

static void client_never_cleans(struct flmem_check *check)
{
	char detail[160], counted[FLMEM_TEXT_COUNTED_MAX], text[32];
	const struct flmem_node *node;
	int64_t interval, count;
	const char *unit;

	if (!flmem_nvflare_gc_rounds(check, FLMEM_NVFLARE_CLIENT, &interval, &node) || !node ||
	    !count_sends(check, &count, &unit) || interval <= count)
		return;
	flmem_text_counted((uint64_t)count, unit, counted, sizeof(counted));
	snprintf(detail, sizeof(detail), "%s%s, cleanup every %s sends", counted,
		 strcmp(unit, "result") == 0 ? " of a client" : "",
		 interval_text(interval, node, text));
	flmem_nvflare_report_gc(check, FLMEM_NVFLARE_CLIENT,
				(struct flmem_remark){.detail = detail, .proposed = "1"});
}

/* Reports a job without any round, which no interval fits. */
static void report_no_rounds(struct flmem_check *check)
{
	const struct flmem_node *node;
	int64_t interval;

	for (int side = 0; side < FLMEM_NVFLARE_SIDES; side++)
		if (flmem_nvflare_gc_rounds(check, (enum flmem_nvflare_side)side, &interval,
					    &node) &&
		    node && interval > 0) {
			flmem_nvflare_report_gc(
				check, (enum flmem_nvflare_side)side,
				(struct flmem_remark){.detail = "its num_rounds allows no round"});
			return;
		}
}

static void gc_never_fires(struct flmem_check *check)
{
	if (flmem_nvflare_lacks_rounds(check)) {
		report_no_rounds(check);
		return;
	}
	if (check->input->kind != &flmem_nvflare_client_file)
		server_never_cleans(check);
	if (check->input->kind != &flmem_nvflare_server_file)
		client_never_cleans(check);
}

/*
 * Reads a value as NVFlare does with int(): a number in a string, true, the digits before a point.
 */
static bool read_chunk_size(const struct flmem_node *value, int64_t *ret_size)
{
	struct flmem_node number = *value;

	if (number.kind == FLMEM_NODE_BOOL) {
		*ret_size = flmem_node_is_true(value);
		return true;
	}
	if (number.kind == FLMEM_NODE_REAL) {
		bool fraction = flmem_text_starts(value->text, "0.") ||
				flmem_text_starts(value->text, ".") || *value->text == '-';

		*ret_size = 0;
		return fraction && !strpbrk(value->text, "eE");
	}
	if (number.kind == FLMEM_NODE_STRING)
		number.kind = FLMEM_NODE_INTEGER;
	return flmem_node_integer(&number, ret_size);
}

static bool is_invalid_chunk_size(const struct flmem_node *value)
{
	int64_t size;

	return (value->kind == FLMEM_NODE_STRING && !read_chunk_size(value, &size)) ||
	       value->kind == FLMEM_NODE_MAP || value->kind == FLMEM_NODE_LIST;
}

static bool is_zero_chunk_size(const struct flmem_node *value)
{
	int64_t size;

	return read_chunk_size(value, &size) && size <= 0;
}

static void check_chunk_sizes(struct flmem_check *check,
			      bool (*matches)(const struct flmem_node *value))
{
	static const char *const keys[] = {"tensor_download_chunk_size", "np_download_chunk_size"};

	struct flmem_nvflare_config_at at = {0};
	const struct flmem_node *map;

	while ((map = flmem_nvflare_config_next(check, &at))) {
		for (size_t i = 0; i < FLMEM_ARRAY_SIZE(keys); i++) {
			const struct flmem_node *node = flmem_node_get(map, keys[i]);
			const struct flmem_node *value = flmem_check_resolve(check->input, node);

			if (value && matches(value))
				flmem_check_report(check,
						   &(struct flmem_remark){.node = node,
									  .path = keys[i],
									  .proposed = "2097152"});
		}
	}
}

static void chunk_zero(struct flmem_check *check)
{
	check_chunk_sizes(check, is_zero_chunk_size);
}

static void chunk_invalid(struct flmem_check *check)
{
	check_chunk_sizes(check, is_invalid_chunk_size);
}

static void workflows_without_settings(struct flmem_check *check)
{
	flmem_nvflare_report_no_settings(check, "workflows", NULL);
}

static const struct flmem_rule_row nvflare_server_rows[] = {
	{
		.rule = {.id = "NVF-SRV-GC-OFF",
			 .severity = FLMEM_SEVERITY_WARNING,
			 .framework = FLMEM_FRAMEWORK_NVFLARE,
			 .since = "2.7.2",
			 .fixable = true,
			 .condition = "a workflow or recipe whose memory_gc_rounds "
				      "(server_memory_gc_rounds) is 0, or absent where the "
				      "default of its class is 0",
			 .message = "the server never collects garbage or trims between rounds; "
				    "every 5 "
				    "rounds that costs under 0.2% of the time",
			 .source = FLMEM_SOURCE_NVFLARE_GUIDE},
		.inputs = {SERVER_FILE, PYTHON},
		.parts = true,
		.check = server_gc_off,
	},
	{
		.rule = {.id = "NVF-SRV-GC-IGNORED",
			 .severity = FLMEM_SEVERITY_ERROR,
			 .framework = FLMEM_FRAMEWORK_NVFLARE,
			 .since = "2.7.2",
			 .condition = "FedAvgLR (FedAvgLrRecipe) or ScatterAndGatherScaffold: an "
				      "error with memory_gc_rounds above 0, information without",
			 .message = "the server of this workflow never cleans up, whatever "
				    "memory_gc_rounds is; trim it with flmem trim",
			 .source = FLMEM_SOURCE_NVFLARE_CODE},
		.inputs = {SERVER_FILE, PYTHON},
		.parts = true,
		.check = gc_ignored,
	},
	{
		.rule = {.id = "NVF-GC-NEVER-FIRES",
			 .severity = FLMEM_SEVERITY_WARNING,
			 .framework = FLMEM_FRAMEWORK_NVFLARE,
			 .since = "2.7.2",
			 .fixable = true,
			 .condition =
				 "a workflow or recipe without a round whose number, counted from "
				 "1, is a multiple of memory_gc_rounds, also with num_rounds of 0 "
				 "or less; an executor or recipe "
				 "whose memory_gc_rounds for clients is above the job's "
				 "num_rounds; an absent num_rounds has the default of the class, "
				 "and clients of FedEvalRecipe and FedTaskRecipe, or of the "
				 "workflows that they export, send once",
			 .message = "the job ends before the first cleanup; "
				    "set an interval of at most the number of rounds",
			 .source = FLMEM_SOURCE_NVFLARE_CODE},
		.inputs = {BOTH_FILES, PYTHON},
		.parts = true,
		.check = gc_never_fires,
	},
	{
		.rule = {.id = "NVF-CHUNK-ZERO",
			 .severity = FLMEM_SEVERITY_WARNING,
			 .framework = FLMEM_FRAMEWORK_NVFLARE,
			 .fixable = true,
			 .condition =
				 "tensor_download_chunk_size or np_download_chunk_size of 0 or "
				 "less, on the server or a client, also where a script adds it to "
				 "the job",
			 .message = "models are serialised whole instead of streamed in chunks; "
				    "remove the key, or set it to its default",
			 .source = "NVFlare guide \"Notes on Large Models\""},
		.inputs = {BOTH_FILES, PYTHON},
		.check = chunk_zero,
	},
	{
		.rule = {.id = "NVF-WORKFLOW-NO-SETTINGS",
			 .severity = FLMEM_SEVERITY_INFO,
			 .framework = FLMEM_FRAMEWORK_NVFLARE,
			 .condition =
				 "a job in which no workflow has a memory setting, with one of "
				 "NVFlare's others (CrossSiteModelEval, for example)",
			 .message = "this workflow never cleans up and has no argument for it; set "
				    "the allocator with flmem start, and trim with flmem trim",
			 .source = FLMEM_SOURCE_NVFLARE_CODE},
		.inputs = {&flmem_nvflare_server_file},
		.check = workflows_without_settings,
	},
	{
		.rule = {.id = "NVF-CHUNK-INVALID",
			 .severity = FLMEM_SEVERITY_ERROR,
			 .framework = FLMEM_FRAMEWORK_NVFLARE,
			 .fixable = true,
			 .condition =
				 "tensor_download_chunk_size or np_download_chunk_size that is not "
				 "a whole number, like \"2M\"; a whole number in a string is one",
			 .message = "NVFlare converts this value with int(), which fails when the "
				    "first model is sent; write a number of bytes",
			 .source = FLMEM_SOURCE_NVFLARE_CODE},
		.inputs = {BOTH_FILES, PYTHON},
		.check = chunk_invalid,
	},
};

const struct flmem_rule_table flmem_nvflare_server_rules = {nvflare_server_rows,
							    FLMEM_ARRAY_SIZE(nvflare_server_rows)};
