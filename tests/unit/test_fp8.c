/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests each value of the 8-bit types against the definition of the formats (OCP 8-bit floating
 * point, 1.0), which is computed here in another way than in the kernels.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <flmem/aggregate.h>
#include <flmem/convert.h>

#include "aggregate/kernels.h"
#include "base/cleanup.h"
#include "tree.h"

#define VALUES 256
#define PAIRS  (VALUES * VALUES)
#define HEADER "{\"t\":{\"dtype\":\"%s\",\"shape\":[%u],\"data_offsets\":[0,%u]}}"
#define HEAD   128U /* of the files that are made here */
#define TRIED  4096

struct format {
	enum flmem_element element;
	const char *name;
	int fraction, bias;
	/* Number of non-negative finite values: their bits are smaller than this. */
	unsigned finite;
	unsigned beyond; /* bits for values that are too large */
	unsigned nan;	 /* bits of the NaN that is written */
};

static const struct format formats[] = {
	{FLMEM_ELEMENT_F8_E4M3, "F8_E4M3", 3, 7, 0x7f, 0x7f, 0x7f},
	{FLMEM_ELEMENT_F8_E5M2, "F8_E5M2", 2, 15, 0x7c, 0x7c, 0x7e},
};

/* Returns the value of non-negative bits, also of those that would follow the largest. */
static double size_of(const struct format *format, unsigned bits)
{
	int exponent = (int)(bits >> format->fraction);
	double fraction =
		(double)(bits & ((1U << format->fraction) - 1)) / (double)(1U << format->fraction);

	return exponent ? ldexp(1 + fraction, exponent - format->bias)
			: ldexp(fraction, 1 - format->bias);
}

static double value_of(const struct format *format, unsigned bits)
{
	unsigned size = bits & 0x7f;
	double x = size_of(format, size);

	if (size >= format->finite)
		x = size == 0x7c && format->beyond == 0x7c ? (double)INFINITY : (double)NAN;
	return bits & 0x80 ? -x : x;
}

/*
 * Returns the bits that are stored for a number: to nearest, ties to even; the middles are exact.
 */
static unsigned bits_for(const struct format *format, double x)
{
	double size = fabs(x);
	unsigned bits = 0;

	if (isnan(x))
		return format->nan;
	for (; bits < format->finite; bits++) {
		double middle = (size_of(format, bits) + size_of(format, bits + 1)) / 2;

		if (size < middle || (size == middle && bits % 2 == 0))
			break;
	}
	if (bits == format->finite)
		bits = format->beyond;
	/* A NaN has no sign. */
	return format->beyond == format->nan && bits == format->nan
		       ? bits
		       : bits | (signbit(x) ? 0x80 : 0);
}

static bool is_same(double a, double b)
{
	return isnan(a) ? isnan(b) : a == b && signbit(a) == signbit(b);
}

static void the_definition_has_its_known_values(void **state)
{
	(void)state;
	assert_true(value_of(&formats[0], 0x01) == 0x1p-9);
	assert_true(value_of(&formats[0], 0x08) == 0x1p-6);
	assert_true(value_of(&formats[0], 0x7e) == 448);
	assert_true(isnan(value_of(&formats[0], 0xff)));
	assert_true(value_of(&formats[1], 0x01) == 0x1p-16);
	assert_true(value_of(&formats[1], 0x7b) == 57344);
	assert_true(value_of(&formats[1], 0xfc) == -(double)INFINITY);
	assert_true(isnan(value_of(&formats[1], 0x7d)));
	assert_int_equal(bits_for(&formats[0], 464), 0x7e);
	assert_int_equal(bits_for(&formats[0], nextafter(-464, -500)), 0x7f);
	assert_int_equal(bits_for(&formats[1], -61440), 0xfc);
}

static void every_value_is_loaded_and_stored(void **state)
{
	const struct flmem_kernels *kernels;

	(void)state;
	for (size_t k = 0; (kernels = flmem_kernels_at(k)); k++)
		for (size_t f = 0; kernels->supported() && f < FLMEM_ARRAY_SIZE(formats); f++) {
			const struct format *format = &formats[f];
			uint8_t from[VALUES], to[VALUES];
			double values[VALUES];

			for (unsigned i = 0; i < VALUES; i++)
				from[i] = (uint8_t)i;
			kernels->load[format->element](from, values, VALUES);
			kernels->store[format->element](values, to, VALUES);
			for (unsigned i = 0; i < VALUES; i++) {
				double x = value_of(format, i);

				assert_true(is_same(values[i], x));
				assert_int_equal(to[i], isnan(x) ? format->nan : i);
			}
		}
}

/* Lists the numbers of the type, the middles between them, and the doubles next to each. */
static size_t list_borders(const struct format *format, double *values)
{
	static const double more[] = {0, DBL_TRUE_MIN, DBL_MIN, 1e30, DBL_MAX, INFINITY, NAN};
	size_t count = 0;

	for (unsigned bits = 0; bits < format->finite; bits++) {
		double low = size_of(format, bits), high = size_of(format, bits + 1);
		const double around[] = {low, (low + high) / 2, high};

		for (size_t i = 0; i < FLMEM_ARRAY_SIZE(around); i++)
			for (int side = -1; side <= 1; side++)
				values[count++] =
					side ? nextafter(around[i], side * DBL_MAX) : around[i];
	}
	memcpy(values + count, more, sizeof(more));
	count += FLMEM_ARRAY_SIZE(more);
	for (size_t i = 0; i < count; i++)
		values[count + i] = -values[i];
	return 2 * count;
}

static void doubles_are_rounded_at_every_border(void **state)
{
	static double values[TRIED];
	const struct flmem_kernels *kernels;

	(void)state;
	for (size_t f = 0; f < FLMEM_ARRAY_SIZE(formats); f++) {
		size_t count = list_borders(&formats[f], values);
		uint8_t to[TRIED];

		assert_true(count <= TRIED);
		for (size_t k = 0; (kernels = flmem_kernels_at(k)); k++) {
			if (!kernels->supported())
				continue;
			kernels->store[formats[f].element](values, to, count);
			for (size_t i = 0; i < count; i++)
				if (to[i] != bits_for(&formats[f], values[i]))
					fail_msg("%s, %s: %a is stored as %#x", kernels->name,
						 formats[f].name, values[i], to[i]);
		}
	}
}

static void write_pairs(const char *path, const struct format *format, bool upper)
{
	char bytes[HEAD + PAIRS];
	uint64_t length = HEAD - 8;
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	memset(bytes, ' ', HEAD);
	memcpy(bytes, &length, sizeof(length));
	/* The NUL becomes a space again. */
	bytes[8 + snprintf(bytes + 8, HEAD - 8, HEADER, format->name, PAIRS, PAIRS)] = ' ';
	for (unsigned i = 0; i < PAIRS; i++)
		bytes[HEAD + i] = (char)(upper ? i / VALUES : i % VALUES);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
	close(fd);
}

/* Reads the elements of a file, which are its last bytes. */
static void read_elements(const char *path, void *elements, size_t bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, elements, bytes, lseek(fd, 0, SEEK_END) - (off_t)bytes), bytes);
	close(fd);
}

static void average(char *const *paths, const char *output, enum flmem_nan_policy policy, int code)
{
	const struct flmem_aggregate_request request = {
		.output = output,
		.inputs = (const char *const *)paths,
		.input_count = 2,
		.nan = policy,
		.threads = 1,
	};
	struct flmem_aggregate_result result = {0};
	struct flmem_error err = {0};

	assert_int_equal(flmem_aggregate(&request, &result, &err), code);
	assert_true(!code || strstr(err.message, "NaN"));
	flmem_aggregate_result_clear(&result);
}

static void check_converted(const struct format *format, const char *from, const char *to)
{
	const struct flmem_convert_request request = {.input = from, .output = to, .dtype = "F32"};
	static float floats[PAIRS];
	static uint8_t bits[PAIRS];
	struct flmem_conversion conversion;

	assert_int_equal(flmem_convert(&request, &conversion, NULL), 0);
	assert_int_equal(conversion.converted, 1);
	read_elements(from, bits, sizeof(bits));
	read_elements(to, floats, sizeof(floats));
	for (unsigned i = 0; i < PAIRS; i++)
		assert_true(is_same((double)floats[i], value_of(format, bits[i])));
}

static void check_files(const struct format *format, const char *folder)
{
	static const char names[4][8] = {"upper", "lower", "out", "floats"};
	static uint8_t means[PAIRS];
	char *paths[4];

	for (int i = 0; i < 4; i++)
		assert_true(asprintf(&paths[i], "%s/%s", folder, names[i]) > 0);
	write_pairs(paths[0], format, true);
	write_pairs(paths[1], format, false);
	average(paths, paths[2], FLMEM_NAN_REJECT, FLMEM_EUSAGE);
	average(paths, paths[2], FLMEM_NAN_PROPAGATE, 0);
	read_elements(paths[2], means, sizeof(means));
	for (unsigned i = 0; i < PAIRS; i++) {
		double a = value_of(format, i / VALUES), b = value_of(format, i % VALUES);

		assert_int_equal(means[i], bits_for(format, (a + b) / 2));
	}
	check_converted(format, paths[2], paths[3]);
	check_converted(format, paths[0], paths[3]);
	for (int i = 0; i < 4; i++)
		free(paths[i]);
}

static void every_pair_is_averaged_in_files_and_converted(void **state)
{
	(void)state;
	for (size_t f = 0; f < FLMEM_ARRAY_SIZE(formats); f++) {
		struct tree tree;

		tree_init(&tree);
		check_files(&formats[f], tree.path);
		tree_clear(&tree);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_definition_has_its_known_values),
		cmocka_unit_test(every_value_is_loaded_and_stored),
		cmocka_unit_test(doubles_are_rounded_at_every_border),
		cmocka_unit_test(every_pair_is_averaged_in_files_and_converted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
