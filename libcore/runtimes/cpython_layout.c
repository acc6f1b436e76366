/* SPDX-License-Identifier: Apache-2.0 */
#include "runtimes/cpython_layout.h"

#include <string.h>

#include "base/cleanup.h"

#define NONE FLMEM_CPYTHON_NONE
/*
 * Limit of offsets: no structure of an interpreter is larger; 3.15 has 347 KB of runtime and 226 KB
 * of interpreter.
 */
#define OFFSET_MAX (8U << 20)

/* The fields of PEP 768, which do not exist before 3.14. */
#define NO_DEBUGGER                                                           \
	.eval_breaker = NONE, .debugger_enabled = NONE, .threads_main = NONE, \
	.debugger_support = NONE, .debugger_pending = NONE, .debugger_path = NONE

/*
 * Offsets of releases without a table, determined with offsetof() by a compiler in the headers that
 * each release installs (pycore_runtime.h, pycore_interp.h or pycore_pystate.h of Include/internal;
 * cpython/pystate.h), LP64: 3.8.18, 3.9.18, 3.10.13, 3.11.2 and 3.11.7, 3.12.1. Values read with
 * them are checked, so that a different build is refused and not misread.
 */
static const struct {
	int minor;
	struct flmem_cpython_layout layout;
} cpython_layout_rows[] = {
	{8,
	 {.initialized = 12,
	  .finalizing = 16,
	  .interpreters_head = 32,
	  .interpreters_main = 40,
	  .runtime_gil = 1152,
	  .main_thread = 72,
	  .interpreter_next = 0,
	  .interpreter_id = 16,
	  .threads_head = 8,
	  .interpreter_gil = NONE,
	  .drop_request = 596,
	  .drop_request_runtime = true,
	  .thread_prev = 0,
	  .thread_next = 8,
	  .thread_interpreter = 16,
	  .thread_pointer = 176,
	  .thread_native_id = NONE,
	  .thread_exception = 88,
	  NO_DEBUGGER}},
	{9,
	 {.initialized = 12,
	  .finalizing = 16,
	  .interpreters_head = 32,
	  .interpreters_main = 40,
	  .runtime_gil = 352,
	  .main_thread = 72,
	  .interpreter_next = 0,
	  .interpreter_id = 24,
	  .threads_head = 8,
	  .interpreter_gil = NONE,
	  .drop_request = 76,
	  .thread_prev = 0,
	  .thread_next = 8,
	  .thread_interpreter = 16,
	  .thread_pointer = 176,
	  .thread_native_id = NONE,
	  .thread_exception = 88,
	  NO_DEBUGGER}},
	{10,
	 {.initialized = 12,
	  .finalizing = 16,
	  .interpreters_head = 32,
	  .interpreters_main = 40,
	  .runtime_gil = 352,
	  .main_thread = 72,
	  .interpreter_next = 0,
	  .interpreter_id = 24,
	  .threads_head = 8,
	  .interpreter_gil = NONE,
	  .drop_request = 72,
	  .thread_prev = 0,
	  .thread_next = 8,
	  .thread_interpreter = 16,
	  .thread_pointer = 176,
	  .thread_native_id = NONE,
	  .thread_exception = 88,
	  NO_DEBUGGER}},
	{11,
	 {.initialized = 16,
	  .finalizing = 24,
	  .interpreters_head = 40,
	  .interpreters_main = 48,
	  .runtime_gil = 360,
	  .main_thread = 80,
	  .interpreter_next = 0,
	  .interpreter_id = 48,
	  .threads_head = 16,
	  .interpreter_gil = NONE,
	  .drop_request = 104,
	  .thread_prev = 0,
	  .thread_next = 8,
	  .thread_interpreter = 16,
	  .thread_pointer = 152,
	  .thread_native_id = 160,
	  .thread_exception = 96,
	  NO_DEBUGGER}},
	{12,
	 {.initialized = 16,
	  .finalizing = 24,
	  .interpreters_head = 40,
	  .interpreters_main = 48,
	  .runtime_gil = NONE,
	  .main_thread = 64,
	  .interpreter_next = 0,
	  .interpreter_id = 8,
	  .threads_head = 72,
	  .interpreter_gil = 384,
	  .drop_request = 372,
	  .thread_prev = 0,
	  .thread_next = 8,
	  .thread_interpreter = 16,
	  .thread_pointer = 136,
	  .thread_native_id = 144,
	  .thread_exception = 96,
	  NO_DEBUGGER}},
};

bool flmem_cpython_layout_known(int major, int minor, struct flmem_cpython_layout *ret_layout)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(cpython_layout_rows); i++) {
		if (major == 3 && minor == cpython_layout_rows[i].minor) {
			*ret_layout = cpython_layout_rows[i].layout;
			return true;
		}
	}
	return false;
}

/*
 * Positions in struct _Py_DebugOffsets, read as an array of uint64_t: cookie, version,
 * free_threaded, then the groups. Include/internal/pycore_runtime.h in 3.13, pycore_debug_offsets.h
 * in 3.14 and 3.15, whose groups have more members each time.
 */
enum {
	WORD_VERSION = 1,
	WORD_FREE_THREADED,
	WORD_RUNTIME_SIZE,
	WORD_FINALIZING,
	WORD_INTERPRETERS_HEAD,
	WORD_INTERPRETER_SIZE,
	WORD_INTERPRETER_ID,
	WORD_INTERPRETER_NEXT,
	WORD_THREADS_HEAD,
};

/* Positions that differ between the versions. */
struct version_layout {
	unsigned minor;
	unsigned words;	      /* number of words of the whole table */
	bool only_releases;   /* alphas, betas and candidates may differ */
	unsigned flags_bytes; /* bytes between the table and `finalizing`; 0: not checked */
	bool creates_state;
	unsigned threads_main;
	unsigned ceval_gil;
	unsigned gil;	    /* gil_runtime_state; its enabled, locked and holder follow */
	unsigned thread;    /* size, prev, next, interp */
	unsigned native;    /* thread_id, native_thread_id */
	uint32_t exception; /* 3.13 only: offset of current_exception in cpython/pystate.h */
	unsigned debugger;  /* eval_breaker, support, enabled, pending, path, path size; 0: none */
};

static const struct version_layout places[] = {
	{.minor = 13,
	 .words = 71,
	 .ceval_gil = 14,
	 .gil = 15,
	 .thread = 19,
	 .native = 24,
	 .exception = 112},
	{.minor = 14,
	 .words = 95,
	 .creates_state = true,
	 .threads_main = 10,
	 .ceval_gil = 15,
	 .gil = 16,
	 .thread = 22,
	 .native = 27,
	 .exception = NONE,
	 .debugger = 89},
	/*
	 * Determined with the headers of Debian's 3.15.2, its debugging information and its memory.
	 */
	{.minor = 15,
	 .words = 111,
	 .only_releases = true,
	 .flags_bytes = 24, /* _initialized to initialized, five ints */
	 .creates_state = true,
	 .threads_main = 10,
	 .ceval_gil = 15,
	 .gil = 16,
	 .thread = 22,
	 .native = 30,
	 .exception = NONE,
	 .debugger = 105},
};

#define LAST_RELEASE 0x30FU /* last release that `places` describes */

/* True for a final release: 0xf in PY_VERSION_HEX, less for alphas, betas and candidates. */
static bool is_final(uint64_t version)
{
	return (version >> 4 & 0xf) == 0xf;
}

/* Offset in 3.13, whose table lacks it; in cpython/pystate.h it follows three pointers. */
#define EVAL_BREAKER_313 24

static const struct version_layout *find_places(uint64_t version)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(places); i++)
		if (version >> 16 == (UINT64_C(0x300) | places[i].minor))
			return &places[i];
	return NULL;
}

/* Reads the offset of a field that fits into a structure of `size` bytes. */
static bool read_offset(const uint64_t *words, unsigned index, uint64_t size, uint32_t *ret_offset)
{
	if (words[index] >= OFFSET_MAX || size > OFFSET_MAX || words[index] + 8 > size ||
	    words[index] % 4)
		return false;
	*ret_offset = (uint32_t)words[index];
	return true;
}

static bool read_debugger_offsets(const uint64_t *words, const struct version_layout *at,
				  uint64_t thread_size, struct flmem_cpython_layout *layout)
{
	uint64_t interpreter_size = words[WORD_INTERPRETER_SIZE];
	const uint64_t *group = words + at->debugger;
	uint64_t room;

	if (!read_offset(words, at->debugger, thread_size, &layout->eval_breaker) ||
	    !read_offset(words, at->debugger + 1, thread_size, &layout->debugger_support) ||
	    !read_offset(words, at->debugger + 2, interpreter_size, &layout->debugger_enabled) ||
	    !read_offset(words, at->threads_main, interpreter_size, &layout->threads_main))
		return false;
	room = thread_size - layout->debugger_support;
	if (!read_offset(words, at->debugger + 3, room, &layout->debugger_pending) ||
	    !read_offset(words, at->debugger + 4, room, &layout->debugger_path) || group[5] < 64 ||
	    group[5] > room - layout->debugger_path)
		return false;
	layout->debugger_path_size = (uint32_t)group[5];
	return true;
}

static bool read_offsets(const uint64_t *words, const struct version_layout *at,
			 struct flmem_cpython_layout *layout)
{
	uint64_t runtime_size = words[WORD_RUNTIME_SIZE], thread_size = words[at->thread];
	uint64_t interpreter_size = words[WORD_INTERPRETER_SIZE];

	*layout = (struct flmem_cpython_layout){
		.free_threaded = words[WORD_FREE_THREADED] != 0,
		.creates_state = at->creates_state,
		.runtime_gil = NONE,
		.drop_request = NONE,
		NO_DEBUGGER,
	};
	if (!read_offset(words, WORD_FINALIZING, runtime_size, &layout->finalizing) ||
	    !read_offset(words, WORD_INTERPRETERS_HEAD, runtime_size, &layout->interpreters_head) ||
	    !read_offset(words, WORD_INTERPRETER_ID, interpreter_size, &layout->interpreter_id) ||
	    !read_offset(words, WORD_INTERPRETER_NEXT, interpreter_size,
			 &layout->interpreter_next) ||
	    !read_offset(words, WORD_THREADS_HEAD, interpreter_size, &layout->threads_head) ||
	    !read_offset(words, at->ceval_gil, interpreter_size, &layout->interpreter_gil) ||
	    !read_offset(words, at->thread + 1, thread_size, &layout->thread_prev) ||
	    !read_offset(words, at->thread + 2, thread_size, &layout->thread_next) ||
	    !read_offset(words, at->thread + 3, thread_size, &layout->thread_interpreter) ||
	    !read_offset(words, at->native, thread_size, &layout->thread_pointer) ||
	    !read_offset(words, at->native + 1, thread_size, &layout->thread_native_id))
		return false;
	if (layout->finalizing < sizeof(uint64_t))
		return false;
	/* `initialized` is the last of five ints before `finalizing`, with their padding. */
	layout->initialized = layout->finalizing - (uint32_t)sizeof(uint64_t);
	/* struct pyinterpreters: head, main, next_id; then the main thread. */
	layout->interpreters_main = layout->interpreters_head + 8;
	layout->main_thread = layout->interpreters_head + 24;
	layout->eval_breaker = EVAL_BREAKER_313;
	layout->thread_exception = at->exception;
	return at->debugger ? read_debugger_offsets(words, at, thread_size, layout) : true;
}

/* True if the lock's structure is the one with known inner offsets. */
static bool has_known_lock(const uint64_t *words, const struct version_layout *at)
{
	uint64_t gil = words[at->gil];

	return gil < OFFSET_MAX && words[at->gil + 2] == gil + FLMEM_CPYTHON_GIL_LOCKED &&
	       words[at->gil + 3] == gil + FLMEM_CPYTHON_GIL_HOLDER;
}

/*
 * True if the table has the known length. The runtime begins with the table, and `finalizing`
 * follows it: a table with more or fewer words would be misread.
 */
static bool has_known_length(const uint64_t *words, const struct version_layout *at)
{
	return !at->flags_bytes ||
	       words[WORD_FINALIZING] == at->words * sizeof(*words) + at->flags_bytes;
}

/* The first three words are the same in all releases with a table, 3.13 to 3.15. */
bool flmem_cpython_table_is_free_threaded(const unsigned char *bytes, size_t length)
{
	uint64_t words[WORD_FREE_THREADED + 1];

	if (length < sizeof(words) || memcmp(bytes, "xdebugpy", 8) != 0)
		return false;
	memcpy(words, bytes, sizeof(words));
	return words[WORD_FREE_THREADED] == 1;
}

bool flmem_cpython_table_is_of(const unsigned char *bytes, size_t length, int major, int minor)
{
	uint64_t words[WORD_VERSION + 1];

	if (length < sizeof(words))
		return false;
	memcpy(words, bytes, sizeof(words));
	return words[WORD_VERSION] >> 24 == (uint64_t)major &&
	       (words[WORD_VERSION] >> 16 & 0xff) == (uint64_t)minor;
}

static const char *why_unknown(const uint64_t *words)
{
	uint64_t release = words[WORD_VERSION] >> 16; /* PY_VERSION_HEX */

	if (words[WORD_FREE_THREADED] == 1)
		return "it is built without the lock (free-threaded)";
	if (release > LAST_RELEASE && release < 0x400)
		return "it is newer than CPython 3.15, and flmem does not know its layout";
	return "its offset table has a version that flmem does not know";
}

bool flmem_cpython_layout_parse(const unsigned char *bytes, size_t length,
				struct flmem_cpython_layout *ret_layout, const char **ret_why)
{
	uint64_t words[FLMEM_CPYTHON_TABLE_MAX / sizeof(uint64_t)] = {0};
	struct flmem_cpython_layout layout;
	const struct version_layout *at;

	memcpy(words, bytes, length < sizeof(words) ? length : sizeof(words));
	if (length < 2 * sizeof(*words) || memcmp(bytes, "xdebugpy", 8) != 0) {
		*ret_why = "it has no table of its own offsets";
		return false;
	}
	at = find_places(words[WORD_VERSION]);
	if (!at) {
		*ret_why = why_unknown(words);
		return false;
	}
	if (at->only_releases && !is_final(words[WORD_VERSION])) {
		*ret_why = "it is a pre-release, and flmem knows the layout of releases only";
		return false;
	}
	if (length < at->words * sizeof(*words) || !has_known_length(words, at)) {
		*ret_why = "its offset table has a version that flmem does not know";
		return false;
	}
	if (!words[WORD_FREE_THREADED] && !has_known_lock(words, at)) {
		*ret_why = "its lock has a layout that flmem does not know";
		return false;
	}
	if (!read_offsets(words, at, &layout)) {
		*ret_why = "its offset table is inconsistent";
		return false;
	}
	*ret_layout = layout;
	return true;
}
