/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/gadgets.h"

#include "elf/modules.h"

/* Run-time address of the instructions in a module; 0 if it lacks them. */
static uint64_t find_code(const struct flmem_module *module, const struct flmem_arch_code *code)
{
	struct flmem_image *image = flmem_module_image(module, NULL);
	uint64_t address, bias;

	if (!image || !flmem_module_bias(module, &bias) ||
	    !flmem_image_find_code(image, code->bytes, code->length, &address))
		return 0;
	return address + bias;
}

int flmem_gadgets_find(const struct flmem_view *view, struct flmem_gadgets *ret_gadgets,
		       struct flmem_error *err)
{
	const struct flmem_module *module =
		flmem_modules_lookup(view->modules, "__libc_start_main", NULL);
	struct flmem_gadgets gadgets;

	if (!module)
		module = flmem_modules_main(view->modules);
	if (!module)
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
				       "the program file cannot be read");
	gadgets.restorer = find_code(module, &flmem_arch_restorer);
	gadgets.syscall = find_code(module, &flmem_arch_syscall);
	if (!gadgets.restorer || !gadgets.syscall)
		return flmem_error_set(
			err, FLMEM_EUNSUPPORTED, 0,
			"'%s' lacks the instructions that a borrowed thread needs to return",
			module->path);
	*ret_gadgets = gadgets;
	return 0;
}
