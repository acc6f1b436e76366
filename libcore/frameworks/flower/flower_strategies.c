/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strategies of Flower. The strategy of a ServerApp gets the results of all clients as one list,
 * and averages them into a sum, decoding one at a time.
 */
#include "frameworks/flower/flower_rules.h"

#include "base/cleanup.h"

#define RUNTIME (UINT64_C(300) << 20)

static const struct flmem_strategy_step flower_strategies_steps[] = {
	{.role = FLMEM_ROLE_SERVER,
	 .name = "send the model",
	 .contents = "the model, and as bytes",
	 .models = 2 * FLMEM_WHOLE},
	{.role = FLMEM_ROLE_SERVER,
	 .name = "collect the results",
	 .contents = "the model and the results of all clients",
	 .models = 1 * FLMEM_WHOLE,
	 .models_per_client = 1 * FLMEM_WHOLE},
	{.role = FLMEM_ROLE_SERVER,
	 .name = "aggregate",
	 .contents = "and their sum, and one of them decoded, or the sum as bytes",
	 .models = 3 * FLMEM_WHOLE,
	 .models_per_client = 1 * FLMEM_WHOLE},
	{.role = FLMEM_ROLE_CLIENT,
	 .name = "receive the model",
	 .contents = "the model as bytes, as arrays, and loaded",
	 .models = 3 * FLMEM_WHOLE},
	{.role = FLMEM_ROLE_CLIENT,
	 .name = "train",
	 .contents = "the model and the arrays that were received",
	 .models = 2 * FLMEM_WHOLE,
	 .trains = true},
	{.role = FLMEM_ROLE_CLIENT,
	 .name = "send the result",
	 .contents = "the model, and its result as bytes",
	 .models = 3 * FLMEM_WHOLE},
};

/*
 * Memory of the clipping mods (clientapp/mod/centraldp_mods.py and localdp_mod.py of 1.42.0): both
 * models as bytes, both decoded, and their difference (compute_clip_model_update()).
 */
#define CLIP_STEP                                                                                  \
	{                                                                                          \
		.role = FLMEM_ROLE_CLIENT, .name = "filter the result",                            \
		.contents = "the model that was received and the result, as bytes and as arrays, " \
			    "and their difference",                                                \
		.models = 5 * FLMEM_WHOLE                                                          \
	}

static const struct flmem_strategy_filter flower_strategies_filters[] = {
	{"clipping", CLIP_STEP},
	{"local-dp", CLIP_STEP},
	{.name = NULL},
};

static const struct flmem_strategy flower_strategies[] = {
	{.name = "whole",
	 .summary = "the strategy gets the results of all clients at once",
	 .steps = flower_strategies_steps,
	 .step_count = FLMEM_ARRAY_SIZE(flower_strategies_steps)},
};

const struct flmem_strategies flmem_flower_strategies = {
	.strategies = flower_strategies,
	.count = FLMEM_ARRAY_SIZE(flower_strategies),
	.runtime_bytes = RUNTIME,
	.filters = flower_strategies_filters,
	.caveat = "Flower has no setting for chunks (it sends objects in pieces of 5 MiB): if a "
		  "round does not fit, use fewer clients per round (fraction-train), a smaller "
		  "number type, or a larger node",
};
