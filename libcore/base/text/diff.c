/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/diff.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define CONTEXT 3U
#define REACH	64U /* number of lines searched ahead for a place where the texts agree again */

struct diff_lines {
	const char **starts; /* one more entry than lines: the last is the end of the text */
	size_t count;
};

/* A range of lines that differ: [a, a_end) of the first text against [b, b_end) of the second. */
struct line_change {
	size_t a, a_end, b, b_end;
};

static bool split_lines(const char *text, struct diff_lines *lines)
{
	size_t count = 0;

	for (const char *p = text; *p; p += strcspn(p, "\n"), p += *p == '\n')
		count++;
	lines->starts = calloc(count + 1, sizeof(*lines->starts));
	if (!lines->starts)
		return false;
	for (lines->count = 0; lines->count < count; lines->count++) {
		lines->starts[lines->count] = text;
		text += strcspn(text, "\n");
		text += *text == '\n';
	}
	lines->starts[count] = text;
	return true;
}

static bool is_same_line(const struct diff_lines *a, size_t i, const struct diff_lines *b, size_t j)
{
	size_t length = (size_t)(a->starts[i + 1] - a->starts[i]);

	return length == (size_t)(b->starts[j + 1] - b->starts[j]) &&
	       memcmp(a->starts[i], b->starts[j], length) == 0;
}

/*
 * Finds the nearest following pair of equal lines; returns the ends of both texts when none is
 * within REACH.
 */
static struct line_change next_change(const struct diff_lines *a, size_t i,
				      const struct diff_lines *b, size_t j)
{
	struct line_change change = {.a = i, .b = j, .a_end = a->count, .b_end = b->count};

	for (size_t sum = 1; sum <= REACH; sum++) {
		for (size_t x = 0; x <= sum; x++) {
			if (i + x >= a->count || j + sum - x >= b->count ||
			    !is_same_line(a, i + x, b, j + sum - x))
				continue;
			change.a_end = i + x;
			change.b_end = j + sum - x;
			return change;
		}
	}
	return change;
}

static void put_diff_line(const struct diff_lines *lines, size_t index, char mark,
			  struct flmem_buf *out)
{
	size_t length = (size_t)(lines->starts[index + 1] - lines->starts[index]);

	flmem_buf_putc(out, mark);
	flmem_buf_append(out, lines->starts[index], length);
	if (lines->starts[index][length - 1] != '\n')
		flmem_buf_puts(out, "\n\\ No newline at end of file\n");
}

static void put_lines(const struct diff_lines *lines, size_t from, size_t to, char mark,
		      struct flmem_buf *out)
{
	for (; from < to; from++)
		put_diff_line(lines, from, mark, out);
}

static void put_range(char mark, size_t start, size_t count, struct flmem_buf *out)
{
	flmem_buf_printf(out, "%c%zu,%zu ", mark, count ? start + 1 : start, count);
}

/* Writes one hunk: the changes from `first` up to `end`, whose contexts touch. */
static void put_hunk(const struct diff_lines *a, const struct diff_lines *b,
		     const struct line_change *changes, size_t count, struct flmem_buf *out)
{
	const struct line_change *first = changes, *last = changes + count - 1;
	size_t lead = first->a < CONTEXT ? first->a : CONTEXT;
	size_t tail = a->count - last->a_end < CONTEXT ? a->count - last->a_end : CONTEXT;

	flmem_buf_puts(out, "@@ ");
	put_range('-', first->a - lead, last->a_end + tail - (first->a - lead), out);
	put_range('+', first->b - lead, last->b_end + tail - (first->b - lead), out);
	flmem_buf_puts(out, "@@\n");
	put_lines(a, first->a - lead, first->a, ' ', out);
	for (size_t i = 0; i < count; i++) {
		put_lines(a, changes[i].a, changes[i].a_end, '-', out);
		put_lines(b, changes[i].b, changes[i].b_end, '+', out);
		if (i + 1 < count)
			put_lines(a, changes[i].a_end, changes[i + 1].a, ' ', out);
	}
	put_lines(a, last->a_end, last->a_end + tail, ' ', out);
}

/* Returns all ranges that differ; NULL when out of memory. */
static struct line_change *find_changes(const struct diff_lines *a, const struct diff_lines *b,
					size_t *ret_count)
{
	struct line_change *changes = NULL;
	size_t i = 0, j = 0, count = 0;

	while (i < a->count || j < b->count) {
		struct line_change *grown;

		if (i < a->count && j < b->count && is_same_line(a, i, b, j)) {
			i++;
			j++;
			continue;
		}
		grown = reallocarray(changes, count + 1, sizeof(*grown));
		if (!grown) {
			free(changes);
			return NULL;
		}
		changes = grown;
		changes[count] = next_change(a, i, b, j);
		i = changes[count].a_end;
		j = changes[count].b_end;
		count++;
	}
	*ret_count = count;
	return changes;
}

void flmem_diff_unified(const char *name, const char *before, const char *after,
			struct flmem_buf *out)
{
	struct diff_lines a = {0}, b = {0};
	struct line_change *changes = NULL;
	size_t count = 0, end;

	if (!split_lines(before, &a) || !split_lines(after, &b))
		out->failed = true;
	else
		changes = find_changes(&a, &b, &count);
	if (count)
		flmem_buf_printf(out, "--- %s\n+++ %s\n", name, name);
	for (size_t start = 0; start < count; start = end) {
		end = start + 1;
		while (end < count && changes[end].a - changes[end - 1].a_end <= 2 * CONTEXT)
			end++;
		put_hunk(&a, &b, changes + start, end - start, out);
	}
	free(changes);
	free(a.starts);
	free(b.starts);
}
