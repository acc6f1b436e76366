/* SPDX-License-Identifier: Apache-2.0 */
#include "documents/python/python_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Limits: words that are searched for the end of a statement, and rounds in which assignments of
 * names that were assigned themselves are followed.
 */
#define STATEMENT_MAX 256
#define ALIAS_ROUNDS  3
#define MEMBERS_MAX   4 /* members of "a.b.c.d" that may be an assigned attribute */

/* A pass over the source. */
struct names_pass {
	struct flmem_cursor *cursor;
	struct flmem_python_reader reader;
	const struct flmem_python_names *names; /* names of the pass before, or NULL */
	struct flmem_python_bindings *found;
	/* The "=" or the end of the statement, for all words from `equals_from` on. */
	struct flmem_python_reader equals;
	size_t equals_from;
};

void flmem_python_names_clear(struct flmem_python_names *names)
{
	free(names->imports.rows);
	free(names->sorted.rows);
	*names = (struct flmem_python_names){0};
}

static int add_row(struct flmem_cursor *cursor, struct flmem_python_bindings *bindings,
		   const struct flmem_python_binding *row)
{
	struct flmem_python_binding *grown = bindings->rows;

	if (bindings->count == FLMEM_DOCUMENT_NODES_MAX)
		return flmem_cursor_fail_at(cursor, &row->place, "too many imports");
	/* The capacity doubles whenever the count reaches a power of two. */
	if (!(bindings->count & (bindings->count - 1)))
		grown = reallocarray(grown, bindings->count ? bindings->count * 2 : 1,
				     sizeof(*grown));
	if (!grown)
		return cursor->code = flmem_error_nomem(cursor->err, "cannot store the imports");
	bindings->rows = grown;
	grown[bindings->count++] = *row;
	return 0;
}

/* Binds a name. A `path` of NULL means that the name is not imported from here on. */
static int bind_import(struct names_pass *pass, const char *name, const char *path,
		       const struct flmem_place *place)
{
	struct flmem_python_binding row = {.place = *place,
					   .assigned = pass->found != &pass->names->imports};

	if (!*name)
		return 0;
	row.name = flmem_cursor_keep(pass->cursor, name, strlen(name));
	row.path = path ? flmem_cursor_keep(pass->cursor, path, strlen(path)) : NULL;
	if (!row.name || (path && !row.path))
		return FLMEM_EFAILED;
	return add_row(pass->cursor, pass->found, &row);
}

/* Reads import a.b as c, d: without "as", the first part of the name is bound. */
static int read_import(struct names_pass *pass)
{
	struct flmem_python_reader *reader = &pass->reader;
	struct flmem_place place = reader->before.place;
	int rc = 0;

	do {
		char module[FLMEM_PYTHON_DOTTED_MAX], name[FLMEM_PYTHON_DOTTED_MAX];

		flmem_python_dotted(reader, module);
		place.end = reader->before.place.end;
		if (flmem_python_accept(reader, "as")) {
			flmem_python_dotted(reader, name);
			rc = bind_import(pass, name, module, &place);
			continue;
		}
		/* Adds two rows: the name is the first part, the imported path is the whole. */
		rc = bind_import(pass, module, module, &place);
		if (!rc && strchr(module, '.')) {
			*strchr(module, '.') = '\0';
			rc = bind_import(pass, module, module, &place);
		}
	} while (!rc && flmem_python_accept(reader, ","));
	return rc;
}

static int bind_member(struct names_pass *pass, const char *module, const char *member,
		       const char *name, const struct flmem_place *place)
{
	char path[2 * FLMEM_PYTHON_DOTTED_MAX];

	if (!*module || !*member)
		return 0;
	/* In "from . import a", the module of the folder itself is ".". */
	snprintf(path, sizeof(path), "%s%s%s", module, strcmp(module, ".") == 0 ? "" : ".", member);
	if (strlen(path) >= FLMEM_PYTHON_DOTTED_MAX)
		return 0;
	return bind_import(pass, name, path, place);
}

/*
 * Reads the name of a module. The path of a relative import begins with one dot, whatever the
 * source has.
 */
static void read_module(struct flmem_python_reader *reader, char module[FLMEM_PYTHON_DOTTED_MAX])
{
	char name[FLMEM_PYTHON_DOTTED_MAX] = "";
	bool relative = false;

	while (flmem_python_accept(reader, "."))
		relative = true;
	if (!flmem_python_is(&reader->word, "import"))
		flmem_python_dotted(reader, name);
	if (strlen(name) + relative >= FLMEM_PYTHON_DOTTED_MAX)
		name[0] = '\0';
	snprintf(module, FLMEM_PYTHON_DOTTED_MAX, "%s%.*s", relative ? "." : "",
		 FLMEM_PYTHON_DOTTED_MAX - 2, name);
}

static int read_from(struct names_pass *pass)
{
	struct flmem_python_reader *reader = &pass->reader;
	struct flmem_place place = reader->before.place;
	char module[FLMEM_PYTHON_DOTTED_MAX];
	int rc = 0;

	read_module(reader, module);
	if (!flmem_python_accept(reader, "import"))
		return 0;
	place.end = reader->before.place.end;
	if (flmem_python_accept(reader, "*"))
		return bind_import(pass, "*", strcmp(module, ".") == 0 ? "" : module, &place);
	flmem_python_accept(reader, "(");
	do {
		char member[FLMEM_PYTHON_DOTTED_MAX], name[FLMEM_PYTHON_DOTTED_MAX];

		if (reader->word.kind != FLMEM_PYTHON_NAME)
			break;
		flmem_python_dotted(reader, member);
		memcpy(name, member, sizeof(name));
		if (flmem_python_accept(reader, "as"))
			flmem_python_dotted(reader, name);
		rc = bind_member(pass, module, member, name, &place);
	} while (!rc && flmem_python_accept(reader, ","));
	return rc;
}

/*
 * Hides an import from the end of the statement on: in "f = g(f)" and "class f(f):" the second f
 * still is the import.
 */
static int hide_name(struct names_pass *pass, const char *name, const struct flmem_place *place)
{
	struct flmem_python_reader ahead = pass->reader;
	struct flmem_place end = *place;

	for (size_t i = 0; i < STATEMENT_MAX && !flmem_python_ends(&ahead.word); i++)
		flmem_python_advance(&ahead);
	if (ahead.word.place.start > end.start)
		end.start = ahead.word.place.start;
	return bind_import(pass, name, NULL, &end);
}

/* Hides imports after a function or class that the module itself defines. */
static int read_definition(struct names_pass *pass)
{
	struct flmem_place place = pass->reader.before.place;
	bool outermost = place.column == 1;
	char name[FLMEM_PYTHON_DOTTED_MAX];

	if (!outermost || pass->reader.word.kind != FLMEM_PYTHON_NAME)
		return 0;
	flmem_python_dotted(&pass->reader, name);
	return hide_name(pass, name, &place);
}

/* Reads one word of the pass that finds imports. */
static int read_imports(struct names_pass *pass)
{
	struct flmem_python_reader *reader = &pass->reader;
	bool starts = flmem_python_at_statement(reader);

	if (starts && flmem_python_accept(reader, "import"))
		return read_import(pass);
	if (starts && flmem_python_accept(reader, "from"))
		return read_from(pass);
	if (starts && (flmem_python_accept(reader, "def") || flmem_python_accept(reader, "class")))
		return read_definition(pass);
	flmem_python_advance(reader);
	return 0;
}

/* The row that binds a name at an offset; NULL if nothing binds it. */
static const struct flmem_python_binding *find_binding(const struct flmem_python_bindings *rows,
						       const char *name, size_t at)
{
	size_t low = 0, high = rows->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct flmem_python_binding *row = &rows->rows[middle];
		int order = strcmp(row->name, name);

		if (order < 0 || (!order && row->place.start <= at))
			low = middle + 1;
		else
			high = middle;
	}
	if (low && strcmp(rows->rows[low - 1].name, name) == 0)
		return &rows->rows[low - 1];
	return low < rows->count && strcmp(rows->rows[low].name, name) == 0 ? &rows->rows[low]
									    : NULL;
}

/*
 * Reads "name = functools.partial(other, ...)" with the reader at the bracket and `value` before
 * it: the name stands for `other`, with arguments. A partial of a partial is not followed.
 */
static int bind_partial(struct names_pass *pass, struct flmem_python_reader ahead,
			const struct flmem_python_binding *row, const char *value, size_t at)
{
	char path[FLMEM_PYTHON_DOTTED_MAX], other[FLMEM_PYTHON_DOTTED_MAX];
	struct flmem_python_binding found = *row;

	/* In f = partial(f), the second f is the one before. */
	size_t before = row->place.start ? row->place.start - 1 : 0;

	if (!flmem_python_accept(&ahead, "(") || ahead.word.kind != FLMEM_PYTHON_NAME ||
	    !flmem_python_names_find(pass->names, value, at, 0, path) ||
	    strcmp(path, "functools.partial") != 0)
		return 0;
	flmem_python_dotted(&ahead, other);
	if ((!flmem_python_is(&ahead.word, ",") && !flmem_python_is(&ahead.word, ")")) ||
	    flmem_python_names_partial(pass->names, other, before) ||
	    !flmem_python_names_find(pass->names, other, before, 0, path))
		return 0;
	found.name = flmem_cursor_keep(pass->cursor, row->name, strlen(row->name));
	found.path = flmem_cursor_keep(pass->cursor, path, strlen(path));
	found.partial = at;
	found.assigned = true;
	return found.name && found.path ? add_row(pass->cursor, pass->found, &found)
					: FLMEM_EFAILED;
}

/* Binds a name to the value after the "=" of the reader. */
static int bind_value(struct names_pass *pass, struct flmem_python_reader *reader, const char *name,
		      const struct flmem_place *place)
{
	char value[FLMEM_PYTHON_DOTTED_MAX] = "", path[FLMEM_PYTHON_DOTTED_MAX];
	const struct flmem_python_binding row = {.name = name, .place = *place};
	size_t at;

	if (!flmem_python_accept(reader, "=") || flmem_python_is(&reader->word, "="))
		return 0;
	at = reader->word.place.start;
	if (reader->word.kind == FLMEM_PYTHON_NAME)
		flmem_python_dotted(reader, value);
	if (*value && flmem_python_is(&reader->word, "(")) {
		size_t count = pass->found->count;
		int rc = bind_partial(pass, *reader, &row, value, at);

		if (rc || pass->found->count > count)
			return rc;
	}
	if (*value && flmem_python_ends(&reader->word) &&
	    flmem_python_names_find(pass->names, value, place->start, 0, path))
		return bind_import(pass, name, path, place);
	if (place->column != 1 || !find_binding(&pass->names->sorted, name, place->start))
		return 0;
	return hide_name(pass, name, place);
}

static void go_to_equals(struct names_pass *pass)
{
	pass->equals = pass->reader;
	pass->equals_from = pass->reader.word.place.start;
	while (!flmem_python_ends(&pass->equals.word) && !flmem_python_is(&pass->equals.word, "="))
		flmem_python_advance(&pass->equals);
}

/* Reads "name = a.b", which makes the name stand for a.b; any other value hides an import. */
static int read_assignment(struct names_pass *pass)
{
	struct flmem_python_reader *reader = &pass->reader, ahead;
	struct flmem_place place = reader->word.place;
	char name[FLMEM_PYTHON_DOTTED_MAX];

	flmem_python_dotted(reader, name);
	if (!flmem_python_is(&reader->word, ":"))
		return bind_value(pass, reader, name, &place);
	/* "name: type = value", or "else: name = value", which is read again as an assignment. */
	if (reader->word.place.start < pass->equals_from ||
	    reader->word.place.start > pass->equals.word.place.start)
		go_to_equals(pass);
	ahead = pass->equals;
	return bind_value(pass, &ahead, name, &place);
}

static int read_assignments(struct names_pass *pass)
{
	if (pass->reader.word.kind == FLMEM_PYTHON_NAME && flmem_python_at_statement(&pass->reader))
		return read_assignment(pass);
	flmem_python_advance(&pass->reader);
	return 0;
}

static int run_pass(struct names_pass *pass, const struct flmem_python_source *source,
		    int (*read)(struct names_pass *pass))
{
	int rc = 0;

	for (size_t i = 0; i < source->count && !rc; i++) {
		flmem_python_start(&pass->reader, source, i);
		pass->equals_from = SIZE_MAX;
		while (pass->reader.word.kind != FLMEM_PYTHON_END && !rc)
			rc = read(pass);
	}
	return rc;
}

static int compare_rows(const void *a, const void *b)
{
	const struct flmem_python_binding *x = a, *y = b;
	int order = strcmp(x->name, y->name);

	if (order)
		return order;
	return (x->place.start > y->place.start) - (x->place.start < y->place.start);
}

/* Sorts copies of the imports and of the assignments into names->sorted. */
static int sort_name_tables(struct flmem_cursor *cursor, struct flmem_python_names *names,
			    const struct flmem_python_bindings *assigned)
{
	int rc = 0;

	free(names->sorted.rows);
	names->sorted = (struct flmem_python_bindings){0};
	for (size_t i = 0; i < names->imports.count && !rc; i++)
		rc = add_row(cursor, &names->sorted, &names->imports.rows[i]);
	for (size_t i = 0; i < assigned->count && !rc; i++)
		rc = add_row(cursor, &names->sorted, &assigned->rows[i]);
	if (!rc && names->sorted.count)
		qsort(names->sorted.rows, names->sorted.count, sizeof(*names->sorted.rows),
		      compare_rows);
	return rc;
}

static void note_stars(struct flmem_python_names *names)
{
	size_t count = 0;

	for (size_t i = names->imports.count; i && count < FLMEM_PYTHON_STARS_MAX; i--)
		if (strcmp(names->imports.rows[i - 1].name, "*") == 0)
			names->stars[count++] = names->imports.rows[i - 1].path;
}

int flmem_python_names_read(struct flmem_cursor *cursor, const struct flmem_python_source *source,
			    struct flmem_python_names *ret_names)
{
	struct flmem_python_bindings assigned = {0};
	struct names_pass pass = {
		.cursor = cursor, .names = ret_names, .found = &ret_names->imports};
	int rc;

	*ret_names = (struct flmem_python_names){0};
	rc = run_pass(&pass, source, read_imports);
	note_stars(ret_names);
	if (!rc)
		rc = sort_name_tables(cursor, ret_names, &assigned);
	for (int i = 0; i < ALIAS_ROUNDS && !rc && ret_names->imports.count; i++) {
		free(assigned.rows);
		assigned = (struct flmem_python_bindings){0};
		pass.found = &assigned;
		rc = run_pass(&pass, source, read_assignments);
		if (!rc)
			rc = sort_name_tables(cursor, ret_names, &assigned);
	}
	free(assigned.rows);
	return rc;
}

static bool join_path(const char *path, const char *rest, char ret_path[FLMEM_PYTHON_DOTTED_MAX])
{
	if (strlen(path) + strlen(rest) >= FLMEM_PYTHON_DOTTED_MAX)
		return false;
	memcpy(ret_path, path, strlen(path));
	memcpy(ret_path + strlen(path), rest, strlen(rest) + 1);
	return true;
}

static bool find_star(const struct flmem_python_names *names, const char *dotted, size_t choice,
		      char ret_path[FLMEM_PYTHON_DOTTED_MAX])
{
	char member[FLMEM_PYTHON_DOTTED_MAX + 1];

	if (choice >= FLMEM_PYTHON_STARS_MAX || !names->stars[choice])
		return false;
	snprintf(member, sizeof(member), ".%s", dotted);
	return join_path(names->stars[choice], member, ret_path);
}

/*
 * Finds the path of "object.name" if the name is assigned an imported one on an indented line, as
 * in a class.
 */
static bool find_member(const struct flmem_python_names *names, const char *dotted, size_t at,
			char ret_path[FLMEM_PYTHON_DOTTED_MAX])
{
	const char *dot = strrchr(dotted, '.');
	const struct flmem_python_binding *row =
		dot ? find_binding(&names->sorted, dot + 1, at) : NULL;

	return row && row->assigned && row->path && row->place.column > 1 &&
	       join_path(row->path, "", ret_path);
}

/* Finds "object.name" and "object.name.rest" by an assignment "self.name = other". */
static bool find_attribute(const struct flmem_python_names *names, const char *dotted, size_t at,
			   char ret_path[FLMEM_PYTHON_DOTTED_MAX])
{
	char own[FLMEM_PYTHON_DOTTED_MAX + sizeof("self")];
	const char *dot = strchr(dotted, '.');

	for (int i = 0; dot && i < MEMBERS_MAX; i++, dot = strchr(dot + 1, '.')) {
		const size_t length = 1 + strcspn(dot + 1, ".");
		const struct flmem_python_binding *row;

		snprintf(own, sizeof(own), "self%.*s", (int)length, dot);
		row = find_binding(&names->sorted, own, at);
		if (row && row->path)
			return join_path(row->path, dot + length, ret_path);
	}
	return false;
}

bool flmem_python_names_find(const struct flmem_python_names *names, const char *dotted, size_t at,
			     size_t choice, char ret_path[FLMEM_PYTHON_DOTTED_MAX])
{
	const struct flmem_python_binding *row = find_binding(&names->sorted, dotted, at);
	size_t length = strlen(dotted);
	char first[FLMEM_PYTHON_DOTTED_MAX];

	memcpy(first, dotted, length + 1);
	while (!row && length) {
		while (length && first[length] != '.')
			length--;
		first[length] = '\0';
		row = length ? find_binding(&names->sorted, first, at) : NULL;
	}
	if (row && row->path)
		return !choice && join_path(row->path, dotted + strlen(first), ret_path);
	if (!choice && (find_member(names, dotted, at, ret_path) ||
			(!row && find_attribute(names, dotted, at, ret_path))))
		return true;
	return !row && find_star(names, dotted, choice, ret_path);
}

size_t flmem_python_names_partial(const struct flmem_python_names *names, const char *dotted,
				  size_t at)
{
	const struct flmem_python_binding *row = find_binding(&names->sorted, dotted, at);

	return row ? row->partial : 0;
}

bool flmem_python_is_of_star(const struct flmem_python_names *names, const char *name,
			     const char *path)
{
	const char *star = names->stars[0];

	return star && strchr(name, '.') && strncmp(path, star, strlen(star)) == 0 &&
	       path[strlen(star)] == '.' && strcmp(path + strlen(star) + 1, name) == 0;
}
