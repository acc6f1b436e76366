/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/supervise.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "frameworks/framework.h"
#include "ops/start/control_files.h"
#include "proc/command.h"

#define SECOND_US UINT64_C(1000000)

/* Limits of restarts, as in NVFlare's script. */
#define QUICK_US    (300 * SECOND_US)
#define QUICK_LIMIT 5

/* Shortest time between starts, so that a command that ends at once does not use up its starts. */
#define PAUSE_US SECOND_US

/* Intervals at which the files are polled, without inotify and with it. */
#define POLL_BLIND_US (SECOND_US / 2)
#define POLL_US	      (5 * SECOND_US)

#define NEVER UINT64_MAX

enum supervise_goal {
	GOAL_RUN,
	GOAL_RESTART,  /* stop the command and start it again */
	GOAL_SHUTDOWN, /* stop the command and end */
	GOAL_LEAVE,    /* a signal ends the command and the supervision */
};

enum supervise_stage {
	STAGE_RUNS,
	STAGE_WAITS, /* waiting for the command to end by itself */
	STAGE_ASKED, /* SIGTERM was sent */
	STAGE_KILLED,
};

struct supervisor {
	const struct flmem_supervise_options *options;
	struct flmem_control control;
	int signal_fd;
	sigset_t old_mask;
	bool masked;

	struct flmem_process process; /* process of the command; dirfd -1: none */
	bool own;		      /* the command is a child, not an adopted process */
	int wait_status;	      /* wait status of the last command that ended */

	enum supervise_goal goal;
	enum supervise_stage stage;
	uint64_t deadline_us; /* end of the stage */
	uint64_t lapse_us;    /* until then an end counts as caused by a signal (SIGHUP) */

	uint64_t started_us; /* time of the last start; 0: none yet */
	unsigned quick;	     /* successive starts, each within QUICK_US of the one before */
	bool pid_reported;   /* it was reported that pid.fl cannot be written */
};

const char *flmem_supervise_event_meaning(enum flmem_supervise_event event)
{
#define EVENT_CASE(name, meaning)    \
	case FLMEM_SUPERVISE_##name: \
		return meaning;
	switch (event) {
		FLMEM_SUPERVISE_EVENTS(EVENT_CASE)
	}
#undef EVENT_CASE
	return NULL;
}

static uint64_t compute_deadline(uint64_t us)
{
	uint64_t now = flmem_clock_us();

	return us > NEVER - now ? NEVER : now + us;
}

static bool has_command(const struct supervisor *s)
{
	return s->process.dirfd >= 0;
}

static void notify_caller(const struct supervisor *s, enum flmem_supervise_event event, int number,
			  const char *text)
{
	const struct flmem_supervise_news news = {
		.event = event, .pid = s->process.pid, .number = number, .text = text};

	if (s->options->notify)
		s->options->notify(s->options->context, &news);
}

/* ---- signals ---- */

/*
 * Signals that are caught. The last two are for the supervisor: its child changed state, and a
 * reader of its output has exited.
 */
static const int taken_signals[] = {SIGTERM, SIGINT,  SIGQUIT, SIGHUP,
				    SIGUSR1, SIGUSR2, SIGCHLD, SIGPIPE};

static int take_signals(struct supervisor *s, struct flmem_error *err)
{
	const struct sigaction by_default = {.sa_handler = SIG_DFL};
	sigset_t mask;

	sigemptyset(&mask);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(taken_signals); i++)
		sigaddset(&mask, taken_signals[i]);
	/* If SIGCHLD were ignored, the kernel would reap the command unseen. */
	sigaction(SIGCHLD, &by_default, NULL);
	if (sigprocmask(SIG_BLOCK, &mask, &s->old_mask) < 0)
		return flmem_error_set(err, FLMEM_EFAILED, errno, "cannot block signals");
	s->masked = true;
	s->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	if (s->signal_fd < 0)
		return flmem_error_set(err, FLMEM_EFAILED, errno, "cannot block signals");
	return 0;
}

/*
 * Sends a signal by pidfd. Without one, only the PID of a child that was not waited for cannot have
 * been reused.
 */
static void send_signal(const struct supervisor *s, int number)
{
	if (s->process.pidfd >= 0)
		syscall(SYS_pidfd_send_signal, s->process.pidfd, number, NULL, 0);
	else if (s->own)
		kill(s->process.pid, number);
}

/* ---- stopping ---- */

static uint64_t find_exit_time(pid_t pid, struct flmem_relatives *relatives)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	FLMEM_AUTO_ARGV_ENV struct flmem_argv_env command = {0};
	struct flmem_subject subject = {
		.process = &process, .command = &command, .relatives = relatives};
	const struct flmem_framework_ops *framework;
	struct flmem_identity identity;

	if (flmem_process_open(pid, &process, NULL) ||
	    flmem_argv_env_read_argv(&process, &command, NULL))
		return 0;
	flmem_identify(&subject, &identity);
	framework = flmem_framework_ops_of(identity.framework);
	return framework ? framework->exit_us : 0;
}

/* Returns the longest time that the command or one of its descendants needs to exit by itself. */
static uint64_t find_longest_exit_time(const struct supervisor *s)
{
	FLMEM_AUTO_CLOSE int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	FLMEM_AUTO_SCAN struct flmem_scan scan = {0};
	FLMEM_AUTO_RELATIVES struct flmem_relatives relatives = {.proc_dirfd = proc};
	uint64_t longest = 0;

	if (proc < 0 || flmem_scan_read(proc, &scan, NULL))
		return 0;
	for (size_t i = 0; i < scan.count; i++) {
		uint64_t one = 0;

		if (flmem_scan_row_runs(&scan.rows[i]) &&
		    flmem_scan_descends(&scan, scan.rows[i].pid, s->process.pid))
			one = find_exit_time(scan.rows[i].pid, &relatives);
		if (one > longest)
			longest = one;
	}
	return longest;
}

static uint64_t choose_wait_us(const struct supervisor *s)
{
	if (s->options->wait_us != FLMEM_SUPERVISE_WAIT_AUTO)
		return s->options->wait_us;
	return find_longest_exit_time(s);
}

/* Sends SIGTERM and then SIGKILL at their deadlines. */
static void escalate_stop(struct supervisor *s)
{
	if (!has_command(s) || flmem_clock_us() < s->deadline_us)
		return;
	if (s->stage == STAGE_WAITS) {
		notify_caller(s, FLMEM_SUPERVISE_TERMINATE, SIGTERM, NULL);
		send_signal(s, SIGTERM);
		s->stage = STAGE_ASKED;
		s->deadline_us = compute_deadline(s->options->grace_us);
	} else if (s->stage == STAGE_ASKED) {
		notify_caller(s, FLMEM_SUPERVISE_KILL, SIGKILL, NULL);
		send_signal(s, SIGKILL);
		s->stage = STAGE_KILLED;
		s->deadline_us = NEVER;
	}
}

static void begin_stop(struct supervisor *s)
{
	if (!has_command(s) || s->stage != STAGE_RUNS)
		return;
	s->stage = STAGE_WAITS;
	s->deadline_us = compute_deadline(choose_wait_us(s));
	escalate_stop(s);
}

static void handle_requests(struct supervisor *s)
{
	struct flmem_requests requests = {0};

	flmem_control_look(&s->control, &requests);
	if (requests.shutdown && s->goal != GOAL_SHUTDOWN && s->goal != GOAL_LEAVE) {
		s->goal = GOAL_SHUTDOWN;
		notify_caller(s, FLMEM_SUPERVISE_SHUTDOWN, 0, NULL);
	} else if (requests.restart && s->goal == GOAL_RUN && has_command(s)) {
		s->goal = GOAL_RESTART;
		notify_caller(s, FLMEM_SUPERVISE_RESTART, 0, NULL);
	}
	if (s->goal == GOAL_SHUTDOWN || s->goal == GOAL_RESTART)
		begin_stop(s);
	if (requests.pid_lost && has_command(s) && !s->pid_reported)
		s->pid_reported = flmem_control_write_pid(&s->control, s->process.pid, NULL) != 0;
}

/*
 * Returns true if the command has received the signal already: a terminal sends its signals to
 * every foreground process.
 */
static bool has_signal_already(const struct supervisor *s, const struct signalfd_siginfo *info)
{
	return s->own && info->ssi_code == SI_KERNEL;
}

static void handle_signal(struct supervisor *s, const struct signalfd_siginfo *info)
{
	int number = (int)info->ssi_signo;

	if (number == SIGCHLD || number == SIGPIPE)
		return;
	if (number == SIGTERM || number == SIGINT || number == SIGQUIT)
		s->goal = GOAL_LEAVE;
	if (number == SIGHUP)
		s->lapse_us = compute_deadline(s->options->grace_us);
	if (!has_command(s) || s->stage == STAGE_KILLED)
		return;
	if (!has_signal_already(s, info)) {
		notify_caller(s, FLMEM_SUPERVISE_SIGNAL, number, NULL);
		send_signal(s, number);
	}
	if (s->goal == GOAL_LEAVE && s->stage != STAGE_ASKED) {
		s->stage = STAGE_ASKED;
		s->deadline_us = compute_deadline(s->options->grace_us);
	}
}

static void handle_signals(struct supervisor *s)
{
	struct signalfd_siginfo info;

	while (read(s->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		handle_signal(s, &info);
}

/* ---- the command ---- */

static void announce_pid(struct supervisor *s)
{
	struct flmem_error err = {0};

	s->pid_reported = flmem_control_write_pid(&s->control, s->process.pid, &err) != 0;
	if (s->pid_reported)
		notify_caller(s, FLMEM_SUPERVISE_CONTROL, 0, err.message);
}

static void enter_run(struct supervisor *s, bool own)
{
	s->own = own;
	s->goal = GOAL_RUN;
	s->stage = STAGE_RUNS;
	s->deadline_us = NEVER;
	notify_caller(s, own ? FLMEM_SUPERVISE_STARTED : FLMEM_SUPERVISE_ADOPTED, 0, NULL);
	announce_pid(s);
}

static int start_command(struct supervisor *s, struct flmem_error *err)
{
	pid_t pid;
	int rc = flmem_command_spawn(s->options->argv, s->options->environment, &s->old_mask, &pid,
				     err);

	if (rc)
		return rc;
	rc = flmem_process_open(pid, &s->process, err);
	if (rc) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		return rc;
	}
	enter_run(s, true);
	return 0;
}

/*
 * Returns true if the command has ended, and sets its wait status (0 for a process that is not a
 * child).
 */
static bool command_has_ended(struct supervisor *s)
{
	pid_t got;

	if (!s->own) {
		s->wait_status = 0;
		return !flmem_process_alive(&s->process);
	}
	do
		got = waitpid(s->process.pid, &s->wait_status, WNOHANG);
	while (got < 0 && errno == EINTR);
	return got == s->process.pid || got < 0;
}

static void handle_end(struct supervisor *s)
{
	if (!has_command(s) || !command_has_ended(s))
		return;
	notify_caller(s, FLMEM_SUPERVISE_ENDED, s->wait_status, NULL);
	flmem_process_close(&s->process);
	if (flmem_clock_us() < s->lapse_us)
		s->goal = GOAL_LEAVE;
}

/* Counts a start. Returns false after too many in too short a time. */
static bool count_start(struct supervisor *s)
{
	uint64_t now = flmem_clock_us();

	s->quick = s->started_us && now - s->started_us < QUICK_US ? s->quick + 1 : 0;
	s->started_us = now;
	return s->quick < QUICK_LIMIT;
}

/*
 * Returns the time of the next start: now for a requested restart, after a pause for a command that
 * ended by itself.
 */
static uint64_t next_start_us(const struct supervisor *s)
{
	return s->goal == GOAL_RESTART ? 0 : s->started_us + PAUSE_US;
}

static int restart_command(struct supervisor *s, struct flmem_error *err)
{
	struct flmem_error trouble = {0};
	bool first = !s->started_us;
	int rc;

	if (!first && flmem_clock_us() < next_start_us(s))
		return 0;
	if (!count_start(s))
		return flmem_error_set(err, FLMEM_EFAILED, 0,
				       "System is in trouble and unable to start the task!!!!! (%d "
				       "starts, each within %d seconds of the one before)",
				       QUICK_LIMIT, (int)(QUICK_US / SECOND_US));
	if (!flmem_control_clear_restart(&s->control))
		notify_caller(s, FLMEM_SUPERVISE_REQUEST_STAYS, 0, NULL);
	rc = start_command(s, &trouble);
	if (!rc)
		return 0;
	if (first)
		return err ? (*err = trouble, rc) : rc;
	s->goal = GOAL_RUN;
	notify_caller(s, FLMEM_SUPERVISE_TROUBLE, 0, trouble.message);
	return 0;
}

/* ---- the loop ---- */

static uint64_t choose_earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static int wait_for_events(struct supervisor *s, struct flmem_error *err)
{
	struct pollfd fds[] = {
		{.fd = s->signal_fd, .events = POLLIN},
		{.fd = s->control.watch_fd, .events = POLLIN},
		{.fd = has_command(s) && !s->own ? s->process.pidfd : -1, .events = POLLIN},
	};
	uint64_t now = flmem_clock_us();
	uint64_t poll_us = s->control.watch_fd < 0 ? POLL_BLIND_US : POLL_US;
	uint64_t until =
		choose_earlier(now + poll_us, has_command(s) ? s->deadline_us : next_start_us(s));
	struct timespec timeout = {0};

	if (until > now) {
		timeout.tv_sec = (time_t)((until - now) / SECOND_US);
		timeout.tv_nsec = (long)((until - now) % SECOND_US * 1000U);
	}
	if (ppoll(fds, FLMEM_ARRAY_SIZE(fds), &timeout, NULL) < 0 && errno != EINTR)
		return flmem_error_set(err, FLMEM_EFAILED, errno, "cannot wait for events");
	return 0;
}

static bool is_finished(const struct supervisor *s)
{
	return !has_command(s) && (s->goal == GOAL_SHUTDOWN || s->goal == GOAL_LEAVE);
}

static int run_supervision(struct supervisor *s, struct flmem_error *err)
{
	int rc = 0;

	if (has_command(s)) {
		s->started_us = flmem_clock_us();
		enter_run(s, false);
	}
	while (!rc) {
		handle_signals(s);
		handle_end(s);
		handle_requests(s);
		escalate_stop(s);
		if (is_finished(s))
			return 0;
		if (!has_command(s))
			rc = restart_command(s, err);
		if (!rc)
			rc = wait_for_events(s, err);
	}
	return rc;
}

/* Unblock signals last, after everything else is restored. */
static void clear_supervisor(struct supervisor *s)
{
	flmem_control_close(&s->control);
	flmem_process_close(&s->process);
	flmem_cleanup_close(&s->signal_fd);
	if (s->masked)
		sigprocmask(SIG_SETMASK, &s->old_mask, NULL);
}

int flmem_supervise(const struct flmem_supervise_options *options, int *ret_wait_status,
		    struct flmem_error *err)
{
	FLMEM_AUTO(clear_supervisor)
	struct supervisor s = {
		.options = options,
		.control = FLMEM_CONTROL_INIT,
		.signal_fd = -1,
		.process = FLMEM_PROCESS_INIT,
		.deadline_us = NEVER,
	};
	int rc = flmem_control_open(options->workspace, options->argv, &s.control, &s.process, err);

	if (!rc)
		rc = take_signals(&s, err);
	if (!rc)
		rc = run_supervision(&s, err);
	if (!rc)
		*ret_wait_status = s.goal == GOAL_SHUTDOWN ? 0 : s.wait_status;
	return rc;
}
