/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/checks/thread_stack.h"

#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "proc/maps.h"
#include "proc/process.h"
#include "remote/checks/call_sites.h"
#include "remote/checks/handlers.h"

/*
 * Stack that the called functions may use below the frames. malloc_trim needs well under 1 KiB, the
 * dynamic linker up to 12 KiB when it binds a function at its first call (it saves vector state).
 */
#define CALL_STACK    24576U
#define PAGE	      4096U /* the smallest page size; larger pages are read repeatedly */
#define PAGES_AT_ONCE 64U
#define STACK_GAP     ((uint64_t)1 << 20)
#define WHOLE_MAX     ((uint64_t)8 << 20) /* the usual limit on a stack */
/* Innermost bytes of a stack: if an allocator waits, one of the frames in them belongs to it. */
#define INNERMOST 512U
/*
 * Bytes that are searched for frames of an allocator: those of the program's functions that it
 * calls may lie below.
 */
#define FRAMES_BYTES 65536U
/* Limit of decoded words: more addresses of an allocator's code than any program's stack has. */
#define DECODED_MAX 256U
/*
 * Longest sleep of an allocator that backs off: spin locks of tcmalloc sleep for 2 ms at most
 * (spinlock_internal.cc).
 */
#define BACK_OFF_US_MAX 100000U

static bool is_in_ranges(const struct flmem_range *ranges, size_t count, uint64_t address)
{
	for (size_t i = 0; i < count; i++)
		if (address >= ranges[i].start && address < ranges[i].end)
			return true;
	return false;
}

/* The needs of the calls, and the process whose stacks are checked. */
struct stack_search {
	const struct flmem_view *view;
	const struct flmem_candidate_needs *needs;
};

/* The part of a stack that is searched for frames of an allocator. */
struct searched_stack {
	const struct stack_search *search;
	const struct flmem_candidate *row;
	unsigned decoded; /* words that look like return addresses */
};

/*
 * True if an allocator may back off from a spin lock, for which it sleeps briefly: an innermost
 * frame then belongs to it.
 */
static bool may_back_off(const struct flmem_candidate *row)
{
	return row->wait.quality == FLMEM_WAIT_RELATIVE && row->wait.late_us <= BACK_OFF_US_MAX;
}

/*
 * True if a word is a frame of an allocator in one of the other waits: the allocator waits for one
 * of its threads to end (jemalloc switches its background thread off with its locks held), or it
 * runs a function of the program that waits. Words that were left over on the stack would exclude a
 * thread that always waits at the same place, so the word has to follow a call that leaves the
 * allocator: of the function that waits, near the innermost end, or of any function through a
 * pointer.
 */
static bool is_frame(struct searched_stack *frames, uint64_t word, uint64_t depth)
{
	const struct flmem_guard *guard = frames->search->needs->guard;
	uint64_t target = 0;

	if (depth < INNERMOST && may_back_off(frames->row))
		return true;
	if (frames->decoded++ >= DECODED_MAX)
		return true;
	switch (flmem_call_before(frames->search->view->process, word, &target)) {
	case FLMEM_CALL_INDIRECT:
		return true;
	case FLMEM_CALL_STUB:
		return depth < INNERMOST && !is_in_ranges(guard->code, guard->code_count, target);
	case FLMEM_CALL_DIRECT:
	case FLMEM_CALL_NONE:
		break;
	}
	return false;
}

static bool is_allocator_frame(void *context, uint64_t word, uint64_t depth)
{
	struct searched_stack *frames = context;
	const struct flmem_guard *guard = frames->search->needs->guard;
	const uint64_t address = flmem_arch_plain_address(word);

	return is_in_ranges(guard->code, guard->code_count, address) &&
	       is_frame(frames, address, depth);
}

bool flmem_stack_has_word(const struct flmem_process *process, uint64_t sp, uint64_t end,
			  bool (*is_word)(void *context, uint64_t word, uint64_t depth),
			  void *context)
{
	uint64_t words[PAGE / sizeof(uint64_t)];

	sp &= ~UINT64_C(7);
	if (end - sp > FRAMES_BYTES)
		end = sp + FRAMES_BYTES;
	for (uint64_t at = sp; at < end;) {
		uint64_t length = PAGE - at % PAGE;
		int rc;

		if (length > end - at)
			length = end - at;
		rc = flmem_process_read_memory(process, at, words, length);
		if (rc) /* a guard page, which the mappings may not show, ends a stack */
			return rc != -EFAULT || at == sp;
		for (size_t i = 0; i < length / sizeof(*words); i++)
			if (is_word(context, words[i], at + i * sizeof(*words) - sp))
				return true;
		at += length;
	}
	return false;
}

static bool is_inside_allocator(const struct stack_search *search,
				const struct flmem_candidate *row, uint64_t end)
{
	const struct flmem_guard *guard = search->needs->guard;
	struct searched_stack frames = {.search = search, .row = row};

	if (is_in_ranges(guard->code, guard->code_count, row->at.pc))
		return true;
	if (row->at.number == SYS_futex &&
	    is_in_ranges(guard->locks, guard->lock_count, row->at.args[0]))
		return true;
	return guard->code_count && (is_allocator_frame(&frames, row->link, 0) ||
				     flmem_stack_has_word(search->view->process, row->at.sp, end,
							  is_allocator_frame, &frames));
}

/*
 * True if the thread may join another inside an allocator. The kernel wakes pthread_join() as a
 * waiter of any process (mm_release() in kernel/fork.c), so its wait is not private; those of
 * condition variables and semaphores are.
 */
static bool may_join_inside(const struct stack_search *search, const struct flmem_candidate *row)
{
	return search->needs->guard->may_join_threads && row->at.number == SYS_futex &&
	       !(row->at.args[1] & FUTEX_PRIVATE_FLAG);
}

/*
 * A read shows guard pages made by MADV_GUARD_INSTALL (glibc 2.42 and later): they are not in the
 * mappings, so that the stacks of several threads look like one.
 */
bool flmem_stack_is_whole(const struct flmem_process *process, uint64_t from, uint64_t to)
{
	struct iovec remote[PAGES_AT_ONCE];
	char bytes[PAGES_AT_ONCE];

	if (to < from || to - from > WHOLE_MAX)
		return false;
	for (uint64_t at = from - from % PAGE; at < to;) {
		size_t count = 0;

		for (; count < PAGES_AT_ONCE && at < to; at += PAGE)
			remote[count++] = (struct iovec){(void *)(uintptr_t)at, 1};
		if (flmem_process_read_scattered(process, remote, count, bytes))
			return false;
	}
	return true;
}

/*
 * True if the main stack can grow by `room`. The kernel lets it grow down to its limit, but keeps a
 * gap to the mapping below it (stack_guard_gap, 256 pages by default).
 */
static bool can_grow(const struct stack_search *search, const struct flmem_map *stack, uint64_t sp,
		     uint64_t room)
{
	const struct flmem_map *below = stack > search->view->maps->rows ? stack - 1 : NULL;
	uint64_t lowest = sp - room, limit;

	if (lowest > sp || flmem_process_stack_limit(search->view->process, &limit))
		return false;
	return stack->end - lowest <= limit && (!below || lowest - below->end > STACK_GAP);
}

/*
 * Bytes that flmem writes must be mapped already, since such a write does not make a stack grow.
 * The calls do make the main stack grow; the stacks of other threads have a fixed size.
 */
uint64_t flmem_stack_bytes_needed(const struct flmem_candidate_needs *needs, bool leader)
{
	const uint64_t written = FLMEM_SCRATCH_MAX + needs->area_bytes;

	return written +
	       (needs->stack_bytes > CALL_STACK && !leader ? needs->stack_bytes : CALL_STACK);
}

static bool has_room(const struct stack_search *search, const struct flmem_map *stack,
		     const struct flmem_candidate *row)
{
	const struct flmem_candidate_needs *needs = search->needs;
	uint64_t sp = row->at.sp, mapped = flmem_stack_bytes_needed(needs, row->leader);
	uint64_t used = FLMEM_SCRATCH_MAX + needs->area_bytes + needs->stack_bytes;

	if (sp - stack->start < mapped ||
	    !flmem_stack_is_whole(search->view->process, sp - mapped, sp))
		return false;
	return used <= mapped || can_grow(search, stack, sp, used);
}

/*
 * The main thread is accepted only on its own stack, and no thread on the heap: a coroutine may run
 * there, with other data of the program directly below. borrow.c checks the other threads further.
 */
static bool is_ordinary_stack(const struct flmem_map *stack, bool leader)
{
	if (!stack || !(stack->flags & FLMEM_MAP_WRITE) || stack->flags & FLMEM_MAP_SHARED)
		return false;
	if (leader)
		return strcmp(stack->name, FLMEM_MAP_MAIN_STACK) == 0;
	return !stack->inode && strcmp(stack->name, "[heap]") != 0;
}

const char *flmem_stack_check_room(const struct flmem_view *view,
				   const struct flmem_candidate_needs *needs,
				   const struct flmem_candidate *row)
{
	const struct stack_search search = {view, needs};
	const struct flmem_map *stack = flmem_maps_find(view->maps, row->at.sp);

	if (!is_ordinary_stack(stack, row->leader))
		return "has no ordinary stack mapping";
	if (!has_room(&search, stack, row))
		return "has too little space left on its stack";
	return NULL;
}

const char *flmem_stack_check_frames(const struct flmem_view *view,
				     const struct flmem_candidate_needs *needs,
				     const struct flmem_candidate *row)
{
	const struct stack_search search = {view, needs};
	struct flmem_handler_search frames = {
		.process = view->process,
		.maps = view->maps,
		.restorer = needs->gadgets->restorer,
		/* Any signal of any thread counts: the caller has other threads to try. */
		.blocked = UINT64_MAX};
	const struct flmem_map *stack = flmem_maps_find(view->maps, row->at.sp);

	if (!stack)
		return "has no ordinary stack mapping";
	if (is_inside_allocator(&search, row, stack->end))
		return "is inside the allocator";
	if (may_join_inside(&search, row))
		return "waits for another thread to end, possibly inside the allocator";
	if (flmem_handlers_on_stack(&frames, row->at.sp, stack->end))
		return "is inside a signal handler";
	return NULL;
}

const char *flmem_stack_check(const struct flmem_view *view,
			      const struct flmem_candidate_needs *needs,
			      const struct flmem_candidate *row)
{
	const char *reason = flmem_stack_check_room(view, needs, row);

	return reason ? reason : flmem_stack_check_frames(view, needs, row);
}
