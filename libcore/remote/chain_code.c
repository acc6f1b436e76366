/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/chain_code.h"

#include <string.h>

#include "elf/modules.h"
#include "elf/view.h"
#include "proc/process.h"
#include "remote/code_change.h"

/*
 * The first bytes of a function that a chain calls: enough to cover where debuggers place a
 * breakpoint at its start, and some more.
 */
#define CHECKED_BYTES 256U

static bool is_repeated(const struct flmem_chain *chain, size_t index)
{
	for (size_t i = 0; i < index; i++)
		if (chain->calls[i].function == chain->calls[index].function)
			return true;
	return false;
}

/*
 * Returns true if the code differs from the file; compares as much as the file contains at that
 * place. *ret_at is the first address that differs.
 */
static bool is_call_changed(const struct flmem_view *view, uint64_t function, uint64_t *ret_at)
{
	const struct flmem_module *module = flmem_modules_find(view->modules, function);
	struct flmem_image *image = module ? flmem_module_image(module, NULL) : NULL;
	unsigned char built[CHECKED_BYTES], now[CHECKED_BYTES];
	size_t length = sizeof(built);
	uint64_t bias;

	if (!image || flmem_image_is_mapped(image) || !flmem_module_bias(module, &bias))
		return false;
	while (length && !flmem_image_read_address(image, function - bias, built, length))
		length /= 2;
	*ret_at = function;
	if (length && flmem_process_read_pinned(view->process, function, now, length))
		return true;
	return flmem_code_differs(built, now, length, ret_at);
}

int flmem_chain_code_check(const struct flmem_view *view, const struct flmem_chain *chain,
			   struct flmem_error *err)
{
	uint64_t at;

	for (size_t i = 0; i < chain->count; i++)
		if (!is_repeated(chain, i) && is_call_changed(view, chain->calls[i].function, &at))
			return flmem_error_set(
				err, FLMEM_EUNSUPPORTED, 0,
				"the code of %s() in process %d is not that of its file, and a "
				"borrowed thread must not run it: %s",
				chain->calls[i].name, (int)view->process->pid,
				flmem_code_change_cause(view, at));
	return 0;
}

int flmem_chain_code_read(const struct flmem_process *process, const struct flmem_chain *chain,
			  struct flmem_chain_code *ret_code)
{
	struct flmem_chain_code code = {0};

	for (size_t i = 0; i < chain->count; i++) {
		int rc;

		if (is_repeated(chain, i))
			continue;
		rc = flmem_process_read_pinned(process, chain->calls[i].function, code.begin[i],
					       FLMEM_CHAIN_CODE_BYTES);
		if (rc)
			return rc;
	}
	*ret_code = code;
	return 0;
}

bool flmem_chain_code_is_there(const struct flmem_process *process, const struct flmem_chain *chain,
			       const struct flmem_chain_code *code)
{
	struct flmem_chain_code now;

	return flmem_chain_code_read(process, chain, &now) == 0 &&
	       memcmp(&now, code, sizeof(now)) == 0;
}
