/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_PREFLIGHT_H
#define FLMEM_REMOTE_PREFLIGHT_H

/* Whether a process may be touched at all, and if not, which gate refuses and how to open it. */

#include <flmem/error.h>

#include "elf/view.h"

struct flmem_maps;
struct flmem_process;

/* Asked first: flmem itself (FLMEM_EUSAGE), kernel threads (EUNSUPPORTED), zombies (ENOPROC). */
int flmem_preflight_identity(const struct flmem_process *process, struct flmem_error *err);

/*
 * Whether this user may read the memory of the process, which takes the same rights as borrowing a
 * thread. Mappings alone prove nothing: newer kernels show them with less.
 */
int flmem_preflight_rights(const struct flmem_process *process, const struct flmem_maps *maps,
			   struct flmem_error *err);

/*
 * What else does not change while the process lives: other processors, shadow stacks, strict
 * seccomp. FLMEM_EUNSUPPORTED. Filters are a matter of each thread: remote/seccomp.h.
 */
int flmem_preflight_fixed(const struct flmem_view *view, struct flmem_error *err);

/* What may pass: stopped, traced by another. FLMEM_EUNSAFE, FLMEM_ENOPROC when it ended. */
int flmem_preflight_now(const struct flmem_process *process, struct flmem_error *err);

/*
 * Explains a refused read, PTRACE_SEIZE or the like (a negative errno): names the gate (user,
 * capability, Yama, user namespace, another tracer, dumpable, seccomp) and how to open it.
 * Returns the code it has set.
 */
int flmem_preflight_explain(const struct flmem_process *process, int negative_errno,
			    struct flmem_error *err);

#endif
