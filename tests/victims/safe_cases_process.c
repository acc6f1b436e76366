/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for time, futexes, children, signals and System V objects. */
#include "safe_cases.h"

#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "safe_common.h"

#define CHILD_STATUS 7

static const struct timespec *deadline(struct site *site, clockid_t clock)
{
	clock_gettime(clock, &site->limit);
	/* One millisecond more, since the wait is measured in whole milliseconds. */
	site->limit.tv_nsec += (CASE_LIMIT_MS + 1) * 1000000L;
	if (site->limit.tv_nsec >= 1000000000L) {
		site->limit.tv_nsec -= 1000000000L;
		site->limit.tv_sec++;
	}
	return &site->limit;
}

static bool gives_timeout(struct site *site, int64_t result)
{
	(void)site;
	return result == -ETIMEDOUT;
}

static void open_nothing(struct site *site)
{
	(void)site;
}

/* Cases of sleeping. */

static void arm_nanosleep(struct site *site, struct probe *probe)
{
	case_call(probe, SYS_nanosleep, case_word(case_limit(site)), 0, 0, 0);
}

static void arm_sleep_until(struct site *site, struct probe *probe)
{
	case_call(probe, SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME,
		  case_word(deadline(site, CLOCK_MONOTONIC)), 0);
}

static void arm_sleep_for(struct site *site, struct probe *probe)
{
	case_call(probe, SYS_clock_nanosleep, CLOCK_REALTIME, 0, case_word(case_limit(site)), 0);
}

/* Cases of futexes. */

static void arm_futex(struct site *site, struct probe *probe)
{
	case_call(probe, SYS_futex, case_word(&site->futex), FUTEX_WAIT, atomic_load(&site->futex),
		  0);
}

static void arm_futex_limited(struct site *site, struct probe *probe)
{
	arm_futex(site, probe);
	probe->args[3] = case_word(case_limit(site));
}

static void arm_futex_until(struct site *site, struct probe *probe)
{
	arm_futex(site, probe);
	probe->args[1] = FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME;
	probe->args[3] = case_word(deadline(site, CLOCK_REALTIME));
	probe->args[5] = FUTEX_BITSET_MATCH_ANY;
}

void case_wake_futex(struct site *site)
{
	atomic_fetch_add(&site->futex, 1);
	syscall(SYS_futex, &site->futex, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* True if the thread was woken, or the value had changed before the wait began (again). */
bool case_woken(struct site *site, int64_t result)
{
	(void)site;
	return result == 0 || result == -EAGAIN;
}

/* Cases of waiting for children. */

static void arm_child(struct site *site)
{
	pid_t child = fork();

	if (child < 0)
		victim_die("fork");
	if (child == 0) {
		usleep(CASE_LIMIT_MS * 1000);
		_exit(CHILD_STATUS);
	}
	site->child = child;
}

static void arm_wait4(struct site *site, struct probe *probe)
{
	arm_child(site);
	case_call(probe, SYS_wait4, (uint64_t)site->child, case_word(&site->status), 0, 0);
}

static bool reaped(struct site *site, int64_t result)
{
	return result == site->child && site->status == CHILD_STATUS << 8;
}

static void arm_waitid(struct site *site, struct probe *probe)
{
	arm_child(site);
	case_call(probe, SYS_waitid, P_PID, (uint64_t)site->child, case_word(&site->info), WEXITED);
}

static bool identified(struct site *site, int64_t result)
{
	return result == 0 && site->info.si_pid == site->child &&
	       site->info.si_status == CHILD_STATUS;
}

/* Cases of signals: SIGUSR1 has a handler that counts, SIGUSR2 is always blocked. */

static void arm_pause(struct site *site, struct probe *probe)
{
	site->handled_before = atomic_load(&site->handled);
	case_pause(probe);
}

static void arm_sigsuspend(struct site *site, struct probe *probe)
{
	arm_pause(site, probe);
	case_mask(site);
	case_call(probe, SYS_rt_sigsuspend, case_word(&site->mask), KERNEL_SIGSET_BYTES, 0, 0);
}

static void wake_handler(struct site *site)
{
	kill(site->victim, SIGUSR1);
}

/* EINTR is correct here, but only if the handler has run. */
static bool interrupted(struct site *site, int64_t result)
{
	return result == -EINTR && atomic_load(&site->handled) != site->handled_before;
}

static void arm_sigwait(struct site *site, struct probe *probe)
{
	sigemptyset(&site->mask);
	sigaddset(&site->mask, SIGUSR2);
	case_call(probe, SYS_rt_sigtimedwait, case_word(&site->mask), case_word(&site->info), 0,
		  KERNEL_SIGSET_BYTES);
}

static void arm_sigwait_limited(struct site *site, struct probe *probe)
{
	arm_sigwait(site, probe);
	probe->args[2] = case_word(case_limit(site));
}

static void wake_waiter(struct site *site)
{
	kill(site->victim, SIGUSR2);
}

static bool took_signal(struct site *site, int64_t result)
{
	return result == SIGUSR2 && site->info.si_signo == SIGUSR2;
}

/* Cases of System V objects. */

void case_open_semaphore(struct site *site)
{
	site->ipc = semget(IPC_PRIVATE, 1, 0600);
	if (site->ipc < 0)
		victim_die("semget");
}

void case_close_semaphore(struct site *site)
{
	semctl(site->ipc, 0, IPC_RMID);
}

static void arm_semaphore(struct site *site, struct probe *probe)
{
	site->semaphore = (struct sembuf){.sem_op = -1};
	case_call(probe, SYS_semtimedop, (uint64_t)site->ipc, case_word(&site->semaphore), 1, 0);
}

static void arm_semaphore_limited(struct site *site, struct probe *probe)
{
	arm_semaphore(site, probe);
	probe->args[3] = case_word(case_limit(site));
}

void case_wake_semaphore(struct site *site)
{
	struct sembuf up = {.sem_op = 1};

	if (semctl(site->ipc, 0, GETVAL) == 0)
		semop(site->ipc, &up, 1);
}

static void open_queue(struct site *site)
{
	site->ipc = msgget(IPC_PRIVATE, 0600);
	if (site->ipc < 0)
		victim_die("msgget");
}

static void close_queue(struct site *site)
{
	msgctl(site->ipc, IPC_RMID, NULL);
}

static void arm_msgrcv(struct site *site, struct probe *probe)
{
	case_call(probe, SYS_msgrcv, (uint64_t)site->ipc, case_word(site->buffer), 1, 0);
}

static void wake_queue(struct site *site)
{
	struct {
		long type;
		char text[1];
	} message = {.type = 1, .text = "!"};

	msgsnd(site->ipc, &message, 1, IPC_NOWAIT);
}

static bool took_message(struct site *site, int64_t result)
{
	return result == 1 && site->buffer[sizeof(long)] == '!';
}

const struct wait_case wait_cases_process[] = {
	{"nanosleep", true, open_nothing, arm_nanosleep, case_gives_zero, NULL, NULL},
	{"clock_nanosleep", true, open_nothing, arm_sleep_for, case_gives_zero, NULL, NULL},
	{"clock_nanosleep-abs", true, open_nothing, arm_sleep_until, case_gives_zero, NULL, NULL},
	{"futex", false, open_nothing, arm_futex, case_woken, case_wake_futex, NULL},
	{"futex-limited", true, open_nothing, arm_futex_limited, gives_timeout, NULL, NULL},
	{"futex-until", true, open_nothing, arm_futex_until, gives_timeout, NULL, NULL},
	{"wait4", false, open_nothing, arm_wait4, reaped, NULL, NULL},
	{"waitid", false, open_nothing, arm_waitid, identified, NULL, NULL},
	{"rt_sigtimedwait", false, open_nothing, arm_sigwait, took_signal, wake_waiter, NULL},
	{"rt_sigtimedwait-limited", true, open_nothing, arm_sigwait_limited, case_gives_again, NULL,
	 NULL},
	{"pause", false, open_nothing, arm_pause, interrupted, wake_handler, NULL},
	{"sigsuspend", false, open_nothing, arm_sigsuspend, interrupted, wake_handler, NULL},
	{"semtimedop", false, case_open_semaphore, arm_semaphore, case_gives_zero,
	 case_wake_semaphore, case_close_semaphore},
	{"semtimedop-limited", true, case_open_semaphore, arm_semaphore_limited, case_gives_again,
	 NULL, case_close_semaphore},
	{"msgrcv", false, open_queue, arm_msgrcv, took_message, wake_queue, close_queue},
	{0},
};
