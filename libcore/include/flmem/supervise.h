/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_SUPERVISE_H
#define FLMEM_SUPERVISE_H

/*
 * Keeps a command running in a workspace, controlled by the files of NVFlare's start scripts:
 *
 *	daemon_pid.fl	the supervisor's process id; a second one does not start while a lock on the
 *			workspace is held, or a shell has that process id
 *	pid.fl		the process id of the command itself
 *	shutdown.fl	appears: the command is stopped, and the supervisor ends
 *	restart.fl	appears: the command is stopped and started again
 *
 * A command that exits by itself is restarted. After 5 starts, each less than 300 seconds after the
 * one before, supervision fails. The supervisor removes all four files when it ends.
 *
 * A command that outlived its supervisor is adopted through pid.fl if its identity is certain: the
 * workspace, the file and the process belong to the user of this supervisor and no other user could
 * have written the file, and the process is in the same PID namespace, existed when the file was
 * written, and has the command line to be started. While the process is alive and one of these does
 * not hold, nothing is started and nothing is signalled, also for root.
 *
 * NVFlare's processes write a request, then need a few seconds to exit in order, and have no
 * handler for SIGTERM; a command that runs one of them gets this time. Any other command receives
 * SIGTERM immediately, and SIGKILL after the grace period.
 */

#include <stdint.h>
#include <sys/types.h>

#include <flmem/error.h>

/* Events during supervision. X(NAME, what happened to the process) */
#define FLMEM_SUPERVISE_EVENTS(X)                                           \
	X(STARTED, "started")                                               \
	X(ADOPTED, "was already running, started by an earlier supervisor") \
	X(ENDED, "ended")                                                   \
	X(SHUTDOWN, "shuts down on request (shutdown.fl)")                  \
	X(RESTART, "restarts on request (restart.fl)")                      \
	X(SIGNAL, "receives a signal")                                      \
	X(TERMINATE, "receives SIGTERM")                                    \
	X(KILL, "did not exit in time and is killed")                       \
	X(TROUBLE, "could not be started")                                  \
	X(CONTROL, "cannot be recorded in pid.fl")                          \
	X(REQUEST_STAYS, "takes no further restart requests: restart.fl cannot be removed")

enum flmem_supervise_event {
#define FLMEM_SUPERVISE_EVENT_ENUM(name, meaning) FLMEM_SUPERVISE_##name,
	FLMEM_SUPERVISE_EVENTS(FLMEM_SUPERVISE_EVENT_ENUM)
#undef FLMEM_SUPERVISE_EVENT_ENUM
};

/* Returns what happened, as in the table above; static, NULL for other values. */
FLMEM_API const char *flmem_supervise_event_meaning(enum flmem_supervise_event event);

struct flmem_supervise_news {
	enum flmem_supervise_event event;
	pid_t pid;
	int number;	  /* ENDED: the wait status; SIGNAL: the signal number; else 0 */
	const char *text; /* TROUBLE, CONTROL: why; else NULL */
};

#define FLMEM_SUPERVISE_GRACE_US UINT64_C(10000000)

/*
 * For wait_us: the time that processes of the framework need to exit by themselves (NVFlare: 10 s),
 * 0 for other commands.
 */
#define FLMEM_SUPERVISE_WAIT_AUTO UINT64_MAX

struct flmem_supervise_options {
	const char *workspace;
	char *const *argv;
	char *const *environment;
	uint64_t wait_us;  /* time from a stop request until SIGTERM */
	uint64_t grace_us; /* time from SIGTERM until SIGKILL */
	/* Called for every event; may be NULL. */
	void (*notify)(void *context, const struct flmem_supervise_news *news);
	void *context;
};

/*
 * Supervises until a shutdown request, an ending signal, or too many restarts. Signals are caught
 * and forwarded. SIGTERM, SIGINT and SIGQUIT also end the supervision; SIGHUP does if the command
 * exits from it. A process can make one such call at a time, and must be single-threaded.
 *
 * *ret_wait_status: wait status of the command if a signal ended the supervision, 0 after a
 * shutdown. FLMEM_EUSAGE for a missing or unwritable workspace, FLMEM_EPERM if pid.fl names a
 * process that must not be adopted, FLMEM_EFAILED for another live supervisor or too many restarts,
 * FLMEM_ENOCOMMAND and FLMEM_ENOEXEC if the command cannot run.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_supervise(const struct flmem_supervise_options *options,
					       int *ret_wait_status, struct flmem_error *err);

#endif
