/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/recommend/recommend_plan.h"

struct flmem_plan_peaks flmem_recommend_peaks(const struct flmem_plan *plan,
					      enum flmem_framework framework)
{
	const struct flmem_plan_strategy *chosen = &plan->strategies[plan->chosen];
	struct flmem_plan_peaks peaks = {
		.framework = framework,
		.strategy = chosen->name,
		.server = chosen->server_peak_bytes,
		.client = chosen->client_peak_bytes,
		.simulator = chosen->simulator_bytes.unknown ? 0 : chosen->simulator_bytes.value,
	};

	const struct flmem_plan_strategy *lowest = chosen;

	for (size_t i = 0; i < plan->strategy_count; i++)
		if (plan->strategies[i].server_peak_bytes < lowest->server_peak_bytes)
			lowest = &plan->strategies[i];
	peaks.lower = lowest->name;
	peaks.lower_server = lowest->server_peak_bytes;
	peaks.lower_client = lowest->client_peak_bytes;
	return peaks;
}

void flmem_recommend_set_peaks(const struct flmem_plan_peaks *peaks,
			       struct flmem_recommendations *found)
{
	found->held_plan = (struct flmem_held_plan){.strategy = peaks->strategy,
						    .server_peak_bytes = peaks->server,
						    .client_peak_bytes = peaks->client,
						    .simulator_bytes = peaks->simulator};
}

int flmem_recommend_no_limit(const char *path, struct flmem_recommendations *found,
			     struct flmem_error *err)
{
	struct flmem_error why = {0};

	if (found->held_plan.limits)
		return 0;
	flmem_error_set(&why, FLMEM_EUNDECIDED, 0,
			"no memory limit was compared with the plan: there is none, or it is not "
			"known what it applies to");
	if (!flmem_recommendations_add_problem(found, path, 0, &why))
		return flmem_error_nomem(err, "cannot store the problem of '%s'", path);
	found->problems[found->problem_count - 1].warning = true;
	return 0;
}
