/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests what jobs request at sites: what the validator and the resource manager of NVFlare 2.9.0
 * take and what they refuse.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <flmem/recommend.h>

#include "base/cleanup.h"
#include "findings.h"
#include "tree.h"

#define REFUSED "NVF-SPEC-REFUSED"
#define IGNORED "NVF-SPEC-IGNORED"
#define GPUS	"NVF-SPEC-GPUS"
#define UNKNOWN "NVF-SPEC-CANNOT-TELL"

static const struct {
	const char *rule, *resources, *launchers;
	bool hit;
	const char *version; /* version of NVFlare; NULL: unknown */
} rows[] = {
	{REFUSED, "\"site-1\": {\"memory\": \"8G\"}", "", true, NULL},
	{REFUSED, "\"site-1\": {\"memory\": \"0Gi\"}", "", true, NULL},
	{REFUSED, "\"site-1\": {\"memory\": 8}", "", true, NULL},
	{REFUSED, "\"site-1\": {\"memory\": \"8Gi\", \"num_of_gpus\": 1}", "", false, NULL},
	{REFUSED, "\"site-1\": {\"memory\": \"8G\"}", "", false, "2.8.1"},
	{REFUSED, "\"site-1\": {\"num_of_gpus\": -1}", "", true, NULL},
	{REFUSED, "\"site-1\": {\"num_of_gpus\": 0, \"num_of_cpus\": 1}", "", false, NULL},
	{REFUSED, "\"site-1\": {\"num_of_cpus\": 0}", "", true, NULL},
	{REFUSED, "\"site-1\": 8", "", true, NULL},
	{REFUSED, "\"@default\": {\"mem_per_gpu_in_GiB\": 8}", "", true, NULL},
	{REFUSED, "\"site-1\": {\"num_of_gpus\": 1, \"mem_per_gpu_in_GiB\": 8}", "", false, NULL},
	{REFUSED, "\"site-1\": {\"memory\": \"8G\", \"k8s\": {\"memory\": \"9Gi\"}}", "", false,
	 NULL},
	{REFUSED, "\"@default\": {}, \"site-1\": {\"process\": {\"memory\": \"8G\"}}", "", true,
	 NULL},
	{REFUSED, "\"site-1\": {\"docker\": {\"mem_limit\": \"8g\"}}", "", true, NULL},
	{REFUSED, "\"site-1\": {\"docker\": {\"shm_size\": \"8g\"}}", "", false, NULL},
	{REFUSED, "", "\"site-1\": {\"docker\": {\"mem_limit\": \"8g\"}}", true, NULL},
	{REFUSED, "", "\"site-1\": {\"slurm\": {\"mem_per_node\": \"8G\"}}", true, NULL},
	{REFUSED, "", "\"site-1\": {\"slurm\": {\"mem_per_node\": 8192}}", false, NULL},
	{REFUSED, "", "\"site-1\": {\"memory\": {}}", true, NULL},
	{REFUSED, "\"site-1\": {\"memory\": \"8Gi\"}",
	 "\"site-1\": {\"k8s\": {\"memory\": \"8Gi\"}}", true, NULL},
	{REFUSED, "\"site-1\": {\"memory\": \"8Gi\"}",
	 "\"site-2\": {\"k8s\": {\"memory\": \"8Gi\"}}", false, NULL},
	{REFUSED, "\"site-1\": {\"memory\": \"8Gi\"}",
	 "\"default\": {\"slurm\": {\"mem_per_node\": 8}}", true, NULL},
	{REFUSED,
	 "\"site-2\": {\"memory\": \"8Gi\"}, \"default\": {\"slurm\": {\"mem_per_node\": 8}}", "",
	 false, NULL},
	{REFUSED, "\"@default\": {\"memory\": \"8Gi\"}",
	 "\"site-1\": {\"k8s\": {\"memory_request\": \"8Gi\"}}", true, NULL},
	{REFUSED,
	 "\"@default\": {\"memory\": \"8Gi\"}, \"site-1\": {\"k8s\": {\"memory\": \"8Gi\"}}", "",
	 true, NULL},
	{REFUSED,
	 "\"@default\": {\"memory\": \"8Gi\"}, \"site-1\": {\"k8s\": {\"memory\": \"8Gi\"}}",
	 "\"default\": {\"k8s\": {\"image\": \"x\"}}", false, NULL},
	{IGNORED, "\"default\": {\"memory\": \"8Gi\"}", "", true, NULL},
	{IGNORED, "\"@default\": {\"memory\": \"8Gi\"}", "", false, NULL},
	{IGNORED, "\"@default\": {\"memory\": \"8Gi\"}", "", true, "2.8.1"},
	{IGNORED, "\"site-1\": {\"memory\": \"8Gi\"}", "", true, "2.8.1"},
	{IGNORED, "\"site-1\": {\"memory\": \"8Gi\"}", "", false, NULL},
	{IGNORED, "", "\"@default\": {\"k8s\": {\"memory\": \"8Gi\"}}", true, NULL},
	{IGNORED, "", "\"default\": {\"k8s\": {\"memory\": \"8Gi\"}}", false, NULL},
	{IGNORED, "", "\"default\": {\"k8s\": {\"memry\": \"8Gi\"}}", true, NULL},
	{IGNORED, "\"site-1\": {\"k8s\": {\"env\": {}}}", "", true, NULL},
	{IGNORED, "", "\"default\": {\"k8s\": {\"cpu_request\": 1, \"image\": \"x\"}}", false,
	 NULL},
	{IGNORED, "\"site-1\": {\"memory\": \"8Gi\", \"docker\": {}}", "", true, NULL},
	{IGNORED, "\"site-1\": {\"k8s\": {\"memory\": \"8Gi\"}}", "\"site-1\": {\"k8s\": {}}", true,
	 NULL},
	{IGNORED, "\"site-1\": {\"k8s\": {\"memory\": \"8Gi\"}}", "\"site-1\": {\"slurm\": {}}",
	 false, NULL},
	{IGNORED, "\"site-1\": {\"num_of_gpus\": 1, \"memory_gb\": 8}", "", true, NULL},
	{IGNORED, "\"site-1\": {\"num_of_gpus\": 1, \"mem_per_gpu_in_GiB\": 8}", "", false, NULL},
	{GPUS, "\"site-1\": {\"mem_per_gpu_in_GiB\": 8}", "", true, NULL},
	{GPUS, "\"site-1\": {\"mem_per_gpu_in_GiB\": 8, \"num_of_gpus\": 1}", "", false, NULL},
	{GPUS, "\"site-1\": {\"mem_per_gpu_in_GiB\": \"8\", \"num_of_gpus\": 1}", "", true, NULL},
	{GPUS, "\"site-1\": {\"mem_per_gpu_in_GiB\": \"8\", \"num_of_gpus\": 0}", "", false, NULL},
	{GPUS, "\"@default\": {\"num_of_gpus\": 1}, \"site-1\": {\"mem_per_gpu_in_GiB\": 8}", "",
	 false, NULL},
	{GPUS, "\"site-1\": {\"memory\": \"8Gi\"}", "", false, NULL},
	{GPUS, "\"site-1\": {\"memory\": \"8Gi\"}", "", true, "2.8.1"},
	{GPUS, "\"site-1\": {\"process\": {\"memory\": \"8Gi\"}}", "", true, NULL},
	{GPUS, "\"@default\": {}, \"site-1\": {\"process\": {\"memory\": \"8Gi\"}}", "", false,
	 NULL},
};

static size_t check_text(const char *name, const char *text, const char *version, const char *rule)
{
	struct flmem_recommend_options options = {.framework_version = version};
	struct flmem_recommendations found = {0};
	const struct flmem_finding *last;
	const char *path;
	struct tree tree;
	size_t count;

	tree_init(&tree);
	path = tree.path;
	tree_puts(&tree, name, text);
	assert_int_equal(flmem_recommend(&path, 1, &options, &found, NULL), 0);
	count = findings_of(&found, rule, &last);
	flmem_recommendations_clear(&found);
	tree_clear(&tree);
	return count;
}

static void files_are_judged_as_nvflare_does(void **state)
{
	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		char text[512];
		size_t count;

		snprintf(text, sizeof(text),
			 "{\"resource_spec\": {%s}, \"launcher_spec\": {%s}, "
			 "\"deploy_map\": {\"app\": [\"@ALL\"]}}",
			 rows[i].resources, rows[i].launchers);
		count = check_text("job/meta.json", text, rows[i].version, rows[i].rule);
		if (count != rows[i].hit)
			fail_msg("row %zu: %s %zu times", i, rows[i].rule, count);
	}
}

#define ADD "job.job.add_resource_spec('a', {'memory': '8Gi'})\n"

static const struct {
	const char *rule, *line;
	bool hit;
} lines[] = {
	{REFUSED, "job.job.add_resource_spec('site-1', {'memory': '8G'})", true},
	{REFUSED, "job.job.add_resource_spec(site_name=name, resource_spec={'memory': '8G'})",
	 true},
	{REFUSED, "job.job.add_resource_spec('site-1', {'memory': '8Gi'})", false},
	{REFUSED, "job.job.add_resource_spec('@default', {'mem_per_gpu_in_GiB': 8})", true},
	{REFUSED, "set_recipe_meta(recipe, JobMetaKey.RESOURCE_SPEC, {'a': {'memory': 8}})", true},
	{REFUSED,
	 "set_recipe_meta(recipe, JobMetaKey.JOB_LAUNCHER_SPEC, {'a': {'docker': {'mem_limit': "
	 "8}}})",
	 true},
	{REFUSED, "set_recipe_meta(recipe, JobMetaKey.CUSTOM_PROPS, {'a': {'memory': 8}})", false},
	{REFUSED, "FedJob(name='x', meta_props={'resource_spec': {'a': {'memory': '8G'}}})", true},
	{REFUSED,
	 "specs = {'a': {'memory': '8G'}}\nset_recipe_meta(recipe, JobMetaKey.RESOURCE_SPEC, "
	 "specs)",
	 true},
	{IGNORED, "FedJob(name='x', meta_props={'launcher_spec': {'@default': {'k8s': {}}}})",
	 true},
	/* a call that replaces everything that was added */
	{IGNORED, ADD "set_recipe_meta(recipe, JobMetaKey.RESOURCE_SPEC, {'b': {}})", true},
	{IGNORED, "set_recipe_meta(recipe, key=JobMetaKey.RESOURCE_SPEC, value=v)\n" ADD, true},
	{IGNORED, "j = FedJob(meta_props={'resource_spec': {'b': {'memory': '4Gi'}}})\n" ADD, true},
	{IGNORED, ADD "set_recipe_meta(recipe, JobMetaKey.SCOPE, 'b')", false},
	{IGNORED, ADD "set_recipe_meta(recipe, JobMetaKey.JOB_LAUNCHER_SPEC, {'b': {}})", false},
	{IGNORED, "j = FedJob(meta_props={'scope': 'b'})\n" ADD, false},
	{IGNORED, "FedJob(meta_props={'resource_spec': {'b': {}}})\nj = FedJob()\n" ADD, false},
	{IGNORED, "set_recipe_meta(recipe, JobMetaKey.RESOURCE_SPEC, {'b': {}})", false},
	{GPUS, "job.job.add_resource_spec('site-1', {'mem_per_gpu_in_GiB': 8})", true},
	{UNKNOWN, "job.job.add_resource_spec('site-1', spec)", true},
	{UNKNOWN, "job.job.add_resource_spec('site-1', {'memory': f'{size}Gi'})", true},
	{UNKNOWN, "job.job.add_resource_spec('site-1', {'memory': '8Gi', 'num_of_gpus': n})",
	 false},
	{UNKNOWN, "FedJob(name='x', meta_props=props)", true},
	{UNKNOWN, "FedJob(name='x', meta_props={JobMetaKey.RESOURCE_SPEC.value: {'a': {}}})", true},
	{UNKNOWN, "FedJob(name='x', meta_props={JobMetaKey.SCOPE.value: name})", false},
	{UNKNOWN, "FedJob(name='x')", false},
};

static void scripts_are_judged_or_doubted(void **state)
{
	static const char imports[] = "from nvflare.job_config.api import FedJob\n"
				      "from nvflare.apis.job_def import JobMetaKey\n"
				      "from nvflare.recipe.utils import set_recipe_meta\n";

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(lines); i++) {
		char text[512];

		snprintf(text, sizeof(text), "%s%s\n", imports, lines[i].line);
		if (check_text("job.py", text, NULL, lines[i].rule) != lines[i].hit)
			fail_msg("%s: '%s'", lines[i].rule, lines[i].line);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_are_judged_as_nvflare_does),
		cmocka_unit_test(scripts_are_judged_or_doubted),
	};

	return cmocka_run_group_tests_name("nvflare_specs", tests, NULL, NULL);
}
