/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROFILER_FRAMES_H
#define FLMEM_PROFILER_FRAMES_H

/* Compares frames. Texts are compared by content, so frames of two profiles can be compared. */

#include <flmem/heap_profile.h>

/* What distinguishes frames; offsets count only if there is no function. */
enum flmem_frame_identity {
	FLMEM_FRAME_FUNCTION,
	FLMEM_FRAME_LINE,
};

bool flmem_heap_frame_equal(const struct flmem_heap_frame *a, const struct flmem_heap_frame *b,
			    enum flmem_frame_identity identity);

/* Continues `hash` (base/bytes/fnv.h) with a frame; equal frames have equal hashes. */
uint64_t flmem_heap_frame_hash(uint64_t hash, const struct flmem_heap_frame *frame,
			       enum flmem_frame_identity identity);

/*
 * Returns flmem_heap_own_frame() of each node. The caller frees the array. NULL if memory is out.
 */
uint32_t *flmem_heap_own_frames(const struct flmem_heap_profile *profile);

#endif
