/* SPDX-License-Identifier: Apache-2.0 */
/* Tests files and code of Python that scripts run. */
#include "launch_rows.h"

#include "base/cleanup.h"
#include "base/text/buf.h"

#define SIM    "from nvflare.recipe import SimEnv; r.execute(SimEnv(num_clients=2))"
#define RUNNER "from nvflare import SimulatorRunner as S; nvflare.SimulatorRunner(j).run()"

static const struct row scripts[] = {
	/* code that runs a whole federation */
	{UNSET, "python3 -c '" SIM "'\n", 1, NULL},
	{UNCLEAR, "python3 -c '" SIM "'\n", 1, "it runs Python"},
	{UNSET, SET "python3 -c \"" SIM "\"\n", 0, NULL},
	{UNSET, "python3 -c '" SIM "'\n" SET, 1, "line 2 sets it where it does not reach"},
	{UNSET, "MALLOC_ARENA_MAX=4 python3 -c '" SIM "'\n", 0, NULL},
	{UNSET, SET "env -i python3 -c '" SIM "'\n", 1, "env -i drops it"},
	{UNSET, "python3 -c '\n" SIM "\n'\n" SET, 1, "line 4 sets it"},
	{UNSET, "python3 -uc '" SIM "'\n", 1, NULL},
	{UNSET, "python3 -u -c '" RUNNER "'\n", 1, NULL},
	{UNSET, "$PYTHON -c 'import nvflare as n; n.job.simulator_run(\"/tmp\")'\n", 1, NULL},
	{UNSET, "# nvflare\npython3 -c 'job.simulator_run(\"/tmp\")'\n", 1, NULL},
	{UNSET, "# flwr\npython3 -c 'job.simulator_run(\"/tmp\")'\n", 0, NULL},
	{UNSET, "srun python3 -c '" SIM "'\nnohup uv run python -c '" SIM "'\n", 2, NULL},
	{UNSET, "bash -c 'python3 -c \"" SIM "\"'\n", 1, NULL},
	{UNSET, "python3 - <<E\n" SIM "\nE\n" SET, 1, "line 4 sets it"},
	{UNSET, "python3 <<'E'\n" SIM "\nE\n", 1, NULL},
	{UNCLEAR, "python3 <<'E'\n" SIM "\nE\n", 1, "it runs Python"},
	{UNSET, SET "python3 <<E\n" SIM "\nE\n", 0, NULL},
	{UNCLEAR, "# nvflare\npython3 -c 'import runpy; runpy.run_path(\"a.py\")'\n", 1, NULL},
	{"APPFL-LAUNCH-CANNOT-TELL", "python3 -m appfl.run_server\n", 1, NULL},
	{"FLWR-LAUNCH-CANNOT-TELL", "python3 -m flwr.cli.app run .\n", 1, NULL},
	{"FLWR-LAUNCH-CANNOT-TELL", "exec python3 -u -m flwr.server.app\n", 1, NULL},
	{UNCLEAR, "python3 -m nvflare.lighter.provision -p p.yml\n", 0, NULL},
	{"FLWR-LAUNCH-CANNOT-TELL",
	 "python3 -c 'from flwr.simulation import run_simulation; run_simulation(a, b)'\n", 1,
	 NULL},
	{UNSET, "python3 -c 'from flwr.simulation import run_simulation; run_simulation(a, b)'\n",
	 0, NULL},
	{UNSET, "python3 -c 'import nvflare; print(nvflare.__version__)'\n", 0, NULL},
	{UNCLEAR, "python3 -c 'import nvflare; print(nvflare.__version__)'\n", 0, NULL},
	{UNSET, "echo 'from nvflare.recipe import SimEnv; SimEnv(1)'\npython3 -V\n", 0, NULL},
	{UNSET, "# nvflare\npython3 job.py -c 'SimEnv(1)'\n", 0, NULL},
	{UNSET, "python3 <<E\nprint(1)\nE\ncat <<E >x.txt\n" SIM "\nE\n", 0, NULL},
	{UNSET, "# nvflare\nperl -c 'SimEnv(1)'\n", 0, NULL},

	/* variables in front of the file: values of options, and options */
	{UNCLEAR, "# nvflare\npython3 $OPTS a.py\n", 1, NULL},
	{UNCLEAR, "# nvflare\ntorchrun --nproc_per_node $N a.py\n", 1, NULL},
	{UNCLEAR, "# nvflare\ntorchrun $OPTS\n", 1, NULL},
	{UNCLEAR, "# nvflare\ntorchrun \"${ARGS[@]}\"\n", 1, NULL},
	{UNCLEAR, "# nvflare\npython3 \"$1\" a.py\n", 1, NULL},
	{UNCLEAR, "# nvflare\ntorchrun --version\naccelerate config\naccelerate env\n", 0, NULL},
	{UNCLEAR, "# nvflare\npip install torchrun\ncoverage report a.py\n", 0, NULL},
	{UNCLEAR, "# nvflare\npython3 -m torch.distributed.launch --nproc_per_node=2 a.py\n", 1,
	 NULL},
	{UNCLEAR, "# nvflare\npython3 -m pytest -q tests\npython3 -m mypy b.py\n", 0, NULL},
	{UNCLEAR, "# nvflare\npython3 -m pytest a.py\npytest b.py\n", 2, NULL},
	{UNCLEAR,
	 "# nvflare\npapermill a.ipynb out.ipynb\njupyter execute b.ipynb\n"
	 "jupyter nbconvert --to notebook --execute c.ipynb\n",
	 3, NULL},
	{UNCLEAR, "# nvflare\njupyter nbconvert --to html a.ipynb\njupyter lab b.ipynb\n", 0, NULL},
	{UNCLEAR, "# nvflare\npytest tests -k client\necho client.py::a\n", 0, NULL},
	{UNCLEAR, "# nvflare\ntorchrun -m jobs.a\naccelerate launch -m jobs.b\n", 2, NULL},
};

#define CODE "    command: [python3, -c, '" SIM "']\n"

static const struct file_row files[] = {
	{"compose.yaml", {UNSET, "services:\n  a:\n" CODE, 1, NULL}},
	{"compose.yaml", {UNCLEAR, "services:\n  a:\n" CODE, 1, NULL}},
	{"compose.yaml",
	 {UNSET, "services:\n  a:\n" CODE "    environment: {MALLOC_ARENA_MAX: 4}\n", 0, NULL}},
	{"compose.yaml", {UNSET, "services:\n  a:\n    command: python3 -c '" SIM "'\n", 1, NULL}},
	{"compose.yaml", {UNSET, "services:\n  a:\n    command: [echo, '" SIM "']\n", 0, NULL}},
	{"Dockerfile", {UNSET, "FROM a\nCMD [\"python3\", \"-c\", \"" SIM "\"]\n", 1, NULL}},
	{"Dockerfile", {UNSET, "FROM a\nRUN python3 -c \"" SIM "\"\nCMD ls\n", 0, NULL}},
	{"fl.service", {UNSET, "[Service]\nExecStart=/bin/python3 -c \"" SIM "\"\n", 1, NULL}},
	{"ci.yml",
	 {UNCLEAR, "jobs: {a: {steps: [{run: \"python3 -c '" SIM "'\"}]}}\n", 1,
	  "a workflow runs it"}},
	{"ci.yml", {UNSET, "jobs: {a: {steps: [{run: \"python3 -c '" SIM "'\"}]}}\n", 0, NULL}},
};

static void code_that_runs_a_simulator_is_one(void **state)
{
	bool right = scripts_are_right(scripts, FLMEM_ARRAY_SIZE(scripts));

	(void)state;
	right &= files_are_right(files, FLMEM_ARRAY_SIZE(files));
	assert_true(right);
}

static const char *const launchers[] = {
	"torchrun client.py",
	"torchrun --nnodes 1 --nproc_per_node=2 --master_port 29 client.py --lr 1",
	"torchrun --nproc_per_node $N client.py",
	"torchrun --nproc_per_node \"$N\" client.py",
	"torchrun $OPTS client.py",
	"torchrun ${OPTS} client.py",
	"torchrun \"${ARGS[@]}\" app/custom/client.py",
	"srun torchrun \\\n --nnodes 1 \\\n client.py",
	"if true; then torchrun --nnodes 1 client.py; fi",
	"python3 $FLAGS client.py",
	"python -m torch.distributed.run --nnodes 1 client.py",
	"python3 -m torch.distributed.launch --use_env client.py",
	"python3 -um torch.distributed.run client.py",
	"accelerate launch --config_file c.yaml client.py",
	"accelerate launch $A --num_processes $N client.py",
	"python3 -m accelerate.commands.launch --num_processes 2 client.py",
	"python3 -m accelerate.commands.accelerate_cli launch client.py",
	"deepspeed --num_gpus 2 client.py",
	"python3 -m deepspeed.launcher.runner client.py",
	"python3 -m cProfile -o p client.py",
	"python3 -m debugpy --listen 5678 client.py",
	"mpirun -n 2 python3 -m mpi4py client.py",
	"python3 -m mpi4py.futures client.py",
	"coverage run client.py",
	"python3 -m coverage run -p client.py",
	"kernprof -l client.py",
	"memray run -o x client.py",
	"mprof run client.py",
	"fil-profile run client.py",
	"fabric run client.py",
	"viztracer client.py",
	"python3 -m client",
	"python3 -um jobs.client --lr 1",
	"torchrun -m jobs.client",
	"pytest -q client.py",
	"pytest app/client.py::test_it -k x",
	"python3 -m pytest client.py",
	"python3 -m unittest client.py",
	"bash -c 'torchrun --nnodes 1 client.py'",
};

static size_t count_findings(const char *script, const char *other, const char *rule)
{
	struct flmem_recommendations found = {0};
	const struct flmem_finding *last;
	struct tree tree;
	const char *path;
	size_t count;

	tree_init(&tree);
	path = tree.path;
	tree_puts(&tree, "run.sh", script);
	tree_puts(&tree, other, "import nvflare\nr.execute(SimEnv(2))\n");
	assert_int_equal(flmem_recommend(&path, 1, NULL, &found, NULL), 0);
	count = findings_of(&found, rule, &last);
	flmem_recommendations_clear(&found);
	tree_clear(&tree);
	return count;
}

/* The file behind a launcher is checked as that of "python3 client.py": its settings are found. */
static void a_script_behind_a_launcher_is_read(void **state)
{
	bool right = true;

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(launchers); i++) {
		FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
		size_t beside, elsewhere, simulator;

		flmem_buf_printf(&text, "#!/bin/sh\n# nvflare\n%s\n", launchers[i]);
		assert_non_null(text.data);
		beside = count_findings(text.data, "client.py", UNCLEAR);
		elsewhere = count_findings(text.data, "other.py", UNCLEAR);
		simulator = count_findings(text.data, "client.py", UNSET);
		if (beside || elsewhere != 1 || simulator != 1)
			print_error("%zu, %zu, %zu findings on: %s\n", beside, elsewhere, simulator,
				    launchers[i]);
		right &= !beside && elsewhere == 1 && simulator == 1;
	}
	assert_true(right);
}

/* A script that names no framework is about one if it runs a checked file of that framework. */
static void a_script_that_runs_a_checked_file_is_read(void **state)
{
	static const struct {
		const char *text, *other;
		const char *rule;
		size_t hits;
	} cases[] = {
		{"torchrun client.py\n", "client.py", UNSET, 1},
		{"torchrun client.py\n", "other.py", UNSET, 0},
		{"torchrun client.py\n", "other.py", UNCLEAR, 0},
		{"torchrun --nnodes $N client.py\n", "client.py", UNSET, 1},
		{"torchrun --nnodes $N client.py\n", "client.py", UNCLEAR, 0},
		{"export MALLOC_ARENA_MAX=4\ntorchrun client.py\n", "client.py", UNSET, 0},
		{"export MALLOC_ARENA_MAX=abc\npython3 a/client.py\n", "client.py", IGNORED, 1},
		{"export MALLOC_ARENA_MAX=$N\npython3 client.py\n", "client.py", UNCLEAR, 1},
		{"python3 -m client\n", "client.py", UNSET, 1},
		{"python3 -m app.client\n", "client.py", UNSET, 1},
		{"python3 -m client\n", "other.py", UNSET, 0},
		{"export MALLOC_ARENA_MAX=4\npython3 -m client\n", "client.py", UNSET, 0},
		{"pytest client.py\n", "client.py", UNSET, 1},
		{"pytest client.py::test_it\n", "client.py", UNSET, 1},
		{"python3 -m pytest client.py\n", "client.py", UNSET, 1},
		{"# client\npytest -q\npython3 -m mypy client\n", "client.py", UNSET, 0},
		{"export MALLOC_ARENA_MAX=abc\npip install client\n", "client.py", IGNORED, 0},
		{"cat client.py\npython3 -m mypy client.py\n", "client.py", UNSET, 0},
		{"export MALLOC_ARENA_MAX=abc\ncat client.py\n", "client.py", IGNORED, 0},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(cases); i++)
		if (count_findings(cases[i].text, cases[i].other, cases[i].rule) != cases[i].hits)
			fail_msg("not %zu findings %s beside %s on:\n%s", cases[i].hits,
				 cases[i].rule, cases[i].other, cases[i].text);
}

/* A script that runs a notebook is treated in the same way. */
static void a_script_that_runs_a_checked_notebook_is_read(void **state)
{
	struct flmem_recommendations found = {0};
	const struct flmem_finding *last;
	struct tree tree;
	const char *path;

	(void)state;
	tree_init(&tree);
	path = tree.path;
	tree_puts(&tree, "run.sh", "papermill job.ipynb out.ipynb\n");
	tree_puts(&tree, "job.ipynb",
		  "{\"cells\": [{\"cell_type\": \"code\", \"source\": "
		  "\"import nvflare\\nr.execute(SimEnv(2))\"}], \"nbformat\": 4}\n");
	assert_int_equal(flmem_recommend(&path, 1, NULL, &found, NULL), 0);
	assert_int_equal(findings_of(&found, UNSET, &last), 1);
	assert_int_equal(findings_of(&found, UNCLEAR, &last), 0);
	flmem_recommendations_clear(&found);
	tree_clear(&tree);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(code_that_runs_a_simulator_is_one),
		cmocka_unit_test(a_script_behind_a_launcher_is_read),
		cmocka_unit_test(a_script_that_runs_a_checked_file_is_read),
		cmocka_unit_test(a_script_that_runs_a_checked_notebook_is_read),
	};

	return cmocka_run_group_tests_name("launch_python", tests, NULL, NULL);
}
