/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "runtimes/cpython_entry_points.h"

int flmem_cpython_function_plan(const struct flmem_cpython_function *function,
				struct flmem_buf *area, struct flmem_chain *chain,
				struct flmem_error *err)
{
	struct flmem_call *call;

	if (function->chain) {
		*chain = *function->chain;
		return 0;
	}
	call = flmem_chain_add(chain, function->name, function->address);
	for (size_t i = 0; i < function->answer_size; i++)
		flmem_buf_putc(area, '\0');
	flmem_buf_append(area, function->text, strlen(function->text) + 1);
	if (area->failed)
		return flmem_error_nomem(err, "cannot store the text for a function");
	call->args[0] = function->answer_size;
	call->args[1] = function->answer ? 0 : function->number;
	call->area_args = function->answer ? 3U : 1U;
	if (function->then) {
		call = flmem_chain_add(chain, function->then_name, function->then);
		call->args[0] = function->answer_size;
		call->area_args = 1U;
	}
	chain->area.bytes = (unsigned char *)area->data;
	chain->area.length = area->length;
	return 0;
}
