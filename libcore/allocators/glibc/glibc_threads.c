/* SPDX-License-Identifier: Apache-2.0 */
#include "allocators/glibc/glibc_threads.h"

#include "elf/modules.h"
#include "proc/task.h"

static bool has_several_threads(const struct flmem_process *process)
{
	FLMEM_AUTO_TASKS struct flmem_tasks tasks = {0};
	size_t threads = 0;

	if (flmem_tasks_read(process, &tasks))
		return false;
	for (size_t i = 0; i < tasks.count && threads < 2; i++)
		threads += !flmem_task_is_kernels(process, tasks.ids[i]);
	return threads > 1;
}

/*
 * The variable is in libc, and in a program at a fixed address that uses it also there (a copy
 * relocation); some versions then keep only one of them up to date. pthread_create() clears it, and
 * nothing sets it again in a process that still has several threads.
 */
static bool is_single_threaded(const struct flmem_view *view)
{
	uint64_t address;
	unsigned char value;
	bool found = false;

	for (size_t i = 0; i < view->modules->count; i++) {
		if (!flmem_module_symbol_any(&view->modules->rows[i], "__libc_single_threaded",
					     &address))
			continue;
		found = true;
		if (flmem_process_read_memory(view->process, address, &value, sizeof(value)) ||
		    !value)
			return false;
	}
	return found;
}

/* In this order: the variable is cleared before a thread is made. */
bool flmem_glibc_takes_no_locks(const struct flmem_view *view)
{
	return has_several_threads(view->process) && is_single_threaded(view);
}
