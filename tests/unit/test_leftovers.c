/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests directories that killed processes left behind: their size, and whether a process may use
 * them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "ops/recommend/leftover_owner.h"
#include "proc/files/leftovers.h"

#include "tree.h"

#define PREFIX	  "nvflare_tensor_offload_"
#define JOB	  "0f8fad5b-d9cb-469f-a165-70867728950e"
#define OF_JOB	  PREFIX JOB "_ab12cd_9"
#define SIMULATED PREFIX "simulate_job_zz__zz01"
#define TENSORS	  "/nvflare_tensors_q/0.safetensors"
#define LATER	  UINT64_C(60000000)

static void find(const struct tree *tree, struct flmem_leftovers *found)
{
	flmem_leftovers_find(tree->fd, PREFIX, flmem_clock_us() + LATER, found);
}

static void sizes_are_of_the_regular_files_alone(void **state)
{
	static char block[8192];
	const struct tree *tree = *state;
	struct flmem_leftovers found;

	memset(block, 'x', sizeof(block));
	tree_write(tree, OF_JOB TENSORS, block, sizeof(block));
	tree_write(tree, OF_JOB "/a", block, sizeof(block));
	tree_write(tree, "outside/big", block, sizeof(block));
	assert_int_equal(symlinkat("../outside", tree->fd, OF_JOB "/link"), 0);
	assert_int_equal(mkfifoat(tree->fd, OF_JOB "/pipe", 0600), 0);
	find(tree, &found);
	assert_int_equal(found.count, 1);
	assert_false(found.more);
	assert_string_equal(found.rows[0].name, OF_JOB);
	assert_int_equal(found.rows[0].uid, geteuid());
	assert_int_equal(found.rows[0].files, 2);
	assert_true(found.rows[0].bytes >= 2 * sizeof(block));
	assert_true(found.rows[0].bytes < 6 * sizeof(block));
	assert_false(found.rows[0].partly);
}

static void hostile_names_are_left_out(void **state)
{
	const struct tree *tree = *state;
	struct flmem_leftovers found;
	char name[256] = PREFIX;

	tree_puts(tree, PREFIX "; rm -r x/a", "x");
	tree_puts(tree, PREFIX "\033[2J/a", "x");
	tree_puts(tree, PREFIX "file", "no directory");
	tree_puts(tree, "other/a", "x");
	assert_int_equal(symlinkat("other", tree->fd, SIMULATED), 0);
	memset(name + strlen(PREFIX), 'x', 200);
	assert_int_equal(mkdirat(tree->fd, name, 0700), 0);
	find(tree, &found);
	assert_int_equal(found.count, 0);
	assert_false(found.more);
}

static void many_and_deep_ones_are_cut(void **state)
{
	const struct tree *tree = *state;
	struct flmem_leftovers found;
	char name[128];

	tree_puts(tree, PREFIX "deep/1/2/3/4/5/6/7/8/9/a", "x");
	find(tree, &found);
	assert_int_equal(found.count, 1);
	assert_true(found.rows[0].partly);
	assert_int_equal(found.rows[0].files, 0);
	for (unsigned i = 0; i <= FLMEM_LEFTOVERS_MAX; i++) {
		snprintf(name, sizeof(name), PREFIX "%u/a", i);
		tree_puts(tree, name, "x");
	}
	find(tree, &found);
	assert_int_equal(found.count, FLMEM_LEFTOVERS_MAX);
	assert_true(found.more);
	flmem_leftovers_find(tree->fd, PREFIX, 0, &found);
	assert_true(found.more);
	assert_int_equal(found.count, 0);
}

/* A process of a captured /proc; NULs of the command line are written as "|". */
struct fake {
	int pid;
	const char *command;
	const char *maps; /* text of the file maps; NULL: not readable */
	const char *open; /* target of a descriptor that it has open */
	uint64_t start_ticks;
	unsigned other_user;
};

static void put_fake(const struct tree *tree, const struct fake *fake)
{
	char path[64], text[512];
	unsigned uid = (unsigned)geteuid() + fake->other_user;

	snprintf(path, sizeof(path), "proc/%d/stat", fake->pid);
	snprintf(text, sizeof(text),
		 "%d (x) S 1 1 1 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 %llu 0 0\n", fake->pid,
		 (unsigned long long)fake->start_ticks);
	tree_puts(tree, path, text);
	snprintf(path, sizeof(path), "proc/%d/status", fake->pid);
	snprintf(text, sizeof(text), "Name:\tx\nState:\tS (sleeping)\nUid:\t%u\t%u\t%u\t%u\n", uid,
		 uid, uid, uid);
	tree_puts(tree, path, text);
	snprintf(path, sizeof(path), "proc/%d/cmdline", fake->pid);
	snprintf(text, sizeof(text), "%s|", fake->command);
	for (char *p = text; (p = strchr(p, '|')); *p++ = '\0')
		;
	tree_write(tree, path, text, strlen(fake->command) + 1);
	if (!fake->maps) {
		/* A directory in place of the file stands for one that cannot be read. */
		snprintf(path, sizeof(path), "proc/%d/maps/x", fake->pid);
		tree_puts(tree, path, "");
	} else {
		snprintf(path, sizeof(path), "proc/%d/maps", fake->pid);
		tree_puts(tree, path, fake->maps);
	}
	snprintf(path, sizeof(path), "proc/%d/cwd", fake->pid);
	assert_int_equal(symlinkat("/", tree->fd, path), 0);
	snprintf(path, sizeof(path), "proc/%d/fd/0", fake->pid);
	tree_puts(tree, path, "");
	snprintf(path, sizeof(path), "proc/%d/fd/3", fake->pid);
	if (fake->open)
		assert_int_equal(symlinkat(fake->open, tree->fd, path), 0);
}

static struct flmem_leftover_owner owner_of(const struct tree *tree, const char *name,
					    uint64_t deadline_us)
{
	const struct flmem_leftover_row *row =
		flmem_framework_ops_of(FLMEM_FRAMEWORK_NVFLARE)->leftover;
	struct flmem_leftover_owner owners[FLMEM_LEFTOVERS_MAX];
	struct flmem_leftovers leftovers = {.count = 1};
	int proc = openat(tree->fd, "proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	snprintf(leftovers.rows[0].name, sizeof(leftovers.rows[0].name), "%s", name);
	leftovers.rows[0].uid = geteuid();
	leftovers.rows[0].created_s = flmem_clock_wall_us() / 1000000;
	flmem_leftover_owners_find(proc, &leftovers, row, deadline_us, owners);
	close(proc);
	return owners[0];
}

#define RUNNER	  "python3|-m|nvflare.private.fed.app.server.runner_process|-m|/ws|-n|"
#define PARENT	  "python3|-m|nvflare.private.fed.app.server.server_train|-m|/ws"
#define WORKER	  "python3|-m|nvflare.private.fed.app.simulator.simulator_worker|--client|a"
#define OTHER_ID  "11111111-d9cb-469f-a165-70867728950e"
#define OF_PYTHON "1-2 r-xp 0 08:01 7 /usr/bin/python3.11\n"
#define OF_SHELL  "1-2 r-xp 0 08:01 7 /bin/sh\n"
#define MAPPED	  "1-2 r--s 0 08:01 7 /tmp/" OF_JOB TENSORS "\n"

#define OF(id) PREFIX id "_ab12cd_9"
#define PYTHON_JOB                                             \
	{                                                      \
		.command = "python3|job.py", .maps = OF_PYTHON \
	}

enum answer {
	FREE,
	USED,
	UNKNOWN
};

static const struct owner_case {
	const char *name;
	struct fake process;
	enum answer answer;
} cases[] = {
	{OF_JOB, {.command = "sh", .maps = OF_SHELL}, FREE},
	{OF_JOB, {.command = RUNNER JOB, .maps = OF_PYTHON}, USED},
	{OF_JOB, {.command = RUNNER OTHER_ID, .maps = OF_PYTHON}, FREE},
	{OF_JOB, {.command = PARENT, .maps = OF_PYTHON}, FREE},
	{OF_JOB, {.command = "python3|job.py", .maps = OF_PYTHON}, FREE},
	/* a name that is almost the id of a job */
	{OF("0f8fad5bad9cb-469f-a165-70867728950e"), PYTHON_JOB, UNKNOWN},
	{OF("0f8fad5b-d9cba469f-a165-70867728950e"), PYTHON_JOB, UNKNOWN},
	{OF("0f8fad5b-d9cb-469faa165-70867728950e"), PYTHON_JOB, UNKNOWN},
	{OF("0f8fad5b-d9cb-469f-a165a70867728950e"), PYTHON_JOB, UNKNOWN},
	{OF("0f8fad5b-d9cb-469f-a165-70867728950g"), PYTHON_JOB, UNKNOWN},
	{OF("0f8fad5b-d9cb-469f-a165-70867728950"), PYTHON_JOB, UNKNOWN},
	{OF("0f8fad5b-d9cb-469f-a165-70867728950ez"), PYTHON_JOB, UNKNOWN},
	{OF("0F8FAD5B-D9CB-469F-A165-70867728950E"), PYTHON_JOB, FREE},
	{OF_JOB, {.command = "sh", .maps = MAPPED}, USED},
	{OF_JOB, {.command = "sh", .maps = OF_SHELL, .open = "/x/" OF_JOB "/a"}, USED},
	{OF_JOB, {.command = "sh", .maps = NULL}, FREE},
	{OF_JOB, {.command = RUNNER JOB, .maps = NULL}, USED},
	{SIMULATED, {.command = "sh", .maps = OF_SHELL}, FREE},
	{SIMULATED, {.command = PARENT, .maps = OF_PYTHON}, FREE},
	{SIMULATED, {.command = WORKER, .maps = OF_PYTHON}, UNKNOWN},
	{SIMULATED, {.command = "python3|job.py", .maps = OF_PYTHON}, UNKNOWN},
	{SIMULATED, {.command = "sh", .maps = NULL}, UNKNOWN},
	{SIMULATED, {.command = "sh", .maps = NULL, .start_ticks = UINT64_MAX / 200}, FREE},
	{SIMULATED,
	 {.command = "python3|job.py", .maps = OF_PYTHON, .start_ticks = UINT64_MAX / 200},
	 FREE},
	{SIMULATED, {.command = "python3|job.py", .maps = OF_PYTHON, .other_user = 1}, FREE},
	{SIMULATED,
	 {.command = "sh", .maps = OF_SHELL, .open = "/tmp/" SIMULATED, .start_ticks = 1},
	 USED},
};

static void owners_are_distinguished_from_bystanders(void **state)
{
	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(cases); i++) {
		struct fake process = cases[i].process;
		struct flmem_leftover_owner owner;
		struct tree tree;
		enum answer answer;

		process.pid = 4711;
		tree_init(&tree);
		put_fake(&tree, &process);
		owner = owner_of(&tree, cases[i].name, flmem_clock_us() + LATER);
		tree_clear(&tree);
		answer = owner.used ? USED : owner.why ? UNKNOWN : FREE;
		if (answer != cases[i].answer)
			fail_msg("case %zu: %d, not %d (%s)", i, answer, cases[i].answer,
				 owner.why ? owner.why : "");
		assert_int_equal(owner.pid, answer == FREE ? 0 : 4711);
	}
}

static void no_time_and_no_list_are_no_answer(void **state)
{
	struct tree *tree = *state;
	struct fake process = {.pid = 12, .command = "sh", .maps = OF_SHELL};

	assert_non_null(owner_of(tree, OF_JOB, flmem_clock_us() + LATER).why);
	put_fake(tree, &process);
	assert_null(owner_of(tree, OF_JOB, flmem_clock_us() + LATER).why);
	assert_non_null(owner_of(tree, OF_JOB, 0).why);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(sizes_are_of_the_regular_files_alone, tree_setup,
						tree_teardown),
		cmocka_unit_test_setup_teardown(hostile_names_are_left_out, tree_setup,
						tree_teardown),
		cmocka_unit_test_setup_teardown(many_and_deep_ones_are_cut, tree_setup,
						tree_teardown),
		cmocka_unit_test(owners_are_distinguished_from_bystanders),
		cmocka_unit_test_setup_teardown(no_time_and_no_list_are_no_answer, tree_setup,
						tree_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
