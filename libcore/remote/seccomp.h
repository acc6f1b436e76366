/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_SECCOMP_H
#define FLMEM_REMOTE_SECCOMP_H

/*
 * Targets under seccomp filters (every container's default): a filter may kill the process for a
 * system call that it does not expect. So the calls that a borrowed thread makes are checked
 * against the filters beforehand, never tried out.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <linux/filter.h>
#include <linux/seccomp.h>

#include <flmem/error.h>

struct flmem_status;

/*
 * True when the target has no filter, or flmem runs under as many (both in one container): what
 * flmem could do itself, the target can do.
 */
bool flmem_seccomp_is_harmless(const struct flmem_status *target, const struct flmem_status *self);

/*
 * Reads the filters of a ptrace-stopped thread and runs them over the calls that a borrowed thread
 * makes. FLMEM_EUNSUPPORTED when one is not allowed, or when the filters cannot be read (that
 * takes CAP_SYS_ADMIN in the initial user namespace).
 */
int flmem_seccomp_check_thread(pid_t tid, struct flmem_error *err);

/*
 * What one filter program returns for `data` (SECCOMP_RET_*); SECCOMP_RET_KILL_PROCESS for a
 * program that is not well-formed.
 */
uint32_t flmem_seccomp_run(const struct sock_filter *program, size_t length,
			   const struct seccomp_data *data);

#endif
