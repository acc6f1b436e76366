/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_TESTS_UNIT_SCRIPT_ROWS_H
#define FLMEM_TESTS_UNIT_SCRIPT_ROWS_H

/* Tables of scripts that make jobs, each with what one rule has to report on it. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <flmem/recommend.h>

#include "findings.h"
#include "tree.h"

#define PT    "from nvflare.app_opt.pt.recipes import FedAvgRecipe as R, ScaffoldRecipe as S\n"
#define SWARM "from nvflare.app_opt.pt.recipes.swarm import SwarmLearningRecipe as R\n"
#define JOB                                                        \
	"from nvflare.app_common.workflows.fedavg import FedAvg\n" \
	"from nvflare.job_config.script_runner import ScriptRunner as Runner\n"

#define FORMATS "from nvflare.client.config import ExchangeFormat as E\n"

#define CSE	 "from nvflare.app_common.np.recipes import NumpyCrossSiteEvalRecipe as M\n"
#define BASE	 "from nvflare.app_opt.pt.recipes.swarm import BaseSwarmLearningRecipe as B\n"
#define NVF_PT	 "from nvflare.app_opt.pt."
#define CONFIG	 "from nvflare.app_common.ccwf.ccwf_job import SwarmClientConfig as C\n"
#define LAUNCHER NVF_PT "client_api_launcher_executor import PTClientAPILauncherExecutor as L\n"

#define BOTH "server_memory_gc_rounds=1, client_memory_gc_rounds=1"

struct row {
	const char *rule, *script, *version;
	size_t hits;
	unsigned line; /* line of the last finding */
	const char *says, *proposed;
	enum flmem_severity severity; /* where it says something */
};

#define ERROR	FLMEM_SEVERITY_ERROR
#define WARNING FLMEM_SEVERITY_WARNING
#define INFO	FLMEM_SEVERITY_INFO

static inline void check_script(const char *name, const char *script, const char *version,
				struct flmem_recommendations *ret_found)
{
	struct flmem_recommend_options options = {.framework_version = version};
	struct tree tree;
	const char *path;

	tree_init(&tree);
	path = tree.path;
	tree_puts(&tree, name, script);
	assert_int_equal(flmem_recommend(&path, 1, &options, ret_found, NULL), 0);
	assert_int_equal(ret_found->problem_count, 0);
	tree_clear(&tree);
}

static inline void check_row(const struct row *row)
{
	struct flmem_recommendations found = {0};
	const struct flmem_finding *last;
	size_t hits;

	check_script("job.py", row->script, row->version, &found);
	hits = findings_of(&found, row->rule, &last);
	if (hits != row->hits)
		fail_msg("%s fired %zu times on:\n%s", row->rule, hits, row->script);
	if (row->line && last && last->line != row->line)
		fail_msg("%s: line %u on:\n%s", row->rule, last->line, row->script);
	if (row->says && last &&
	    (!strstr(last->message, row->says) || last->severity != row->severity))
		fail_msg("%s (severity %d) on:\n%s", last->message, last->severity, row->script);
	if (row->proposed && last &&
	    (!last->proposed || strcmp(last->proposed, row->proposed) != 0))
		fail_msg("%s proposes %s on:\n%s", row->rule, last->proposed, row->script);
	if (last && last->fixable)
		fail_msg("%s would correct Python", row->rule);
	flmem_recommendations_clear(&found);
}

#endif
