/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/own_process.h>

#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "allocators/call_plan.h"
#include "ops/target/inspection.h"
#include "runtimes/cuda_pools.h"

/*
 * Returns the strength of the evidence that malloc reaches this row; `owner` is the module that the
 * dynamic linker chose.
 */
static int evidence_rank(const struct flmem_allocator *row, const struct flmem_module *owner)
{
	return (row->module == owner ? 2 : 0) + (row->serves_malloc ? 1 : 0);
}

/*
 * The best evidence is where this library's own calls of malloc lead. If malloc's address is an
 * entry of the program's procedure linkage table, they lead into the program whichever allocator
 * serves them, and only the lookup order decides.
 */
static const struct flmem_allocator *
find_malloc_allocator(const struct flmem_target_inspection *self)
{
	const uint64_t address = (uint64_t)(uintptr_t)malloc;
	const struct flmem_module *owner = flmem_modules_find(&self->modules, address);
	const struct flmem_allocator *best = NULL;

	if (owner && flmem_module_is_plt_entry(owner, "malloc", address))
		owner = NULL;
	for (size_t i = 0; i < self->allocators.count; i++) {
		const struct flmem_allocator *row = &self->allocators.rows[i];

		if (evidence_rank(row, owner) > (best ? evidence_rank(best, owner) : 0))
			best = row;
	}
	return best;
}

/*
 * Reads this process with the same code as any other: the result equals that of `flmem detect` from
 * outside, and the calls are those that `flmem trim` makes.
 */
static struct flmem_target_inspection *inspect_own_process(struct flmem_error *err)
{
	FLMEM_AUTO_INSPECTION struct flmem_target_inspection *self =
		flmem_target_inspection_new(err);

	if (!self || flmem_process_open(getpid(), &self->process, err) ||
	    flmem_target_inspection_read(self, err))
		return NULL;
	return FLMEM_TAKE(self);
}

/*
 * Index of the allocator + 1; 0 until it is known. Concurrent threads find the same value, so no
 * lock is needed.
 */
static atomic_int known;

static enum flmem_allocator_kind cache_allocator_kind(const struct flmem_allocator *serving)
{
	enum flmem_allocator_kind kind = serving ? serving->ops->kind : FLMEM_ALLOCATOR_UNKNOWN;

	atomic_store_explicit(&known, (int)kind + 1, memory_order_relaxed);
	return kind;
}

enum flmem_allocator_kind flmem_get_allocator_type(void)
{
	int remembered = atomic_load_explicit(&known, memory_order_relaxed);
	FLMEM_AUTO_INSPECTION struct flmem_target_inspection *self = NULL;

	if (remembered)
		return (enum flmem_allocator_kind)(remembered - 1);
	self = inspect_own_process(NULL);
	return self ? cache_allocator_kind(find_malloc_allocator(self)) : FLMEM_ALLOCATOR_UNKNOWN;
}

/*
 * Returns true if memory is registered with a device; reads only the status, since an inspection
 * takes longer.
 */
static bool has_registered_memory(void)
{
	FLMEM_AUTO_PROCESS struct flmem_process own = FLMEM_PROCESS_INIT;

	return !flmem_process_open(getpid(), &own, NULL) &&
	       flmem_call_plan_has_registered(&(struct flmem_view){.process = &own});
}

typedef uint64_t call_fn(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

/*
 * Makes the calls of a chain directly. Functions with fewer parameters ignore the rest, because
 * both calling conventions (System V x86-64, AAPCS64) pass the first six in registers.
 */
static int call_chain_directly(struct flmem_chain *chain, struct flmem_error *err)
{
	_Alignas(16) unsigned char data[FLMEM_CHAIN_DATA];

	if (chain->overflow)
		return flmem_error_set(err, FLMEM_EFAILED, 0, "too many calls for one release");
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

/*
 * Answers the hooks that only calls in the process can query, as libcore/ops/target/target_hooks.c
 * does from outside.
 */
static int query_own_hooks(const struct flmem_target_inspection *self,
			   const struct flmem_allocator *serving, struct flmem_error *err)
{
	uint64_t next = 0;

	do {
		struct flmem_chain chain = {0};
		uint64_t at = serving->ops->plan_hooks(serving, next, &chain);
		int rc;

		if (!chain.count)
			return 0;
		rc = call_chain_directly(&chain, err);
		if (!rc)
			rc = serving->ops->take_hooks(&self->view, serving, chain.data + at, &next,
						      err);
		if (rc)
			return rc;
	} while (next);
	return 0;
}

/* Refuses what a trim from outside would refuse, if a device may still use freed memory. */
static int check_registered_memory(const struct flmem_target_inspection *self,
				   const struct flmem_allocator *serving, struct flmem_error *err)
{
	int rc = 0;

	if (!serving || !flmem_call_plan_has_registered(&self->view))
		return 0;
	if (serving->ops->check_hooks)
		rc = serving->ops->check_hooks(&self->view, serving, err);
	return rc || !serving->ops->plan_hooks ? rc : query_own_hooks(self, serving, err);
}

static bool may_trim_malloc(void)
{
	FLMEM_AUTO_INSPECTION struct flmem_target_inspection *self = NULL;

	if (!has_registered_memory())
		return true;
	self = inspect_own_process(NULL);
	return self && !check_registered_memory(self, find_malloc_allocator(self), NULL);
}

int flmem_try_malloc_trim(void)
{
	if (flmem_get_allocator_type() != FLMEM_ALLOCATOR_GLIBC || !may_trim_malloc())
		return -1;
#ifdef __GLIBC__
	return malloc_trim(0);
#else
	return -1;
#endif
}

static int release_own_memory(const struct flmem_target_inspection *self,
			      const struct flmem_allocator *serving, struct flmem_error *err)
{
	struct flmem_chain query = {0}, trim = {0};
	const unsigned char *answers = NULL;
	int rc = 0;

	if (!serving)
		return flmem_error_set(
			err, FLMEM_EUNSUPPORTED, 0,
			"flmem does not know the allocator that malloc of this process reaches");
	if (!serving->ops->plan_trim)
		return flmem_error_set(
			err, FLMEM_EUNSUPPORTED, 0, "%s has no call that releases memory: %s",
			flmem_allocator_name(serving->ops->kind), serving->ops->trim_advice);
	if (serving->ops->plan_query) {
		uint64_t at = serving->ops->plan_query(&self->view, serving, &query);

		rc = call_chain_directly(&query, err);
		if (query.count)
			answers = query.data + at;
	}
	if (!rc)
		rc = serving->ops->plan_trim(&self->view, serving, answers, &trim, err);
	return rc ? rc : call_chain_directly(&trim, err);
}

int flmem_cleanup_memory_with(unsigned flags, uint64_t *ret_cuda_bytes, struct flmem_error *err)
{
	struct flmem_error cuda = {0};
	uint64_t bytes = 0;
	int rc = flmem_cleanup_memory(err), cuda_rc = 0;

	if (flags & FLMEM_CLEANUP_CUDA)
		cuda_rc = flmem_cuda_pools_trim(&bytes, &cuda);
	if (ret_cuda_bytes)
		*ret_cuda_bytes = bytes;
	if (!rc && cuda_rc && err)
		*err = cuda;
	return rc ? rc : cuda_rc;
}

int flmem_cleanup_memory(struct flmem_error *err)
{
	FLMEM_AUTO_INSPECTION struct flmem_target_inspection *self = NULL;
	const struct flmem_allocator *serving;
	struct flmem_error local = {0};

	/* Try malloc_trim() first: it is the only release call that needs no symbol lookup. */
	if (flmem_try_malloc_trim() >= 0)
		return 0;
	if (!err)
		err = &local;
	self = inspect_own_process(err);
	if (!self)
		return err->code;
	serving = find_malloc_allocator(self);
	cache_allocator_kind(serving);
	if (check_registered_memory(self, serving, err))
		return err->code;
	return release_own_memory(self, serving, err);
}
