/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about --set of the commands that run NVFlare's server, client and jobs. */
#include "frameworks/nvflare/nvflare_classes.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "frameworks/launch/launch_search.h"
#include "frameworks/nvflare/nvflare_set_options.h"

static const char *const chunk_keys[] = {"tensor_download_chunk_size", "np_download_chunk_size"};

static void find_set_chunk(const struct flmem_nvflare_sets *sets, struct flmem_check *check,
			   bool invalid)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(chunk_keys); i++) {
		const struct flmem_nvflare_set *row = flmem_nvflare_set_find(sets, chunk_keys[i]);
		struct flmem_comm_value value =
			row ? flmem_nvflare_set_value(row->value) : (struct flmem_comm_value){0};

		if (row && (invalid ? value.state == FLMEM_COMM_INVALID
				    : value.state == FLMEM_COMM_NUMBER && value.number <= 0))
			flmem_nvflare_set_report(check, row, chunk_keys[i], NULL);
	}
}

static void find_set_chunk_zero(const struct flmem_nvflare_sets *sets, void *context)
{
	find_set_chunk(sets, context, false);
}

static void find_set_chunk_invalid(const struct flmem_nvflare_sets *sets, void *context)
{
	find_set_chunk(sets, context, true);
}

/*
 * Reports a setting that --set does not reach: an argument of a class, or an outermost key of a
 * job.
 */
static void find_set_ignored(const struct flmem_nvflare_sets *sets, void *context)
{
	for (const char *const *name = flmem_nvflare_names; *name; name++) {
		const struct flmem_nvflare_set *row = flmem_nvflare_set_find(sets, *name);

		if (row)
			flmem_nvflare_set_report(context, row, *name, NULL);
	}
}

static bool has_unknown(const struct flmem_nvflare_sets *sets, const char *key)
{
	const struct flmem_nvflare_set *row = flmem_nvflare_set_find(sets, key);

	return row && flmem_nvflare_set_value(row->value).state == FLMEM_COMM_UNKNOWN;
}

static void find_set_unknown(const struct flmem_nvflare_sets *sets, void *context)
{
	const char *key = NULL;

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(chunk_keys); i++)
		if (has_unknown(sets, chunk_keys[i]))
			key = chunk_keys[i];
	for (size_t i = 0; i < FLMEM_COMM_KEYS; i++)
		if (has_unknown(sets, flmem_comm_keys[i].name))
			key = flmem_comm_keys[i].name;
	if (key) {
		flmem_nvflare_set_report(context, flmem_nvflare_set_find(sets, key), key, NULL);
		return;
	}
	for (size_t i = 0; i < sets->count; i++) {
		if (!sets->rows[i].open)
			continue;
		flmem_nvflare_set_report(context, &sets->rows[i], "--set", NULL);
		return;
	}
}

static void check_chunk_zero(struct flmem_check *check)
{
	flmem_nvflare_sets_each(check->input, find_set_chunk_zero, check);
}

static void check_chunk_invalid(struct flmem_check *check)
{
	flmem_nvflare_sets_each(check->input, find_set_chunk_invalid, check);
}

static void check_ignored(struct flmem_check *check)
{
	flmem_nvflare_sets_each(check->input, find_set_ignored, check);
}

static void check_cannot_tell(struct flmem_check *check)
{
	flmem_nvflare_sets_each(check->input, find_set_unknown, check);
}

#define NVFLARE .framework = FLMEM_FRAMEWORK_NVFLARE
#define INPUTS                                                                                \
	.inputs = {&flmem_launch_file, &flmem_launch_unread_file, &flmem_nvflare_python_file, \
		   &flmem_nvflare_module_file}
#define SOURCE "NVFlare 2.7.2, 2.8.1 and 2.9.0, fuel/utils/config_service.py"
#define CHUNKS "tensor_download_chunk_size or np_download_chunk_size"

static const struct flmem_rule_row nvflare_set_option_rows[] = {
	{
		.rule = {.id = "NVF-SET-CHUNK-ZERO",
			 .severity = FLMEM_SEVERITY_WARNING,
			 NVFLARE,
			 .condition = CHUNKS " of 0 or less after --set of NVFlare's programs",
			 .message = "models are serialised whole instead of streamed in chunks, "
				    "whatever a job sets: --set takes precedence over its files "
				    "and the environment, also in the processes of jobs; "
				    "remove it",
			 .source = SOURCE},
		INPUTS,
		.check = check_chunk_zero,
	},
	{
		.rule = {.id = "NVF-SET-CHUNK-INVALID",
			 .severity = FLMEM_SEVERITY_ERROR,
			 NVFLARE,
			 .condition =
				 CHUNKS " that is not a number, after --set of NVFlare's programs",
			 .message = "NVFlare converts this value with int(), which fails when the "
				    "first model is sent, whatever a job sets: --set takes "
				    "precedence; write a number of bytes",
			 .source = SOURCE},
		INPUTS,
		.check = check_chunk_invalid,
	},
	{
		.rule = {.id = "NVF-SET-IGNORED",
			 .severity = FLMEM_SEVERITY_WARNING,
			 NVFLARE,
			 .condition = "a memory setting that is an argument of a class "
				      "(memory_gc_rounds, for example) after --set of NVFlare's "
				      "programs",
			 .message = "NVFlare does not read this setting from --set; set it in the "
				    "job",
			 .source = SOURCE},
		INPUTS,
		.check = check_ignored,
	},
	{
		.rule = {.id = "NVF-SET-CANNOT-TELL",
			 .severity = FLMEM_SEVERITY_INFO,
			 NVFLARE,
			 .condition = "a size, or the whole of a word, after --set of NVFlare's "
				      "programs that is a variable",
			 .message = "cannot tell: it is known only when the program starts, and "
				    "takes precedence over files and the environment",
			 .source = SOURCE},
		INPUTS,
		.check = check_cannot_tell,
	},
};

const struct flmem_rule_table flmem_nvflare_set_rules = {nvflare_set_option_rows,
							 FLMEM_ARRAY_SIZE(nvflare_set_option_rows)};
