/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests job files in other forms than .py, .ipynb of today, YAML and scripts: findings that each
 * must have, and near misses. A file that cannot be read is "cannot tell", never silence.
 */
#include "base/cleanup.h"
#include "base/text/buf.h"
#include "launch_rows.h"

#define RECIPE	 "from nvflare.app_opt.pt.recipes.fedavg import FedAvgRecipe\n"
#define OFF	 RECIPE "FedAvgRecipe(num_rounds=9)\n"
#define GOOD	 RECIPE "FedAvgRecipe(num_rounds=9, server_memory_gc_rounds=5)\n"
#define SRV_OFF	 "NVF-SRV-GC-OFF"
#define APPFL	 "APPFL-LAUNCH-CANNOT-TELL"
#define FLOWER	 "FLWR-LAUNCH-CANNOT-TELL"
#define IN_PY	 "APPFL-SET-IN-PYTHON"
#define LOADED	 "NVF-PARTS-ELSEWHERE"
#define ASSIGNED "NVF-SETTING-ASSIGNED"

/* The recipe as lines of JSON. */
#define OFF_LINES                                                              \
	"[\"from nvflare.app_opt.pt.recipes.fedavg import FedAvgRecipe\\n\", " \
	"\"FedAvgRecipe(num_rounds=9)\"]"
#define SHEETS(cells) "{\"nbformat\": 3, \"worksheets\": [{\"cells\": [" cells "]}]}"
#define CELL_3(code)  "{\"cell_type\": \"code\", \"language\": \"python\", \"input\": " code "}"
#define BLOCK(code)   "# Job\n\n```python\n" code "```\n"
#define HEADER	      "---\njupytext:\n  formats: md\nkernelspec:\n  name: python3\n---\n"

static const struct file_row python_rows[] = {
	{"job.pyw", {SRV_OFF, OFF, 1, NULL}},
	{"job.pyw", {SRV_OFF, GOOD, 0, NULL}},
	{"a.pyw", {IN_PY, "import appfl\ncfg.optimize_memory = False\n", 1, NULL}},
	/* notebooks of formats 1 to 3, and of a shell */
	{"a.ipynb", {SRV_OFF, SHEETS(CELL_3(OFF_LINES)), 1, NULL}},
	{"a.ipynb",
	 {SRV_OFF, "{\"worksheets\": [{}, {\"cells\": [" CELL_3(OFF_LINES) "]}]}", 1, NULL}},
	{"a.ipynb",
	 {SRV_OFF,
	  "{\"nbformat\": 1, \"cells\": [{\"cell_type\": \"code\", \"code\": " OFF_LINES "}]}", 1,
	  NULL}},
	{"a.ipynb",
	 {SRV_OFF, SHEETS("{\"cell_type\": \"markdown\", \"source\": " OFF_LINES "}") "\n", 0,
	  NULL}},
	{"a.ipynb",
	 {"NVF-ENVIRON-CANNOT-TELL", SHEETS(CELL_3("\"import nvflare\\n!nvflare simulator j\\n\"")),
	  1, NULL}},
	{"a.ipynb",
	 {"NVF-ENVIRON-CANNOT-TELL",
	  "{\"metadata\": {\"language_info\": {\"name\": \"bash\"}}, \"cells\": "
	  "[{\"cell_type\": \"code\", \"source\": \"nvflare simulator j\"}]}",
	  1, NULL}},
	/* blocks of Markdown */
	{"README.md", {SRV_OFF, BLOCK(OFF), 1, NULL}},
	{"README.md", {SRV_OFF, BLOCK(GOOD), 0, NULL}},
	{"README.md", {SRV_OFF, "~~~~ py\n~~~\n" OFF "~~~~~\n" OFF, 1, NULL}},
	{"README.md", {SRV_OFF, "````python\n```\n" OFF "````\n" OFF, 1, NULL}},
	{"README.md",
	 {SRV_OFF,
	  "1. a\n\n   ```{.python .numberLines}\n   " RECIPE
	  "   FedAvgRecipe(num_rounds=9)\n   ```\n",
	  1, NULL}},
	{"README.md",
	 {SRV_OFF, "```\n>>> " RECIPE ">>> FedAvgRecipe(\n...  num_rounds=9)\nx\n```\n", 1, NULL}},
	{"README.md", {SRV_OFF, "```\nnvflare\nFedAvgRecipe()\n```\n" OFF, 0, NULL}},
	{"README.md",
	 {SRV_OFF, BLOCK(RECIPE "FedAvgRecipe(\n    ...\n    num_rounds=9)\n"), 0, NULL}},
	{"README.md",
	 {"NVF-CANNOT-TELL", BLOCK(RECIPE "FedAvgRecipe(\n    ...\n    num_rounds=9)\n"), 1, NULL}},
	{"README.md", {SRV_OFF, "```yaml\n" OFF "```\n`nvflare`\n", 0, NULL}},
	{"README.md",
	 {"NVF-ENVIRON-CANNOT-TELL", BLOCK(GOOD) "```bash\nnvflare simulator j\n```\n", 0, NULL}},
	{"a.qmd", {SRV_OFF, "---\ntitle: x\n---\n```{python}\n" OFF "```\n", 1, NULL}},
	{"a.qmd", {SRV_OFF, "```{python}\n1\n```\n```python\n" OFF "```\n", 0, NULL}},
	{"a.Rmd", {SRV_OFF, "```{python, echo=FALSE}\n" OFF "```\n", 1, NULL}},
	{"a.md", {SRV_OFF, HEADER "```{code-cell} ipython3\n" OFF "```\n", 1, NULL}},
	{"a.md", {SRV_OFF, HEADER BLOCK(OFF), 1, NULL}},
	{"a.md",
	 {"NVF-ENVIRON-CANNOT-TELL", HEADER "```bash\nnvflare simulator j\n```\n", 1, NULL}},
};

static void python_in_other_files_is_read(void **state)
{
	(void)state;
	assert_true(files_are_right(python_rows, FLMEM_ARRAY_SIZE(python_rows)));
}

#define CONDOR "executable = /usr/bin/python3\narguments = -m "

static const struct file_row unread_rows[] = {
	/* HTCondor */
	{"a.sub",
	 {UNCLEAR, CONDOR "nvflare.private.fed.app.client.client_train -m ws\nqueue\n", 1,
	  "not read"}},
	{"a.submit", {UNCLEAR, "executable = nvflare\narguments = simulator job\n", 1, NULL}},
	{"a.condor", {UNCLEAR, "# nvflare\nexecutable = python3\narguments = job.py\n", 1, NULL}},
	{"a.jdl", {APPFL, CONDOR "appfl.run_grpc_client\nqueue\n", 1, NULL}},
	{"a.htcondor", {FLOWER, "executable = flower-supernode\nqueue\n", 1, NULL}},
	{"a.dag", {UNCLEAR, "JOB A a.sub\nSCRIPT PRE A nvflare simulator j\n", 1, NULL}},
	/* templates of Python and of configurations */
	{"job.py.j2", {UNCLEAR, RECIPE "FedAvgRecipe(num_rounds={{ n }})\n", 1, "not read"}},
	{"job.py.in", {UNCLEAR, "import nvflare\nrun(@N@)\n", 1, NULL}},
	{"job.py.mako", {UNCLEAR, "import nvflare.client as f\n% if a:\n", 1, NULL}},
	{"job.py.tmpl", {UNCLEAR, "# settings from nvflare\n", 0, NULL}},
	{"config_fed_server.json.j2",
	 {UNCLEAR, "{\"path\": \"nvflare.app_common.workflows.fedavg.FedAvg\"}\n", 1, NULL}},
	{"server.yaml.j2", {APPFL, "server_configs:\n  num_clients: {{ n }}\n", 1, NULL}},
	{"run.py.erb", {APPFL, "from appfl.agent import ServerAgent\n", 1, NULL}},
	{"pyproject.toml.j2", {FLOWER, "[tool.flwr.app]\npublisher = \"{{ p }}\"\n", 1, NULL}},
};

static void what_is_not_read_is_a_doubt(void **state)
{
	(void)state;
	assert_true(files_are_right(unread_rows, FLMEM_ARRAY_SIZE(unread_rows)));
}

#define CLIENT_JSON(grpc) \
	"{\"client_id\": \"a\", \"comm_configs\": {\"grpc_configs\": {" grpc "}}}\n"
#define SERVER_TOML(more)                          \
	"[server_configs]\nnum_clients = 2\n" more \
	"[server_configs.comm_configs.grpc_configs]\nserver_uri = \"localhost:1\"\n"
#define OMEGA "from appfl.agent import ServerAgent\ncfg = OmegaConf.load('s.yaml')\n"

static const struct file_row appfl_rows[] = {
	{"c.json", {"APPFL-OPTMEM-OFF", CLIENT_JSON("\"optimize_memory\": false"), 1, NULL}},
	{"c.json", {"APPFL-OPTMEM-OFF", CLIENT_JSON("\"optimize_memory\": true"), 0, NULL}},
	{"s.toml", {"APPFL-OPTMEM-OFF", SERVER_TOML("optimize_memory = false\n"), 1, NULL}},
	{"s.toml", {"APPFL-OPTMEM-OFF", SERVER_TOML(""), 0, NULL}},
	/* entries whose key is a variable */
	{"s.py", {IN_PY, OMEGA "cfg.server_configs[k] = v\n", 1, "known only when it runs"}},
	{"s.py", {IN_PY, OMEGA "cfg['server_configs'][f'{k}'] += v\n", 1, NULL}},
	{"s.py", {IN_PY, OMEGA "setattr(cfg.server_configs, k, v)\n", 1, NULL}},
	{"s.py", {IN_PY, OMEGA "OmegaConf.update(cfg, k, v)\n", 1, NULL}},
	{"s.py", {IN_PY, OMEGA "cfg['a'] = 1\nlosses[k] = 1\nx = cfg[k]\ncfg[k] == 1\n", 0, NULL}},
	{"s.py", {IN_PY, OMEGA "confusion[t, p] += 1\nconf_scores[i] = 1\n", 0, NULL}},
	{"s.py", {IN_PY, OMEGA "cfg[k].name = 1\ncfg[0] = cfg[-1] = 2\nf(cfg[k])\n", 0, NULL}},
};

static void settings_of_appfl_in_other_forms_are_read(void **state)
{
	(void)state;
	assert_true(files_are_right(appfl_rows, FLMEM_ARRAY_SIZE(appfl_rows)));
}

#define FLARE "import pickle\nimport nvflare\n"

static const struct file_row loaded_rows[] = {
	{"go.py", {LOADED, FLARE "job = pickle.load(f)\njob.execute()\n", 1, "it loads"}},
	{"go.py", {LOADED, FLARE "x = pickle.loads(b)\nx.run(env)\n", 1, "it loads"}},
	{"go.py",
	 {LOADED, "import nvflare\nfrom joblib import load\nx = load(f)\nx.export(p)\n", 1,
	  "it loads"}},
	{"go.py", {LOADED, FLARE "pickle.load(f).execute()\n", 1, "it loads"}},
	{"go.py",
	 {LOADED,
	  "import nvflare\nfrom importlib.metadata import entry_points\n"
	  "for e in entry_points(group='j'):\n    e.load()().execute()\n",
	  1, "it loads"}},
	{"go.py", {LOADED, "import dill\nx = dill.load(f)\nx.simulator_run('w')\n", 1, NULL}},
	{"go.py",
	 {LOADED, "import nvflare\nfrom jobs import make\njob = make()\njob.execute()\n", 1,
	  "another file makes"}},
	{"go.py",
	 {LOADED, FLARE "data = pickle.load(f)\ncursor.execute(q)\nm.run(data)\n", 0, NULL}},
	{"go.py",
	 {LOADED, FLARE "job = pickle.load(f)\njob.describe()\nx == pickle.load(f)\n", 0, NULL}},
	{"edit.py",
	 {ASSIGNED,
	  "import json, nvflare\nc = json.load(open('config_fed_server.json'))\n"
	  "c['workflows'][0]['args'][k] = v\njson.dump(c, f)\n",
	  1, "key is a variable"}},
	{"client.py",
	 {ASSIGNED,
	  "import json\nimport nvflare.client as flare\nm = json.load(f)\nm[k] = 1\n"
	  "json.dump(m, f)\n",
	  0, NULL}},
};

static void jobs_that_a_script_loads_or_edits_are_doubts(void **state)
{
	(void)state;
	assert_true(files_are_right(loaded_rows, FLMEM_ARRAY_SIZE(loaded_rows)));
}

static const struct file_row command_rows[] = {
	{"task.json",
	 {UNCLEAR, "{\"a\": [{\"command\": [\"nvflare\", \"simulator\", \"j\"]}]}", 1, NULL}},
	{"task.json", {UNCLEAR, "{\"text\": \"nvflare simulator j\"}", 0, NULL}},
	{"fly.toml", {UNCLEAR, "[processes]\napp = 'nvflare simulator j'\n", 1, NULL}},
	/* lines of a log, and other data, are not problems either */
	{"log.json", {UNCLEAR, "{\"name\": \"nvflare\", \"m\": \"a.py\"}\n{}\n", 0, NULL}},
	{"a.ipy", {UNCLEAR, RECIPE "%run x.py\n", 1, NULL}},
	{"a.R", {UNCLEAR, "r <- import('nvflare.recipe')\n", 1, NULL}},
	{"run.sh",
	 {UNSET, "python3 -mnvflare.private.fed.app.client.client_train -m ws\n", 1, NULL}},
	{"run.sh", {UNCLEAR, "# nvflare\npython3 job.pyw\n", 1, NULL}},
	{"MANIFEST.in", {UNCLEAR, "include nvflare/*.py\n", 0, NULL}},
	/* a text beside the command of Ray */
	{"a.yaml",
	 {UNSET, "spec:\n  entrypoint: nvflare simulator j\n  x: MALLOC_ARENA_MAX=2\n", 0, NULL}},
	{"a.yaml",
	 {UNCLEAR, "spec:\n  entrypoint: nvflare simulator j\n  x: MALLOC_ARENA_MAX=2\n", 1, NULL}},
	{"a.yaml", {UNSET, "spec:\n  entrypoint: nvflare simulator j\n  x: y\n", 1, NULL}},
	{"a.yaml",
	 {UNCLEAR,
	  "s:\n  command: nvflare simulator j\n  environment: {MALLOC_ARENA_MAX: 4}\n"
	  "  x: MALLOC_ARENA_MAX\n",
	  0, NULL}},
	{"MLproject", {UNSET, "entry_points: {main: {command: nvflare simulator j}}\n", 1, NULL}},
	{"circus.ini",
	 {UNSET, "[watcher:a]\ncmd = " CLIENT "[env:a]\nMALLOC_ARENA_MAX = 2\n", 0, NULL}},
	{"circus.ini",
	 {UNCLEAR, "[watcher:a]\ncmd = " CLIENT "[env:a]\nMALLOC_ARENA_MAX = 2\n", 1, NULL}},
	{"Procfile", {UNSET, "a: " CLIENT, 1, NULL}},
	/* variables for batch jobs of other schedulers */
	{"a.sh", {UNSET, "#MSUB -v MALLOC_ARENA_MAX=2\n" CLIENT, 0, NULL}},
	{"a.sh", {UNSET, "#PJM -x MALLOC_ARENA_MAX=2\n" CLIENT, 0, NULL}},
	{"a.sh", {UNSET, "#COBALT --env A=1:MALLOC_ARENA_MAX=2:B=1\n" CLIENT, 0, NULL}},
	{"a.sh", {UNSET, "#COBALT --env A=1:B=1\n" CLIENT, 1, NULL}},
	{"a.sh", {"NVF-ARENA-HIGH", "#COBALT --env MALLOC_ARENA_MAX=9:A=1\n" CLIENT, 1, NULL}},
	{"a.sh", {UNSET, "# flux: --env=MALLOC_ARENA_MAX=2\n" CLIENT, 0, NULL}},
};

static void commands_in_other_files_are_found(void **state)
{
	(void)state;
	assert_true(files_are_right(command_rows, FLMEM_ARRAY_SIZE(command_rows)));
}

/* Returns the number of problems that a folder with this file reports. */
static size_t problems_of(const char *file, const char *text)
{
	struct flmem_recommendations found = {0};
	struct tree tree;
	const char *path = tree.path;
	size_t count = 0;

	tree_init(&tree);
	tree_puts(&tree, file, text);
	assert_int_equal(flmem_recommend(&path, 1, NULL, &found, NULL), 0);
	for (size_t i = 0; i < found.problem_count; i++)
		count += !found.problems[i].warning;
	flmem_recommendations_clear(&found);
	tree_clear(&tree);
	return count;
}

static void only_configurations_have_to_be_readable(void **state)
{
	(void)state;
	assert_int_equal(problems_of("log.json", "{\"a\": \"nvflare a.py\"}\n{}\n"), 0);
	assert_int_equal(problems_of("s.json", "{\"server_configs\": {,}\n"), 1);
	assert_int_equal(problems_of("s.toml", "server_configs = [\n"), 1);
	assert_int_equal(problems_of("s.yaml", "a: 1\n---\nserver_configs: {a: 1}\n"), 1);
	assert_int_equal(problems_of("s.yaml", "a: 1\n---\nb: server_configs\n"), 0);
	assert_int_equal(problems_of("a.ipynb", "{\"nvflare\": 1}\n"), 1);
}

/*
 * JSON without a known name is not searched, unless the user names it: configurations are smaller.
 */
static void data_is_not_searched(void **state)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;

	(void)state;
	flmem_buf_puts(&text, "{\"server_configs\": {,}");
	while (text.length < 1U << 20)
		flmem_buf_putc(&text, ' ');
	assert_int_equal(problems_of("s.json", text.data), 0);
}

static const struct flmem_finding *check_tree(struct tree *tree, const char *path,
					      struct flmem_recommendations *ret_found)
{
	const struct flmem_finding *last;

	tree_puts(tree, "README.md", "Text\n" BLOCK(OFF));
	assert_int_equal(flmem_recommend(&path, 1, NULL, ret_found, NULL), 0);
	assert_int_equal(findings_of(ret_found, SRV_OFF, &last), 1);
	return last;
}

/* Code that nothing runs takes no memory, and says nothing about the job beside it. */
static void code_that_is_only_shown_is_information(void **state)
{
	struct flmem_recommendations found = {0};
	const struct flmem_finding *last;
	struct tree tree;
	char path[512];

	(void)state;
	tree_init(&tree);
	last = check_tree(&tree, tree.path, &found);
	assert_int_equal(last->severity, FLMEM_SEVERITY_INFO);
	assert_int_equal(last->line, 6);
	assert_non_null(found.server_gc_rounds.unknown);
	flmem_recommendations_clear(&found);
	snprintf(path, sizeof(path), "%s/README.md", tree.path);
	last = check_tree(&tree, path, &found);
	assert_int_equal(last->severity, FLMEM_SEVERITY_WARNING);
	assert_null(found.server_gc_rounds.unknown);
	flmem_recommendations_clear(&found);
	tree_clear(&tree);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(python_in_other_files_is_read),
		cmocka_unit_test(what_is_not_read_is_a_doubt),
		cmocka_unit_test(settings_of_appfl_in_other_forms_are_read),
		cmocka_unit_test(jobs_that_a_script_loads_or_edits_are_doubts),
		cmocka_unit_test(commands_in_other_files_are_found),
		cmocka_unit_test(only_configurations_have_to_be_readable),
		cmocka_unit_test(data_is_not_searched),
		cmocka_unit_test(code_that_is_only_shown_is_information),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
