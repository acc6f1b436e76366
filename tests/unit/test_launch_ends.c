/* SPDX-License-Identifier: Apache-2.0 */
/* Tests which programs an image, a unit or a container ends, with its lines in any order. */
#include "launch_rows.h"

#include "base/cleanup.h"

#define TRAIN	"nvflare.private.fed.app.client.client_train"
#define WORDS	"\"python3\", \"-m\", \"" TRAIN "\""
#define LINE	"/usr/bin/python3 -m " TRAIN "\n"
#define IMAGE	"FROM a\nENV MALLOC_ARENA_MAX=2\n"
#define UNIT	"[Service]\n"
#define SETS	"Environment=MALLOC_ARENA_MAX=2\n"
#define SERVICE "services:\n  a:\n    image: b\n    environment: {MALLOC_ARENA_MAX: 2}\n"
#define POD                                   \
	"spec:\n  containers:\n  - name: a\n" \
	"    env: [{name: MALLOC_ARENA_MAX, value: '2'}]\n"

static const struct file_row files[] = {
	/* images */
	{"Dockerfile", {UNSET, IMAGE "CMD [" WORDS "]\n", 0, NULL}},
	{"Dockerfile", {UNSET, IMAGE "ENTRYPOINT [\"env\", \"-i\", " WORDS "]\n", 1, "env -i"}},
	{"Dockerfile", {UNSET, IMAGE "ENTRYPOINT [\"env\", \"-i\"]\nCMD [" WORDS "]\n", 1, NULL}},
	{"Dockerfile",
	 {UNSET, IMAGE "ENTRYPOINT [\"env\", \"-i\", \"MALLOC_ARENA_MAX=2\"]\nCMD [" WORDS "]\n", 0,
	  NULL}},
	{"Dockerfile",
	 {UNSET,
	  "FROM a\nENTRYPOINT [\"env\", \"-u\", \"MALLOC_ARENA_MAX\"]\n"
	  "ENV MALLOC_ARENA_MAX=2\nCMD [" WORDS "]\n",
	  1, NULL}},
	{"Dockerfile", {UNSET, IMAGE "ENTRYPOINT [\"tini\", \"--\"]\nCMD [" WORDS "]\n", 0, NULL}},
	{"Dockerfile", {UNSET, IMAGE "HEALTHCHECK CMD env -i true\nCMD [" WORDS "]\n", 0, NULL}},
	{"Dockerfile",
	 {UNSET,
	  IMAGE "ENTRYPOINT [\"env\", \"-i\"]\nFROM b\n"
		"ENV MALLOC_ARENA_MAX=2\nCMD [" WORDS "]\n",
	  0, NULL}},
	/* units */
	{"a.service", {UNSET, UNIT "ExecStart=" LINE SETS, 0, NULL}},
	{"a.service", {UNSET, UNIT "ExecStart=/usr/bin/env -i " LINE SETS, 1, "env -i drops it"}},
	{"a.service", {UNSET, UNIT "ExecStart=env -i " LINE SETS, 1, NULL}},
	{"a.service",
	 {UNSET, UNIT "ExecStart=/usr/bin/env -u MALLOC_ARENA_MAX " LINE SETS, 1, NULL}},
	{"a.service", {UNSET, UNIT "ExecStart=/usr/bin/env -u TMPDIR " LINE SETS, 0, NULL}},
	{"a.service",
	 {UNSET, UNIT SETS "ExecStartPre=/usr/bin/env -i true\nExecStart=" LINE, 0, NULL}},
	{"a.service",
	 {UNSET, UNIT "UnsetEnvironment=MALLOC_ARENA_MAX\n" SETS "ExecStart=" LINE, 1, NULL}},
	{"a.service", {UNSET, UNIT "UnsetEnvironment=TMPDIR\n" SETS "ExecStart=" LINE, 0, NULL}},
	{"a.service",
	 {IGNORED, UNIT "ExecStart=/usr/bin/env MALLOC_ARENA_MAX=0 " LINE SETS, 1, NULL}},
	/* containers */
	{"compose.yaml", {UNSET, SERVICE "    command: [" WORDS "]\n", 0, NULL}},
	{"compose.yaml", {UNSET, SERVICE "    entrypoint: [env, -i, " WORDS "]\n", 1, "env -i"}},
	{"compose.yaml",
	 {UNSET, SERVICE "    entrypoint: [env, -i]\n    command: [" WORDS "]\n", 1, NULL}},
	{"compose.yaml",
	 {UNSET, SERVICE "    entrypoint: [env, A=1]\n    command: [" WORDS "]\n", 0, NULL}},
	{"compose.yaml", {UNSET, SERVICE "    entrypoint: env -i " LINE, 1, NULL}},
	{"compose.yaml",
	 {UNSET, SERVICE "    entrypoint: [/usr/bin/env, -u, MALLOC_ARENA_MAX]\n    command: " LINE,
	  1, NULL}},
	{"compose.yaml",
	 {UNSET, SERVICE "    command: [env, -i, sh, -c, 'python3 -m " TRAIN "']\n", 1, NULL}},
	{"compose.yaml",
	 {UNSET, SERVICE "    command: [sh, -c, 'unset MALLOC_ARENA_MAX; python3 -m " TRAIN "']\n",
	  1, NULL}},
	{"compose.yaml",
	 {IGNORED, SERVICE "    command: [env, MALLOC_ARENA_MAX=0, " WORDS "]\n", 1, NULL}},
	{"compose.yaml",
	 {UNCLEAR, "# nvflare\n" SERVICE "    command: [env, A=1, python3, job.py]\n", 1, NULL}},
	{"pod.yaml", {UNSET, POD "    command: [env, -i]\n    args: [" WORDS "]\n", 1, NULL}},
	{"pod.yaml", {UNSET, POD "    command: [" WORDS "]\n    args: [env, -i]\n", 0, NULL}},
};

static void what_ends_a_variable_comes_after_it(void **state)
{
	(void)state;
	assert_true(files_are_right(files, FLMEM_ARRAY_SIZE(files)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_ends_a_variable_comes_after_it),
	};

	return cmocka_run_group_tests_name("launch_ends", tests, NULL, NULL);
}
