/* SPDX-License-Identifier: Apache-2.0 */
/* Tests what a script does after the classes that it calls, and what hides the rest of it. */
#include <stdio.h>

#include "script_rows.h"

#include "base/cleanup.h"

#define PASSED	 "NVF-CLASS-PASSED-ON"
#define PARTS	 "NVF-PARTS-ELSEWHERE"
#define RESENDS	 "NVF-RESENDS-INVALID"
#define REPLACED "is replaced"
#define CHANGED	 "the job of a recipe is changed"
#define SHOWS	 "print(r.job, r.job.name)\nassert r.job is not None\nif r._job: pass\n"
#define READS	 "isinstance(r.job, X)\nr.job.export_job('x')\nx = r._job.comp_ids.get('a')\n"
#define OTHERS	 "self._job = 1\nx = args.job\nf(args.job)\nq.job.submit()\nclass A:\n  job = 1\n"
#define FEDAVG	 "from nvflare.app_common.workflows.fedavg import FedAvg\n"
#define MODULE	 "nvflare.app_opt.pt.recipes.FedAvgRecipe"

static const struct row rows[] = {
	/* the job of a recipe */
	{PARTS, PT "r = R(" BOTH ")\nr._job.to_server(Thing())\n", .hits = 1, .line = 3,
	 .says = CHANGED, .severity = INFO},
	{PARTS, PT "r = R(" BOTH ")\nr.job.to_clients(f, tasks=['train'])\n", .hits = 1, .line = 3},
	{PARTS, PT "r: R = R(" BOTH ")\nr.job.comp_ids['x'] = 3\nr.job.clients = []\n", .hits = 2,
	 .line = 4},
	{PARTS, PT "recipe = R(" BOTH ")\njob = recipe.job\nf(recipe._job)\nf(1, recipe.job)\n",
	 .hits = 3, .line = 5},
	{PARTS, PT "self.recipe = R(" BOTH ")\nself.recipe.job.to(x, 'site-1')\n", .hits = 1},
	{PARTS, PT "R(" BOTH ")._job.to_server(x)\n[R()][0]._job = j\n", .hits = 2, .line = 3},
	{PARTS, PT "r = R(" BOTH ")\ngetattr(r, '_job').to_server(x)\nvars(r)[\"_job\"] = x\n",
	 .hits = 2, .line = 4},
	{PARTS, PT "recipe = R(" BOTH ")\nj = getattr(recipe, 'job')\ndel recipe._job\n",
	 .hits = 2},
	{PARTS, PT "r = R(" BOTH ")\nwith r._job as j: pass\nr._job: J = x\nyield r._job\n",
	 .hits = 3, .line = 5},
	{PARTS, PT "def f(r=R(" BOTH ")):\n  return r._job\n", .hits = 1, .line = 3},
	{PARTS, PT "r = R(" BOTH ")\n" SHOWS READS OTHERS, .hits = 0},
	{PARTS, PT "r = R(" BOTH ")\nclass A:\n  job = r\n", .hits = 0},
	{PARTS, PT "r = R(" BOTH ")\nr.job.to_server({'np_download_chunk_size': 1})\n", .hits = 0},
	{PARTS, PT "r = R(" BOTH ")\n'''r._job.to_server(x)'''\n# r._job.to_server(x)\n",
	 .hits = 0},

	/* a class that is another one, or whose objects are made in another way */
	{PASSED, PT "R.__init__ = f\nR(" BOTH ")\n", .hits = 1, .line = 2, .says = REPLACED,
	 .severity = INFO},
	{PASSED, PT "R.__init__.__defaults__ = (1, 2)\nS.__new__ = f\n", .hits = 2, .line = 3},
	{PASSED, PT "R.__init__.__kwdefaults__['client_memory_gc_rounds'] = 0\n", .hits = 1},
	{PASSED, PT "R.__init__.__kwdefaults__.update(client_memory_gc_rounds=0)\n", .hits = 1},
	{PASSED, FEDAVG "FedAvg.__init__ = f\n", .hits = 1, .line = 2, .says = REPLACED,
	 .severity = INFO},
	{PASSED, "import nvflare.app_opt.pt.recipes as p\np.FedAvgRecipe = Mine\n", .hits = 1,
	 .line = 2},
	{PASSED, PT "r = R()\ntype(r).__init__ = f\nr.__class__.__init__ = f\n", .hits = 2,
	 .line = 4, .says = REPLACED, .severity = INFO},
	{PASSED,
	 PT "from unittest import mock\nmock.patch('" MODULE "')\n"
	    "monkeypatch.setattr('" MODULE ".__init__', f)\n",
	 .hits = 2, .line = 4, .says = REPLACED, .severity = INFO},
	{PASSED,
	 PT "Mine.__init__ = f\nself.__init__ = f\nR.name = 'x'\nx = R.__init__.__defaults__\n"
	    "print('" MODULE "')\n",
	 .hits = 0},

	{PASSED, PT "r = R()\nr.__class__ = Mine\n", .hits = 1, .line = 3, .says = REPLACED,
	 .severity = INFO},
	{PASSED, "import nvflare.recipe.fedavg as f\nf._FedAvgValidator = V\n", .hits = 1,
	 .line = 2},
	/* the name is assigned another class: the text after the "=" is still the class */
	{PASSED, PT "R = wrap(R)\nR(" BOTH ")\n", .hits = 1, .line = 2, .says = "passed on",
	 .severity = INFO},
	{PASSED, PT "R = other\nR(" BOTH ")\n", .hits = 0},
	{"NVF-CLI-GC-OFF",
	 PT "import functools\nR = functools.partial(R, client_memory_gc_rounds=0)\n", .hits = 1,
	 .line = 3},

	/* targets of other statements, and other ways to set and to end an attribute */
	{"NVF-SETTING-ASSIGNED",
	 PT "r = R()\n(r.client_memory_gc_rounds) = 0\nfor r.client_memory_gc_rounds in x: pass\n"
	    "with f() as r.cuda_empty_cache: pass\n",
	 .hits = 3, .line = 5},
	{"NVF-SETTING-ASSIGNED",
	 PT "import operator\nr = R()\ndelattr(r, 'client_memory_gc_rounds')\n"
	    "operator.setitem(r.__dict__, 'cuda_empty_cache', 0)\n"
	    "r.__init__(client_memory_gc_rounds=0)\n",
	 .hits = 3, .line = 6, .says = "made again", .severity = INFO},
	{"NVF-SETTING-ASSIGNED",
	 PT "r = R()\nif (r.memory_gc_rounds) == 0: pass\nfor x in r.memory_gc_rounds: pass\n"
	    "f(a=(r.memory_gc_rounds), b=1)\nsuper().__init__(memory_gc_rounds=1)\n",
	 .hits = 0},

	/* keys of configurations that a script adds */
	{"NVF-CHUNK-ZERO",
	 PT "r = R()\nr.add_client_config({'np_download_chunk_size': False})\n"
	    "r.add_client_config({'np_download_chunk_size': 0.5})\n"
	    "r._add_to_client_apps({'np_download_chunk_size': 0})\n",
	 .hits = 3, .line = 5},
	{"NVF-CHUNK-ZERO",
	 PT "r = R()\nr.add_client_config({'np_download_chunk_size': True})\n"
	    "r.add_client_config({'np_download_chunk_size': 10.5})\n",
	 .hits = 0},
	{RESENDS, PT "r = R()\nr.add_client_config({'max_resends': None})\n", .hits = 1, .line = 3,
	 .severity = ERROR, .says = "accepts only a whole number"},
	{RESENDS,
	 PT "r = R()\nr.add_client_config({'max_resends': -1})\n"
	    "r.run(env, client_exec_params={'max_resends': '3'})\n"
	    "j.to_clients({'max_resends': 2.5})\n",
	 .version = "2.8.1", .hits = 3, .line = 5},
	{RESENDS, PT "R().add_client_config({'max_resends': None})\n", .version = "2.9.0",
	 .hits = 0},
	{RESENDS, PT "R().add_client_config({'max_resends': None})\n", .version = "2.7.2",
	 .hits = 0},
	{RESENDS,
	 PT "r = R()\nr.add_client_config({'max_resends': 3})\nr.add_server_config({'max_resends': "
	    "None})\nr.add_client_config({'max_resends': n})\n",
	 .hits = 0},
	{"NVF-CONFIG-CANNOT-TELL", PT "r = R()\nr.add_client_config({'max_resends': n})\n",
	 .hits = 1, .line = 3},

	/* numbers that only Python holds, and words that a recipe converts */
	{"NVF-GC-INVALID", PT "R(server_memory_gc_rounds=99999999999999999999)\n", .hits = 0},
	{"NVF-GC-INVALID", PT "R(server_memory_gc_rounds=-99999999999999999999)\n", .hits = 1},
	{"NVF-GC-NEVER-FIRES",
	 PT "R(num_rounds=5, server_memory_gc_rounds=99999999999999999999, "
	    "client_memory_gc_rounds=99999999999999999999)\n",
	 .hits = 2, .says = "cleanup every 99999999999999999999", .severity = WARNING},
	{"NVF-CUDA-INVALID",
	 PT "R(cuda_empty_cache='yes')\nR(cuda_empty_cache='off')\nR(cuda_empty_cache='On')\n"
	    "R(cuda_empty_cache=1.0)\n",
	 .hits = 0},
	{"NVF-CUDA-INVALID", PT "R(cuda_empty_cache='maybe')\n", .hits = 1, .severity = ERROR,
	 .says = "refuses other values"},
};

static void test_scripts(void **state)
{
	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++)
		check_row(&rows[i]);
}

/* A job that is exported, with the same key. */
static void test_resends_of_a_job(void **state)
{
	static const struct {
		const char *value, *version;
		size_t hits;
	} jobs[] = {
		{"null", "2.8.0", 1}, {"3", "2.8.0", 0}, {"true", NULL, 1}, {"null", "2.9.0", 0}};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(jobs); i++) {
		struct flmem_recommend_options options = {.framework_version = jobs[i].version};
		struct flmem_recommendations found = {0};
		const struct flmem_finding *last;
		struct tree tree;
		const char *path;
		char text[128];

		snprintf(text, sizeof(text), "{\"executors\": [], \"max_resends\": %s}",
			 jobs[i].value);
		tree_init(&tree);
		path = tree.path;
		tree_puts(&tree, "config_fed_client.json", text);
		assert_int_equal(flmem_recommend(&path, 1, &options, &found, NULL), 0);
		assert_int_equal(findings_of(&found, RESENDS, &last), jobs[i].hits);
		flmem_recommendations_clear(&found);
		tree_clear(&tree);
	}
}

#define RECIPE "from nvflare.app_opt.pt.recipes import FedAvgRecipe as R\n"
#define LATER  "R(server_memory_gc_rounds=0)\n"

static const struct {
	const char *script;
	unsigned line; /* line of the string that does not end; 0: all of the file is read */
} strings[] = {
	{RECIPE "x = \"\"\"\n" LATER, 2},
	{RECIPE "x = '''a\n" LATER "\"\"\"", 2},
	{"r\"\"\"doc\n" RECIPE LATER, 1},
	{RECIPE "f(rb'''\\'''\n" LATER, 2},
	{RECIPE "x = \"\"\"a\n\"\"\"\n" LATER, 0},
	{RECIPE "x = 'a\n" LATER, 0}, /* Python refuses this line; the others are read */
	{RECIPE "x = '\"\"\"'\n# \"\"\"\n" LATER, 0},
};

static void check_string(const char *script, unsigned line)
{
	struct flmem_recommendations found = {0};
	const struct flmem_finding *last;
	struct tree tree;
	const char *path;

	tree_init(&tree);
	path = tree.path;
	tree_puts(&tree, "job.py", script);
	assert_int_equal(flmem_recommend(&path, 1, NULL, &found, NULL), 0);
	if (found.problem_count != (line != 0) || (line && found.problems[0].line != line))
		fail_msg("%zu problems on:\n%s", found.problem_count, script);
	if (line)
		assert_non_null(strstr(found.problems[0].message, "does not end"));
	if (findings_of(&found, "NVF-SRV-GC-OFF", &last) != !line)
		fail_msg("no findings on:\n%s", script);
	flmem_recommendations_clear(&found);
	tree_clear(&tree);
}

static void test_strings_that_do_not_end(void **state)
{
	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(strings); i++)
		check_string(strings[i].script, strings[i].line);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_scripts),
		cmocka_unit_test(test_resends_of_a_job),
		cmocka_unit_test(test_strings_that_do_not_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
