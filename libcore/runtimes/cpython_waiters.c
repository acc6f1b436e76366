/* SPDX-License-Identifier: Apache-2.0 */
#include "runtimes/cpython_waiters.h"

static bool accepts_others(void *context, const struct flmem_candidate *candidate, uint64_t pointer,
			   const char **ret_reason)
{
	const struct flmem_cpython_waiters *waiters = context;

	(void)pointer;
	if (candidate->computes || !flmem_cpython_gil_is_waited_for(&waiters->gil, &candidate->at))
		return true;
	*ret_reason = "waits for the interpreter's lock, and would delay others that wait for it";
	return false;
}

bool flmem_cpython_waiters_find(const struct flmem_view *view,
				struct flmem_cpython_waiters *ret_waiters)
{
	struct flmem_cpython_place place;
	struct flmem_cpython_gil gil;
	struct flmem_cpython python;

	if (!flmem_cpython_find(view, &python) ||
	    flmem_cpython_locate(view, &python, &place, NULL) ||
	    flmem_cpython_main_gil_read(view, &place, &gil, NULL))
		return false;
	*ret_waiters = (struct flmem_cpython_waiters){
		.gil = gil,
		.filter = {.accepts = accepts_others, .context = ret_waiters},
	};
	return true;
}
