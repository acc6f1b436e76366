/* SPDX-License-Identifier: Apache-2.0 */
/* Tests reports of kills in the kernel's log, as captured and as other kernels write them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include <flmem/recommend.h>

#include "base/cleanup.h"
#include "base/files/io.h"
#include "findings.h"
#include "proc/limits/oom_log.h"
#include "rules/oom_rules.h"

#define KB   1024U
#define NONE UINT64_MAX

struct log_case {
	const char *file;
	size_t kills;
	unsigned line;
	pid_t pid;
	const char *name;
	bool of_group;
	const char *group;
	uint64_t anon_kb, file_kb, shmem_kb, usage_kb, limit_kb; /* NONE: unknown */
	uint64_t tasks, share;
};

static const struct log_case cases[] = {
	{"linux-6.18-anonymous.txt", 1, 80, 29677, "python3", true, "/flmem-fixture", 32512, 6648,
	 0, 32768, 32768, 1, 100},
	{"linux-6.18-shared.txt", 1, 87, 29764, "python3", true, "/flmem-fixture", 6784, 6648,
	 25344, 32768, 32768, 1, 100},
	{"linux-6.18-dmesg-T.txt", 1, 87, 29764, "python3", true, "/flmem-fixture", 6784, 6648,
	 25344, 32768, 32768, 1, 100},
	{"linux-4.14-group.txt", 1, 13, 4242, "python3", true, "/slurm/uid_1000/job_7", 1590000,
	 10000, 0, 2097152, 2097152, 2, 80},
	{"linux-5.10-host-two-kills.txt", 2, 17, 2100, "python (x) tot", false, "", 11990000, 10000,
	 0, NONE, NONE, 3, 43},
	{"linux-5.15-oom-group.txt", 2, 10, 601, "python3", true, "/kubepods.slice/pod-1", 790000,
	 10000, 0, 1048576, 1048576, 2, 80},
};

static void expect(const char *what, struct flmem_u64 got, uint64_t wanted, uint64_t unit)
{
	if (wanted == NONE ? !got.unknown : got.unknown || got.value != wanted * unit)
		fail_msg("%s: %s, %llu", what, got.unknown ? got.unknown : "known",
			 (unsigned long long)got.value);
}

static void read_fixture(const char *name, struct flmem_buf *text)
{
	char path[512];

	snprintf(path, sizeof(path), FIXTURES "/oom/%s", name);
	assert_int_equal(flmem_io_read_file_at(AT_FDCWD, path, 1U << 20, text), 0);
}

static void check_case(const struct log_case *row)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	const struct flmem_oom_kill *kill;
	struct flmem_oom_log log;

	read_fixture(row->file, &text);
	assert_true(flmem_oom_log_is_likely(text.data));
	assert_true(flmem_oom_log_read(text.data, &log));
	kill = &log.last;
	assert_int_equal(log.kills, row->kills);
	assert_int_equal(kill->line, row->line);
	assert_int_equal(kill->pid, row->pid);
	assert_string_equal(kill->name, row->name);
	assert_int_equal(kill->of_group, row->of_group);
	assert_string_equal(kill->group, row->group);
	expect("anon", kill->anon_bytes, row->anon_kb, KB);
	expect("file", kill->file_bytes, row->file_kb, KB);
	expect("shmem", kill->shmem_bytes, row->shmem_kb, KB);
	expect("usage", kill->usage_bytes, row->usage_kb, KB);
	expect("limit", kill->limit_bytes, row->limit_kb, KB);
	expect("tasks", kill->tasks, row->tasks, 1);
	expect("share", kill->share_percent, row->share, 1);
}

static void logs_of_all_kernels_are_read(void **state)
{
	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(cases); i++)
		check_case(&cases[i]);
}

static void what_is_no_kill_is_none(void **state)
{
	static const char *const texts[] = {
		"",
		"\n\n",
		"Killed process ",
		"Killed process 12",
		"Killed process 12 (x",
		"Killed process 12 (x total-vm:1kB",
		"Killed process 0 (x) total-vm:1kB",
		"Killed process 99999999999999999999 (x) total-vm:1kB",
		"Killed process x (x) total-vm:1kB",
		"oom_reaper: reaped process 2001 (x), now anon-rss:0kB, file-rss:0kB",
		" total-vm:1kB Killed process 12 (x)",
	};
	struct flmem_oom_log log;

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(texts); i++)
		if (flmem_oom_log_read(texts[i], &log))
			fail_msg("%s", texts[i]);
}

static void hostile_lines_are_unknown_not_wrong(void **state)
{
	static const char text[] =
		"memory: usage 99999999999999999999kB, limit 5\n"
		"[ pid ] uid tgid total_vm rss\n"
		"[ 7] 0 7 1 18446744073709551615\n"
		"[ 8] 0 8 1 18446744073709551615\n"
		"oom-kill:constraint=X,oom_memcg=/a,task=(,task_memcg=/b\n"
		"Killed process 7 (x, anon-rss:9kB) total-vm:1kB, anon-rss:18446744073709551615kB, "
		"file-rss:xkB";
	struct flmem_oom_log log;

	(void)state;
	assert_true(flmem_oom_log_read(text, &log));
	assert_string_equal(log.last.name, "x, anon-rss:9kB");
	assert_string_equal(log.last.group, "/a,task=(");
	assert_non_null(log.last.usage_bytes.unknown);
	assert_non_null(log.last.anon_bytes.unknown);
	assert_non_null(log.last.file_bytes.unknown);
	assert_non_null(log.last.shmem_bytes.unknown);
	assert_non_null(log.last.tasks.unknown);
}

/* Checks which rules find something in a fixture. */
static void check_rules(const char *file, bool shared, bool others)
{
	FLMEM_AUTO(flmem_recommendations_clear) struct flmem_recommendations found = {0};
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	const struct flmem_finding *last = NULL;
	struct flmem_oom_log log;

	read_fixture(file, &text);
	assert_true(flmem_oom_log_read(text.data, &log));
	assert_int_equal(flmem_oom_rules_run(&log, "k.log", &found, NULL), 0);
	assert_int_equal(findings_of(&found, "OOM-SHARED", &last), shared);
	assert_int_equal(findings_of(&found, "OOM-OTHERS", &last), others);
	assert_int_equal(findings_of(&found, "OOM-KILLED", &last), 1);
	if (!last)
		return;
	assert_string_equal(last->file, "k.log");
	assert_int_equal(last->line, log.last.line);
}

static void each_rule_has_what_triggers_it_and_near_misses(void **state)
{
	(void)state;
	check_rules("linux-6.18-anonymous.txt", false, false);
	check_rules("linux-6.18-shared.txt", true, false);
	check_rules("linux-4.14-group.txt", false, false); /* 80 % of two processes together */
	check_rules("linux-5.15-oom-group.txt", false, false);
	check_rules("linux-5.10-host-two-kills.txt", false, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(logs_of_all_kernels_are_read),
		cmocka_unit_test(what_is_no_kill_is_none),
		cmocka_unit_test(hostile_lines_are_unknown_not_wrong),
		cmocka_unit_test(each_rule_has_what_triggers_it_and_near_misses),
	};

	return cmocka_run_group_tests_name("oom_log", tests, NULL, NULL);
}
