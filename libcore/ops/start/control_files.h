/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_START_CONTROL_FILES_H
#define FLMEM_OPS_START_CONTROL_FILES_H

/*
 * The four control files of a workspace: flmem/supervise.h has their meaning. inotify reports them
 * at once, even if they are removed again immediately (NVFlare's job processes do that); polling
 * covers file systems without inotify events.
 */

#include <stdbool.h>
#include <sys/types.h>

#include <flmem/error.h>

#include "base/cleanup.h"
#include "proc/process.h"

struct flmem_control {
	const char *workspace; /* owned by the caller */
	int directory_fd;      /* the directory, which is locked */
	int watch_fd;	       /* inotify descriptor; -1: none */
	bool restart_stays; /* restart.fl could not be removed, and no longer counts as a request */
};

#define FLMEM_CONTROL_INIT                         \
	{                                          \
		.directory_fd = -1, .watch_fd = -1 \
	}

/* Requests found since the last call. */
struct flmem_requests {
	bool shutdown;
	bool restart;
	bool pid_lost; /* pid.fl no longer exists */
};

/*
 * Locks the workspace: fails while another supervisor is alive, removes earlier requests or fails
 * if they stay, and writes this process to daemon_pid.fl. ret_process: the live process that pid.fl
 * names and that may be adopted as the command `argv` (ops/start/adopt.h); closed if there is none.
 * FLMEM_EPERM, with nothing changed, for a process that may not be adopted.
 */
int flmem_control_open(const char *workspace, char *const *argv, struct flmem_control *ret_control,
		       struct flmem_process *ret_process, struct flmem_error *err);

/* Writes the command's pid to pid.fl. */
int flmem_control_write_pid(const struct flmem_control *control, pid_t pid,
			    struct flmem_error *err);

/* Adds new requests to `requests`. */
void flmem_control_look(const struct flmem_control *control, struct flmem_requests *requests);

/*
 * Removes restart.fl. Returns false once if it cannot be removed: it does not count again until it
 * could be.
 */
bool flmem_control_clear_restart(struct flmem_control *control);

/* Removes all four files and unlocks the workspace. */
void flmem_control_close(struct flmem_control *control);

#define FLMEM_AUTO_CONTROL FLMEM_AUTO(flmem_control_close)

#endif
