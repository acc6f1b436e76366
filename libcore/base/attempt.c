/* SPDX-License-Identifier: Apache-2.0 */
#include "base/attempt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/portable.h"
#include "base/thread.h"

#define SLICE_MS	50U
#define CALL_BYTES	256U
#define HIGH_DESCRIPTOR 255
/*
 * Limit of abandoned tasks. Each costs a thread and a few descriptors for as long as the process
 * that it works on lives.
 */
#define ABANDONED_MAX 64U

/* A task, shared by the worker thread and the waiting one; the last of the two frees it. */
struct attempt_task {
	struct flmem_attempt how;
	void *context;
	pthread_mutex_t lock; /* protects `done`, `err` and the owner of the context */
	pthread_cond_t end;
	bool done;
	int rc;
	struct flmem_error err;
	atomic_bool lost;
	atomic_int tid;
	sigset_t stops; /* the stop signals that the caller's thread handles outside of attempts */
	timer_t timer;	/* ends this process (flmem_attempt_set_limit()); `lock` protects it, too */
	struct itimerspec limit; /* 0: no timer */
	struct attempt_task
		*next; /* in the list of abandoned tasks; `abandoned_lock` protects it */
};

static pthread_mutex_t abandoned_lock = PTHREAD_MUTEX_INITIALIZER;
static struct attempt_task *abandoned;
static pthread_once_t fork_handled = PTHREAD_ONCE_INIT;

static _Thread_local struct attempt_task *current;

bool flmem_attempt_is_lost(void)
{
	return current && atomic_load_explicit(&current->lost, memory_order_relaxed);
}

static void free_task(struct attempt_task *task)
{
	pthread_mutex_destroy(&task->lock);
	pthread_cond_destroy(&task->end);
	free(task);
}

static struct attempt_task *new_task(const struct flmem_attempt *how, void *context)
{
	struct attempt_task *task = calloc(1, sizeof(*task));

	if (!task)
		return NULL;
	task->how = *how;
	task->context = context;
	if (!task->how.patience_ms)
		task->how.patience_ms = FLMEM_ATTEMPT_PATIENCE_MS;
	pthread_mutex_init(&task->lock, NULL);
	flmem_cond_init_monotonic(&task->end);
	return task;
}

static void add_abandoned(struct attempt_task *task)
{
	pthread_mutex_lock(&abandoned_lock);
	task->next = abandoned;
	abandoned = task;
	pthread_mutex_unlock(&abandoned_lock);
}

static void remove_abandoned(const struct attempt_task *task)
{
	struct attempt_task **link = &abandoned;

	pthread_mutex_lock(&abandoned_lock);
	while (*link && *link != task)
		link = &(*link)->next;
	if (*link)
		*link = task->next;
	pthread_mutex_unlock(&abandoned_lock);
}

static void lock_abandoned(void)
{
	pthread_mutex_lock(&abandoned_lock);
}

static void unlock_abandoned(void)
{
	pthread_mutex_unlock(&abandoned_lock);
}

/* Forgets the abandoned tasks in the child of a fork: their threads exist in the parent only. */
static void forget_abandoned(void)
{
	abandoned = NULL;
	pthread_mutex_unlock(&abandoned_lock);
}

/*
 * Registers the handlers of fork(): a host program may fork while another of its threads is in this
 * file.
 */
static void handle_fork(void)
{
	(void)pthread_atfork(lock_abandoned, unlock_abandoned, forget_abandoned);
}

/* Returns why no attempt on this process may start, or NULL. */
static const char *why_not_now(pid_t subject)
{
	const struct attempt_task *task;
	const char *why = NULL;
	unsigned count = 0;

	pthread_once(&fork_handled, handle_fork);
	pthread_mutex_lock(&abandoned_lock);
	for (task = abandoned; task && !why; task = task->next)
		if (subject && task->how.subject == subject)
			why = "its memory or files still do not answer an earlier attempt";
		else if (++count == ABANDONED_MAX)
			why = "too many other processes still do not answer";
	pthread_mutex_unlock(&abandoned_lock);
	return why;
}

static void *run_attempt(void *argument)
{
	struct attempt_task *task = argument;
	bool lost;

	atomic_store(&task->tid, (int)syscall(SYS_gettid));
	current = task;
	pthread_sigmask(SIG_UNBLOCK, &task->stops, NULL);
	task->rc = task->how.run(task->context, &task->err);
	current = NULL;
	pthread_mutex_lock(&task->lock);
	task->done = true;
	lost = atomic_load(&task->lost);
	pthread_cond_signal(&task->end);
	pthread_mutex_unlock(&task->lock);
	if (!lost)
		return NULL;
	remove_abandoned(task);
	task->how.release(task->context);
	free_task(task);
	return NULL;
}

/* Reports whether only the process, or a file system that it chose, can end this system call. */
static bool can_block_forever(long number)
{
	static const long calls[] = {
		SYS_read,	SYS_pread64,	SYS_readv,     SYS_preadv,
		SYS_openat,	SYS_openat2,	SYS_fstat,     SYS_newfstatat,
		SYS_statx,	SYS_readlinkat, SYS_faccessat, SYS_getdents64,
		SYS_close,	SYS_mmap,	SYS_munmap,    SYS_process_vm_readv,
		SYS_pwrite64,	SYS_ioctl,	SYS_fstatfs,   SYS_process_vm_writev,
		SYS_ptrace,
#ifdef SYS_faccessat2
		SYS_faccessat2,
#endif
	};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(calls); i++)
		if (calls[i] == number)
			return true;
	return false;
}

/*
 * Reads the system call that the thread is blocked in, with its arguments, stack and program
 * pointers. False if it is in none, or in one that ends by itself. For a runnable thread the kernel
 * shows only "running" (proc_pid_syscall(5)).
 */
static bool read_attempt_syscall(const struct attempt_task *task, char ret_call[CALL_BYTES],
				 long *ret_number)
{
	FLMEM_AUTO_CLOSE int fd = -1;
	char path[64], *end;
	ssize_t got;
	long number = 0;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", atomic_load(&task->tid));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	got = fd < 0 ? -1 : read(fd, ret_call, CALL_BYTES - 1);
	if (got <= 0)
		return false;
	ret_call[got] = '\0';
	for (end = ret_call; *end >= '0' && *end <= '9' && number < 100000; end++)
		number = number * 10 + (*end - '0');
	*ret_number = number;
	return end > ret_call && *end == ' ' && can_block_forever(number);
}

void flmem_attempt_set_limit(const timer_t *timer, const struct itimerspec *limit)
{
	struct attempt_task *task = current;

	if (!task)
		return;
	pthread_mutex_lock(&task->lock);
	task->limit = (struct itimerspec){0};
	if (timer) {
		task->timer = *timer;
		task->limit = *limit;
	}
	pthread_mutex_unlock(&task->lock);
}

/*
 * Sets the timer that ends this process, if the thread is blocked in ptrace(); such a thread traces
 * nothing.
 */
static void set_timer(struct attempt_task *task, long number, const struct itimerspec *time)
{
	if (task->limit.it_value.tv_sec && number == SYS_ptrace)
		timer_settime(task->timer, 0, time, NULL);
}

/*
 * Count the slices that this thread has waited, not time: while flmem is stopped or the machine
 * sleeps, the worker cannot get an answer either.
 */
static bool wait_for_task(struct attempt_task *task)
{
	const unsigned patience = task->how.patience_ms / SLICE_MS + 1;
	char before[CALL_BYTES] = "", now[CALL_BYTES];
	unsigned same = 0, blocked = 0;
	long number = -1;

	while (!task->done && same < patience && blocked < patience * FLMEM_ATTEMPT_TOTAL_FACTOR) {
		struct timespec until = flmem_clock_after_us(SLICE_MS * 1000U);

		if (pthread_cond_timedwait(&task->end, &task->lock, &until) != ETIMEDOUT)
			continue;
		if (!atomic_load(&task->tid) || !read_attempt_syscall(task, now, &number)) {
			same = 0;
			before[0] = '\0';
			continue;
		}
		set_timer(task, number, &task->limit);
		blocked++;
		same = strcmp(before, now) == 0 ? same + 1 : 1;
		memcpy(before, now, sizeof(before));
	}
	if (!task->done)
		set_timer(task, number, &(struct itimerspec){0});
	return task->done;
}

static int run_task(struct attempt_task *task, pthread_t thread, bool *ret_lost,
		    struct flmem_error *err)
{
	const unsigned patience_ms = task->how.patience_ms;
	int rc;

	pthread_mutex_lock(&task->lock);
	if (!wait_for_task(task)) {
		atomic_store(&task->lost, true);
		add_abandoned(task);
		pthread_mutex_unlock(&task->lock);
		pthread_detach(thread);
		*ret_lost = true;
		return flmem_error_set(err, FLMEM_EUNSAFE, 0,
				       "its memory or files did not answer within %u ms",
				       patience_ms);
	}
	pthread_mutex_unlock(&task->lock);
	pthread_join(thread, NULL);
	rc = task->rc;
	if (rc && err)
		*err = task->err;
	free_task(task);
	return rc;
}

/*
 * While a process has several threads, each enlargement of its descriptor table waits for an RCU
 * grace period, that is for milliseconds (expand_fdtable() in fs/file.c), which would prolong the
 * hold of a borrowed thread. So the table gets its size before the worker thread exists.
 */
static void grow_descriptor_table(void)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int high = null < 0 ? -1 : fcntl(null, F_DUPFD_CLOEXEC, HIGH_DESCRIPTOR);

	if (high >= 0)
		close(high);
	if (null >= 0)
		close(null);
}

/*
 * Lets the worker thread handle the stop signals of terminals instead of the caller's thread: the
 * worker blocks them while it holds a thread of a target (remote/interrupts.h). SIGCHLD is handed
 * over, too, so that the stop of a traced thread does not wake the caller's thread on the processor
 * that is needed.
 */
static void hand_over_stops(sigset_t *ret_stops, sigset_t *ret_before)
{
	static const int stops[] = {SIGTSTP, SIGTTIN, SIGTTOU, SIGCHLD};
	sigset_t all;

	sigemptyset(&all);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(stops); i++)
		sigaddset(&all, stops[i]);
	pthread_sigmask(SIG_BLOCK, &all, ret_before);
	*ret_stops = all;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(stops); i++)
		if (sigismember(ret_before, stops[i]) == 1)
			sigdelset(ret_stops, stops[i]);
}

static int start_attempt_task(struct attempt_task *task, bool *ret_lost, struct flmem_error *err)
{
	pthread_t thread;
	sigset_t before;
	int rc;

	grow_descriptor_table();
	hand_over_stops(&task->stops, &before);
	rc = flmem_thread_start(&thread, run_attempt, task);
	if (rc) {
		free_task(task);
		rc = flmem_error_set(err, FLMEM_EFAILED, rc, "cannot start a thread");
	} else {
		rc = run_task(task, thread, ret_lost, err);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc;
}

/*
 * A host program may cancel the waiting thread. The worker would then keep the data that both
 * share, and a context that nobody frees; so cancellation is disabled.
 */
int flmem_attempt_run(const struct flmem_attempt *attempt, void *context, bool *ret_lost,
		      struct flmem_error *err)
{
	struct attempt_task *task;
	const char *why;
	int cancel, rc;

	if (current)
		return attempt->run(context, err);
	why = why_not_now(attempt->subject);
	if (why)
		return flmem_error_set(err, FLMEM_EUNSAFE, 0, "%s", why);
	task = new_task(attempt, context);
	if (!task)
		return flmem_error_nomem(err, "cannot read a process");
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	rc = start_attempt_task(task, ret_lost, err);
	pthread_setcancelstate(cancel, NULL);
	return rc;
}

struct thread_run {
	void (*run)(void *context);
	void *context;
	struct attempt_task *task; /* the attempt that the caller runs in, or NULL */
	sigset_t mask;		   /* the caller's signal mask */
};

static void *run_on_own_thread(void *argument)
{
	const struct thread_run *start = argument;

	current = start->task;
	if (current)
		atomic_store(&current->tid, (int)syscall(SYS_gettid));
	pthread_sigmask(SIG_SETMASK, &start->mask, NULL);
	start->run(start->context);
	current = NULL;
	return NULL;
}

/*
 * The new thread alone handles signals, as the caller did before; the caller blocks them all
 * meanwhile.
 */
int flmem_attempt_run_on_thread(void (*run)(void *context), void *context)
{
	struct thread_run start = {.run = run, .context = context, .task = current};
	pthread_t thread;
	sigset_t all;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &start.mask);
	rc = flmem_thread_start(&thread, run_on_own_thread, &start);
	if (!rc)
		pthread_join(thread, NULL);
	if (!rc && current)
		atomic_store(&current->tid, (int)syscall(SYS_gettid));
	pthread_sigmask(SIG_SETMASK, &start.mask, NULL);
	return rc;
}
