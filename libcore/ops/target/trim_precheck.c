/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/target/trim_precheck.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "ops/target/target_guard.h"
#include "ops/target/target_hooks.h"
#include "proc/process.h"
#include "proc/status.h"
#include "remote/borrow.h"
#include "remote/checks/preflight.h"

#define SEARCH_US 100000U /* time limit for the search of the threads */

struct precheck {
	struct flmem_borrow_options borrow;
	struct flmem_guard guard;
	struct flmem_syscall_list syscalls;
};

/*
 * Checks whether the process could be traced. Reading it needs less, so its memory is opened as for
 * a trim.
 */
static int check_tracing(const struct flmem_process *process, struct flmem_error *err)
{
	FLMEM_AUTO_PROCESS struct flmem_process again = FLMEM_PROCESS_INIT;
	int rc = flmem_process_open(process->pid, &again, err);

	if (!rc)
		rc = flmem_process_pin_memory(&again, err);
	return rc == FLMEM_EPERM ? flmem_preflight_explain(process, -EPERM, err) : rc;
}

int flmem_trim_precheck(const struct flmem_view *view, const struct flmem_allocator_list *list,
			struct flmem_error *err)
{
	FLMEM_AUTO_FREE struct precheck *precheck = calloc(1, sizeof(*precheck));
	uint64_t stopped_us = 0;
	int rc;

	if (!precheck)
		return flmem_error_nomem(err, "cannot check a process");
	precheck->borrow = (struct flmem_borrow_options){.timeout_us = SEARCH_US,
							 .guard = &precheck->guard,
							 .syscalls = &precheck->syscalls};
	rc = check_tracing(view->process, err);
	if (!rc)
		rc = flmem_target_guard_refuse_runtimes(view, list, err);
	if (!rc)
		rc = flmem_target_hooks_check_all(view, list, NULL, &stopped_us, err);
	if (!rc)
		rc = flmem_target_guard_check(view, list, false, err);
	if (rc)
		return rc;
	precheck->guard.is_for_report = true;
	flmem_target_guard_fill(view, list, &precheck->guard);
	flmem_target_guard_syscalls(view, list, &precheck->syscalls);
	return flmem_borrow_precheck(view, &precheck->borrow, err);
}

bool flmem_trim_precheck_is_filtered(const struct flmem_process *process)
{
	struct flmem_status status;

	return flmem_status_read(process, &status, NULL) == 0 && !status.seccomp_mode.unknown &&
	       status.seccomp_mode.value;
}
