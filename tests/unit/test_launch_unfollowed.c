/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests starts of a federation in ways that flmem does not follow, and files that only seem to
 * start one.
 */
#include "launch_rows.h"

#include "base/cleanup.h"
#include "base/text/buf.h"

#define FLOWER	"FLWR-LAUNCH-CANNOT-TELL"
#define ENVIRON "NVF-ENVIRON-CANNOT-TELL"
#define APPFL	"APPFL-LAUNCH-CANNOT-TELL"
#define WRITES	"this writes a file that is not read"
#define KIT	"cd ~/nvflare_poc\n"
#define JOB	"changes the configuration of a job"
#define OTHERS	"another program runs it"

#define NOTEBOOK(code)                                                                      \
	"{\"cells\": [{\"cell_type\": \"code\", \"source\": \"" code "\"}], \"metadata\": " \
	"{}, \"nbformat\": 4, \"nbformat_minor\": 5}\n"
#define NEXT	"\"}, {\"cell_type\": \"code\", \"source\": \"" /* the next cell of a notebook */
#define PROJECT "[tool.flwr.federations.local]\\noptions.num-supernodes = 10"

#define POD(lists) \
	"kind: Pod\nspec:\n  containers:\n  - name: a\n    image: python:3.11\n    " lists "\n"

static const struct file_row rows[] = {
	/* Flower's command line, called from Python */
	{"a.py", {FLOWER, "from flwr.cli.app import app\napp(['run', '.'])\n", 1, NULL}},
	{"a.py", {FLOWER, "import flwr.cli.app\nflwr.cli.app.app(['run', '.'])\n", 1, NULL}},
	{"a.py", {FLOWER, "from flwr.cli import app\napp.app()\n", 1, NULL}},
	{"a.py",
	 {FLOWER, "from flwr.cli.app import app\nCliRunner().invoke(app, ['run', '.'])\n", 1,
	  NULL}},
	{"a.py",
	 {FLOWER, "import runpy\nrunpy.run_module('flwr.cli.app', {}, '__main__')\n", 1, NULL}},
	{"a.py",
	 {FLOWER, "import runpy\nrunpy.run_module(mod_name='flwr.simulation.app')\n", 1, NULL}},
	{"a.py", {FLOWER, "from flwr.superlink.cli import flower_superlink as f\nf()\n", 1, NULL}},
	{"a.py", {FLOWER, "from flwr.server.app import run_superlink\nrun_superlink()\n", 1, NULL}},
	{"a.py", {FLOWER, "from flwr.cli.utils import request\nrequest()\n", 0, NULL}},
	{"a.py", {FLOWER, "import runpy\nrunpy.run_module('flwrs.app')\n'flwr'\n", 0, NULL}},
	{"a.py", {ENVIRON, "import sys\nfrom nvflare.cli import main\nmain()\n", 1, NULL}},
	{"a.py", {APPFL, "import runpy\nrunpy.run_module('appfl.run_grpc_server')\n", 1, NULL}},

	/* files that a notebook writes */
	{"a.ipynb", {FLOWER, NOTEBOOK("%%writefile pyproject.toml\\n" PROJECT), 1, WRITES}},
	{"a.ipynb", {FLOWER, NOTEBOOK("%%file app/pyproject.toml\\n" PROJECT), 1, WRITES}},
	{"a.ipynb",
	 {FLOWER,
	  NOTEBOOK("import flwr\\n!flwr run ." NEXT "%%writefile -a pyproject.toml \\n" PROJECT), 2,
	  NULL}},
	{"a.ipynb",
	 {ENVIRON,
	  NOTEBOOK("%%writefile config_fed_server.json\\n{\\\"workflows\\\": [{\\\"path\\\": "
		   "\\\"nvflare.app_common.workflows.fedavg.FedAvg\\\"}]}"),
	  1, WRITES}},
	{"a.ipynb",
	 {ENVIRON,
	  NOTEBOOK("from nvflare.app_opt.pt.recipes import FedAvgRecipe\\nFedAvgRecipe()" NEXT
		   "%%writefile c.conf\\npath = \\\"nvflare.x.Y\\\""),
	  1, WRITES}},
	{"a.ipynb", {APPFL, NOTEBOOK("%%writefile s.yaml\\nserver_configs:\\n  a: 1"), 1, NULL}},
	{"a.ipynb",
	 {FLOWER, NOTEBOOK("%%writefile pyproject.toml\\n[tool.black]\\n# flwr"), 0, NULL}},
	{"a.ipynb", {FLOWER, NOTEBOOK("%%writefile README.md\\n" PROJECT), 0, NULL}},
	/* lines of a text are not commands of IPython */
	{"a.ipynb",
	 {FLOWER, NOTEBOOK("import flwr\\nx = '''\\n!flwr run .\\n%d items'''\\n!flwr run ."), 1,
	  NULL}},

	/* programs that find a start script and run it */
	{"a.sh", {UNCLEAR, KIT "find . -name start.sh -exec bash {} \\;\n", 1, OTHERS}},
	{"a.sh", {UNCLEAR, KIT "find . -name '*start.sh' -execdir {} +\n", 1, OTHERS}},
	{"a.sh", {UNCLEAR, KIT "find . -name start.sh | xargs -n1 bash\n", 1, OTHERS}},
	{"a.sh", {UNCLEAR, KIT "ls | xargs -I{} bash {}/start.sh\n", 1, OTHERS}},
	{"a.sh", {UNCLEAR, KIT "parallel {}/start.sh ::: a b\n", 1, OTHERS}},
	{"a.sh", {UNCLEAR, "ls -d ws/*/startup/start.sh | parallel\n", 1, OTHERS}},
	{"a.sh", {UNCLEAR, KIT "fd sub_start.sh ws -x bash\n", 1, OTHERS}},
	{"a.sh", {UNCLEAR, KIT "find . -name start.sh -print\nls start.sh\n", 0, NULL}},
	{"a.sh", {UNCLEAR, "find . -name start.sh -exec bash {} \\;\n", 0, NULL}},
	{"a.sh", {UNCLEAR, KIT "find . -name restart.shx -exec bash {} \\;\n", 0, NULL}},

	{"a.sh", {UNCLEAR, "find /w -name sub_start.sh -exec bash {} \\;\n", 1, OTHERS}},

	/* programs that another command finds, or that code starts */
	{"a.sh", {UNSET, "$(which nvflare) simulator job\n", 1, NULL}},
	{"a.sh", {UNSET, "\"$(command -v nvflare)\" simulator job\n", 1, NULL}},
	{"a.sh", {UNSET, "`which nvflare` simulator job\n", 1, NULL}},
	{"a.sh", {UNSET, "which nvflare; echo $(which nvflare) simulator\n", 0, NULL}},
	{"a.sh", {UNCLEAR, "python3 -c 'from nvflare.cli import main; main()'\n", 1, NULL}},
	{"a.sh", {FLOWER, "python3 -c 'from flwr.cli.app import app; app()'\n", 1, NULL}},

	/* commands that change a job */
	{"a.sh",
	 {UNCLEAR, SET "nvflare simulator j\nsed -i s/1/0/ j/config_fed_server.json\n", 1, JOB}},
	{"a.sh",
	 {UNCLEAR, SET "nvflare simulator j\njq .a=1 x >j/config_fed_client.json\n", 1, JOB}},
	{"a.sh",
	 {UNCLEAR,
	  SET "nvflare simulator j\n# sed -i config_fed_server\ncat config_fed_server.json\n", 0,
	  NULL}},
	{"a.py",
	 {ENVIRON,
	  "import os, nvflare\nos.system('sed -i s/1/0/ j/config_fed_server.json')\n"
	  "from nvflare.app_opt.pt.recipes import FedAvgRecipe\nFedAvgRecipe()\n",
	  1, JOB}},

	/* containers that end a program, or search for one */
	{"a.yaml",
	 {UNSET, POD("command: [kill, '1']\n    args: [nvflare, simulator, job]"), 0, NULL}},
	{"a.yaml",
	 {UNCLEAR, POD("command: [pkill, -f]\n    args: ['nvflare simulator']"), 0, NULL}},
	{"a.yaml", {UNSET, POD("command: pgrep -f\n    args: [nvflare, simulator]"), 0, NULL}},
	{"a.yaml", {UNSET, POD("entrypoint: [grep]\n    command: nvflare simulator job"), 0, NULL}},
	{"a.yaml", {UNSET, POD("command: [nvflare]\n    args: [simulator, job]"), 1, NULL}},
	{"a.yaml",
	 {UNSET, POD("command: [bash, -c]\n    args: ['nvflare simulator job']"), 1, NULL}},
};

static void test_rows(void **state)
{
	(void)state;
	assert_true(files_are_right(rows, FLMEM_ARRAY_SIZE(rows)));
}

/* With more starts than flmem keeps, it reports that some are not shown. */
static void test_more_than_is_kept(void **state)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;

	(void)state;
	for (int i = 0; i < 100; i++)
		flmem_buf_puts(&text, "flower-superlink --insecure\n");
	assert_true(row_is_right("a.sh", &(struct row){FLOWER, text.data, 65, NULL}));
	flmem_buf_clear(&text);
	flmem_buf_puts(&text, "import subprocess\n");
	for (int i = 0; i < 100; i++)
		flmem_buf_puts(&text, "subprocess.run(['flwr', 'run', '.'])\n");
	assert_true(row_is_right("a.py", &(struct row){FLOWER, text.data, 65, NULL}));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_more_than_is_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
