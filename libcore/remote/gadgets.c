/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/gadgets.h"

#include <string.h>

#include "elf/modules.h"
#include "proc/maps.h"
#include "proc/process.h"

#define VDSO_MAX   16384U
#define GADGET_MAX 32U

/* Returns the run-time address of the instructions in a module; 0 if it lacks them. */
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
 * Finds the code in the kernel's vdso, to which handlers return on processors whose C libraries
 * have none. The mapping has a few pages.
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

/* True if memory differs from the file; memory that cannot be read is detected later. */
static bool is_gadget_replaced(const struct flmem_view *view, uint64_t address,
			       const struct flmem_arch_code *code)
{
	unsigned char now[GADGET_MAX];

	return code->length <= sizeof(now) &&
	       flmem_process_read_memory(view->process, address, now, code->length) == 0 &&
	       memcmp(now, code->bytes, code->length) != 0;
}

/*
 * Checks the instructions. Libraries that intercept all system calls of a program overwrite those
 * that make them. A chain would run their code, on a thread that may be blocked in it.
 */
static int check_gadgets(const struct flmem_view *view, const struct flmem_gadgets *gadgets,
			 struct flmem_error *err)
{
	if (!is_gadget_replaced(view, gadgets->restorer, &flmem_arch_restorer) &&
	    !is_gadget_replaced(view, gadgets->syscall, &flmem_arch_syscall))
		return 0;
	return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
			       "the instructions for system calls in the C library of process %d "
			       "have been replaced by other code, which a borrowed thread must not "
			       "run",
			       (int)view->process->pid);
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
	if (check_gadgets(view, &gadgets, err))
		return FLMEM_EUNSUPPORTED;
	*ret_gadgets = gadgets;
	return 0;
}
