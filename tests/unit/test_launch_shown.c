/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests what findings show of notebooks and of files that flmem does not read: the user's own text.
 */
#include "launch_rows.h"

#include "base/cleanup.h"

#define CELLS(code)                                                                           \
	"{\"cells\": [{\"cell_type\": \"code\", \"source\": [" code "]}], \"metadata\": {}, " \
	"\"nbformat\": 4, \"nbformat_minor\": 5}"
#define ENVIRON "NVF-ENVIRON-CANNOT-TELL"

struct shown_row {
	const char *file, *text, *rule, *path, *current;
	unsigned line;
};

static const struct shown_row shown_rows[] = {
	{"Makefile", "\n\nrun:\n\tnvflare simulator j \n", UNCLEAR, "environment",
	 "nvflare simulator j", 4},
	{"Makefile", "export MALLOC_ARENA_MAX = 2\nrun:\n\tnvflare simulator j\n", UNCLEAR,
	 "environment", "export MALLOC_ARENA_MAX = 2", 1},
	{"a.sub", "executable = nvflare\r\narguments = simulator j\r\nqueue\r\n", UNCLEAR,
	 "environment", "executable = nvflare", 1},
	{"a.fish", "\n  nvflare \\\n simulator j\n", UNCLEAR, "environment", "nvflare \\", 2},
	{"run.sh", "\r\n  nvflare simulator j\r\n", UNCLEAR, "environment", "nvflare simulator j",
	 2},
	/* notebooks: the user's line, not the Python that it is read as */
	{"a.ipynb", CELLS("\"!nvflare simulator j -w ws\""), ENVIRON, "command",
	 "nvflare simulator j -w ws", 1},
	{"a.ipynb", CELLS("\"x = !nvflare simulator j\""), ENVIRON, "command",
	 "nvflare simulator j", 1},
	{"a.ipynb", CELLS("\"%%bash\\n\",\n\"nvflare simulator j\""), ENVIRON, "command",
	 "nvflare simulator j", 2},
	{"a.ipynb", CELLS("\"!nvflare simulator \\\"j\\\"\""), ENVIRON, "command",
	 "nvflare simulator \"j\"", 1},
	{"a.ipynb", CELLS("\"!echo \\\"\\\"\\\"x\\\"\\\"\\\"; nvflare simulator j\""), ENVIRON,
	 "command", "echo '\"\"x'\"\"; nvflare simulator j", 1},
	{"a.ipynb", CELLS("\"!nvflare \\\\\\n\",\n\"  simulator j\\n\", \"1\""), ENVIRON, "command",
	 "nvflare \n  simulator j", 1},
	{"a.ipynb", CELLS("\"!nvflare simulator j \\\\\""), ENVIRON, "command",
	 "nvflare simulator j", 1},
	{"a.ipynb", CELLS("\"import nvflare\\n\",\n\"%run job.py\""), "NVF-IMPORTED-BY-NAME",
	 "command", "%run job.py", 2},
	{"a.ipynb", CELLS("\"import nvflare\\n\", \"%dotenv\""), ENVIRON, "command", "%dotenv", 1},
	{"a.ipynb", CELLS("\"!flwr run .\""), "FLWR-LAUNCH-CANNOT-TELL", "command", "flwr run .",
	 1},
};

static void check_shown(const struct shown_row *row)
{
	struct flmem_recommendations found = {0};
	const struct flmem_finding *last;
	struct tree tree;
	const char *path;

	tree_init(&tree);
	path = tree.path;
	tree_puts(&tree, row->file, row->text);
	assert_int_equal(flmem_recommend(&path, 1, NULL, &found, NULL), 0);
	if (!findings_of(&found, row->rule, &last))
		fail_msg("no %s on:\n%s", row->rule, row->text);
	assert_string_equal(last->path, row->path);
	assert_string_equal(last->current, row->current);
	assert_int_equal(last->line, row->line);
	flmem_recommendations_clear(&found);
	tree_clear(&tree);
}

static void findings_show_what_was_written(void **state)
{
	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(shown_rows); i++)
		check_shown(&shown_rows[i]);
}

#define DOCKER_ENV "name: nvflare\ndocker_env:\n  image: mine\n  environment: "

static const struct file_row other_rows[] = {
	{".envrc", {IGNORED, "# nvflare\nexport MALLOC_ARENA_MAX=0\n", 1, NULL}},
	/* MLproject: pairs, and names whose values are those of the host */
	{"MLproject",
	 {UNCLEAR, DOCKER_ENV "[[MALLOC_ARENA_MAX, '2'], [A, b]]\n", 1, "which program"}},
	{"MLproject", {IGNORED, DOCKER_ENV "[[MALLOC_ARENA_MAX, '0']]\n", 1, NULL}},
	{"MLproject", {IGNORED, DOCKER_ENV "[[MALLOC_ARENA_MAX, 2]]\n", 0, NULL}},
	{"MLproject", {UNCLEAR, DOCKER_ENV "[MALLOC_ARENA_MAX, TMPDIR]\n", 2, NULL}},
	{"MLproject",
	 {UNSET,
	  DOCKER_ENV
	  "[[MALLOC_ARENA_MAX, '2']]\nentry_points: {main: {command: nvflare simulator j}}\n",
	  0, NULL}},
	{"MLproject",
	 {UNSET, "docker_env: {image: x}\nentry_points: {main: {command: nvflare simulator j}}\n",
	  1, NULL}},
	{"MLproject",
	 {IGNORED,
	  "docker_env: {image: 'flwr/superlink:1', environment: [[MALLOC_ARENA_MAX, '0']]}\n", 1,
	  NULL}},
	/* names of hosts and files are not modules */
	{"a.j2", {UNCLEAR, "server_name \"nvflare.com\";\n", 0, NULL}},
	{"a.tmpl",
	 {UNCLEAR, "log: 'nvflare.log'\nurl: \"nvflare.readthedocs.io/{{ page }}\"\n", 0, NULL}},
	{"a.j2", {"FLWR-LAUNCH-CANNOT-TELL", "x \"flwr.ai\" 'flwr.my-cluster'\n", 0, NULL}},
	{"a.j2", {UNCLEAR, "path: \"nvflare.app_common.workflows.fedavg.FedAvg\"\n", 1, NULL}},
	{"a.j2", {UNCLEAR, "module: 'nvflare.client'\n", 1, NULL}},
	{"a.j2", {UNCLEAR, "from nvflare.client import send\n", 1, NULL}},
};

static void pairs_and_hosts_are_what_they_are(void **state)
{
	(void)state;
	assert_true(files_are_right(other_rows, FLMEM_ARRAY_SIZE(other_rows)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(findings_show_what_was_written),
		cmocka_unit_test(pairs_and_hosts_are_what_they_are),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
