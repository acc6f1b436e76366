/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading memory that may not be there. The kernel is asked for a page by a system call that reads
 * 8 bytes from user space before it checks anything else: rt_sigprocmask() with an invalid `how`
 * fails with EFAULT where it cannot read them, else with EINVAL, and changes nothing. Unlike
 * process_vm_readv() every sandbox allows it. The answer holds for
 * one sample: the C library unmaps stacks and blocks unseen.
 */

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/sampler/sampler.h"

#define MASK_SIZE 8L

void sampler_memory_refresh(void)
{
	__atomic_fetch_add(&sampler_control.memory_epoch, 1, __ATOMIC_RELAXED);
}

static bool ask_kernel(uintptr_t page)
{
	return syscall(SYS_rt_sigprocmask, -1L, page, 0L, MASK_SIZE) == -1 && errno != EFAULT;
}

bool sampler_file_is_whole(void)
{
	return ask_kernel(sampler_tables.last_page);
}

static bool is_readable_page(uintptr_t page)
{
	uint64_t number = page / SAMPLER_PAGE;
	uint64_t known = number << 24 | (sampler_control.memory_epoch & 0xffffffU);
	uint64_t *slot = &sampler_control.page[number % SAMPLER_PAGES];

	if (__atomic_load_n(slot, __ATOMIC_RELAXED) == known)
		return true;
	if (!ask_kernel(page))
		return false;
	__atomic_store_n(slot, known, __ATOMIC_RELAXED);
	return true;
}

bool sampler_is_readable(uintptr_t address, size_t length)
{
	uintptr_t page = address & ~(uintptr_t)(SAMPLER_PAGE - 1);

	/* Half of the address space is the kernel's; nothing of a program is in the first page. */
	if (address < SAMPLER_PAGE || address >> 47 || length > (1U << 20))
		return false;
	for (; page < address + length; page += SAMPLER_PAGE)
		if (!is_readable_page(page))
			return false;
	return true;
}

bool sampler_read(uintptr_t address, void *out, size_t length)
{
	if (!sampler_is_readable(address, length))
		return false;
	memcpy(out, (const void *)address, length);
	return true;
}
