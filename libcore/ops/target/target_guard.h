/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_TARGET_TARGET_GUARD_H
#define FLMEM_OPS_TARGET_TARGET_GUARD_H

/* What all that borrow a thread of a process do first, whatever they borrow it for. */

#include "ops/target/inspection.h"
#include "remote/candidates.h"

/*
 * Opens the process and reads all that is known of it from outside. FLMEM_ENOPROC when `start_time`
 * is not 0 and another process has the number now, FLMEM_EPERM with the gate that refuses.
 */
int flmem_target_guard_open(struct flmem_inspection *target, pid_t pid, uint64_t start_time,
			    struct flmem_error *err);

/* Adds what the borrowed thread must not be inside of, for all allocators of the process. */
void flmem_target_guard_fill(const struct flmem_view *view, const struct flmem_allocator_list *list,
			     struct flmem_guard *guard);

/* A check of the heap in so little time still sees some 700 free blocks in pages of their own. */
#define FLMEM_TARGET_GUARD_QUICK_US 4000U

/*
 * FLMEM_EUNSAFE where the calls of an allocator would meet damage to its heap, whoever makes them:
 * a thread that is started allocates too, and takes over an arena that nobody uses.
 */
int flmem_target_guard_check(const struct flmem_view *view, const struct flmem_allocator_list *list,
			     uint64_t budget_us, struct flmem_error *err);

/*
 * glibc is mapped in nearly every process, and has served nobody where malloc does not reach it.
 * Others may be called by their own names, so they are of interest in any case.
 */
bool flmem_target_guard_concerns(const struct flmem_allocator *found);

/*
 * Whether a trim calls it. A nameless one inside some library (CPython 3.14 has mimalloc in it)
 * must not keep the others from it; the one that serves malloc is called or refused.
 */
bool flmem_target_guard_trims(const struct flmem_view *view, const struct flmem_allocator *found);

/* Appends the system calls of a trim of all of them. */
void flmem_target_guard_syscalls(const struct flmem_view *view,
				 const struct flmem_allocator_list *list,
				 struct flmem_syscall_list *syscalls);

/* FLMEM_EUNSUPPORTED with what to do instead of asking this allocator. */
int flmem_target_guard_refuse(const struct flmem_view *view, const struct flmem_allocator *found,
			      struct flmem_error *err);

/* Refuses a process whose threads belong to a runtime of their own. */
int flmem_target_guard_refuse_runtimes(const struct flmem_view *view,
				       const struct flmem_allocator_list *list,
				       struct flmem_error *err);

#endif
