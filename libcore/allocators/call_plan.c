/* SPDX-License-Identifier: Apache-2.0 */
#include "allocators/call_plan.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "proc/status.h"

int flmem_call_plan_function(const struct flmem_allocator *found, const char *name,
			     uint64_t *ret_address, struct flmem_error *err)
{
	char symbol[96];

	snprintf(symbol, sizeof(symbol), "%s%s", found->prefix ? found->prefix : "", name);
	if (flmem_module_symbol_any(found->module, symbol, ret_address))
		return 0;
	return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
			       "'%s' holds %s without a symbol for %s, so it cannot be called (a "
			       "stripped static build)",
			       found->module->path, flmem_allocator_name(found->ops->kind), symbol);
}

int flmem_call_plan_call(const struct flmem_allocator *found, const char *name, uint64_t argument,
			 struct flmem_chain *chain, struct flmem_error *err)
{
	uint64_t function;
	int rc = flmem_call_plan_function(found, name, &function, err);

	if (!rc)
		flmem_chain_add(chain, name, function)->args[0] = argument;
	return rc;
}

int flmem_call_plan_refuse_hook(const struct flmem_view *view, const struct flmem_allocator *found,
				const char *hook, struct flmem_error *err)
{
	return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
			       "process %d has set %s of %s: flmem's calls would run that function "
			       "of the program on the borrowed thread, which may hold a lock that "
			       "the function takes; unset it, or release the memory from inside "
			       "the program",
			       (int)view->process->pid, hook,
			       flmem_allocator_name(found->ops->kind));
}

int flmem_call_plan_refuse_unread(const struct flmem_view *view,
				  const struct flmem_allocator *found, const char *hook,
				  struct flmem_error *err)
{
	return flmem_error_set(err, FLMEM_EUNSAFE, 0,
			       "whether process %d has set %s of %s cannot be read, and flmem's "
			       "calls could run that function of the program; try again",
			       (int)view->process->pid, hook,
			       flmem_allocator_name(found->ops->kind));
}

bool flmem_call_plan_has_registered(const struct flmem_view *view)
{
	struct flmem_status status;

	return flmem_status_read(view->process, &status, NULL) ||
	       flmem_u64_or(status.pinned_bytes, 0);
}

int flmem_call_plan_refuse_registered(const struct flmem_view *view, const char *how,
				      struct flmem_error *err)
{
	return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
			       "process %d has memory registered with a device (VmPin in "
			       "/proc/%d/status) and %s: a trim could release what the device "
			       "still uses",
			       (int)view->process->pid, (int)view->process->pid, how);
}

bool flmem_call_plan_can_answer(const struct flmem_view *view, const struct flmem_allocator *found)
{
	struct flmem_chain chain = {0};

	if (found->ops->plan_state)
		found->ops->plan_state(view, found, NULL, &chain);
	return chain.count > 0;
}

uint64_t flmem_call_plan_answers(struct flmem_chain *chain, size_t count)
{
	uint64_t at = flmem_chain_put(chain, NULL, count * sizeof(uint64_t));

	if (!chain->overflow)
		memset(chain->data + at, 0xff, count * sizeof(uint64_t));
	return at;
}

struct flmem_u64 flmem_call_plan_answer(const unsigned char *answers, size_t index,
					const char *why_not)
{
	uint64_t value;

	memcpy(&value, answers + index * sizeof(value), sizeof(value));
	return value == FLMEM_NO_ANSWER ? FLMEM_UNKNOWN(why_not) : FLMEM_KNOWN(value);
}
