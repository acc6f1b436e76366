/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ALLOCATORS_ALLOCATOR_H
#define FLMEM_ALLOCATORS_ALLOCATOR_H

/*
 * Allocators as data. Each file of this directory describes one allocator: how to recognise it in a
 * module of a live process, and which calls make it release memory. It ends in one constant table
 * of operations, and registry.c lists those tables once. See docs/adding-an-allocator.md.
 */

#include <stdbool.h>
#include <stddef.h>

#include <flmem/error.h>
#include <flmem/process_report.h>

#include "elf/modules.h"
#include "elf/view.h"
#include "proc/maps.h"
#include "proc/process.h"
#include "remote/chain.h"
#include "remote/checks/candidates.h"
#include "remote/seccomp/syscalls.h"

#define FLMEM_ALLOCATOR_VERSION_MAX 64

/* An allocator found in one module. */
struct flmem_allocator {
	const struct flmem_allocator_ops *ops;
	const struct flmem_module *module;
	enum flmem_linkage linkage;
	/* Number of a variant where several share a name; numbered in the allocator's file. */
	unsigned variant;
	char version[FLMEM_ALLOCATOR_VERSION_MAX]; /* "" when unknown */
	const char *prefix;			   /* static; NULL when unknown */
	const char *evidence;			   /* static: how it was recognised */
	const char *caveat; /* static: memory that this version does not release, or NULL */
	/*
	 * The allocator may release pages with MADV_FREE and stop counting them: they stay in RSS
	 * until memory pressure.
	 */
	bool leaves_pages;
	const char *unpredictable; /* static: why RSS may not fall by the released bytes, or NULL */
	bool serves_malloc;
};

/* How much reading a heap may cost. */
struct flmem_heap_limits {
	uint64_t budget_us; /* when it is used up, the rest is estimated from a sample */
};

/* How much the check of a heap may cost. */
struct flmem_check_limits {
	uint64_t budget_us; /* of processor time */
	bool swaps_in;	    /* pages that are swapped out are read as well */
};

struct flmem_allocator_ops {
	enum flmem_allocator_kind kind;
	/*
	 * Parts of the file names of the allocator's libraries. An allocator found in any other
	 * file counts as linked statically.
	 */
	const char *files[3];
	/*
	 * Checks whether `module` holds this allocator; fills version, prefix and evidence, and the
	 * variant where there are several. Must not rely on names that other libraries also export.
	 */
	bool (*recognise)(const struct flmem_view *view, const struct flmem_module *module,
			  struct flmem_allocator *ret_found);
	/*
	 * Appends calls whose results plan_trim needs and returns their offset in the chain's data.
	 * A NULL slot, or nothing appended: plan_trim needs no results.
	 */
	uint64_t (*plan_query)(const struct flmem_view *view, const struct flmem_allocator *found,
			       struct flmem_chain *chain);
	/*
	 * Appends the calls that release memory. `answers` holds the results of plan_query's calls;
	 * it is NULL without such calls and in a dry run. A NULL slot: the allocator cannot be
	 * called from outside, and `trim_advice` is the alternative. FLMEM_EUNSUPPORTED when this
	 * build cannot be called.
	 */
	int (*plan_trim)(const struct flmem_view *view, const struct flmem_allocator *found,
			 const unsigned char *answers, struct flmem_chain *chain,
			 struct flmem_error *err);
	/*
	 * Adds the code that must not be on a borrowed thread's stack and the memory that holds the
	 * allocator's locks. NULL: all code and all data of its module.
	 */
	void (*guard)(const struct flmem_view *view, const struct flmem_allocator *found,
		      struct flmem_guard *guard);
	/*
	 * FLMEM_EUNSAFE when the calls of plan_trim would reach heap corruption that can be
	 * detected from outside within the limits. NULL: not checked.
	 */
	int (*check)(const struct flmem_view *view, const struct flmem_allocator *found,
		     const struct flmem_check_limits *limits, struct flmem_error *err);
	/*
	 * FLMEM_EUNSUPPORTED if the program has given the allocator a function (a hook) that the
	 * calls would run on the borrowed thread, which may hold a lock that the hook takes. Reads
	 * from outside; FLMEM_EUNSAFE if the place of a hook is known but cannot be read. NULL: the
	 * allocator has no hooks, or only calls show them (plan_hooks).
	 */
	int (*check_hooks)(const struct flmem_view *view, const struct flmem_allocator *found,
			   struct flmem_error *err);
	/*
	 * As check_hooks, for the hooks of malloc() and free(), which a trim never calls but
	 * pthread_create() does.
	 */
	int (*check_malloc_hooks)(const struct flmem_view *view,
				  const struct flmem_allocator *found, struct flmem_error *err);
	/*
	 * As check_hooks, for hooks that only calls show, several arenas per chain from number
	 * `first` on. plan_hooks appends the calls and returns the offset of their answers.
	 * take_hooks checks them and sets `first` to the next number to query, 0 after the last.
	 * NULL, or nothing appended: not needed or not possible.
	 */
	uint64_t (*plan_hooks)(const struct flmem_allocator *found, uint64_t first,
			       struct flmem_chain *chain);
	int (*take_hooks)(const struct flmem_view *view, const struct flmem_allocator *found,
			  const unsigned char *answers, uint64_t *first, struct flmem_error *err);
	/*
	 * Reads the state of the allocator's heap from outside, without stopping a thread or
	 * mapping a page that was not present. Fields that cannot be read are unknown with their
	 * reason. NULL: reading the state needs calls (plan_state).
	 */
	void (*read_heap)(const struct flmem_view *view, const struct flmem_allocator *found,
			  const struct flmem_heap_limits *limits,
			  struct flmem_heap_report *ret_heap);
	/*
	 * Appends calls that make the allocator report its state into the chain's data, and returns
	 * the first offset there; take_state reads the results. `query` is like `answers` of
	 * plan_trim. NULL, or nothing appended: calls are not needed or not possible.
	 */
	uint64_t (*plan_state)(const struct flmem_view *view, const struct flmem_allocator *found,
			       const unsigned char *query, struct flmem_chain *chain);
	void (*take_state)(const struct flmem_allocator *found, const unsigned char *answers,
			   struct flmem_heap_report *ret_heap);
	/*
	 * As plan_state and take_state, for the allocator's arenas, several per chain from number
	 * `first` on; used after take_state. take_arenas adds them to the list of `heap` and
	 * returns the next number to query, 0 after the last. NULL: the allocator has no arenas, or
	 * they need no calls.
	 */
	uint64_t (*plan_arenas)(const struct flmem_allocator *found, uint64_t first,
				struct flmem_chain *chain);
	uint64_t (*take_arenas)(const unsigned char *answers, uint64_t first,
				struct flmem_heap_report *heap);
	/*
	 * The system calls that the calls of all plan functions may make, with the known values of
	 * their arguments, from the sources and from strace. A missing entry may kill a target
	 * under seccomp. NULL, or a NULL result: they are unknown, and a filter that could kill for
	 * any call is refused.
	 */
	const struct flmem_syscall_table *(*syscalls)(const struct flmem_allocator *found);
	/* Why the allocator's state cannot be queried; NULL: it can be queried. */
	const char *unreadable_reason;
	const char *trim_advice;
	const char *caveat; /* memory that plan_trim's calls do not release, or NULL */
	/*
	 * The threads of this kind belong to the language's runtime and must not be borrowed,
	 * whatever other allocators there are.
	 */
	bool is_runtime;
};

extern const struct flmem_allocator_ops *const flmem_allocators[]; /* ends in NULL */

#define FLMEM_ALLOCATORS_MAX 16

struct flmem_allocator_list {
	struct flmem_allocator rows[FLMEM_ALLOCATORS_MAX];
	size_t count;
	bool is_cut; /* more allocators were found than fit */
};

/*
 * Finds the allocators of the process and marks the one that plain malloc reaches: decided by
 * symbol lookup order and confirmed by a GOT slot, not by which libraries are mapped.
 */
void flmem_allocators_find(const struct flmem_view *view, struct flmem_allocator_list *ret_list);

/* The allocator that plain malloc reaches; NULL if it is not known. */
const struct flmem_allocator *flmem_allocators_serving(const struct flmem_allocator_list *list);

/* Appends the system calls of the allocator's functions. */
void flmem_allocator_add_syscalls(const struct flmem_allocator *found,
				  struct flmem_syscall_list *list);

#endif
