/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/own_process.h>

#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ops/target/inspection.h"

/* How sure it is that the row is what malloc reaches; `owner` is what the dynamic linker chose. */
static int certainty(const struct flmem_allocator *row, const struct flmem_module *owner)
{
	return (row->module == owner ? 2 : 0) + (row->serves_malloc ? 1 : 0);
}

/*
 * This library's own calls of malloc are the best witness. Where a program's procedure linkage
 * table stands for malloc's address, they lead into the program whoever serves them, and the lookup
 * order has to do.
 */
static const struct flmem_allocator *find_serving(const struct flmem_inspection *self)
{
	const uint64_t address = (uint64_t)(uintptr_t)malloc;
	const struct flmem_module *owner = flmem_modules_find(&self->modules, address);
	const struct flmem_allocator *best = NULL;

	if (owner && flmem_module_is_plt_entry(owner, "malloc", address))
		owner = NULL;
	for (size_t i = 0; i < self->allocators.count; i++) {
		const struct flmem_allocator *row = &self->allocators.rows[i];

		if (certainty(row, owner) > (best ? certainty(best, owner) : 0))
			best = row;
	}
	return best;
}

/*
 * This process looked at with the same eyes as any other: what `flmem detect` says of it from
 * outside is what it says of itself, and the calls are those that `flmem trim` would make.
 */
static struct flmem_inspection *look(struct flmem_error *err)
{
	FLMEM_AUTO_INSPECTION struct flmem_inspection *self = flmem_inspection_new(err);

	if (!self || flmem_process_open(getpid(), &self->process, err) ||
	    flmem_inspection_read(self, err))
		return NULL;
	return FLMEM_TAKE(self);
}

/* Allocator + 1, 0 until it is known. Threads that ask at once find the same, so no lock. */
static atomic_int known;

static enum flmem_allocator_kind remember(const struct flmem_allocator *serving)
{
	enum flmem_allocator_kind kind = serving ? serving->ops->kind : FLMEM_ALLOCATOR_UNKNOWN;

	atomic_store_explicit(&known, (int)kind + 1, memory_order_relaxed);
	return kind;
}

enum flmem_allocator_kind flmem_get_allocator_type(void)
{
	int remembered = atomic_load_explicit(&known, memory_order_relaxed);
	FLMEM_AUTO_INSPECTION struct flmem_inspection *self = NULL;

	if (remembered)
		return (enum flmem_allocator_kind)(remembered - 1);
	self = look(NULL);
	return self ? remember(find_serving(self)) : FLMEM_ALLOCATOR_UNKNOWN;
}

int flmem_try_malloc_trim(void)
{
	if (flmem_get_allocator_type() != FLMEM_ALLOCATOR_GLIBC)
		return -1;
	return malloc_trim(0);
}

typedef uint64_t call_fn(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

/*
 * Makes the calls of a chain here and now. Functions with fewer parameters ignore the rest, as both
 * calling conventions (System V x86-64, AAPCS64) pass the first six in registers.
 */
static int run_here(struct flmem_chain *chain, struct flmem_error *err)
{
	_Alignas(16) unsigned char data[FLMEM_CHAIN_DATA];

	if (chain->overflow)
		return flmem_error_set(err, FLMEM_EFAILED, 0, "too many calls for one clean-up");
	memcpy(data, chain->data, sizeof(data));
	for (size_t i = 0; i < chain->count; i++) {
		const struct flmem_call *call = &chain->calls[i];
		call_fn *function = (call_fn *)(uintptr_t)call->function;
		uint64_t a[FLMEM_CHAIN_ARGS];

		for (unsigned k = 0; k < FLMEM_CHAIN_ARGS; k++)
			a[k] = call->data_args >> k & 1U
				       ? (uint64_t)(uintptr_t)(data + call->args[k])
				       : call->args[k];
		function(a[0], a[1], a[2], a[3], a[4], a[5]);
	}
	memcpy(chain->data, data, sizeof(data));
	return 0;
}

static int release(const struct flmem_inspection *self, const struct flmem_allocator *serving,
		   struct flmem_error *err)
{
	struct flmem_chain query = {0}, trim = {0};
	const unsigned char *answers = NULL;
	int rc = 0;

	if (!serving)
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
				       "malloc of this process is not of an allocator that flmem "
				       "knows");
	if (!serving->ops->plan_trim)
		return flmem_error_set(
			err, FLMEM_EUNSUPPORTED, 0, "%s cannot be asked to give memory back: %s",
			flmem_allocator_name(serving->ops->kind), serving->ops->instead);
	if (serving->ops->plan_query) {
		uint64_t at = serving->ops->plan_query(&self->view, serving, &query);

		rc = run_here(&query, err);
		if (query.count)
			answers = query.data + at;
	}
	if (!rc)
		rc = serving->ops->plan_trim(&self->view, serving, answers, &trim, err);
	return rc ? rc : run_here(&trim, err);
}

int flmem_cleanup_memory(struct flmem_error *err)
{
	FLMEM_AUTO_INSPECTION struct flmem_inspection *self = NULL;
	const struct flmem_allocator *serving;
	struct flmem_error local = {0};

	/* The one release call that needs no looking up. */
	if (flmem_try_malloc_trim() >= 0)
		return 0;
	if (!err)
		err = &local;
	self = look(err);
	if (!self)
		return err->code;
	serving = find_serving(self);
	remember(serving);
	return release(self, serving, err);
}
