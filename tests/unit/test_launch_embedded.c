/* SPDX-License-Identifier: Apache-2.0 */
/* Tests files that are a text inside of another: in a ConfigMap, a heredoc of a Dockerfile. */
#include "launch_rows.h"

#define MAP	 "kind: ConfigMap\ndata:\n"
#define IMPORTED "    from nvflare.recipe import SimEnv\n"
#define CLASS	 "    {\"path\": \"nvflare.app_common.workflows.fedavg.FedAvg\"}\n"
#define OTHER	 "the text of another file"
#define POD	 "spec:\n  containers:\n  - command: [nvflare, simulator, j]\n---\n"
#define IMAGE	 "FROM a\n"
#define RUNS	 "ENTRYPOINT " CLIENT

static const struct file_row files[] = {
	/* entries of a ConfigMap, alone and after a pod */
	{"map.yaml", {UNCLEAR, MAP "  job.py: |\n" IMPORTED, 1, OTHER}},
	{"map.yaml", {UNCLEAR, MAP "  config_fed_server.json: |\n" CLASS, 1, OTHER}},
	{"map.yaml",
	 {UNCLEAR,
	  MAP "  config_fed_server.yml: |\n    path: nvflare.app_common.workflows.fedavg.FedAvg\n",
	  1, OTHER}},
	{"pod.yaml", {UNCLEAR, POD MAP "  job.py: |\n" IMPORTED, 1, OTHER}},
	{"map.json",
	 {UNCLEAR, "{\"data\": {\"job.py\": \"import nvflare.recipe\\nx\"}}\n", 1, OTHER}},
	{"user.yaml",
	 {UNCLEAR, "write_files:\n- path: /w/job.py\n  content: |\n" IMPORTED, 1, OTHER}},
	{"compose.yaml", {UNCLEAR, "configs:\n  job.py:\n   content: |\n" IMPORTED, 1, OTHER}},
	/* what is no such file, or about no class */
	{"map.yaml", {UNCLEAR, POD MAP "  notes.txt: |\n" IMPORTED, 0, NULL}},
	{"map.yaml", {UNCLEAR, POD MAP "  job.py: |\n    import numpy # nvflare.py\n", 0, NULL}},
	{"map.yaml",
	 {UNCLEAR, POD MAP "  a.json: |\n    {\"server\": \"nvflare.example.com\"}\n", 0, NULL}},
	{"map.yaml", {UNCLEAR, POD MAP "  path: job.py\n  nvflare: simulator\n", 0, NULL}},

	/* heredocs of an image: what they set holds for the commands in them */
	{"Dockerfile", {UNSET, IMAGE "RUN <<EOF\n" SET "EOF\n" RUNS, 1, NULL}},
	{"Dockerfile", {UNSET, IMAGE "RUN a && <<-'EOF' sh\n" SET "\tEOF\n" RUNS, 1, NULL}},
	{"Dockerfile", {UNSET, IMAGE "COPY <<EOF /etc/profile\n" SET "EOF\n" RUNS, 1, NULL}},
	{"Dockerfile", {UNSET, IMAGE "COPY <<EOF /a.sh\n" CLIENT "EOF\n", 1, NULL}},
	{"Dockerfile", {UNSET, IMAGE "COPY <<EOF /a.sh\n" SET CLIENT "EOF\n", 0, NULL}},
	{"Dockerfile", {UNSET, IMAGE "ADD <<A <<B /\n" SET "A\n" SET "B\n" RUNS, 1, NULL}},
	{"Dockerfile", {UNSET, IMAGE "RUN <<EOF\nx\nEOF\nENV MALLOC_ARENA_MAX=2\n" RUNS, 0, NULL}},
};

static void what_is_in_other_files_is_not_silent(void **state)
{
	bool right = true;

	(void)state;
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
		right &= row_is_right(files[i].file, &files[i].row);
	assert_true(right);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_in_other_files_is_not_silent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
