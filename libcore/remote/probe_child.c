/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/probe_child.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <flmem/text.h>

#include "base/clock.h"
#include "base/files/io.h"
#include "base/text/text.h"
#include "preload/wrappers.h"
#include "proc/argv_env.h"
#include "proc/command.h"
#include "remote/tracee.h"

#define LIMIT_SECONDS 10
#define LIMIT_US      (LIMIT_SECONDS * UINT64_C(1000000))
#define PROGRAMS_MAX  8 /* limit of programs in a row: env may start env */
#define POLL_US	      100U

/* What the child reports if it cannot run the command. */
struct exec_failure {
	bool tracing; /* PTRACE_TRACEME failed, else the exec */
	int error;
};

#if defined(__x86_64__)
static const unsigned char trap[] = {0xcc}; /* int3 */
#elif defined(__aarch64__)
static const unsigned char trap[] = {0x00, 0x00, 0x20, 0xd4}; /* brk #0 */
#else
#error "flmem runs on x86-64 and aarch64"
#endif

static void report_failure(int report_fd, bool tracing)
{
	struct exec_failure failure = {.tracing = tracing, .error = errno};

	(void)flmem_io_write_all(report_fd, &failure, sizeof(failure));
	_exit(127);
}

__attribute__((noreturn)) static void be_child(char *const *argv, char *const *environment,
					       pid_t parent, int report_fd, int error_fd)
{
	const struct rlimit no_core = {0, 0}; /* a core dump of the probe would be useless */
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(127);
	if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(error_fd, 2) < 0)
		report_failure(report_fd, false);
	setrlimit(RLIMIT_CORE, &no_core);
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
		report_failure(report_fd, true);
	execvpe(argv[0], argv, environment);
	report_failure(report_fd, false);
	_exit(127);
}

static int explain_failure(const char *program, const struct exec_failure *failure,
			   struct flmem_error *err)
{
	if (!failure->tracing)
		return flmem_command_error(program, failure->error, err);
	return flmem_error_set(err, FLMEM_EPERM, failure->error,
			       "cannot trace a child process (another tracer, a seccomp filter or "
			       "kernel.yama.ptrace_scope=3 prevents it); 'flmem env' prints the "
			       "same settings without this proof");
}

/*
 * Kills a child that is late. The deadline is enforced here: a library may block or ignore any
 * signal that can be blocked.
 */
static void kill_if_late(struct flmem_probe_child *child)
{
	if (child->late || flmem_clock_us() < child->deadline_us)
		return;
	child->late = true;
	kill(child->pid, SIGKILL);
}

/*
 * Waits for the next stop. Returns 0, or the code of the reason why there is none. The exit status
 * of the child is read at the stop before its end: with SIGCHLD ignored it would be lost later, and
 * another thread may reap it.
 */
static int await_child_stop(struct flmem_probe_child *child, int *ret_status,
			    struct flmem_error *err)
{
	unsigned long ending;
	int got;

	for (;;) {
		kill_if_late(child);
		got = flmem_tracee_child_status(child->pid, ret_status);
		if (got)
			break;
		flmem_clock_sleep_us(POLL_US);
	}
	if (got > 0 && WIFSTOPPED(*ret_status) && *ret_status >> 16 != PTRACE_EVENT_EXIT)
		return 0;
	if (got > 0 && WIFSTOPPED(*ret_status)) {
		if (ptrace(PTRACE_GETEVENTMSG, child->pid, NULL, &ending) < 0)
			return flmem_error_set(err, FLMEM_EFAILED, errno,
					       "the probe process has exited");
		*ret_status = (int)ending;
		return FLMEM_EUNSUPPORTED;
	}
	child->pid = 0;
	return got > 0 ? FLMEM_EUNSUPPORTED
		       : flmem_error_set(err, FLMEM_EFAILED, -got, "the probe process has exited");
}

static int explain_child_end(const struct flmem_probe_child *child, int status,
			     struct flmem_error *err)
{
	char said[FLMEM_PROBE_CHILD_OUTPUT_MAX], how[64];
	int code = FLMEM_EUNSUPPORTED;

	if (child->late)
		return flmem_error_set(err, code, 0,
				       "'%s' did not reach its entry point within %d seconds",
				       child->program, LIMIT_SECONDS);
	flmem_probe_child_output(child, said, sizeof(said));
	said[strcspn(said, "\n")] = '\0';
	if (WIFSIGNALED(status))
		snprintf(how, sizeof(how), "killed by signal %d", WTERMSIG(status));
	else
		snprintf(how, sizeof(how), "with status %d", WEXITSTATUS(status));
	/* A wrapper returns the same status for its command as a shell. */
	if (child->passes && WIFEXITED(status) && WEXITSTATUS(status) == 127)
		code = FLMEM_ENOCOMMAND;
	else if (child->passes && WIFEXITED(status) && WEXITSTATUS(status) == 126)
		code = FLMEM_ENOEXEC;
	return flmem_error_set(err, code, 0, "'%s' ended before its program started, %s%s%s",
			       child->program, how, said[0] ? ": " : "", said);
}

/* Lets the child run to a trap: the planted instruction, or the exec of another program. */
static int run_to_trap(struct flmem_probe_child *child, struct flmem_error *err)
{
	int signal_number = 0, status, rc;

	for (;;) {
		if (ptrace(PTRACE_CONT, child->pid, NULL, (void *)(intptr_t)signal_number) < 0)
			return child->late ? explain_child_end(child, 0, err)
					   : flmem_error_set(err, FLMEM_EFAILED, errno,
							     "cannot run the probe");
		rc = await_child_stop(child, &status, err);
		if (rc == FLMEM_EUNSUPPORTED)
			return explain_child_end(child, status, err);
		if (rc)
			return rc;
		signal_number = WSTOPSIG(status);
		if (signal_number == SIGTRAP)
			return 0;
	}
}

static int insert_breakpoint(const struct flmem_probe_child *child, uint64_t address,
			     struct flmem_error *err)
{
	long word;

	errno = 0;
	word = ptrace(PTRACE_PEEKTEXT, child->pid, (void *)(uintptr_t)address, NULL);
	if (errno)
		return flmem_error_set(err, FLMEM_EFAILED, errno, "cannot read the probe");
	memcpy(&word, trap, sizeof(trap));
	if (ptrace(PTRACE_POKETEXT, child->pid, (void *)(uintptr_t)address, (void *)word) < 0)
		return flmem_error_set(err, FLMEM_EFAILED, errno, "cannot set up the probe");
	return 0;
}

static uint64_t auxiliary_value(const struct flmem_buf *vector, uint64_t type)
{
	Elf64_auxv_t entry;

	for (size_t at = 0; at + sizeof(entry) <= vector->length; at += sizeof(entry)) {
		memcpy(&entry, vector->data + at, sizeof(entry));
		if (entry.a_type == type)
			return entry.a_un.a_val;
	}
	return 0;
}

static bool is_wide(const struct flmem_probe_child *child)
{
	FLMEM_AUTO_CLOSE int fd = openat(child->process.dirfd, "exe", O_RDONLY | O_CLOEXEC);
	unsigned char ident[EI_NIDENT];

	/*
	 * A file that may be executed but not read is not classified here; the loader will report
	 * it.
	 */
	return fd < 0 || read(fd, ident, sizeof(ident)) != (ssize_t)sizeof(ident) ||
	       ident[EI_CLASS] != ELFCLASS32;
}

static bool names_wrapper(const char *name)
{
	static const char *const names[] = {
#define WRAPPER_NAME(name) name,
		FLMEM_WRAPPERS(WRAPPER_NAME)
#undef WRAPPER_NAME
	};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(names); i++)
		if (strcmp(flmem_text_basename(name), names[i]) == 0)
			return true;
	return false;
}

/*
 * True for a wrapper. Multi-call programs are recognised by the name of the call, as in the
 * preloaded scrubber.
 */
static bool is_wrapper(const struct flmem_probe_child *child)
{
	FLMEM_AUTO_ARGV_ENV struct flmem_argv_env words = {0};
	const char *file = flmem_text_basename(child->program);

	if (names_wrapper(file))
		return true;
	if (strcmp(file, "busybox") != 0 && strcmp(file, "coreutils") != 0 &&
	    strcmp(file, "toybox") != 0)
		return false;
	return !flmem_argv_env_read_argv(&child->process, &words, NULL) && words.count &&
	       names_wrapper(words.values[0]);
}

/* Reads which program the child runs after an exec. */
static int inspect_program(struct flmem_probe_child *child, uint64_t *ret_entry,
			   struct flmem_error *err)
{
	FLMEM_AUTO_BUF struct flmem_buf vector = FLMEM_BUF_INIT;
	int rc;

	flmem_process_close(&child->process);
	rc = flmem_process_open(child->pid, &child->process, err);
	if (rc)
		return rc;
	rc = flmem_process_readlink(&child->process, "exe", child->program, sizeof(child->program));
	if (!rc)
		rc = flmem_process_read(&child->process, "auxv", &vector);
	if (rc)
		return flmem_process_error(&child->process, rc, "trace the probe", err);
	child->wide = is_wide(child);
	child->has_loader = auxiliary_value(&vector, AT_BASE) != 0;
	*ret_entry = auxiliary_value(&vector, AT_ENTRY);
	return 0;
}

/* Runs from the stop after the first exec to the entry point of the last program. */
static int run_to_entry(struct flmem_probe_child *child, struct flmem_error *err)
{
	uint64_t entry = 0;
	int rc;

	for (int i = 0; i < PROGRAMS_MAX; i++) {
		rc = inspect_program(child, &entry, err);
		if (rc || !child->wide)
			return rc;
		child->passes = is_wrapper(child);
		if (!child->passes)
			rc = insert_breakpoint(child, entry, err);
		if (!rc)
			rc = run_to_trap(child, err);
		if (rc || !child->passes)
			return rc;
	}
	return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
			       "'%s' executes more than %d programs in a row", child->program,
			       PROGRAMS_MAX);
}

static int await_first_stop(struct flmem_probe_child *child, struct flmem_error *err)
{
	int status, rc = await_child_stop(child, &status, err);

	if (rc == FLMEM_EUNSUPPORTED)
		return flmem_error_set(err, rc, 0, "the probe process ended immediately");
	if (rc)
		return rc;
	if (ptrace(PTRACE_SETOPTIONS, child->pid, NULL,
		   (void *)(intptr_t)(PTRACE_O_EXITKILL | PTRACE_O_TRACEEXEC |
				      PTRACE_O_TRACEEXIT)) < 0)
		return flmem_error_set(err, FLMEM_EFAILED, errno, "cannot set up the probe");
	return 0;
}

/* Starts the child; the write ends of both pipes are closed here on return. */
static int spawn_child(char *const *argv, char *const *environment, struct flmem_probe_child *child,
		       struct flmem_error *err)
{
	FLMEM_AUTO_CLOSE int report_read = -1;
	FLMEM_AUTO_CLOSE int report_write = -1;
	FLMEM_AUTO_CLOSE int error_write = -1;
	struct exec_failure failure;
	pid_t parent = getpid();
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return flmem_error_set(err, FLMEM_EFAILED, errno, "cannot make a pipe");
	report_read = ends[0];
	report_write = ends[1];
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return flmem_error_set(err, FLMEM_EFAILED, errno, "cannot make a pipe");
	child->error_fd = ends[0];
	error_write = ends[1];
	child->pid = fork();
	if (child->pid == 0)
		be_child(argv, environment, parent, report_write, error_write);
	if (child->pid < 0) {
		child->pid = 0;
		return flmem_error_set(err, FLMEM_EFAILED, errno, "cannot start the probe");
	}
	child->deadline_us = flmem_clock_us() + LIMIT_US;
	close(FLMEM_TAKE_FD(report_write));
	/* The pipe closes at the exec, before the stop that follows it. */
	if (read(report_read, &failure, sizeof(failure)) == (ssize_t)sizeof(failure))
		return explain_failure(argv[0], &failure, err);
	return 0;
}

int flmem_probe_child_start(char *const *argv, char *const *environment,
			    struct flmem_probe_child *ret_held, struct flmem_error *err)
{
	FLMEM_AUTO_PROBE_CHILD struct flmem_probe_child child = FLMEM_PROBE_CHILD_INIT;
	int rc = spawn_child(argv, environment, &child, err);

	if (!rc)
		rc = await_first_stop(&child, err);
	if (!rc)
		rc = run_to_entry(&child, err);
	if (rc) {
		memcpy(ret_held->program, child.program, sizeof(ret_held->program));
		return rc;
	}
	*ret_held = child;
	child = (struct flmem_probe_child)FLMEM_PROBE_CHILD_INIT;
	return 0;
}

void flmem_probe_child_output(const struct flmem_probe_child *child, char *out, size_t size)
{
	ssize_t got = read(child->error_fd, out, size - 1);

	out[got > 0 ? got : 0] = '\0';
}

/* A killed child may stop once more before its end. */
static void reap_child(pid_t pid)
{
	int status, got;

	while ((got = flmem_tracee_child_status(pid, &status)) >= 0) {
		if (got && !WIFSTOPPED(status))
			return;
		if (got)
			ptrace(PTRACE_CONT, pid, NULL, NULL);
		else
			flmem_clock_sleep_us(POLL_US);
	}
}

void flmem_probe_child_end(struct flmem_probe_child *child)
{
	if (child->pid) {
		kill(child->pid, SIGKILL);
		reap_child(child->pid);
	}
	flmem_process_close(&child->process);
	flmem_cleanup_close(&child->error_fd);
	*child = (struct flmem_probe_child)FLMEM_PROBE_CHILD_INIT;
}
