/* SPDX-License-Identifier: Apache-2.0 */
/* Tests what directives of batch scripts, and the files of CI services, decide about variables. */
#include "launch_rows.h"

#include "base/cleanup.h"

#define NONE "#SBATCH --export=NONE\n"

static const struct row scripts[] = {
	/* sbatch(1): only what the script sets reaches the job */
	{UNSET, NONE CLIENT, 1, "#SBATCH --export keeps what the submitting shell sets"},
	{UNSET, "#SBATCH --export=NIL\n" CLIENT, 1, "keeps what the submitting shell sets"},
	{UNSET, "#SBATCH --export=PATH,HOME\n" CLIENT, 1, "keeps what the submitting shell sets"},
	{UNSET, NONE SET CLIENT, 0, NULL},
	{UNSET, NONE CLIENT SET, 1, "line 3 sets it where it does not reach"},
	/* srun takes the list from there, and passes nothing of it on */
	{UNSET, NONE SET "srun " CLIENT, 1, "line 2 sets it, and srun under #SBATCH --export"},
	{UNSET, "#SBATCH --export NIL\n" SET "srun -n 2 " CLIENT, 1, NULL},
	{UNSET, NONE "MALLOC_ARENA_MAX=2 srun " CLIENT, 1, NULL},
	{UNSET, NONE "srun env MALLOC_ARENA_MAX=2 " CLIENT, 0, NULL},
	{UNSET, NONE "srun bash -c 'MALLOC_ARENA_MAX=2 " CLIENT "'\n", 0, NULL},
	{UNSET, NONE SET "srun bash -c '" CLIENT "'\n", 1, NULL},
	{UNSET, NONE SET "srun hostname\n" CLIENT, 0, NULL},
	{UNSET, NONE SET "srun --export=ALL " CLIENT, 0, NULL},
	{UNSET, NONE SET "srun --export=ALL,A=1 " CLIENT, 0, NULL},
	{UNSET, NONE "srun --export=MALLOC_ARENA_MAX=2 " CLIENT, 0, NULL},
	{UNSET, NONE "export SLURM_EXPORT_ENV=ALL\n" SET "srun " CLIENT, 0, NULL},
	{UNSET, NONE "unset SLURM_EXPORT_ENV\n" SET "srun " CLIENT, 0, NULL},
	{UNSET, NONE SET "SLURM_EXPORT_ENV=ALL srun " CLIENT, 0, NULL},
	{UNSET, NONE "export SLURM_EXPORT_ENV=NONE\n" SET "srun " CLIENT, 1, NULL},
	{UNSET, SET "srun " CLIENT, 0, NULL},
	{UNSET, "#SBATCH --export=ALL\n" SET "srun " CLIENT, 0, NULL},
	{UNSET, "#SBATCH --export=PATH,ALL\n" SET "srun " CLIENT, 0, NULL},
	{UNSET, "#SBATCH --export=ALLOC\n" SET "srun " CLIENT, 1, NULL},
	{UNSET, NONE "#SBATCH --export=ALL\n" SET "srun " CLIENT, 0, NULL},
	{UNSET, " " NONE SET "srun " CLIENT, 0, NULL},
	{UNSET, "cd ws\n" NONE SET "srun " CLIENT, 0, NULL},
	/* a variable in the list is passed on, with the value that it has at that time */
	{UNSET, "#SBATCH --export=MALLOC_ARENA_MAX=2\nsrun " CLIENT, 0, NULL},
	{UNSET, "#SBATCH --export=MALLOC_ARENA_MAX\n" SET "srun " CLIENT, 0, NULL},
	{UNCLEAR, "#SBATCH --export=PATH\n" SET "srun --export=MALLOC_ARENA_MAX " CLIENT, 0, NULL},
	{IGNORED, "#SBATCH --export=MALLOC_ARENA_MAX=0\nsrun " CLIENT SERVER, 1, NULL},
	{UNSET, SET "srun --export=PATH,ALL " CLIENT, 0, NULL},
	{UNSET, SET "srun --export=PATH " CLIENT, 1, "srun --export drops it"},
	/* a file of variables, which flmem does not read */
	{UNSET, "#SBATCH --export-file=env.txt\n" CLIENT, 0, NULL},
	{UNCLEAR, "#SBATCH --export-file=env.txt\n" CLIENT, 1, "another file"},
	{UNCLEAR, "#SBATCH -n 2 --export-file env.txt\n" CLIENT, 1, "another file"},
	{UNCLEAR, "#PBS --export-file=env.txt\n" SET CLIENT, 0, NULL},
	{UNSET, SET "export SLURM_EXPORT_ENV=NONE\nsrun " CLIENT, 1, "SLURM_EXPORT_ENV drops it"},
	{UNSET, SET "export SLURM_EXPORT_ENV=ALL\nsrun " CLIENT, 0, NULL},
	{UNSET, SET "export SLURM_EXPORT_ENV=NONE\n" CLIENT, 0, NULL},
	{UNSET, SET "export SLURM_EXPORT_ENV=NIL\nunset SLURM_EXPORT_ENV\nsrun " CLIENT, 0, NULL},
	{UNSET, SET "export SLURM_EXPORT_ENV=NONE\nsrun --export=ALL " CLIENT, 0, NULL},
	{UNSET, SET "export SRUN_EXPORT_ENV=NONE\nsrun " CLIENT, 1, "SRUN_EXPORT_ENV drops it"},
	{UNSET, SET "export SLURM_EXPORT_ENV=NONE\nexport SRUN_EXPORT_ENV=ALL\nsrun " CLIENT, 0,
	 NULL},
	{UNSET, SET "export SBATCH_EXPORT=NONE\nsbatch --wrap='" CLIENT "'\n", 1,
	 "SBATCH_EXPORT drops it"},
	{UNSET, SET "export SBATCH_EXPORT=NONE\nsbatch --export=ALL --wrap='" CLIENT "'\n", 0,
	 NULL},
	{UNSET, SET "export SBATCH_EXPORT=ALL\nsbatch --wrap='" CLIENT "'\n", 0, NULL},
	{UNSET, SET "export SBATCH_EXPORT=NONE\n" CLIENT, 0, NULL},
	{UNCLEAR, "sbatch --export-file=env.txt --wrap='" CLIENT "'\n", 1, "another file"},
	{UNCLEAR, "cd ws\n#SBATCH --export-file=env.txt\n" SET CLIENT, 0, NULL},

	/* bsub of LSF reads its lines in the whole script */
	{UNSET, "#BSUB -env \"all, MALLOC_ARENA_MAX=2\"\n" CLIENT, 0, NULL},
	{UNSET, "#BSUB -n 2 -env MALLOC_ARENA_MAX=2\n" CLIENT, 0, NULL},
	{UNSET, "#BSUB -env 'A=1, MALLOC_ARENA_MAX=2'\n" CLIENT, 0, NULL},
	{UNSET, "cd ws\n#BSUB -env \"all, MALLOC_ARENA_MAX=2\"\n" CLIENT, 0, NULL},
	{IGNORED, "#BSUB -env \"all, MALLOC_ARENA_MAX=0\"\n" CLIENT, 1, NULL},
	{UNCLEAR, "#BSUB -env \"all, MALLOC_ARENA_MAX\"\n" CLIENT, 1, "the value is known only"},
	{UNSET, "#BSUB -env \"none\"\n" CLIENT, 1, "#BSUB -env keeps what the submitting shell"},
	{UNSET, "#BSUB -env none\n" SET CLIENT, 0, NULL},
	{UNSET, "#BSUB -env PATH\n" CLIENT, 1, "#BSUB -env keeps what the submitting shell"},
	{UNSET, "#BSUB -env \"all, ~MALLOC_ARENA_MAX\"\n" CLIENT, 1, NULL},
	{UNSET, "#BSUB -env \"all, ~MALLOC_ARENA_MAX\"\n" SET CLIENT, 0, NULL},
	{UNSET, "#BSUB -environment MALLOC_ARENA_MAX=2\n" CLIENT, 1, NULL},
	{UNSET, "#BSUB -J \"a, MALLOC_ARENA_MAX=2\"\n" CLIENT, 1, NULL},
	{UNSET, "##BSUB -env MALLOC_ARENA_MAX=2\n" CLIENT, 1, NULL},
	{UNSET, "#BSUB -v MALLOC_ARENA_MAX=2\n" CLIENT, 1, NULL},
	/* bsub and others as commands */
	{UNSET, SET "bsub -n 2 " CLIENT, 0, NULL},
	{UNSET, SET "bsub -env none " CLIENT, 1, "bsub -env drops it"},
	{UNSET, SET "bsub -env \"all, A=1\" " CLIENT, 0, NULL},
	{UNSET, "bsub -env \"all, MALLOC_ARENA_MAX=2\" " CLIENT, 0, NULL},
	{UNSET, SET "bsub -env \"PATH, MALLOC_ARENA_MAX\" " CLIENT, 0, NULL},
	{UNCLEAR, SET "bsub -env \"PATH, MALLOC_ARENA_MAX\" " CLIENT, 0, NULL},
	{UNSET, SET "bsub -env \"all, ~MALLOC_ARENA_MAX\" " CLIENT, 1, NULL},
	{UNSET, SET "echo -env none\n" CLIENT, 0, NULL},
	{UNSET, SET "qsub -b y " CLIENT, 1, "qsub drops it"},
	{UNSET, SET "qsub -b y -V " CLIENT, 0, NULL},
	{UNSET, SET "qsub -b y -v A=1,MALLOC_ARENA_MAX " CLIENT, 0, NULL},
	{UNSET, "qsub -b y -v A=1,MALLOC_ARENA_MAX=2 " CLIENT, 0, NULL},
	{IGNORED, "qsub -v MALLOC_ARENA_MAX=0 -b y " CLIENT, 1, NULL},
	/* a variable that they drop for one command is kept after it */
	{UNSET, SET "qsub job.pbs\n" CLIENT, 0, NULL},
	{UNSET, SET "sudo ls\nssh host ls\n" CLIENT, 0, NULL},
	{UNSET, SET "docker run x ls; env -i ls; env -u MALLOC_ARENA_MAX ls\n" CLIENT, 0, NULL},
	{UNSET, SET "sudo ls\nunset MALLOC_ARENA_MAX\n" CLIENT, 1, NULL},
	{UNSET, "sudo MALLOC_ARENA_MAX=2 ls\n" CLIENT, 1, NULL},
};

#define CIRCLE(step) "version: 2.1\njobs:\n  a:\n    docker: [{image: x}]\n    steps:\n" step
#define COMMAND(environment) \
	"      - run:\n          name: fl\n          command: nvflare simulator job\n" environment

static const struct file_row files[] = {
	{".circleci/config.yml",
	 {UNCLEAR, CIRCLE("      - run: nvflare simulator job\n"), 1, "a workflow runs it"}},
	{".circleci/config.yml", {UNCLEAR, CIRCLE(COMMAND("")), 1, "a workflow runs it"}},
	{".circleci/config.yml", {UNSET, CIRCLE(COMMAND("")), 0, NULL}},
	{".circleci/config.yml",
	 {IGNORED, CIRCLE(COMMAND("          environment: {MALLOC_ARENA_MAX: abc}\n")), 1, NULL}},
	{".circleci/config.yml", {UNCLEAR, CIRCLE("      - run: make nvflare\n"), 0, NULL}},
	{".circleci/continue_config.yml", {UNCLEAR, CIRCLE(COMMAND("")), 1, NULL}},
	{"orb.yml", {UNSET, CIRCLE(COMMAND("")), 0, NULL}},
	/* the files of other CI services */
	{".travis.yml", {UNCLEAR, "script: [nvflare simulator job]\n", 1, "a workflow runs it"}},
	{".travis.yml", {UNCLEAR, "install: nvflare poc start\n", 1, "a workflow runs it"}},
	{".drone.yml",
	 {UNCLEAR, "steps:\n- name: a\n  image: x\n  commands: [nvflare simulator job]\n", 1,
	  "a workflow runs it"}},
	{".woodpecker/fl.yaml",
	 {UNCLEAR, "steps: {a: {image: x, commands: [nvflare simulator job]}}\n", 1,
	  "a workflow runs it"}},
	{".buildkite/pipeline.yml",
	 {UNCLEAR, "steps:\n- command: nvflare simulator job\n  env: {A: 1}\n", 1,
	  "a workflow runs it"}},
	{".buildkite/pipeline.yml",
	 {UNSET, "env: {MALLOC_ARENA_MAX: 4}\nsteps:\n- command: nvflare simulator job\n", 0,
	  NULL}},
	{".cirrus.yml", {UNCLEAR, "task: {test_script: nvflare simulator job}\n", 1, NULL}},
	{".semaphore/semaphore.yml",
	 {UNCLEAR, "blocks: [{task: {jobs: [{commands: [nvflare simulator job]}]}}]\n", 1, NULL}},
	{".forgejo/workflows/fl.yml",
	 {UNCLEAR, "jobs: {a: {steps: [{run: nvflare simulator job}]}}\n", 1, NULL}},
	{".gitea/workflows/fl.yml",
	 {UNCLEAR, "jobs: {a: {steps: [{run: nvflare simulator job}]}}\n", 1, NULL}},
	{".gitlab/ci/fl.yml", {UNCLEAR, "a: {script: [nvflare simulator job]}\n", 1, NULL}},
	{".azure-pipelines/fl.yml",
	 {UNCLEAR, "steps:\n- bash: nvflare simulator job\n", 1, "a workflow runs it"}},
	{"buildspec.yml",
	 {UNCLEAR, "phases: {build: {commands: [nvflare simulator job]}}\n", 1,
	  "a workflow runs it"}},
	/* a step of Tekton or Cloud Build is a container */
	{"task.yaml",
	 {UNSET,
	  "steps:\n- image: x\n  command: [nvflare, simulator, job]\n"
	  "  env: [{name: MALLOC_ARENA_MAX, value: '4'}]\n- image: y\n"
	  "  command: [nvflare, simulator, job]\n",
	  1, NULL}},
	/* a service of Compose may take variables from another one */
	{"compose.yaml",
	 {UNSET,
	  "services:\n  a:\n    image: x\n    extends: {service: b}\n"
	  "    command: nvflare simulator job\n",
	  0, NULL}},
	{"compose.yaml",
	 {UNCLEAR,
	  "services:\n  a:\n    image: x\n    extends: {service: b}\n"
	  "    command: nvflare simulator job\n",
	  1, "another service"}},
	/* an empty Environment= of a unit removes those before it */
	{"fl.service",
	 {UNSET,
	  "[Service]\nEnvironment=\nEnvironment=MALLOC_ARENA_MAX=2\nExecStart=/usr/bin/" CLIENT, 0,
	  NULL}},
	{"fl.service",
	 {UNSET,
	  "[Service]\nPassEnvironment=MALLOC_ARENA_MAX\nEnvironment=\nExecStart=/usr/bin/" CLIENT,
	  0, NULL}},
	{".cache/fl.yml", {UNCLEAR, "a: {script: [nvflare simulator job]}\n", 0, NULL}},
	{".circleci.bak/config.yml", {UNCLEAR, CIRCLE(COMMAND("")), 0, NULL}},
};

static void directives_decide_what_reaches_a_job(void **state)
{
	(void)state;
	assert_true(scripts_are_right(scripts, FLMEM_ARRAY_SIZE(scripts)));
}

static void files_of_services_for_ci_are_read(void **state)
{
	(void)state;
	assert_true(files_are_right(files, FLMEM_ARRAY_SIZE(files)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(directives_decide_what_reaches_a_job),
		cmocka_unit_test(files_of_services_for_ci_are_read),
	};

	return cmocka_run_group_tests_name("launch_batch", tests, NULL, NULL);
}
