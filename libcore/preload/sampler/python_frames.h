/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PRELOAD_SAMPLER_PYTHON_FRAMES_H
#define FLMEM_PRELOAD_SAMPLER_PYTHON_FRAMES_H

/* Where CPython stores the parts of a stack: byte offsets on a 64-bit machine. */

#include "preload/sampler/sampler.h"

#define SAMPLER_NO_OFFSET   UINT32_MAX
#define SAMPLER_TYPE_OFFSET 8U /* of every object */

enum sampler_lines {
	SAMPLER_LINES_LNOTAB,	 /* 3.8, 3.9 */
	SAMPLER_LINES_310,	 /* PEP 626 */
	SAMPLER_LINES_LOCATIONS, /* 3.11 and later */
};

struct sampler_python {
	uint32_t minor; /* 3.minor */
	enum sampler_lines lines_kind;
	uint32_t thread_id;
	uint32_t thread_frame; /* its frame, or its _PyCFrame */
	uint32_t thread_chunk; /* the newest part of its data stack; NONE: there is none */
	uint32_t cframe_frame; /* NONE: there is no _PyCFrame */
	uint32_t frame_code, frame_previous, frame_instruction;
	uint32_t frame_owner; /* NONE: all frames are those of functions */
	uint32_t frame_entry; /* whether it is the outermost of its C call; only 3.11 */
	/* What a C call has in its own frame, 3.10 and 3.11; NONE: there is none. */
	uint32_t thread_call, call_previous;
	uint32_t thread_interpreter;
	uint32_t code_name, code_file, code_lines, code_first_line;
	uint32_t code_version; /* of no other code of its interpreter, but 0; NONE: before 3.12 */
	uint32_t code_instructions;	/* NONE: a frame has an index */
	uint32_t frame_span, code_span; /* number of bytes read of each, from its start */
	uint32_t ascii_size, compact_size;
	uintptr_t runtime, code_type;
};

/* Reads the layout of the version; false, with the reason, for one that is not known. */
HIDDEN bool sampler_python_layout(uint32_t version, const void *runtime,
				  struct sampler_python *ret_layout,
				  enum flmem_profile_python *ret_state);

/* The line of an instruction; 0: none. */
HIDDEN uint32_t sampler_python_line(const struct sampler_python *python, uintptr_t table,
				    uint64_t offset, uint32_t first_line);

/* A hash of name, file and lines of code; 0: not readable. `known`: of this sample. */
HIDDEN uint64_t sampler_python_content(const struct sampler_python *python,
				       const struct sampler_code *code, struct sampler_file *known);

/* Requests copies of the memory that this reads, for sampler_copies_fetch(). */
HIDDEN void sampler_python_want_content(uintptr_t name, uintptr_t file, uintptr_t lines);

/* UTF-8 of a str, at most FLMEM_PROFILE_STRING_MAX bytes; -1: not readable. */
HIDDEN long sampler_python_text(const struct sampler_python *python, uintptr_t text, char *out);

#endif
