/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_START_CONTROL_FILES_H
#define FLMEM_OPS_START_CONTROL_FILES_H

/*
 * The four control files of a workspace: flmem/supervise.h has their meaning. They are seen through
 * inotify at once, also when somebody removes them again right away (NVFlare's job processes do),
 * and by looking, for the file systems that tell nothing.
 */

#include <stdbool.h>
#include <sys/types.h>

#include <flmem/error.h>

#include "base/cleanup.h"
#include "proc/process.h"

struct flmem_control {
	const char *workspace; /* the caller's */
	int directory_fd;      /* locked */
	int watch_fd;	       /* inotify; -1: there is none */
};

#define FLMEM_CONTROL_INIT                         \
	{                                          \
		.directory_fd = -1, .watch_fd = -1 \
	}

/* What was asked for since the last look. */
struct flmem_requests {
	bool shutdown;
	bool restart;
	bool pid_lost; /* pid.fl is gone */
};

/*
 * Takes the workspace: refuses while another supervisor is alive, announces this process in
 * daemon_pid.fl and removes requests from before. ret_process: the live process that pid.fl names
 * and that may be taken over as the command `argv` (ops/start/adopt.h); closed where there is none.
 * One that may not be taken over is FLMEM_EPERM, and nothing is changed.
 */
int flmem_control_open(const char *workspace, char *const *argv, struct flmem_control *ret_control,
		       struct flmem_process *ret_process, struct flmem_error *err);

/* Announces the command's process. */
int flmem_control_write_pid(const struct flmem_control *control, pid_t pid,
			    struct flmem_error *err);

/* Adds what is asked for to `requests`. */
void flmem_control_look(const struct flmem_control *control, struct flmem_requests *requests);

void flmem_control_clear_restart(const struct flmem_control *control);

/* Removes all four files and gives the workspace back. */
void flmem_control_close(struct flmem_control *control);

#define FLMEM_AUTO_CONTROL FLMEM_AUTO(flmem_control_close)

#endif
