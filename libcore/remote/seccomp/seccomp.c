/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/seccomp/seccomp.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/attempt.h"
#include "base/cleanup.h"
#include "base/portable.h"
#include "base/text/buf.h"
#include "proc/process.h"
#include "proc/status.h"
#include "proc/task.h"
#include "remote/checks/candidates.h"
#include "remote/checks/quiet_stop.h"
#include "remote/interrupts.h"
#include "remote/own_quota.h"
#include "remote/seccomp/seccomp_filter.h"
#include "remote/tracee.h"

#define FILTERS_MAX 64U

/* System call numbers of a 64-bit program: 0 to 471 in Linux 7.0; 512 and up belong to x32. */
#define NUMBERS 512U

/*
 * Limit of the steps with which the filters of a thread are evaluated, while it is held. These take
 * some 2 ms; filters for containers and services have a tenth of them.
 */
#define STEPS_MAX 400000U

/*
 * The same where the user has assumed the rest: the calls that are surely made are then still
 * checked, those of the longest filters that the kernel allows.
 */
#define STEPS_ASSUMED_MAX 4000000U

#define STOP_TIMEOUT_US 200000U

#define CAP_SYS_ADMIN_BIT 21U

/* Request that exists since Linux 6.4 (linux/ptrace.h). */
#define GET_USER_DISPATCH ((flmem_ptrace_request)0x4211)

struct user_dispatch {
	uint64_t mode, selector, offset, length;
};

/* One thread and the calls to check for it. */
struct filter_check {
	pid_t pid, tid;
	const struct flmem_seccomp_calls *calls;
	const struct sock_filter *program;
	size_t length;
	unsigned steps; /* taken so far, for all filters */
	struct flmem_error *err;
};

/* The seccomp state of a thread; a kernel without seccomp shows no such lines. */
struct seccomp_state {
	uint64_t mode;
	uint64_t filters; /* number of filters; UINT64_MAX: not shown (before Linux 5.9) */
	uint64_t capabilities;
};

static struct seccomp_state get_seccomp_state(const struct flmem_status *status)
{
	return (struct seccomp_state){
		.mode = flmem_u64_or(status->seccomp_mode, 0),
		.filters = flmem_u64_or(status->seccomp_filters, UINT64_MAX),
		.capabilities = flmem_u64_or(status->cap_effective, UINT64_MAX),
	};
}

static int read_seccomp_state(const struct flmem_process *process, pid_t tid,
			      struct seccomp_state *ret_state)
{
	struct flmem_status status;
	int rc = flmem_status_read_thread(process, tid, &status);

	if (!rc)
		*ret_state = get_seccomp_state(&status);
	return rc;
}

struct flmem_seccomp_calls flmem_seccomp_calls_of(const struct flmem_candidate *candidate,
						  const struct flmem_syscall_list *list,
						  bool assume)
{
	struct flmem_seccomp_calls calls = {.list = list, .assume = assume};

	calls.repeated.number = candidate->computes ? -1 : candidate->at.number;
	calls.repeated.name = candidate->wait.name;
	for (size_t i = 0; i < FLMEM_SYSCALL_ARGS; i++)
		calls.repeated.args[i] =
			(struct flmem_syscall_arg)FLMEM_ARG_IS(candidate->at.args[i]);
	return calls;
}

/*
 * Returns why the kernel does not show filters to this thread of flmem (kernel/seccomp.c,
 * seccomp_get_filter).
 */
static const char *why_unreadable(void)
{
	FLMEM_AUTO_PROCESS struct flmem_process self = FLMEM_PROCESS_INIT;
	struct seccomp_state own;

	if (flmem_process_open(getpid(), &self, NULL) ||
	    read_seccomp_state(&self, flmem_thread_id(), &own))
		return NULL;
	if (own.mode)
		return "flmem itself runs under a seccomp filter, and the kernel shows filters "
		       "only to processes without one";
	if (!(own.capabilities >> CAP_SYS_ADMIN_BIT & 1U))
		return "flmem lacks CAP_SYS_ADMIN";
	return NULL;
}

static int refuse_unreadable(const struct filter_check *in, const char *why)
{
	return flmem_error_set(
		in->err, FLMEM_EPERM, 0,
		"thread %d of process %d runs under a seccomp filter that flmem cannot read (%s) "
		"and that could kill the process for the calls of flmem; run flmem as root on the "
		"host, or give --assume-seccomp if the filter is known to allow these calls",
		(int)in->tid, (int)in->pid, why);
}

static int refuse_mode(const struct filter_check *in)
{
	return flmem_error_set(in->err, FLMEM_EUNSUPPORTED, 0,
			       "thread %d of process %d runs in seccomp strict mode, which kills "
			       "it for the system calls that a release of memory needs",
			       (int)in->tid, (int)in->pid);
}

static bool runs_program_code(const struct flmem_seccomp_calls *calls)
{
	for (size_t i = 0; calls->list && i < calls->list->count; i++)
		if (calls->list->tables[i]->runs_program_code)
			return true;
	return !calls->list;
}

/*
 * Checks the filters of other threads. Finalisers and similar code run on the thread that drops the
 * last reference. If all threads have the same filters, the code would meet these filters anyway;
 * under additional filters, calls might fail that never failed before. Different counts prove
 * different filters. Equal counts do not prove equal filters and allow nothing:
 * flmem_seccomp_check_thread() decides.
 */
static int check_others(const struct flmem_process *process, const struct filter_check *in,
			const struct seccomp_state *own)
{
	FLMEM_AUTO_TASKS struct flmem_tasks tasks = {0};
	int rc = flmem_tasks_read(process, &tasks);

	if (rc)
		return flmem_process_error(process, rc, "list the threads", in->err);
	for (size_t i = 0; i < tasks.count; i++) {
		struct seccomp_state other = {0};

		rc = read_seccomp_state(process, tasks.ids[i], &other);
		if (flmem_task_has_ended(rc) ||
		    (!rc && other.mode == own->mode && other.filters == own->filters))
			continue;
		return flmem_error_set(
			in->err, FLMEM_EUNSUPPORTED, 0,
			"threads %d and %d of process %d run under different seccomp filters, and "
			"code of the program would run under the filters of thread %d; give "
			"--assume-seccomp if they allow the calls of that code",
			(int)in->tid, (int)tasks.ids[i], (int)in->pid, (int)in->tid);
	}
	return 0;
}

int flmem_seccomp_check_outside(const struct flmem_process *process, pid_t tid,
				const struct flmem_seccomp_calls *calls, struct flmem_error *err)
{
	const struct filter_check in = {
		.pid = process->pid, .tid = tid, .calls = calls, .err = err};
	struct seccomp_state state;
	int rc = read_seccomp_state(process, tid, &state);
	const char *why;

	if (flmem_task_has_ended(rc) || (!rc && !state.mode))
		return 0; /* the stop will show that it has exited */
	if (rc)
		return flmem_process_error(process, rc, "read the filters of a thread", err);
	if (state.mode != SECCOMP_MODE_FILTER)
		return refuse_mode(&in);
	if (calls->assume)
		return 0;
	why = why_unreadable();
	if (why)
		return refuse_unreadable(&in, why);
	return runs_program_code(calls) ? check_others(process, &in, &state) : 0;
}

/* Returns what a filter does to a call, as the verb after "would" or "could". */
static const char *action_text(enum flmem_filter_action action)
{
	static const char *const texts[] = {
		[FLMEM_FILTER_KILL_PROCESS] = "kill the process",
		[FLMEM_FILTER_KILL_THREAD] = "kill the thread",
		[FLMEM_FILTER_TRAP] = "raise SIGSYS",
		[FLMEM_FILTER_ERRNO] = "return an error",
		[FLMEM_FILTER_NOTIFY] = "make the thread wait for another process",
		[FLMEM_FILTER_TRACE] = "hand the thread to a tracer",
	};

	return texts[action];
}

/* Returns the actions that this row does not tolerate. */
static unsigned harmful_actions(const struct flmem_syscall *row,
				const struct flmem_filter_outcome *outcome)
{
	unsigned actions = outcome->actions & ~(1U << FLMEM_FILTER_ALLOW | 1U << FLMEM_FILTER_LOG);

	if (row->failure == FLMEM_FAILURE_FINE ||
	    (row->failure == FLMEM_FAILURE_ENOSYS_FINE && !outcome->errors_differ &&
	     outcome->error == ENOSYS))
		actions &= ~(1U << FLMEM_FILTER_ERRNO);
	return actions;
}

/* Prints a call: "madvise(?, ?, 4)", up to the last argument that is known in part. */
static void print_call(const struct flmem_syscall *row, struct flmem_buf *text)
{
	size_t count = FLMEM_SYSCALL_ARGS;

	while (count && !row->args[count - 1].known)
		count--;
	if (row->name)
		flmem_buf_puts(text, row->name);
	else
		flmem_buf_printf(text, "system call %ld", row->number);
	flmem_buf_putc(text, '(');
	for (size_t i = 0; i < count; i++) {
		const struct flmem_syscall_arg *arg = &row->args[i];

		flmem_buf_puts(text, i ? ", " : "");
		if (arg->known == UINT32_MAX)
			flmem_buf_printf(text, "%d", (int)(uint32_t)arg->value);
		else if (arg->known == UINT64_MAX)
			flmem_buf_printf(text, "%llu", (unsigned long long)arg->value);
		else
			flmem_buf_putc(text, '?');
	}
	flmem_buf_puts(text, count == FLMEM_SYSCALL_ARGS ? ")" : count ? ", ...)" : "...)");
}

static bool takes_too_many_steps(const struct filter_check *in)
{
	return in->steps > (in->calls->assume ? STEPS_ASSUMED_MAX : STEPS_MAX);
}

static int refuse_long(const struct filter_check *in)
{
	if (in->calls->assume)
		return 0;
	return flmem_error_set(in->err, FLMEM_EUNSUPPORTED, 0,
			       "the seccomp filters of thread %d of process %d are so long that "
			       "it would be stopped for long while flmem evaluates them; give "
			       "--assume-seccomp if they are known to allow the calls of flmem",
			       (int)in->tid, (int)in->pid);
}

static int refuse_call(const struct filter_check *in, const struct flmem_syscall_table *table,
		       const struct flmem_syscall *row, const struct flmem_filter_outcome *outcome)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	unsigned actions = harmful_actions(row, outcome);
	enum flmem_filter_action worst = FLMEM_FILTER_KILL_PROCESS;
	bool sure;

	if (!actions)
		return refuse_long(in);
	while (!(actions >> worst & 1U))
		worst++;
	sure = outcome->actions == 1U << worst;
	print_call(row, &text);
	return flmem_error_set(in->err, FLMEM_EUNSUPPORTED, 0,
			       "the seccomp filter of thread %d of process %d %s %s for %s, which "
			       "%s %s%s",
			       (int)in->tid, (int)in->pid, sure ? "would" : "could",
			       action_text(worst), text.failed ? "a system call" : text.data,
			       table->maker, table->runs_program_code ? "may make" : "makes",
			       table->runs_program_code
				       ? "; if the program never does, give --assume-seccomp"
				       : "");
}

static bool is_allowed(struct filter_check *in, const struct flmem_syscall *row,
		       struct flmem_filter_outcome *ret_outcome)
{
	struct flmem_filter_input input;

	flmem_filter_input_set(&input, row);
	flmem_filter_run(in->program, in->length, &input, ret_outcome);
	in->steps += ret_outcome->steps;
	return !takes_too_many_steps(in) && !harmful_actions(row, ret_outcome);
}

/* Returns the name of a call number in the given tables, for the message. */
static const char *name_of(const struct flmem_syscall_list *list, long number)
{
	for (size_t i = 0; list && i < list->count; i++)
		for (size_t k = 0; k < list->tables[i]->count; k++)
			if (list->tables[i]->rows[k].number == number)
				return list->tables[i]->rows[k].name;
	return NULL;
}

/* Checks all calls at once; if that is too coarse, one by one, which also identifies the call. */
static int check_filtered_calls(struct filter_check *in, const struct flmem_syscall_table *table)
{
	const struct flmem_syscall any = {.failure = FLMEM_FAILURE_FINE};
	struct flmem_filter_outcome outcome;
	struct flmem_filter_input input;

	flmem_filter_input_any(&input, NUMBERS);
	flmem_filter_run(in->program, in->length, &input, &outcome);
	in->steps += outcome.steps;
	if (!harmful_actions(&any, &outcome))
		return 0;
	for (long number = 0; number < (long)NUMBERS; number++) {
		struct flmem_syscall row = any;

		row.number = number;
		if (is_allowed(in, &row, &outcome))
			continue;
		row.name = name_of(in->calls->list, number);
		return refuse_call(in, table, &row, &outcome);
	}
	return 0;
}

static int check_table(struct filter_check *in, const struct flmem_syscall_table *table)
{
	struct flmem_filter_outcome outcome;

	for (size_t i = 0; i < table->count; i++)
		if (!is_allowed(in, &table->rows[i], &outcome))
			return refuse_call(in, table, &table->rows[i], &outcome);
	return table->runs_program_code && !in->calls->assume ? check_filtered_calls(in, table) : 0;
}

static int check_filter(struct filter_check *in)
{
	const struct flmem_syscall_list *list = in->calls->list;
	const struct flmem_syscall repeated = in->calls->repeated;
	const struct flmem_syscall_table table = {
		.maker = "the thread itself", .rows = &repeated, .count = repeated.number >= 0};
	int rc = check_table(in, &flmem_syscalls_chain);

	if (!rc)
		rc = check_table(in, &table);
	for (size_t i = 0; !rc && list && i < list->count; i++)
		rc = check_table(in, list->tables[i]);
	return rc || list ? rc : check_table(in, &flmem_syscalls_unknown);
}

static int refuse_read(const struct filter_check *in, int error)
{
	const char *why = why_unreadable();

	if (in->calls->assume)
		return 0;
	if (error == EACCES)
		return refuse_unreadable(
			in,
			why ? why : "reading it needs CAP_SYS_ADMIN in the initial user namespace");
	return flmem_error_set(in->err, FLMEM_EUNSUPPORTED, error,
			       "the seccomp filter of thread %d of process %d cannot be read and "
			       "could kill the process for the calls of flmem; give "
			       "--assume-seccomp if it is known to allow these calls",
			       (int)in->tid, (int)in->pid);
}

/* Checks all `count` filters, since the kernel takes the most severe of their results. */
static int check_filters(struct filter_check *in, uint64_t count)
{
	struct sock_filter program[BPF_MAXINSNS];
	unsigned long index;
	int rc = 0;

	for (index = 0; index < FILTERS_MAX && !rc; index++) {
		long length = ptrace(PTRACE_SECCOMP_GET_FILTER, in->tid, index, NULL);

		if (length < 0 && errno == ENOENT && index)
			break;
		if (length < 0)
			return refuse_read(in, errno);
		if (length > BPF_MAXINSNS ||
		    ptrace(PTRACE_SECCOMP_GET_FILTER, in->tid, index, program) != length)
			return refuse_read(in, EPROTO);
		in->program = program;
		in->length = (size_t)length;
		rc = check_filter(in);
		in->program = NULL;
	}
	if (!rc && (index == FILTERS_MAX || (count != UINT64_MAX && index != count)))
		return refuse_read(in, E2BIG);
	return rc;
}

/*
 * Refuses user dispatch: system calls from outside a range of code may be turned into SIGSYS,
 * controlled by a byte that the program changes at any time. A borrowed thread has its signals
 * blocked, so that would kill it.
 */
static int check_dispatch(const struct filter_check *in)
{
	struct user_dispatch dispatch = {0};

	/* Kernels before 6.4 support it and do not report it. */
	if (ptrace(GET_USER_DISPATCH, in->tid, sizeof(dispatch), &dispatch) < 0 || !dispatch.mode)
		return 0;
	return flmem_error_set(in->err, FLMEM_EUNSUPPORTED, 0,
			       "thread %d of process %d dispatches its system calls to the program "
			       "(PR_SET_SYSCALL_USER_DISPATCH), which would kill a borrowed thread",
			       (int)in->tid, (int)in->pid);
}

int flmem_seccomp_check_thread(pid_t pid, pid_t tid, const struct flmem_status *status,
			       const struct flmem_seccomp_calls *calls, struct flmem_error *err)
{
	struct filter_check in = {.pid = pid, .tid = tid, .calls = calls, .err = err};
	const struct seccomp_state state = get_seccomp_state(status);
	int rc = check_dispatch(&in);

	if (rc || !state.mode)
		return rc;
	if (state.mode != SECCOMP_MODE_FILTER)
		return refuse_mode(&in);
	return check_filters(&in, state.filters);
}

struct checked_task {
	const struct flmem_process *process;
	pid_t tid;
	const struct flmem_seccomp_calls *calls;
	struct flmem_error *err;
	int rc;
};

/* Stops a thread, unless it has moved on since it was checked. */
static int stop_watched_thread(const struct checked_task *running,
			       const struct flmem_candidate *watched, struct flmem_tracee *tracee)
{
	const struct flmem_process *process = running->process;
	FLMEM_AUTO_CLOSE int status_fd = flmem_status_open_thread(process, running->tid);
	FLMEM_AUTO_CLOSE int wait_fd = flmem_quiet_stop_open(process, running->tid);
	int rc = flmem_tracee_seize(tracee, running->tid, process->pid);

	if (rc)
		return rc;
	tracee->undisturbed = flmem_quiet_stop_sleeps_on(watched, status_fd, wait_fd);
	tracee->runs_on = !tracee->undisturbed;
	return tracee->runs_on || flmem_tracee_stop(tracee, STOP_TIMEOUT_US) != FLMEM_TRACEE_STOPPED
		       ? -EAGAIN
		       : 0;
}

/* Stops the thread: the kernel shows the filters of stopped threads only. */
static void stop_and_check(void *context)
{
	FLMEM_AUTO_INTERRUPTS struct flmem_interrupts interrupts = flmem_interrupts_defer();
	FLMEM_AUTO_TRACEE struct flmem_tracee tracee = {0};
	struct checked_task *running = context;
	const struct flmem_process *process = running->process;
	const pid_t tid = running->tid;
	struct flmem_candidate watched;
	struct flmem_status status;
	int rc = flmem_quiet_stop_watch(process, tid, &watched)
			 ? stop_watched_thread(running, &watched, &tracee)
			 : -EAGAIN;

	if (rc || flmem_status_read_thread(process, tid, &status))
		running->rc = flmem_error_set(running->err, FLMEM_EUNSAFE, -rc,
					      "thread %d of process %d could not be stopped to "
					      "read its seccomp filter",
					      (int)tid, (int)process->pid);
	else
		running->rc = flmem_seccomp_check_thread(process->pid, tid, &status, running->calls,
							 running->err);
	tracee.filtered = running->rc != 0;
	tracee.wait = watched.at;
}

static void check_stopped_thread(void *context)
{
	stop_and_check(context);
	flmem_interrupts_end();
}

int flmem_seccomp_check_running(const struct flmem_process *process, pid_t tid,
				const struct flmem_seccomp_calls *calls, struct flmem_error *err)
{
	struct checked_task running = {process, tid, calls, err, 0};
	struct seccomp_state state;
	int failed, rc = flmem_seccomp_check_outside(process, tid, calls, err);

	if (rc)
		return rc;
	if (read_seccomp_state(process, tid, &state) == 0 && !state.mode)
		return 0;
	(void)flmem_own_quota_await();
	failed = flmem_attempt_run_on_thread(check_stopped_thread, &running);
	if (failed)
		return flmem_error_set(err, FLMEM_EFAILED, failed, "cannot start a thread");
	return running.rc;
}
