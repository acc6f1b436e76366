/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_CHECKS_PREFLIGHT_H
#define FLMEM_REMOTE_CHECKS_PREFLIGHT_H

/* Checks whether a process may be touched at all; if not, which gate refuses and how to open it. */

#include <flmem/error.h>

#include "proc/host_facts.h"

#include "elf/view.h"

struct flmem_maps;
struct flmem_process;

/*
 * Checks the identity. Call it first: it refuses flmem itself (FLMEM_EUSAGE), kernel threads
 * (FLMEM_EUNSUPPORTED) and zombies (FLMEM_ENOPROC).
 */
int flmem_preflight_identity(const struct flmem_process *process, struct flmem_error *err);

/* FLMEM_EUNSUPPORTED if no code to borrow threads was built: arch_none.c. */
int flmem_preflight_processor(struct flmem_error *err);

/*
 * Checks that this user may read the memory of the process, which needs the same rights as
 * borrowing a thread. Readable mappings do not prove it: newer kernels show them with fewer rights.
 */
int flmem_preflight_rights(const struct flmem_process *process, const struct flmem_maps *maps,
			   struct flmem_error *err);

/*
 * Checks the other properties that cannot change while the process lives: another processor, shadow
 * stacks, strict seccomp. FLMEM_EUNSUPPORTED. Filters belong to each thread:
 * remote/seccomp/seccomp.h.
 */
int flmem_preflight_fixed(const struct flmem_view *view, struct flmem_error *err);

/*
 * Checks properties that may change. FLMEM_EUNSAFE if the process is stopped or traced by another
 * one, FLMEM_ENOPROC if it ended.
 */
int flmem_preflight_now(const struct flmem_process *process, struct flmem_error *err);

/*
 * Does the same as flmem_preflight_now(), for requests that the process answers itself: another
 * process may trace it.
 */
int flmem_preflight_stopped(const struct flmem_process *process, struct flmem_error *err);

/*
 * Returns what prevents reading the process, after a read of it was denied: Yama and seccomp
 * filters do not restrict reading, and CAP_SYS_PTRACE permits it within its user namespace.
 */
enum flmem_gate flmem_preflight_reading_gate(const struct flmem_process *process);

/*
 * Explains why a read, PTRACE_SEIZE or the like was refused (with -errno): names the gate (user,
 * capability, Yama, user namespace, another tracer, dumpable, seccomp) and how to open it. Returns
 * the code that it has set.
 */
int flmem_preflight_explain(const struct flmem_process *process, int negative_errno,
			    struct flmem_error *err);

#endif
