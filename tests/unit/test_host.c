/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <flmem/report.h>

#include "base/cleanup.h"
#include "proc/host_facts.h"

static const struct flmem_feature *find_feature(const struct flmem_host_report *report,
						const char *name)
{
	for (size_t i = 0; i < report->feature_count; i++)
		if (strcmp(report->features[i].name, name) == 0)
			return &report->features[i];
	return NULL;
}

static void the_report_is_complete(void **state)
{
	/* The rows of the platform table that people know, and flmem's own needs. */
	static const char *const features[] = {
		"gc.collect()",	    "MALLOC_ARENA_MAX",
		"malloc_trim()",    "torch.cuda.empty_cache()",
		"jemalloc preload", "ptrace",
		"process_vm_readv", "pidfd",
		"openat2",	    "PAGEMAP_SCAN",
		"PROCMAP_QUERY",
	};
	struct flmem_host_report report;
	struct flmem_error err = {0};
	struct utsname names;

	(void)state;
	if (flmem_host_read(&report, &err))
		fail_msg("%s", err.message);
	uname(&names);
	assert_string_equal(report.kernel, names.release);
	assert_int_equal(report.page_bytes.value, sysconf(_SC_PAGESIZE));
	assert_true(report.yama_level >= -1 && report.yama_level <= 3);
	assert_int_equal(report.feature_count, FLMEM_ARRAY_SIZE(features));
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(features); i++) {
		const struct flmem_feature *feature = find_feature(&report, features[i]);

		assert_non_null(feature);
		assert_true(feature->why[0] != '\0');
	}
	assert_true(report.gpu_unknown != NULL || report.gpus != NULL);
	assert_non_null(report.trim_own.why);
	assert_int_equal(report.trim_own.allowed, report.trim_own.remedy == NULL);
	assert_int_equal(report.trim_own.allowed, find_feature(&report, "ptrace")->works);
	flmem_host_report_clear(&report);
	assert_null(report.kernel);
}

static void as_json(void **state)
{
	struct flmem_host_report report;
	char *text;

	(void)state;
	assert_int_equal(flmem_host_read(&report, NULL), 0);
	text = flmem_report_host_json(&report);
	assert_non_null(text);
	assert_non_null(strstr(text, "\"schema\":\t\"flmem.detect/1\""));
	assert_int_equal(text[strlen(text) - 1], '\n');
	free(text);
	flmem_host_report_clear(&report);
}

/*
 * Runs `judge` on a report that was read in a child after `prepare`; returns its result, or 90 and
 * more.
 */
static int judge_in_child(void (*prepare)(void), int (*judge)(const struct flmem_host_report *))
{
	pid_t child = fork();
	int status;

	if (!child) {
		struct flmem_host_report report;
		int result;

		prepare();
		if (flmem_host_read(&report, NULL))
			_exit(92);
		result = judge(&report);
		flmem_host_report_clear(&report);
		_exit(result);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void become_nobody(void)
{
	if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
		_exit(91);
}

/* A change of user makes a process one that nobody may trace; a newly executed program is not. */
static void become_nobody_anew(void)
{
	become_nobody();
	if (prctl(PR_SET_DUMPABLE, 1))
		_exit(91);
}

static int judge_nobody(const struct flmem_host_report *report)
{
	if (report->trim_others.allowed)
		return 1;
	if (report->yama_level == 2 || report->yama_level == 3)
		return 0;
	if (report->trim_others.why != flmem_gate_why(FLMEM_GATE_CAPABILITY))
		return 2;
	/* The right to trace follows the level; it is found by trying, not by reading the level. */
	return report->trim_own.allowed == (report->yama_level < 1) ? 0 : 3;
}

static void without_the_capability(void **state)
{
	(void)state;
	if (geteuid() != 0) {
		print_message("SKIP: needs root to become someone else\n");
		skip();
	}
	assert_int_equal(judge_in_child(become_nobody_anew, judge_nobody), 0);
	assert_int_equal(judge_in_child(become_nobody, judge_nobody), 0);
}

static void be_sandboxed(void)
{
	struct sock_filter program[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ptrace, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = {.len = FLMEM_ARRAY_SIZE(program), .filter = program};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, 2, &filter))
		_exit(91);
}

static int judge_sandboxed(const struct flmem_host_report *report)
{
	const struct flmem_feature *ptrace = find_feature(report, "ptrace");

	if (report->trim_own.allowed || report->trim_others.allowed || ptrace->works)
		return 1;
	return report->trim_own.why == flmem_gate_why(FLMEM_GATE_SECCOMP) ? 0 : 2;
}

static void in_a_sandbox_that_kills(void **state)
{
	struct flmem_host_facts facts;

	(void)state;
	assert_int_equal(flmem_host_facts_read(&facts, NULL), 0);
	if (flmem_gate_others(&facts) != FLMEM_GATE_OPEN) {
		print_message("SKIP: another gate is closed here: %s\n",
			      flmem_gate_why(flmem_gate_others(&facts)));
		skip();
	}
	assert_int_equal(judge_in_child(be_sandboxed, judge_sandboxed), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_report_is_complete),
		cmocka_unit_test(as_json),
		cmocka_unit_test(without_the_capability),
		cmocka_unit_test(in_a_sandbox_that_kills),
	};

	return cmocka_run_group_tests_name("host", tests, NULL, NULL);
}
