/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_TARGET_TARGET_GUARD_H
#define FLMEM_OPS_TARGET_TARGET_GUARD_H

/* Checks shared by every operation that borrows a thread. */

#include "ops/target/inspection.h"
#include "remote/checks/candidates.h"

/*
 * Opens the process and reads its mappings, modules and allocators. FLMEM_ENOPROC if `start_time`
 * is not 0 and the PID was reused, FLMEM_EPERM with the gate that refuses.
 */
int flmem_target_guard_open(struct flmem_target_inspection *target, pid_t pid, uint64_t start_time,
			    struct flmem_error *err);

/*
 * Adds the code and the locks inside which the thread must not be borrowed, for all allocators of
 * the process.
 */
void flmem_target_guard_fill(const struct flmem_view *view, const struct flmem_allocator_list *list,
			     struct flmem_guard *guard);

/*
 * Allocates and fills a guard, which is too large for the stack. The caller frees it; NULL if
 * memory is out.
 */
struct flmem_guard *flmem_target_guard_new(const struct flmem_view *view,
					   const struct flmem_allocator_list *list);

/* Fills the guard again. Locks that cannot be read now stay in it, with the reason in `unread`. */
int flmem_target_guard_renew(const struct flmem_view *view, const struct flmem_allocator_list *list,
			     struct flmem_guard *guard, struct flmem_error *err);

/*
 * FLMEM_EUNSAFE if the heap is damaged, so that a call of the allocator would abort the process, on
 * whichever thread it runs: a new thread allocates, too, and may reuse an unused arena. `swaps_in`:
 * swapped-out memory is read, too.
 */
int flmem_target_guard_check(const struct flmem_view *view, const struct flmem_allocator_list *list,
			     bool swaps_in, struct flmem_error *err);

/*
 * Returns true if the allocator matters for the process. glibc is mapped in nearly every process
 * and is unused if malloc does not reach it. Programs may call other allocators by their own names,
 * so these always matter.
 */
bool flmem_target_guard_concerns(const struct flmem_allocator *found);

/*
 * Returns true if a trim calls the allocator. A stripped allocator inside some library (CPython
 * 3.14 contains mimalloc) must not prevent the trim of the others; for the one that serves malloc,
 * an impossible call is a refusal.
 */
bool flmem_target_guard_trims(const struct flmem_view *view, const struct flmem_allocator *found);

/* Appends the system calls that a trim of all these allocators makes. */
void flmem_target_guard_syscalls(const struct flmem_view *view,
				 const struct flmem_allocator_list *list,
				 struct flmem_syscall_list *syscalls);

/* Fails with FLMEM_EUNSUPPORTED, and says what to do instead of a trim of this allocator. */
int flmem_target_guard_refuse(const struct flmem_view *view, const struct flmem_allocator *found,
			      struct flmem_error *err);

/* Refuses a process whose threads belong to another language runtime (Go, Java). */
int flmem_target_guard_refuse_runtimes(const struct flmem_view *view,
				       const struct flmem_allocator_list *list,
				       struct flmem_error *err);

#endif
