/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_RULES_TREND_RULES_H
#define FLMEM_RULES_TREND_RULES_H

/*
 * Rules about recorded processes: they report how memory changed over the rounds, and whether the
 * interval of cleanups fits. They read only the summary of a watch.
 */

#include <stdbool.h>
#include <stddef.h>

#include <flmem/finding.h>
#include <flmem/watch_result.h>

#include "base/text/version_number.h"
#include "rules/live_rules.h"

/* A recorded process. */
struct flmem_recorded {
	const struct flmem_watch_result *result;
	struct flmem_u64 gc_rounds; /* rounds between cleanups of its side, if known */
};

/* One rule about recorded processes. */
struct flmem_trend_row {
	/* Fills the remark and returns true if the recording shows what the rule reports. */
	struct flmem_rule rule;
	bool (*check)(const struct flmem_recorded *recorded, struct flmem_live_remark *remark);
};

struct flmem_trend_table {
	const struct flmem_trend_row *rows;
	size_t count;
};

/* Rules about processes of any framework. */
extern const struct flmem_trend_table flmem_trend_rules;

/* Whether the control group ran short of memory while the process was watched. */
bool flmem_recorded_had_pressure(const struct flmem_watch_result *result);

/*
 * Checks one process of a recording against a table. `file` is the path of the recording.
 * FLMEM_EFAILED when out of memory.
 */
int flmem_trend_rules_run(const struct flmem_trend_table *table,
			  const struct flmem_recorded *recorded, const char *file,
			  const struct flmem_version_number *release,
			  struct flmem_recommendations *found, struct flmem_error *err);

#endif
