/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about jobs against which other inputs are checked: how often each side cleans up. */
#include "frameworks/nvflare/nvflare_classes.h"

static const char differs[] = "the checked jobs differ in this value";

/* One interval for all, or none. */
static void merge_interval(struct flmem_u64 *all, int64_t rounds)
{
	if (rounds < 0 || all->unknown == differs)
		return;
	if (all->unknown)
		*all = FLMEM_KNOWN((uint64_t)rounds);
	else if (all->value != (uint64_t)rounds)
		*all = FLMEM_UNKNOWN(differs);
}

static void note_interval(struct flmem_check *check)
{
	const struct flmem_nvflare_class *known = flmem_nvflare_class_of(check->subject);
	bool server = check->input->kind == &flmem_nvflare_server_file;
	const struct flmem_node *node;
	int64_t rounds;

	if (flmem_nvflare_gc_rounds(check, &rounds, &node) && !(known && known->gc_ignored))
		merge_interval(server ? &check->found->server_gc_rounds
				      : &check->found->client_gc_rounds,
			       rounds);
}

/* False if at least one executor does not empty it. */
static void note_cuda(struct flmem_check *check)
{
	const struct flmem_nvflare_class *known = flmem_nvflare_class_of(check->subject);
	const struct flmem_node *node = flmem_node_get(check->args, "cuda_empty_cache");
	const struct flmem_node *value = flmem_check_resolve(check->input, node);
	struct flmem_u64 *all = &check->found->cuda_empty_cache;
	bool on = flmem_node_is_true(value);

	if (!known || known->part != FLMEM_NVFLARE_EXECUTOR ||
	    (node && !flmem_node_is_kind(value, FLMEM_NODE_BOOL)))
		return;
	if (all->unknown || !on)
		*all = FLMEM_KNOWN(on);
}

static void note_offload(struct flmem_check *check)
{
	check->found->disk_offload |= flmem_node_is_true(flmem_check_resolve(
		check->input, flmem_node_get(check->args, "enable_tensor_disk_offload")));
}

static const struct flmem_rule_row rows[] = {
	{
		.rule = {.framework = FLMEM_FRAMEWORK_NVFLARE},
		.inputs = {&flmem_nvflare_server_file},
		.parts = true,
		.check = note_offload,
	},
	{
		.rule = {.framework = FLMEM_FRAMEWORK_NVFLARE},
		.inputs = {&flmem_nvflare_client_file},
		.parts = true,
		.check = note_cuda,
	},
	{
		.rule = {.framework = FLMEM_FRAMEWORK_NVFLARE},
		.inputs = {&flmem_nvflare_server_file, &flmem_nvflare_client_file},
		.parts = true,
		.check = note_interval,
	},
};

const struct flmem_rule_table flmem_nvflare_facts = {rows, FLMEM_ARRAY_SIZE(rows)};
