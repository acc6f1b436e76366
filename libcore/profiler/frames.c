/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/frames.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <flmem/text.h>

#include "base/bytes/fnv.h"
#include "base/text/text.h"

static bool equal_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

bool flmem_heap_frame_equal(const struct flmem_heap_frame *a, const struct flmem_heap_frame *b,
			    enum flmem_frame_identity identity)
{
	return a->python == b->python && equal_text(a->function, b->function) &&
	       equal_text(a->file, b->file) && equal_text(a->module, b->module) &&
	       (a->function || a->offset == b->offset) &&
	       (identity == FLMEM_FRAME_FUNCTION || a->line == b->line);
}

static uint64_t mix_text(uint64_t hash, const char *text)
{
	return text ? flmem_fnv_mix(hash, text, strlen(text) + 1) : flmem_fnv_mix(hash, "\1", 2);
}

uint64_t flmem_heap_frame_hash(uint64_t hash, const struct flmem_heap_frame *frame,
			       enum flmem_frame_identity identity)
{
	hash = mix_text(hash, frame->function);
	hash = mix_text(hash, frame->file);
	hash = mix_text(hash, frame->module);
	if (!frame->function)
		hash = flmem_fnv_mix(hash, &frame->offset, sizeof(frame->offset));
	if (identity == FLMEM_FRAME_LINE)
		hash = flmem_fnv_mix(hash, &frame->line, sizeof(frame->line));
	return hash;
}

static int put_native(const struct flmem_heap_frame *frame, char *out, size_t size)
{
	const char *module = frame->module ? flmem_text_basename(frame->module) : NULL;

	if (frame->function && module)
		return snprintf(out, size, "%s [%s]", frame->function, module);
	if (frame->function)
		return snprintf(out, size, "%s", frame->function);
	if (module)
		return snprintf(out, size, "%s+0x%" PRIx64, module, frame->offset);
	return snprintf(out, size, "0x%" PRIx64, frame->offset);
}

char *flmem_heap_frame_text(const struct flmem_heap_frame *frame, char *out, size_t size)
{
	char raw[FLMEM_HEAP_FRAME_TEXT_MAX];

	if (!frame)
		snprintf(raw, sizeof(raw), "(no frame)");
	else if (!frame->python)
		put_native(frame, raw, sizeof(raw));
	else if (frame->line)
		snprintf(raw, sizeof(raw), "%s (%s:%" PRIu32 ")",
			 frame->function ? frame->function : "?", frame->file ? frame->file : "?",
			 frame->line);
	else
		snprintf(raw, sizeof(raw), "%s (%s)", frame->function ? frame->function : "?",
			 frame->file ? frame->file : "?");
	return flmem_text_escape(raw, out, size);
}
