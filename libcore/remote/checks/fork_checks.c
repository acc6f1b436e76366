/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/checks/fork_checks.h"

#include "elf/image.h"
#include "elf/libc.h"
#include "elf/modules.h"
#include "proc/task.h"
#include "remote/arch.h"
#include "remote/checks/call_sites.h"
#include "remote/checks/thread_stack.h"

/* Limit of decoded words: more addresses of one function than any program's stack has. */
#define DECODED_MAX 64U

struct fork_search {
	const struct flmem_process *process;
	struct flmem_range fork;
	unsigned decoded;
};

static bool is_fork_frame(void *context, uint64_t word, uint64_t depth)
{
	struct fork_search *search = context;
	const uint64_t address = flmem_arch_plain_address(word);
	uint64_t target;

	(void)depth;
	if (address <= search->fork.start || address >= search->fork.end)
		return false;
	return search->decoded++ >= DECODED_MAX ||
	       flmem_call_before(search->process, address, &target) != FLMEM_CALL_NONE;
}

/*
 * True if a static program lacks fork(): one whose symbols are present contains what it calls, and
 * no other function.
 */
static bool lacks_it(const struct flmem_view *view, struct flmem_image *image)
{
	uint64_t address, size;

	return !view->modules->has_link_map &&
	       flmem_image_find_section(image, ".symtab", &address, &size);
}

bool flmem_forks_function(const struct flmem_view *view, struct flmem_range *ret_fork)
{
	bool is_glibc;
	const struct flmem_module *library = view->modules->has_link_map
						     ? flmem_libc_module(view->modules, &is_glibc)
						     : flmem_modules_main(view->modules);
	struct flmem_image *image = library ? flmem_module_image(library, NULL) : NULL;
	struct flmem_symbol symbol;
	uint64_t start;

	*ret_fork = (struct flmem_range){0};
	if (!image)
		return false;
	if (!flmem_image_find_any(image, "fork", &symbol))
		return lacks_it(view, image);
	if (!symbol.size || !flmem_module_address(library, symbol.value, &start))
		return false;
	*ret_fork = (struct flmem_range){start, start + symbol.size};
	return true;
}

bool flmem_forks_is_inside(const struct flmem_process *process, struct flmem_range fork,
			   uint64_t sp)
{
	struct fork_search search = {.process = process, .fork = fork};

	return fork.start < fork.end &&
	       flmem_stack_has_word(process, sp, UINT64_MAX, is_fork_frame, &search);
}

static bool is_inside_fork(const struct flmem_process *process, const struct flmem_guard *guard,
			   pid_t tid)
{
	struct flmem_task_wait wait;
	int rc = flmem_task_read_wait(process, tid, &wait);

	if (rc < 0)
		return !flmem_task_has_ended(rc);
	/* A kernel thread has no stack that could be read, so it is skipped. */
	return rc && flmem_forks_is_inside(process, guard->fork, wait.sp) &&
	       !flmem_task_is_kernels(process, tid);
}

int flmem_forks_check(const struct flmem_process *process, const struct flmem_guard *guard,
		      struct flmem_error *err)
{
	FLMEM_AUTO_TASKS struct flmem_tasks tasks = {0};
	int rc;

	if (guard->fork.start >= guard->fork.end)
		return 0;
	rc = flmem_tasks_read(process, &tasks);
	if (flmem_task_has_ended(rc))
		return 0; /* the next step reports that */
	if (rc)
		return flmem_process_error(process, rc, "list the threads", err);
	for (size_t i = 0; i < tasks.count; i++)
		if (is_inside_fork(process, guard, tasks.ids[i]))
			return flmem_error_set(
				err, FLMEM_EUNSAFE, 0,
				"thread %d of process %d is inside fork(), whose handlers may hold "
				"locks of the allocator while they wait, or an earlier fork() has "
				"left its address on the stack; try again or give a longer "
				"--timeout",
				(int)tasks.ids[i], (int)process->pid);
	return 0;
}
