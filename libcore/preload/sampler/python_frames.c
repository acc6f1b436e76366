/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the Python frames of the calling thread, as another program would read them. Two functions
 * of Python are called, which return a pointer that already exists, and no pointer is followed that
 * cannot be read. Nothing is locked: the frames of a thread are changed by that thread alone. They
 * exist as long as it holds the interpreter's lock. Without the lock the end of the interpreter may
 * free them: then the kernel copies them.
 */

#include "preload/sampler/python_frames.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <string.h>

#include "preload/sampler/got.h"
#include "preload/sampler/stack.h"

#define FRAMES_MAX     (4 * FLMEM_PROFILE_DEPTH)
#define CHUNK_HEAD     24U /* bytes before its frames: previous, size, top */
#define CHUNK_MAX      (UINT64_C(1) << 30)
#define STACK_NEAR     4096U /* bytes of the data stack that are copied in advance */
#define OWNED_BY_STACK 3     /* enum _frameowner: functions, generators, frame objects are lower */
#define TAG_MASK       ((uintptr_t)7) /* tag bits of a reference, since 3.14 */

/* These are found before sampling begins; a child of fork() inherits them. */
static struct sampler_python python;
static uintptr_t module_start, module_end;
static uintptr_t evaluation_start, evaluation_end;
typedef uintptr_t (*find_state)(void);
/* Returns the state that has the lock; since 3.12, NULL where another thread has it. */
static find_state find_attached;
static find_state find_gil_state;
/*
 * This is set when a data stack was found where the layout expects it, and held the running frame.
 */
static bool is_chunk_proven;

bool sampler_python_has(uintptr_t address)
{
	return address >= module_start && address < module_end;
}

bool sampler_python_evaluates(uintptr_t address)
{
	return address >= evaluation_start && address < evaluation_end;
}

/* Notes the segment that has _PyRuntime, and with it the state of the first thread since 3.11. */
static void set_data(const struct dl_phdr_info *info)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + part->p_vaddr, end = start + part->p_memsz;

		if (part->p_type == PT_LOAD && python.runtime >= start && python.runtime < end)
			sampler_data_set(start, end);
	}
}

static int find_python_range(struct dl_phdr_info *info, size_t size, void *context)
{
	uintptr_t start = UINTPTR_MAX, end = 0;

	(void)size;
	(void)context;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		uintptr_t at = info->dlpi_addr + part->p_vaddr;

		if (part->p_type != PT_LOAD)
			continue;
		start = at < start ? at : start;
		end = at + part->p_memsz > end ? at + part->p_memsz : end;
	}
	if (python.runtime < start || python.runtime >= end)
		return 0;
	module_start = start;
	module_end = end;
	set_data(info);
	evaluation_start = evaluation_end = 0;
	sampler_object_function(info, "_PyEval_EvalFrameDefault", &evaluation_start,
				&evaluation_end);
	return 1;
}

/* Parses a text such as "3.8.18 (default, ...". Only the major and minor number are returned. */
static uint32_t parse_python_version(const char *text)
{
	uint32_t minor = 0;

	if (!text || strncmp(text, "3.", 2) != 0)
		return 0;
	for (text += 2; *text >= '0' && *text <= '9' && minor < 100; text++)
		minor = minor * 10 + (uint32_t)(*text - '0');
	return 0x03000000U | minor << 16;
}

static uint32_t find_python_version(void)
{
	/* CPython 3.11 and later defines this. */
	const unsigned long *version = sampler_look_up(RTLD_DEFAULT, "Py_Version");
	void *found = sampler_look_up(RTLD_DEFAULT, "Py_GetVersion");
	const char *(*get_version)(void);

	if (version)
		return (uint32_t)*version;
	memcpy(&get_version, &found, sizeof(found));
	return found ? parse_python_version(get_version()) : 0;
}

static find_state find_getter(const char *name)
{
	void *found = sampler_look_up(RTLD_DEFAULT, name);
	find_state getter;

	memcpy(&getter, &found, sizeof(getter));
	return getter;
}

static void find_getters(void)
{
	find_attached = find_getter("PyThreadState_GetUnchecked"); /* CPython 3.13 and later */
	if (!find_attached)
		find_attached = find_getter("_PyThreadState_UncheckedGet");
	find_gil_state = find_getter("PyGILState_GetThisThreadState");
}

/* Returns the state of the calling thread if it holds the lock of its interpreter, else 0. */
static uintptr_t find_locked_state(void)
{
	uintptr_t state = find_attached ? find_attached() : 0;

	if (python.minor >= 12 || !state)
		return state;
	return find_gil_state && find_gil_state() == state ? state : 0;
}

/*
 * Finds the interpreter. It asks the dynamic linker, so it is called before main(), or in a thread
 * of flmem.
 */
void sampler_python_find(struct flmem_profile_header *header)
{
	void *runtime = sampler_look_up(RTLD_DEFAULT, "_PyRuntime");
	void *code_type = sampler_look_up(RTLD_DEFAULT, "PyCode_Type");
	enum flmem_profile_python state = FLMEM_PROFILE_PYTHON_INCONSISTENT;
	struct sampler_python layout;

	header->python_state = FLMEM_PROFILE_PYTHON_NONE;
	header->python_version = find_python_version();
	if (!header->python_version)
		return;
	if (!runtime || !code_type ||
	    !sampler_python_layout(header->python_version, runtime, &layout, &state)) {
		header->python_state = state;
		return;
	}
	header->python_state = FLMEM_PROFILE_PYTHON_READ;
	python = layout;
	python.runtime = (uintptr_t)runtime;
	python.code_type = (uintptr_t)code_type;
	is_chunk_proven = false;
	find_getters();
	sampler_walk(find_python_range, NULL);
}

static bool read_pointer(uintptr_t address, uintptr_t *ret_pointer)
{
	return sampler_read_often(address, ret_pointer, sizeof(*ret_pointer));
}

/*
 * Returns the state of this thread, which does not hold the lock. The state may have been freed:
 * the memory then has another thread's ID.
 */
static uintptr_t find_own_state(void)
{
	uintptr_t thread = find_gil_state ? find_gil_state() : 0, id;

	return thread && read_pointer(thread + python.thread_id, &id) &&
			       id == (uintptr_t)pthread_self()
		       ? thread
		       : 0;
}

static uintptr_t get_pointer(const char *object, uint32_t offset)
{
	uintptr_t pointer;

	memcpy(&pointer, object + offset, sizeof(pointer));
	return pointer;
}

/*
 * Returns whether versions identify code. Other code may be at the same address later, with names
 * and lines at the same addresses: only its version or the contents of these show it. Each
 * interpreter counts versions by itself, from the same beginning, so they are used in the first one
 * alone, which is in the data of the module.
 */
static bool has_versions(uintptr_t thread)
{
	uintptr_t interpreter;

	return thread && python.code_version != SAMPLER_NO_OFFSET &&
	       read_pointer(thread + python.thread_interpreter, &interpreter) &&
	       sampler_data_has(interpreter);
}

static uint64_t find_content(struct sampler_scratch *scratch, const char *object,
			     const struct sampler_code *code)
{
	uint32_t version =
		scratch->has_versions ? (uint32_t)get_pointer(object, python.code_version) : 0;

	return version ? version : sampler_python_content(&python, code, &scratch->file);
}

static const char *see_code(struct sampler_scratch *scratch, uintptr_t code)
{
	const char *object = sampler_see(code, scratch->spans[1], python.code_span);

	return object && get_pointer(object, SAMPLER_TYPE_OFFSET) == python.code_type ? object
										      : NULL;
}

/*
 * Reads the values that a frame of the profile depends on. They are the key of the table of known
 * frames.
 */
static bool read_code_key(struct sampler_scratch *scratch, uintptr_t code, uint64_t offset,
			  struct sampler_code *ret_code)
{
	const char *object = see_code(scratch, code);

	if (!object)
		return false;
	*ret_code = (struct sampler_code){
		.code = code,
		.offset = offset,
		.name = get_pointer(object, python.code_name),
		.file = get_pointer(object, python.code_file),
		.lines = get_pointer(object, python.code_lines),
		.first_line = (uint32_t)get_pointer(object, python.code_first_line),
	};
	ret_code->content = find_content(scratch, object, ret_code);
	return true;
}

static uint64_t check_code(const struct sampler_code *code)
{
	return sampler_hash(sampler_hash(code->code, code->offset),
			    sampler_hash(code->name, code->file)) ^
	       sampler_hash(code->lines ^ code->content,
			    ((uint64_t)code->first_line << 32) | code->frame);
}

static bool is_same_code(const struct sampler_code *a, const struct sampler_code *b)
{
	return a->code == b->code && a->offset == b->offset && a->name == b->name &&
	       a->file == b->file && a->lines == b->lines && a->first_line == b->first_line &&
	       a->content && a->content == b->content;
}

static uint32_t make_python_frame(struct sampler_scratch *scratch, const struct sampler_code *code)
{
	struct flmem_profile_frame frame = {
		.kind = FLMEM_PROFILE_FRAME_PYTHON,
		.first_line = code->first_line,
		.module = FLMEM_PROFILE_NONE,
	};
	long name = sampler_python_text(&python, code->name, scratch->text[0]);
	long file = sampler_python_text(&python, code->file, scratch->text[1]);

	if (name < 0 || file < 0)
		return FLMEM_PROFILE_NONE;
	frame.function = sampler_string_find(scratch->text[0], (size_t)name);
	frame.file = sampler_string_find(scratch->text[1], (size_t)file);
	frame.line = sampler_python_line(&python, code->lines, code->offset, code->first_line);
	return sampler_frame_find(&frame);
}

static uint32_t find_python_frame(struct sampler_scratch *scratch, struct sampler_code *code)
{
	struct sampler_code *slot =
		&sampler_control.code[sampler_hash(code->code, code->offset) % SAMPLER_CODES];
	struct sampler_code known = *slot;

	if (is_same_code(&known, code) && known.check == check_code(&known))
		return known.frame;
	code->frame = make_python_frame(scratch, code);
	code->check = check_code(code);
	if (code->frame != FLMEM_PROFILE_NONE)
		*slot = *code;
	return code->frame;
}

/*
 * Returns the byte offset of the instruction that a frame executes; negative before the first one.
 */
static uint64_t get_instruction(const char *frame, uintptr_t code)
{
	uintptr_t instruction = get_pointer(frame, python.frame_instruction);
	int32_t index = (int32_t)instruction;

	if (python.code_instructions != SAMPLER_NO_OFFSET)
		return instruction - (code + python.code_instructions);
	return (uint64_t)index * (python.minor == 10 ? 2 : 1);
}

/*
 * Returns whether the frame is one of the C stack or of the interpreter itself, which runs no
 * function (since 3.12).
 */
static bool is_internal_frame(const char *frame)
{
	return python.frame_owner != SAMPLER_NO_OFFSET &&
	       (int8_t)frame[python.frame_owner] >= OWNED_BY_STACK;
}

/*
 * Returns whether the code is that of the interpreter's frame between a call of a class and its
 * __init__() (3.13 to 3.15): constant code in its module, whose name and file are one object.
 */
static bool is_internal_code(const struct sampler_code *code)
{
	return sampler_python_has(code->code) && code->name == code->file;
}

/*
 * Adds a frame. Returns false if the stack is full. A frame that runs no Python code has another
 * kind of object and is left out.
 */
static bool push_python_frame(struct sampler_scratch *scratch, const char *frame)
{
	uintptr_t code = get_pointer(frame, python.frame_code) & ~TAG_MASK;
	struct sampler_code key;
	uint32_t found;

	if (is_internal_frame(frame) ||
	    !read_code_key(scratch, code, get_instruction(frame, code), &key) ||
	    is_internal_code(&key))
		return true;
	found = find_python_frame(scratch, &key);
	if (found == FLMEM_PROFILE_NONE)
		sampler_drop(FLMEM_PROFILE_DROP_PYTHON);
	return sampler_stack_push(scratch, found);
}

static uintptr_t read_innermost(uintptr_t thread)
{
	uintptr_t frame;

	if (!read_pointer(thread + python.thread_frame, &frame))
		return 0;
	if (python.cframe_frame != SAMPLER_NO_OFFSET && frame &&
	    !read_pointer(frame + python.cframe_frame, &frame))
		return 0;
	return frame;
}

/* Returns whether the frame is the last one that this C call evaluates. */
static bool ends_call(const char *frame)
{
	if (python.frame_owner != SAMPLER_NO_OFFSET)
		return is_internal_frame(frame);
	return python.frame_entry == SAMPLER_NO_OFFSET || frame[python.frame_entry];
}

/*
 * Notes a call of the evaluation function. `at` is the frame that ends the call: since 3.12 it lies
 * in the C frame of the call. In 3.10 and 3.11, `next` is in a separate list, of something in the C
 * frame of each call.
 */
static void note_call(struct sampler_scratch *scratch, uintptr_t at, uintptr_t *next)
{
	uintptr_t listed = *next;

	if (scratch->call_count == FLMEM_PROFILE_DEPTH) {
		scratch->is_python_whole = false;
		return;
	}
	if (python.thread_call != SAMPLER_NO_OFFSET) {
		at = listed;
		if (!listed || !read_pointer(listed + python.call_previous, next))
			*next = 0;
	} else if (python.frame_owner == SAMPLER_NO_OFFSET) {
		at = 0;
	}
	scratch->calls[scratch->call_count++] =
		(struct sampler_call){.at = at, .end = scratch->count};
}

static uintptr_t read_first_call(const struct sampler_scratch *scratch, uintptr_t thread)
{
	uintptr_t call;

	return scratch->wants_calls && python.thread_call != SAMPLER_NO_OFFSET &&
			       read_pointer(thread + python.thread_call, &call)
		       ? call
		       : 0;
}

static void walk_frames(struct sampler_scratch *scratch, uintptr_t thread, uintptr_t at)
{
	uintptr_t call = read_first_call(scratch, thread);

	scratch->file.hash = 0;
	for (unsigned i = 0; at && i < FRAMES_MAX; i++) {
		const char *frame = sampler_see(at, scratch->spans[0], python.frame_span);

		if (!frame) {
			sampler_drop(FLMEM_PROFILE_DROP_PYTHON);
			break;
		}
		if (!push_python_frame(scratch, frame))
			break;
		if (scratch->wants_calls && ends_call(frame))
			note_call(scratch, at, &call);
		at = get_pointer(frame, python.frame_previous);
	}
	scratch->is_python_whole &= !at;
}

static void set_stack_chunk(uintptr_t chunk, uint64_t size)
{
	sampler_thread.chunk = chunk;
	sampler_thread.chunk_end = chunk + size;
}

/*
 * Returns the size of a part of a data stack, which begins with its predecessor and its size; 0: it
 * is not such a part.
 */
static uint64_t read_stack_chunk_size(uintptr_t chunk)
{
	uint64_t size;

	if (!sampler_read_often(chunk + sizeof(chunk), &size, sizeof(size)))
		return 0;
	return size % SAMPLER_PAGE == 0 && size <= CHUNK_MAX ? size : 0;
}

/*
 * Finds the newest part of the thread's data stack. The interpreter sets the pointer to it before
 * it unmaps the part that was there, so that the part is mapped at every instruction, also in a
 * signal handler, and in one piece. (_PyThreadState_PopFrame(); the end of a state, and of a
 * greenlet, clear the pointer first.) A custom build may have another layout, so the pointer is
 * trusted once it was right: the kernel was asked for the part, and it had the frame that was
 * running.
 */
static void find_stack_chunk(uintptr_t thread, uintptr_t frame)
{
	uintptr_t chunk;
	uint64_t size;

	if (python.thread_chunk == SAMPLER_NO_OFFSET ||
	    !read_pointer(thread + python.thread_chunk, &chunk) || chunk % SAMPLER_PAGE)
		return;
	if (is_chunk_proven)
		set_stack_chunk(chunk, CHUNK_HEAD);
	size = read_stack_chunk_size(chunk);
	if (frame > chunk && frame - chunk < size)
		is_chunk_proven = true;
	set_stack_chunk(chunk, is_chunk_proven ? size : 0);
}

static void walk_locked(struct sampler_scratch *scratch, uintptr_t thread)
{
	uintptr_t frame = read_innermost(thread);

	find_stack_chunk(thread, frame);
	scratch->has_versions = has_versions(thread);
	walk_frames(scratch, thread, frame);
	set_stack_chunk(0, 0);
}

/*
 * Copies the frames of functions, which lie one after the other in the newest part of the data
 * stack, since 3.11. Where the last sample was in the same function, its frames are there already.
 */
static void gather_stack(uintptr_t thread, uintptr_t frame)
{
	uintptr_t chunk, from = frame - STACK_NEAR;

	if (python.thread_chunk == SAMPLER_NO_OFFSET || sampler_copies_have(frame) ||
	    !read_pointer(thread + python.thread_chunk, &chunk) || frame <= chunk ||
	    frame - chunk > CHUNK_MAX)
		return;
	if (frame - chunk < STACK_NEAR)
		from = chunk;
	sampler_copies_want(from, frame - from + python.frame_span);
	sampler_copies_fetch();
}

static void want_code(struct sampler_scratch *scratch, uintptr_t code)
{
	(void)scratch;
	sampler_copies_want(code, python.code_span);
}

static void want_content(struct sampler_scratch *scratch, uintptr_t code)
{
	const char *object = see_code(scratch, code);

	if (!object ||
	    (scratch->has_versions && (uint32_t)get_pointer(object, python.code_version)))
		return;
	sampler_python_want_content(get_pointer(object, python.code_name),
				    get_pointer(object, python.code_file),
				    get_pointer(object, python.code_lines));
}

/*
 * Copies everything that frames point to by one call of the kernel: each call takes longer than the
 * copy.
 */
static void gather_codes(struct sampler_scratch *scratch, uintptr_t at,
			 void (*want)(struct sampler_scratch *, uintptr_t code))
{
	for (unsigned i = 0; at && i < FLMEM_PROFILE_DEPTH; i++) {
		const char *frame = sampler_see(at, scratch->spans[0], python.frame_span);

		if (!frame)
			break;
		at = get_pointer(frame, python.frame_previous);
		if (!is_internal_frame(frame))
			want(scratch, get_pointer(frame, python.frame_code) & ~TAG_MASK);
	}
	sampler_copies_fetch();
}

static void walk_unlocked(struct sampler_scratch *scratch)
{
	uintptr_t thread, frame;

	sampler_copies_begin(&scratch->lines);
	thread = find_own_state();
	scratch->has_versions = has_versions(thread);
	if (thread) {
		frame = read_innermost(thread);
		gather_stack(thread, frame);
		gather_codes(scratch, frame, want_code);
		gather_codes(scratch, frame, want_content);
		walk_frames(scratch, thread, frame);
	}
	sampler_copies_end();
}

void sampler_python_walk(struct sampler_scratch *scratch)
{
	uintptr_t locked = python.runtime ? find_locked_state() : 0;

	if (locked)
		walk_locked(scratch, locked);
	else if (python.runtime)
		walk_unlocked(scratch);
}
