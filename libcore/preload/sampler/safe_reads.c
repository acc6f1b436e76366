/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads memory that may not be there, without a fault.
 *
 * What another thread may unmap at any time is copied by the kernel: process_vm_writev() of the
 * process to itself fails where there is nothing (copied_lines.c). Where a sandbox forbids it,
 * nothing is read.
 *
 * What cannot go while the thread is in the sampler is read in place: its own stack, and what
 * belongs to its Python frames while it holds the interpreter's lock. Only whether there is such
 * memory at all is asked, by a cheaper call that reads 8 bytes before it checks anything else:
 * rt_sigprocmask() with an invalid `how` fails with EFAULT where it cannot read them, else with
 * EINVAL, and changes nothing. The kernel is not asked where the address itself lies in memory that
 * is there whatever the interpreter's structures say: the stack, the data of the interpreter's
 * module, and the part of the data stack that the thread's state has.
 */

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/sampler/sampler.h"

#define MASK_SIZE  8L
#define STACK_NEED 2560U /* more stack than any sample needs: tests/victims/sampled/small_stack.c */
#define PAGES_MAX  SAMPLER_PAGE /* pages of a stack: a buffer has one byte for each */
#define UNSEEN_MAX 1024U
#define STEP_MAX   (UINT64_C(1) << 20) /* bytes by which the known part of a stack may grow */

/* The dynamic linker defines this: where the main thread's stack begins. */
extern void *__libc_stack_end __attribute__((weak)); /* NOLINT(bugprone-reserved-identifier) */

static struct {
	uintptr_t start, end;
} python_data;

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
	return ask_kernel(sampler_tables.last_page) &&
	       sampler_tables.header->start_realtime_ms == sampler_tables.start_realtime_ms;
}

/*
 * Returns whether an address is possible: half of the address space is the kernel's, and the first
 * page is never mapped in programs.
 */
bool sampler_can_be(uintptr_t address, size_t length)
{
	return address >= SAMPLER_PAGE && !(address >> FLMEM_ADDRESS_BITS) && length <= (1U << 20);
}

/*
 * Returns whether the page can be read. The answer is valid for one sample: the C library unmaps
 * stacks and blocks unseen.
 */
static bool is_page_there(uintptr_t page)
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

void sampler_data_set(uintptr_t start, uintptr_t end)
{
	python_data.start = start;
	python_data.end = end;
}

bool sampler_data_has(uintptr_t address)
{
	return address >= python_data.start && address < python_data.end;
}

static bool is_within(uintptr_t address, size_t length, uintptr_t start, uintptr_t end)
{
	return address >= start && address < end && length <= end - address;
}

/*
 * Returns whether the memory is certain to be there: no other thread unmaps it, and its bounds do
 * not depend on the data that is read.
 */
static bool is_certain(uintptr_t address, size_t length)
{
	const struct sampler_thread *thread = &sampler_thread;

	return is_within(address, length, thread->stack_low, thread->stack_top) ||
	       is_within(address, length, python_data.start, python_data.end) ||
	       is_within(address, length, thread->chunk, thread->chunk_end);
}

static bool are_pages_there(uintptr_t address, size_t length)
{
	uintptr_t page = address & ~(uintptr_t)(SAMPLER_PAGE - 1);

	for (; page < address + length; page += SAMPLER_PAGE)
		if (!is_page_there(page))
			return false;
	return true;
}

static bool can_be_read(uintptr_t address, size_t length)
{
	return sampler_can_be(address, length) &&
	       (is_certain(address, length) || are_pages_there(address, length));
}

/*
 * getpid() is asked of the kernel each time: a child may know only its parent's number, which
 * others may have by now.
 */
size_t sampler_copy(void *out, const struct iovec *from, size_t count, size_t length)
{
	struct iovec to = {out, length};
	long pid = syscall(SYS_getpid);
	ssize_t copied = syscall(SYS_process_vm_writev, pid, from, count, &to, 1L, 0L);

	return copied < 0 ? 0 : (size_t)copied;
}

bool sampler_read(uintptr_t address, void *out, size_t length)
{
	struct iovec from = {(void *)address, length};

	return sampler_can_be(address, length) && sampler_copy(out, &from, 1, length) == length;
}

bool sampler_read_often(uintptr_t address, void *out, size_t length)
{
	struct sampler_copies *lines = sampler_thread.lines;

	if (lines)
		return sampler_can_be(address, length) &&
		       sampler_lines_read(lines, address, out, length);
	if (!can_be_read(address, length))
		return false;
	memcpy(out, (const void *)address, length);
	return true;
}

const char *sampler_see(uintptr_t address, char *room, size_t length)
{
	if (!sampler_thread.lines)
		return can_be_read(address, length) ? (const char *)address : NULL;
	return sampler_read_often(address, room, length) ? room : NULL;
}

/*
 * Returns the top of the thread's stack. The C library's block of a thread is there, whoever
 * provided the stack. The main thread is different: the kernel made its stack.
 */
static uintptr_t find_stack_top(void)
{
	if (syscall(SYS_gettid) != (long)sampler_thread.pid)
		return (uintptr_t)pthread_self();
	return &__libc_stack_end ? (uintptr_t)__libc_stack_end : 0;
}

/*
 * Returns whether every page of the range is there: a guard page, which cannot be read, would be
 * between this stack and another one. A page that was never touched looks like a guard, so the
 * kernel is asked for it.
 */
static bool is_one_piece(uintptr_t low, uintptr_t high, unsigned char *seen)
{
	const uintptr_t page = sampler_page_size();
	size_t pages = (high - low + page - 1) / page, unseen = 0;

	if (pages > PAGES_MAX || syscall(SYS_mincore, low, high - low, seen) < 0)
		return false;
	for (size_t i = 0; i < pages; i++)
		if (!(seen[i] & 1) && (++unseen > UNSEEN_MAX || !ask_kernel(low + i * page)))
			return false;
	return true;
}

bool sampler_stack_is_own(uintptr_t address, struct sampler_scratch *scratch)
{
	struct sampler_thread *thread = &sampler_thread;
	uintptr_t low = sampler_page_of(address), top, high;

	if (address >= thread->stack_low && address < thread->stack_top)
		return true;
	top = find_stack_top();
	if (address >= top || top - address > PAGES_MAX * sampler_page_size())
		return false;
	high = top == thread->stack_top && thread->stack_low > low ? thread->stack_low : top;
	if (!is_one_piece(low, high, (unsigned char *)scratch->maps))
		return false;
	thread->stack_low = low;
	thread->stack_top = top;
	return true;
}

void sampler_stack_note(uintptr_t address, struct sampler_scratch *scratch)
{
	const struct sampler_thread *thread = &sampler_thread;

	if (!thread->stack_top || thread->stack_low - address <= STEP_MAX)
		sampler_stack_is_own(address, scratch);
}

/*
 * The check also applies within the thread's own stack: a program may use part of that for its
 * handlers.
 */
bool sampler_stack_has_room(void)
{
	const uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	stack_t alternate;

	if (syscall(SYS_sigaltstack, NULL, &alternate) != 0 || !(alternate.ss_flags & SS_ONSTACK))
		return true;
	return here - (uintptr_t)alternate.ss_sp >= STACK_NEED;
}
