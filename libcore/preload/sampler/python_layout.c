/* SPDX-License-Identifier: Apache-2.0 */

#include <string.h>

#include "preload/sampler/python_frames.h"

#define NONE SAMPLER_NO_OFFSET

/*
 * These offsets are those that a compiler finds by offsetof() in the headers that each release
 * installs, as in runtimes/cpython_layout.c: 3.8.18, 3.9.18, 3.10.13, 3.11.7, 3.12.1. 3.13 and
 * later have a table in _PyRuntime.
 */
#define FRAME_OBJECTS                                                                              \
	.thread_id = 176, .thread_frame = 24, .thread_chunk = NONE, .cframe_frame = NONE,          \
	.frame_code = 32, .frame_previous = 24, .code_name = 112, .code_file = 104,                \
	.code_lines = 120, .code_first_line = 40, .code_version = NONE, .code_instructions = NONE, \
	.frame_owner = NONE, .frame_entry = NONE, .ascii_size = 48, .compact_size = 72
#define NO_CALLS .thread_call = NONE, .call_previous = NONE

static const struct sampler_python sampler_layout_rows[] = {
	{.minor = 8,
	 .lines_kind = SAMPLER_LINES_LNOTAB,
	 .frame_instruction = 104,
	 FRAME_OBJECTS,
	 NO_CALLS},
	{.minor = 9,
	 .lines_kind = SAMPLER_LINES_LNOTAB,
	 .frame_instruction = 104,
	 FRAME_OBJECTS,
	 NO_CALLS},
	{.minor = 10,
	 .lines_kind = SAMPLER_LINES_310,
	 .frame_instruction = 96,
	 FRAME_OBJECTS,
	 .thread_call = 48,
	 .call_previous = 8},
	{.minor = 11,
	 .lines_kind = SAMPLER_LINES_LOCATIONS,
	 .thread_id = 152,
	 .thread_frame = 56,
	 .thread_chunk = 296,
	 .cframe_frame = 8,
	 .frame_code = 32,
	 .frame_previous = 48,
	 .frame_instruction = 56,
	 .frame_owner = NONE,
	 .frame_entry = 68,
	 .thread_call = 56,
	 .call_previous = 16,
	 .code_name = 128,
	 .code_file = 112,
	 .code_lines = 136,
	 .code_first_line = 72,
	 .code_version = NONE,
	 .code_instructions = 184,
	 .ascii_size = 48,
	 .compact_size = 72},
	{.minor = 12,
	 .lines_kind = SAMPLER_LINES_LOCATIONS,
	 .thread_id = 136,
	 .thread_frame = 56,
	 .thread_chunk = 232,
	 .thread_interpreter = 16,
	 .cframe_frame = 0,
	 .frame_code = 0,
	 .frame_previous = 8,
	 .frame_instruction = 56,
	 .frame_owner = 70,
	 .frame_entry = NONE,
	 NO_CALLS,
	 .code_name = 128,
	 .code_file = 112,
	 .code_lines = 136,
	 .code_first_line = 68,
	 .code_version = 92,
	 .code_instructions = 192,
	 .ascii_size = 40,
	 .compact_size = 56},
};

/*
 * These are positions in struct _Py_DebugOffsets, as an array of uint64_t: see
 * runtimes/cpython_layout.c.
 */
enum {
	WORD_COOKIE,
	WORD_VERSION,
	WORD_FREE_THREADED,
};

/*
 * This is a position in the part for code; co_version precedes the field in these three versions.
 */
#define LOCAL_NAMES  7
#define VERSION_SIZE ((uint32_t)sizeof(uint32_t))

struct table_places {
	uint32_t minor;
	/* Only releases are known: alphas, betas and release candidates may differ. */
	bool only_releases;
	unsigned thread;    /* first of: size, prev, next, interp, current_frame */
	unsigned thread_id; /* first of: thread_id, native_thread_id, datastack_chunk */
	unsigned frame;	    /* first of: size, previous, executable, instr_ptr, localsplus, owner */
	unsigned code;
	/*
	 * `code` is the first of: size, filename, name, qualname, linetable, firstlineno; 9: code.
	 */
};

static const struct table_places sampler_layout_tables[] = {
	{.minor = 13, .thread = 19, .thread_id = 24, .frame = 28, .code = 34},
	{.minor = 14, .thread = 22, .thread_id = 27, .frame = 31, .code = 39},
	{.minor = 15,
	 .only_releases = true,
	 .thread = 22,
	 .thread_id = 30,
	 .frame = 39,
	 .code = 47},
};

static bool is_plausible(const struct sampler_python *p)
{
	const uint32_t offsets[] = {
		p->thread_id,	      p->thread_interpreter, p->thread_frame,	   p->thread_chunk,
		p->frame_code,	      p->frame_previous,     p->frame_instruction, p->code_name,
		p->code_file,	      p->code_lines,	     p->code_first_line,   p->code_version,
		p->code_instructions,
	};

	for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++)
		if (offsets[i] >= (1U << 20) || offsets[i] % 4)
			return false;
	return p->frame_owner < (1U << 20);
}

/* Returns whether the table is that of the version `version`, a PY_VERSION_HEX. */
static bool is_table_of(const struct table_places *at, uint32_t version)
{
	return version >> 16 == (0x300U | at->minor) &&
	       (!at->only_releases || (version >> 4 & 0xf) == 0xf);
}

static void read_debug_offsets(const uint64_t *words, const struct table_places *at,
			       struct sampler_python *layout)
{
	*layout = (struct sampler_python){
		.minor = at->minor,
		.lines_kind = SAMPLER_LINES_LOCATIONS,
		.thread_interpreter = (uint32_t)words[at->thread + 3],
		.thread_frame = (uint32_t)words[at->thread + 4],
		.thread_id = (uint32_t)words[at->thread_id],
		.thread_chunk = (uint32_t)words[at->thread_id + 2],
		.cframe_frame = NONE,
		.frame_previous = (uint32_t)words[at->frame + 1],
		.frame_code = (uint32_t)words[at->frame + 2],
		.frame_instruction = (uint32_t)words[at->frame + 3],
		.frame_owner = (uint32_t)words[at->frame + 5],
		.frame_entry = NONE,
		NO_CALLS,
		.code_file = (uint32_t)words[at->code + 1],
		.code_name = (uint32_t)words[at->code + 3],
		.code_lines = (uint32_t)words[at->code + 4],
		.code_first_line = (uint32_t)words[at->code + 5],
		.code_version = (uint32_t)words[at->code + LOCAL_NAMES] - VERSION_SIZE,
		.code_instructions = (uint32_t)words[at->code + 9],
		.ascii_size = 40,
		.compact_size = 56,
	};
}

static bool find_debug_offsets(uint32_t version, const uint64_t *words,
			       struct sampler_python *ret_layout,
			       enum flmem_profile_python *ret_state)
{
	if (memcmp(words, "xdebugpy", 8) != 0 || words[WORD_VERSION] >> 16 != version >> 16) {
		*ret_state = FLMEM_PROFILE_PYTHON_INCONSISTENT;
		return false;
	}
	if (words[WORD_FREE_THREADED]) {
		*ret_state = FLMEM_PROFILE_PYTHON_FREE_THREADED;
		return false;
	}
	for (size_t i = 0; i < sizeof(sampler_layout_tables) / sizeof(sampler_layout_tables[0]);
	     i++)
		if (is_table_of(&sampler_layout_tables[i], version)) {
			read_debug_offsets(words, &sampler_layout_tables[i], ret_layout);
			*ret_state = FLMEM_PROFILE_PYTHON_INCONSISTENT;
			return is_plausible(ret_layout);
		}
	*ret_state = FLMEM_PROFILE_PYTHON_UNKNOWN_VERSION;
	return false;
}

static bool find_frame_layout(uint32_t version, const void *runtime,
			      struct sampler_python *ret_layout,
			      enum flmem_profile_python *ret_state)
{
	if (version >= 0x030d0000 && version < 0x04000000)
		return find_debug_offsets(version, runtime, ret_layout, ret_state);
	for (size_t i = 0; i < sizeof(sampler_layout_rows) / sizeof(sampler_layout_rows[0]); i++)
		if (version >> 16 == (0x300U | sampler_layout_rows[i].minor)) {
			*ret_layout = sampler_layout_rows[i];
			return true;
		}
	*ret_state = FLMEM_PROFILE_PYTHON_UNKNOWN_VERSION;
	return false;
}

static uint32_t find_end(const uint32_t *offsets, size_t count)
{
	uint32_t end = 0;

	for (size_t i = 0; i < count; i++)
		if (offsets[i] != NONE && offsets[i] + sizeof(uintptr_t) > end)
			end = offsets[i] + (uint32_t)sizeof(uintptr_t);
	return end;
}

/*
 * Finds how many bytes are read of a frame and of code. Each field counts as a pointer: more fields
 * follow the last one in every version.
 */
static bool find_spans(struct sampler_python *p)
{
	const uint32_t frame[] = {p->frame_code, p->frame_previous, p->frame_instruction,
				  p->frame_owner, p->frame_entry};
	const uint32_t code[] = {SAMPLER_TYPE_OFFSET, p->code_name,	  p->code_file,
				 p->code_lines,	      p->code_first_line, p->code_version};

	p->frame_span = find_end(frame, sizeof(frame) / sizeof(frame[0]));
	p->code_span = find_end(code, sizeof(code) / sizeof(code[0]));
	return p->frame_span <= SAMPLER_SPAN_MAX && p->code_span <= SAMPLER_SPAN_MAX;
}

bool sampler_python_layout(uint32_t version, const void *runtime, struct sampler_python *ret_layout,
			   enum flmem_profile_python *ret_state)
{
	if (!find_frame_layout(version, runtime, ret_layout, ret_state))
		return false;
	*ret_state = FLMEM_PROFILE_PYTHON_INCONSISTENT;
	return find_spans(ret_layout);
}
