/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calling stack. Native frames come from the chain of frame pointers, as far as there is one:
 * each link must lie further up in readable memory, and each return address must be behind a call
 * instruction in code of a file.
 */

#include "preload/sampler/stack.h"

#include <string.h>

#include "preload/sampler/sampler.h"

#define FRAME_SPAN   (UINT64_C(1) << 20) /* a frame is not larger */
#define NATIVE_DEPTH 128U

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

static uint32_t find_native_frame(struct sampler_scratch *scratch, uintptr_t address,
				  bool outside_too)
{
	struct sampler_return *slot =
		&sampler_control.returns[sampler_hash(address, 0) % SAMPLER_RETURNS];
	struct sampler_return known = *slot;
	uint32_t stale = __atomic_load_n(&sampler_control.stale_modules, __ATOMIC_RELAXED);

	if (known.address == address && known.stale == stale && known.check == check_return(&known))
		return known.frame;
	known.address = address;
	known.stale = stale;
	known.frame = make_native_frame(scratch, address, outside_too);
	known.check = check_return(&known);
	if (known.frame != FLMEM_PROFILE_NONE)
		*slot = known;
	return known.frame;
}

/* Whether the instruction before a return address is a call: E8, or FF /2 in its lengths. */
static bool is_behind_call(uintptr_t address)
{
#ifdef __x86_64__
	const unsigned char *at = (const unsigned char *)address;

	if (!sampler_is_readable(address - 7, 7))
		return false;
	if (at[-5] == 0xe8)
		return true;
	for (int length = 2; length <= 7; length++)
		if (at[-length] == 0xff && (at[1 - length] & 0x38) == 0x10)
			return true;
	return false;
#else
	return address % 4 == 0;
#endif
}

static bool push_native(struct sampler_scratch *scratch, uintptr_t address, bool first)
{
	uint32_t frame;

	if (!first && !is_behind_call(address))
		return false;
	frame = find_native_frame(scratch, address, first);
	return frame != FLMEM_PROFILE_NONE && sampler_stack_push(scratch, frame);
}

static void walk_native(struct sampler_scratch *scratch, const void *const *frame)
{
	const uintptr_t *at = (const uintptr_t *)frame;
	uintptr_t link[2] = {at[0], at[1]}, here = (uintptr_t)frame;

	for (unsigned i = 0; i < NATIVE_DEPTH; i++) {
		/* What follows is the interpreter itself; its Python frames are read instead. */
		if (i && sampler_python_has(link[1]))
			return;
		if (!push_native(scratch, link[1], i == 0))
			return;
		if (link[0] <= here || link[0] - here > FRAME_SPAN || link[0] % sizeof(void *))
			return;
		here = link[0];
		if (!sampler_read(here, link, sizeof(link)))
			return;
	}
}

uint32_t sampler_stack_capture(struct sampler_scratch *scratch, const void *const *frame)
{
	uint32_t node = FLMEM_PROFILE_ROOT;
	uint32_t flags = sampler_tables.header->flags;

	if (flags & FLMEM_PROFILE_NATIVE)
		walk_native(scratch, frame);
	sampler_python_walk(scratch);
	if (!scratch->count)
		walk_native(scratch, frame);
	for (uint32_t i = scratch->count; i-- > 0;) {
		uint32_t next = sampler_node_find(node, scratch->frames[i]);

		if (next == FLMEM_PROFILE_NONE)
			break;
		node = next;
	}
	return node;
}
