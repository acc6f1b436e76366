/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the rules about the calls that make a job: recipes, controllers and runners in Python. */
#include "base/cleanup.h"
#include "base/text/buf.h"
#include "frameworks/nvflare/nvflare_class_table.h"
#include "script_rows.h"

static const struct row rows[] = {
	{"NVF-CLI-GC-OFF", PT "R(\n  min_clients=2,\n  client_memory_gc_rounds=0)\n", .hits = 1,
	 .line = 4, .says = "never collects", .severity = WARNING, .proposed = "1"},
	{"NVF-CLI-GC-OFF", PT "R()\n", .hits = 1, .line = 2,
	 .says = "absent, and the default of FedAvgRecipe is 0", .severity = WARNING},
	{"NVF-CLI-GC-OFF", PT "R(client_memory_gc_rounds=False)\n", .hits = 1, .line = 2},
	{"NVF-CLI-GC-OFF", PT "R(client_memory_gc_rounds=1)\nR(client_memory_gc_rounds=n)\n",
	 .hits = 0},
	{"NVF-CLI-GC-OFF", PT "R(**settings)\nR(cuda_empty_cache=True)\n", .hits = 0},
	{"NVF-CLI-GC-OFF", SWARM "R('n', model(), 3, 'train.py', 2)\n", .hits = 0},
	{"NVF-CLI-GC-OFF", SWARM "R('n', model(), 3, 'train.py', 2, memory_gc_rounds=0)\n",
	 .hits = 1, .line = 2},
	{"NVF-CLI-GC-OFF", JOB "Runner('train.py')\n", .hits = 1, .line = 3},
	/* the other modules from which 2.7.2 to 2.9.0 export it */
	{"NVF-CLI-GC-OFF",
	 "from nvflare.app_common.ccwf.recipes.swarm import SwarmLearningRecipe as R\n"
	 "R('n', model(), 3, 'train.py', 2, memory_gc_rounds=0)\n",
	 .hits = 1, .line = 2},
	{"NVF-GC-NEVER-FIRES",
	 "from nvflare.app_common.workflows.cmd_task_controller import CmdTaskController as T\n"
	 "from nvflare.job_config.script_runner import ScriptRunner as R\n"
	 "T(task_name='embed')\nR('t.py', memory_gc_rounds=5)\n",
	 .hits = 1, .line = 4, .says = "1 result of a client", .severity = WARNING},
	{"NVF-CLI-GC-OFF",
	 "from nvflare.app_opt.sklearn.recipes.svm import SVMFedAvgRecipe\n"
	 "SVMFedAvgRecipe(min_clients=2)\n",
	 .hits = 1, .line = 2, .says = "SVMFedAvgRecipe has no argument for it",
	 .severity = WARNING},
	{"NVF-CANNOT-TELL", CSE "M(client_memory_gc_rounds=5)\n", .hits = 1, .line = 2,
	 .says = "once for each model", .severity = INFO, .proposed = "1"},
	{"NVF-CANNOT-TELL", CSE "M(client_memory_gc_rounds=1)\nM()\n", .hits = 0},
	{"NVF-CANNOT-TELL", BASE "B(**kw)\n", .hits = 1, .line = 2,
	 .says = "server_config and client_config", .severity = INFO},
	{"NVF-CANNOT-TELL", BASE CONFIG "c = C()\nB('n', client_config=c, **kw)\nB('n', s, c)\n",
	 .hits = 0},
	{"NVF-CANNOT-TELL", BASE "from mine import s, c\nB('n', s, c)\n", .hits = 1, .line = 3,
	 .says = "its client_config is made elsewhere", .severity = INFO},
	{"NVF-PER-SITE-IGNORED", PT "R(per_site_config=sites)\n", .hits = 1, .line = 2,
	 .says = "cannot tell whether it holds one", .severity = INFO},
	{"NVF-PER-SITE-IGNORED", PT "R(per_site_config={'s': {'a': 1}})\nR(per_site_config=None)\n",
	 .hits = 0},
	{"NVF-RESENDS-NULL", LAUNCHER "L(max_resends=None)\n", .hits = 1, .line = 2,
	 .says = "each resend", .severity = WARNING, .proposed = "3"},
	{"NVF-RESENDS-NULL", LAUNCHER "L(max_resends=3)\nL(max_resends=n)\nL()\n", .hits = 0},
	{"NVF-RESENDS-NULL", PT "R(max_resends=None)\n", .hits = 0},
	{"NVF-RESENDS-NULL", JOB "Runner('t.py', max_resends=None)\n", .hits = 0},
	{"NVF-CLI-GC-OFF", PT "R()\n", .version = "2.7.1"},
	{"NVF-CLI-GC-OFF", "from mine import FedAvgRecipe\nimport nvflare\nFedAvgRecipe()\n",
	 .hits = 0},

	{"NVF-SRV-GC-OFF", PT "R(server_memory_gc_rounds=0)\n", .hits = 1, .line = 2,
	 .says = "between rounds", .proposed = "1", .severity = WARNING},
	{"NVF-SRV-GC-OFF", PT "R(server_memory_gc_rounds=0x0)\n", .hits = 1, .line = 2},
	{"NVF-GC-NEVER-FIRES", PT "R(num_rounds=50, server_memory_gc_rounds=0x40)\n", .hits = 1,
	 .line = 2},
	{"NVF-SRV-GC-OFF", PT "R(num_rounds=50)\nS(num_rounds=5)\n", .hits = 2, .line = 3,
	 .proposed = "5"},
	{"NVF-SRV-GC-OFF", "import nvflare.app_opt.pt.recipes.fedopt as f\nf.FedOptRecipe()\n",
	 .hits = 0},
	{"NVF-SRV-GC-OFF", "import nvflare.app_opt.tf.recipes.fedopt as f\nf.FedOptRecipe()\n",
	 .hits = 1, .line = 2},
	{"NVF-SRV-GC-OFF",
	 "from nvflare.app_common.np.recipes import NumpyFedAvgRecipe\nNumpyFedAvgRecipe()\n",
	 .hits = 1, .line = 2, .says = "set memory_gc_rounds in the job that it exports",
	 .severity = WARNING},
	{"NVF-SRV-GC-OFF", SWARM "R('n', model(), 3, 'train.py', 2)\n", .hits = 0},
	{"NVF-SRV-GC-OFF", JOB "FedAvg(num_clients=2)\n", .hits = 1, .line = 3, .proposed = "5"},
	{"NVF-SRV-GC-OFF",
	 "from nvflare.app_common.np.recipes.lr.fedavg import FedAvgLrRecipe\nFedAvgLrRecipe()\n",
	 .hits = 0},

	{"NVF-SRV-GC-IGNORED",
	 "from nvflare.app_common.np.recipes.lr.fedavg import FedAvgLrRecipe\nFedAvgLrRecipe()\n",
	 .hits = 1, .line = 2, .says = "never cleans up", .severity = INFO},
	{"NVF-SRV-GC-IGNORED",
	 "from nvflare.app_common.workflows.lr.fedavg import FedAvgLR\n"
	 "FedAvgLR(memory_gc_rounds=5)\n",
	 .hits = 1, .line = 2},

	{"NVF-CUDA-NOOP",
	 PT "R(server_memory_gc_rounds=0, client_memory_gc_rounds=0, "
	    "cuda_empty_cache=True)\n",
	 .hits = 1, .line = 2, .proposed = "1"},
	{"NVF-CUDA-NOOP", PT "R(cuda_empty_cache=1)\n", .hits = 1, .line = 2},
	{"NVF-CUDA-NOOP", PT "R(cuda_empty_cache=True, client_memory_gc_rounds=1)\n", .hits = 0},

	/* the default of recipes is 2 rounds */
	{"NVF-GC-NEVER-FIRES", PT "R(server_memory_gc_rounds=5)\n", .hits = 1, .line = 2,
	 .says = "rounds 0 to 1, the default, cleanup every 5", .severity = WARNING,
	 .proposed = "1"},
	{"NVF-GC-NEVER-FIRES", PT "R(num_rounds=20, client_memory_gc_rounds=50)\n", .hits = 1,
	 .line = 2, .says = "20 rounds", .severity = WARNING},
	{"NVF-GC-NEVER-FIRES", PT "R(num_rounds=20, client_memory_gc_rounds=20)\n", .hits = 0},
	{"NVF-GC-NEVER-FIRES", PT "R(num_rounds=n, client_memory_gc_rounds=20)\n", .hits = 0},
	{"NVF-CANNOT-TELL",
	 PT "R(num_rounds=n, client_memory_gc_rounds=20, cuda_empty_cache=True)\n", .hits = 1,
	 .line = 2, .says = "with fewer than 20 rounds", .severity = INFO},
	{"NVF-CANNOT-TELL", SWARM "R('n', m, rounds, 't.py', 2, memory_gc_rounds=3)\n", .hits = 1,
	 .line = 2, .says = "a cleanup every 3 never runs", .severity = INFO},
	{"NVF-CANNOT-TELL", SWARM "R('n', m, rounds, 't.py', 2, memory_gc_rounds=1)\n", .hits = 0},
	{"NVF-CANNOT-TELL", JOB "FedAvg(num_rounds=n, memory_gc_rounds=5)\n", .hits = 1, .line = 3},
	{"NVF-GC-NEVER-FIRES", PT "R(client_memory_gc_rounds=20, **kw)\n", .hits = 0},
	{"NVF-GC-NEVER-FIRES", SWARM "R('n', model(), 3, 'train.py', 2, memory_gc_rounds=4)\n",
	 .hits = 1, .line = 2, .says = "3 rounds", .severity = WARNING},
	{"NVF-GC-NEVER-FIRES", JOB "FedAvg(num_rounds=3)\nRunner('t.py', memory_gc_rounds=4)\n",
	 .hits = 1, .line = 4},

	{"NVF-GC-NEVER-FIRES", PT "R(num_rounds=0, server_memory_gc_rounds=1)\n", .hits = 1},
	{"NVF-GC-NEVER-FIRES", PT "R(num_rounds=0, client_memory_gc_rounds=1)\n", .hits = 1},
	{"NVF-GC-NEVER-FIRES", PT "R(num_rounds=1, client_memory_gc_rounds=5)\n", .hits = 1,
	 .line = 2, .says = "(1 round, cleanup every 5 sends)", .severity = WARNING},
	{"NVF-GC-NEVER-FIRES",
	 "from nvflare.app_opt.pt.recipes import FedEvalRecipe\n"
	 "FedEvalRecipe(client_memory_gc_rounds=1)\nFedEvalRecipe(client_memory_gc_rounds=2)\n",
	 .hits = 1, .line = 3, .says = "1 result of a client, cleanup every 2 sends",
	 .severity = WARNING, .proposed = "1"},
	{"NVF-GC-NEVER-FIRES",
	 "from nvflare.recipe import FedTaskRecipe\nFedTaskRecipe(client_memory_gc_rounds=50)\n",
	 .hits = 1, .line = 2},
	{"NVF-CUDA-INVALID",
	 PT "R(cuda_empty_cache='no way')\nR(cuda_empty_cache=None)\nR(cuda_empty_cache=2)\n",
	 .hits = 3, .line = 4, .says = "refuses other values", .severity = ERROR},
	{"NVF-CUDA-INVALID", JOB "Runner('t.py', cuda_empty_cache='False')\n", .hits = 1, .line = 3,
	 .says = "any text is true", .severity = WARNING},
	{"NVF-CUDA-INVALID",
	 JOB PT "Runner('t.py', cuda_empty_cache=None)\nR(cuda_empty_cache=1)\n"
		"R(cuda_empty_cache=x)\nR(cuda_empty_cache=False)\nR()\n",
	 .hits = 0},

	{"NVF-GC-INVALID", PT "R(client_memory_gc_rounds=-1)\n", .hits = 1, .line = 2,
	 .says = "2.9.0 refuses it; 2.7.2 to 2.8.3 accepts it and never cleans up",
	 .severity = ERROR},
	{"NVF-GC-INVALID", PT "R(client_memory_gc_rounds=-1)\n", .version = "2.8.1", .hits = 1,
	 .line = 2, .says = "this version accepts it and never cleans up", .severity = WARNING},
	{"NVF-GC-INVALID", PT "R(client_memory_gc_rounds=-1)\n", .version = "2.9.0", .hits = 1,
	 .line = 2, .says = "this version refuses it", .severity = ERROR},
	{"NVF-GC-INVALID", PT "R(server_memory_gc_rounds=-1)\n", .version = "2.8.1", .hits = 1,
	 .line = 2, .says = "this version refuses it", .severity = ERROR},
	{"NVF-GC-INVALID", PT "R(server_memory_gc_rounds=True)\n", .hits = 1, .line = 2,
	 .says = "takes it as 1", .severity = WARNING},
	{"NVF-GC-INVALID", PT "R(client_memory_gc_rounds='2')\n", .hits = 1, .line = 2,
	 .says = "takes it as a whole number", .severity = WARNING},
	{"NVF-GC-INVALID", PT "R(client_memory_gc_rounds=2.5)\n", .hits = 1, .line = 2,
	 .says = "every version from 2.7.2 to 2.9.0 refuses it", .severity = ERROR},
	{"NVF-GC-INVALID", JOB "Runner('t.py', memory_gc_rounds='2')\n", .version = "2.8.1",
	 .hits = 1, .line = 3, .says = "TypeError", .severity = ERROR},
	{"NVF-GC-INVALID", JOB "Runner('t.py', memory_gc_rounds=True)\n", .version = "2.8.1",
	 .hits = 1, .line = 3, .says = "takes it as 1", .severity = WARNING},
	{"NVF-GC-INVALID", PT "R(client_memory_gc_rounds=n)\nR(client_memory_gc_rounds=False)\n",
	 .hits = 0},

	{"NVF-KEY-UNKNOWN", PT "R(client_memory_gc_round=1)\n", .hits = 1, .line = 2,
	 .says = "did you mean client_memory_gc_rounds", .severity = ERROR},
	{"NVF-KEY-UNKNOWN", PT "R(memory_gc_rounds=1)\n", .hits = 1, .line = 2,
	 .says = "did you mean server_memory_gc_rounds or client_memory_gc_rounds",
	 .severity = ERROR},
	{"NVF-KEY-UNKNOWN", PT "R(\n client_gc_rounds=1,\n cuda_emtpy_cache=True)\n", .hits = 2,
	 .line = 4, .says = "did you mean cuda_empty_cache", .severity = ERROR},
	{"NVF-KEY-UNKNOWN", SWARM "R('n', m, 3, 't.py', 2, client_memory_gc_rounds=1)\n", .hits = 1,
	 .line = 2, .says = "did you mean memory_gc_rounds", .severity = ERROR},
	{"NVF-KEY-UNKNOWN",
	 "from nvflare.app_opt.tf.recipes.fedavg import FedAvgRecipe\n"
	 "FedAvgRecipe(cuda_empty_cache=True)\n",
	 .hits = 1, .line = 2, .says = "FedAvgRecipe has no such setting", .severity = ERROR},
	{"NVF-KEY-UNKNOWN",
	 "from nvflare.app_common.np.recipes import NumpyFedAvgRecipe\n"
	 "NumpyFedAvgRecipe(server_memory_gc_rounds=1)\n",
	 .hits = 1, .line = 2},
	{"NVF-KEY-UNKNOWN",
	 PT "R(client_gc=1)\nR(malloc_trim_rounds=1)\nR(empty_cuda_cache=1)\n"
	    "R(Client_Memory_GC_Rounds=1)\n",
	 .hits = 4, .line = 5, .says = "did you mean client_memory_gc_rounds", .severity = ERROR},
	{"NVF-KEY-UNKNOWN", PT "R(launch_once=True, agc='x', key_metric='auc')\n", .hits = 0},
	{"NVF-KEY-UNKNOWN", PT "R(" BOTH ", cuda_empty_cache=True, num_rounds=3)\n", .hits = 0},
	{"NVF-KEY-UNKNOWN", PT "R(np_download_chunk_size=0)\n", .hits = 1, .line = 2,
	 .says = "an outermost key", .severity = ERROR},
	{"NVF-KEY-UNKNOWN", PT "R(max_resends=None)\n", .hits = 1, .line = 2,
	 .says = "has no such setting", .severity = ERROR},
	{"NVF-KEY-UNKNOWN", LAUNCHER "L(max_resends=3, server_expected_format='numpy')\n",
	 .hits = 0},
	{"NVF-KEY-TOO-NEW", PT "S(enable_tensor_disk_offload=True)\n", .version = "2.8.3",
	 .hits = 1, .line = 2, .says = "ScaffoldRecipe has it from 2.9 on", .severity = ERROR},
	{"NVF-KEY-TOO-NEW", PT "R(enable_tensor_disk_offload=True)\n", .hits = 1, .line = 2,
	 .says = "FedAvgRecipe has it from 2.8 on", .severity = INFO},
	{"NVF-KEY-TOO-NEW", PT "R(enable_tensor_disk_offload=True)\n", .version = "2.8.0"},
	{"NVF-GC-TOO-OLD", PT "R(client_memory_gc_rounds=1)\n", .version = "2.7.1", .hits = 1,
	 .line = 2},
	{"NVF-EXECUTOR-TOO-NEW",
	 "from nvflare.app_opt.pt.recipes import FedProxRecipe\nFedProxRecipe()\n",
	 .version = "2.8.3", .hits = 1, .line = 2, .says = "FedProxRecipe is in 2.9",
	 .severity = ERROR},
	{"NVF-SWARM-SPLIT",
	 JOB "from nvflare.app_common.ccwf.ccwf_job import SwarmClientConfig\n"
	     "SwarmClientConfig(executor=Runner('t.py', memory_gc_rounds=2))\n",
	 .hits = 1, .line = 4},

	{"NVF-OFFLOAD-NUMPY", PT "R(\n enable_tensor_disk_offload=True)\n", .hits = 1, .line = 2,
	 .says = "has no effect", .proposed = "\"pytorch\"", .severity = ERROR},
	{"NVF-OFFLOAD-NUMPY",
	 PT "R(enable_tensor_disk_offload=1,\n server_expected_format='numpy')\n", .hits = 1,
	 .line = 3},
	{"NVF-OFFLOAD-NUMPY",
	 PT FORMATS "R(enable_tensor_disk_offload=True, server_expected_format=E.NUMPY)\n",
	 .hits = 1, .line = 3},
	{"NVF-OFFLOAD-NUMPY",
	 PT FORMATS "R(enable_tensor_disk_offload=True, server_expected_format=E.PYTORCH)\n"
		    "R(enable_tensor_disk_offload=True, server_expected_format='pytorch')\n"
		    "R(enable_tensor_disk_offload=True, server_expected_format=f)\n"
		    "R(enable_tensor_disk_offload=True, **kw)\n"
		    "R(enable_tensor_disk_offload=False)\nR(enable_tensor_disk_offload=x)\n",
	 .hits = 0},
	{"NVF-OFFLOAD-NUMPY",
	 "from nvflare.app_opt.pt.recipes import FedCERecipe\n"
	 "FedCERecipe(enable_tensor_disk_offload=True)\n",
	 .hits = 0},
	{"NVF-OFFLOAD-NUMPY",
	 SWARM FORMATS "R('n', m, 3, 't.py', 2, enable_tensor_disk_offload=True,\n"
		       "  aggregation_format=E.RAW)\n",
	 .hits = 1, .line = 4},
	{"NVF-OFFLOAD-NUMPY",
	 JOB FORMATS "FedAvg(enable_tensor_disk_offload=True)\nRunner('t.py')\n"
		     "Runner('t.py', server_expected_format=E.PYTORCH)\n",
	 .hits = 1, .line = 5},
	{"NVF-OFFLOAD-NUMPY", JOB "FedAvg()\nRunner('t.py')\n", .hits = 0},
	{"NVF-CANNOT-TELL",
	 PT "R(" BOTH ", cuda_empty_cache=True, enable_tensor_disk_offload=True,\n"
	    " server_expected_format=f)\n",
	 .hits = 1, .line = 3, .says = "only tensors of PyTorch are offloaded", .severity = INFO},
	{"NVF-CANNOT-TELL", PT "R(" BOTH ", server_expected_format=f)\n", .hits = 0},

	{"NVF-CANNOT-TELL", PT "R(client_memory_gc_rounds=n,\n  server_memory_gc_rounds=n + 1)\n",
	 .hits = 2, .line = 3, .says = "known only when the script runs", .severity = INFO},
	{"NVF-CANNOT-TELL", PT "R(**settings)\n", .hits = 1, .line = 2,
	 .says = "it may hold server_memory_gc_rounds, client_memory_gc_rounds, cuda_empty_cache, "
		 "enable_tensor_disk_offload",
	 .severity = INFO},
	{"NVF-CANNOT-TELL", PT "R(*args, " BOTH ", cuda_empty_cache=flag)\n", .hits = 2, .line = 2},
	{"NVF-CANNOT-TELL", "from nvflare.app_opt.pt.recipes.new import NewRecipe\nNewRecipe()\n",
	 .hits = 1, .line = 2, .says = "does not know this recipe", .severity = INFO},
	{"NVF-CANNOT-TELL", SWARM "R('n', m, 3, 't.py', 2, client_config_overrides=o)\n", .hits = 1,
	 .line = 2, .says = "wins over", .severity = INFO},
	{"NVF-CANNOT-TELL",
	 SWARM "R('n', m, 3, 't.py', 2, client_config_overrides={'memory_gc_rounds': 0})\n",
	 .hits = 1, .line = 2},
	{"NVF-CANNOT-TELL",
	 SWARM "R('n', m, 3, 't.py', 2, client_config_overrides={'learn_task_timeout': 0})\n",
	 .hits = 0},
	{"NVF-CANNOT-TELL",
	 PT "from functools import partial\npartial(R, " BOTH ")(num_rounds=5)\n", .hits = 1,
	 .line = 3, .says = "it may hold cuda_empty_cache", .severity = INFO},
	{"NVF-CANNOT-TELL", PT "R(" BOTH ", cuda_empty_cache=False, model=m, num_rounds=n)\n",
	 .hits = 0},
	{"NVF-CLASS-PASSED-ON", PT "class Mine(R): pass\n", .hits = 1, .line = 2,
	 .says = "inherits", .severity = INFO},
	{"NVF-CLASS-PASSED-ON", PT "recipes = {'a': R,\n 'b': S}\n", .hits = 2, .line = 3,
	 .says = "passed on", .severity = INFO},
	{"NVF-CLASS-PASSED-ON", PT "def f(r: R) -> R:\n  assert isinstance(r, R)\nR2 = R\n",
	 .hits = 0},
	{"NVF-RECIPE-NO-SETTINGS",
	 "from nvflare.app_opt.xgboost.recipes import XGBBaggingRecipe\nXGBBaggingRecipe('n', 2)\n",
	 .hits = 1, .line = 2},
	{"NVF-RECIPE-NO-SETTINGS", PT "R(" BOTH ")\n", .hits = 0},
	{"NVF-PER-SITE-IGNORED",
	 PT "from nvflare.recipe import set_per_site_config\n"
	    "set_per_site_config(R(), {'site-1': {'memory_gc_rounds': 1}})\n",
	 .hits = 1, .line = 3},
	{"NVF-PER-SITE-IGNORED", PT "R(per_site_config={'site-1': {'cuda_empty_cache': True}})\n",
	 .hits = 1, .line = 2},
	{"NVF-PER-SITE-IGNORED", PT "R(per_site_config={'site-1': {'command': 'python3'}})\n",
	 .hits = 0},
	{"NVF-PER-SITE-IGNORED",
	 PT "r = R()\nr.set_per_site_config({'site-1': {'memory_gc_rounds': 1}})\n"
	    "r.set_per_site_config(config={'site-1': {'memory_gc_rounds': 1}})\n"
	    "r.other({'site-1': {'memory_gc_rounds': 1}})\n",
	 .hits = 2, .line = 4},
	{"NVF-CHUNK-ZERO",
	 PT "r = R()\nr.add_server_config({'np_download_chunk_size': 0})\n"
	    "r.add_client_config(config={'tensor_download_chunk_size': -1})\n"
	    "r.add_client_config({'tensor_download_chunk_size': 1})\n",
	 .hits = 2, .line = 4, .says = "serialised whole", .severity = WARNING,
	 .proposed = "2097152"},
	{"NVF-CHUNK-ZERO",
	 "from nvflare.job_config.api import *\nj = FedJob()\n"
	 "j.to_server({'np_download_chunk_size': 0})\nj.to({'np_download_chunk_size': 0}, 's')\n"
	 "j.to_clients(obj={'np_download_chunk_size': 0})\nj.to(x)\n",
	 .hits = 3, .line = 5},
	{"NVF-CHUNK-ZERO", PT "f({'np_download_chunk_size': 0})\n", .hits = 0},
	{"NVF-KEY-IGNORED", PT "R().x\nr.add_client_config({'np_download_chunk_sizes': 1})\n",
	 .hits = 1, .line = 3, .says = "did you mean np_download_chunk_size", .severity = WARNING},
	{"NVF-CONFIG-CANNOT-TELL",
	 PT "r.add_client_config(c)\nr.add_client_config({'np_download_chunk_size': n})\n"
	    "r.add_server_config({**c})\n",
	 .hits = 3, .line = 4, .says = "known only when the script runs", .severity = INFO},
	{"NVF-CONFIG-CANNOT-TELL", PT "r.add_client_config({'a': n})\nr.to(c)\nr.x(c)\n",
	 .hits = 0},
	{"NVF-SETTING-ASSIGNED",
	 PT "r = R()\nr.client_memory_gc_rounds = 0\nif x: r.a.cuda_empty_cache = True\n"
	    "setattr(r, 'memory_gc_rounds', 0)\n",
	 .hits = 3, .line = 5, .says = "pass it as an argument", .severity = INFO},
	{"NVF-SETTING-ASSIGNED",
	 PT "r = R()\nr.client_memory_gc_rounds -= 1\nr.memory_gc_rounds //= 2\n", .hits = 2,
	 .line = 4},
	{"NVF-SETTING-ASSIGNED",
	 PT "r = R()\nr.memory_gc_rounds - 1\nif r.memory_gc_rounds <= 1: pass\n", .hits = 0},
	{"NVF-OFFLOAD-FILTER",
	 PT "r = R(enable_tensor_disk_offload=True)\nr.add_client_output_filter(F())\n"
	    "r.add_server_input_filter(F(), tasks=['train'])\nr.add_client_input_filter(F())\n",
	 .hits = 2, .line = 4, .says = "filters that read", .severity = WARNING},
	{"NVF-OFFLOAD-FILTER",
	 JOB "from nvflare import FilterType as T\nFedAvg(enable_tensor_disk_offload=True)\n"
	     "j.to_clients(F(), filter_type=T.TASK_RESULT)\nj.to(F(), 's', "
	     "filter_type=T.TASK_DATA)\n",
	 .hits = 1, .line = 5},
	{"NVF-OFFLOAD-FILTER", PT "r = R()\nr.add_client_output_filter(F())\n", .hits = 0},
	{"NVF-CUDA-MISSING",
	 PT "from nvflare.recipe import set_recipe_meta\nr = R(" BOTH ")\n"
	    "set_recipe_meta(r, k, {'site-1': {'num_of_gpus': 1}})\n",
	 .hits = 1, .line = 3, .says = "set_recipe_meta() assigns GPUs to 'site-1'",
	 .severity = WARNING, .proposed = "true"},
	{"NVF-CUDA-MISSING",
	 PT "from nvflare.recipe import set_recipe_meta\nR(cuda_empty_cache=True)\nR(**kw)\n"
	    "set_recipe_meta(r, k, value={'site-1': {'num_of_gpus': 1}})\n",
	 .hits = 0},
	{"NVF-CUDA-MISSING",
	 PT "from nvflare.recipe.utils import set_recipe_meta\nR(" BOTH ")\n"
	    "set_recipe_meta(r, k, {'server': {'num_of_gpus': 1}, 'a': {'mem': 1}})\n",
	 .hits = 0},
	{"NVF-CANNOT-TELL", SWARM "R('n', m, 3, 't.py', 2, train_args=a)\n", .hits = 1, .line = 2,
	 .says = "rejects memory_gc_rounds", .severity = INFO},
	{"NVF-CANNOT-TELL", SWARM "R('n', m, 3, 't.py', 2, train_args={'x': n, **kw})\n", .hits = 1,
	 .line = 2},
	{"NVF-CANNOT-TELL", SWARM "R('n', m, 3, 't.py', 2, train_args={'x': n})\n", .hits = 0},
	{"NVF-CHUNK-INVALID", PT "r.add_client_config({'np_download_chunk_size': '2M'})\n",
	 .hits = 1, .line = 2, .says = "int()", .severity = ERROR, .proposed = "2097152"},
	{"NVF-CHUNK-INVALID",
	 PT "r.add_client_config({'np_download_chunk_size': '2', 'tensor_download_chunk_size': "
	    "n})\n",
	 .hits = 0},
	{"NVF-KEY-IGNORED", PT "r.add_server_config({'memory_gc_rounds': 1})\n", .hits = 1,
	 .line = 2, .says = "an argument of a class", .severity = WARNING},
	{"NVF-SETTING-ASSIGNED",
	 PT "self.memory_gc_rounds = 0\nr.memory_gc = 1\nx = r.memory_gc_rounds\n"
	    "setattr(r, name, 0)\nmemory_gc_rounds = 0\n",
	 .hits = 0},
	{"NVF-IMPORTED-BY-NAME",
	 "import importlib\nm = importlib.import_module('nvflare.app_opt.pt.recipes')\n"
	 "n = __import__('nvflare.recipe')\no = importlib.import_module(name)\n",
	 .hits = 3, .line = 4, .severity = INFO, .says = "cannot tell"},
	{"NVF-IMPORTED-BY-NAME",
	 PT "import importlib\nm = importlib.import_module('torch')\nr.import_module\n", .hits = 0},
	{"NVF-CLASS-PASSED-ON",
	 "import nvflare.app_opt.pt.recipes as m\ngetattr(m, 'FedAvgRecipe')()\n", .hits = 1,
	 .line = 2, .says = "a module that has such classes", .severity = INFO},
	{"NVF-CLASS-PASSED-ON", "import nvflare.client as m\ngetattr(m, 'send')()\nprint(m)\n",
	 .hits = 0},
	{"NVF-CLASS-PASSED-ON",
	 "from nvflare.app_common.workflows.base_fedavg import BaseFedAvg\n"
	 "class Mine(BaseFedAvg):\n  pass\n",
	 .hits = 1, .line = 2},
	{"NVF-PARTS-ELSEWHERE",
	 "from nvflare.recipe import SimEnv\nfrom mine import make\nmake().execute(SimEnv())\n",
	 .hits = 1, .line = 3, .says = "no recipe, workflow or executor in it", .severity = INFO},
	{"NVF-PARTS-ELSEWHERE", JOB "from nvflare import FedJob\nFedJob()\nFedAvg()\n", .hits = 1,
	 .line = 4, .says = "no executor or runner in it", .severity = INFO},
	{"NVF-PARTS-ELSEWHERE", JOB "from nvflare import FedJob\nFedJob()\nRunner('t.py')\n",
	 .hits = 1, .line = 4, .says = "no workflow in it", .severity = INFO},
	{"NVF-PARTS-ELSEWHERE",
	 JOB "from nvflare import FedJob\nFedJob()\nRunner('t.py')\nFedAvg()\n", .hits = 0},
	{"NVF-PARTS-ELSEWHERE", PT "from nvflare.recipe import SimEnv\nR().execute(SimEnv())\n",
	 .hits = 0},
	{"NVF-PARTS-ELSEWHERE",
	 PT "from nvflare.recipe import SimEnv\nclass M(R): pass\nM().execute(SimEnv())\n",
	 .hits = 0},
	{"NVF-PARTS-ELSEWHERE", "from nvflare.job_config.stats_job import StatsJob\nStatsJob()\n",
	 .hits = 0},
	{"NVF-PARTS-ELSEWHERE",
	 "from nvflare.recipe import PocEnv\nfrom nvflare.a.b import NewRecipe\n"
	 "NewRecipe().execute(PocEnv())\n",
	 .hits = 0},
	{"NVF-PARTS-ELSEWHERE",
	 "from nvflare.recipe import ProdEnv\nfrom mine import NewRecipe\nProdEnv()\n"
	 "NewRecipe().execute(ProdEnv())\n",
	 .hits = 1, .line = 3},
	{"NVF-PARTS-ELSEWHERE",
	 JOB "from nvflare.app_common.ccwf.ccwf_job import *\nCCWFJob()\nSwarmServerConfig(3)\n"
	     "SwarmClientConfig(Runner('t.py'))\n",
	 .hits = 0},
	{"NVF-PARTS-ELSEWHERE", JOB "from nvflare import FedJob\nFedJob()\nf(FedAvg, [Runner])\n",
	 .hits = 0},
	{"NVF-PARTS-ELSEWHERE", JOB "from other import FedJob\nFedJob()\n", .hits = 0},
	{"NVF-PARTS-ELSEWHERE",
	 "from nvflare import FedJob\nfrom nvflare.app_opt.flower.flower_job import FlowerJob\n"
	 "FedJob()\nFlowerJob()\n",
	 .hits = 0},
	{"NVF-PARTS-ELSEWHERE",
	 "from nvflare import FedJob\nfrom nvflare.edge.tools.edge_job import EdgeJob\nFedJob()\n"
	 "EdgeJob()\n",
	 .hits = 0},
	{"NVF-PARTS-ELSEWHERE",
	 "from nvflare import FedJob\nfrom nvflare.job_config.stats_job import StatsJob\n"
	 "FedJob()\nStatsJob()\n",
	 .hits = 0},
	/* a byte order mark hides nothing */
	{"NVF-CLI-GC-OFF", "\xef\xbb\xbf" PT "R()\n", .hits = 1, .line = 2},
	/* a job that triggers no rule of these */
	{"NVF-CLI-GC-OFF", PT "R(" BOTH ", num_rounds=10, cuda_empty_cache=True)\n", .hits = 0},
};

static void rules_fire_where_they_should_and_nowhere_else(void **state)
{
	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++)
		check_row(&rows[i]);
}

/* Checks "from MODULE import NAME" and a call with this argument. */
static void check_class(const struct flmem_nvflare_class *known, const char *argument,
			const char *rule)
{
	const char *name = flmem_nvflare_short_name(known->path);
	struct flmem_recommendations found = {0};
	const struct flmem_finding *last;
	char script[512];

	snprintf(script, sizeof(script), "from %.*s import %s\n%s(%s)\n",
		 (int)(name - known->path - 1), known->path, name, name, argument);
	check_script("job.py", script, NULL, &found);
	if (rule ? !findings_of(&found, rule, &last) : !found.finding_count)
		fail_msg("no %s on:\n%s", rule ? rule : "finding", script);
	flmem_recommendations_clear(&found);
}

/* Reports a class that cleans without arguments, so that there is nothing to find. */
static bool cleans_by_default(const struct flmem_nvflare_class *known)
{
	bool cleans = false;

	for (size_t s = 0; s < FLMEM_NVFLARE_SIDES; s++) {
		if (known->intervals[s].exists && !known->intervals[s].fallback)
			return false;
		cleans |= known->intervals[s].exists;
	}
	return cleans;
}

static void no_recipe_is_passed_over_in_silence(void **state)
{
	static const char *const zero[] = {"NVF-SRV-GC-OFF", "NVF-CLI-GC-OFF"};

	(void)state;
	for (size_t i = 0; i < flmem_nvflare_class_count; i++) {
		const struct flmem_nvflare_class *known = &flmem_nvflare_classes[i];

		if (known->part == FLMEM_NVFLARE_RECIPE && !cleans_by_default(known))
			check_class(known, "", NULL);
		for (size_t s = 0; s < FLMEM_NVFLARE_SIDES; s++) {
			char argument[64];

			if (!known->intervals[s].arg ||
			    (known->gc_ignored && s == FLMEM_NVFLARE_SERVER))
				continue;
			snprintf(argument, sizeof(argument), "%s=0", known->intervals[s].arg);
			check_class(known, argument, zero[s]);
			snprintf(argument, sizeof(argument), "%s=x", known->intervals[s].arg);
			check_class(known, argument, "NVF-CANNOT-TELL");
			snprintf(argument, sizeof(argument), "%s=-1", known->intervals[s].arg);
			check_class(known, argument, "NVF-GC-INVALID");
			snprintf(argument, sizeof(argument), "%sx=1", known->intervals[s].arg);
			check_class(known, argument, "NVF-KEY-UNKNOWN");
		}
	}
}

/* Calls of other packages do not count among many; beyond a limit flmem reports that it stopped. */
static void long_scripts_are_checked_to_their_end(void **state)
{
	static const char *const calls[] = {"f()\n", "ScriptRunner('t', memory_gc_rounds=1)\n"};
	struct flmem_recommendations found;
	const struct flmem_finding *last;

	(void)state;
	for (size_t c = 0; c < FLMEM_ARRAY_SIZE(calls); c++) {
		FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
		const char *path;
		struct tree tree;

		found = (struct flmem_recommendations){0};
		tree_init(&tree);
		path = tree.path;
		flmem_buf_puts(&text, PT "from torch import f\n"
					 "from nvflare.job_config.script_runner import "
					 "ScriptRunner\n");
		for (int i = 0; i < 2000; i++)
			flmem_buf_puts(&text, calls[c]);
		flmem_buf_puts(&text, "R(client_memory_gc_rounds=0)\n");
		tree_puts(&tree, "job.py", text.data);
		assert_int_equal(flmem_recommend(&path, 1, NULL, &found, NULL), 0);
		assert_int_equal(findings_of(&found, "NVF-CLI-GC-OFF", &last), c ? 0 : 1);
		assert_int_equal(found.problem_count, c);
		assert_true(!c || strstr(found.problems[0].message, "not checked"));
		flmem_recommendations_clear(&found);
		tree_clear(&tree);
	}
}

static void notebooks_are_checked_like_scripts(void **state)
{
	struct flmem_recommendations found = {0};
	const struct flmem_finding *last = NULL;

	(void)state;
	check_script("job.ipynb",
		     "{\n \"cells\": [\n  {\"cell_type\": \"code\", \"source\": [\n"
		     "   \"from nvflare.recipe import FedAvgRecipe\\n\",\n"
		     "   \"FedAvgRecipe(\\n\",\n"
		     "   \"  client_memory_gc_rounds=0)  # flmem: ignore NVF-X y\"]}]}\n",
		     NULL, &found);
	assert_int_equal(findings_of(&found, "NVF-CLI-GC-OFF", &last), 1);
	if (!last) {
		fail_msg("no finding");
	} else {
		assert_int_equal(last->line, 6);
		assert_string_equal(last->path, "FedAvgRecipe.client_memory_gc_rounds");
		assert_string_equal(last->current, "0");
	}
	flmem_recommendations_clear(&found);
}

static void jobs_in_python_are_facts_for_other_inputs(void **state)
{
	struct flmem_recommendations found = {0};

	(void)state;
	check_script("job.py",
		     PT "R(server_memory_gc_rounds=5, client_memory_gc_rounds=2, "
			"cuda_empty_cache=True, enable_tensor_disk_offload=True)\n",
		     NULL, &found);
	assert_true(!found.server_gc_rounds.unknown && found.server_gc_rounds.value == 5);
	assert_true(!found.client_gc_rounds.unknown && found.client_gc_rounds.value == 2);
	assert_true(!found.cuda_empty_cache.unknown && found.cuda_empty_cache.value == 1);
	assert_true(found.disk_offload);
	flmem_recommendations_clear(&found);
	check_script("job.py", PT "R(client_memory_gc_rounds=n, **kw)\nR(" BOTH ")\n", NULL,
		     &found);
	assert_non_null(strstr(found.server_gc_rounds.unknown, "known only when it runs"));
	assert_non_null(strstr(found.client_gc_rounds.unknown, "known only when it runs"));
	flmem_recommendations_clear(&found);
	check_script("job.py",
		     PT "r = R(" BOTH ", cuda_empty_cache=True)\nr.client_memory_gc_rounds = 0\n",
		     NULL, &found);
	assert_non_null(strstr(found.client_gc_rounds.unknown, "known only when it runs"));
	assert_true(!found.server_gc_rounds.unknown && !found.cuda_empty_cache.unknown);
	flmem_recommendations_clear(&found);
	check_script("job.py",
		     PT "r = R(" BOTH ", cuda_empty_cache=True)\nr.server_memory_gc_rounds = 0\n"
			"r.cuda_empty_cache = False\n",
		     NULL, &found);
	assert_non_null(strstr(found.server_gc_rounds.unknown, "known only when it runs"));
	assert_non_null(strstr(found.cuda_empty_cache.unknown, "known only when it runs"));
	assert_true(!found.client_gc_rounds.unknown);
	flmem_recommendations_clear(&found);
	check_script("job.py",
		     "from nvflare.app_opt.pt.recipes import CyclicRecipe as R\n"
		     "R(" BOTH ", cuda_empty_cache=True,\n"
		     "  client_config_overrides={'memory_gc_rounds': 0})\n",
		     NULL, &found);
	assert_non_null(strstr(found.client_gc_rounds.unknown, "known only when it runs"));
	assert_non_null(strstr(found.cuda_empty_cache.unknown, "known only when it runs"));
	assert_true(!found.server_gc_rounds.unknown && found.server_gc_rounds.value == 1);
	flmem_recommendations_clear(&found);
	check_script("job.py", "import nvflare.client as f\nf.send(m)\nf.send(m, k)\nf.send(m)\n",
		     NULL, &found);
	assert_non_null(strstr(found.clear_cache.unknown, "known only when it runs"));
	flmem_recommendations_clear(&found);
	check_script("job.py", "import nvflare.client as f\nf.send(m, 0)\nf.send(m, k)\n", NULL,
		     &found);
	assert_true(!found.clear_cache.unknown && !found.clear_cache.value);
	flmem_recommendations_clear(&found);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rules_fire_where_they_should_and_nowhere_else),
		cmocka_unit_test(no_recipe_is_passed_over_in_silence),
		cmocka_unit_test(long_scripts_are_checked_to_their_end),
		cmocka_unit_test(notebooks_are_checked_like_scripts),
		cmocka_unit_test(jobs_in_python_are_facts_for_other_inputs),
	};

	return cmocka_run_group_tests_name("recipe_rules", tests, NULL, NULL);
}
