/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/gadgets.h"

#include <string.h>

#include "elf/modules.h"
#include "proc/maps.h"
#include "proc/process.h"

#define VDSO_MAX 16384U

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

/*
 * The kernel's own code for handlers to return to, on processors whose C libraries have none. The
 * mapping has a few pages.
 */
static uint64_t find_in_vdso(const struct flmem_view *view, const struct flmem_arch_code *code)
{
	unsigned char bytes[VDSO_MAX];
	size_t length = 0;
	uint64_t start = 0;

	for (size_t i = 0; i < view->maps->count; i++)
		if (strcmp(view->maps->rows[i].name, "[vdso]") == 0) {
			start = view->maps->rows[i].start;
			length = (size_t)(view->maps->rows[i].end - start);
		}
	if (length > sizeof(bytes))
		length = sizeof(bytes);
	if (!code->length || flmem_process_read_memory(view->process, start, bytes, length))
		return 0;
	for (size_t at = 0; at + code->length <= length; at++)
		if (memcmp(bytes + at, code->bytes, code->length) == 0)
			return start + at;
	return 0;
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
	if (!gadgets.restorer)
		gadgets.restorer = find_in_vdso(view, &flmem_arch_restorer);
	gadgets.syscall = find_code(module, &flmem_arch_syscall);
	if (!gadgets.restorer || !gadgets.syscall)
		return flmem_error_set(
			err, FLMEM_EUNSUPPORTED, 0,
			"'%s' lacks the instructions that a borrowed thread needs to return",
			module->path);
	*ret_gadgets = gadgets;
	return 0;
}
