/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records facts about jobs against which other inputs are checked: how often each side cleans up.
 */
#include "frameworks/nvflare/nvflare_classes.h"

#include <string.h>

#include "base/text/text.h"

static const char differs[] = "the checked jobs differ in this value";
static const char nvflare_facts_at_run_time[] =
	"the value in a checked file is known only when it runs";
static const char nvflare_facts_refused[] =
	"the value in a checked file is not a whole number of at least 0";
static const char in_no_job[] = "no checked NVFlare job sets it";

void flmem_nvflare_facts_init(struct flmem_recommendations *found)
{
	const struct flmem_u64 in_job = FLMEM_UNKNOWN(in_no_job);

	found->server_gc_rounds = found->client_gc_rounds = found->cuda_empty_cache = in_job;
	found->clear_cache = FLMEM_UNKNOWN("no checked Python file sends through NVFlare");
}

bool flmem_nvflare_is_in_no_job(struct flmem_u64 rounds)
{
	return rounds.unknown == in_no_job;
}

/* Merges the interval of one part into that of all parts; they have one in common, or none. */
static void merge_interval(struct flmem_u64 *all, int64_t rounds)
{
	if (all->unknown && all->unknown != in_no_job)
		return;
	if (rounds < 0)
		*all = FLMEM_UNKNOWN(nvflare_facts_refused);
	else if (all->unknown)
		*all = FLMEM_KNOWN((uint64_t)rounds);
	else if (all->value != (uint64_t)rounds)
		*all = FLMEM_UNKNOWN(differs);
}

static void note_side(struct flmem_check *check, enum flmem_nvflare_side side,
		      struct flmem_u64 *all)
{
	const struct flmem_nvflare_class *known = flmem_nvflare_class_of(check->subject);
	const struct flmem_node *node = NULL;
	const char *name;
	int64_t rounds;
	bool overridden;

	if (known && known->gc_ignored && side == FLMEM_NVFLARE_SERVER)
		return;
	overridden = flmem_nvflare_override(check, side, &name);
	if (!overridden && flmem_nvflare_gc_rounds(check, side, &rounds, &node))
		merge_interval(all, rounds);
	else if (overridden || (known && known->intervals[side].exists &&
				(!node || !flmem_check_resolve(check->input, node) ||
				 node->kind == FLMEM_NODE_EXPRESSION)))
		*all = FLMEM_UNKNOWN(nvflare_facts_at_run_time);
	else if (known && known->intervals[side].exists)
		merge_interval(all, -1);
}

static void note_interval(struct flmem_check *check)
{
	if (check->input->kind != &flmem_nvflare_client_file)
		note_side(check, FLMEM_NVFLARE_SERVER, &check->found->server_gc_rounds);
	if (check->input->kind != &flmem_nvflare_server_file)
		note_side(check, FLMEM_NVFLARE_CLIENT, &check->found->client_gc_rounds);
}

/* Records false if at least one executor does not empty the cache. */
static void note_cuda(struct flmem_check *check)
{
	const struct flmem_nvflare_class *known = flmem_nvflare_class_of(check->subject);
	const struct flmem_node *node = flmem_nvflare_arg(check, "cuda_empty_cache");
	const struct flmem_node *value = flmem_check_resolve(check->input, node);
	struct flmem_u64 *all = &check->found->cuda_empty_cache;
	bool on = flmem_nvflare_is_on(check, "cuda_empty_cache");
	const char *name;

	if (!known || !known->cuda || known->part == FLMEM_NVFLARE_SWARM_EXECUTOR)
		return;
	if (flmem_nvflare_override(check, FLMEM_NVFLARE_CLIENT, &name)) {
		*all = FLMEM_UNKNOWN(nvflare_facts_at_run_time);
	} else if (node ? !value || value->kind == FLMEM_NODE_EXPRESSION
			: flmem_nvflare_open_args(check) != NULL) {
		if (all->unknown || all->value)
			*all = FLMEM_UNKNOWN(nvflare_facts_at_run_time);
	} else if (!on || (all->unknown && all->unknown != nvflare_facts_at_run_time)) {
		*all = FLMEM_KNOWN(on);
	}
}

/*
 * Whether an executor starts an external trainer. Only that of 2.7.2 to 2.8 reads the environment
 * (client/ex_process/api.py).
 */
static bool starts_trainer(const struct flmem_nvflare_class *known)
{
	return known && known->before && strstr(known->path, "ClientAPILauncherExecutor");
}

static void note_trainer(struct flmem_check *check)
{
	struct flmem_trainer_facts *trainers = &check->found->trainers;
	const struct flmem_node *node;
	int64_t rounds;

	if (!starts_trainer(flmem_nvflare_class_of(check->subject)))
		return;
	trainers->count++;
	trainers->cuda_count += flmem_nvflare_is_on(check, "cuda_empty_cache");
	if (!flmem_nvflare_gc_rounds(check, FLMEM_NVFLARE_CLIENT, &rounds, &node)) {
		trainers->unclear++;
	} else if (rounds > 0) {
		if (!trainers->gc_lowest || (uint64_t)rounds < trainers->gc_lowest)
			trainers->gc_lowest = (uint64_t)rounds;
		if ((uint64_t)rounds > trainers->gc_highest)
			trainers->gc_highest = (uint64_t)rounds;
	}
}

static void note_offload(struct flmem_check *check)
{
	check->found->disk_offload |= flmem_nvflare_is_on(check, "enable_tensor_disk_offload");
}

/* Records "recipe.client_memory_gc_rounds = 0": which value is in force depends on the version. */
static void note_assigned(struct flmem_check *check)
{
	const struct flmem_node *n = flmem_node_first(flmem_node_get(check->subject, "attributes"));
	struct flmem_recommendations *found = check->found;

	for (; n; n = n->next) {
		if (flmem_text_ends(n->text, "memory_gc_rounds")) {
			if (!flmem_text_starts(n->text, "client"))
				found->server_gc_rounds = FLMEM_UNKNOWN(nvflare_facts_at_run_time);
			if (!flmem_text_starts(n->text, "server"))
				found->client_gc_rounds = FLMEM_UNKNOWN(nvflare_facts_at_run_time);
		} else if (strcmp(n->text, "cuda_empty_cache") == 0) {
			found->cuda_empty_cache = FLMEM_UNKNOWN(nvflare_facts_at_run_time);
		}
	}
}

static const struct flmem_rule_row nvflare_facts_rows[] = {
	{
		.rule = {.framework = FLMEM_FRAMEWORK_NVFLARE},
		.inputs = {&flmem_nvflare_server_file, &flmem_nvflare_python_file},
		.parts = true,
		.check = note_offload,
	},
	{
		.rule = {.framework = FLMEM_FRAMEWORK_NVFLARE},
		.inputs = {&flmem_nvflare_client_file, &flmem_nvflare_python_file},
		.parts = true,
		.check = note_cuda,
	},
	{
		.rule = {.framework = FLMEM_FRAMEWORK_NVFLARE},
		.inputs = {&flmem_nvflare_client_file},
		.parts = true,
		.check = note_trainer,
	},
	{
		.rule = {.framework = FLMEM_FRAMEWORK_NVFLARE},
		.inputs = {&flmem_nvflare_server_file, &flmem_nvflare_client_file,
			   &flmem_nvflare_python_file},
		.parts = true,
		.check = note_interval,
	},
	{
		.rule = {.framework = FLMEM_FRAMEWORK_NVFLARE},
		.inputs = {&flmem_nvflare_python_file},
		.check = note_assigned,
	},
};

const struct flmem_rule_table flmem_nvflare_facts = {nvflare_facts_rows,
						     FLMEM_ARRAY_SIZE(nvflare_facts_rows)};
