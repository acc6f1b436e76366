/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Python frames of the calling thread. They are read as another program would read them: of
 * Python two functions are called that return a pointer which is there anyway, and no pointer is
 * followed that cannot be read. Nothing is locked: the frames of a thread change by that thread
 * alone. Where it holds the interpreter's lock they cannot go meanwhile. Without it they could, at
 * the end of the interpreter: then the kernel copies them.
 */

#include "preload/sampler/python_frames.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <string.h>

#include "preload/sampler/got.h"
#include "preload/sampler/stack.h"

#define FRAMES_MAX     (4 * FLMEM_PROFILE_DEPTH)
#define OWNED_BY_STACK 3 /* enum _frameowner: functions, generators and frame objects are below */
#define TYPE_OFFSET    8U
#define TAG_MASK       ((uintptr_t)7) /* of a reference, since 3.14 */

/* Found once, before main(); a child of fork() has it, too. */
static struct sampler_python python;
static uintptr_t module_start, module_end;
typedef uintptr_t (*find_state)(void);
static find_state find_attached; /* the state that has the lock; since 3.12 NULL for others */
static find_state find_gil_state;

bool sampler_python_has(uintptr_t address)
{
	return address >= module_start && address < module_end;
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
	return 1;
}

/* "3.8.18 (default, ...": only major and minor. */
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
	const unsigned long *version = dlsym(RTLD_DEFAULT, "Py_Version"); /* 3.11 and later */
	void *found = dlsym(RTLD_DEFAULT, "Py_GetVersion");
	const char *(*get_version)(void);

	if (version)
		return (uint32_t)*version;
	memcpy(&get_version, &found, sizeof(found));
	return found ? parse_python_version(get_version()) : 0;
}

static find_state find_getter(const char *name)
{
	void *found = dlsym(RTLD_DEFAULT, name);
	find_state getter;

	memcpy(&getter, &found, sizeof(getter));
	return getter;
}

static void find_getters(void)
{
	find_attached = find_getter("PyThreadState_GetUnchecked"); /* 3.13 and later */
	if (!find_attached)
		find_attached = find_getter("_PyThreadState_UncheckedGet");
	find_gil_state = find_getter("PyGILState_GetThisThreadState");
}

/* The state of the calling thread if it holds the lock of its interpreter. */
static uintptr_t find_locked_state(void)
{
	uintptr_t state = find_attached ? find_attached() : 0;

	if (python.minor >= 12 || !state)
		return state;
	return find_gil_state && find_gil_state() == state ? state : 0;
}

/* Before main(): the dynamic linker may be asked then. */
void sampler_python_find(struct flmem_profile_header *header)
{
	void *runtime = dlsym(RTLD_DEFAULT, "_PyRuntime");
	void *code_type = dlsym(RTLD_DEFAULT, "PyCode_Type");
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
	find_getters();
	sampler_walk_begin();
	dl_iterate_phdr(find_python_range, NULL);
	sampler_walk_end();
}

static bool read_pointer(uintptr_t address, uintptr_t *ret_pointer)
{
	return sampler_read_often(address, ret_pointer, sizeof(*ret_pointer));
}

/* The state of a thread without the lock may be gone: what is there now has another thread's ID. */
static uintptr_t find_own_state(void)
{
	uintptr_t thread = find_gil_state ? find_gil_state() : 0, id;

	return thread && read_pointer(thread + python.thread_id, &id) &&
			       id == (uintptr_t)pthread_self()
		       ? thread
		       : 0;
}

/* What a frame of the profile depends on; the key of the table of those that are known. */
static bool read_code_key(uintptr_t code, uint64_t offset, struct sampler_code *ret_code)
{
	struct sampler_code key = {.code = code, .offset = offset};
	uintptr_t type;

	if (!read_pointer(code + TYPE_OFFSET, &type) || type != python.code_type ||
	    !read_pointer(code + python.code_name, &key.name) ||
	    !read_pointer(code + python.code_file, &key.file) ||
	    !read_pointer(code + python.code_lines, &key.lines) ||
	    !sampler_read_often(code + python.code_first_line, &key.first_line,
				sizeof(key.first_line)))
		return false;
	*ret_code = key;
	return true;
}

static uint64_t check_code(const struct sampler_code *code)
{
	return sampler_hash(sampler_hash(code->code, code->offset),
			    sampler_hash(code->name, code->file)) ^
	       sampler_hash(code->lines, ((uint64_t)code->first_line << 32) | code->frame);
}

static bool is_same_code(const struct sampler_code *a, const struct sampler_code *b)
{
	return a->code == b->code && a->offset == b->offset && a->name == b->name &&
	       a->file == b->file && a->lines == b->lines && a->first_line == b->first_line;
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

/* Byte offset of the instruction that a frame executes. */
static bool read_instruction(uintptr_t frame, uintptr_t code, uint64_t *ret_offset)
{
	uintptr_t instruction;
	int32_t index;

	if (python.code_instructions != SAMPLER_NO_OFFSET) {
		if (!read_pointer(frame + python.frame_instruction, &instruction))
			return false;
		*ret_offset = instruction - (code + python.code_instructions);
		return true;
	}
	if (!sampler_read_often(frame + python.frame_instruction, &index, sizeof(index)))
		return false;
	*ret_offset = index < 0 ? 0 : (uint64_t)index * (python.minor == 10 ? 2 : 1);
	return true;
}

/* Frames of the C stack and of the interpreter itself, since 3.12; no function is theirs. */
static bool is_internal_frame(uintptr_t frame)
{
	int8_t owner;

	return python.frame_owner != SAMPLER_NO_OFFSET &&
	       (!sampler_read_often(frame + python.frame_owner, &owner, sizeof(owner)) ||
		owner >= OWNED_BY_STACK);
}

/* False where the stack is full. A frame that runs no Python code has another kind of object. */
static bool push_python_frame(struct sampler_scratch *scratch, uintptr_t frame, uintptr_t code)
{
	struct sampler_code key;
	uint64_t offset;
	uint32_t found;

	if (is_internal_frame(frame) || !read_instruction(frame, code, &offset) ||
	    !read_code_key(code, offset, &key))
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

static void walk_frames(struct sampler_scratch *scratch, uintptr_t thread)
{
	uintptr_t frame = thread ? read_innermost(thread) : 0, code;

	for (unsigned i = 0; frame && i < FRAMES_MAX; i++) {
		if (!read_pointer(frame + python.frame_code, &code)) {
			sampler_drop(FLMEM_PROFILE_DROP_PYTHON);
			return;
		}
		if (!push_python_frame(scratch, frame, code & ~TAG_MASK))
			return;
		if (!read_pointer(frame + python.frame_previous, &frame))
			return;
	}
}

void sampler_python_walk(struct sampler_scratch *scratch)
{
	uintptr_t locked = python.runtime ? find_locked_state() : 0;

	if (locked) {
		walk_frames(scratch, locked);
	} else if (python.runtime) {
		sampler_copies_begin(&scratch->lines);
		walk_frames(scratch, find_own_state());
		sampler_copies_end();
	}
}
