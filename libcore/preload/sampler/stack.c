/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures the calling stack. Native frames are unwound as the tables of their code say (unwind.h),
 * and where there are none by the chain of frame pointers. Each frame must lie further up in the
 * same stack, and each return address must be after a call instruction in code of a file.
 */

#include "preload/sampler/stack.h"

#include <string.h>

#include "preload/sampler/mixed.h"
#include "preload/sampler/sampler.h"

#define FRAME_SPAN   (UINT64_C(1) << 20) /* maximum size of a frame */
#define COPIED_DEPTH 128U
#define CALL_MAX     7 /* bytes of a call instruction */

bool sampler_stack_push(struct sampler_scratch *scratch, uint32_t frame)
{
	if (frame == FLMEM_PROFILE_NONE)
		return true;
	if (scratch->count >= FLMEM_PROFILE_DEPTH) {
		sampler_drop(FLMEM_PROFILE_DROP_DEEP);
		return false;
	}
	scratch->frames[scratch->count++] = frame;
	return true;
}

static uint64_t check_return(const struct sampler_return *known)
{
	return sampler_hash(known->address, ((uint64_t)known->frame << 32) | known->stale);
}

static uint32_t make_native_frame(struct sampler_scratch *scratch, uintptr_t address,
				  bool outside_too)
{
	struct flmem_profile_frame frame = {
		.kind = FLMEM_PROFILE_FRAME_NATIVE,
		.function = FLMEM_PROFILE_NONE,
		.file = FLMEM_PROFILE_NONE,
		.address = address,
		.module = sampler_module_find(scratch, address),
	};

	if (frame.module == FLMEM_PROFILE_NONE && !outside_too)
		return FLMEM_PROFILE_NONE;
	return sampler_frame_find(&frame);
}

/*
 * Returns whether the instruction before a return address is a call: E8, or FF /2 in its lengths;
 * on aarch64 BL, or BLR and its forms that check a signature.
 */
static bool is_behind_call(uintptr_t address)
{
#ifdef __x86_64__
	unsigned char code[CALL_MAX], *at = code + CALL_MAX;

	if (!sampler_read(address - CALL_MAX, code, CALL_MAX))
		return false;
	if (at[-5] == 0xe8)
		return true;
	for (int length = 2; length <= CALL_MAX; length++)
		if (at[-length] == 0xff && (at[1 - length] & 0x38) == 0x10)
			return true;
	return false;
#else
	uint32_t code;

	return address % sizeof(code) == 0 &&
	       sampler_read(address - sizeof(code), &code, sizeof(code)) &&
	       (code >> 26 == 0x25 || (code & 0xfefff000) == 0xd63f0000);
#endif
}

/* Returns the slot that holds the address, else one to be filled: a stale one, else any. */
static struct sampler_return *find_return_slot(uintptr_t address, uint32_t stale)
{
	uint64_t hash = sampler_hash(address, stale & 1);
	struct sampler_return *set =
		&sampler_control.returns[hash % SAMPLER_RETURNS & ~(uint64_t)(SAMPLER_WAYS - 1)];
	struct sampler_return *slot = &set[sampler_thread.random % SAMPLER_WAYS];

	for (uint32_t i = 0; i < SAMPLER_WAYS; i++) {
		if (set[i].address == address && set[i].stale == stale)
			return &set[i];
		if (!set[i].address || set[i].stale / 2 != stale / 2)
			slot = &set[i];
	}
	return slot;
}

/*
 * Finds the frame of a return address. The first one is the caller of malloc(), whatever code is
 * there.
 */
static uint32_t find_native_frame(struct sampler_scratch *scratch, uintptr_t address, bool first)
{
	uint32_t stale =
		__atomic_load_n(&sampler_control.stale_modules, __ATOMIC_RELAXED) * 2 + first;
	struct sampler_return *slot = find_return_slot(address, stale);
	struct sampler_return known = *slot;

	if (known.address == address && known.stale == stale && known.check == check_return(&known))
		return known.frame;
	if (!first && !is_behind_call(address))
		return FLMEM_PROFILE_NONE;
	scratch->searches++;
	known.address = address;
	known.stale = stale;
	known.frame = make_native_frame(scratch, address, first);
	known.check = check_return(&known);
	if (known.frame != FLMEM_PROFILE_NONE && !scratch->is_blind)
		*slot = known;
	return known.frame;
}

static bool push_native(struct sampler_scratch *scratch, uintptr_t address, bool first)
{
	uint32_t frame = find_native_frame(scratch, address, first);

	return frame != FLMEM_PROFILE_NONE && sampler_stack_push(scratch, frame);
}

/*
 * Reads words of a stack. A coroutine has its own stack, which another thread may unmap once it has
 * ended.
 */
static bool read_stack_words(uintptr_t at, uintptr_t *out, size_t words)
{
	const struct sampler_thread *thread = &sampler_thread;

	if (thread->lines)
		return sampler_read_often(at, out, words * sizeof(*out));
	if (at < thread->stack_low || at > thread->stack_top ||
	    thread->stack_top - at < words * sizeof(*out))
		return false;
	memcpy(out, (const void *)at, words * sizeof(*out));
	return true;
}

/* A frame has the address where its code continues, and the registers that lead to its caller. */
struct native_frame {
	uintptr_t pc, sp, bp;
};

/* Returns whether a frame may be at `at`: frames do not go down, and are not huge. */
static bool is_above(uintptr_t at, uintptr_t sp)
{
	return at >= sp && at - sp <= FRAME_SPAN && at % sizeof(void *) == 0;
}

static bool step_by_link(struct native_frame *frame)
{
	uintptr_t link[2];

	if (!is_above(frame->bp, frame->sp) || !read_stack_words(frame->bp, link, 2))
		return false;
	*frame = (struct native_frame){
		.pc = sampler_return_address(link[1]),
		.sp = frame->bp + sizeof(link),
		.bp = link[0],
	};
	return true;
}

static bool step_by_rule(struct native_frame *frame, const struct sampler_rule *rule)
{
	uintptr_t cfa = rule->how == SAMPLER_UNWIND_SP ? frame->sp : frame->bp;
	uintptr_t pc, bp = frame->bp;

	cfa += (uintptr_t)(intptr_t)rule->cfa_offset;
	if (!is_above(cfa - sizeof(pc), frame->sp) || !read_stack_words(cfa - sizeof(pc), &pc, 1) ||
	    (rule->bp_offset &&
	     !read_stack_words(cfa + (uintptr_t)(intptr_t)rule->bp_offset, &bp, 1)))
		return false;
	*frame = (struct native_frame){.pc = sampler_return_address(pc), .sp = cfa, .bp = bp};
	return true;
}

/* Moves to the caller. The call is before the address that it returns to. */
static bool step_to_caller(struct sampler_scratch *scratch, struct native_frame *frame)
{
	struct sampler_rule rule = sampler_rule_find(scratch, frame->pc - 1);

	if (rule.how == SAMPLER_UNWIND_END)
		return false;
	return rule.how == SAMPLER_UNWIND_UNKNOWN ? step_by_link(frame)
						  : step_by_rule(frame, &rule);
}

/* The kernel has to copy the stack of a coroutine. */
static uint32_t limit_depth(uint32_t most)
{
	return sampler_thread.lines ? COPIED_DEPTH : most;
}

static void walk_frames_from(struct sampler_scratch *scratch, const void *const *hook)
{
	struct native_frame frame = {
		.pc = sampler_return_address((uintptr_t)hook[1]),
		.sp = (uintptr_t)(hook + 2),
		.bp = (uintptr_t)hook[0],
	};
	uint32_t most = limit_depth(FLMEM_PROFILE_DEPTH);

	for (uint32_t i = 0; i < most; i++) {
		/*
		 * The frames that follow are the interpreter itself; its Python frames are read
		 * instead.
		 */
		if (i && sampler_python_has(frame.pc))
			return;
		if (!push_native(scratch, frame.pc, i == 0) || !step_to_caller(scratch, &frame))
			return;
	}
	sampler_drop(FLMEM_PROFILE_DROP_DEEP);
}

/*
 * Returns whether the address is in a known part of the evaluation function. The compiler has split
 * it, and its symbol names one part. Other parts become known once a call was in them.
 */
static bool is_part_of_evaluation(uintptr_t address)
{
	for (uint32_t i = 0; i < SAMPLER_EVALUATIONS; i++) {
		const struct sampler_code_range *part = &sampler_control.evaluation[i];
		size_t size = __atomic_load_n(&part->size, __ATOMIC_ACQUIRE);

		if (!size)
			return false;
		if (address - part->start < size)
			return true;
	}
	return false;
}

static void note_part_of_evaluation(struct sampler_scratch *scratch, uintptr_t address)
{
	struct sampler_code_range found;
	uint32_t next;

	if (__atomic_load_n(&sampler_control.evaluation_next, __ATOMIC_RELAXED) >=
	    SAMPLER_EVALUATIONS)
		return;
	/* Code without tables is remembered, so that they are not searched again. */
	if (!sampler_code_range_find(scratch, address, &found))
		found = (struct sampler_code_range){address, 1};
	if (scratch->is_blind)
		return;
	next = __atomic_fetch_add(&sampler_control.evaluation_next, 1, __ATOMIC_RELAXED);
	if (next >= SAMPLER_EVALUATIONS)
		return;
	sampler_control.evaluation[next].start = found.start;
	__atomic_store_n(&sampler_control.evaluation[next].size, found.size, __ATOMIC_RELEASE);
}

static enum sampler_code_of find_code_of(uintptr_t address)
{
	if (!sampler_python_has(address))
		return SAMPLER_CODE_OTHER;
	return sampler_python_evaluates(address - 1) || is_part_of_evaluation(address - 1)
		       ? SAMPLER_CODE_EVALUATION
		       : SAMPLER_CODE_INTERPRETER;
}

/* Returns the lower end of what a function has in the stack. */
static uintptr_t find_frame_low(const struct native_frame *frame)
{
#ifdef __aarch64__
	return frame->bp; /* the frame record is there, the rest above it */
#else
	return frame->sp;
#endif
}

/* Unwinds all frames, to the start of the thread. */
static void collect_natives_from(struct sampler_scratch *scratch, const void *const *hook)
{
	struct native_frame frame = {
		.pc = sampler_return_address((uintptr_t)hook[1]),
		.sp = (uintptr_t)(hook + 2),
		.bp = (uintptr_t)hook[0],
	};
	uint32_t room = limit_depth(SAMPLER_NATIVES), count = 0;
	bool more = true;

	for (; more && count < room; count++) {
		struct sampler_native *native = &scratch->natives[count];

		native->low = find_frame_low(&frame);
		native->pc = frame.pc - 1;
		native->frame = find_native_frame(scratch, frame.pc, count == 0);
		if (native->frame == FLMEM_PROFILE_NONE) {
			more = false;
			break;
		}
		native->code = find_code_of(frame.pc);
		more = step_to_caller(scratch, &frame);
	}
	scratch->native_count = count;
	scratch->is_native_cut = more;
	scratch->natives[count].low = find_frame_low(&frame);
}

static void walk_native(struct sampler_scratch *scratch, const void *const *frame,
			void (*walk)(struct sampler_scratch *, const void *const *))
{
	bool own = sampler_stack_is_own((uintptr_t)frame, scratch);

	if (!own)
		sampler_copies_begin(&scratch->lines);
	walk(scratch, frame);
	if (!own)
		sampler_copies_end();
}

static void capture_mixed(struct sampler_scratch *scratch, const void *const *frame)
{
	struct sampler_mixture mixture = {
		.natives = scratch->natives,
		.frames = scratch->frames,
		.calls = scratch->calls,
		.out = scratch->mixed,
	};

	walk_native(scratch, frame, collect_natives_from);
	scratch->wants_calls = true;
	scratch->call_count = 0;
	scratch->is_python_whole = true;
	sampler_python_walk(scratch);
	mixture.native_count = scratch->native_count;
	mixture.frame_count = scratch->count;
	mixture.call_count = scratch->call_count;
	mixture.is_python_whole = scratch->is_python_whole;
	sampler_mix(&mixture);
	if (mixture.unknown)
		note_part_of_evaluation(scratch, mixture.unknown->pc);
	if (!mixture.is_complete)
		sampler_drop(FLMEM_PROFILE_DROP_UNMIXED);
	/* If Python frames alone are too many, that is counted already. */
	if ((mixture.is_deep || (mixture.is_complete && scratch->is_native_cut)) &&
	    mixture.is_python_whole)
		sampler_drop(FLMEM_PROFILE_DROP_DEEP);
	memcpy(scratch->frames, scratch->mixed, mixture.count * sizeof(*scratch->frames));
	scratch->count = mixture.count;
}

/*
 * Counts the outer frames that are the same as in the last sample: most are, and nodes never
 * change.
 */
static uint32_t follow_known(const struct sampler_scratch *scratch)
{
	uint32_t depth = 0;

	while (depth < scratch->count && depth < scratch->known_count &&
	       scratch->known_frames[depth] == scratch->frames[scratch->count - 1 - depth])
		depth++;
	return depth;
}

static uint32_t find_node(struct sampler_scratch *scratch)
{
	uint32_t depth = follow_known(scratch);
	uint32_t node = depth ? scratch->known_nodes[depth - 1] : FLMEM_PROFILE_ROOT;

	if (depth == scratch->count)
		return node;
	for (; depth < scratch->count; depth++) {
		uint32_t frame = scratch->frames[scratch->count - 1 - depth];
		uint32_t next = sampler_node_find(node, frame);

		if (next == FLMEM_PROFILE_NONE)
			break;
		scratch->known_frames[depth] = frame;
		scratch->known_nodes[depth] = node = next;
	}
	scratch->known_count = depth;
	return node;
}

uint32_t sampler_stack_capture(struct sampler_scratch *scratch, const void *const *frame)
{
	uint32_t flags = sampler_tables.header->flags;

	sampler_stack_note((uintptr_t)frame, scratch);
	if (flags & FLMEM_PROFILE_NATIVE) {
		capture_mixed(scratch, frame);
		return find_node(scratch);
	}
	scratch->wants_calls = false;
	sampler_python_walk(scratch);
	if (!scratch->count)
		walk_native(scratch, frame, walk_frames_from);
	return find_node(scratch);
}
