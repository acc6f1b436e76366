/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the search of updates for NaN while they arrive, in pieces of any size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "ops/exchange/server/finite_stream.h"

#define HEAD 88U

/* Places of two doubles, no element, three floats, three integers, five halves, three bytes. */
static uint64_t begins[] = {0, 16, 16, 28, 40, 50, 53};
static unsigned char elements[] = {FLMEM_ELEMENT_F64, FLMEM_ELEMENT_F32, FLMEM_ELEMENT_F32,
				   FLMEM_ELEMENT_I32, FLMEM_ELEMENT_F16, FLMEM_ELEMENT_F8_E4M3};
static const struct flmem_layout layout = {
	.list = {.count = FLMEM_ARRAY_SIZE(elements)},
	.begins = begins,
	.elements = elements,
};

#define DATA 53U

/* Checks bytes from `from` to `to` of the file, in pieces. */
static bool is_finite(const char *file, uint64_t from, uint64_t to, size_t piece)
{
	struct flmem_finite_stream stream;

	flmem_finite_stream_begin(&stream, &layout, from, HEAD + DATA);
	for (uint64_t at = from; at < to; at += piece)
		flmem_finite_stream_add(&stream, file + at,
					to - at < piece ? (size_t)(to - at) : piece);
	return flmem_finite_stream_end(&stream);
}

static void finite_updates_are_known_for_it(void **state)
{
	char file[HEAD + DATA];

	(void)state;
	memset(file, 0xff, HEAD);
	memset(file + HEAD, 0, DATA);
	/* Integers have no special bits. */
	memset(file + HEAD + 28, 0xff, 12);
	for (size_t piece = 1; piece <= sizeof(file); piece++) {
		assert_true(is_finite(file, 0, sizeof(file), piece));
		assert_true(is_finite(file, 0, HEAD - 3, piece));
		assert_true(is_finite(file, HEAD + 24, sizeof(file), piece));
		assert_true(is_finite(file, HEAD + 8, HEAD + 32, piece));
	}
}

static void what_was_not_searched_is_not_known(void **state)
{
	char file[HEAD + DATA] = {0};
	struct flmem_finite_stream stream;

	(void)state;
	assert_false(is_finite(file, HEAD + 4, sizeof(file), 16));
	assert_false(is_finite(file, 0, HEAD + 12, 16));
	flmem_finite_stream_begin(&stream, &layout, 0, DATA - 1);
	assert_false(flmem_finite_stream_end(&stream));
	/* There are more tensors than the layout has. */
	flmem_finite_stream_begin(&stream, &layout, 0, DATA);
	flmem_finite_stream_add(&stream, file, sizeof(file));
	assert_false(flmem_finite_stream_end(&stream));
}

static void every_special_element_is_found(void **state)
{
	(void)state;
	for (size_t t = 0; t < FLMEM_ARRAY_SIZE(elements); t++) {
		size_t bytes = flmem_element_bytes((enum flmem_element)elements[t]);

		if (!flmem_element_is_real((enum flmem_element)elements[t]))
			continue;
		for (uint64_t at = begins[t]; at < begins[t + 1]; at += bytes)
			for (size_t piece = 1; piece <= HEAD + DATA; piece++) {
				char file[HEAD + DATA] = {0};

				memset(file + HEAD + at, 0xff, bytes);
				assert_false(is_finite(file, 0, sizeof(file), piece));
				assert_false(is_finite(file, HEAD, sizeof(file), piece));
			}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finite_updates_are_known_for_it),
		cmocka_unit_test(what_was_not_searched_is_not_known),
		cmocka_unit_test(every_special_element_is_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
