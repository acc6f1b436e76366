/* SPDX-License-Identifier: Apache-2.0 */
/* Tests generated models: their values, their tensors, and the check of means of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "aggregate/exact_mean.h"
#include "model/known_models.h"
#include "model/shapes.h"

#define GROUP  FLMEM_GENERATOR_GROUP
#define GROUPS 7U
#define COUNT  (GROUPS * GROUP)

/* The first numbers of SplitMix64 with seed 0, as its authors' splitmix64.c prints them. */
static void numbers_are_those_of_splitmix64(void **state)
{
	(void)state;
	assert_true(flmem_generator_number(0, 0) == UINT64_C(0xe220a8397b1dcdaf));
	assert_true(flmem_generator_number(0, 1) == UINT64_C(0x6e789e6aa1b965f4));
	assert_true(flmem_generator_number(0, 2) == UINT64_C(0x06c45d188009454f));
}

static void every_instruction_set_makes_the_same_values(void **state)
{
	double row[COUNT];
	int32_t units[GROUP];

	(void)state;
	for (unsigned kind = 0; kind < 4; kind++) {
		struct flmem_generator generator;

		flmem_generator_init(&generator, "layer.weight", kind & 1, 5, kind & 2);
		for (size_t k = 0; flmem_kernels_at(k); k++) {
			if (!flmem_kernels_at(k)->supported())
				continue;
			flmem_kernels_at(k)->generate(&generator, UINT64_C(1) << 33, row, GROUPS);
			for (size_t i = 0; i < COUNT; i++) {
				flmem_generator_units(&generator, (UINT64_C(1) << 33) + i / GROUP,
						      units);
				assert_true(row[i] == units[i % GROUP] * FLMEM_GENERATOR_UNIT);
			}
		}
	}
}

static void clients_vary_the_model_of_their_seed(void **state)
{
	struct flmem_generator base, client, other;
	int32_t units[3][GROUP];
	size_t changed = 0, apart = 0;

	(void)state;
	flmem_generator_init(&base, "w", false, 1, 0);
	flmem_generator_init(&client, "w", false, 1, 9);
	flmem_generator_init(&other, "v", false, 1, 0);
	flmem_generator_units(&base, 3, units[0]);
	flmem_generator_units(&client, 3, units[1]);
	flmem_generator_units(&other, 3, units[2]);
	for (size_t i = 0; i < GROUP; i++) {
		assert_in_range(units[0][i] + (1 << 23), 0, (1 << 24) - 1);
		assert_in_range(units[1][i] - units[0][i] + (1 << 19), 0, 1 << 20);
		changed += units[1][i] != units[0][i];
		apart += units[2][i] != units[0][i];
	}
	assert_true(changed > GROUP / 2 && apart > GROUP / 2);
}

/* Writes the aggregation's result to `out`. */
static void average(const struct flmem_generator *const *generators, const int64_t *weights,
		    size_t inputs, enum flmem_element element, char *out)
{
	const struct flmem_kernels *kernels = flmem_kernels_best();
	double row[COUNT], sum[COUNT], total = 0;

	for (size_t i = 0; i < inputs; i++) {
		kernels->generate(generators[i], 0, row, GROUPS);
		kernels->store[element](row, out, COUNT);
		kernels->load[element](out, row, COUNT);
		if (i)
			kernels->add(row, (double)weights[i], sum, COUNT);
		else
			kernels->scale(row, (double)weights[i], sum, COUNT);
		total += (double)weights[i];
	}
	kernels->divide(sum, total, COUNT);
	kernels->store[element](sum, out, COUNT);
}

static void exact_means_are_accepted_and_others_found(void **state)
{
	static const int64_t weights[][3] = {{1, 1, 1}, {1, 7, 1000}, {524288, 1, 524287}};
	struct flmem_generator made[3];
	const struct flmem_generator *generators[3] = {&made[0], &made[1], &made[2]};
	char out[COUNT * sizeof(double)];

	(void)state;
	for (unsigned kind = 0; kind < 6 * FLMEM_ARRAY_SIZE(weights); kind++) {
		enum flmem_element element = kind % 6;
		size_t bytes = flmem_element_bytes(element);
		struct flmem_exact_mean mean = {generators, weights[kind / 6], 3, element, NULL, 0};

		for (uint64_t i = 0; i < 3; i++)
			flmem_generator_init(&made[i], "bn.weight", kind % 2, 3, i);
		average(generators, weights[kind / 6], 3, element, out);
		assert_int_equal(flmem_exact_mean_compare(&mean, 0, COUNT, out), COUNT);
		assert_int_equal(flmem_exact_mean_compare(&mean, 37, 50, out + 37 * bytes), 50);
		for (size_t i = 0; i < COUNT; i++) {
			out[i * bytes] ^= 1; /* the last bit of an element */
			assert_int_equal(flmem_exact_mean_compare(&mean, 0, COUNT, out), i);
			assert_int_equal(flmem_exact_mean_compare(&mean, i, 1, out + i * bytes), 0);
			out[i * bytes] ^= 1;
		}
	}
}

/* A foreign update differs in one bit: of the value, or the sign. */
static void wrong_inputs_are_found_with_their_number(void **state)
{
	static const int64_t weights[3] = {1, 7, 1000};
	const struct flmem_kernels *kernels = flmem_kernels_best();
	static char inputs[3][COUNT * sizeof(double)];
	struct flmem_generator made[3];
	const struct flmem_generator *generators[3] = {&made[0], &made[1], &made[2]};
	const void *found[3] = {inputs[0], inputs[1], inputs[2]};
	char out[COUNT * sizeof(double)];
	double row[COUNT];

	(void)state;
	for (enum flmem_element element = 0; element < 6; element++) {
		struct flmem_exact_mean mean = {generators, weights, 3, element, found, 0};
		size_t bytes = flmem_element_bytes(element);

		for (uint64_t i = 0; i < 3; i++) {
			flmem_generator_init(&made[i], "fc.weight", false, 3, i);
			kernels->generate(&made[i], 0, row, COUNT / FLMEM_GENERATOR_GROUP);
			kernels->store[element](row, inputs[i], COUNT);
		}
		average(generators, weights, 3, element, out);
		assert_int_equal(flmem_exact_mean_compare(&mean, 0, COUNT, out), COUNT);
		for (size_t i = 0; i < 3 * COUNT; i++) {
			size_t input = i % 3, e = i / 3, at = e * bytes + (i % 2 ? bytes - 1 : 0);
			char bit = i % 2 ? (char)0x80 : 1;

			inputs[input][at] ^= bit;
			assert_int_equal(flmem_exact_mean_compare(&mean, 0, COUNT, out), e);
			assert_int_equal(mean.wrong_input, input);
			inputs[input][at] ^= bit;
		}
		out[5 * bytes] ^= 1;
		assert_int_equal(flmem_exact_mean_compare(&mean, 0, COUNT, out), 5);
		assert_int_equal(mean.wrong_input, 3);
	}
}

static void shapes_have_the_tensors_of_the_models(void **state)
{
	static const struct {
		const char *shape;
		uint64_t tensors, elements;
	} rows[] = {
		/* 11,689,512 parameters; 20 normalisations with 9,600 running values and a count */
		{"resnet18", 122, 11689512 + 9600 + 20},
		{"llama-3.2-1b", 146, 1235814400},
		{"llama-3.1-8b", 291, 8030261248},
		{"llama-3.1-70b", 723, 70553706496},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		const struct flmem_known_model *known = flmem_known_model_find(rows[i].shape);
		FLMEM_AUTO_TENSOR_LIST struct flmem_tensor_list list = {0};
		struct flmem_tensors measured;
		uint64_t elements = 0;

		assert_int_equal(flmem_shape_list(rows[i].shape, NULL, &list, NULL), 0);
		assert_int_equal(list.count, rows[i].tensors);
		for (size_t t = 0; t < list.count; t++)
			elements += list.tensors[t].bytes * 8 / list.tensors[t].dtype->bits;
		assert_true(elements == rows[i].elements);
		if (!known)
			continue;
		flmem_known_model_measure(known, flmem_dtype_find("bf16"), &measured);
		assert_true(measured.bytes == list.data_bytes && measured.count == list.count);
	}
}

static void an_unknown_shape_is_refused_with_the_known_ones(void **state)
{
	struct flmem_tensor_list list = {0};
	struct flmem_error err = {0};

	(void)state;
	assert_int_equal(flmem_shape_list("resnet19", NULL, &list, &err), FLMEM_EUSAGE);
	assert_non_null(strstr(err.message, "choose from resnet18, "));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_are_those_of_splitmix64),
		cmocka_unit_test(every_instruction_set_makes_the_same_values),
		cmocka_unit_test(clients_vary_the_model_of_their_seed),
		cmocka_unit_test(exact_means_are_accepted_and_others_found),
		cmocka_unit_test(wrong_inputs_are_found_with_their_number),
		cmocka_unit_test(shapes_have_the_tensors_of_the_models),
		cmocka_unit_test(an_unknown_shape_is_refused_with_the_known_ones),
	};

	return cmocka_run_group_tests_name("generator", tests, NULL, NULL);
}
