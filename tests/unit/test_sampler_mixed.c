/* SPDX-License-Identifier: Apache-2.0 */
/* Tests which native frames stand between which Python frames. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "preload/sampler/mixed.h"

#define LOW   0x7000U /* the lower end of the innermost native frame */
#define SIZE  64U     /* size of each frame */
#define CALLS 4U
#define PARTS "parts of the function that have no symbol"

enum place {
	UNKNOWN = -1, /* the place is unknown, as before 3.10 */
	ABOVE = -2,   /* the place is above the native frames that were found */
	ELSEWHERE = -3,
};

/*
 * Stacks with the innermost frame first. o: other code, i: the interpreter, E: its evaluation
 * function.
 */
struct mixed_case {
	const char *what, *natives, *python; /* letters; Python frames are A, B, ... */
	struct {
		int in; /* the native frame that a Python frame is in, or a place */
		uint32_t end;
	} calls[CALLS];
	uint32_t call_count;
	bool is_python_cut;
	const char *mixed;
	bool is_complete;
};

static const struct mixed_case cases[] = {
	{"each call at its place",
	 "oiEiiEoo",
	 "ABC",
	 {{2, 1}, {5, 3}},
	 2,
	 false,
	 "oiAiiBCoo",
	 true},
	{"calls that are counted",
	 "oiEiEo",
	 "AB",
	 {{UNKNOWN, 1}, {UNKNOWN, 2}},
	 2,
	 false,
	 "oiAiBo",
	 true},
	{"counted: fewer in C",
	 "oiEiio",
	 "AB",
	 {{UNKNOWN, 1}, {UNKNOWN, 2}},
	 2,
	 false,
	 "oAB",
	 false},
	{"counted: more in C",
	 "oiEiEiEo",
	 "AB",
	 {{UNKNOWN, 1}, {UNKNOWN, 2}},
	 2,
	 false,
	 "oAB",
	 false},
	{"native frames that end early",
	 "oiEii",
	 "ABC",
	 {{2, 1}, {ABOVE, 3}},
	 2,
	 false,
	 "oiAiiBC",
	 false},
	{"... within the first call", "oii", "AB", {{ABOVE, 2}}, 1, false, "oiiAB", false},
	{"a call in other code", "oiEioEoo", "ABC", {{2, 1}, {4, 3}}, 2, false, "oiABC", false},
	{"two calls in one frame of C", "oEooo", "AB", {{1, 1}, {1, 2}}, 2, false, "oAB", false},
	{"the stack of a coroutine below that of its caller",
	 "oEioo",
	 "AB",
	 {{1, 1}, {ABOVE, 2}},
	 2,
	 false,
	 "oAiooB",
	 false},
	{"... above it", "oEioo", "AB", {{1, 1}, {ELSEWHERE, 2}}, 2, false, "oAiooB", false},
	{"... with another call", "oEioEo", "AB", {{1, 1}, {ELSEWHERE, 2}}, 2, false, "oAB", false},
	{"a call that is not known", "oEioo", "AB", {{1, 1}, {UNKNOWN, 2}}, 2, false, "oAB", false},
	{"nothing fits", "oiEoE", "AB", {{ELSEWHERE, 1}, {ELSEWHERE, 2}}, 2, false, "oAB", false},
	{"more calls in C, as below a greenlet", "oEooEo", "A", {{1, 1}}, 1, false, "oA", false},
	{PARTS, "oiiio", "AB", {{1, 1}, {3, 2}}, 2, false, "oAiBo", true},
	{"a call whose frame has gone", "oEiEo", "A", {{1, 0}, {3, 1}}, 2, false, "oiAo", true},
	{"the frame of a thread, since 3.15",
	 "oEo",
	 "A",
	 {{1, 1}, {ELSEWHERE, 1}},
	 2,
	 false,
	 "oAo",
	 true},
	{"Python frames that end early", "oEiEoo", "AB", {{1, 2}}, 1, true, "oAB", false},
	{"... before the first one", "oiEoo", "", {{0, 0}}, 0, true, "o", false},
	{"no Python", "ooioo", "", {{0, 0}}, 0, false, "ooioo", true},
	{"no Python, yet it evaluates", "ooiEo", "", {{0, 0}}, 0, false, "oo", false},
	{"no native frames", "", "AB", {{ABOVE, 2}}, 1, false, "AB", false},
};

static struct sampler_native natives[SAMPLER_NATIVES + 1];
static struct sampler_call calls[FLMEM_PROFILE_DEPTH];
static uint32_t python[FLMEM_PROFILE_DEPTH], out[FLMEM_PROFILE_DEPTH + 1];

static enum sampler_code_of code_of(char letter)
{
	if (letter == 'E')
		return SAMPLER_CODE_EVALUATION;
	return letter == 'i' ? SAMPLER_CODE_INTERPRETER : SAMPLER_CODE_OTHER;
}

static uintptr_t address_of(int in, size_t count)
{
	switch (in) {
	case UNKNOWN:
		return 0;
	case ABOVE:
		return LOW + count * SIZE + 1;
	case ELSEWHERE:
		return LOW / 2;
	default:
		return LOW + (uintptr_t)in * SIZE + SIZE / 2;
	}
}

/* Makes a mixture in which letters are the numbers of frames. */
static struct sampler_mixture make_mixture(const struct mixed_case *from)
{
	size_t native_count = strlen(from->natives), python_count = strlen(from->python);

	for (size_t i = 0; i <= native_count; i++)
		natives[i] = (struct sampler_native){
			.low = LOW + i * SIZE,
			.frame = (unsigned char)from->natives[i],
			.code = code_of(from->natives[i]),
		};
	for (size_t i = 0; i < python_count; i++)
		python[i] = (unsigned char)from->python[i];
	for (size_t i = 0; i < from->call_count; i++)
		calls[i] = (struct sampler_call){address_of(from->calls[i].in, native_count),
						 from->calls[i].end};
	return (struct sampler_mixture){
		.natives = natives,
		.native_count = (uint32_t)native_count,
		.frames = python,
		.frame_count = (uint32_t)python_count,
		.calls = calls,
		.call_count = from->call_count,
		.is_python_whole = !from->is_python_cut,
		.out = out,
	};
}

static void test_where_native_frames_stand(void **state)
{
	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(cases); i++) {
		struct sampler_mixture mixture = make_mixture(&cases[i]);
		char found[64] = "";

		sampler_mix(&mixture);
		for (uint32_t j = 0; j < mixture.count; j++)
			found[j] = (char)out[j];
		print_message("%s: %s\n", cases[i].what, found);
		assert_string_equal(found, cases[i].mixed);
		assert_int_equal(mixture.is_complete, cases[i].is_complete);
		assert_int_equal(mixture.unknown == NULL, strcmp(cases[i].what, PARTS) != 0);
	}
}

/* A frame pointer may be any number, also the address of a call that does not exist. */
static void test_no_call_at_address_0(void **state)
{
	struct sampler_native low[] = {{.frame = 'i', .code = SAMPLER_CODE_INTERPRETER},
				       {.low = LOW}};
	struct sampler_call behind = {.end = 1};
	struct sampler_mixture mixture = {
		.natives = low,
		.native_count = 1,
		.frames = python,
		.frame_count = 1,
		.calls = &behind,
		.is_python_whole = true,
		.out = out,
	};

	(void)state;
	python[0] = 'A';
	sampler_mix(&mixture);
	assert_int_equal(mixture.count, 2);
	assert_int_equal(out[0], 'i');
	assert_int_equal(out[1], 'A');
	assert_false(mixture.is_complete);
}

/*
 * Makes a deep stack: each Python frame is a call in C, which `between` frames of C call, as before
 * 3.11.
 */
static struct sampler_mixture make_deep(uint32_t python_count, uint32_t between)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < python_count; i++) {
		python[i] = 'A';
		calls[i].end = i + 1;
		calls[i].at = LOW + (i + 1) * (between + 1) * SIZE - 1;
		for (uint32_t j = 0; j <= between && count < SAMPLER_NATIVES; j++, count++)
			natives[count] = (struct sampler_native){
				.frame = 'i',
				.code = SAMPLER_CODE_INTERPRETER,
			};
	}
	for (uint32_t i = 0; i <= count; i++)
		natives[i].low = LOW + i * SIZE;
	out[FLMEM_PROFILE_DEPTH] = 0;
	return (struct sampler_mixture){
		.natives = natives,
		.native_count = count,
		.frames = python,
		.frame_count = python_count,
		.calls = calls,
		.call_count = python_count,
		.is_python_whole = true,
		.out = out,
	};
}

static void expect_deep(uint32_t python_count, uint32_t between, uint32_t python_left)
{
	struct sampler_mixture mixture = make_deep(python_count, between);
	uint32_t found = 0;

	sampler_mix(&mixture);
	assert_int_equal(out[FLMEM_PROFILE_DEPTH], 0);
	assert_int_equal(mixture.count, FLMEM_PROFILE_DEPTH);
	for (uint32_t i = 0; i < mixture.count; i++)
		found += out[i] == 'A';
	assert_int_equal(found, python_left);
	/* The innermost frames are complete. */
	for (uint32_t i = 0; i < 2 * (between + 1); i++)
		assert_int_equal(out[i], i % (between + 1) == between ? 'A' : 'i');
	assert_false(mixture.is_complete);
	assert_int_equal(mixture.is_deep, python_left < python_count);
}

/* Native frames are left out between the outer frames first. */
static void test_stacks_that_are_too_deep(void **state)
{
	(void)state;
	expect_deep(100, 3, 100);
	expect_deep(224, 2, 224);
	expect_deep(225, 2, 224);
	expect_deep(FLMEM_PROFILE_DEPTH, 1, 224);
	expect_deep(FLMEM_PROFILE_DEPTH, 5, 224);
}

/* Native frames outside of Python frames that did not fit would seem to call the others. */
static void test_outermost_frames_are_cut_together(void **state)
{
	struct sampler_mixture mixture = make_deep(FLMEM_PROFILE_DEPTH, 0);

	(void)state;
	mixture.native_count = 6;
	mixture.call_count = 1;
	calls[0] = (struct sampler_call){natives[2].low, FLMEM_PROFILE_DEPTH};
	sampler_mix(&mixture);
	assert_int_equal(mixture.count, 2 + FLMEM_PROFILE_DEPTH - 6);
	for (uint32_t i = 0; i < mixture.count; i++)
		assert_int_equal(out[i], i < 2 ? 'i' : 'A');
	assert_true(mixture.is_deep);
}

/* No frames are missing between Python frames that do not exist. */
static void test_native_stacks_that_are_too_deep(void **state)
{
	struct sampler_mixture mixture = make_deep(FLMEM_PROFILE_DEPTH, 1);

	(void)state;
	mixture.frame_count = mixture.call_count = 0;
	sampler_mix(&mixture);
	assert_int_equal(mixture.count, FLMEM_PROFILE_DEPTH);
	assert_true(mixture.is_complete);
	assert_true(mixture.is_deep);
	mixture.native_count = FLMEM_PROFILE_DEPTH;
	sampler_mix(&mixture);
	assert_int_equal(mixture.count, FLMEM_PROFILE_DEPTH);
	assert_true(mixture.is_complete);
	assert_false(mixture.is_deep);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_where_native_frames_stand),
		cmocka_unit_test(test_no_call_at_address_0),
		cmocka_unit_test(test_stacks_that_are_too_deep),
		cmocka_unit_test(test_outermost_frames_are_cut_together),
		cmocka_unit_test(test_native_stacks_that_are_too_deep),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
