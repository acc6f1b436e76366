/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/errno_place.h"

#include "elf/modules.h"
#include "proc/process.h"
#include "remote/errno_code.h"

struct flmem_errno_place flmem_errno_find(const struct flmem_view *view)
{
	struct flmem_errno_place place = {0};
	unsigned char code[FLMEM_ERRNO_CODE_BYTES];
	uint64_t function;

	place.known = flmem_modules_lookup(view->modules, "__errno_location", &function) &&
		      !flmem_process_read_memory(view->process, function, code, sizeof(code)) &&
		      flmem_errno_decode(view->process, function, code, &place.distance);
	return place;
}

static bool read_errno(const struct flmem_process *process, uint64_t address, int *ret_value)
{
	return !flmem_process_read_pinned(process, address, ret_value, sizeof(*ret_value));
}

struct flmem_errno_value flmem_errno_read(const struct flmem_process *process,
					  const struct flmem_errno_place *place,
					  uint64_t thread_pointer)
{
	struct flmem_errno_value now = {.address = thread_pointer + (uint64_t)place->distance};

	now.known = place->known && now.address % sizeof(int) == 0 &&
		    read_errno(process, now.address, &now.value);
	return now;
}

void flmem_errno_restore(const struct flmem_process *process,
			 const struct flmem_errno_value *before)
{
	int value;

	if (before->known && read_errno(process, before->address, &value) && value != before->value)
		(void)flmem_process_write_memory(process, before->address, &before->value,
						 sizeof(before->value));
}
