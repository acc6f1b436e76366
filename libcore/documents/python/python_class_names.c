/* SPDX-License-Identifier: Apache-2.0 */
#include "documents/python/python_class_names.h"

#include <stdio.h>
#include <string.h>

#include "documents/python/python_nodes.h"

#define HELD_MAX 32U /* further ones are not searched for calls */

/* "name = imported" in the body of a class. */
struct held_name {
	char name[FLMEM_PYTHON_DOTTED_MAX], path[FLMEM_PYTHON_DOTTED_MAX];
	struct flmem_place place;
	bool called;
};

struct class_search {
	struct flmem_cursor *cursor;
	const struct flmem_python_names *names;
	struct flmem_python_reader reader;
	struct flmem_node *list;
	size_t class_column, function_column; /* of the last statement of each kind; 0: none */
	struct held_name held[HELD_MAX];
	size_t count;
	size_t read_to; /* the "=" of the last "name: type =", in which no statement begins */
};

/* Whether a statement at this column is in the body of the last class, outside of its functions. */
static bool is_in_class(const struct class_search *search, size_t column)
{
	bool in_function =
		search->function_column > search->class_column && column > search->function_column;

	return search->class_column && column > search->class_column && !in_function;
}

static void begin_scope(struct class_search *search, size_t column, bool class)
{
	/* A scope that begins here ends those that are as deep. */
	if (search->class_column >= column)
		search->class_column = 0;
	if (search->function_column >= column)
		search->function_column = 0;
	*(class ? &search->class_column : &search->function_column) = column;
}

static int note_held(struct class_search *search, const char *name, const char *value,
		     const struct flmem_place *place)
{
	struct held_name *held = &search->held[search->count];
	char path[FLMEM_PYTHON_DOTTED_MAX];

	if (!*name || !*value || strchr(name, '.') ||
	    !flmem_python_names_find(search->names, value, place->start, 0, path))
		return 0;
	if (search->count == HELD_MAX)
		return flmem_python_path_add(search->cursor, search->list, path, place);
	*held = (struct held_name){.place = *place};
	snprintf(held->name, sizeof(held->name), "%s", name);
	snprintf(held->path, sizeof(held->path), "%s", path);
	search->count++;
	return 0;
}

/* "name = imported" and "name: type = imported", with the reader at the name. */
static int read_held_member(struct class_search *search)
{
	struct flmem_python_reader ahead = search->reader;
	char name[FLMEM_PYTHON_DOTTED_MAX], value[FLMEM_PYTHON_DOTTED_MAX];
	struct flmem_place place;

	flmem_python_dotted(&ahead, name);
	if (flmem_python_is(&ahead.word, ":"))
		while (!flmem_python_ends(&ahead.word) && !flmem_python_is(&ahead.word, "="))
			flmem_python_advance(&ahead);
	place = ahead.word.place;
	search->read_to = place.start;
	if (!flmem_python_accept(&ahead, "=") || ahead.word.kind != FLMEM_PYTHON_NAME)
		return 0;
	flmem_python_dotted(&ahead, value);
	return flmem_python_ends(&ahead.word) ? note_held(search, name, value, &place) : 0;
}

static int read_class_word(struct class_search *search)
{
	const struct flmem_python_word *word = &search->reader.word;
	struct flmem_python_reader ahead = search->reader;

	if (word->kind != FLMEM_PYTHON_NAME || word->place.start < search->read_to ||
	    !flmem_python_at_statement(&search->reader))
		return 0;
	flmem_python_accept(&ahead, "async");
	if (flmem_python_is(&ahead.word, "class") || flmem_python_is(&ahead.word, "def"))
		begin_scope(search, word->place.column, flmem_python_is(&ahead.word, "class"));
	else if (is_in_class(search, word->place.column))
		return read_held_member(search);
	return 0;
}

/* "a.name(...)", not "a().name(...)". */
static void note_class_call(struct class_search *search)
{
	char dotted[FLMEM_PYTHON_DOTTED_MAX];
	struct flmem_python_reader ahead = search->reader;
	const char *last;

	if (ahead.word.kind != FLMEM_PYTHON_NAME || flmem_python_is(&ahead.before, "."))
		return;
	flmem_python_dotted(&ahead, dotted);
	last = strrchr(dotted, '.');
	if (!last || !flmem_python_is(&ahead.word, "("))
		return;
	for (size_t i = 0; i < search->count; i++)
		if (strcmp(search->held[i].name, last + 1) == 0)
			search->held[i].called = true;
}

int flmem_python_class_names_read(struct flmem_cursor *cursor,
				  const struct flmem_python_names *names,
				  const struct flmem_python_source *source, struct flmem_node *list)
{
	struct class_search search = {.cursor = cursor, .names = names, .list = list};
	int rc = 0;

	for (size_t i = 0; i < source->count && !rc; i++) {
		flmem_python_start(&search.reader, source, i);
		search.read_to = 0;
		for (; search.reader.word.kind != FLMEM_PYTHON_END && !rc;
		     flmem_python_advance(&search.reader))
			rc = read_class_word(&search);
	}
	for (size_t i = 0; i < source->count && search.count && !rc; i++) {
		flmem_python_start(&search.reader, source, i);
		for (; search.reader.word.kind != FLMEM_PYTHON_END;
		     flmem_python_advance(&search.reader))
			note_class_call(&search);
	}
	for (size_t i = 0; i < search.count && !rc; i++)
		if (!search.held[i].called)
			rc = flmem_python_path_add(cursor, list, search.held[i].path,
						   &search.held[i].place);
	return rc;
}
