/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests scripts that replace NVFlare's cleanup, the data that its clients send, and custom recipes.
 */
#include <stdio.h>

#include "script_rows.h"

#include "base/cleanup.h"

#define REPLACED "NVF-CLEANUP-REPLACED"
#define KEPT	 "NVF-CLEAR-CACHE-FALSE"
#define UNKNOWN	 "NVF-CLEAR-CACHE-UNKNOWN"
#define PARTS	 "NVF-PARTS-ELSEWHERE"
#define PASSED	 "NVF-CLASS-PASSED-ON"

#define SAG                                                                                      \
	"from nvflare.app_common.workflows.scatter_and_gather import ScatterAndGather as Base\n" \
	"class Mine(Base):\n"
#define API                                                                            \
	"from nvflare.client.in_process.api import InProcessClientAPI as Base\nclass " \
	"Mine(Base):\n"
#define HOOK "  def _maybe_cleanup_memory(self):\n"
#define SYS  "import sys, nvflare\n"
#define UTIL "import nvflare.fuel.utils.memory_utils as mu\n"

static const struct row replaced[] = {
	/* a method of NVFlare's classes */
	{REPLACED, SAG HOOK "    pass\n", .hits = 1, .line = 3,
	 .says = "runs instead of NVFlare's own cleanup", .severity = WARNING},
	{REPLACED, API HOOK "    return None\n", .hits = 1, .line = 3, .severity = WARNING},
	{REPLACED, SAG "  async def _maybe_cleanup_memory(self): pass\n", .hits = 1, .line = 3},
	{REPLACED,
	 "from nvflare.app_common.ccwf.swarm_client_ctl import SwarmClientController as S\n"
	 "class Mine(S):\n  def _cleanup_learn_task_memory(self):\n    self.log('x')\n",
	 .hits = 1, .line = 3, .severity = WARNING, .says = "has no effect"},
	{REPLACED, SAG "  def f(self):\n    pass\n\n" HOOK "\n    print(1)\n", .hits = 1,
	 .line = 6},
	{REPLACED, SAG "  if x:\n    def _maybe_cleanup_memory(self):\n      pass\n", .hits = 1,
	 .line = 4, .severity = WARNING, .says = "has no effect"},
	{REPLACED, SAG "# note\n\n" HOOK "    pass\n", .hits = 1, .line = 5, .severity = WARNING},
	{REPLACED, SAG "  class Meta:\n    pass\n" HOOK "    pass\n", .hits = 1, .line = 5,
	 .severity = WARNING, .says = "has no effect"},
	{REPLACED, SAG "  _maybe_cleanup_memory = lambda self: None\n", .hits = 1, .line = 3,
	 .severity = WARNING, .says = "has no effect"},
	{REPLACED, SAG "  def __init__(self):\n    self._maybe_cleanup_memory = lambda: None\n",
	 .hits = 1, .line = 4, .severity = WARNING, .says = "has no effect"},
	/* one that cleans up, at times of its own */
	{REPLACED, SAG HOOK "    super()._maybe_cleanup_memory()\n", .hits = 1, .severity = INFO,
	 .says = "cannot tell when it cleans up"},
	{REPLACED, SAG HOOK "    if self.x:\n      gc.collect()\n", .hits = 1, .severity = INFO,
	 .says = "cannot tell when it cleans up"},
	{REPLACED, SAG "  _maybe_cleanup_memory = other\n", .hits = 1, .severity = INFO,
	 .says = "cannot tell what it does"},
	/* of a class that may be mixed in */
	{REPLACED, "import nvflare\nclass NoCleanup:\n" HOOK "    pass\n", .hits = 1,
	 .severity = INFO, .says = "cannot tell whether a class of NVFlare's gets it"},
	{REPLACED, "import nvflare\nfrom mine import B\nclass A(B):\n" HOOK "    pass\n", .hits = 1,
	 .severity = INFO, .says = "cannot tell whether a class of NVFlare's gets it"},
	/* a function that is deleted, or whose module is another one */
	{REPLACED, "import nvflare, gc\ndel gc.collect\n", .hits = 1, .line = 2, .severity = INFO,
	 .says = "it is deleted"},
	{REPLACED,
	 UTIL "del mu.cleanup_memory, mu.try_malloc_trim\ndelattr(mu, 'cleanup_memory')\n",
	 .hits = 3, .line = 3, .severity = INFO, .says = "it is deleted"},
	{REPLACED, UTIL "import gc\ndel gc, mu\ndel gc.garbage[:]\ndelattr(mu, 'x')\n", .hits = 0},
	{REPLACED, UTIL "from gc import collect\ndel collect\ncollect = 1\n", .hits = 0},
	{REPLACED, SYS "sys.modules['nvflare.fuel.utils.memory_utils'] = Fake()\n", .hits = 1,
	 .line = 2, .severity = INFO, .says = "cannot tell what it does"},
	{REPLACED,
	 SYS "sys.modules.update({'nvflare.fuel.utils.memory_utils': m})\n"
	     "monkeypatch.setitem(sys.modules, 'nvflare.fuel.utils.memory_utils', m)\n"
	     "patch.dict('sys.modules', {'nvflare.fuel.utils.memory_utils': m})\n"
	     "sys.modules[\"nvflare.fuel.utils.memory_utils\"].cleanup_memory = f\n",
	 .hits = 4, .line = 5, .severity = INFO},
	{REPLACED, SYS "sys.modules['gc'] = Fake()\n", .hits = 1, .severity = INFO},
	{REPLACED, SYS "import nvflare.fuel.utils.memory_utils\nsys.modules[name] = Fake()\n",
	 .hits = 1, .line = 3, .severity = INFO},
	{REPLACED, SYS "sys.modules[name] = Fake()\nsys.modules['mine'] = Fake()\n", .hits = 0},
	{REPLACED,
	 SYS "import logging\nlogging.getLogger('nvflare.fuel.utils.memory_utils')\n"
	     "x = 'nvflare.fuel.utils.memory_utils' in sys.modules\n",
	 .hits = 0},
	/* and what replaces none */
	{REPLACED, SAG "  def cleanup_memory(self):\n    pass\n", .hits = 0},
	{REPLACED, SAG "  def run(self):\n    self._maybe_cleanup_memory()\n", .hits = 0},
	{REPLACED, "import nvflare\ndef _maybe_cleanup_memory(self):\n  pass\n", .hits = 0},
	{REPLACED,
	 "from nvflare.app_common.workflows.model_controller import ModelController\n"
	 "class A(ModelController):\n" HOOK "    pass\n",
	 .hits = 0},
	{REPLACED, SAG "  '''\n  def _maybe_cleanup_memory(self): pass\n  '''\n", .hits = 0},

	/* the function that all of them call */
	{REPLACED, UTIL "mu.cleanup_memory = lambda *a, **k: None\n", .hits = 1, .line = 2,
	 .says = "has no effect", .severity = WARNING},
	{REPLACED,
	 "from nvflare.fuel.utils import memory_utils\nmemory_utils.cleanup_memory = None\n",
	 .hits = 1, .line = 2, .severity = WARNING, .says = "has no effect"},
	{REPLACED,
	 "import nvflare.fuel.utils.memory_utils\nfrom unittest.mock import Mock\n"
	 "nvflare.fuel.utils.memory_utils.cleanup_memory = Mock()\n",
	 .hits = 1, .line = 3, .severity = WARNING, .says = "has no effect"},
	{REPLACED, UTIL "def f(x=0):\n  print(x)\nmu.cleanup_memory = f\n", .hits = 1, .line = 4,
	 .severity = WARNING, .says = "has no effect"},
	{REPLACED, UTIL "def f(x=0):\n  gc.collect()\nmu.cleanup_memory = f\n", .hits = 1,
	 .severity = INFO, .says = "cannot tell when it cleans up"},
	{REPLACED, UTIL "mu.cleanup_memory = other.f\n", .hits = 1, .severity = INFO,
	 .says = "cannot tell what it does"},
	{REPLACED, UTIL "mu.try_malloc_trim = lambda: None\nmu.get_allocator_type = f\n", .hits = 2,
	 .line = 3},
	{REPLACED, "import nvflare.app_common.workflows.base_fedavg as b\nb.cleanup_memory = f\n",
	 .hits = 1},
	{REPLACED, "import torch, nvflare\ntorch.cuda.empty_cache = lambda: None\n", .hits = 1,
	 .line = 2, .severity = WARNING, .says = "has no effect"},
	{REPLACED, "import torch, nvflare\nsetattr(torch.cuda, 'empty_cache', f)\n", .hits = 1},
	{REPLACED, "import torch, nvflare\ntorch.cuda.empty_cache()\nx.empty_cache = 1\n",
	 .hits = 0},
	{REPLACED, "import gc, nvflare\ngc.collect = lambda *a: 0\n", .hits = 1, .line = 2,
	 .severity = WARNING, .says = "has no effect"},
	{REPLACED,
	 "from nvflare.app_common.workflows.fedavg import FedAvg\n"
	 "FedAvg._maybe_cleanup_memory = lambda s: None\n",
	 .hits = 1, .line = 2, .severity = WARNING, .says = "has no effect"},
	{REPLACED, "import nvflare\nctl._maybe_cleanup_memory = lambda: None\n", .hits = 1,
	 .severity = WARNING, .says = "has no effect"},
	{REPLACED, UTIL "setattr(mu, 'cleanup_memory', lambda *a: None)\n", .hits = 1, .line = 2,
	 .severity = WARNING, .says = "has no effect"},
	{REPLACED, UTIL "monkeypatch.setattr(mu, 'cleanup_memory', f)\n", .hits = 1, .line = 2,
	 .severity = INFO, .says = "cannot tell what it does"},
	{REPLACED, "import nvflare\nsetattr(ctl, '_maybe_cleanup_memory', f)\n", .hits = 1,
	 .line = 2},
	{REPLACED,
	 "import nvflare\nfrom unittest import mock\n"
	 "with mock.patch('nvflare.fuel.utils.memory_utils.cleanup_memory'):\n  pass\n",
	 .hits = 1, .line = 3, .severity = INFO, .says = "cannot tell how long"},
	{REPLACED,
	 UTIL "from unittest import mock\nmock.patch.object(mu, 'cleanup_memory').start()\n",
	 .hits = 1, .line = 3, .severity = INFO, .says = "cannot tell how long"},
	{REPLACED,
	 "import nvflare\nType = type('T', (B,), {'_maybe_cleanup_memory': lambda s: None})\n",
	 .hits = 1, .line = 2},
	{REPLACED, UTIL "mu.__dict__['cleanup_memory'] = f\n", .hits = 1, .line = 2},
	/* other objects and names */
	{REPLACED, "import nvflare\nargs.cleanup_memory = False\n", .hits = 0},
	{REPLACED, "import nvflare\nself.cleanup_memory = True\ncfg.collect = 1\n", .hits = 0},
	{REPLACED,
	 "from nvflare.fuel.utils.memory_utils import cleanup_memory\ncleanup_memory = None\n",
	 .hits = 0},
	{REPLACED,
	 "from nvflare.fuel.utils.memory_utils import cleanup_memory\ncleanup_memory()\n"
	 "x = cleanup_memory\nif mu.cleanup_memory == x: pass\n",
	 .hits = 0},
	{REPLACED, UTIL "mu.cleanup_memory(cuda_empty_cache=True)\nf(mu.cleanup_memory)\n",
	 .hits = 0},
	{REPLACED, "import gc, nvflare\ngc.collect()\ngc.callbacks = []\n", .hits = 0},
	{REPLACED, "import nvflare\nsetattr(args, 'cleanup_memory', 1)\n", .hits = 0},
	{REPLACED, "import nvflare\nd = {'cleanup_memory': 1}\n", .hits = 0},
	{REPLACED,
	 "import nvflare, json\nd['cleanup_memory'] = 1\nprint('nvflare.fuel.cleanup_memory')\n",
	 .hits = 0},
};

#define IN_PROCESS "from nvflare.client.in_process.api import InProcessClientAPI\n"

static const struct row sends[] = {
	{KEPT, IN_PROCESS "api = InProcessClientAPI(m, 't')\napi.send(x, False)\n", .hits = 1,
	 .line = 3, .proposed = "True"},
	{KEPT, IN_PROCESS "api = InProcessClientAPI(m, 't')\napi.send(x, 0)\napi.send(x, None)\n",
	 .hits = 2, .line = 4},
	{KEPT, IN_PROCESS "api = InProcessClientAPI(m, 't')\napi.send(x, clear_cache=False)\n",
	 .hits = 1},
	{KEPT, IN_PROCESS "api = InProcessClientAPI(m)\napi.send(x, True)\napi.send(x)\n",
	 .hits = 0},
	{UNKNOWN,
	 IN_PROCESS "api = InProcessClientAPI(m)\napi.send(x, keep)\napi.send(x, **k)\n"
		    "api.send(*a)\n",
	 .hits = 3, .line = 5},
	{KEPT, IN_PROCESS "self._c = InProcessClientAPI(m)\nself._c.send(x, 0)\n", .hits = 1,
	 .line = 3},
	{KEPT, IN_PROCESS "def f(a: InProcessClientAPI, s):\n  a.send(x, 0)\n", .hits = 1,
	 .line = 3},
	{KEPT, IN_PROCESS "InProcessClientAPI(m).send(x, 0)\n", .hits = 1, .line = 2},
	{KEPT, IN_PROCESS "InProcessClientAPI.send(a, x, False)\n", .hits = 1, .line = 2},
	{KEPT, IN_PROCESS "InProcessClientAPI.send(a, x)\nInProcessClientAPI.send(a, 0)\n",
	 .hits = 0},
	{KEPT,
	 IN_PROCESS "class A(InProcessClientAPI):\n  def f(self, x):\n    self.send(x, False)\n"
		    "    super().send(x, False)\n",
	 .hits = 2, .line = 5},
	{KEPT,
	 "from nvflare.client.in_process.api import InProcessClientAPI as C\n"
	 "c: C = C(m)\nc.send(x, 0)\n",
	 .hits = 1, .line = 3},
	{KEPT,
	 "from nvflare.client.cell.api import CellClientAPI\nc = CellClientAPI(m)\nc.send(x, 0)\n",
	 .hits = 1, .line = 3},
	{KEPT,
	 "from nvflare.client.ex_process.api import ExProcessClientAPI\n"
	 "c = ExProcessClientAPI(m)\nc.send(x, 0)\n",
	 .hits = 1, .line = 3},
	{KEPT,
	 "from nvflare.client.api_spec import APISpec\ndef f(a: APISpec):\n  a.send(x, False)\n",
	 .hits = 1, .line = 3},
	{KEPT,
	 "import nvflare.client.in_process.api as i\na = i.InProcessClientAPI(m)\na.send(x, 0)\n",
	 .hits = 1, .line = 3},
	{KEPT, "import nvflare.client as flare\nctx = flare.init()\nctx.api.send(x, False)\n",
	 .hits = 1, .line = 3},
	{KEPT, "import nvflare.client as flare\nflare.init().api.send(x, False)\n", .hits = 1,
	 .line = 2},
	{KEPT, "import nvflare.client\ndef f(api):\n  api.send(x, False)\n", .hits = 1, .line = 3},
	{KEPT, IN_PROCESS "c = make()\nc.send(x, False)\n", .hits = 1, .line = 3},
	/* what else sends */
	{KEPT, IN_PROCESS "s = socket()\ns.send(b'x', 0)\nq.send(x, None)\n", .hits = 0},
	{KEPT, "import nvflare.client\ns.send(b'x', 0)\nq.send(x, False)\n", .hits = 0},
	{KEPT, "import nvflare.client\nself.rest_api.send(x, 0)\nmyapi.send(x, 0)\n", .hits = 0},
	{KEPT, IN_PROCESS "api = InProcessClientAPI(m)\napis.send(x, 0)\nx_api.send(y, 0)\n",
	 .hits = 0},
	{UNKNOWN, IN_PROCESS "s = socket()\ns.send(x, flags)\nreceive(api=s)\n", .hits = 0},
};

#define SPEC	"from nvflare.recipe.spec import Recipe\n"
#define OWN_JOB "from nvflare.job_config.api import FedJob\n"

static const struct row recipes[] = {
	{PARTS, SPEC "class Mine(Recipe):\n  pass\n", .hits = 1, .line = 2,
	 .says = "cannot tell: settings of the job are made elsewhere, or by a class of its own",
	 .severity = INFO},
	{PARTS, SPEC "class Mine(Recipe):\n  pass\nMine().run(env)\n", .hits = 1, .line = 2},
	{PARTS,
	 SPEC "from nvflare.recipe import SimEnv\nclass Mine(Recipe):\n  pass\n"
	      "Mine().execute(SimEnv())\n",
	 .hits = 1, .line = 3},
	{PARTS, "import nvflare.recipe.spec as s\nclass Mine(A, s.Recipe):\n  pass\n", .hits = 1,
	 .line = 2},
	{PARTS, SPEC "r = Recipe(job)\n", .hits = 1, .line = 2},
	{"NVF-CANNOT-TELL", SPEC "r = Recipe(job)\n", .hits = 0},
	{PARTS, SPEC OWN_JOB "class Mine(Recipe):\n  def __init__(self):\n    FedJob()\n",
	 .hits = 1, .line = 3, .says = "no recipe, workflow or executor in it", .severity = INFO},
	{PARTS, JOB SPEC "class Mine(Recipe):\n  def __init__(self):\n    FedAvg()\n", .hits = 1,
	 .says = "no executor or runner in it", .severity = INFO},
	{PARTS, OWN_JOB "class Mine(FedJob):\n  pass\n", .hits = 1, .line = 2},
	{PARTS,
	 "from nvflare.app_opt.pt.job_config.base_fed_job import BaseFedJob\n"
	 "class Mine(BaseFedJob):\n  pass\n",
	 .hits = 1, .line = 2},
	/* settings that are in the file are checked there */
	{PARTS,
	 JOB SPEC "class Mine(Recipe):\n  def __init__(self):\n    FedAvg()\n    Runner('x')\n",
	 .hits = 0},
	{PARTS,
	 JOB OWN_JOB "class Mine(FedJob):\n  def __init__(self):\n    FedAvg()\n"
		     "    Runner('x')\n",
	 .hits = 0},
	{PARTS, PT SPEC "def f(r: Recipe):\n  isinstance(r, Recipe)\nR()\n", .hits = 0},
	{PARTS, SPEC "def f(r: Recipe) -> Recipe:\n  return isinstance(r, Recipe)\n", .hits = 0},
	{PARTS, PT "class Mine(R):\n  pass\n", .hits = 0},
	{PARTS, "import nvflare\nfrom mine import Recipe\nclass A(Recipe):\n  pass\n", .hits = 0},
	{PARTS, "from nvflare.recipe import SimEnv\nclass Mine(SimEnv):\n  pass\n", .hits = 0},
	/* recipes that flmem does not know, or whose settings are in a part of them */
	{PASSED, "from nvflare.a.b import NewRecipe\nclass Mine(NewRecipe):\n  pass\n", .hits = 1,
	 .line = 2, .says = "cannot tell", .severity = INFO},
	{PASSED, BASE "class Mine(B):\n  pass\n", .hits = 1, .line = 2},
	{PASSED, SPEC "class Mine(Recipe):\n  pass\n", .hits = 0},
	{PASSED,
	 "from nvflare.recipe.fedstats import FedStatsRecipe\nclass A(FedStatsRecipe): pass\n",
	 .hits = 1, .line = 2, .says = "a class inherits from it", .severity = INFO},
};

static void check_rows(const struct row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++)
		check_row(&rows[i]);
}

static void a_cleanup_that_is_replaced_is_a_finding(void **state)
{
	(void)state;
	check_rows(replaced, FLMEM_ARRAY_SIZE(replaced));
}

static void sends_of_client_apis_are_known_by_their_objects(void **state)
{
	(void)state;
	check_rows(sends, FLMEM_ARRAY_SIZE(sends));
}

static void recipes_of_ones_own_are_findings(void **state)
{
	(void)state;
	check_rows(recipes, FLMEM_ARRAY_SIZE(recipes));
}

/* A cell replaces it, with the line of the file. */
static void a_notebook_may_replace_the_cleanup(void **state)
{
	static const char text[] =
		"{\"cells\": [{\"cell_type\": \"code\", \"source\": \"import nvflare\"},\n"
		"{\"cell_type\": \"code\", \"source\": \"from nvflare.client.api_spec import "
		"APISpec\\nclass A(APISpec):\\n  def _maybe_cleanup_memory(self):\\n    pass\"}],\n"
		"\"nbformat\": 4}";
	struct flmem_recommendations found = {0};
	const struct flmem_finding *last;

	(void)state;
	check_script("job.ipynb", text, NULL, &found);
	assert_int_equal(findings_of(&found, REPLACED, &last), 1);
	assert_int_equal(last->line, 2);
	assert_int_equal(last->severity, WARNING);
	flmem_recommendations_clear(&found);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_cleanup_that_is_replaced_is_a_finding),
		cmocka_unit_test(sends_of_client_apis_are_known_by_their_objects),
		cmocka_unit_test(recipes_of_ones_own_are_findings),
		cmocka_unit_test(a_notebook_may_replace_the_cleanup),
	};

	return cmocka_run_group_tests_name("cleanup_rules", tests, NULL, NULL);
}
