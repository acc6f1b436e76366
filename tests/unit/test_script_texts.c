/* SPDX-License-Identifier: Apache-2.0 */
/* Tests texts of a script that are commands, or that set variables, wherever they end. */
#include "script_rows.h"

#define OPEN   "NVF-ENVIRON-CANNOT-TELL"
#define SUBMIT "import submitit\nfrom nvflare.recipe import SimEnv\n"
#define OTHER  "import fabricate as f\nimport nvflare\n"

static const struct row rows[] = {
	/* commands that submitit runs before the job */
	{OPEN, SUBMIT "e.update_parameters(timeout_min=4,\n setup=['export MALLOC_ARENA_MAX=2'])\n",
	 .hits = 1, .line = 4, .says = "a text of the script sets variables", .severity = INFO},
	{OPEN,
	 SUBMIT "lines = ['unset MALLOC_ARENA_MAX']\ne.update_parameters(slurm_setup=lines)\n",
	 .hits = 1, .line = 3},
	{OPEN,
	 SUBMIT "e.update_parameters(slurm_additional_parameters={'export': "
		"'ALL,LD_PRELOAD=/x/libjemalloc.so'})\n",
	 .hits = 1},
	{OPEN,
	 SUBMIT "e.update_parameters(setup=['module load cuda', 'export OMP_NUM_THREADS=2'],\n"
		"  name='x')\n",
	 .hits = 0},
	/* packages that flmem does not know */
	{OPEN, OTHER "f.launch('nvflare simulator job')\n", .hits = 1, .line = 3,
	 .says = "a command that starts NVFlare", .severity = INFO},
	{OPEN, OTHER "f.launch(['nvflare', 'simulator', job])\n", .hits = 1, .line = 3},
	{OPEN, OTHER "c = f.Cluster(worker_init='export MALLOC_CONF=narenas:2')\n", .hits = 1},
	{OPEN, OTHER "open(p, 'w').write('''#!/bin/sh\nnvflare simulator job\n''')\n", .hits = 1,
	 .line = 3},
	{OPEN, OTHER "f.init(runtime_env={'env_vars': {'MALLOC_ARENA_MAX': '2'}})\n", .hits = 1,
	 .line = 3, .says = "what gets it is known only", .severity = INFO},
	{OPEN, OTHER "ENVIRON = dict(MALLOC_ARENA_MAX='2')\nf.init(ENVIRON)\n", .hits = 1},
	{OPEN, OTHER "f.V1EnvVar(name='MALLOC_ARENA_MAX', value='2')\n", .hits = 1},
	{OPEN, OTHER "x = {'name': 'LD_PRELOAD', 'value': lib}\n", .hits = 1},
	/* reported once, for the call */
	{OPEN, "import os\nimport nvflare\nos.system('MALLOC_ARENA_MAX=2 nvflare simulator j')\n",
	 .hits = 1},
	{OPEN, "import os\nimport nvflare\nos.system(\n  'nvflare simulator j')\n", .hits = 1},
	/* texts that are shown to people, compared, or about something else */
	{OPEN,
	 OTHER "'''python3 -m nvflare.x\nMALLOC_ARENA_MAX=2\n'''\nprint('nvflare simulator job')\n"
	       "log.info('export MALLOC_ARENA_MAX=2 first')\n"
	       "raise RuntimeError('export MALLOC_ARENA_MAX=2')\n"
	       "def f():\n  'nvflare simulator x'\n",
	 .hits = 0},
	{OPEN,
	 OTHER "p.add_argument('--x', help='python3 -m nvflare.cli simulator')\n"
	       "assert x, 'MALLOC_ARENA_MAX=2'\nx = 'nvflare is used with MALLOC_ARENA_MAX'\n"
	       "y = ['nvflare', 'torch']\nz = d['MALLOC_ARENA_MAX']\n",
	 .hits = 0},
	{OPEN,
	 OTHER "env = {'HOME': '/x'}\nz = {'MALLOC_ARENA_MAX': '2'}\nname = 'other'\n"
	       "f.launch('python3 train.py')\nq = 'x?MALLOC_ARENA_MAX==2'\n",
	 .hits = 0},
};

static void texts_are_found_where_they_may_run(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		check_row(&rows[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts_are_found_where_they_may_run),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
