/* SPDX-License-Identifier: Apache-2.0 */
/* Tests processes that must not be touched at all, each in the state that forbids it. */
#include "own_child.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

#include "proc/host_facts.h"
#include "proc/status.h"
#include "remote/checks/preflight.h"

#ifdef __x86_64__
static _Atomic bool *ready;

static void be_waiting(void)
{
	atomic_store(ready, true);
	for (;;)
		pause();
}

static void be_strict(void)
{
	int ends[2];
	char byte;

	if (pipe(ends) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT))
		_exit(2);
	atomic_store(ready, true);
	for (;;)
		syscall(SYS_read, ends[0], &byte, 1);
}

static void be_nobody(void)
{
	if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534) ||
	    prctl(PR_SET_DUMPABLE, 1))
		_exit(2);
	be_waiting();
}

static void be_ended(void)
{
	_exit(0);
}

static void start(void (*be_child)(void))
{
	atomic_store(ready, false);
	start_child(be_child);
	if (be_child != be_ended)
		await_true(atomic_load(ready));
}

static int share(void **state)
{
	(void)state;
	return share_page(&ready, sizeof(*ready));
}

static char state_now(const struct flmem_process *process)
{
	struct flmem_status status;

	return flmem_status_read(process, &status, NULL) ? '\0' : status.state;
}

static void expect_now(const struct flmem_process *process, int code, const char *word)
{
	struct flmem_error err = {0};

	assert_int_equal(flmem_preflight_now(process, &err), code);
	if (code)
		assert_non_null(strstr(err.message, word));
}

static void a_stopped_process_is_refused_until_it_goes_on(void **state)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;

	(void)state;
	start(be_waiting);
	assert_int_equal(flmem_process_open(child, &process, NULL), 0);
	expect_now(&process, 0, NULL);
	kill(child, SIGSTOP);
	await_true(state_now(&process) == 'T');
	expect_now(&process, FLMEM_EUNSAFE, "is stopped");
	kill(child, SIGCONT);
	await_true(state_now(&process) == 'S');
	expect_now(&process, 0, NULL);
}

static void a_traced_process_is_refused(void **state)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;

	(void)state;
	start(be_waiting);
	assert_int_equal(flmem_process_open(child, &process, NULL), 0);
	if (ptrace(PTRACE_SEIZE, child, NULL, NULL) < 0) {
		print_message("SKIP: a child may not be traced here\n");
		skip();
	}
	expect_now(&process, FLMEM_EUNSAFE, "traced");
}

static void a_process_that_has_ended_is_refused(void **state)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;

	(void)state;
	start(be_ended);
	assert_int_equal(flmem_process_open(child, &process, NULL), 0);
	await_true(state_now(&process) == 'Z');
	expect_now(&process, FLMEM_ENOPROC, "it has exited");
	process.state = 'Z';
	assert_int_equal(flmem_preflight_identity(&process, NULL), FLMEM_ENOPROC);
}

static void a_kernel_thread_is_refused(void **state)
{
	struct flmem_process process = FLMEM_PROCESS_INIT;

	(void)state;
	process.pid = 2;
	process.kernel_thread = true;
	assert_int_equal(flmem_preflight_identity(&process, NULL), FLMEM_EUNSUPPORTED);
}

static void a_process_in_strict_mode_is_refused(void **state)
{
	struct flmem_error err = {0};
	struct target target;

	(void)state;
	start(be_strict);
	target_open(child, &target);
	assert_int_equal(flmem_preflight_fixed(&target.view, &err), FLMEM_EUNSUPPORTED);
	target_close(&target);
	assert_non_null(strstr(err.message, "strict"));
}

/* Makes a /proc directory whose status contains a value that no processor here may have. */
static int open_fake(char *directory, const char *more, struct flmem_process *ret_process)
{
	char path[PATH_MAX], text[] = "4711 (fake) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 99 0\n";
	int proc, rc;
	FILE *file;

	snprintf(path, sizeof(path), "%s/4711", directory);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/4711/stat", directory);
	file = fopen(path, "we");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	snprintf(path, sizeof(path), "%s/4711/status", directory);
	file = fopen(path, "we");
	assert_non_null(file);
	fprintf(file, "Name:\tfake\nState:\tS (sleeping)\nPid:\t4711\nTracerPid:\t0\n%s", more);
	fclose(file);
	proc = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	rc = flmem_process_open_at(proc, 4711, ret_process, NULL);
	close(proc);
	return rc;
}

static void remove_fake(const char *directory)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/4711/stat", directory);
	unlink(path);
	snprintf(path, sizeof(path), "%s/4711/status", directory);
	unlink(path);
	snprintf(path, sizeof(path), "%s/4711", directory);
	rmdir(path);
	rmdir(directory);
}

static void a_shadow_stack_is_refused(void **state)
{
	char directory[] = "/tmp/flmem-preflight-XXXXXX";
	FLMEM_AUTO_PROCESS struct flmem_process fake = FLMEM_PROCESS_INIT;
	struct flmem_error err = {0};
	struct target target;
	int rc;

	(void)state;
	assert_non_null(mkdtemp(directory));
	rc = open_fake(directory, "x86_Thread_features:\tshstk \n", &fake);
	start(be_waiting);
	target_open(child, &target);
	target.view.process = &fake; /* with the modules of a program that may be borrowed */
	if (!rc)
		rc = flmem_preflight_fixed(&target.view, &err);
	target_close(&target);
	remove_fake(directory);
	assert_int_equal(rc, FLMEM_EUNSUPPORTED);
	assert_non_null(strstr(err.message, "shadow stack"));
}

static const char *kernel; /* release of the kernel; NULL: this one's */

int uname(struct utsname *ret_names)
{
	if (!kernel)
		return (int)syscall(SYS_uname, ret_names);
	*ret_names = (struct utsname){0};
	snprintf(ret_names->release, sizeof(ret_names->release), "%s", kernel);
	return 0;
}

static bool is_refused_for_huge_pages(const char *release, const char *status)
{
	char directory[] = "/tmp/flmem-preflight-XXXXXX";
	FLMEM_AUTO_PROCESS struct flmem_process fake = FLMEM_PROCESS_INIT;
	struct flmem_error err = {0};
	struct target target;
	int rc;

	assert_non_null(mkdtemp(directory));
	assert_int_equal(open_fake(directory, status, &fake), 0);
	target_open(child, &target);
	target.view.process = &fake; /* with the modules of a program that may be borrowed */
	kernel = release;
	rc = flmem_preflight_fixed(&target.view, &err);
	kernel = NULL;
	target_close(&target);
	remove_fake(directory);
	return rc == FLMEM_EUNSUPPORTED && strstr(err.message, "huge pages of hugetlbfs");
}

static void huge_pages_that_a_kernel_drops_as_a_whole_are_refused(void **state)
{
	static const char *const wrong[] = {"5.18.0", "5.19.17-generic", "6.0.3+"};
	static const char *const right[] = {"5.17.15", "5.10.0-30-amd64", "6.1.0-1", "6.18.44",
					    "x"};
	const char *some = "HugetlbPages:\t    2048 kB\n";

	(void)state;
	start(be_waiting);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(wrong); i++) {
		assert_true(is_refused_for_huge_pages(wrong[i], some));
		assert_false(is_refused_for_huge_pages(wrong[i], "HugetlbPages:\t       0 kB\n"));
		assert_false(is_refused_for_huge_pages(wrong[i], ""));
	}
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(right); i++)
		assert_false(is_refused_for_huge_pages(right[i], some));
}

/*
 * The kernel releases the memory of a process some time before it shows it as ended. Then ptrace()
 * returns EPERM, which is not a lack of rights.
 */
static void a_process_without_memory_has_ended(void **state)
{
	static const char *const memory[] = {"", "VmRSS:\t 100 kB\n"};
	static const int codes[] = {FLMEM_ENOPROC, FLMEM_EPERM};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		char directory[] = "/tmp/flmem-preflight-XXXXXX";
		FLMEM_AUTO_PROCESS struct flmem_process fake = FLMEM_PROCESS_INIT;
		struct flmem_error err = {0};
		int rc;

		assert_non_null(mkdtemp(directory));
		rc = open_fake(directory, memory[i], &fake);
		if (!rc)
			rc = flmem_preflight_explain(&fake, -EPERM, &err);
		remove_fake(directory);
		assert_int_equal(rc, codes[i]);
		assert_int_equal(err.code, codes[i]);
	}
}

/*
 * Returns 0 if the refusal names the capability. It runs in its own process, which drops the
 * other capabilities.
 */
static int explain_with_ptrace_alone(pid_t pid)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct only[2] = {
		{.effective = 1U << CAP_SYS_PTRACE, .permitted = 1U << CAP_SYS_PTRACE}};
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	struct flmem_error err = {0};

	if (syscall(SYS_capset, &header, only) || flmem_process_open(pid, &process, &err))
		return 2;
	if (flmem_process_pin_memory(&process, NULL) == 0)
		return 3;
	if (flmem_preflight_explain(&process, -EACCES, &err) != FLMEM_EPERM ||
	    !strstr(err.message, "CAP_DAC_OVERRIDE"))
		return 4;
	return flmem_preflight_reading_gate(&process) == FLMEM_GATE_OWNER ? 0 : 5;
}

static void the_capability_to_trace_does_not_open_files(void **state)
{
	pid_t pid;
	int status;

	(void)state;
	if (geteuid() != 0) {
		print_message("SKIP: needs root to become someone else\n");
		skip();
	}
	start(be_nobody);
	pid = fork();
	if (pid == 0)
		_exit(explain_with_ptrace_alone(child));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static bool seems_foreign;

uint16_t __real_flmem_image_machine(const struct flmem_image *image);
uint16_t __wrap_flmem_image_machine(const struct flmem_image *image);
uint16_t __wrap_flmem_image_machine(const struct flmem_image *image)
{
	return seems_foreign ? EM_S390 : __real_flmem_image_machine(image);
}

/* The file is one that the kernel runs with the help of an interpreter (binfmt_misc). */
static void a_program_file_for_another_machine_is_refused(void **state)
{
	struct flmem_error err = {0};
	struct target target;
	int rc;

	(void)state;
	start(be_waiting);
	target_open(child, &target);
	seems_foreign = true;
	rc = flmem_preflight_fixed(&target.view, &err);
	seems_foreign = false;
	target_close(&target);
	assert_int_equal(rc, FLMEM_EUNSUPPORTED);
	assert_non_null(strstr(err.message, "runs on a processor architecture"));
}

static void a_program_for_another_machine_is_refused(void **state)
{
	struct flmem_error err = {0};
	char *argv[] = {VICTIMS "/safe_ia32", NULL};
	struct target target;

	(void)state;
	if (access(argv[0], X_OK)) {
		print_message("SKIP: %s is not built\n", argv[0]);
		skip();
	}
	child = fork();
	if (child == 0) {
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(null, 1);
		execv(argv[0], argv);
		_exit(2);
	}
	for (int i = 0; i < 20000; i++) {
		char path[32], name[PATH_MAX];
		ssize_t length;

		snprintf(path, sizeof(path), "/proc/%d/exe", (int)child);
		length = readlink(path, name, sizeof(name) - 1);
		name[length > 0 ? length : 0] = '\0';
		if (strstr(name, "safe_ia32"))
			break;
		usleep(1000);
	}
	target_open(child, &target);
	assert_int_equal(flmem_preflight_fixed(&target.view, &err), FLMEM_EUNSUPPORTED);
	target_close(&target);
	/* The modules of the process are not read, so that not even its program file counts. */
	assert_non_null(strstr(err.message, "cannot borrow a thread"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(a_stopped_process_is_refused_until_it_goes_on, end_child),
		cmocka_unit_test_teardown(a_traced_process_is_refused, end_child),
		cmocka_unit_test_teardown(a_process_that_has_ended_is_refused, end_child),
		cmocka_unit_test(a_kernel_thread_is_refused),
		cmocka_unit_test_teardown(a_process_in_strict_mode_is_refused, end_child),
		cmocka_unit_test_teardown(a_shadow_stack_is_refused, end_child),
		cmocka_unit_test_teardown(huge_pages_that_a_kernel_drops_as_a_whole_are_refused,
					  end_child),
		cmocka_unit_test(a_process_without_memory_has_ended),
		cmocka_unit_test_teardown(the_capability_to_trace_does_not_open_files, end_child),
		cmocka_unit_test_teardown(a_program_for_another_machine_is_refused, end_child),
		cmocka_unit_test_teardown(a_program_file_for_another_machine_is_refused, end_child),
	};

	return cmocka_run_group_tests_name("preflight", tests, share, NULL);
}
#else
int main(void)
{
	puts("SKIP: threads are not borrowed on this processor yet");
	return 77;
}
#endif
