/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks that the system calls which are compared with filters beforehand are those that are made.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/files/io.h"
#include "base/text/buf.h"
#include "runtimes/cpython_source.h"
#include "runtimes/cpython_syscalls.h"

#define CALLS_MAX 128U
#define OPTIONS	  (PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE)

struct call {
	uint64_t number, args[FLMEM_SYSCALL_ARGS];
};

/* The calls between the marks. */
struct trace {
	bool all_threads; /* trace all threads, not only the one that makes the marks */
	pid_t marker;
	struct call calls[CALLS_MAX];
	size_t count;
	bool marked, ended, overflow;
	int status; /* exit status of the process */
};

/* Shared with the child. */
static volatile int *thread_ended;

/* Runs as on a borrowed thread: detached, and asleep for a while. */
static void be_child(const char *argument)
{
	pthread_attr_t attributes;
	pthread_t thread;

	(void)argument;
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	raise(SIGSTOP);
	syscall(SYS_getppid);
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&thread, &attributes, (void *(*)(void *))(void *)sleep, (void *)1))
		_exit(1);
	while (!*thread_ended)
		continue;
	syscall(SYS_getppid);
	_exit(0);
}

static void note_call(pid_t tid, struct trace *trace)
{
	struct __ptrace_syscall_info info;
	struct call *call;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof(info), &info) <= 0 ||
	    info.op != PTRACE_SYSCALL_INFO_ENTRY)
		return;
	if (info.entry.nr == SYS_getppid) {
		trace->ended = trace->marked;
		trace->marked = true;
		trace->marker = tid;
	} else if (!trace->all_threads && tid != trace->marker) {
		return; /* the start of its wait may be sooner or later */
	} else if (trace->marked && !trace->ended && trace->count < CALLS_MAX) {
		call = &trace->calls[trace->count++];
		call->number = info.entry.nr;
		memcpy(call->args, info.entry.args, sizeof(call->args));
	} else if (trace->marked && !trace->ended) {
		trace->overflow = true;
	}
}

/* Lets all threads run from call to call until the first one has ended. */
static void follow(pid_t child, struct trace *trace)
{
	for (;;) {
		int status, pass = 0;
		pid_t tid = waitpid(-1, &status, __WALL);

		assert_true(tid > 0);
		if (!WIFSTOPPED(status) && tid == child) {
			trace->status = status;
			return;
		}
		if (!WIFSTOPPED(status)) {
			*thread_ended = 1;
			continue;
		}
		if (WSTOPSIG(status) == (SIGTRAP | 0x80))
			note_call(tid, trace);
		else if (WSTOPSIG(status) != SIGTRAP && WSTOPSIG(status) != SIGSTOP)
			pass = WSTOPSIG(status);
		ptrace(PTRACE_SYSCALL, tid, NULL, (void *)(intptr_t)pass);
	}
}

static void trace_child(void (*be)(const char *argument), const char *argument, struct trace *trace)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		be(argument);
	}
	assert_int_equal(waitpid(child, &status, __WALL), child);
	if (!WIFSTOPPED(status) || ptrace(PTRACE_SETOPTIONS, child, NULL, (void *)OPTIONS)) {
		kill(child, SIGKILL);
		print_message("SKIP: a child may not be traced here\n");
		skip();
	}
	ptrace(PTRACE_SYSCALL, child, NULL, NULL);
	follow(child, trace);
}

static bool fits(const struct flmem_syscall *row, const struct call *call)
{
	if (row->number != (long)call->number)
		return false;
	for (size_t i = 0; i < FLMEM_SYSCALL_ARGS; i++)
		if ((call->args[i] & row->args[i].known) != row->args[i].value)
			return false;
	return true;
}

static bool is_listed(const struct flmem_syscall_list *list, const struct call *call)
{
	for (size_t i = 0; i < list->count; i++)
		for (size_t k = 0; k < list->tables[i]->count; k++)
			if (fits(&list->tables[i]->rows[k], call))
				return true;
	return false;
}

static const struct flmem_syscall_list *const lists[] = {
	&flmem_cpython_syscalls_new_thread,
	&flmem_cpython_syscalls_debugger,
};

static void expect_listed(const char *who, const struct trace *trace)
{
	for (size_t i = 0; i < trace->count; i++)
		for (size_t k = 0; k < FLMEM_ARRAY_SIZE(lists); k++)
			if (!is_listed(lists[k], &trace->calls[i]))
				fail_msg("%s: list %zu lacks call %d(%llx, %llx, %llx, %llx, ...)",
					 who, k, (int)trace->calls[i].number,
					 (unsigned long long)trace->calls[i].args[0],
					 (unsigned long long)trace->calls[i].args[1],
					 (unsigned long long)trace->calls[i].args[2],
					 (unsigned long long)trace->calls[i].args[3]);
}

static void a_thread_makes_no_other_calls(void **state)
{
	struct trace trace = {.all_threads = true};

	(void)state;
#if defined(__SANITIZE_ADDRESS__)
	print_message("SKIP: AddressSanitizer maps memory of its own for a thread\n");
	skip();
#endif
	trace_child(be_child, NULL, &trace);
	assert_true(trace.ended && !trace.overflow);
	assert_true(trace.count >= 8); /* clone, stack, signals, sleep and end */
	expect_listed("a thread", &trace);
}

/* This copy of the code stores the answer in memory of its own. */
static const char enters[] = "import ctypes, gc, io, sys, _thread\n"
			     "answer = ctypes.create_string_buffer(16384)\n"
			     "code = bytearray(open(sys.argv[1], 'rb').read())\n"
			     "at = code.index(b'0' * 16)\n"
			     "code[at:at + 16] = b'%016x' % ctypes.addressof(answer)\n"
			     "run = ctypes.CDLL('" VICTIMS "/interpreter/entered.so').run_entered\n"
			     "run(bytes(code), sys.version_info >= (3, 14))\n"
			     "sys.exit(answer.raw[20:23] != b'ok\\n')\n";

static char code_file[] = "/tmp/flmem-code-XXXXXX";

static void be_interpreter(const char *path)
{
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	raise(SIGSTOP);
	execl(path, path, "-c", enters, code_file, (char *)NULL);
	_exit(127);
}

static void write_code(void)
{
	static const unsigned char cookie[FLMEM_CPYTHON_COOKIE] = "cookies";
	static const char text[] = "import gc\nprint(gc.collect())\n";
	const struct flmem_cpython_code code = {"code", text, sizeof(text) - 1};
	FLMEM_AUTO_BUF struct flmem_buf source = FLMEM_BUF_INIT;
	FLMEM_AUTO_CLOSE int fd = mkstemp(code_file);
	size_t address_at;

	assert_true(fd >= 0);
	flmem_cpython_source_wrap(&code, cookie, FLMEM_CPYTHON_OUTPUT_MAX, &source, &address_at);
	assert_int_equal(flmem_io_write_all(fd, source.data, source.length), 0);
}

static void check_interpreter(const char *path)
{
	struct trace trace = {0};

	trace_child(be_interpreter, path, &trace);
	if (!trace.ended || trace.overflow || trace.count < 4 || trace.status)
		fail_msg("%s: %zu calls, status %#x", path, trace.count, trace.status);
	expect_listed(path, &trace);
}

/* Checks how a thread enters each interpreter that is installed, and the calls of flmem's frame. */
static void code_makes_no_other_calls(void **state)
{
	FILE *list = popen("python3 -B " PYTHONS, "r");
	char line[512], version[16], path[400];

	(void)state;
	assert_non_null(list);
	write_code();
	while (fgets(line, sizeof(line), list)) {
		if (sscanf(line, "%15s %399s", version, path) != 2)
			fail_msg("not a line of %s: %s", PYTHONS, line);
		if (path[0] == '-')
			print_message("SKIP: %s", strstr(line, " - ") + 3);
		else
			check_interpreter(path);
	}
	pclose(list);
	unlink(code_file);
}

/* Finalisers may make any call, whichever entry point the code used. */
static void code_of_the_program_runs_in_every_door(void **state)
{
	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(lists); i++) {
		bool runs = false;

		for (size_t k = 0; k < lists[i]->count; k++)
			runs |= lists[i]->tables[k]->runs_program_code;
		assert_true(runs);
	}
}

/* The arguments decide what a call does: a list without them would match anything. */
static void other_arguments_are_not_listed(void **state)
{
	static const struct call calls[] = {
		{SYS_mmap, {0, 4096, PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, (uint64_t)-1, 0}},
		{SYS_mmap, {0, 4096, PROT_READ, MAP_SHARED, 3, 0}},
		{SYS_mprotect, {0, 4096, PROT_EXEC, 0, 0, 0}},
		{SYS_madvise, {0, 4096, MADV_REMOVE, 0, 0, 0}},
		{SYS_prctl, {PR_SET_NAME, 0, 0, 0, 0, 0}},
		{SYS_clone, {SIGCHLD, 0, 0, 0, 0, 0}},
		{SYS_openat, {3, 0, 0, 0, 0, 0}},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(calls); i++)
		for (size_t k = 0; k < FLMEM_ARRAY_SIZE(lists); k++)
			assert_false(is_listed(lists[k], &calls[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_makes_no_other_calls),
		cmocka_unit_test(code_makes_no_other_calls),
		cmocka_unit_test(code_of_the_program_runs_in_every_door),
		cmocka_unit_test(other_arguments_are_not_listed),
	};
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return 1;
	thread_ended = page;
	return cmocka_run_group_tests_name("cpython_syscalls", tests, NULL, NULL);
}
