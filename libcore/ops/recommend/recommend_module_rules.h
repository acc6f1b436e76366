/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_RECOMMEND_RECOMMEND_MODULE_RULES_H
#define FLMEM_OPS_RECOMMEND_RECOMMEND_MODULE_RULES_H

/* Rules about modules that a script imports, and that no path of the user names. */

#include "base/text/version_number.h"
#include "ops/recommend/recommend_files.h"
#include "ops/recommend/recommend_modules.h"

/* The modules that were checked, sorted: several scripts may import one. */
struct flmem_checked_modules {
	char **rows;
	size_t count;
};

void flmem_checked_modules_clear(struct flmem_checked_modules *checked);

#define FLMEM_AUTO_CHECKED_MODULES FLMEM_AUTO(flmem_checked_modules_clear)

/* What the checks of all scripts share. */
struct flmem_module_rules {
	const struct flmem_found_files *files; /* that are checked by themselves */
	struct flmem_checked_modules *checked;
	const struct flmem_version_number *release;
	struct flmem_recommendations *found;
};

/*
 * Checks the modules of a script: those that mention a framework, unless they are among the files,
 * and those of a script of that framework. FLMEM_EFAILED when out of memory.
 */
int flmem_recommend_module_rules(const struct flmem_module_rules *rules,
				 const struct flmem_rule_input *script,
				 const struct flmem_module_paths *paths, struct flmem_error *err);

#endif
