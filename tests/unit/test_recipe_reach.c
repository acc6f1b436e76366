/* SPDX-License-Identifier: Apache-2.0 */
/* Tests classes and settings that a script reaches in other ways than by their names. */
#include "script_rows.h"

#define PARTIAL "from functools import partial as P\n"
#define CCWF	"from nvflare.app_common import ccwf\n"
#define XGB	"from nvflare.app_opt.xgboost.recipes import XGBBaggingRecipe as X\n"
#define SWARM_JOB                                                                   \
	"from nvflare.app_common.ccwf.ccwf_job import CCWFJob, SwarmServerConfig, " \
	"SwarmClientConfig\n"

static const struct row rows[] = {
	/* the object is reached by other expressions */
	{"NVF-SETTING-ASSIGNED",
	 PT "rs = [R()]\nrs[0].client_memory_gc_rounds = 0\nf().cuda_empty_cache = False\n"
	    "self.recipe.client_memory_gc_rounds = 0\n",
	 .hits = 3, .line = 5},
	{"NVF-SETTING-ASSIGNED",
	 PT "r = R()\nr.client_memory_gc_rounds, r.cuda_empty_cache = 0, False\n"
	    "x = r.client_memory_gc_rounds = 0\nr.client_memory_gc_rounds: int = 0\n",
	 .hits = 4, .line = 5},
	{"NVF-SETTING-ASSIGNED",
	 PT "r = R()\nx = r.memory_gc_rounds, 1\nassert r.memory_gc_rounds, y == 2\n"
	    "print(r.memory_gc_rounds, end='')\nf(a=r.memory_gc_rounds)\n",
	 .hits = 0},
	{"NVF-SETTING-ASSIGNED",
	 PT "r = R()\nvars(r)['client_memory_gc_rounds'] = 0\nr.__dict__['memory_gc_rounds'] = 0\n"
	    "d = r.__dict__\nd['cuda_empty_cache'] = False\n",
	 .hits = 3, .line = 6},
	{"NVF-SETTING-ASSIGNED", PT "kw = {}\nkw['client_memory_gc_rounds'] = 0\nR(**kw)\n",
	 .hits = 0},
	{"NVF-SETTING-ASSIGNED",
	 PT "r = R()\nvars(r).update(client_memory_gc_rounds=0)\n"
	    "r.__dict__.update({'client_memory_gc_rounds': 0})\nvars(f(r)).update(d)\n"
	    "r.__dict__.update({**d})\nr.__dict__ |= d\nr.__dict__[k] = 0\nvars(r)[k] = 0\n",
	 .hits = 7, .line = 9},
	{"NVF-SETTING-ASSIGNED",
	 PT "r = R()\nr.__dict__.update(x=0)\nprint(vars(r))\nprint(vars(r)['memory_gc_rounds'])\n"
	    "d.update(e)\nself.__dict__ = d\nR(**vars(a))\n",
	 .hits = 0},
	{"NVF-SETTING-ASSIGNED",
	 PT "r = R()\nobject.__setattr__(r, 'client_memory_gc_rounds', 0)\n"
	    "r.__setattr__('client_memory_gc_rounds', 0)\n"
	    "r.__dict__.__setitem__('client_memory_gc_rounds', 0)\n",
	 .hits = 3, .line = 5},
	/* in the arguments of classes that are not NVFlare's */
	{"NVF-SETTING-ASSIGNED",
	 PT
	 "import dataclasses, own\nr = R(" BOTH ")\n"
	 "dataclasses.replace(r, client_memory_gc_rounds=0)\n"
	 "r.model_copy(update={'server_memory_gc_rounds': 0})\nown.make(cuda_empty_cache=False)\n",
	 .hits = 3, .line = 6, .says = "what is not NVFlare's", .severity = INFO},
	{"NVF-SETTING-ASSIGNED",
	 PT "from flmem import cleanup_memory\ncleanup_memory(cuda_empty_cache=True)\n"
	    "p.set_defaults(memory_gc_rounds=1)\nd.update(memory_gc_rounds=1)\n"
	    "m.assert_called_with(cuda_empty_cache=True)\nsuper().__init__(memory_gc_rounds=1)\n",
	 .hits = 0},
	/* settings of a job that the script has exported and writes again */
	{"NVF-SETTING-ASSIGNED",
	 PT "R().export('jobs')\nc = json.load(open(p))\n"
	    "c['workflows'][0]['args']['memory_gc_rounds'] = 0\n"
	    "json.dump(c, open(p, 'w'))\n",
	 .hits = 1, .line = 4, .says = "check what it writes", .severity = INFO},
	{"NVF-SETTING-ASSIGNED",
	 PT "R().export('jobs')\nprint(json.dumps({'memory_gc_rounds': 0}))\n", .hits = 0},
	{"NVF-SETTING-ASSIGNED",
	 PT "recipe = R()\nfor k, v in d.items():\n  setattr(recipe, k, v)\n", .hits = 1,
	 .line = 4},
	{"NVF-SETTING-ASSIGNED", PT "r = R()\nsetattr(args, k, v)\n", .hits = 0},
	{"NVF-CHUNK-ZERO",
	 PT "r = R()\nr.execute(env, client_exec_params={'np_download_chunk_size': 0})\n"
	    "r.run(env, {'tensor_download_chunk_size': 0}, {'np_download_chunk_size': 0})\n"
	    "r.export('x', server_exec_params={'tensor_download_chunk_size': -1})\n",
	 .hits = 4, .line = 5, .says = "serialised whole", .severity = WARNING,
	 .proposed = "2097152"},
	{"NVF-CHUNK-ZERO",
	 PT
	 "class A:\n def f(self):\n  self.recipe.add_client_config({'np_download_chunk_size': 0})\n"
	 "  self.to_server({'np_download_chunk_size': 0})\n"
	 "f().add_client_config({'np_download_chunk_size': 0})\n"
	 "a[0].add_client_config({'np_download_chunk_size': 0})\n"
	 "s.add_params({'np_download_chunk_size': 0})\n",
	 .hits = 5, .line = 8},
	{"NVF-CONFIG-CANNOT-TELL",
	 PT "r = R()\nr.execute(env, client_exec_params=c)\nr.run(env, c)\nr.export(d, c)\n",
	 .hits = 1, .line = 3},
	{"NVF-CONFIG-CANNOT-TELL",
	 PT "c = {'np_download_chunk_size': 0}\nj.to_clients(c)\nr.run(env, c)\n", .hits = 2,
	 .line = 4},
	{"NVF-CONFIG-CANNOT-TELL",
	 PT "j.to_clients({'np_download_chunk_size': 1})\nj.to(runner, 's')\nj.to(f(), 's')\n"
	    "r.run(env, c)\n",
	 .hits = 0},
	{"NVF-CONFIG-CANNOT-TELL",
	 PT "m[0].params['np_download_chunk_size'] = 0\nc['x'] = "
	    "1\nprint(c['np_download_chunk_size'])\n",
	 .hits = 1, .line = 2},
	{"NVF-CONFIG-CANNOT-TELL", PT "c['np_download_chunk_size'] = 0\nr.add_client_config(c)\n",
	 .hits = 1, .line = 3},
	{"NVF-CLASS-PASSED-ON",
	 PT "d['a'] = R\nx = y or S\nf = lambda: R\ndef g():\n  yield S\ndef h():\n  return 1, R\n",
	 .hits = 5, .line = 8, .says = "passed on", .severity = INFO},
	{"NVF-CLASS-PASSED-ON",
	 PT "class A:\n  def __init__(self):\n    R.__init__(self, client_memory_gc_rounds=0)\n",
	 .hits = 1, .line = 4},
	{"NVF-CLASS-PASSED-ON",
	 PT "r = R()\ntype(r)(client_memory_gc_rounds=0)\nd['a'](cuda_empty_cache=n, "
	    "x=1)\nf(1)(y=2)\n",
	 .hits = 2, .line = 4, .says = "what an expression returns", .severity = INFO},
	{"NVF-CLASS-PASSED-ON",
	 PT "def f(r: R, s: S = None) -> R:\n  global R, S\n  x: R = g()\n  return r is R\n"
	    "f = lambda r, s: r(s)\n",
	 .hits = 0},
	{"NVF-CLASS-PASSED-ON",
	 PT "def f(r: Optional[R], s: t.List[S] = None) -> Union[R, None]:\n"
	    "  return isinstance(r, (R, S)) and g()\n",
	 .hits = 0},
	{"NVF-IMPORTED-BY-NAME", PT "def f():\n  return locals()['R'](name='a')\nprint(locals())\n",
	 .hits = 1, .line = 3, .says = "which classes are taken", .severity = INFO},
	/* all names of a chain, and what a class holds and nothing calls by that name */
	{"NVF-CLASS-PASSED-ON", PT "a = b = R\nr = a(" BOTH ")\n", .hits = 1, .line = 2,
	 .says = "passed on", .severity = INFO},
	{"NVF-CLASS-PASSED-ON", PT "a.b=c  =\\\n d = R\nx == R\n", .hits = 1, .severity = INFO},
	{"NVF-CLASS-PASSED-ON", PT "class E(Enum):\n  A = R\nE.A.value(" BOTH ")\n", .hits = 1,
	 .line = 3, .says = "passed on", .severity = INFO},
	{"NVF-CLASS-PASSED-ON", PT "class E:\n  A: type = R\nE().A(" BOTH ")\n", .hits = 1,
	 .severity = INFO},
	{"NVF-CLASS-PASSED-ON",
	 PT "class E:\n  def f(self):\n    A = R\n  class F: A = R\n  B = 1\ngetattr(E.F, a)()\n",
	 .hits = 1, .line = 5, .severity = INFO},
	{"NVF-CLASS-PASSED-ON",
	 PT "class E:\n  A: type = R\n  def f(self):\n    B = R\n    return self.A(" BOTH
	    ")\nC = R\n",
	 .hits = 0},
	/* recipes without settings, to which a class may add some */
	{"NVF-CLASS-PASSED-ON", XGB "class Mine(X): pass\n", .hits = 1, .line = 2,
	 .says = "inherits", .severity = INFO},
	{"NVF-CLASS-PASSED-ON", PT "class R(R): pass\nR(" BOTH ")\n", .hits = 1, .line = 2,
	 .says = "inherits", .severity = INFO},
	{"NVF-CLASS-PASSED-ON", XGB "rs = {'x': X}\nrs[n](a=1)\n", .hits = 1, .line = 2,
	 .says = "passed on", .severity = INFO},
	{"NVF-CLASS-PASSED-ON", XGB "X(min_clients=2)\nY = X\nisinstance(r, X)\n", .hits = 0},
	/* the executor of a swarm client */
	{"NVF-PARTS-ELSEWHERE",
	 SWARM_JOB "j = CCWFJob()\nj.add_swarm(SwarmServerConfig(9), SwarmClientConfig(e))\n",
	 .hits = 1, .line = 2, .says = "no executor or runner", .severity = INFO},
	{"NVF-PARTS-ELSEWHERE",
	 SWARM_JOB "from nvflare.app_opt.pt.recipes.swarm import BaseSwarmLearningRecipe as B\n"
		   "from nvflare.recipe import SimEnv\n"
		   "r = B('n', SwarmServerConfig(9), SwarmClientConfig(executor=f()))\n"
		   "r.execute(SimEnv())\n",
	 .hits = 1, .line = 5, .says = "no executor or runner", .severity = INFO},
	{"NVF-CLASS-PASSED-ON", PT "x = [R]\nd[R] = f((R, 1))\n", .hits = 3, .line = 3},
	{"NVF-CLASS-PASSED-ON",
	 "import nvflare.app_opt.pt.recipes as m\nF = m.__dict__['FedAvgRecipe']\n"
	 "m.__dict__['FedAvgRecipe'](num_rounds=2)\nm.__dict__.get('FedAvgRecipe')()\n",
	 .hits = 3, .line = 4, .says = "from a module by its name", .severity = INFO},
	{"NVF-CLASS-PASSED-ON", "import nvflare\nimport m\nF = m.__dict__['F']\nm.F.__dict__\n",
	 .hits = 0},
	/* calls of what functools.partial() returned */
	{"NVF-SRV-GC-OFF",
	 PT PARTIAL "F = P(R, server_memory_gc_rounds=5)\nF(server_memory_gc_rounds=0)\n",
	 .hits = 1, .line = 4},
	{"NVF-GC-NEVER-FIRES",
	 PT PARTIAL "F = P(R, server_memory_gc_rounds=5, num_rounds=9)\nF(num_rounds=3)\nF()\n",
	 .hits = 1, .line = 3, .says = "rounds 0 to 2", .severity = WARNING},
	{"NVF-CLEAR-CACHE-FALSE",
	 "import functools\nimport nvflare.client as c\ns = functools.partial(c.send, 1)\n"
	 "s(False)\ns(True)\n",
	 .hits = 1, .line = 4},
	{"NVF-CANNOT-TELL", PT PARTIAL "F = P(R, server_memory_gc_rounds=5)\nF()\n", .hits = 0},
	{"NVF-CANNOT-TELL", PT PARTIAL "F = P(R, cuda_empty_cache=True, **kw)\nF(x=1)\n", .hits = 1,
	 .line = 3},
	{"NVF-CANNOT-TELL", PT PARTIAL "F = P(R, x=1)\nG = P(F, server_memory_gc_rounds=0)\nG()\n",
	 .hits = 2},
	{"NVF-CLASS-PASSED-ON", PT PARTIAL "F = P(R, x=1)\nF()\nrun(F)\n", .hits = 1, .line = 5},
	/* a class that another one, or an object, holds */
	{"NVF-CLI-GC-OFF",
	 PT "class C:\n  cls = R\nC.cls(client_memory_gc_rounds=0)\n"
	    "class D:\n  def __init__(self):\n    self.make = S\n  def f(self):\n"
	    "    return self.make(client_memory_gc_rounds=0)\n",
	 .hits = 2, .line = 9},
	{"NVF-CLI-GC-OFF", PT "a.R(client_memory_gc_rounds=0)\n", .hits = 0},
	{"NVF-IMPORTED-BY-NAME",
	 PT "globals()['FedAvgRecipe'](name='a')\nglobals().get(n)()\nf(globals())\n", .hits = 2,
	 .line = 3},
	/* GPUs that are known only when the script runs */
	{"NVF-CUDA-MISSING",
	 PT "from nvflare.recipe import SimEnv, PocEnv\nR(" BOTH
	    ").execute(SimEnv(gpu_config=a.gpu))\n",
	 .hits = 1, .line = 3, .says = "known only when the script runs", .severity = INFO},
	{"NVF-CUDA-MISSING",
	 PT "from nvflare.recipe import SimEnv, PocEnv\nR(" BOTH ").execute(PocEnv(gpu_ids=ids))\n",
	 .hits = 1, .line = 3, .says = "known only when the script runs", .severity = INFO},
	{"NVF-CUDA-MISSING", PT "R(" BOTH ")\njob.simulator_run('w', gpu=gpu)\n", .hits = 1,
	 .line = 2, .says = "known only when the script runs", .severity = INFO},
	{"NVF-CUDA-MISSING",
	 PT "from nvflare.recipe.utils import set_recipe_meta\n"
	    "from nvflare.apis.job_def import JobMetaKey\nr = R(" BOTH ")\n"
	    "set_recipe_meta(r, JobMetaKey.RESOURCE_SPEC, spec)\n",
	 .hits = 1, .line = 4, .says = "known only when the script runs", .severity = INFO},
	{"NVF-CUDA-MISSING",
	 PT "from nvflare.recipe.utils import set_recipe_meta\n"
	    "from nvflare.apis.job_def import JobMetaKey\nr = R(" BOTH ")\n"
	    "set_recipe_meta(r, JobMetaKey.MIN_CLIENTS, n)\n",
	 .hits = 0},
	{"NVF-CUDA-MISSING",
	 PT "from nvflare.recipe import SimEnv, PocEnv\n"
	    "R(" BOTH ", cuda_empty_cache=True).execute(SimEnv(gpu_config=a.gpu))\n"
	    "e = PocEnv(gpu_ids=[])\nf = SimEnv(gpu_config=None)\n",
	 .hits = 0},
	{"NVF-CUDA-MISSING",
	 PT "from nvflare.recipe import SimEnv\nR(" BOTH
	    ")\nSimEnv(num_clients=2, gpu_config='0,1')\n",
	 .hits = 1, .line = 3, .says = "the simulator assigns GPUs to 'clients'",
	 .severity = WARNING, .proposed = "true"},
	{"NVF-CUDA-MISSING",
	 JOB "Runner('t.py', memory_gc_rounds=1)\njob.simulator_run('w', n_clients=2, gpu='0')\n",
	 .hits = 1, .line = 3},
	{"NVF-CUDA-MISSING",
	 PT "from nvflare.recipe import SimEnv\nR(" BOTH ", cuda_empty_cache=True)\nR(" BOTH
	    ", cuda_empty_cache=c)\nSimEnv(gpu_config='0')\n",
	 .hits = 0},
	{"NVF-CUDA-MISSING",
	 PT "from nvflare.recipe import SimEnv\nR(" BOTH ")\nSimEnv(gpu_config=None)\n", .hits = 0},
	{"NVF-RECIPE-NO-SETTINGS",
	 "from nvflare.app_opt.feature_election import FeatureElection\nFeatureElection()\n",
	 .hits = 1, .line = 2},
	{"NVF-RECIPE-NO-SETTINGS",
	 "from nvflare.collab import collab\n@collab.main\ndef main():\n  collab.clients.train()\n",
	 .hits = 1, .line = 1},
	{"NVF-RECIPE-NO-SETTINGS", "import nvflare.collab as c\n", .hits = 1, .line = 1},
	{"NVF-RECIPE-NO-SETTINGS",
	 "from nvflare.collab import collab, CollabRecipe\nCollabRecipe(job_name='j')\n", .hits = 1,
	 .line = 2},
	{"NVF-RECIPE-NO-SETTINGS", "import nvflare.collaborate\n", .hits = 0},
	/* lines that end with a carriage return alone, or also with one */
	{"NVF-SRV-GC-OFF",
	 "from nvflare.app_opt.pt.recipes import FedAvgRecipe as R\r# note\r"
	 "R(server_memory_gc_rounds=0,\r\n client_memory_gc_rounds=1)\r",
	 .hits = 1, .line = 3, .severity = WARNING},
	{"NVF-CLI-GC-OFF", "from nvflare.app_opt.pt.recipes import FedAvgRecipe as R\r\n\rR()\r",
	 .hits = 1, .line = 3},
	{"NVF-CLI-GC-OFF",
	 "from nvflare.app_opt.pt.recipes import FedAvgRecipe as R\rR(client_memory_gc_rounds=1)\r",
	 .hits = 0},
	/* a class by the package that exports it */
	{"NVF-CLI-GC-OFF",
	 CCWF "c = ccwf.SwarmClientController(memory_gc_rounds=0)\n"
	      "import nvflare.app_common.ccwf as w\nw.SwarmClientController(memory_gc_rounds=0)\n"
	      "from nvflare.app_common.ccwf import SwarmClientController as C\n"
	      "C(memory_gc_rounds=0)\n",
	 .hits = 3, .line = 6, .severity = WARNING},
	{"NVF-CLI-GC-OFF", CCWF "ccwf.SwarmClientController(memory_gc_rounds=1)\n", .hits = 0},
	{"NVF-CLI-GC-OFF", CCWF "ccwf.other.SwarmClientController(memory_gc_rounds=0)\n",
	 .hits = 0},
	/* numbers and words in strings, which recipes convert and other classes do not */
	{"NVF-SRV-GC-OFF",
	 PT "R(server_memory_gc_rounds='0')\nR(server_memory_gc_rounds=' 0.0 ')\n"
	    "R(server_memory_gc_rounds='5')\nR(server_memory_gc_rounds='0x')\n",
	 .hits = 2, .line = 3, .severity = WARNING},
	{"NVF-CLI-GC-OFF", PT "R(client_memory_gc_rounds='00')\nR(client_memory_gc_rounds='+1')\n",
	 .hits = 1, .line = 2},
	{"NVF-GC-NEVER-FIRES",
	 PT "R(num_rounds='3', server_memory_gc_rounds=5, client_memory_gc_rounds=1)\n"
	    "R(num_rounds='30', server_memory_gc_rounds='5', client_memory_gc_rounds='1')\n",
	 .hits = 1, .line = 2},
	{"NVF-GC-NEVER-FIRES", PT "R(num_rounds='99999999999999999999', " BOTH ")\n", .hits = 0},
	{"NVF-SRV-GC-OFF", JOB "FedAvg(memory_gc_rounds='0')\n", .hits = 0},
	{"NVF-OFFLOAD-NUMPY",
	 PT "R(enable_tensor_disk_offload='Yes', " BOTH ")\n"
	    "R(enable_tensor_disk_offload='off', " BOTH ")\n",
	 .hits = 1, .line = 2, .severity = ERROR},
};

static void rules_fire_however_a_thing_is_reached(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		check_row(&rows[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rules_fire_however_a_thing_is_reached),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
