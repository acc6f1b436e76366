/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_SUPERVISE_H
#define FLMEM_SUPERVISE_H

/*
 * Keeps a command alive in a workspace, by the control files of NVFlare's start scripts and with
 * their meaning:
 *
 *	daemon_pid.fl	the supervisor's process id; a second one does not start while it is alive
 *	pid.fl		the process id of the command itself
 *	shutdown.fl	appears: the command is stopped, and the supervisor ends
 *	restart.fl	appears: the command is stopped and started again
 *
 * A command that ends by itself is started again. After 5 starts, each less than 300 seconds behind
 * the one before, it is given up. When the supervisor ends, it removes all four files.
 *
 * A command that outlived its supervisor is taken over by pid.fl when it is surely that: the
 * workspace, the file and the process belong to the user of this supervisor, whom nobody else may
 * have written the file for, the process is in the same pid namespace, was there when the file was
 * written, and has the command line that is to be started. While it is alive and one of these does
 * not hold, nothing is started and nothing is signalled. Root is no exception.
 *
 * NVFlare's processes write a request first and then take a few seconds to end in order, and they
 * have no handler for SIGTERM; so a command that runs one gets time to do so. Any other is stopped
 * at once: SIGTERM, and SIGKILL when it is still there after the grace period.
 */

#include <stdint.h>
#include <sys/types.h>

#include <flmem/error.h>

/* X(NAME, what happened to the process) */
#define FLMEM_SUPERVISE_EVENTS(X)                                        \
	X(STARTED, "started")                                            \
	X(ADOPTED, "was running already, left by an earlier supervisor") \
	X(ENDED, "ended")                                                \
	X(SHUTDOWN, "is to be shut down (shutdown.fl)")                  \
	X(RESTART, "is to be started again (restart.fl)")                \
	X(SIGNAL, "is sent a signal")                                    \
	X(TERMINATE, "is asked to end (SIGTERM)")                        \
	X(KILL, "did not end in time and is killed")                     \
	X(TROUBLE, "could not be started")                               \
	X(CONTROL, "cannot be announced in pid.fl")

enum flmem_supervise_event {
#define FLMEM_SUPERVISE_EVENT_ENUM(name, meaning) FLMEM_SUPERVISE_##name,
	FLMEM_SUPERVISE_EVENTS(FLMEM_SUPERVISE_EVENT_ENUM)
#undef FLMEM_SUPERVISE_EVENT_ENUM
};

FLMEM_API const char *flmem_supervise_event_meaning(enum flmem_supervise_event event);

struct flmem_supervise_news {
	enum flmem_supervise_event event;
	pid_t pid;
	int number;	  /* ENDED: the wait status; SIGNAL: the signal */
	const char *text; /* TROUBLE, CONTROL: why; else NULL */
};

/*
 * How NVFlare's own processes end by themselves at the latest: 3 s, then twice 1.5 s, then closing.
 */
#define FLMEM_SUPERVISE_NVFLARE_WAIT_US UINT64_C(10000000)
#define FLMEM_SUPERVISE_GRACE_US	UINT64_C(10000000)

/* For wait_us: the time above when the command runs an NVFlare process, else none. */
#define FLMEM_SUPERVISE_WAIT_AUTO UINT64_MAX

struct flmem_supervise_options {
	const char *workspace;
	char *const *argv;
	char *const *environment;
	uint64_t wait_us;  /* from a request until SIGTERM */
	uint64_t grace_us; /* from SIGTERM until SIGKILL */
	/* Called for everything that happens; may be NULL. */
	void (*notify)(void *context, const struct flmem_supervise_news *news);
	void *context;
};

/*
 * Supervises until a shutdown is requested, a signal ends it, or the command is given up. Signals
 * are taken over meanwhile and passed on: SIGTERM, SIGINT and SIGQUIT also end the supervision,
 * SIGHUP when the command ends of it. One supervision per process at a time, in its only thread.
 *
 * ret_wait_status: how the command ended when a signal ended the supervision, 0 after a shutdown.
 * FLMEM_EUSAGE for a workspace that is none or cannot be written, FLMEM_EPERM when pid.fl names a
 * process that may not be taken over, FLMEM_EFAILED when another supervisor is alive or the command
 * was given up, FLMEM_ENOCOMMAND and FLMEM_ENOEXEC when it
 * cannot be run at all.
 */
FLMEM_API int flmem_supervise(const struct flmem_supervise_options *options, int *ret_wait_status,
			      struct flmem_error *err);

#endif
