/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_RECOMMEND_RECOMMEND_MODULE_RULES_H
#define FLMEM_OPS_RECOMMEND_RECOMMEND_MODULE_RULES_H

/* Rules about modules that a script imports, and that no path of the user names. */

#include "base/text/version_number.h"
#include "ops/recommend/recommend_files.h"
#include "ops/recommend/recommend_modules.h"

/* A script and its modules, until all files are checked: rules use facts about all of them. */
struct flmem_importing_script {
	struct flmem_rule_input script; /* without a document */
	struct flmem_module_paths paths;
};

struct flmem_importing_scripts {
	struct flmem_importing_script *rows;
	size_t count;
};

void flmem_importing_scripts_clear(struct flmem_importing_scripts *scripts);

#define FLMEM_AUTO_IMPORTING_SCRIPTS FLMEM_AUTO(flmem_importing_scripts_clear)

/* Takes the paths of the modules of a script. FLMEM_EFAILED when out of memory. */
int flmem_importing_scripts_add(struct flmem_importing_scripts *scripts,
				const struct flmem_rule_input *script,
				struct flmem_module_paths *paths, struct flmem_error *err);

/*
 * Checks these modules, each once: those that mention a framework, unless they are among the files
 * that are checked by themselves, and those of a script of that framework. FLMEM_EFAILED when out
 * of memory.
 */
int flmem_recommend_module_rules(const struct flmem_found_files *files,
				 const struct flmem_importing_scripts *scripts,
				 const struct flmem_version_number *release,
				 struct flmem_recommendations *found, struct flmem_error *err);

#endif
