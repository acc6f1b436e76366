/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregate/combine.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_BYTES   (24U << 10) /* fits the first-level cache, which mostly has 32 KiB or more */
#define ROW_SHORTEST 64U

bool flmem_combine_rows_init(struct flmem_combine_rows *rows, size_t inputs)
{
	size_t length = ROWS_BYTES / sizeof(double) / (inputs + 1) / ROW_SHORTEST * ROW_SHORTEST;

	length = length < ROW_SHORTEST ? ROW_SHORTEST : length;
	rows->length = length > FLMEM_ROW_LONGEST ? FLMEM_ROW_LONGEST : length;
	rows->rows = calloc(inputs + 1, sizeof(*rows->rows));
	rows->memory = aligned_alloc(ROW_SHORTEST, (inputs + 1) * rows->length * sizeof(double));
	if (!rows->rows || !rows->memory) {
		flmem_combine_rows_clear(rows);
		return false;
	}
	for (size_t i = 0; i <= inputs; i++)
		rows->rows[i] = rows->memory + i * rows->length;
	return true;
}

void flmem_combine_rows_clear(struct flmem_combine_rows *rows)
{
	free(rows->rows);
	free(rows->memory);
	*rows = (struct flmem_combine_rows){0};
}

/*
 * 64-bit integers beyond 2^53 are not exact as doubles. Where all inputs agree, their value is
 * copied and nothing has to be computed.
 */
static void copy_equal(const struct flmem_combination *c, size_t bytes, char *const *buffers,
		       size_t at, size_t end)
{
	char *out = buffers[flmem_combination_sources(c)];

	for (; at < end; at += bytes) {
		size_t i = 1;

		while (i < c->inputs && memcmp(buffers[0] + at, buffers[i] + at, bytes) == 0)
			i++;
		if (i == c->inputs)
			memcpy(out + at, buffers[0] + at, bytes);
	}
}

static void load_state(const struct flmem_combination *c, const struct flmem_combine_state *state,
		       double *const *rows, size_t done, size_t count)
{
	size_t offset = done * flmem_element_bytes(state->element);

	for (size_t i = 0; i < c->algorithm->slots; i++)
		c->kernels->load[state->element](state->slots[i] + offset, rows[i], count);
}

static void store_state(const struct flmem_combination *c, const struct flmem_combine_state *state,
			double *const *rows, size_t done, size_t count)
{
	size_t offset = done * flmem_element_bytes(state->element);

	for (size_t i = 0; i < c->algorithm->slots; i++)
		c->kernels->store[state->element](rows[i], state->slots[i] + offset, count);
}

/*
 * Checks the result and the state as they are stored: a value that is finite in 64 bits may be
 * infinite in the stored type, and would stay so in all later rounds.
 */
static bool is_stored_finite(const struct flmem_combination *c,
			     const struct flmem_combine_rows *rows,
			     const struct flmem_combine_array *array, size_t done, size_t count)
{
	size_t sources = flmem_combination_sources(c), slots = c->algorithm->slots;
	double *const *state = rows->rows + sources, *result = rows->rows[sources + slots];
	size_t at = array->at + done * flmem_element_bytes(array->element);
	bool finite;

	c->kernels->load[array->element](array->buffers[sources] + at, result, count);
	finite = c->kernels->finite(result, count);
	load_state(c, array->state, state, done, count);
	for (size_t i = 0; i < slots; i++)
		finite &= c->kernels->finite(state[i], count);
	return finite;
}

/*
 * Combines `count` elements, at most as many as fit a row. True if all that were read are finite.
 */
static bool combine_rows(const struct flmem_combination *c, struct flmem_combine_rows *rows,
			 const struct flmem_combine_array *array, size_t done, size_t count)
{
	size_t sources = flmem_combination_sources(c),
	       slots = array->state ? c->algorithm->slots : 0;
	size_t at = array->at + done * flmem_element_bytes(array->element);
	double *result = rows->rows[sources + slots];
	bool finite = true;

	for (size_t i = 0; i < sources; i++) {
		c->kernels->load[array->element](array->buffers[i] + at, rows->rows[i], count);
		if (!c->algorithm->passes_special)
			finite &= c->kernels->finite(rows->rows[i], count);
	}
	if (slots && !c->first_round)
		load_state(c, array->state, rows->rows + sources, done, count);
	(c->algorithm->slots && !slots ? &flmem_fedavg : c->algorithm)
		->combine(c, rows->rows, count, result);
	if (slots)
		store_state(c, array->state, rows->rows + sources, done, count);
	if (c->algorithm->passes_special)
		finite = c->kernels->finite(result, count);
	c->kernels->store[array->element](result, array->buffers[sources] + at, count);
	if (slots && finite)
		finite = is_stored_finite(c, rows, array, done, count);
	return finite;
}

static bool put_mean(const struct flmem_combination *c, const struct flmem_combine_array *array)
{
	const struct flmem_mean mean = {
		.from = array->buffers,
		.weights = c->weights,
		.inputs = c->inputs,
		.total = c->total,
	};

	return c->kernels->mean[array->element](
		&mean, array->at, array->buffers[flmem_combination_sources(c)] + array->at,
		array->count);
}

bool flmem_combine(const struct flmem_combination *c, struct flmem_combine_rows *rows,
		   const struct flmem_combine_array *array)
{
	size_t bytes = flmem_element_bytes(array->element), some;
	bool finite = true;

	if (c->algorithm->is_mean && c->kernels->mean[array->element])
		return put_mean(c, array);
	for (size_t done = 0; done < array->count; done += some) {
		some = array->count - done < rows->length ? array->count - done : rows->length;
		finite &= combine_rows(c, rows, array, done, some);
	}
	if (!flmem_element_is_real(array->element))
		copy_equal(c, bytes, array->buffers, array->at, array->at + array->count * bytes);
	return finite;
}
