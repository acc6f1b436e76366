/* SPDX-License-Identifier: Apache-2.0 */
/* Tests scripts and jobs beside the file that starts them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <flmem/recommend.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "findings.h"
#include "tree.h"

#define OTHERS "NVF-LAUNCH-CANNOT-TELL"

#define SET4	"export MALLOC_ARENA_MAX=4\n"
#define IMAGE	"FROM python:3.12\n"
#define STARTS	"ENTRYPOINT [\"/app/in.sh\"]\n"
#define POD_OF	"spec:\n  containers:\n  - name: a\n    image: i\n    command: [/in.sh]\n"
#define UNIT_OF "[Service]\nExecStart=/opt/in.sh\n"

/* The check runs inside the folder and gets the names of its files, without a path in front. */
static bool within;

/* Two files of a folder that is checked. */
struct pair {
	const char *file, *text, *other, *other_text;
};

/* Counts the findings that two rules have in the files; the second rule may be NULL. */
static void check_pair(const struct pair *pair, const char *const rules[2], size_t ret_hits[2])
{
	struct flmem_recommendations found = {0};
	const struct flmem_finding *last;
	const char *paths[2];
	struct tree tree;

	tree_init(&tree);
	paths[0] = tree.path;
	tree_puts(&tree, pair->file, pair->text);
	tree_puts(&tree, pair->other, pair->other_text);
	if (within) {
		assert_int_equal(fchdir(tree.fd), 0);
		paths[0] = pair->file;
		paths[1] = pair->other;
	}
	assert_int_equal(flmem_recommend(paths, within ? 2 : 1, NULL, &found, NULL), 0);
	assert_int_equal(chdir("/"), 0);
	for (size_t i = 0; i < 2 && rules[i]; i++)
		ret_hits[i] = findings_of(&found, rules[i], &last);
	flmem_recommendations_clear(&found);
	tree_clear(&tree);
}

/* Expects so many reports that the limit of arenas is not set, and that it is not known. */
static void expect_arenas(const struct pair *pair, size_t unset, size_t unclear)
{
	static const char *const rules[2] = {"NVF-ARENA-UNSET", OTHERS};
	size_t hits[2];

	check_pair(pair, rules, hits);
	if (hits[0] != unset || hits[1] != unclear)
		fail_msg("%zu unset, %zu unclear on %s and %s:\n%s", hits[0], hits[1], pair->file,
			 pair->other, pair->other_text);
}

static void expect_findings(const struct pair *pair, const char *rule, size_t count)
{
	const char *const rules[2] = {rule, NULL};
	size_t hits[2];

	check_pair(pair, rules, hits);
	if (hits[0] != count)
		fail_msg("not %zu findings %s on:\n%s", count, rule, pair->other_text);
}

/* A script beside the file that starts it gets the variables of that file. */
static void a_script_has_the_variables_of_its_caller(void **state)
{
	static const struct {
		const char *file, *text;
		size_t unset, unclear;
	} cases[] = {
		{"Dockerfile", IMAGE "ENV MALLOC_ARENA_MAX=4\n" STARTS, 0, 0},
		{"Dockerfile", IMAGE STARTS, 1, 0},
		{"Dockerfile", IMAGE "ENV MALLOC_ARENA_MAX=4\nCOPY in.sh /\nCMD [\"x\"]\n", 1, 0},
		{"Dockerfile", IMAGE "ENV MALLOC_ARENA_MAX=4\nCMD [\"/main.sh\"]\n", 1, 0},
		{"pod.yaml", POD_OF "    env: [{name: MALLOC_ARENA_MAX, value: '4'}]\n", 0, 1},
		{"pod.yaml", POD_OF "    env: [{name: A, value: '4'}]\n", 1, 0},
		{"fl.service", UNIT_OF "Environment=MALLOC_ARENA_MAX=4\n", 0, 0},
		{"fl.service", UNIT_OF "EnvironmentFile=/etc/fl\n", 0, 1},
		{"fl.service", UNIT_OF "Environment=A=4\n", 1, 0},
		{"run.sh", SET4 "./in.sh\n", 0, 0},
		{"run.sh", SET4 "exec bash in.sh -n 2\n", 0, 0},
		{"run.sh", "./in.sh\n" SET4, 1, 0},
		{"run.sh", "MALLOC_ARENA_MAX=4\n./in.sh\n", 1, 0},
		{"run.sh", "MALLOC_ARENA_MAX=4 ./in.sh\n", 0, 0},
		{"run.sh", "MALLOC_ARENA_MAX=4 \\\n  ./in.sh\n", 0, 0},
		{"run.sh", "MALLOC_ARENA_MAX=4 ./other.sh; ./in.sh\n", 1, 0},
		{"run.sh", SET4 "# ./in.sh\n./main.sh\n", 1, 0},
		{"run.sh", SET4 "./main.sh in.sh.bak\n", 1, 0},
		{"run.sh", SET4 "sudo ./in.sh\n", 0, 1},
		{"run.sh", "if [ $A ]; then\n" SET4 "fi\n./in.sh\n", 0, 1},
		{"run.sh", SET4 "sbatch in.sh\n", 0, 1},
		{"run.sh", "sbatch --export=ALL,MALLOC_ARENA_MAX=4 in.sh\n", 0, 0},
		{"run.sh", "qsub -v MALLOC_ARENA_MAX=4 in.sh\n", 0, 0},
		{"run.sh", SET4 "./in.sh\nunset MALLOC_ARENA_MAX\n", 0, 0},
		{"run.sh", "./in.sh\nMALLOC_ARENA_MAX=4 ./in.sh\n", 0, 1},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(cases); i++)
		expect_arenas(&(struct pair){"in.sh", "#!/bin/sh\nexec nvflare simulator j\n",
					     cases[i].file, cases[i].text},
			      cases[i].unset, cases[i].unclear);
}

#define CELL(lines)                                                  \
	"{\"cells\": [{\"cell_type\": \"code\", \"source\": [" lines \
	"]}, {\"cell_type\": \"code\","                              \
	"\"source\": [\"import nvflare\"]}], \"nbformat\": 4, \"nbformat_minor\": 5}"
#define RUNS	"from nvflare.recipe import SimEnv\nr.execute(SimEnv(num_clients=2))\n"
#define EXPORTS "from nvflare.recipe import ProdEnv\nr.export('jobs')\n"

/* A notebook, or Python, runs a checked file by a command. */
static void a_notebook_runs_a_simulator(void **state)
{
	static const struct {
		const char *file, *text, *job;
		size_t hits;
	} cases[] = {
		{"a.ipynb", CELL("\"!python job.py\""), RUNS, 1},
		{"a.ipynb", CELL("\"!python job.py\""), EXPORTS, 0},
		{"a.ipynb", CELL("\"! cd code && python3 -u job.py -n 2\""), RUNS, 1},
		{"a.ipynb", CELL("\"%%bash\\n\", \"python3 job.py\""), RUNS, 1},
		{"a.ipynb", CELL("\"%run job.py\""), RUNS, 0},
		{"a.ipynb", CELL("\"!cat job.py\""), RUNS, 0},
		{"a.ipynb", CELL("\"!python other.py\""), RUNS, 1},
		{"a.py", "import nvflare, os\nos.system('python3 job.py')\n", RUNS, 1},
		{"a.py", "import nvflare, os\nos.system('python3 job.py')\n", EXPORTS, 0},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(cases); i++)
		expect_findings(
			&(struct pair){"job.py", cases[i].job, cases[i].file, cases[i].text},
			"NVF-ENVIRON-CANNOT-TELL", cases[i].hits);
}

/* Files that are parts of the checked one are read with it. */
static void parts_of_a_file_are_read_together(void **state)
{
#define BUILD "services:\n  a:\n    build: .\n    command: nvflare simulator j\n"
#define PULLS "services:\n  a:\n    image: i\n    command: nvflare simulator j\n"
#define ENV_A "services:\n  a:\n    environment: {MALLOC_ARENA_MAX: 4}\n"
#define UNIT  "[Service]\nExecStart=/opt/bin/nvflare simulator j\n"
#define DROP  "[Service]\nEnvironment=MALLOC_ARENA_MAX=4\n"
	static const struct {
		const char *file, *text, *part, *part_text;
		size_t unset, unclear;
	} cases[] = {
		{"compose.yaml", BUILD, "Dockerfile", "FROM a\nENV MALLOC_ARENA_MAX=4\n", 0, 1},
		{"compose.yaml", BUILD, "Dockerfile", "FROM a\nENV A=4\n", 1, 0},
		{"compose.yaml", PULLS, "Dockerfile", "FROM a\nENV MALLOC_ARENA_MAX=4\n", 1, 0},
		{"compose.yaml", PULLS, "compose.override.yaml", ENV_A, 0, 1},
		{"docker-compose.yml", PULLS, "docker-compose.override.yml", ENV_A, 0, 1},
		{"compose.yaml", PULLS, "compose.test.yaml", ENV_A, 1, 0},
		{"compose.yaml", PULLS, "pod.override.yaml", ENV_A, 1, 0},
		{"fl.service", UNIT, "fl.service.d/a.conf", DROP, 0, 1},
		{"fl.service", UNIT, "fl.service.d/a.conf", "[Service]\nEnvironment=A=4\n", 1, 0},
		{"fl.service", UNIT, "xfl.service.d/a.conf", DROP, 1, 0},
		{"fl.service", UNIT, "other.service.d/a.conf", DROP, 1, 0},
		{"fl.service", UNIT, "fl.service-d/b.service", DROP, 1, 0},
		{"fl.service", UNIT, "fl.service.d/x/a.conf", DROP, 1, 0},
		{"fl.service", UNIT, "fl.service.dd/a.conf", DROP, 1, 0},
		{"fl.service", UNIT, "l.service.d/a.conf", DROP, 1, 0},
		{"Procfile", "a: nvflare simulator j\n", ".env", "MALLOC_ARENA_MAX=4\n", 0, 1},
		{"Procfile", "a: nvflare simulator j\n", "a.env", "MALLOC_ARENA_MAX=4\n", 1, 0},
	};

	(void)state;
	for (size_t i = 0; i < 2 * FLMEM_ARRAY_SIZE(cases); i++) {
		size_t k = i / 2;

		/* An override would be one of the checked files itself. */
		within = i % 2 && strcmp(cases[k].file, "fl.service") == 0;
		expect_arenas(&(struct pair){cases[k].file, cases[k].text, cases[k].part,
					     cases[k].part_text},
			      cases[k].unset, cases[k].unclear);
	}
	within = false;
}

/*
 * A job beside a script may be another than the one that the script makes: its rounds do not count.
 */
static void a_script_has_no_rounds_of_another_job(void **state)
{
#define MAKES(rounds)                                                                          \
	"from nvflare.job_config.api import FedJob\n"                                          \
	"from nvflare.app_common.workflows.fedavg import FedAvg\n"                             \
	"from nvflare.job_config.script_runner import ScriptRunner\n"                          \
	"job = FedJob('a')\n"                                                                  \
	"job.to(FedAvg(num_clients=2, memory_gc_rounds=1, num_rounds=" rounds "), 'server')\n" \
	"job.to(ScriptRunner('t.py', memory_gc_rounds=5), 'site-1')\n"
	static const char other[] =
		"{\"format_version\": 2, \"workflows\": [{\"id\": \"c\", \"path\": "
		"\"nvflare.app_common.workflows.fedavg.FedAvg\", \"args\": {\"num_rounds\": 3, "
		"\"memory_gc_rounds\": 1}}]}";

	(void)state;
	expect_findings(
		&(struct pair){"job.py", MAKES("n"), "app/config/config_fed_server.json", other},
		"NVF-GC-NEVER-FIRES", 0);
	expect_findings(
		&(struct pair){"job.py", MAKES("3"), "app/config/config_fed_server.json", other},
		"NVF-GC-NEVER-FIRES", 1);
}

/* A script that names no framework has the framework of the file that it runs. */
static void a_script_is_about_what_it_runs(void **state)
{
#define EXPORTS_ANY "export $N=4\npython3 app.py\n"
	static const char flower[] = "from flwr.simulation import run_simulation\n"
				     "run_simulation(s, c, num_supernodes=9)\n";
	static const char nvflare[] = "from nvflare.job_config.api import FedJob\n"
				      "FedJob('a').simulator_run('w', n_clients=2)\n";

	(void)state;
	expect_arenas(&(struct pair){"run.sh", EXPORTS_ANY, "app.py", flower}, 0, 0);
	expect_arenas(&(struct pair){"run.sh", EXPORTS_ANY, "app.py", nvflare}, 0, 1);
	expect_arenas(&(struct pair){"run.sh", "python3 app.py\n", "app.py", flower}, 0, 0);
	expect_arenas(&(struct pair){"run.sh", "python3 app.py\n", "app.py", nvflare}, 1, 0);
}

/* Commands that other programs run, with variables that flmem does not follow. */
static void a_task_runs_a_simulator(void **state)
{
	static const struct {
		const char *file, *text, *job;
		size_t unset, unclear;
	} cases[] = {
		{"play.yaml", "- hosts: all\n  tasks:\n  - shell: python3 job.py\n", RUNS, 0, 1},
		{"play.yaml", "- tasks:\n  - ansible.builtin.shell: python3 job.py\n", RUNS, 0, 1},
		{"play.yaml", "- tasks:\n  - ansible.builtin.shell: python3 job.py\n", EXPORTS, 0,
		 0},
		{"play.yaml", "- tasks:\n  - shell: python3 other.py # job.py\n", RUNS, 0, 1},
		{"play.yaml", "- tasks:\n  - name: run python3 job.py\n", RUNS, 0, 0},
		{"dvc.yaml", "stages:\n  a:\n    cmd: python3 job.py\n", RUNS, 0, 1},
		{"dvc.yaml", "stages:\n  a:\n    cmd: [mkdir x, python3 job.py -n 2]\n", RUNS, 0,
		 1},
		{"dvc.yaml", "stages:\n  a:\n    cmd: cat job.py\n", RUNS, 0, 0},
		{"Taskfile.yml", "tasks:\n  a:\n    cmds:\n    - python3 job.py\n", RUNS, 0, 1},
		{"run.sh", "sbatch --wrap 'python3 job.py'\n", RUNS, 1, 0},
		{"run.sh", "sbatch --export=ALL,MALLOC_ARENA_MAX=4 --wrap 'python3 job.py'\n", RUNS,
		 0, 0},
		{"run.sh", "sbatch --export=ALL,A=4 --wrap='python3 job.py'\n", RUNS, 1, 0},
		{"run.sh", "MALLOC_ARENA_MAX=4 sbatch --wrap='python3 job.py'\n", RUNS, 0, 0},
		{"run.sh", "MALLOC_ARENA_MAX=4\nsbatch --wrap='python3 job.py'\n", RUNS, 1, 0},
		{"run.sh", "MALLOC_ARENA_MAX=4 timeout 9 python3 job.py\n", RUNS, 0, 0},
		{"run.sh", "A=4 timeout 9 python3 job.py\n", RUNS, 1, 0},
		{"run.sh",
		 "export MALLOC_ARENA_MAX=4\nenv -u MALLOC_ARENA_MAX bash -c 'python3 job.py'\n"
		 "nvflare simulator j\n",
		 EXPORTS, 0, 0},
		{"run.sh", "sbatch --wrap 'MALLOC_ARENA_MAX=4 nvflare simulator j'\n", RUNS, 0, 0},
		{"run.sh", "sbatch --wrap 'nvflare simulator j'\n", RUNS, 1, 0},
		{"run.sh", "jupyter-nbconvert --execute --to html job.ipynb # nvflare\n", RUNS, 0,
		 1},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(cases); i++)
		expect_arenas(&(struct pair){"job.py", cases[i].job, cases[i].file, cases[i].text},
			      cases[i].unset, cases[i].unclear);
}

/* A simulator in a checked Python file is subject to the rules about starts. */
static void a_simulator_in_python_is_checked_as_a_start(void **state)
{
#define JOB                                                                          \
	"from nvflare.recipe import SimEnv\n"                                        \
	"from nvflare.app_opt.pt.recipes.fedavg import FedAvgRecipe\n"               \
	"r = FedAvgRecipe(name='a', num_rounds=9, enable_tensor_disk_offload=True, " \
	"server_memory_gc_rounds=1)\nr.execute(SimEnv(num_clients=2))\n"
#define SERVICE "services:\n  a:\n    image: i\n    command: python3 job.py\n"
	static const char tmpfs[] = "NVF-OFFLOAD-TMPFS", musl[] = "NVF-MUSL-NO-TRIM";
	static const struct {
		const char *rule, *file, *text;
		size_t hits;
	} cases[] = {
		{tmpfs, "run.sh", "TMPDIR=/dev/shm python3 job.py\n", 1},
		{tmpfs, "run.sh", "export TMPDIR=/dev/shm/a\npython3 job.py\n", 1},
		{tmpfs, "run.sh", "TMPDIR=/dev/shm\npython3 job.py\n", 0},
		{tmpfs, "run.sh", "TMPDIR=/scratch python3 job.py\n", 0},
		{tmpfs, "run.sh", "TMPDIR=/dev/shm python3 other.py\n# job.py\n", 0},
		{tmpfs, "compose.yaml", SERVICE "    tmpfs: /tmp\n", 1},
		{tmpfs, "compose.yaml", SERVICE "    tmpfs: /run\n", 0},
		{tmpfs, "compose.yaml", SERVICE "  b:\n    image: x\n    tmpfs: /tmp\n", 0},
		{tmpfs, "compose.yaml",
		 SERVICE "  b:\n    image: x\n    command: python3 c.py\n    tmpfs: /tmp\n", 0},
		{musl, "Dockerfile", "FROM python:3.12-alpine\nCMD [\"python3\", \"job.py\"]\n", 1},
		{musl, "Dockerfile", "FROM python:3.12\nCMD [\"python3\", \"job.py\"]\n", 0},
		{musl, "compose.yaml", SERVICE "  b:\n    image: nginx:alpine\n", 0},
		{"NVF-ARENA-UNSET", "compose.yaml",
		 "services:\n  b: {image: 'nginx:alpine', command: run}\n  a:\n    image: i\n"
		 "    command: python3 job.py\n",
		 1},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(cases); i++)
		expect_findings(&(struct pair){"job.py", JOB, cases[i].file, cases[i].text},
				cases[i].rule, cases[i].hits);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_script_has_the_variables_of_its_caller),
		cmocka_unit_test(a_notebook_runs_a_simulator),
		cmocka_unit_test(parts_of_a_file_are_read_together),
		cmocka_unit_test(a_script_is_about_what_it_runs),
		cmocka_unit_test(a_script_has_no_rounds_of_another_job),
		cmocka_unit_test(a_task_runs_a_simulator),
		cmocka_unit_test(a_simulator_in_python_is_checked_as_a_start),
	};

	return cmocka_run_group_tests_name("launch_callers", tests, NULL, NULL);
}
