/* SPDX-License-Identifier: Apache-2.0 */
/* Tests what scripts do with their recipes, and with the files of their jobs. */
#include "script_rows.h"

#define RECIPE "r = R(" BOTH ")\n"
#define RUN    "r.execute(env)\n"
#define MADE   "def make(n):\n  q = R(" BOTH ")\n  return q\n"
#define HELD   "class A:\n  def __init__(self):\n    self.recipe = R(" BOTH ")\n"

#define DOUBT(text, hit)                                                                      \
	{                                                                                     \
		"NVF-PARTS-ELSEWHERE", PT text, .hits = 1, .line = (hit), .severity = INFO,   \
						.says = "the recipe is changed, or passed on" \
	}
#define USE(text) DOUBT(RECIPE text "\n" RUN, 3)
#define SILENT(text)                                                      \
	{                                                                 \
		"NVF-PARTS-ELSEWHERE", PT RECIPE text "\n" RUN, .hits = 0 \
	}
#define WRITES(text)                                                                         \
	{                                                                                    \
		"NVF-PARTS-ELSEWHERE", PT RECIPE text "\n",                                  \
			.hits = 1, .severity = INFO,                                         \
			.says = "it names a configuration file of a job, which it may write" \
	}

static const struct row changes[] = {
	/* attributes and methods of a recipe */
	USE("r.run = f"),
	USE("r.train_args = 'x'"),
	USE("r.x: int = 1"),
	USE("r.components['x'].y = 1"),
	USE("r.components.clear()"),
	USE("r.update(x=1)"),
	USE("r.__init__(name='j')"),
	USE("r.__setattr__('run', f)"),
	USE("del r.name"),
	USE("r.__dict__.clear()"),
	USE("d = r.__dict__"),
	USE("vars(r).clear()"),
	USE("d = vars(r)"),
	USE("type(r).run = f"),
	USE("type(r)(name='x')"),
	USE("r.__class__.run = f"),
	USE("getattr(r, name)()"),
	USE("getattr(r, '__dict__').clear()"),
	USE("setattr(r, 'run', f)"),
	USE("r |= x"),
	USE("r[0] = 1"),
	/* a recipe that is passed on */
	USE("mutate(r)"),
	DOUBT(RECIPE "import own\nown.mutate(r)\n", 4),
	DOUBT(RECIPE "from copy import copy\ncopy(r).job.clear()\n", 4),
	USE("mutate(a, *[r])"),
	USE("mutate(x=r)"),
	USE("copy.copy(r).job.clear()"),
	USE("x.append(r)"),
	USE("rs = [r]"),
	USE("d = {'a': r}"),
	USE("d['a'] = r"),
	USE("f = lambda: mutate(r)"),
	USE("f = lambda x=r: x.clear()"),
	USE("f = lambda: r"),
	USE("f = partial(mutate, r)"),
	DOUBT(RECIPE "def f(x=r):\n  x.clear()\n", 4),
	USE("def f(x: R = r): pass"),
	USE("with ctx(r) as x: pass"),
	USE("print(mutate(r))"),
	USE("if x: mutate(r)"),
	USE("async with ctx(r): pass"),
	DOUBT(RECIPE "def f():\n  yield r\n", 4),
	USE("(r or x).clear()"),
	USE("(r).run = f"),
	USE("object.__setattr__(r, 'run', f)"),
	/* another object under the recipe's name */
	USE("r = load()"),
	USE("r = wrap(r)"),
	USE("r = r or load()"),
	USE("r = load() if x else r"),
	USE("r, env = load()"),
	USE("if (r := load()): pass"),
	USE("with load() as r: pass"),
	USE("for r in load(): pass"),
	USE("from own import r"),
	USE("import own as r"),
	/* code in strings */
	USE("exec('r._x = 1')"),
	USE("eval('r.clear()')"),
	USE("compile('r.clear()', 'x', 'exec')"),
	/* other names of a recipe */
	DOUBT(RECIPE "a = b = r\nb.clear()\n", 4),
	DOUBT(RECIPE "a.b = r\na.b.clear()\n", 4),
	DOUBT("x: R = R(" BOTH ")\nmutate(x)\n", 3),
	DOUBT("x = (\n R(" BOTH ")\n)\nmutate(x)\n", 5),
	DOUBT("x = R(" BOTH ") if y else None\nmutate(x)\n", 3),
	DOUBT(HELD "  def f(self):\n    self.recipe.run = g\n", 6),
	DOUBT("mutate(R(" BOTH "))\n", 2),
	DOUBT(RECIPE "def f(x):\n  x.clear()\nf(r)\n", 4),
	DOUBT(RECIPE "def f(a, *, x=1):\n  x.clear()\nf(1, x=r)\n", 4),
	DOUBT(RECIPE "def f(*xs):\n  xs[0].clear()\nf(r)\n", 4),
	DOUBT(RECIPE "def f(**kw):\n  kw['x'].clear()\nf(x=r)\n", 4),
	DOUBT(RECIPE "class A:\n  def f(self, x):\n    x.clear()\nA().f(r)\n", 5),
	DOUBT(RECIPE "class A:\n  def __init__(self, x):\n    self.x = x\n"
		     "  def f(self):\n    self.x.clear()\nA(r)\n",
	      7),
	DOUBT(MADE "x = make(1)\nx.clear()\n", 6),
	DOUBT(MADE "mutate(make(1))\n", 5),
	DOUBT(HELD "  def g(self):\n    return self.recipe\n  def h(self):\n    x = self.g()\n"
		   "    x.clear()\n",
	      9),
	{"NVF-PARTS-ELSEWHERE", PT RECIPE "q = r; q.job.to_clients(x)\n", .hits = 1, .line = 3,
	 .severity = INFO, .says = "the job of a recipe"},
};

static const struct row harmless[] = {
	SILENT("x = r.name.upper()"),
	SILENT("print(r, r.name)\nlogger.info('%s', r)"),
	SILENT("isinstance(r, R)\nx = type(r).__name__\nprint(vars(r))\nx = getattr(r, 'name')"),
	SILENT("assert r is not None, r\nx = r == y\nwhile r: break\nif x and r: pass"),
	SILENT("x = '%s' % r\ny = r.min_clients + 1"),
	SILENT("r.add_client_config({'a': 1})\nr.add_client_file('x')\nr.export('d')"),
	SILENT("r.enable_log_streaming()\nr.enable_tensor_streaming()\nr.finalize()"),
	SILENT("r.set_per_site_config({'site-1': {}})\nr.add_decomposers([D()])"),
	SILENT("r.add_server_output_filter(F(), tasks=['train'])\nx = r.configured_sites()"),
	SILENT("from nvflare.recipe.utils import add_experiment_tracking as t\nt(r, 'mlflow')"),
	SILENT("import nvflare.recipe.utils as u\nu.add_cross_site_evaluation(r)"),
	SILENT("run = r.run(env)\nprint(run.get_status(), run.get_result())"),
	SILENT("f(r.name, a=r.name)\nd = {'n': r.name, 'r': 1}\nf(r='x')\nargs.r = 1"),
	SILENT("f = lambda: r.execute(env)"),
	SILENT("def f(r): return 1\nclass B:\n  def r(self): pass"),
	SILENT("r = None\nr = R(" BOTH ")\nr = R(" BOTH ") if x else R(" BOTH ")"),
	SILENT("def add(x, n):\n  x.add_client_file(n)\n  return x\nr = add(r, 'a')"),
	SILENT("class A:\n  def __init__(self, x):\n    self.x = x\n  def f(self):\n"
	       "    return self.x.execute(env)\nA(r).f()"),
	SILENT("q = r\nq.execute(env)\nwith r: pass\ndel q\nr"),
	SILENT("try:\n  r.execute(env)\nfinally:\n  print(r)"),
	SILENT("'''r.clear()'''\n# r.clear()\nx = 'r.clear()'"),
	SILENT("exec_params = {}\nimport r.utils"),
	{"NVF-PARTS-ELSEWHERE", PT MADE "def main():\n  x = make(1)\n  x.execute(env)\nmain()\n",
	 .hits = 0},
	{"NVF-PARTS-ELSEWHERE", PT HELD "  def f(self):\n    return self.recipe.execute(env)\n",
	 .hits = 0},
	{"NVF-PARTS-ELSEWHERE",
	 PT "def f():\n  r = R(" BOTH ")\n  r.execute(env)\n"
	    "def g():\n  r = load()\n  r.clear()\n",
	 .hits = 0},
	/* reported once, by the rule that knows more */
	{"NVF-PARTS-ELSEWHERE", PT RECIPE "r.client_memory_gc_rounds = 0\n", .hits = 0},
	{"NVF-PARTS-ELSEWHERE", PT RECIPE "setattr(r, 'memory_gc_rounds', 0)\n", .hits = 0},
	{"NVF-PARTS-ELSEWHERE", PT RECIPE "r.job.clear()\nf(r._job)\n", .hits = 2},
	{"NVF-SETTING-ASSIGNED", PT RECIPE "r.client_memory_gc_rounds = 0\n", .hits = 1},
};

static const struct row files[] = {
	WRITES("open('jobs/app/config/config_fed_client.json', 'w').write('{}')"),
	WRITES("json.dump(c, open('config_fed_client.json', mode='w'))"),
	WRITES("open(os.path.join(d, 'config_fed_server.conf'), 'r+')"),
	WRITES("open('config_fed_client.json', mode)"),
	WRITES("shutil.copy('x', 'app/config/config_fed_server.json')"),
	WRITES("os.replace('x', 'config_fed_client.json')"),
	WRITES("Path('config_fed_client.json').write_text('{}')"),
	WRITES("(job / 'config_fed_server.json').open('w').write('x')"),
	WRITES("p = os.path.join(d, 'config_fed_client.json')\nwith open(p, 'w') as f: pass"),
	WRITES("p = Path(d) / 'config_fed_client.json'\nq = p\nq.write_text('{}')"),
	WRITES("for n in ('a', 'config_fed_client.json'):\n  save(n, x)"),
	WRITES("os.system('sed -i s/1/0/ jobs/config_fed_client.json')"),
	WRITES("subprocess.run(['sed', '-i', 's/1/0/', 'config_fed_client.json'])"),
	WRITES("os.system('cat x > config_fed_client.json')"),
	SILENT("c = json.load(open('app/config/config_fed_client.json'))"),
	SILENT("open('config_fed_client.json', 'r', encoding='utf-8')\nopen('x', 'w').write('')"),
	SILENT("c = Path('config_fed_client.json').read_text()\nPath(a, "
	       "'config_fed_x.json').open()"),
	SILENT("p = os.path.join(d, 'config_fed_server.json')\nassert os.path.exists(p)\n"
	       "with open(p) as f:\n  c = json.load(f)\nopen('x', 'w').write('')"),
	SILENT("print('see config_fed_client.json')\nlogger.info('config_fed_client.json')"),
	SILENT("x = name == 'config_fed_client.json'\nif 'config_fed_server.json' in names: pass"),
	SILENT("raise ValueError('config_fed_client.json')"),
	SILENT("'''config_fed_client.json'''\nload_config('config_fed_client.json')"),
	SILENT("shutil.copy('config_fed_client.json', 'backup')\nos.system('cat "
	       "config_fed_x.json')"),
	SILENT("subprocess.run(['cat', 'config_fed_client.json'])"),
};

static const struct row replaced[] = {
	{"NVF-CLASS-PASSED-ON", PT RECIPE "R.execute = f\n", .hits = 1, .line = 3,
	 .says = "is replaced", .severity = INFO},
	{"NVF-CLASS-PASSED-ON",
	 "from nvflare.recipe import Recipe, SimEnv\nRecipe.run = f\n"
	 "SimEnv.deploy = f\nsetattr(Recipe, 'run', f)\n",
	 .hits = 3, .line = 4},
	{"NVF-CLASS-PASSED-ON", "from nvflare.job_config.api import FedJob\nFedJob.to = f\n",
	 .hits = 1},
	{"NVF-CLASS-PASSED-ON",
	 PT "from unittest.mock import patch\npatch('nvflare.recipe.spec.Recipe.run')\n",
	 .hits = 1},
	{"NVF-CLASS-PASSED-ON",
	 "from nvflare.recipe import SimEnv\nself.env = SimEnv\nx.policy = SimEnv.ANY\n"
	 "env = SimEnv()\nenv.extra = 1\n",
	 .hits = 0},
	{"NVF-IMPORTED-BY-NAME",
	 PT RECIPE "import sys\nsys.modules['nvflare'] = x\nsys.modules.pop('nvflare.recipe')\n"
		   "sys.modules.update({'nvflare': x})\ndel sys.modules['nvflare']\n",
	 .hits = 4, .line = 7, .says = "a module of NVFlare is replaced", .severity = INFO},
	{"NVF-IMPORTED-BY-NAME",
	 PT RECIPE "import sys\nx = sys.modules['nvflare']\ny = sys.modules.get('nvflare')\n"
		   "sys.modules['own'] = 1\n",
	 .hits = 0},
	{"NVF-CANNOT-TELL",
	 "from nvflare.app_opt.pt.recipes.cyclic import CyclicRecipe as C\n"
	 "C(num_rounds=9, server_memory_gc_rounds=5, client_memory_gc_rounds=1, "
	 "server_config_overrides={'num_rounds': n})\n",
	 .hits = 1, .says = "fewer than 5 rounds", .severity = INFO},
};

#define CHECK_ROWS(rows)                                            \
	for (size_t i = 0; i < sizeof(rows) / sizeof(*(rows)); i++) \
	check_row(&(rows)[i])

static void changed_recipes_are_doubts(void **state)
{
	(void)state;
	CHECK_ROWS(changes);
}

static void ordinary_uses_are_silent(void **state)
{
	(void)state;
	CHECK_ROWS(harmless);
}

static void written_job_files_are_doubts(void **state)
{
	(void)state;
	CHECK_ROWS(files);
}

static void replaced_parts_are_doubts(void **state)
{
	(void)state;
	CHECK_ROWS(replaced);
}

/* The cells of a notebook are one script: a name of one cell is used in the next. */
static void cells_of_notebooks_are_one_script(void **state)
{
	static const char notebook[] =
		"{\"cells\": [{\"cell_type\": \"code\", \"source\": [\n"
		"\"from nvflare.app_opt.pt.recipes import FedAvgRecipe\\n\",\n"
		"\"r = FedAvgRecipe(" BOTH ")\\n\"]},\n"
		"{\"cell_type\": \"code\", \"source\": [\n\"mutate(r)\\n\"]},\n"
		"{\"cell_type\": \"code\", \"source\": [\n\"r\\n\"]},\n"
		"{\"cell_type\": \"code\", \"source\": [\n\"!sed -i s/1/0/ "
		"config_fed_client.json\"]}\n"
		"], \"metadata\": {}, \"nbformat\": 4, \"nbformat_minor\": 5}\n";
	struct flmem_recommendations found = {0};
	const struct flmem_finding *last;

	(void)state;
	check_script("job.ipynb", notebook, NULL, &found);
	assert_int_equal(findings_of(&found, "NVF-PARTS-ELSEWHERE", &last), 2);
	assert_int_equal(last->line, 9);
	flmem_recommendations_clear(&found);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(changed_recipes_are_doubts),
		cmocka_unit_test(ordinary_uses_are_silent),
		cmocka_unit_test(written_job_files_are_doubts),
		cmocka_unit_test(replaced_parts_are_doubts),
		cmocka_unit_test(cells_of_notebooks_are_one_script),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
