/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests that variables which another program sets for the started processes are not reported as
 * absent.
 */
#include "base/cleanup.h"
#include "launch_rows.h"

#define BAD    "MALLOC_ARENA_MAX=abc"
#define WRAPS  "runs it, which may set variables"
#define LOADS  "sets variables from elsewhere"
#define HOLDS  "a variable holds what runs it"
#define ANY    "by another command"
#define PIECES "in a function or under a condition"

/* Each of these is a doubt, and no finding that the variable is absent. */
static const struct row wrapped[] = {
	{UNCLEAR, "E=" BAD "\nenv $E " CLIENT, 1, ANY},
	{UNCLEAR, "E=(" BAD ")\nenv \"${E[@]}\" " CLIENT, 1, ANY},
	{UNCLEAR, "env \"$@\" " CLIENT, 1, ANY},
	{UNCLEAR, "P='env A=1'\n$P " CLIENT, 1, HOLDS},
	{UNCLEAR, "$P nvflare simulator job\n", 1, HOLDS},
	{UNCLEAR, "P=(env " BAD ")\n\"${P[@]}\" " CLIENT, 1, HOLDS},
	{UNCLEAR, "run() { " BAD " \"$@\"; }\nrun " CLIENT, 1, PIECES},
	{UNCLEAR, "run() { env " BAD " \"$@\"; }\nrun " CLIENT, 1, PIECES},
	{UNCLEAR, "function run {\n  " BAD " exec ${@:2}\n}\nrun 1 " CLIENT, 1, PIECES},
	{UNCLEAR, "run() { " CLIENT "}\n" BAD " run\n", 1, PIECES},
	{UNCLEAR, "function run {\n" CLIENT "}\n" BAD " run\n", 1, PIECES},
	{UNCLEAR, "x=1\nfunction run\n{\n" CLIENT "}\n" BAD " run\n", 1, PIECES},
	{UNCLEAR, "export $N=4\n" CLIENT, 1, ANY},
	{UNCLEAR, "export \"${N}=4\"\n" CLIENT, 1, ANY},
	{UNCLEAR, "while IFS== read -r k v; do export \"$k=$v\"; done <a.env\n" CLIENT, 1, ANY},
	{UNCLEAR, "declare -x \"$k=$v\"\n" CLIENT, 1, ANY},
	{UNCLEAR, "eval $(./settings)\n" CLIENT, 1, ANY},
	{UNCLEAR, "eval `./settings`\n" CLIENT, 1, ANY},
	{UNCLEAR, "eval \"$S\"\n" CLIENT, 1, ANY},
	{UNCLEAR, "eval \"export " BAD "\"\n" CLIENT, 1, "in quotes"},
	{UNCLEAR, "eval \"export $N=4\"\n" CLIENT, 1, ANY},
	{UNCLEAR, "C=(nvflare simulator job)\nexport " BAD "\n\"${C[@]}\"\n", 1, "an array"},
	{UNCLEAR, "local C=( nvflare simulator job )\n" BAD " \"${C[@]}\"\n", 1, "an array"},
	{UNCLEAR, "./wrap.sh " CLIENT, 1, WRAPS},
	{UNCLEAR, "bash wrap.sh " CLIENT, 1, WRAPS},
	{UNCLEAR, "srun /opt/wrap.sh " CLIENT, 1, WRAPS},
	{UNCLEAR, "xargs -a a.env env " CLIENT, 1, "by another command"},
	{UNCLEAR, "dotenv -f a.env run -- " CLIENT, 1, LOADS},
	{UNCLEAR, "chpst -e ./env " CLIENT, 1, LOADS},
	{UNCLEAR, "pipenv run " CLIENT, 1, LOADS},
};

static const struct row plain_commands[] = {
	{UNSET, "C='nvflare simulator job'\neval \"$C\"\neval ${C}\n", 2, NULL},
	{UNSET, "pipenv install\n" CLIENT, 1, NULL},
	{UNSET, "A=(1 $(date))\n" CLIENT, 1, NULL},
	{UNSET, "./setup.sh\n" CLIENT, 1, NULL},
	{UNSET, "pkill -f wrap.sh; " CLIENT, 1, NULL},
	{UNSET, "docker run -v a.sh:/a.sh image " CLIENT, 1, NULL},
	{UNSET, "env -C \"$D\" " CLIENT, 1, NULL},
	{UNSET, "env -u \"$D\" A=1 " CLIENT, 1, NULL},
	{UNSET, "$PYTHON -m nvflare.private.fed.app.client.client_train -m ws\n", 1, NULL},
	{UNSET, "$NVFLARE simulator job\n", 0, NULL},
	{UNSET, "export PATH=$HOME/bin:$PATH\n" CLIENT, 1, NULL},
	{UNSET, "run() { \"$@\"; }\nrun " CLIENT, 1, NULL},
	{UNSET, "MALLOC_ARENA_MAX=2\n" CLIENT, 1, NULL},
	{UNSET, "MALLOC_ARENA_MAX=2 ./other \"$@\"\n" CLIENT, 1, NULL},
	{UNSET, "runner() { true; }\nMALLOC_ARENA_MAX=2 run\n" CLIENT, 1, NULL},
	{UNSET, "function runner { true; }\nMALLOC_ARENA_MAX=2 run\n" CLIENT, 1, NULL},
	{UNCLEAR, "function runner { true; }\nMALLOC_ARENA_MAX=2 run\n" CLIENT, 0, NULL},
	{UNCLEAR, "# function run_it, function-run\nMALLOC_ARENA_MAX=2 run\n" CLIENT, 0, NULL},
	{UNCLEAR, "eval $(flmem env --role client)\n" CLIENT, 0, NULL},
	{UNCLEAR, SET "$PYTHON -m nvflare.private.fed.app.client.client_train -m ws\n", 0, NULL},
};

static void what_a_command_does_not_show_is_a_doubt(void **state)
{
	bool right = true;

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(wrapped); i++) {
		const struct row unset = {.rule = UNSET, .text = wrapped[i].text};

		right &= row_is_right("run.sh", &wrapped[i]);
		right &= row_is_right("run.sh", &unset);
	}
	assert_true(right);
}

static void other_commands_are_none(void **state)
{
	(void)state;
	assert_true(scripts_are_right(plain_commands, FLMEM_ARRAY_SIZE(plain_commands)));
}

static void units_run_scripts_too(void **state)
{
	static const char unit[] = "[Service]\nExecStart=/opt/wrap.sh /usr/bin/" CLIENT;
	const struct row doubt = {UNCLEAR, unit, 1, WRAPS}, unset = {UNSET, unit, 0, NULL};

	(void)state;
	assert_true(row_is_right("a.service", &doubt));
	assert_true(row_is_right("a.service", &unset));
}

#define SERVICE(value)                                        \
	"services:\n  a:\n    image: x\n    command: " CLIENT \
	"    environment:\n      MALLOC_ARENA_MAX: 2\n"       \
	"      NVFLARE_CUDA_EMPTY_CACHE: " value "\n"

/* Compose passes on "yes", which YAML 1.1 reads as true. */
static void booleans_of_yaml_may_be_texts(void **state)
{
	static const struct file_row rows[] = {
		{"compose.yaml", {UNCLEAR, SERVICE("yes"), 1, "only when the file runs"}},
		{"compose.yaml", {UNCLEAR, SERVICE("Off"), 1, "only when the file runs"}},
		{"compose.yaml", {UNCLEAR, SERVICE("true"), 0, NULL}},
		{"compose.yaml", {"NVF-ENV-CUDA-LITERAL", SERVICE("'yes'"), 1, NULL}},
		{"compose.yaml", {"NVF-ENV-CUDA-LITERAL", SERVICE("true"), 0, NULL}},
	};

	(void)state;
	assert_true(files_are_right(rows, FLMEM_ARRAY_SIZE(rows)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_command_does_not_show_is_a_doubt),
		cmocka_unit_test(other_commands_are_none),
		cmocka_unit_test(units_run_scripts_too),
		cmocka_unit_test(booleans_of_yaml_may_be_texts),
	};

	return cmocka_run_group_tests_name("launch_wrappers", tests, NULL, NULL);
}
