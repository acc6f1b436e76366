/* SPDX-License-Identifier: Apache-2.0 */
/* Tests commands in JSON and TOML, and scripts that are recognised only by their words. */
#include "launch_rows.h"

#include "base/cleanup.h"
#include "base/text/buf.h"

#define DEVELOP ".devcontainer/devcontainer.json"
#define TASKS	".vscode/tasks.json"
#define DEBUG	".vscode/launch.json"
#define RUN	"nvflare simulator job"
#define NEEDS	"[project]\nrequires-python = \">=3.9\"\ndependencies = [\"nvflare\"]\n"
#define RUNS	"another program runs it"

static const struct file_row files[] = {
	/* JSON, with comments */
	{DEVELOP, {UNCLEAR, "{\n // a \"b\n \"postStartCommand\": \"" RUN "\",\n}\n", 1, RUNS}},
	{DEVELOP,
	 {UNCLEAR, "{ /* \" */ \"postCreateCommand\": [\"nvflare\", \"simulator\"]}\n", 1, RUNS}},
	{DEVELOP, {UNCLEAR, "{\"postCreateCommand\": {\"a\": \"cd x; " RUN "\"}}\n", 1, RUNS}},
	{"devcontainer.json",
	 {UNCLEAR,
	  "{\"postCreateCommand\": \"pip install nvflare\", "
	  "\"containerEnv\": {\"MALLOC_ARENA_MAX\": \"2\"}}\n",
	  1, "which program gets"}},
	{DEVELOP,
	 {UNCLEAR,
	  "{/* */\"image\": \"python:3\", \"name\": \"" RUN "\",\n"
	  "\"postCreateCommand\": \"pip install nvflare\"}\n",
	  0, NULL}},
	{TASKS,
	 {UNCLEAR, "{\"tasks\": [{\"command\": \"nvflare\", \"args\": [\"simulator\"]}]}\n", 1,
	  RUNS}},
	{TASKS,
	 {UNCLEAR,
	  "{\"tasks\": [{\"label\": \"nvflare\", \"command\": \"python3 ${x}/job.py\"},"
	  "{\"command\": \"make\"}]}\n",
	  1, RUNS}},
	{DEBUG,
	 {UNCLEAR,
	  "{\"configurations\": [{\"name\": \"nvflare\", \"request\": \"launch\", "
	  "\"program\": \"${file}.py\"}]}\n",
	  1, RUNS}},
	{DEBUG,
	 {UNCLEAR,
	  "{\"configurations\": [{\"name\": \"nvflare\", \"request\": \"launch\", "
	  "\"module\": \"jobs.a\"}, {\"request\": \"launch\", \"module\": \"pytest\"}]}\n",
	  1, RUNS}},
	{DEBUG,
	 {UNCLEAR,
	  "{\"configurations\": [{\"request\": \"launch\", \"module\": \"nvflare.cli\", "
	  "\"args\": [\"simulator\", \"job\"]}]}\n",
	  1, RUNS}},
	{"run", {UNCLEAR, "#!/command/execlineb -P\n" RUN "\n", 1, "not read"}},
	{"run.sh", {UNCLEAR, "#!/usr/bin/env -S fish -l\n" RUN "\n", 1, "not read"}},
	{"run", {UNCLEAR, "#!/usr/bin/perl\nprint 'x';\n# bash\n", 0, NULL}},
	{"run", {UNSET, "#!/usr/bin/env -S bash -e\n" RUN "\n", 1, NULL}},
	{"x.nomad", {UNCLEAR, "task \"a\" { command = \"" RUN "\" }\n", 1, "not read"}},
	{"package.json",
	 {UNCLEAR, "{\"scripts\": {\"fl\": \"" RUN "\", \"b\": \"vite\"}}\n", 1, RUNS}},
	{"package.json",
	 {UNCLEAR, "{\"name\": \"nvflare-page\", \"scripts\": {\"b\": \"vite\"}}\n", 0, NULL}},
	/* TOML */
	{"pyproject.toml", {UNCLEAR, NEEDS "[tool.poe.tasks]\nfl = \"" RUN "\"\n", 1, RUNS}},
	{"pyproject.toml",
	 {UNCLEAR, NEEDS "[tool.poe.tasks.fl]\ncmd = \"python job.py\"\n", 1, RUNS}},
	{"pyproject.toml",
	 {UNCLEAR, NEEDS "[tool.poe.tasks]\na = [{cmd = \"ruff .\"}, {shell = \"" RUN "\"}]\n", 1,
	  RUNS}},
	{"pyproject.toml",
	 {UNCLEAR, NEEDS "[tool.hatch.envs.a.scripts]\nfl = \"python -m jobs.a\"\n", 1, RUNS}},
	{"pyproject.toml",
	 {UNCLEAR,
	  NEEDS "description = \"" RUN " with python x.py\"\n[project.scripts]\na = \"b.c:main\"\n"
		"[tool.poe.tasks]\nfmt = \"ruff .\"\nt = \"python -m pip list\"\n",
	  0, NULL}},
	{"pyproject.toml",
	 {"FLWR-LAUNCH-CANNOT-TELL",
	  "[project]\ndependencies = [\"flwr\"]\n[tool.poe.tasks]\na = \"flwr run .\"\n", 1, NULL}},
	{"pixi.toml", {UNCLEAR, "[tasks]\nfl = {cmd = \"" RUN "\", env = {A = \"1\"}}\n", 1, RUNS}},
	{"Pipfile",
	 {UNCLEAR, "[scripts]\nfl = \"" RUN "\"\n[packages]\nnvflare = \"*\"\n", 1, RUNS}},
	/* a module that is named in a text */
	{"compose.yaml",
	 {UNCLEAR, "# nvflare\nservices: {a: {image: b, command: python3 -m jobs.a}}\n", 1,
	  "it runs Python"}},
	{"run.sh", {UNCLEAR, "# nvflare\nbash -c 'python3 -m jobs.a'\n", 1, "it runs Python"}},
	/* shell scripts without a first line that names the shell */
	{"run.bash", {UNSET, "MALLOC_ARENA_MAX=2\n" CLIENT, 1, "without exporting it"}},
	{"run.pbs", {UNSET, SET CLIENT, 0, NULL}},
};

static void commands_of_documents_are_read(void **state)
{
	(void)state;
	assert_true(files_are_right(files, FLMEM_ARRAY_SIZE(files)));
}

/* Checks a file that is named, and expects so many findings of a rule and so many problems. */
static void check_named(const char *text, const char *rule, size_t hits, size_t problems)
{
	FLMEM_AUTO_BUF struct flmem_buf path = FLMEM_BUF_INIT;
	struct flmem_recommendations found = {0};
	const struct flmem_finding *last;
	struct tree tree;

	tree_init(&tree);
	tree_puts(&tree, "run_job", text);
	flmem_buf_printf(&path, "%s/run_job", tree.path);
	assert_int_equal(flmem_recommend(&(const char *){path.data}, 1, NULL, &found, NULL), 0);
	if (findings_of(&found, rule, &last) != hits || found.problem_count != problems)
		fail_msg("not %zu findings %s and %zu problems on:\n%s", hits, rule, problems,
			 text);
	flmem_recommendations_clear(&found);
	tree_clear(&tree);
}

/* A file in UTF-16, as Windows writes it, is found to be about a framework, and refused. */
static void text_in_utf_16_is_refused(void **state)
{
	static const char ascii[] = "nvflare simulator job\r\n";
	struct flmem_recommendations found = {0};
	struct tree tree;
	const char *path;
	FLMEM_AUTO_FREE char *file = NULL;
	FILE *out;

	(void)state;
	tree_init(&tree);
	path = tree.path;
	assert_true(asprintf(&file, "%s/run.ps1", path) > 0);
	out = fopen(file, "wb");
	assert_non_null(out);
	fwrite("\xff\xfe", 1, 2, out);
	for (size_t i = 0; ascii[i]; i++)
		fwrite(&(char[]){ascii[i], 0}, 1, 2, out);
	assert_int_equal(fclose(out), 0);
	assert_int_equal(flmem_recommend(&path, 1, NULL, &found, NULL), 0);
	assert_int_equal(found.problem_count, 1);
	assert_non_null(strstr(found.problems[0].message, "not UTF-8"));
	flmem_recommendations_clear(&found);
	tree_clear(&tree);
}

static void a_named_script_is_known_by_its_words(void **state)
{
	(void)state;
	check_named(CLIENT, UNSET, 1, 0);
	check_named(SET CLIENT, UNSET, 0, 0);
	check_named("MALLOC_ARENA_MAX=2\n" CLIENT, UNSET, 1, 0);
	check_named("from nvflare.app_opt.pt.recipes import FedAvgRecipe as R\nR()\n",
		    "NVF-CLI-GC-OFF", 1, 0);
	check_named("a text about nothing\n", UNSET, 0, 1);
	check_named("import os\n", UNSET, 0, 1);
	check_named("", UNSET, 0, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(commands_of_documents_are_read),
		cmocka_unit_test(a_named_script_is_known_by_its_words),
		cmocka_unit_test(text_in_utf_16_is_refused),
	};

	return cmocka_run_group_tests_name("launch_tasks", tests, NULL, NULL);
}
