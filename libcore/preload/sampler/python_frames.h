/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PRELOAD_SAMPLER_PYTHON_FRAMES_H
#define FLMEM_PRELOAD_SAMPLER_PYTHON_FRAMES_H

/* Describes where CPython stores the parts of a stack: byte offsets on a 64-bit machine. */

#include "preload/sampler/sampler.h"

#define SAMPLER_NO_OFFSET   UINT32_MAX
#define SAMPLER_TYPE_OFFSET 8U /* offset of the type in every object */

enum sampler_lines {
	SAMPLER_LINES_LNOTAB,	 /* co_lnotab of 3.8 and 3.9 */
	SAMPLER_LINES_310,	 /* co_linetable of 3.10 (PEP 626) */
	SAMPLER_LINES_LOCATIONS, /* co_linetable of 3.11 and later */
};

struct sampler_python {
	uint32_t minor; /* the version is 3.minor */
	enum sampler_lines lines_kind;
	uint32_t thread_id;
	uint32_t thread_frame; /* the frame of a thread, or its _PyCFrame */
	uint32_t thread_chunk; /* the newest part of a thread's data stack; NONE: it has none */
	uint32_t cframe_frame; /* NONE: there is no _PyCFrame */
	uint32_t frame_code, frame_previous, frame_instruction;
	uint32_t frame_owner; /* NONE: all frames belong to functions */
	uint32_t frame_entry; /* whether the frame is the outermost of its C call; only 3.11 */
	/*
	 * These are the offsets of what a C call has in its own frame, in 3.10 and 3.11; NONE:
	 * there is none.
	 */
	uint32_t thread_call, call_previous;
	uint32_t thread_interpreter;
	uint32_t code_name, code_file, code_lines, code_first_line;
	/* 0, or a number that identifies code in its interpreter; NONE: before 3.12. */
	uint32_t code_version;
	uint32_t code_instructions;	/* NONE: a frame has an index instead of a pointer */
	uint32_t frame_span, code_span; /* bytes that are read of each, from its start */
	uint32_t ascii_size, compact_size;
	uintptr_t runtime, code_type;
};

/*
 * Reads the layout of the version. Returns false, with the reason in *ret_state, for one that is
 * not known.
 */
HIDDEN bool sampler_python_layout(uint32_t version, const void *runtime,
				  struct sampler_python *ret_layout,
				  enum flmem_profile_python *ret_state);

/* Returns the line of an instruction; 0: none. */
HIDDEN uint32_t sampler_python_line(const struct sampler_python *python, uintptr_t table,
				    uint64_t offset, uint32_t first_line);

/*
 * Returns a hash of name, file and lines of code; 0: they cannot be read. `known` keeps the hash of
 * a file during a sample.
 */
HIDDEN uint64_t sampler_python_content(const struct sampler_python *python,
				       const struct sampler_code *code, struct sampler_file *known);

/* Requests copies of the memory that sampler_python_content() reads, for sampler_copies_fetch(). */
HIDDEN void sampler_python_want_content(uintptr_t name, uintptr_t file, uintptr_t lines);

/*
 * Writes a str as UTF-8 to `out`, at most FLMEM_PROFILE_STRING_MAX bytes. Returns the length, or -1
 * where it cannot be read.
 */
HIDDEN long sampler_python_text(const struct sampler_python *python, uintptr_t text, char *out);

#endif
