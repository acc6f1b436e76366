/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_RECOMMEND_RECOMMEND_MODULE_RULES_H
#define FLMEM_OPS_RECOMMEND_RECOMMEND_MODULE_RULES_H

/* Applies rules to modules that a script imports and that the user did not name. */

#include "base/text/version_number.h"
#include "ops/recommend/recommend_files.h"
#include "ops/recommend/recommend_modules.h"

/* A script and its modules, kept until all files are checked: rules use facts about all of them. */
struct flmem_importing_script {
	struct flmem_rule_input script; /* its document is not kept */
	struct flmem_module_paths paths;
};

struct flmem_importing_scripts {
	struct flmem_importing_script *rows;
	size_t count;
};

void flmem_importing_scripts_clear(struct flmem_importing_scripts *scripts);

#define FLMEM_AUTO_IMPORTING_SCRIPTS FLMEM_AUTO(flmem_importing_scripts_clear)

/* Adds a script and takes the paths of its modules. FLMEM_EFAILED if memory is out. */
int flmem_importing_scripts_add(struct flmem_importing_scripts *scripts,
				const struct flmem_rule_input *script,
				struct flmem_module_paths *paths, struct flmem_error *err);

/*
 * Checks these modules, each once: those that mention a framework, unless they are checked as
 * files, and those of a script of that framework. FLMEM_EFAILED if memory is out.
 */
int flmem_recommend_module_rules(const struct flmem_found_files *files,
				 const struct flmem_importing_scripts *scripts,
				 const struct flmem_version_number *release,
				 struct flmem_recommendations *found, struct flmem_error *err);

#endif
