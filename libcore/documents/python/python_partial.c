/* SPDX-License-Identifier: Apache-2.0 */
#include "documents/python/python_partial.h"

#include <stdbool.h>
#include <string.h>

#define PARTIAL "functools.partial"

static const char *const positions[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8"};

/* The position of an argument "0" to "8"; -1 for any other argument. */
static int position_of(const struct flmem_node *arg)
{
	return arg->key[0] >= '0' && arg->key[0] <= '8' && !arg->key[1] ? arg->key[0] - '0' : -1;
}

static bool unfold_partial(struct flmem_node *path, struct flmem_node *args,
			   struct flmem_node *value)
{
	struct flmem_node *first = args->first;

	if (strcmp(path->text, PARTIAL) != 0 || !first || strcmp(first->key, "0") != 0 ||
	    first->kind != FLMEM_NODE_EXPRESSION || !strchr(first->text, '.'))
		return false;
	path->text = first->text;
	first->key = "**";
	if (value && value->place.start == first->place.start)
		value->text = "";
	for (struct flmem_node *n = first->next; n; n = n->next)
		if (n->key[0] >= '1' && n->key[0] <= '9' && !n->key[1])
			n->key = positions[n->key[0] - '1'];
	return true;
}

/* Increases the positions of arguments by `count`, so that they follow those given to partial(). */
static void shift_positions(struct flmem_node *args, int count)
{
	for (struct flmem_node *n = args->first; n; n = n->next) {
		int position = position_of(n);

		if (position >= 0 && position + count < 9)
			n->key = positions[position + count];
	}
}

static int complete_partial(struct flmem_cursor *cursor, struct flmem_node *partial,
			    struct flmem_node *args)
{
	/* The first argument of partial() is the function. */
	const struct flmem_node *given = partial->last->first->next;
	struct flmem_node *own = args->first, *last = args->last;
	int count = 0;

	for (const struct flmem_node *n = given; n; n = n->next)
		count += position_of(n) >= 0;
	shift_positions(args, count);
	args->first = args->last = NULL;
	for (; given && !cursor->code; given = given->next) {
		struct flmem_node *copy =
			flmem_cursor_add(cursor, args, given->key, &given->key_place);

		if (!copy)
			break;
		copy->kind = given->kind;
		copy->text = given->text;
		copy->place = given->place;
		copy->first = given->first;
		copy->last = given->last;
	}
	for (struct flmem_node *n = own; n; n = n->next)
		n->index += args->last ? args->last->index + 1 : 0;
	if (args->last)
		args->last->next = own;
	else
		args->first = own;
	args->last = last ? last : args->last;
	partial->first->text = PARTIAL;
	return cursor->code;
}

/* The functools.partial() call that a called name stands for; NULL if there is none. */
static struct flmem_node *find_partial(const struct flmem_python_partials *partials, size_t start)
{
	for (size_t i = 0; start && i < partials->count; i++)
		if (partials->rows[i]->place.start == start)
			return partials->rows[i];
	return NULL;
}

int flmem_python_partial_resolve(struct flmem_cursor *cursor,
				 const struct flmem_python_names *names,
				 struct flmem_python_partials *partials, const char *name,
				 struct flmem_node *call, struct flmem_node *value)
{
	size_t start = *name ? flmem_python_names_partial(names, name, call->place.start) : 0;
	struct flmem_node *partial = find_partial(partials, start);

	if (partial)
		return complete_partial(cursor, partial, call->last);
	if (unfold_partial(call->first, call->last, value) &&
	    partials->count < FLMEM_PYTHON_PARTIALS_MAX)
		partials->rows[partials->count++] = call;
	return 0;
}
