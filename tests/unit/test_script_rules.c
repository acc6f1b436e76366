/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the rules about scripts that offload tensors, configure sites or set variables: more rows.
 */
#include <stdio.h>

#include "script_rows.h"

#include "base/cleanup.h"

#define PATCH "from unittest.mock import patch\n"
#define OS    "import os\nimport subprocess\nimport nvflare\n"
#define LATE  "NVF-ENVIRON-LATE"
#define OPEN  "NVF-ENVIRON-CANNOT-TELL"

#define BY_NAME	  "NVF-IMPORTED-BY-NAME"
#define ELSEWHERE "NVF-PARTS-ELSEWHERE"

static const struct row rows[] = {
	{"NVF-COLLECTOR-OFF", "import gc\nimport nvflare\ngc.disable()\n", .hits = 1, .line = 3,
	 .says = "until something calls gc.collect()", .severity = WARNING},
	{"NVF-COLLECTOR-OFF",
	 "from gc import disable as d, set_threshold\nimport nvflare\nd()\n"
	 "set_threshold(0, 5)\n",
	 .hits = 2, .line = 4, .severity = WARNING},
	{"NVF-COLLECTOR-OFF", "import gc\nimport nvflare\ngc.disable()\ngc.enable()\n", .hits = 1,
	 .says = "cannot tell whether it stays off", .severity = INFO},
	{"NVF-COLLECTOR-OFF", "import gc\nimport nvflare\ngc.set_threshold(n)\n", .hits = 1,
	 .says = "cannot tell", .severity = INFO},
	{"NVF-COLLECTOR-OFF",
	 "import gc\nimport nvflare\ngc.set_threshold(700)\ngc.collect()\n"
	 "x.disable()\n",
	 .hits = 0},
	{"NVF-COLLECTOR-OFF",
	 "import gc\nimport nvflare\ngc.set_threshold(100000000, 50)\n"
	 "gc.set_threshold(50000)\n",
	 .hits = 1, .line = 3, .severity = WARNING},
	{"NVF-ALLOCATOR-CANNOT-TELL",
	 "import ctypes\nimport nvflare\nlibc = ctypes.CDLL('libc.so.6')\nlibc.mallopt(-8, 1)\n"
	 "ctypes.CDLL(None).mallopt(-8, 1)\n",
	 .hits = 2, .line = 5, .says = "cannot tell", .severity = INFO},
	{"NVF-ALLOCATOR-CANNOT-TELL",
	 "import ctypes\nimport nvflare\nctypes.CDLL(None).malloc_trim(0)\n", .hits = 0},
	{"NVF-KEY-IGNORED",
	 PT "r.add_client_config({'tensor_download_chunk': 1, 'download_chunk_size': 2})\n"
	    "r.add_server_config({'np_download_chunk': 1, 'np_download_chunk_size': 1})\n",
	 .hits = 3, .line = 3, .says = "did you mean np_download_chunk_size", .severity = WARNING},
	{OPEN, "from dotenv import load_dotenv\nimport nvflare\nload_dotenv('.env')\n", .hits = 1,
	 .line = 3, .says = "in another file", .severity = INFO},
	{OPEN, "import dotenv\nimport nvflare\ndotenv.load_dotenv()\n", .hits = 1},
	{OPEN, OS "import json\nos.environ.update(json.load(open('e.json')))\n", .hits = 1,
	 .line = 5, .says = "known only when the script runs", .severity = INFO},
	{"NVF-SETTING-ASSIGNED", PT "r = R()\nr.__dict__['cuda_empty_cache'] = 0\nr.x['y'] = 1\n",
	 .hits = 1, .line = 3, .says = "cannot tell", .severity = INFO},
	{"NVF-SETTING-ASSIGNED",
	 PT "e._memory_gc_rounds = 0\nsetattr(e, '_memory_gc_rounds', 0)\n"
	    "vars(e).update(_cuda_empty_cache=1)\nvars(e)['_memory_gc_rounds'] = 0\n",
	 .hits = 4},
	{"NVF-SETTING-ASSIGNED", PT "n = 'memory_gc_rounds'\nsetattr(r, n, 0)\n", .hits = 1,
	 .line = 3, .says = "cannot tell", .severity = INFO},
	{"NVF-SETTING-ASSIGNED", PT "n = 'memory'\nsetattr(r, n, 0)\nR(cuda_empty_cache=0)\n",
	 .hits = 0},
	{"NVF-IMPORTED-BY-NAME", PT "exec('R(cuda_empty_cache=1)')\neval('nvflare.x')\n", .hits = 1,
	 .line = 3, .says = "cannot tell", .severity = INFO},
	{"NVF-IMPORTED-BY-NAME", PT "exec(\"FedAvgRecipe(memory_gc_rounds=1)\")\n", .hits = 1,
	 .line = 2},
	{"NVF-IMPORTED-BY-NAME",
	 "from nvflare.x import FedAvg, y\nimport builtins\neval('FedAvg(num_rounds=3)')\n"
	 "builtins.exec(open('a').read())\nrun = exec\neval(open('a').read())\n"
	 "eval('FedAvgX(yy)')\nf(exec)\n",
	 .hits = 5, .line = 8, .says = "known only when the script runs", .severity = INFO},
	{"NVF-CLI-GC-OFF",
	 "from nv\xef\xac\x82"
	 "are.app_opt.pt.recipes.fedavg import FedAvgRecipe as R\n"
	 "R(server_memory_gc_rounds=1, client_memory_gc_rounds=0)\n",
	 .hits = 1, .line = 2},
	{"NVF-IMPORTED-BY-NAME",
	 "from nvflare.x import FedAvg\ns = 'FedAvg(n)'\neval(s)\nm.eval(s)\nm.exec(s)\n",
	 .hits = 1, .line = 3},
	{"NVF-IMPORTED-BY-NAME",
	 "from nvflare.x import FedAvg\ns = 'FedAvg (n)'\neval(s)\ndef exec(a, eval=1):\n"
	 "  x = eval + 1\nf(exec=1)\n",
	 .hits = 0},
	{"NVF-IMPORTED-BY-NAME", PT "m.eval('nvflare')\nmodel.eval()\neval('1')\n", .hits = 1},
	{"NVF-PARTS-ELSEWHERE", "import nvflare\nfrom .mine import MyRecipe\nr = MyRecipe(x=1)\n",
	 .hits = 1, .line = 3, .says = "a recipe that is not NVFlare's", .severity = INFO},
	{"NVF-PARTS-ELSEWHERE",
	 "from nvflare.app_opt.pt.job_config.fed_avg import FedAvgJob\nFedAvgJob(n, 2, 3)\n",
	 .hits = 1, .line = 2, .says = "no executor or runner", .severity = INFO},
	{"NVF-PARTS-ELSEWHERE",
	 JOB "from nvflare.app_opt.pt.job_config.fed_avg import FedAvgJob\n"
	     "FedAvgJob(n, 2, 3).to(Runner('x'), 'site-1')\n",
	 .hits = 0},
	{"NVF-PARTS-ELSEWHERE",
	 "from nvflare.fuel.flare_api.flare_api import new_secure_session\n"
	 "new_secure_session('a', 'b').submit_job('j')\n",
	 .hits = 1, .line = 2},
	{"NVF-RECIPE-NO-SETTINGS",
	 "from nvflare.edge.tools.et_job import ETJob\n"
	 "from nvflare.job_config.stats_job import StatsJob\n"
	 "from nvflare.app_opt.flower.flower_job import FlowerJob as F\n"
	 "from nvflare.app_common.psi.recipes import DhPSIRecipe\n"
	 "ETJob('x')\nStatsJob('x')\nF('x')\nDhPSIRecipe('x')\n",
	 .hits = 4, .line = 8},
	{"NVF-RECIPE-NO-SETTINGS",
	 "from nvflare.app_opt.xgboost import XGBBaggingRecipe\nXGBBaggingRecipe('x')\n",
	 .hits = 1},
	{"NVF-SRV-GC-OFF",
	 "from nvflare.app_opt.sklearn import SVMFedAvgRecipe\nSVMFedAvgRecipe('x')\n", .hits = 1,
	 .line = 2},
	{"NVF-SRV-GC-OFF",
	 "from nvflare.app_opt.pt.job_config.fed_sag_mlflow import SAGMLFlowJob\n"
	 "SAGMLFlowJob(m, 2, 3)\n",
	 .hits = 0},
	{"NVF-CLEAR-CACHE-FALSE", "import nvflare.client.hf as f\nf.send(m, clear_cache=False)\n",
	 .hits = 1, .line = 2},
	{"NVF-IMPORTED-BY-NAME",
	 "import nvflare\nexec(open('recipe.py').read())\nexec(compile(s, 'a', 'exec'))\n",
	 .hits = 2, .line = 3, .says = "known only when the script runs", .severity = INFO},
	{"NVF-IMPORTED-BY-NAME",
	 "import nvflare\nmodel.eval()\nexec('x = 1')\neval(args.layers)\ncursor.execute(q)\n",
	 .hits = 0},
	{"NVF-CLEAR-CACHE-UNKNOWN",
	 "import nvflare.client as f\nf.send(m, clear_cahce=False)\nf.send(m, clear_cache=True)\n",
	 .hits = 1, .line = 2, .says = "did you mean clear_cache", .severity = INFO},
	{OPEN, OS "subprocess.run('pip install nvflare', shell=True)\n", .hits = 0},
	{LATE, OS "os.environ['MALLOC_ARENA_MAX'] = '2'\n", .hits = 1, .line = 4,
	 .says = "only to processes that the script starts", .severity = WARNING},
	{LATE, "from os import environ as e\nimport nvflare\nif x:\n    e['LD_PRELOAD'] = lib\n",
	 .hits = 1, .line = 4},
	{OPEN, OS "os.environ.pop('MALLOC_ARENA_MAX', None)\nos.unsetenv('LD_PRELOAD')\n",
	 .hits = 2, .line = 5, .says = "lacks it", .severity = INFO},
	{OPEN,
	 OS "del os.environ['MALLOC_ARENA_MAX']\ndel x, os.environ['LD_PRELOAD']\n"
	    "del os.environ[name]\n",
	 .hits = 3, .line = 6, .says = "lacks all", .severity = INFO},
	{OPEN,
	 OS "del os.environ['HOME']\ndel d['MALLOC_ARENA_MAX'], x.y\n"
	    "del os.environ['MALLOC_ARENA_MAX'].x\n",
	 .hits = 0},
	{LATE,
	 OS PATCH "with patch.dict('os.environ', {'MALLOC_ARENA_MAX': '2'}):\n  pass\n"
		  "@patch.dict(os.environ, MALLOC_CONF='x')\ndef f(): pass\n"
		  "patch.dict(os.environ, values={'LD_PRELOAD': ''})\n"
		  "mocker.patch.dict('os.environ', {'GLIBC_TUNABLES': x})\n",
	 .hits = 4, .line = 10, .severity = WARNING},
	{LATE,
	 OS PATCH
	 "patch.dict('os.environ', {'HOME': '2'})\npatch.dict(d, {'MALLOC_ARENA_MAX': '2'})\n"
	 "dict(os.environ, MALLOC_ARENA_MAX='2')\npatch.dict(os.environ)\n",
	 .hits = 0},
	{OPEN, OS PATCH "patch.dict('os.environ', new)\npatch.dict(os.environ, {}, clear=True)\n",
	 .hits = 2, .line = 6, .says = "lacks all", .severity = INFO},
	{OPEN, OS PATCH "patch.dict(os.environ, {'A': '1'}, clear=False)\n", .hits = 0},
	{LATE, OS "monkeypatch.setenv('MALLOC_ARENA_MAX', '2')\nmonkeypatch.setenv('A', '2')\n",
	 .hits = 1, .line = 4},
	{OPEN, OS "monkeypatch.delenv('MALLOC_ARENA_MAX')\nmonkeypatch.delenv(x)\n", .hits = 1,
	 .line = 4, .says = "lacks it", .severity = INFO},
	{OPEN, OS "os.environ.clear()\n", .hits = 1, .line = 4, .says = "lacks all",
	 .severity = INFO},
	{OPEN, OS "os.environ.pop('HOME')\nd.pop('MALLOC_ARENA_MAX')\nd.clear()\n", .hits = 0},
	{LATE, OS "os.environ.pop('MALLOC_ARENA_MAX')\nos.environ.clear()\n", .hits = 0},
	{OPEN,
	 "from nvflare.recipe.fedavg import FedAvgRecipe\nr = FedAvgRecipe(per_site_config={\n"
	 "'a': {'command': 'env MALLOC_ARENA_MAX=0 python3'},\n'b': {'command': 'python3'}})\n",
	 .hits = 1, .line = 3, .says = "a command for clients", .severity = INFO},
	{OPEN,
	 "from nvflare.recipe.utils import set_per_site_config as s\n"
	 "s(r, {'a': {'command': 'MALLOC_ARENA_MAX=0 python3'}})\n",
	 .hits = 1, .line = 2},
	{LATE, OS "os.environ.setdefault('MALLOC_CONF', 'x')\nos.putenv('GLIBC_TUNABLES', x)\n",
	 .hits = 2, .line = 5},
	{LATE,
	 OS "os.environ.update({'A': '1',\n 'MALLOC_ARENA_MAX': '2'})\n"
	    "os.environ.update(MALLOC_ARENA_MAX='2')\n",
	 .hits = 2, .line = 6},
	{LATE,
	 OS "x = os.environ['MALLOC_ARENA_MAX']\nif os.environ['MALLOC_ARENA_MAX'] == '2':\n"
	    "    pass\nos.environ.get('MALLOC_ARENA_MAX', '2')\n"
	    "os.environ['PATH'] = 'MALLOC_ARENA_MAX'\nd['MALLOC_ARENA_MAX'] = '2'\n",
	 .hits = 0},
	{LATE, OS "os.environ['MALLOC_ARENA_MAX'] = '2'\nos.execv(a, b)\n", .hits = 1,
	 .says = "cannot tell whether os.exec() follows", .severity = INFO},
	{OPEN, OS "os.environ['MALLOC_ARENA_MAX'] = '2'\nos.execv('/bin/a', b)\n", .hits = 0},
	{OPEN, OS "os.environ['NVFLARE_CLIENT_MEMORY_GC_ROUNDS'] = '2'\n", .hits = 1, .line = 4,
	 .says = "cannot tell which process", .severity = INFO},
	{OPEN, OS "os.environ['TMPDIR'] = '/dev/shm'\n", .hits = 0},
	{OPEN, OS PT "R(enable_tensor_disk_offload=True)\nos.environ['TMPDIR'] = '/dev/shm'\n",
	 .hits = 1, .line = 6},
	{OPEN, OS "subprocess.run(['c'], env={**os.environ, 'MALLOC_ARENA_MAX': '2'})\n", .hits = 1,
	 .line = 4, .says = "a process that the script starts", .severity = INFO},
	{OPEN, OS "subprocess.Popen(['c'], env=dict(os.environ, LD_PRELOAD=l))\n", .hits = 1},
	{OPEN, OS "env = os.environ.copy()\nenv['MALLOC_ARENA_MAX'] = '0'\n", .hits = 1, .line = 5,
	 .says = "for a process that the script starts", .severity = INFO},
	{OPEN,
	 OS "e = {**os.environ,\n 'MALLOC_ARENA_MAX': '0'}\nf = dict(e, LD_PRELOAD=l)\n"
	    "subprocess.run(['c'], env=e)\n",
	 .hits = 2, .line = 6},
	{OPEN, OS "e = {'MALLOC_ARENA_MAX': '0'}\nprint(e['MALLOC_ARENA_MAX'])\n", .hits = 0},
	{OPEN, OS "subprocess.Popen(['c'], env={'A': 'MALLOC_ARENA_MAX'})\n", .hits = 0},
	{OPEN, OS "subprocess.run(['nvflare', 'simulator', 'job'])\n", .hits = 1, .line = 4,
	 .says = "starts NVFlare, or sets variables, by a command", .severity = INFO},
	{OPEN, OS "os.system('nvflare simulator job')\nos.system('ls')\n", .hits = 1, .line = 4},
	{OPEN, OS "subprocess.run([sys.executable, '-u', 'other.py'], check=True)\n", .hits = 1,
	 .line = 4, .says = "another file of Python", .severity = INFO},
	{OPEN, OS "os.system('python other.py')\nsubprocess.run(['ls', 'other.py'])\n", .hits = 1,
	 .line = 4},
	{OPEN, OS "os.system('python job.py')\n", .hits = 0},
	{OPEN, OS "n = 'MALLOC_ARENA_MAX'\nos.environ[n] = '2'\n", .hits = 1, .line = 5,
	 .says = "known only when the script runs", .severity = INFO},
	{OPEN, OS "n = 'A'\nos.environ[n] = '2'\nos.environ.update(n)\nx = os.environ[n]\n",
	 .hits = 2, .line = 6, .says = "known only when the script runs", .severity = INFO},
	{OPEN,
	 OS "s = {'MALLOC_ARENA_MAX': '2'}\nos.environ.update(s)\nos.environ.update(**s)\n"
	    "os.environ |= s\nos.environ.update(f'MALLOC')\n",
	 .hits = 4, .line = 8},
	{OPEN, OS "os.environ['A' + 'B'] = x(\n", .hits = 1},
	/* programs that are variables */
	{OPEN, OS "subprocess.run(command)\nos.system(line)\nos.execvp(c[0], c)\n", .hits = 3,
	 .line = 6, .says = "the command is known only when", .severity = INFO},
	{OPEN, OS "subprocess.Popen(args=shlex.split(c))\nsubprocess.call([tool, 'x'])\n",
	 .hits = 2},
	{OPEN, OS "subprocess.run(f'{tool} -n 2', shell=True)\nos.popen('$TOOL x')\n", .hits = 2},
	{OPEN, OS "subprocess.run(['python3', job])\nsubprocess.run([sys.executable, job])\n",
	 .hits = 2, .line = 5},
	{OPEN, OS "subprocess.run(*words)\n", .hits = 1},
	{OPEN,
	 OS "subprocess.run(['git', 'log', x])\nsubprocess.run(f'mkdir {x}', shell=True)\n"
	    "subprocess.run([sys.executable, '-m', 'pip', 'install', x])\n"
	    "subprocess.run([\n 'nvidia-smi', '-i', x])\nos.system('python3 -V')\n"
	    "raise subprocess.CalledProcessError(c, x)\nos.path.join(a, b)\n",
	 .hits = 0},
	{OPEN, PT "R('n', command='MALLOC_ARENA_MAX=0 python3 -u')\n", .hits = 1, .line = 2,
	 .says = "a command for clients sets variables", .severity = INFO},
	{OPEN, PT "R('n', command='python3 -u')\n", .hits = 0},
	{OPEN, PT "R('n', command=f'env MALLOC_ARENA_MAX={n} python3 -u')\n", .hits = 1, .line = 2,
	 .says = "a command for clients sets variables", .severity = INFO},
	{OPEN, PT "R('n', command=f'python{n} -u', name='MALLOC_ARENA_MAX')\n", .hits = 0},
	{OPEN, "from nvflare.cli import main\nmain()\n", .hits = 1, .line = 2},
	/* names in strings */
	{BY_NAME,
	 "import pkgutil, pydoc\npkgutil.resolve_name('nvflare.recipe.fedavg:FedAvgRecipe')()\n"
	 "pydoc.locate(name)\n",
	 .hits = 2, .line = 3, .says = "the name is known only when", .severity = INFO},
	{BY_NAME,
	 "from hydra.utils import instantiate\n"
	 "instantiate({'_target_': 'nvflare.app_opt.pt.recipes.fedavg.FedAvgRecipe'})\n"
	 "instantiate(c.recipe)\n",
	 .hits = 2},
	{BY_NAME,
	 "import sys\nimport nvflare\nsys.modules['nvflare.app_opt.pt.recipes.fedavg'].R()\n",
	 .hits = 1, .line = 3, .says = "its name is in a string", .severity = INFO},
	{BY_NAME, "import importlib.util as u, nvflare\nu.spec_from_file_location('r', 'r.py')\n",
	 .hits = 1, .says = "another file is run", .severity = INFO},
	{BY_NAME,
	 "import importlib\nimportlib.import_module('nvflare.app_opt.pt.recipes.fedavg')\n"
	 "__import__('nvflare.recipe.fedavg.FedAvgRecipe')\n",
	 .hits = 2},
	{BY_NAME,
	 "import logging, nvflare\nlogging.getLogger('nvflare.app_common.workflows.fedavg')\n"
	 "x = 'nvflare.private.fed', 'model.pt', 'torch.nn.Linear', 'see nvflare.x.FedAvg'\n"
	 "# 'nvflare.recipe.fedavg.FedAvgRecipe'\n",
	 .hits = 0},
	/* recipes that another file makes */
	{ELSEWHERE, "import nvflare\nimport pickle\nmy_recipe = pickle.load(f)\nmy_recipe.run(e)\n",
	 .hits = 1, .line = 4, .says = "it runs a job that it loads", .severity = INFO},
	{ELSEWHERE, "import nvflare\nfrom recipes_here import build\nbuild().export('j')\n",
	 .hits = 1, .line = 3},
	{ELSEWHERE, "import nvflare\nfrom recipes_here import build\nx.walk()\n", .hits = 0},
	{ELSEWHERE, "import nvflare\ncursor.execute(q)\npool.run(f)\n", .hits = 0},
	{ELSEWHERE, PT "recipe = R('n')\nrecipe.run(e)\n", .hits = 0},
	{"NVF-COLLECTOR-OFF",
	 "import gc\nimport nvflare\ngetattr(gc, 'disable')()\nrun(gc.disable)\n", .hits = 2,
	 .line = 4, .says = "cannot tell whether it is called", .severity = INFO},
	{"NVF-COLLECTOR-OFF", "import gc\nimport nvflare\nrun(gc, gc.collect)\n", .hits = 0},
	/* objects that exist then are never collected, whatever calls gc.collect() */
	{"NVF-COLLECTOR-OFF", "import gc\nimport nvflare\nrun(gc)\nx.freeze()\n", .hits = 1},
	{"NVF-COLLECTOR-OFF", "import gc\nimport nvflare\nx = [gc]\nx[0].set_threshold(0)\n",
	 .hits = 1},
	{"NVF-COLLECTOR-OFF", "import gc\nimport nvflare\nrun(gc.set_threshold)\n", .hits = 1},
	{"NVF-COLLECTOR-OFF", "import gc\nimport nvflare\ngc.disable.__call__()\n", .hits = 1},
	{"NVF-COLLECTOR-OFF", "import gc\nimport nvflare\ngc.disable.__doc__.strip()\n", .hits = 0},
	{"NVF-COLLECTOR-OFF", "import gc\nimport nvflare\ngc.collect()\ngc.freeze()\n", .hits = 1,
	 .line = 4, .says = "cannot tell what", .severity = INFO},
	{"NVF-COLLECTOR-OFF", "from gc import freeze\nimport nvflare\natexit.register(freeze)\n",
	 .hits = 1, .line = 3, .says = "passed on", .severity = INFO},
	{"NVF-COLLECTOR-OFF",
	 "import gc\nimport nvflare\ngc.unfreeze()\nprint(gc.get_freeze_count())\nm.freeze()\n",
	 .hits = 0},
	{"NVF-CUDA-MISSING",
	 PT "from nvflare.recipe import PocEnv as P\nr = R('n', " BOTH ")\n"
	    "r.run(P(gpu_ids=[0]))\n",
	 .hits = 1},
	{"NVF-CUDA-MISSING",
	 PT "from nvflare.recipe import PocEnv as P\nr = R('n', " BOTH ")\n"
	    "r.run(P(gpu_ids=[]))\nP(gpu_ids=None)\n",
	 .hits = 0},
	{"NVF-OFFLOAD-NUMPY", JOB "FedAvg(enable_tensor_disk_offload=1)\nRunner('t.py')\n",
	 .hits = 1, .line = 4},
	{"NVF-OFFLOAD-NUMPY", JOB "FedAvg(enable_tensor_disk_offload='no')\nRunner('t.py')\n",
	 .hits = 1, .line = 4},
	{"NVF-OFFLOAD-NUMPY", PT "R('n', enable_tensor_disk_offload='no')\n", .hits = 0},
	{"NVF-CANNOT-TELL",
	 JOB "FedAvg(memory_gc_rounds=1, enable_tensor_disk_offload=True)\n"
	     "Runner('t.py', memory_gc_rounds=1,\n server_expected_format=f)\n",
	 .hits = 1, .line = 5, .says = "only tensors of PyTorch", .severity = INFO},
	{"NVF-CANNOT-TELL",
	 JOB "FedAvg(memory_gc_rounds=1)\n"
	     "Runner('t.py', memory_gc_rounds=1, server_expected_format=f)\n",
	 .hits = 0},
	{"NVF-OFFLOAD-SITE",
	 PT "R(enable_tensor_disk_offload=True, server_expected_format='pytorch',\n"
	    " per_site_config={'a': {'server_expected_format': 'numpy'}, 'b': {}})\n",
	 .hits = 1, .line = 3, .says = "no effect", .severity = WARNING, .proposed = "\"pytorch\""},
	{"NVF-OFFLOAD-SITE",
	 PT "from nvflare.recipe import set_per_site_config as s\n"
	    "r = R(enable_tensor_disk_offload=True, server_expected_format='pytorch')\n"
	    "s(r, {'a': {'server_expected_format': 'pytorch'},\n"
	    "  'b': {'server_expected_format': 'raw'}})\n",
	 .hits = 1, .line = 5},
	{"NVF-OFFLOAD-SITE",
	 PT FORMATS "r = R(enable_tensor_disk_offload=True, server_expected_format='pytorch')\n"
		    "r.set_per_site_config({'a': {'server_expected_format': E.PYTORCH},\n"
		    "  'b': {'server_expected_format': E.NUMPY}})\n",
	 .hits = 1, .line = 5},
	{"NVF-OFFLOAD-SITE",
	 PT "R(enable_tensor_disk_offload=True, server_expected_format='pytorch',\n"
	    " per_site_config={'a': {'server_expected_format': f}})\n",
	 .hits = 1, .line = 3, .says = "cannot tell", .severity = INFO},
	{"NVF-OFFLOAD-SITE",
	 PT "R(enable_tensor_disk_offload=True, server_expected_format='pytorch',\n"
	    " per_site_config={'a': a,\n 'b': {**b}, 'c': {'server_expected_format': None}})\n",
	 .hits = 2, .line = 4, .says = "cannot tell", .severity = INFO},
	{"NVF-OFFLOAD-SITE",
	 PT "R(enable_tensor_disk_offload=True, server_expected_format='pytorch',\n"
	    " per_site_config=sites)\n",
	 .hits = 1, .line = 3, .says = "cannot tell", .severity = INFO},
	{"NVF-OFFLOAD-SITE",
	 PT "R(per_site_config={'a': {'server_expected_format': 'numpy'}})\n"
	    "R(enable_tensor_disk_offload=False, per_site_config=sites)\n",
	 .hits = 0},
	{"NVF-PER-SITE-IGNORED", PT "R(per_site_config={'a': site,\n 'b': {**more}})\n", .hits = 2,
	 .line = 3, .says = "cannot tell whether", .severity = INFO},
	{"NVF-SWARM-TRAIN-ARGS",
	 SWARM "R('n', m, 3, 't.py', 2, train_args={'server_expected_format': f,\n"
	       " 'aggregation_format': f})\n",
	 .hits = 2, .line = 3, .says = "rejects", .severity = ERROR},
};

static void rules_fire_where_they_should_and_nowhere_else(void **state)
{
	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++)
		check_row(&rows[i]);
}

#define CELL(text) "{\"cell_type\": \"code\", \"source\": \"" text "\"}"

static const struct {
	const char *cell, *rule;
	size_t hits;
} cells[] = {
	{"%time r = R(client_memory_gc_rounds=0)", "NVF-CLI-GC-OFF", 1},
	{"%%time\\nR(client_memory_gc_rounds=0)", "NVF-CLI-GC-OFF", 1},
	{"%timer R(client_memory_gc_rounds=0)", "NVF-CLI-GC-OFF", 0},
	{"!nvflare simulator job", OPEN, 1},
	{"x = 1\\nif x:\\n  !nvflare simulator job", OPEN, 1},
	{"%%bash\\ncd x\\nnvflare simulator job", OPEN, 1},
	{"%%html\\nnvflare simulator job", OPEN, 0},
	{"!pip install nvflare", OPEN, 0},
	{"%%bash\\nexport MALLOC_ARENA_MAX=0\\npython3 job.py", OPEN, 2},
	{"!python3 hello/run.py --export", OPEN, 1},
	{"! cd x && {sys.executable} -u run.py", OPEN, 1},
	{"%%sh\\ntorchrun --nproc_per_node 2 client.py", OPEN, 1},
	{"!python3 -m pip install x", OPEN, 0},
	{"!cat run.py; python3 -V", OPEN, 0},
	{"!python3 job.ipynb; cp job.py x", OPEN, 0},
	{"!nvflare job create -j j -f config_fed_server.conf memory_gc_rounds=0", OPEN, 1},
	{"!nvflare job submit -j j", OPEN, 1},
	{"!nvflare poc start", OPEN, 1},
	{"!bash site-1/startup/start.sh", OPEN, 1},
	{"%sx nvflare simulator job", OPEN, 1},
	{"!!nvflare simulator job", OPEN, 1},
	{"out = !nvflare simulator job", OPEN, 1},
	{"out = %system nvflare simulator job", OPEN, 1},
	{"get_ipython().system('nvflare simulator job')", OPEN, 1},
	{"%%writefile run.sh\\nnvflare simulator job", OPEN, 1},
	{"%%file run.sh\\nnvflare simulator job", OPEN, 1},
	{"%%file run.txt\\nnvflare simulator job", OPEN, 0},
	{"%%file job.py\\nfrom nvflare.recipe.fedavg import FedAvgRecipe\\nFedAvgRecipe(**x)",
	 "NVF-CANNOT-TELL", 1},
	{"%alias sim nvflare simulator job\\nsim", OPEN, 1},
	{"%alias_magic sh system\\n%sh nvflare simulator job", OPEN, 1},
	{"%alias_magic sh system\\n%shelf nvflare simulator job", OPEN, 0},
	{"%alias_magic -l go run\\n%go job.py", "NVF-IMPORTED-BY-NAME", 1},
	{"%alias_magic t timeit\\nfrom nvflare.recipe.fedavg import FedAvgRecipe\\n%t "
	 "FedAvgRecipe(**x)",
	 "NVF-CANNOT-TELL", 1},
	{"%alias_magic a b\\n%alias_magic b a\\n%a nvflare simulator job", OPEN, 0},
	{"%rehashx\\nnvflare simulator job", OPEN, 1},
	{"%rehashx\\n%nvflare simulator job", OPEN, 1},
	{"nvflare simulator job", OPEN, 0},
	{"%rehashx\\nnvflare = simulator", OPEN, 0},
	{"%run job.py --rounds 3", "NVF-IMPORTED-BY-NAME", 1},
	{"get_ipython().run_line_magic('run', 'job.py')", "NVF-IMPORTED-BY-NAME", 1},
	{"x = a != b\\ny = a % b", "NVF-IMPORTED-BY-NAME", 0},
	{"%dotenv", OPEN, 1},
	{"%dotenv -o x.env", OPEN, 1},
	{"%dotenvs x", OPEN, 0},
	{"!{command}", OPEN, 1},
	{"!$command -n 2", OPEN, 1},
	{"!echo {command}", OPEN, 0},
	{"%env MALLOC_ARENA_MAX=2", LATE, 1},
	{"%set_env MALLOC_ARENA_MAX 2", LATE, 1},
	{"%env MALLOC_ARENA_MAX", LATE, 0},
	{"%env PATH=MALLOC_ARENA_MAX", LATE, 0},
	{"!echo {R(client_memory_gc_rounds=0)}", "NVF-CLI-GC-OFF", 1},
	{"x = !ls {R(client_memory_gc_rounds=0).export('x}')} | cat", "NVF-CLI-GC-OFF", 1},
	{"!!echo 1 \\\\\\n {R(client_memory_gc_rounds=0)}", "NVF-CLI-GC-OFF", 1},
	{"%cd {R(client_memory_gc_rounds=0).export('x')}", "NVF-CLI-GC-OFF", 1},
	{"%env X={R(client_memory_gc_rounds=0).name}", "NVF-CLI-GC-OFF", 1},
	{"!echo {{R(client_memory_gc_rounds=0)}}", "NVF-CLI-GC-OFF", 0},
	{"!awk '{print f($1}'", "NVF-CLI-GC-OFF", 0},
	{"%%bash\\necho {R(client_memory_gc_rounds=0)}", "NVF-CLI-GC-OFF", 0},
	{"%lprun -f f R(client_memory_gc_rounds=0)", "NVF-CLI-GC-OFF", 1},
	{"%px R(client_memory_gc_rounds=0)", "NVF-CLI-GC-OFF", 1},
	{"a, b = !nvflare simulator job", OPEN, 1},
	{"x['a='] = !nvflare simulator job", OPEN, 1},
	{"self.x = %sx nvflare simulator job", OPEN, 1},
	{"x = f(a = 1, b == 2) # = !nvflare simulator job", OPEN, 0},
	{"%%sx\\nnvflare simulator job", OPEN, 1},
	{"%%zsh\\nnvflare simulator job", OPEN, 1},
	{"%shell nvflare simulator job", OPEN, 1},
	{"%%writefile {name}\\nR(client_memory_gc_rounds=0)", "NVF-CLI-GC-OFF", 1},
	{"%%writefile job\\nR(client_memory_gc_rounds=0)", "NVF-CLI-GC-OFF", 1},
	{"%%writefile job.txt\\nR(client_memory_gc_rounds=0)", "NVF-CLI-GC-OFF", 0},
	{"!echo 'import nvflare; R = FedAvgRecipe()' > job.py", OPEN, 1},
	{"!echo 'FedAvgRecipe() is slow' > notes.txt", OPEN, 0},
	{"get_ipython().run_cell('R(client_memory_gc_rounds=0)')", "NVF-IMPORTED-BY-NAME", 1},
	{"get_ipython().run_line_magic('time', 'FedAvgRecipe()')", "NVF-IMPORTED-BY-NAME", 1},
	{"get_ipython().run_cell('x = 1')", "NVF-IMPORTED-BY-NAME", 0},
	{"get_ipython().ex('R(client_memory_gc_rounds=0)')", "NVF-IMPORTED-BY-NAME", 1},
	{"InteractiveConsole().push('R(client_memory_gc_rounds=0)')", "NVF-IMPORTED-BY-NAME", 1},
	{"client.push('nvflare.safetensors')", "NVF-IMPORTED-BY-NAME", 0},
	{"%matplotlib inline\\nR(client_memory_gc_rounds=0)", "NVF-CLI-GC-OFF", 1},
};

/* IPython runs some lines itself: Python after %time, commands of the shell, %env. */
static void commands_of_notebooks_are_read(void **state)
{
	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(cells); i++) {
		struct flmem_recommendations found = {0};
		const struct flmem_finding *last;
		char text[512];

		snprintf(text, sizeof(text),
			 "{\"cells\": [%s,\n{\"cell_type\": \"code\", "
			 "\"source\": \"%s\"}], \"nbformat\": 4}",
			 CELL("from nvflare.recipe import FedAvgRecipe as R"), cells[i].cell);
		check_script("job.ipynb", text, NULL, &found);
		if (findings_of(&found, cells[i].rule, &last) != cells[i].hits)
			fail_msg("not %zu findings %s on: %s", cells[i].hits, cells[i].rule,
				 cells[i].cell);
		if (last)
			assert_int_equal(last->line, 2);
		flmem_recommendations_clear(&found);
	}
}

/* An unread part of a text is a finding where it may matter. */
static void long_texts_are_not_passed_over(void **state)
{
	static const char *const ends[] = {"nvflare simulator job", "export MALLOC_ARENA_MAX=x",
					   "echo done"};
	static char text[20000];

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(ends); i++) {
		struct flmem_recommendations found = {0};
		const struct flmem_finding *last;

		snprintf(text, sizeof(text),
			 "from nvflare.recipe import FedAvgRecipe\nscript = '''%018000d\n%s\n'''\n",
			 0, ends[i]);
		check_script("job.py", text, NULL, &found);
		assert_int_equal(findings_of(&found, OPEN, &last), i < 2);
		flmem_recommendations_clear(&found);
	}
}

/* Hydra makes objects of maps; the file lacks the values that the command line overrides. */
static void classes_that_yaml_names_are_findings(void **state)
{
	static const struct {
		const char *text;
		size_t hits;
	} cases[] = {
		{"recipe:\n  _target_: nvflare.app_opt.pt.recipes.fedavg.FedAvgRecipe\n"
		 "  server_memory_gc_rounds: 0\n",
		 1},
		{"a: [{_target_: nvflare.recipe.fedavg.FedAvgRecipe}, {b: {_target_: "
		 "nvflare.app_common.workflows.fedavg.FedAvg}}]\n",
		 2},
		{"model: {_target_: torch.nn.Linear}\nnote: nvflare.recipe.fedavg.FedAvgRecipe\n",
		 0},
		{"model: {_target_: nvflare.apis.fl_constant.FLContextKey}\n", 0},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(cases); i++) {
		struct flmem_recommendations found = {0};
		const struct flmem_finding *last;
		struct tree tree;
		const char *path;

		tree_init(&tree);
		path = tree.path;
		tree_puts(&tree, "conf.yaml", cases[i].text);
		tree_puts(&tree, "job.py", "import nvflare\n");
		assert_int_equal(flmem_recommend(&path, 1, NULL, &found, NULL), 0);
		if (findings_of(&found, BY_NAME, &last) != cases[i].hits)
			fail_msg("not %zu findings on: %s", cases[i].hits, cases[i].text);
		flmem_recommendations_clear(&found);
		tree_clear(&tree);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rules_fire_where_they_should_and_nowhere_else),
		cmocka_unit_test(commands_of_notebooks_are_read),
		cmocka_unit_test(long_texts_are_not_passed_over),
		cmocka_unit_test(classes_that_yaml_names_are_findings),
	};

	return cmocka_run_group_tests_name("script_rules", tests, NULL, NULL);
}
