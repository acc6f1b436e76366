/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests settings and GPUs of a job that are not arguments of its recipe: in overrides, in
 * dictionaries that the script assigns to a name, in properties of the job, in classes of its own.
 */
#include "base/cleanup.h"
#include "script_rows.h"

#define CYC  "from nvflare.app_opt.pt.recipes import CyclicRecipe as Y\n"
#define ENVS "from nvflare.recipe import SimEnv, PocEnv\n"
#define XGB  "from nvflare.app_opt.xgboost.recipes import XGBBaggingRecipe as X\n"
#define FED  "from nvflare import FedJob\n"
#define SITE "from nvflare.recipe import set_per_site_config\n"
#define META                                                 \
	"from nvflare.recipe.utils import set_recipe_meta\n" \
	"from nvflare.apis.job_def import JobMetaKey as K\n"

/* Resources with GPUs that only the script knows, and others. */
#define OPEN_META(arguments)                                                                   \
	{                                                                                      \
		"NVF-CUDA-MISSING",                                                            \
			PT META "r = R(" BOTH ")\nset_recipe_meta(r, " arguments ")\n",        \
			.hits = 1, .says = "known only when the script runs", .severity = INFO \
	}
#define KNOWN_META(arguments)                                                                     \
	{                                                                                         \
		"NVF-CUDA-MISSING",                                                               \
			PT META "r = R(" BOTH ")\nset_recipe_meta(r, " arguments ")\n", .hits = 0 \
	}
#define OPEN_JOB(text)                                                                         \
	{                                                                                      \
		"NVF-CUDA-MISSING", JOB FED "Runner('t.py')\n" text,                           \
			.hits = 1, .says = "known only when the script runs", .severity = INFO \
	}

static const struct row rows[] = {
	/* jobs that 2.7.2 exports resend results without bound */
	{"NVF-RESENDS-NULL", PT "R(launch_external_process=True)\n", "2.7.2", .hits = 1, .line = 2,
	 .severity = WARNING, .says = "into the exported job"},
	{"NVF-RESENDS-NULL", JOB "Runner('t.py', launch_external_process=True)\n", "2.7.2",
	 .hits = 1},
	{"NVF-RESENDS-NULL", PT "R(launch_external_process=False)\nR(launch_external_process=x)\n",
	 "2.7.2", .hits = 0},
	{"NVF-RESENDS-NULL", PT "R(launch_external_process=True)\n", "2.8.1", .hits = 0},
	{"NVF-RESENDS-NULL", PT "R(launch_external_process=True)\n", .hits = 0},
	/* overrides of a cyclic recipe reach its controller and its runner */
	{"NVF-CLI-GC-OFF", CYC "Y(client_config_overrides={'memory_gc_rounds': 2})\n", .hits = 0},
	{"NVF-CLI-GC-OFF", CYC "Y(client_config_overrides=o)\n", .hits = 0},
	{"NVF-CLI-GC-OFF", CYC "Y(client_config_overrides={'launch_once': True})\n", .hits = 1},
	{"NVF-CLI-GC-OFF", CYC "Y(server_config_overrides={'memory_gc_rounds': 2})\n", .hits = 1},
	{"NVF-CLI-GC-OFF", CYC "Y(client_config_overrides=None)\n", .hits = 1},
	{"NVF-CUDA-NOOP",
	 CYC "Y(cuda_empty_cache=True, client_config_overrides={'memory_gc_rounds': 2})\n",
	 .hits = 0},
	{"NVF-CUDA-NOOP",
	 CYC "Y(cuda_empty_cache=True, client_config_overrides={'command': 'p'})\n", .hits = 1},
	{"NVF-CUDA-NOOP", CYC "Y(client_config_overrides={'cuda_empty_cache': True})\n", .hits = 1},
	{"NVF-KEY-UNKNOWN", CYC "Y(" BOTH ", client_config_overrides={'memory_gc_rouns': 2})\n",
	 .hits = 1, .line = 2, .says = "did you mean memory_gc_rounds", .severity = ERROR},
	{"NVF-KEY-UNKNOWN", CYC "Y(" BOTH ", server_config_overrides={'cuda_empty_cache': 1})\n",
	 .hits = 1, .says = "CyclicController has no such setting", .severity = ERROR},
	{"NVF-KEY-UNKNOWN",
	 SWARM "R('n', m, 3, 't.py', 2, client_config_overrides={\n"
	       "  'cuda_emtpy_cache': True, 'learn_task_timeout': 5})\n",
	 .hits = 1, .line = 3, .says = "did you mean cuda_empty_cache", .severity = ERROR},
	{"NVF-KEY-UNKNOWN",
	 CYC "Y(client_config_overrides={'memory_gc_rounds': 1, 'cuda_empty_cache': True,\n"
	     "  'server_expected_format': 'numpy', 'launch_timeout': 9},\n"
	     "  server_config_overrides={'memory_gc_rounds': 1, 'order': 'RANDOM', **kw})\n",
	 .hits = 0},
	{"NVF-GC-NEVER-FIRES",
	 CYC "Y(num_rounds=20, server_memory_gc_rounds=4,\n"
	     "  server_config_overrides={'num_rounds': 3})\n",
	 .hits = 1, .says = "rounds 0 to 2, cleanup every 4", .severity = WARNING},
	{"NVF-GC-NEVER-FIRES",
	 CYC "Y(num_rounds=3, server_memory_gc_rounds=4,\n"
	     "  server_config_overrides={'num_rounds': 20})\n"
	     "Y(num_rounds=3, server_memory_gc_rounds=4, server_config_overrides=o)\n",
	 .hits = 0},
	{"NVF-OFFLOAD-NUMPY",
	 SWARM "R('n', m, 3, 't.py', 2, client_config_overrides={\n"
	       "  'enable_tensor_disk_offload': True})\n",
	 .hits = 1, .says = "set their format to pytorch", .severity = ERROR},

	/* names of arguments that the class has under another name */
	{"NVF-KEY-UNKNOWN", PT "R(clear_cuda=True)\n", .hits = 1,
	 .says = "did you mean cuda_empty_cache", .severity = ERROR},
	{"NVF-KEY-UNKNOWN", PT "R(offload_tensors=True)\n", .hits = 1,
	 .says = "did you mean enable_tensor_disk_offload", .severity = ERROR},
	{"NVF-KEY-UNKNOWN", XGB "X(offload_tensors=True)\n", .hits = 1,
	 .says = "XGBBaggingRecipe has no such setting", .severity = ERROR},
	{"NVF-KEY-UNKNOWN", PT "R(serverMemoryGcRounds=3)\n", .hits = 1,
	 .says = "did you mean server_memory_gc_rounds", .severity = ERROR},
	{"NVF-KEY-UNKNOWN", PT "R(keyMetric='a', clear_output=True)\n", .hits = 0},
	{"NVF-KEY-UNKNOWN", JOB "Runner('t.py', clear_cache=True)\n", .hits = 1,
	 .says = "an argument of send()", .severity = ERROR},
	{"NVF-KEY-UNKNOWN",
	 "from nvflare.app_opt.pt.recipes.fedeval import FedEvalRecipe as V\n"
	 "V(server_memory_gc_rounds=3)\n",
	 .hits = 1, .says = "FedEvalRecipe has no such setting", .severity = ERROR},
	{"NVF-RECIPE-NO-SETTINGS", XGB "X(min_clients=2)\n", .hits = 1,
	 .says = "its server cleans up every round", .severity = INFO},
	{"NVF-RECIPE-NO-SETTINGS",
	 "from nvflare.app_opt.xgboost.recipes import XGBVerticalRecipe as X\nX()\n", .hits = 1,
	 .says = "it never cleans up", .severity = INFO},

	/* GPUs from other sources */
	{"NVF-CUDA-MISSING",
	 PT ENVS "kw = {'num_clients': 3, 'gpu_config': '1'}\nR(" BOTH ").execute(SimEnv(**kw))\n",
	 .hits = 1, .says = "the simulator assigns GPUs", .severity = WARNING},
	{"NVF-CUDA-MISSING",
	 PT ENVS "kw = dict(num_clients=3)\nR(" BOTH ").execute(SimEnv(**kw))\n", .hits = 0},
	{"NVF-CUDA-MISSING",
	 PT ENVS "kw = {'num_clients': 3}\nkw['gpu_config'] = '1'\nR(" BOTH
		 ").execute(SimEnv(**kw))\n",
	 .hits = 1, .says = "known only when the script runs", .severity = INFO},
	{"NVF-CUDA-MISSING",
	 PT ENVS "def f(kw):\n  SimEnv(**kw)\nkw = {'num_clients': 3}\nR(" BOTH ")\n", .hits = 1,
	 .says = "known only when the script runs", .severity = INFO},
	{"NVF-CUDA-MISSING", JOB "Runner('t.py')\njob.simulator_run('w', 3, None, 2, '1')\n",
	 .hits = 1, .says = "the simulator assigns GPUs", .severity = WARNING},
	{"NVF-CUDA-MISSING", JOB "Runner('t.py')\njob.simulator_run('w', 3, None, 2)\n", .hits = 0},
	{"NVF-CUDA-MISSING",
	 JOB "from nvflare.private.fed.app.simulator.simulator_runner import SimulatorRunner\n"
	     "Runner('t.py')\nSimulatorRunner(j, w, gpu='1')\n",
	 .hits = 1, .says = "the simulator assigns GPUs", .severity = WARNING},
	{"NVF-CUDA-MISSING",
	 JOB FED "Runner('t.py')\n"
		 "j = FedJob(meta_props={'resource_spec': {'s-1': {'num_of_gpus': 2}}})\n",
	 .hits = 1, .says = "meta_props assigns GPUs to 's-1'", .severity = WARNING},
	{"NVF-CUDA-MISSING",
	 JOB FED "Runner('t.py')\n"
		 "j = FedJob(meta_props={'resource_spec': {'server': {'num_of_gpus': 2}, 's':\n"
		 "  {'num_of_gpus': 0}}, 'custom_props': {'s': {'num_of_gpus': 1}}})\n",
	 .hits = 0},
	{"NVF-CUDA-MISSING",
	 JOB "Runner('t.py')\nspec = {'num_of_gpus': 2}\nj.job.add_resource_spec('s-1', spec)\n",
	 .hits = 1, .says = "add_resource_spec() assigns GPUs to 's-1'", .severity = WARNING},
	{"NVF-CUDA-MISSING", JOB "Runner('t.py')\nj.add_resource_spec('s', {'num_of_gpus': 0})\n",
	 .hits = 0},
	{"NVF-CUDA-MISSING",
	 PT META "r = R(" BOTH ")\ns = {f'site-{i}': {'num_of_gpus': 1} for i in a}\n"
		 "set_recipe_meta(r, K.RESOURCE_SPEC, s)\n",
	 .hits = 1, .says = "known only when the script runs", .severity = INFO},
	OPEN_META("K.JOB_LAUNCHER_SPEC, s"),
	OPEN_META("k, s"),
	OPEN_META("key=k, value=v"),
	OPEN_META("*a"),
	OPEN_META("**a"),
	OPEN_META("K.RESOURCE_SPEC, {'a': {'num_of_gpus': n}}"),
	OPEN_META("K.RESOURCE_SPEC, {'a': s}"),
	OPEN_META("K.RESOURCE_SPEC, {'a': {**s}}"),
	OPEN_META("K.JOB_LAUNCHER_SPEC, {'a': {'slurm': {'gpus_per_node': n}}}"),
	OPEN_META("K.JOB_LAUNCHER_SPEC, {'a': {'slurm': s}}"),
	KNOWN_META("K.SCOPE, s"),
	KNOWN_META("K.CUSTOM_PROPS, s"),
	KNOWN_META("K.RESOURCE_SPEC, {'server': s, 'a': {'mem_per_gpu_in_GiB': n}}"),
	KNOWN_META("K.JOB_LAUNCHER_SPEC, {'a': {'docker': {'image': i}}}"),
	OPEN_JOB("j = FedJob(meta_props=p)\n"),
	OPEN_JOB("j = FedJob('n', 1, None, p)\n"),
	OPEN_JOB("j = FedJob(meta_props={**p})\n"),
	OPEN_JOB("j = FedJob(meta_props={'launcher_spec': s})\n"),
	OPEN_JOB("j = FedJob(meta_props={'resource_spec': {'a': {'num_of_gpus': n}}})\n"),
	OPEN_JOB("j = FedJob()\nj.job.add_resource_spec('a', s)\n"),
	OPEN_JOB("j = FedJob()\nj.job.add_resource_spec('a', {'num_of_gpus': n})\n"),
	OPEN_JOB("j = FedJob()\nj.job.add_resource_spec(s, {'num_of_gpus': 1})\n"),
	{"NVF-CUDA-MISSING",
	 JOB FED "Runner('t.py')\nj = FedJob(name=n, meta_props={'scope': s})\n"
		 "j.job.add_resource_spec(s, {'num_of_gpus': 0, 'mem': n})\nf(meta_props=p)\n",
	 .hits = 0},
	{"NVF-CUDA-MISSING", PT ENVS "R(" BOTH ")\ne = SimEnv()\ne.gpu_config = '1'\n", .hits = 1,
	 .says = "known only when the script runs", .severity = INFO},
	{"NVF-CUDA-MISSING", PT ENVS "R(" BOTH ")\ne = SimEnv()\ne.gpu_config = None\n", .hits = 0},
	{"NVF-CUDA-MISSING",
	 PT ENVS "class E(SimEnv):\n  def __init__(self):\n"
		 "    super().__init__(num_clients=2, gpu_config='1')\nR(" BOTH ").execute(E())\n",
	 .hits = 1, .says = "known only when the script runs", .severity = INFO},
	{"NVF-CUDA-MISSING",
	 PT ENVS "class E(SimEnv):\n  def __init__(self):\n"
		 "    super().__init__(num_clients=2, gpu_config=None)\nR(" BOTH ").execute(E())\n",
	 .hits = 0},
	{"NVF-CUDA-MISSING", PT ENVS "class E(SimEnv):\n  pass\nR(" BOTH ").execute(E())\n",
	 .hits = 0},
	{"NVF-CUDA-MISSING",
	 CYC ENVS "Y(" BOTH ", client_config_overrides={'cuda_empty_cache': True})\n"
		  "SimEnv(gpu_config='1')\n",
	 .hits = 0},

	/* sites in a dictionary of the script, and recipes without settings */
	{"NVF-PER-SITE-IGNORED", PT "s = {'a': {'train_args': '-b 2'}}\nR(per_site_config=s)\n",
	 .hits = 0},
	{"NVF-PER-SITE-IGNORED",
	 PT "s = {\n  'a': {'cuda_empty_cache': True}}\nR(per_site_config=s)\n", .hits = 1,
	 .line = 3, .says = "set it for all clients", .severity = WARNING},
	{"NVF-PER-SITE-IGNORED", PT "s = {}\nfor i in a:\n  s[i] = f(i)\nR(per_site_config=s)\n",
	 .hits = 1, .says = "cannot tell whether", .severity = INFO},
	{"NVF-PER-SITE-IGNORED", PT "s = {}\nfill(s)\nR(per_site_config=s)\n", .hits = 1,
	 .severity = INFO},
	{"NVF-PER-SITE-IGNORED", PT "s = {}\ns = g()\nR(per_site_config=s)\n", .hits = 1},
	{"NVF-PER-SITE-IGNORED", PT "s = {'a': {}}['a']\nR(per_site_config=s)\n", .hits = 1},
	{"NVF-PER-SITE-IGNORED", PT "s = {'a': {}}\nprint(s)\nR(per_site_config=s)\n", .hits = 0},
	{"NVF-PER-SITE-IGNORED", XGB "X(per_site_config=sites)\n", .hits = 0},
	{"NVF-PER-SITE-IGNORED", XGB "X(per_site_config={'a': {'memory_gc_rounds': 1}})\n",
	 .hits = 1, .says = "XGBBaggingRecipe has no argument for it", .severity = WARNING},
	{"NVF-PER-SITE-IGNORED", XGB SITE "set_per_site_config(X(), sites)\n", .hits = 0},
	{"NVF-PER-SITE-IGNORED", PT SITE "set_per_site_config(R(), sites)\n", .hits = 1,
	 .severity = INFO},

	/* enable_tensor_disk_offload as a text */
	{"NVF-OFFLOAD-INVALID", JOB "FedAvg(enable_tensor_disk_offload='false')\n", .hits = 1,
	 .says = "any text is true", .severity = WARNING},
	{"NVF-OFFLOAD-INVALID", SWARM "R('n', m, 3, 't.py', 2, enable_tensor_disk_offload='yes')\n",
	 .hits = 1, .says = "refuses any other value", .severity = ERROR},
	{"NVF-OFFLOAD-INVALID",
	 PT "R(enable_tensor_disk_offload='maybe')\nR(enable_tensor_disk_offload=2)\n"
	    "R(enable_tensor_disk_offload=None)\nR(enable_tensor_disk_offload='')\n"
	    "R(enable_tensor_disk_offload=1.5)\nR(enable_tensor_disk_offload=1.0)\n"
	    "R(enable_tensor_disk_offload='Off')\nR(enable_tensor_disk_offload=1)\n",
	 .hits = 5, .line = 6, .says = "the recipe converts words", .severity = ERROR},
	{"NVF-OFFLOAD-INVALID",
	 PT "R(enable_tensor_disk_offload='no')\nR(enable_tensor_disk_offload=n)\n" JOB
	    "FedAvg(enable_tensor_disk_offload=1)\nFedAvg(enable_tensor_disk_offload='')\n"
	    "FedAvg(enable_tensor_disk_offload=True)\n",
	 .hits = 0},
};

static void settings_of_other_sources_are_found(void **state)
{
	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++)
		check_row(&rows[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(settings_of_other_sources_are_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
