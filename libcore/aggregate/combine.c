/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregate/combine.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_BYTES   (24U << 10) /* most first-level caches have 32 KiB or more */
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

/* 64-bit integers beyond 2^53 are not doubles; where all agree there is nothing to compute. */
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

/* As many elements as fit a row. */
static bool combine_rows(const struct flmem_combination *c, struct flmem_combine_rows *rows,
			 enum flmem_element element, char *const *buffers, size_t at, size_t count)
{
	size_t sources = flmem_combination_sources(c);
	double *result = rows->rows[sources];
	bool finite = true;

	for (size_t i = 0; i < sources; i++) {
		c->kernels->load[element](buffers[i] + at, rows->rows[i], count);
		if (!c->algorithm->passes_special)
			finite &= c->kernels->finite(rows->rows[i], count);
	}
	c->algorithm->combine(c, rows->rows, count, result);
	if (c->algorithm->passes_special)
		finite = c->kernels->finite(result, count);
	c->kernels->store[element](result, buffers[sources] + at, count);
	return finite;
}

bool flmem_combine(const struct flmem_combination *c, struct flmem_combine_rows *rows,
		   enum flmem_element element, char *const *buffers, size_t at, size_t count)
{
	size_t bytes = flmem_element_bytes(element), some;
	bool finite = true;

	for (size_t done = 0; done < count; done += some) {
		some = count - done < rows->length ? count - done : rows->length;
		finite &= combine_rows(c, rows, element, buffers, at + done * bytes, some);
	}
	if (!flmem_element_is_real(element))
		copy_equal(c, bytes, buffers, at, at + count * bytes);
	return finite;
}
