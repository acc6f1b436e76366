/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE

/*
 * Looks like a CPython 3.12 to a sampler, with structures that lead anywhere: each step allocates
 * once, with frames and code that exist, do not, or no longer do. Prints "survived".
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BLOCK	   5000U
#define PAGE	   4096U
#define CHUNK	   16384U
#define CODE_ROOM  256U
#define FRAME_ROOM 128U

/* Byte offsets in 3.12.1 on a 64-bit machine, as a compiler gives them. */
enum {
	STATE_INTERPRETER = 16,
	STATE_CFRAME = 56,
	STATE_CHUNK = 232,
	CHUNK_SIZE = 8,
	FRAME_CODE = 0,
	FRAME_PREVIOUS = 8,
	FRAME_INSTRUCTION = 56,
	FRAME_OWNER = 70,
	OBJECT_TYPE = 8,
	OBJECT_LENGTH = 16,
	OBJECT_HASH = 24,
	TEXT_FLAGS = 32,
	TEXT_BYTES = 40,
	CODE_FIRST_LINE = 68,
	CODE_VERSION = 92,
	CODE_FILE = 112,
	CODE_NAME = 128,
	CODE_LINES = 136,
	CODE_BYTES = 192,
	OWNED_BY_STACK = 3,
};

/* The symbols that the sampler looks up. */
#pragma GCC visibility push(default)
extern char _PyRuntime[1024], PyCode_Type[64]; /* NOLINT(bugprone-reserved-identifier) */
extern const unsigned long Py_Version;
void *_PyThreadState_UncheckedGet(void); /* NOLINT(bugprone-reserved-identifier) */
void *PyGILState_GetThisThreadState(void);
#pragma GCC visibility pop

char _PyRuntime[1024] = {1}, PyCode_Type[64] = {1};
const unsigned long Py_Version = 0x030c01f0;

/* The compiler assumes that malloc() does not call back into this file. */
static void *volatile current_state;
static char *volatile sink;
static char lines[64]; /* an empty table */
static char *file;

void *_PyThreadState_UncheckedGet(void)
{
	return current_state;
}

void *PyGILState_GetThisThreadState(void)
{
	return current_state;
}

static void put(char *object, size_t offset, const void *pointer)
{
	memcpy(object + offset, &pointer, sizeof(pointer));
}

static void put_number(char *object, size_t offset, uint64_t number)
{
	memcpy(object + offset, &number, sizeof(number));
}

/* Makes pages, and one after them that cannot be read. */
static char *make_pages(size_t size)
{
	char *pages =
		mmap(NULL, size + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED || mprotect(pages + size, PAGE, PROT_NONE)) {
		perror("interpreter");
		exit(3);
	}
	return pages;
}

static char *make_text(const char *text)
{
	char *object = make_pages(PAGE);

	put_number(object, OBJECT_LENGTH, strlen(text));
	put_number(object, OBJECT_HASH, UINT64_MAX);
	put_number(object, TEXT_FLAGS, (1 | 8 | 16) << 2);
	memcpy(object + TEXT_BYTES, text, strlen(text));
	return object;
}

static void fill_code(char *code, const char *name)
{
	put(code, OBJECT_TYPE, PyCode_Type);
	put_number(code, CODE_FIRST_LINE, 7);
	put(code, CODE_FILE, file);
	put(code, CODE_NAME, make_text(name));
	put(code, CODE_LINES, lines);
}

static char *make_code(const char *name)
{
	char *code = make_pages(PAGE) + PAGE - CODE_ROOM;

	fill_code(code, name);
	return code;
}

static char *put_other_type(char *object)
{
	put(object, OBJECT_TYPE, lines);
	return object;
}

static void fill_frame(char *frame, const char *code, const char *previous)
{
	put(frame, FRAME_CODE, code);
	put(frame, FRAME_PREVIOUS, previous);
	put(frame, FRAME_INSTRUCTION, code + CODE_BYTES);
	frame[FRAME_OWNER] = 0;
}

static char *make_chunk(uint64_t size)
{
	char *chunk = make_pages(CHUNK);

	put_number(chunk, CHUNK_SIZE, size);
	return chunk;
}

/* Allocates once while the thread's state has this chunk and frame. */
static void step(char *state, const char *chunk, const char *frame)
{
	const char *cframe = frame;
	char *block;

	put(state, STATE_CFRAME, &cframe);
	put(state, STATE_CHUNK, chunk);
	current_state = state;
	block = malloc(BLOCK);
	current_state = NULL;
	sink = block;
	free(block);
}

static char *in_new_chunk(uint64_t size, const char *name, char **ret_chunk)
{
	char *chunk = make_chunk(size), *frame = chunk + CODE_ROOM;

	fill_frame(frame, make_code(name), NULL);
	*ret_chunk = chunk;
	return frame;
}

/* The sampler trusts no part of a layout before it has verified it. */
static void run_unproven(char *state, char *gone)
{
	char *chunk, *frame = in_new_chunk(PAGE + 8, "odd size", &chunk);

	step(state, gone, gone + 64);
	step(state, chunk, frame);
	step(state, gone, gone + 64);
	frame = in_new_chunk(CHUNK, "elsewhere", &chunk);
	step(state, make_chunk(CHUNK), frame);
	step(state, gone, gone + 64);
}

/* Then the sampler reads data in the chunk directly, and checks all other memory first. */
static void run_proven(char *state, char *gone)
{
	char *chunk, *frame = in_new_chunk(CHUNK, "running", &chunk);
	char *end = chunk + CHUNK - FRAME_ROOM / 4, entry[FRAME_ROOM] = {0};

	step(state, chunk, frame);
	step(state, chunk, gone + 64);
	step(state, chunk, chunk + CHUNK);
	put(end, FRAME_CODE, make_code("cut"));
	step(state, chunk, end);
	fill_frame(frame, gone, NULL);
	step(state, chunk, frame);
	fill_frame(frame, put_other_type(make_code("no code")), NULL);
	step(state, chunk, frame);
	fill_frame(frame, make_code("above a gap"), gone);
	step(state, chunk, frame);
	fill_frame(entry, gone, gone + 64);
	entry[FRAME_OWNER] = OWNED_BY_STACK;
	fill_frame(frame, make_code("above the stack"), entry);
	step(state, chunk, frame);
	step(state, NULL, gone);
}

/* Another function at the same address; then the memory is unmapped. */
static void run_reused(char *state)
{
	char *chunk, *frame = in_new_chunk(CHUNK, "first", &chunk), *code;

	memcpy(&code, frame + FRAME_CODE, sizeof(code));
	step(state, chunk, frame);
	fill_code(code, "second");
	step(state, chunk, frame);
	/* Unmaps without the sampler's notice, as the C library does. */
	syscall(SYS_munmap, code - (PAGE - CODE_ROOM), (size_t)PAGE);
	step(state, chunk, frame);
}

/* Allocates once by the same code with this version; its name now ends with another digit. */
static void step_renamed(char *state, const char *chunk, const char *frame, char digit,
			 char version)
{
	char *code, *name;

	memcpy(&code, frame + FRAME_CODE, sizeof(code));
	memcpy(&name, code + CODE_NAME, sizeof(name));
	name[TEXT_BYTES + 5] = digit;
	code[CODE_VERSION] = version;
	step(state, chunk, frame);
}

/* Versions that differ, no version, and one that another interpreter has given out, too. */
static void run_renamed(char *state)
{
	char *chunk, *frame = in_new_chunk(CHUNK, "name 0", &chunk);

	put(state, STATE_INTERPRETER, _PyRuntime);
	step_renamed(state, chunk, frame, '1', 1);
	step_renamed(state, chunk, frame, '2', 2);
	step_renamed(state, chunk, frame, '3', 0);
	step_renamed(state, chunk, frame, '4', 0);
	put(state, STATE_INTERPRETER, state);
	step_renamed(state, chunk, frame, '5', 1);
	step_renamed(state, chunk, frame, '6', 1);
}

int main(void)
{
	char *state = make_pages(PAGE), *gone = make_pages(PAGE) + PAGE, *chunk, *frame;

	file = make_text("file");
	frame = in_new_chunk(CHUNK, "first thread", &chunk);

	run_unproven(state, gone);
	run_proven(state, gone);
	run_reused(state);
	run_renamed(state);
	step(_PyRuntime, chunk, frame);
	current_state = gone;
	sink = malloc(BLOCK);
	current_state = NULL;
	puts("survived");
	return 0;
}
