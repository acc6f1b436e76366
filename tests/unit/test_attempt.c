/* SPDX-License-Identifier: Apache-2.0 */
/* Work is given up when one read is not answered, but not when it only takes long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/attempt.h"
#include "proc/process.h"

#define PATIENCE_MS 400U
/* Patience in slices, the steps in which attempt.c waits. */
#define PATIENCE (PATIENCE_MS / 50U + 1U)
#define TOTAL	 (PATIENCE * FLMEM_ATTEMPT_TOTAL_FACTOR)
#define CODE	 FLMEM_EUNSUPPORTED

#define ABANDONED_MAX 64U /* the limit in attempt.c */

struct work {
	int ends[2]; /* a pipe, which plays the file that does not answer */
	size_t reads;
	sigset_t blocked;
	unsigned long long waiting_blocks, descriptors;
	pthread_t thread;
	_Atomic pid_t tid;
	_Atomic size_t reads_done;
	_Atomic int write_rc; /* result of a write to this process after the answer */
	_Atomic bool lost, returned, released, started, finished;
};

/*
 * Slices that pass when the test lets them, instead of after 50 ms: each ends when the worker is
 * blocked in `call`, however long the machine takes for that. After `slices_per_answer` of them the
 * worker gets the data that it waits for.
 */
static struct script {
	struct work *work; /* NULL: slices take their real time */
	long call;
	size_t slices_per_answer, answers;
	size_t slices; /* number of slices so far */
} script;

static int work_open(void **state)
{
	struct work *work = calloc(1, sizeof(*work));

	*state = work;
	return !work || pipe(work->ends);
}

static int work_close(void **state)
{
	struct work *work = *state;

	close(work->ends[0]);
	close(work->ends[1]);
	free(work);
	script = (struct script){0};
	return 0;
}

static void release(void *context)
{
	struct work *work = context;

	atomic_store(&work->released, true);
}

static int attempt(struct work *work, int (*run)(void *context, struct flmem_error *err),
		   bool *ret_lost, struct flmem_error *err)
{
	const struct flmem_attempt how = {
		.run = run, .release = release, .patience_ms = PATIENCE_MS};

	return flmem_attempt_run(&how, work, ret_lost, err);
}

/* Gives the reader the data that it waits for. */
static void answer(struct work *work)
{
	assert_int_equal(write(work->ends[1], "x", 1), 1);
}

static bool is_blocked(const struct work *work, long call)
{
	char path[64], text[64] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", (int)atomic_load(&work->tid));
	file = fopen(path, "re");
	if (!file)
		return false;
	if (!fgets(text, sizeof(text), file))
		text[0] = '\0';
	fclose(file);
	return text[0] >= '0' && text[0] <= '9' && strtol(text, NULL, 10) == call;
}

/* Passes a slice; false if the worker has got the last answer and is about to end. */
static bool pass_slice(void)
{
	struct work *work = script.work;
	size_t answers = script.slices++ / script.slices_per_answer;

	if (answers > atomic_load(&work->reads_done)) {
		answer(work);
		if (answers == script.answers)
			return false;
	}
	while (atomic_load(&work->reads_done) != answers || !is_blocked(work, script.call))
		usleep(100);
	return true;
}

/*
 * Replaces the function with which attempt.c waits. The other thread takes the mutex only when it
 * ends.
 */
int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
			   const struct timespec *until)
{
	int (*wait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
	void *symbol = dlsym(RTLD_NEXT, "pthread_cond_timedwait");

	if (script.work)
		return pass_slice() ? ETIMEDOUT : pthread_cond_wait(cond, mutex);
	memcpy(&wait, &symbol, sizeof(wait));
	return wait(cond, mutex, until);
}

static void await(_Atomic bool *flag)
{
	for (int i = 0; i < 20000 && !atomic_load(flag); i++)
		usleep(1000);
	assert_true(*flag);
}

static int read_once(void *context, struct flmem_error *err)
{
	FLMEM_AUTO_PROCESS struct flmem_process own = FLMEM_PROCESS_INIT;
	struct work *work = context;
	char byte;
	int rc = flmem_process_open(getpid(), &own, NULL);

	if (!rc)
		rc = flmem_process_pin_memory(&own, NULL);
	while (read(work->ends[0], &byte, 1) != 1)
		continue;
	atomic_store(&work->lost, flmem_attempt_is_lost());
	if (!rc)
		rc = flmem_process_write_memory(&own, (uintptr_t)&byte, "x", 1);
	atomic_store(&work->write_rc, rc);
	atomic_store(&work->returned, true);
	return flmem_error_set(err, CODE, 0, "read");
}

/* Waits in a call that ends by itself, so that the work is not abandoned on a slow machine. */
static int read_until_told(void *context, struct flmem_error *err)
{
	struct work *work = context;
	struct pollfd file = {.fd = work->ends[0], .events = POLLIN};

	atomic_store(&work->started, true);
	while (poll(&file, 1, -1) != 1)
		continue;
	return read_once(work, err);
}

static void a_read_without_an_answer_is_given_up(void **state)
{
	struct work *work = *state;
	struct flmem_error err = {0};
	bool lost = false;

	assert_int_equal(attempt(work, read_once, &lost, &err), FLMEM_EUNSAFE);
	assert_true(lost);
	assert_non_null(strstr(err.message, "did not answer within 400 ms"));
	assert_false(work->released);
	answer(work);
	await(&work->returned);
	assert_true(work->lost);
	assert_int_equal(work->write_rc, -ETIMEDOUT);
	await(&work->released);
	assert_false(flmem_attempt_is_lost());
}

static void what_is_answered_is_the_caller_s(void **state)
{
	struct work *work = *state;
	struct flmem_error err = {0};
	bool lost = false;

	answer(work);
	assert_int_equal(attempt(work, read_once, &lost, &err), CODE);
	assert_string_equal(err.message, "read");
	assert_false(lost || work->lost || work->released);
}

/* Reads into different places, like the parts of a target's memory. */
static int read_many(void *context, struct flmem_error *err)
{
	struct work *work = context;
	char bytes[256];

	(void)err;
	atomic_store(&work->tid, (int)syscall(SYS_gettid));
	for (size_t i = 0; i < work->reads; i++) {
		if (read(work->ends[0], bytes + i % sizeof(bytes), 1) != 1)
			return FLMEM_EFAILED;
		atomic_fetch_add(&work->reads_done, 1);
	}
	return 0;
}

static void write_script(struct work *work, size_t reads, size_t slices_per_answer, long call)
{
	work->reads = reads;
	script = (struct script){.work = work,
				 .call = call,
				 .slices_per_answer = slices_per_answer,
				 .answers = reads};
}

/* Answers the rest of the reads of abandoned work. */
static void answer_all(struct work *work)
{
	for (size_t i = 0; i < work->reads; i++)
		answer(work);
	await(&work->released);
}

/* The time is too long for one read, and less than the limit for many. */
static void reads_that_are_answered_are_awaited(void **state)
{
	struct work *work = *state;
	bool lost = false;

	write_script(work, 12, 3, SYS_read);
	assert_int_equal(attempt(work, read_many, &lost, NULL), 0);
	assert_false(lost);
	assert_in_range(script.slices, 3 * PATIENCE, TOTAL - 1);
}

static int attempt_on(struct work *work, pid_t subject, bool *ret_lost)
{
	const struct flmem_attempt how = {.run = read_once,
					  .release = release,
					  .patience_ms = PATIENCE_MS,
					  .subject = subject};

	return flmem_attempt_run(&how, work, ret_lost, NULL);
}

/*
 * Further attempts are refused even if they would be answered: only the first one waits, and only
 * for its process.
 */
static void one_attempt_at_a_time_waits_for_a_process(void **state)
{
	struct work *work = *state, other = {0};
	bool lost = false;

	assert_int_equal(pipe(other.ends), 0);
	assert_int_equal(attempt_on(work, 1234, &lost), FLMEM_EUNSAFE);
	assert_true(lost);
	lost = false;
	answer(&other);
	assert_int_equal(attempt_on(&other, 1234, &lost), FLMEM_EUNSAFE);
	assert_false(lost || other.released || atomic_load(&other.returned));
	assert_int_equal(attempt_on(&other, 1235, &lost), CODE);
	answer(work);
	await(&work->released);
	answer(&other);
	assert_int_equal(attempt_on(&other, 1234, &lost), CODE);
	assert_false(lost);
	close(other.ends[0]);
	close(other.ends[1]);
}

/* The attempt's thread exists in the parent only. */
static void a_child_has_no_attempt_of_its_parent(void **state)
{
	struct work *work = *state, other = {0};
	bool lost = false;
	pid_t child;
	int status = 1;

	assert_int_equal(pipe(other.ends), 0);
	assert_int_equal(attempt_on(work, 1234, &lost), FLMEM_EUNSAFE);
	answer(&other);
	child = fork();
	if (child == 0)
		_exit(attempt_on(&other, 1234, &lost) == CODE ? 0 : 1);
	assert_true(child > 0 && waitpid(child, &status, 0) == child);
	assert_int_equal(status, 0);
	answer(work);
	await(&work->released);
	close(other.ends[0]);
	close(other.ends[1]);
}

/* The limit holds for any number of processes that never answer. */
static void abandoned_attempts_are_limited(void **state)
{
	struct work *work = *state, last = {0};
	static struct work many[ABANDONED_MAX];
	struct flmem_error err = {0};
	bool lost = false;
	const struct flmem_attempt how = {.run = read_once, .release = release};

	for (size_t i = 0; i < ABANDONED_MAX; i++) {
		many[i] = (struct work){.ends = {work->ends[0], work->ends[1]}};
		write_script(&many[i], 1, PATIENCE, SYS_read);
		lost = false;
		assert_int_equal(attempt(&many[i], read_many, &lost, NULL), FLMEM_EUNSAFE);
		assert_true(lost);
	}
	script = (struct script){0};
	lost = false;
	assert_int_equal(flmem_attempt_run(&how, &last, &lost, &err), FLMEM_EUNSAFE);
	assert_non_null(strstr(err.message, "too many other processes"));
	assert_false(lost || last.released);
	for (size_t i = 0; i < ABANDONED_MAX; i++)
		answer(work);
	for (size_t i = 0; i < ABANDONED_MAX; i++)
		await(&many[i].released);
	answer(work);
	assert_int_equal(attempt(work, read_once, &lost, NULL), CODE);
}

#ifdef __SANITIZE_ADDRESS__
void __asan_handle_no_return(void);
#endif

/* A thread ends in frames that it leaves, which AddressSanitizer does not know. */
static void leave_frames(void)
{
#ifdef __SANITIZE_ADDRESS__
	__asan_handle_no_return();
#endif
}

static void *attempt_in_host(void *context)
{
	struct work *work = context;
	bool lost = false;

	atomic_store(&work->lost, attempt(work, read_until_told, &lost, NULL) != CODE);
	atomic_store(&work->finished, true);
	leave_frames();
	pthread_testcancel();
	return NULL;
}

static void a_thread_that_waits_cannot_be_cancelled(void **state)
{
	struct work *work = *state;
	pthread_t host;
	void *result;

	assert_int_equal(pthread_create(&host, NULL, attempt_in_host, work), 0);
	await(&work->started);
	assert_int_equal(pthread_cancel(host), 0);
	answer(work);
	assert_int_equal(pthread_join(host, &result), 0);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	assert_true(work->finished && work->returned);
	assert_false(work->lost);
}

/* One read may not take as long as many reads together. */
static void an_answer_that_comes_too_late_is_not_awaited(void **state)
{
	struct work *work = *state;
	bool lost = false;

	write_script(work, 1, PATIENCE, SYS_read);
	assert_int_equal(attempt(work, read_many, &lost, NULL), FLMEM_EUNSAFE);
	assert_true(lost);
	assert_int_equal(script.slices, PATIENCE);
	answer_all(work);
}

static void reads_without_end_are_given_up(void **state)
{
	struct work *work = *state;
	bool lost = false;

	write_script(work, TOTAL, 1, SYS_read);
	assert_int_equal(attempt(work, read_many, &lost, NULL), FLMEM_EUNSAFE);
	assert_true(lost);
	assert_int_equal(script.slices, TOTAL);
	answer_all(work);
}

static int wait_long(void *context, struct flmem_error *err)
{
	struct work *work = context;
	struct pollfd file = {.fd = work->ends[0], .events = POLLIN};

	(void)err;
	atomic_store(&work->tid, (int)syscall(SYS_gettid));
	return syscall(SYS_ppoll, &file, 1UL, NULL, NULL, 0UL) != 1;
}

/* The sleep ends by itself, whatever a target does. */
static void a_long_sleep_is_no_missing_answer(void **state)
{
	struct work *work = *state;
	bool lost = false;

	write_script(work, 1, 2 * TOTAL, SYS_ppoll);
	assert_int_equal(attempt(work, wait_long, &lost, NULL), 0);
	assert_false(lost || work->released);
}

static int note_thread(void *context, struct flmem_error *err)
{
	struct work *work = context;

	(void)err;
	work->thread = pthread_self();
	pthread_sigmask(SIG_SETMASK, NULL, &work->blocked);
	return 0;
}

static int nest(void *context, struct flmem_error *err)
{
	struct work *work = context;
	bool lost = false;
	int rc = attempt(work, note_thread, &lost, err);

	return rc || lost || !pthread_equal(work->thread, pthread_self());
}

static void one_within_another_uses_its_thread(void **state)
{
	struct work *work = *state;
	bool lost = false;

	assert_int_equal(attempt(work, nest, &lost, NULL), 0);
	assert_int_equal(attempt(work, note_thread, &lost, NULL), 0);
	assert_false(pthread_equal(work->thread, pthread_self()));
}

static bool takes(const sigset_t *blocked, int number)
{
	return sigismember(blocked, number) == 0;
}

/* The worker may hold a thread of a target, and knows when it must not be stopped. */
static void stops_of_terminals_go_to_the_thread_that_works(void **state)
{
	struct work *work = *state;
	sigset_t own, before, now;
	bool lost = false;

	sigemptyset(&own);
	sigaddset(&own, SIGTTIN);
	pthread_sigmask(SIG_BLOCK, &own, &before);
	assert_int_equal(attempt(work, note_thread, &lost, NULL), 0);
	pthread_sigmask(SIG_SETMASK, &before, &now);
	assert_true(takes(&work->blocked, SIGTSTP) && takes(&work->blocked, SIGTTOU));
	assert_false(takes(&work->blocked, SIGTTIN)); /* the caller blocks it itself */
	assert_false(takes(&work->blocked, SIGTERM));
	assert_true(takes(&now, SIGTSTP) && takes(&now, SIGTTOU) && !takes(&now, SIGTTIN));
}

/* Returns a line of /proc/self/status, of the main thread of this program. */
static unsigned long long read_status(const char *name, int base)
{
	FILE *file = fopen("/proc/self/status", "re");
	unsigned long long value = 0;
	char line[256];

	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		if (strncmp(line, name, strlen(name)) == 0)
			value = strtoull(line + strlen(name), NULL, base);
	fclose(file);
	return value;
}

static int note_status(void *context, struct flmem_error *err)
{
	struct work *work = context;

	(void)err;
	pthread_sigmask(SIG_SETMASK, NULL, &work->blocked);
	work->waiting_blocks = read_status("SigBlk:", 16);
	work->descriptors = read_status("FDSize:", 10);
	return 0;
}

/* The stop of a traced thread sends SIGCHLD. */
static void sigchld_does_not_wake_the_waiting_thread(void **state)
{
	struct work *work = *state;
	bool lost = false;

	assert_int_equal(attempt(work, note_status, &lost, NULL), 0);
	assert_true(work->waiting_blocks & (1ULL << (SIGCHLD - 1)));
	assert_true(takes(&work->blocked, SIGCHLD));
	assert_false(read_status("SigBlk:", 16) & (1ULL << (SIGCHLD - 1)));
}

/* A process with few open files: fork() makes the table as small as they allow. */
static int grow_in_child(struct work *work)
{
	bool lost = false;
	pid_t child;
	int status;

	closefrom(3);
	child = fork();
	if (child == 0) {
		if (read_status("FDSize:", 10) >= 256)
			_exit(2);
		_exit(attempt(work, note_status, &lost, NULL) || work->descriptors < 256);
	}
	return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status)
		       ? WEXITSTATUS(status)
		       : 3;
}

static void descriptors_have_room_before_a_thread_is_held(void **state)
{
	pid_t child = fork();
	int status = -1;

	if (child == 0)
		_exit(grow_in_child(*state));
	assert_true(child > 0 && waitpid(child, &status, 0) == child);
	assert_int_equal(status, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, work_open, work_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_read_without_an_answer_is_given_up),
		TEST(what_is_answered_is_the_caller_s),
		TEST(reads_that_are_answered_are_awaited),
		TEST(one_attempt_at_a_time_waits_for_a_process),
		TEST(a_child_has_no_attempt_of_its_parent),
		TEST(abandoned_attempts_are_limited),
		TEST(a_thread_that_waits_cannot_be_cancelled),
		TEST(an_answer_that_comes_too_late_is_not_awaited),
		TEST(reads_without_end_are_given_up),
		TEST(a_long_sleep_is_no_missing_answer),
		TEST(one_within_another_uses_its_thread),
		TEST(stops_of_terminals_go_to_the_thread_that_works),
		TEST(sigchld_does_not_wake_the_waiting_thread),
		TEST(descriptors_have_room_before_a_thread_is_held),
	};

	return cmocka_run_group_tests_name("attempt", tests, NULL, NULL);
}
