/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests a process with several threads that executes another program, or whose first thread ends,
 * while one of them is seized: nobody waits without limit, and the threads that remain are not
 * traced.
 */
#include "borrowed.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "proc/status.h"
#include "proc/task.h"
#include "remote/tracee.h"

#define STOP_US	    500000U
#define PATIENCE_MS 10000 /* for the target, on a busy machine */
#define TRIALS	    3
#define LIMIT_S	    60 /* for the whole test, which hangs without a limit */

enum who {
	FIRST,
	SECOND,
	THIRD,
	THREADS
};

/*
 * The moment at which a thread of the target acts, by what flmem does with the seized thread
 * afterwards.
 */
enum when {
	BEFORE_STOP,
	BEFORE_RELEASE,
	WHILE_STOPPED,
	WHENS
};

struct row {
	const char *name;
	enum who seized, acts;
	bool ends; /* the acting thread ends alone, and executes nothing */
};

static const struct row rows[] = {
	{"the seized one executes a program", SECOND, SECOND, false},
	{"the seized first one executes a program", FIRST, FIRST, false},
	{"the first one does, another one is seized", SECOND, FIRST, false},
	{"another one does, the first one is seized", FIRST, SECOND, false},
	{"a third one does", SECOND, THIRD, false},
	{"the seized first one ends", FIRST, FIRST, true},
	{"the seized one ends", SECOND, SECOND, true},
	{"the first one ends, another one is seized", SECOND, FIRST, true},
};

/* The page that the target shares. */
struct page {
	_Atomic pid_t threads[THREADS];
	_Atomic uint64_t rounds; /* rounds of the thread that is never touched */
	int bells[THREADS][2];
};

static struct page *page;

#ifdef __x86_64__
static void *be_thread(void *argument)
{
	char *argv[] = {"sleep", "1000", NULL};
	enum who who = (enum who)(uintptr_t)argument;
	char byte = 0;

	atomic_store(&page->threads[who], gettid());
	while (read(page->bells[who][0], &byte, 1) != 1)
		continue;
	if (byte == 'x')
		execv("/bin/sleep", argv);
	syscall(SYS_exit, 0);
	return NULL;
}

static void *count(void *unused)
{
	for (;;) {
		atomic_fetch_add(&page->rounds, 1);
		usleep(1000);
	}
	return unused;
}

static void be_target(void)
{
	pthread_t thread;

	for (uintptr_t who = SECOND; who < THREADS; who++)
		if (pthread_create(&thread, NULL, be_thread, (void *)who))
			_exit(1);
	if (pthread_create(&thread, NULL, count, NULL))
		_exit(1);
	be_thread((void *)FIRST);
}

/* Makes the target a grandchild, so that it is not a child of the process that traces it. */
static void be_parent(void)
{
	if (!child_start(be_target))
		_exit(1);
	for (;;)
		pause();
}

static bool is_blocked(enum who who)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	struct flmem_task_wait wait;

	return page->threads[who] &&
	       flmem_process_open(page->threads[FIRST], &process, NULL) == 0 &&
	       flmem_task_read_wait(&process, page->threads[who], &wait) == 1;
}

static pid_t target_start(bool is_child)
{
	pid_t started;

	memset(page, 0, sizeof(*page));
	for (size_t i = 0; i < THREADS; i++)
		assert_int_equal(pipe2(page->bells[i], O_CLOEXEC), 0);
	started = child_start(is_child ? be_target : be_parent);
	assert_true(started > 0);
	for (enum who who = FIRST; who < THREADS; who++)
		await_true(is_blocked(who));
	return started;
}

static void target_end(pid_t started)
{
	/*
	 * A process that executes a program in another thread than the first does not end with its
	 * parent.
	 */
	kill(page->threads[FIRST], SIGKILL);
	child_end(started);
	for (size_t i = 0; i < THREADS; i++) {
		pipe_close(page->bells[i]);
	}
}

/* Reads the state, tracer and name of a thread; false: it does not exist. */
static bool read_thread(pid_t tid, char *ret_state, long *ret_tracer, char ret_name[32])
{
	char path[40], line[256];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)tid);
	file = fopen(path, "re");
	if (!file)
		return false;
	while (fgets(line, sizeof(line), file)) {
		sscanf(line, "Name: %31s", ret_name);
		sscanf(line, "State: %c", ret_state);
		sscanf(line, "TracerPid: %ld", ret_tracer);
	}
	fclose(file);
	return true;
}

static bool is_program_waiting(void)
{
	char name[32] = "", state = 0;
	long tracer = -1;

	return read_thread(page->threads[FIRST], &state, &tracer, name) && state == 'S' &&
	       tracer == 0 && strcmp(name, "sleep") == 0;
}

static bool is_gone(enum who who)
{
	char name[32], state = 0;
	long tracer;

	return !read_thread(page->threads[who], &state, &tracer, name) || state == 'Z';
}

/*
 * Reports that the program is executed, or about to be: the exec waits until the tracer of a thread
 * has taken note of its end. It does not wait for a first thread, which another one has replaced
 * then.
 */
static bool is_executed(enum who seized)
{
	char name[32] = "", state;
	long tracer;

	return (seized != FIRST && is_gone(seized)) ||
	       (read_thread(page->threads[FIRST], &state, &tracer, name) &&
		(strcmp(name, "sleep") == 0 || state == 't'));
}

static bool has_acted(const struct row *row)
{
	return row->ends ? is_gone(row->acts) : is_executed(row->seized);
}

static bool is_unharmed(const struct row *row, uint64_t rounds)
{
	return row->ends ? page->rounds > rounds : is_program_waiting();
}

static bool executes_before_seizure;
static bool signals_before_interrupt; /* the interrupted thread gets a signal first */

static bool is_stopped(pid_t tid)
{
	char name[32] = "", state = 0;
	long tracer = -1;

	return read_thread(tid, &state, &tracer, name) && state == 't';
}

/*
 * Delays the seizure: the kernel finds the thread, and then waits for the program that it is about
 * to execute. The thread is seized under another number, after the stop that reports the execution.
 */
static long answer_tracee_threads(enum __ptrace_request request, long tid, long address, long data)
{
	if (request == PTRACE_SEIZE && executes_before_seizure) {
		executes_before_seizure = false;
		assert_int_equal(write(page->bells[SECOND][1], "x", 1), 1);
		await_true(is_program_waiting());
		tid = page->threads[FIRST];
	}
	if (request == PTRACE_INTERRUPT && tid == page->threads[FIRST] &&
	    signals_before_interrupt) {
		signals_before_interrupt = false;
		assert_int_equal(kill((pid_t)tid, SIGTERM), 0);
		await_true(is_stopped((pid_t)tid));
		return 0;
	}
	return syscall(SYS_ptrace, (long)request, tid, address, data);
}

REPLACE_PTRACE(answer_tracee_threads)

/* The thread that traces, and the parent of the target. */
enum tracer {
	STRANGER, /* the first thread; the target is not a child of this process */
	STRANGER_THREAD,
	PARENT,		  /* the first thread, whose child it is */
	THREAD_OF_PARENT, /* another thread; the kernel remembers which of them made a child */
	PARENT_THREAD,	  /* the thread that made it */
};

struct trial {
	const struct row *row;
	enum when when;
	enum tracer tracer;
	pid_t started;
	int rc; /* the result of the seizure */
	bool unharmed;
	bool gave_up; /* the tracing thread has to end; on a busy machine perhaps for nothing */
};

static void let_act(const struct row *row)
{
	if (write(page->bells[row->acts][1], row->ends ? "e" : "x", 1) != 1)
		return;
	for (int i = 0; i < PATIENCE_MS && !has_acted(row); i++)
		usleep(1000);
}

/* Does with a thread what flmem does; events happen between two of its steps. */
static void *seize_and_release(void *argument)
{
	struct trial *trial = argument;
	const struct row *row = trial->row;
	struct flmem_tracee tracee = {0};
	uint64_t rounds;

	if (trial->tracer == PARENT_THREAD)
		trial->started = target_start(true);
	trial->rc = flmem_tracee_seize(&tracee, page->threads[row->seized], page->threads[FIRST]);
	if (trial->rc)
		return NULL;
	if (trial->when == WHILE_STOPPED)
		flmem_tracee_stop(&tracee, 40 * STOP_US);
	let_act(row);
	if (trial->when == BEFORE_STOP)
		flmem_tracee_stop(&tracee, STOP_US);
	flmem_tracee_release(&tracee);
	trial->gave_up = flmem_tracee_thread_must_exit();
	/* This is still done in this thread: its end would release everything that it traces. */
	rounds = page->rounds;
	for (int i = 0; i < PATIENCE_MS && !trial->unharmed; i++) {
		usleep(1000);
		trial->unharmed = is_unharmed(row, rounds);
	}
	return NULL;
}

static bool has_own_thread(enum tracer tracer)
{
	return tracer != STRANGER && tracer != PARENT;
}

static struct trial run_trial(const struct row *row, enum when when, enum tracer tracer)
{
	struct trial trial = {.row = row, .when = when, .tracer = tracer};
	pthread_t thread;

	if (tracer != PARENT_THREAD)
		trial.started = target_start(tracer >= PARENT);
	if (has_own_thread(tracer)) {
		assert_int_equal(pthread_create(&thread, NULL, seize_and_release, &trial), 0);
		pthread_join(thread, NULL);
	} else {
		seize_and_release(&trial);
	}
	target_end(trial.started);
	return trial;
}

static void try_row(const struct row *row, enum when when, enum tracer tracer)
{
	struct trial trial = run_trial(row, when, tracer);
	bool gave_up = has_own_thread(tracer) && trial.gave_up;

	for (int i = 1; i < TRIALS && gave_up; i++) {
		trial = run_trial(row, when, tracer);
		gave_up = trial.gave_up;
	}
	if (trial.rc == -EPERM) {
		print_message("SKIP: a child may not be traced here\n");
		skip();
	}
	assert_int_equal(trial.rc, 0);
	if (!trial.unharmed || gave_up)
		fail_msg("%s, %d%s", row->name, when, gave_up ? ", given up" : "");
}

static void try_all(enum tracer tracer)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++)
		for (enum when when = 0; when < WHENS; when++)
			/* A stopped thread cannot act. */
			if (when != WHILE_STOPPED || rows[i].acts != rows[i].seized)
				try_row(&rows[i], when, tracer);
}

static void a_process_of_somebody_else_is_let_go_of(void **state)
{
	(void)state;
	try_all(STRANGER);
}

/* All work on a target is done in such a thread: base/attempt.h. */
static void so_it_is_by_another_thread_than_the_first(void **state)
{
	(void)state;
	try_all(STRANGER_THREAD);
}

/* The targets of `flmem start` and `flmem supervise` are their children. */
static void so_is_a_child(void **state)
{
	(void)state;
	try_all(PARENT);
	try_all(THREAD_OF_PARENT);
	try_all(PARENT_THREAD);
}

static void execute_while_seized(void)
{
	struct flmem_tracee tracee = {0};
	int rc;

	executes_before_seizure = true;
	rc = flmem_tracee_seize(&tracee, page->threads[SECOND], page->threads[FIRST]);
	if (rc == -EPERM) {
		print_message("SKIP: a child may not be traced here\n");
		skip();
	}
	assert_int_equal(rc, 0);
	assert_int_equal(flmem_tracee_stop(&tracee, STOP_US), FLMEM_TRACEE_GONE);
	flmem_tracee_release(&tracee);
}

static void one_that_is_seized_while_it_executes_is_let_go_of(void **state)
{
	pid_t started = target_start(true);

	(void)state;
	execute_while_seized();
	await_true(is_program_waiting());
	target_end(started);
}

/* A signal that is being delivered to the new program is not lost. */
static void its_signal_is_passed_on(void **state)
{
	pid_t started = target_start(true);

	(void)state;
	signals_before_interrupt = true;
	execute_while_seized();
	assert_false(signals_before_interrupt);
	await_true(is_gone(FIRST));
	target_end(started);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_that_is_seized_while_it_executes_is_let_go_of),
		cmocka_unit_test(its_signal_is_passed_on),
		cmocka_unit_test(a_process_of_somebody_else_is_let_go_of),
		cmocka_unit_test(so_it_is_by_another_thread_than_the_first),
		cmocka_unit_test(so_is_a_child),
	};

	alarm(LIMIT_S);
	page = child_share(sizeof(*page));
	if (!page)
		return 1;
	return cmocka_run_group_tests_name("tracee_threads", tests, NULL, NULL);
}
#else
int main(void)
{
	puts("SKIP: threads are not borrowed on this processor yet");
	return 77;
}
#endif
