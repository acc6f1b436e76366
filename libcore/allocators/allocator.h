/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ALLOCATORS_ALLOCATOR_H
#define FLMEM_ALLOCATORS_ALLOCATOR_H

/*
 * Allocators as data. Each file of this room knows one allocator: how to recognise it in a module
 * of a live process, and which calls make it give memory back. It ends in one constant table of
 * operations, and registry.c lists those tables once. docs/adding-an-allocator.md says how.
 */

#include <stdbool.h>
#include <stddef.h>

#include <flmem/error.h>
#include <flmem/process_report.h>

#include "elf/modules.h"
#include "elf/view.h"
#include "proc/maps.h"
#include "proc/process.h"
#include "remote/candidates.h"
#include "remote/chain.h"
#include "remote/syscalls.h"

#define FLMEM_ALLOCATOR_VERSION_MAX 64

/* An allocator found in one module. */
struct flmem_allocator {
	const struct flmem_allocator_ops *ops;
	const struct flmem_module *module;
	enum flmem_linkage linkage;
	unsigned variant; /* which of several of one name; its own file numbers them */
	char version[FLMEM_ALLOCATOR_VERSION_MAX]; /* "" when it could not be told */
	const char *prefix;			   /* static; NULL when it could not be told */
	const char *evidence;			   /* static: how it was recognised */
	const char *caveat; /* static: as in the operations, of this version */
	/*
	 * It may leave pages to the kernel (MADV_FREE) without counting them any more: they stay in
	 * RSS until memory is short.
	 */
	bool leaves_pages;
	const char *unpredictable; /* static: why RSS may not fall by what it releases, or NULL */
	bool serves_malloc;
};

/* How much reading a heap may cost. */
struct flmem_heap_limits {
	uint64_t budget_us; /* then what was not read yet is estimated from a sample */
};

struct flmem_allocator_ops {
	enum flmem_allocator_kind kind;
	/* What the names of its own libraries have in them; any other file has it linked in. */
	const char *files[3];
	/*
	 * Looks whether `module` holds this allocator; fills version, prefix and evidence, and the
	 * variant where there are several. Must not be fooled by names that others export too.
	 */
	bool (*probe)(const struct flmem_view *view, const struct flmem_module *module,
		      struct flmem_allocator *ret_found);
	/*
	 * Appends calls whose results plan_trim needs and returns where in the chain's data they
	 * will be. A NULL slot or nothing appended: it needs none.
	 */
	uint64_t (*plan_query)(const struct flmem_view *view, const struct flmem_allocator *found,
			       struct flmem_chain *chain);
	/*
	 * Appends the calls that give memory back; `answers` is what plan_query asked for, NULL
	 * when it asked for nothing or in a dry run. A NULL slot: it cannot be asked from outside,
	 * and `instead` says what to do. FLMEM_EUNSUPPORTED when this very build cannot be.
	 */
	int (*plan_trim)(const struct flmem_view *view, const struct flmem_allocator *found,
			 const unsigned char *answers, struct flmem_chain *chain,
			 struct flmem_error *err);
	/*
	 * Adds the code that must not be on a borrowed thread's stack and the memory that holds its
	 * locks. NULL: all code and all data of its module.
	 */
	void (*guard)(const struct flmem_view *view, const struct flmem_allocator *found,
		      struct flmem_guard *guard);
	/*
	 * FLMEM_EUNSAFE when the calls of plan_trim would meet damage that the program has done to
	 * its heap, as far as that is seen from outside within the budget. NULL: not looked at.
	 */
	int (*check)(const struct flmem_view *view, const struct flmem_allocator *found,
		     uint64_t budget_us, struct flmem_error *err);
	/*
	 * Reads the state of its heap from outside, stopping nothing and mapping no page that was
	 * not present. Fields that cannot be told are unknown with their reason. NULL: it has to be
	 * asked.
	 */
	void (*read_heap)(const struct flmem_view *view, const struct flmem_allocator *found,
			  const struct flmem_heap_limits *limits,
			  struct flmem_heap_report *ret_heap);
	/*
	 * Appends calls that make the allocator tell its state, at offsets of the chain's data of
	 * which it returns the first; take_state reads them from there. `query` is as in plan_trim.
	 * NULL, and nothing appended: it need not or cannot be asked.
	 */
	uint64_t (*plan_state)(const struct flmem_view *view, const struct flmem_allocator *found,
			       const unsigned char *query, struct flmem_chain *chain);
	void (*take_state)(const struct flmem_allocator *found, const unsigned char *answers,
			   struct flmem_heap_report *ret_heap);
	/*
	 * The same for its arenas, some at a time from number `first` on, right behind take_state.
	 * take_arenas adds them to the list of `heap` and returns the number that is to be asked
	 * for next, 0 when that was all. NULL: it has none, or they need not be asked for.
	 */
	uint64_t (*plan_arenas)(const struct flmem_allocator *found, uint64_t first,
				struct flmem_chain *chain);
	uint64_t (*take_arenas)(const unsigned char *answers, uint64_t first,
				struct flmem_heap_report *heap);
	/*
	 * The system calls that the calls of plan_trim, plan_query, plan_state and plan_arenas may
	 * make, with what is known of their arguments: by the sources, and as strace shows them.
	 * One that is missing may kill a target under seccomp. NULL, or a NULL result: they are not
	 * known, and a filter that could kill for any call at all is refused.
	 */
	const struct flmem_syscall_table *(*syscalls)(const struct flmem_allocator *found);
	/* Why nobody can be told how full it is: it has no call for that; NULL: it has. */
	const char *silent;
	const char *instead;
	const char *caveat; /* what plan_trim's calls do not reach, or NULL */
	/* Its threads are its runtime's own and must not be borrowed, whatever else is there. */
	bool is_runtime;
};

extern const struct flmem_allocator_ops *const flmem_allocators[]; /* ends in NULL */

#define FLMEM_ALLOCATORS_MAX 16

struct flmem_allocator_list {
	struct flmem_allocator rows[FLMEM_ALLOCATORS_MAX];
	size_t count;
};

/*
 * Finds the allocators of the process and marks the one that plain malloc reaches, decided by
 * symbol lookup order and confirmed by a GOT slot, not by what is mapped.
 */
void flmem_allocators_find(const struct flmem_view *view, struct flmem_allocator_list *ret_list);

/* Appends the system calls of its functions. */
void flmem_allocator_add_syscalls(const struct flmem_allocator *found,
				  struct flmem_syscall_list *list);

#endif
