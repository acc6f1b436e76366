/* SPDX-License-Identifier: Apache-2.0 */
#include "documents/python/python_links.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/text.h"

#define LINKS_MAX 4 /* modules that a name passes through at most */

static const struct flmem_python_part whole_source = {.line = 1};

/* A pass over import statements. */
struct modules_pass {
	struct flmem_python_reader reader;
	bool (*visit)(void *context, const char *name, unsigned ups);
	void *context;
};

/* Visits a module and the packages that contain it, whose code Python runs, too. */
static bool visit_with_packages(struct modules_pass *pass, const char *module, unsigned ups)
{
	char name[FLMEM_PYTHON_DOTTED_MAX];
	char *dot;

	snprintf(name, sizeof(name), "%s", module);
	do {
		if (*name && !pass->visit(pass->context, name, ups))
			return false;
		dot = strrchr(name, '.');
		if (dot)
			*dot = '\0';
	} while (dot);
	return true;
}

/* Reads import a.b as c, d */
static bool visit_modules(struct modules_pass *pass)
{
	char name[FLMEM_PYTHON_DOTTED_MAX];
	bool more;

	do {
		flmem_python_dotted(&pass->reader, name);
		more = visit_with_packages(pass, name, 0);
		if (flmem_python_accept(&pass->reader, "as"))
			flmem_python_advance(&pass->reader);
	} while (more && flmem_python_accept(&pass->reader, ","));
	return more;
}

/* Reads from a.b import c, d */
static bool visit_members(struct modules_pass *pass)
{
	char from[FLMEM_PYTHON_DOTTED_MAX] = "", member[FLMEM_PYTHON_DOTTED_MAX];
	char name[2 * FLMEM_PYTHON_DOTTED_MAX];
	bool more = true;
	unsigned ups = 0;

	while (flmem_python_accept(&pass->reader, "."))
		ups++;
	if (!flmem_python_is(&pass->reader.word, "import"))
		flmem_python_dotted(&pass->reader, from);
	if (!flmem_python_accept(&pass->reader, "import"))
		return true;
	flmem_python_accept(&pass->reader, "(");
	more = visit_with_packages(pass, from, ups);
	while (more && pass->reader.word.kind == FLMEM_PYTHON_NAME) {
		flmem_python_dotted(&pass->reader, member);
		snprintf(name, sizeof(name), "%s%s%s", from, *from ? "." : "", member);
		if (*member && strlen(name) < FLMEM_PYTHON_DOTTED_MAX)
			more = pass->visit(pass->context, name, ups);
		if (flmem_python_accept(&pass->reader, "as"))
			flmem_python_advance(&pass->reader);
		if (!flmem_python_accept(&pass->reader, ","))
			break;
	}
	return more;
}

/* Reads import_module("a.b") and __import__("a"); the reader is after the name of the function. */
static bool visit_by_name(struct modules_pass *pass)
{
	char name[FLMEM_PYTHON_DOTTED_MAX];
	const struct flmem_python_word *word = &pass->reader.word;
	size_t length;
	unsigned ups = 0;

	if (!flmem_python_accept(&pass->reader, "(") || word->kind != FLMEM_PYTHON_STRING)
		return true;
	length = word->place.end - word->place.start;
	if (length < 3 || length >= sizeof(name) || !strchr("\"'", *word->text))
		return true;
	snprintf(name, sizeof(name), "%.*s", (int)length - 2, word->text + 1);
	while (name[ups] == '.')
		ups++;
	return visit_with_packages(pass, name + ups, ups);
}

void flmem_python_modules_visit(const char *text,
				bool (*visit)(void *context, const char *name, unsigned ups),
				void *context)
{
	const struct flmem_python_source source = {
		.text = text, .parts = &whole_source, .count = 1};
	struct modules_pass pass = {.visit = visit, .context = context};
	bool more = true;

	flmem_python_start(&pass.reader, &source, 0);
	while (more && pass.reader.word.kind != FLMEM_PYTHON_END) {
		bool starts = flmem_python_at_statement(&pass.reader);

		if (starts && flmem_python_accept(&pass.reader, "import"))
			more = visit_modules(&pass);
		else if (starts && flmem_python_accept(&pass.reader, "from"))
			more = visit_members(&pass);
		else if (flmem_python_accept(&pass.reader, "import_module") ||
			 flmem_python_accept(&pass.reader, "__import__"))
			more = visit_by_name(&pass);
		else
			flmem_python_advance(&pass.reader);
	}
}

int flmem_python_module_read(struct flmem_python_module *module, struct flmem_buf *text,
			     struct flmem_error *err)
{
	struct flmem_cursor cursor = {.document = &module->document, .line = 1, .err = err};
	struct flmem_python_source source = {.parts = &whole_source, .count = 1};

	module->document.text = *text;
	flmem_buf_init(text);
	source.text = cursor.text = module->document.text.data;
	cursor.length = module->document.text.length;
	return flmem_python_names_read(&cursor, &source, &module->names);
}

void flmem_python_module_clear(struct flmem_python_module *module)
{
	free(module->name);
	free(module->file);
	flmem_python_names_clear(&module->names);
	flmem_document_clear(&module->document);
	if (module->modules)
		flmem_python_modules_clear(module->modules);
	free(module->modules);
}

void flmem_python_modules_clear(struct flmem_python_modules *modules)
{
	for (size_t i = 0; i < modules->count; i++)
		flmem_python_module_clear(&modules->rows[i]);
	free(modules->rows);
	*modules = (struct flmem_python_modules){0};
}

/* The part of a path after the name of a module; NULL if the path is not in that module. */
static const char *path_in(const char *path, const struct flmem_python_module *module)
{
	size_t length = strlen(module->name);

	return strncmp(path, module->name, length) == 0 && path[length] == '.' && path[length + 1]
		       ? path + length + 1
		       : NULL;
}

/*
 * Replaces a path by the one that a module in the folder of the script imports under that name.
 * Returns false if none does.
 */
static bool follow_link(const struct flmem_python_modules **modules,
			char path[FLMEM_PYTHON_DOTTED_MAX])
{
	char name[FLMEM_PYTHON_DOTTED_MAX];

	for (size_t i = 0; *modules && i < (*modules)->count; i++) {
		const struct flmem_python_module *row = &(*modules)->rows[i];
		const char *rest = path_in(path, row);

		if (!rest)
			continue;
		snprintf(name, sizeof(name), "%s", rest);
		if (!flmem_python_names_find(&row->names, name, SIZE_MAX, 0, path))
			continue;
		*modules = row->modules;
		return true;
	}
	return false;
}

/* The path that a name stands for; NULL, without an error, if no module defines it. */
static const char *linked_path(struct flmem_cursor *cursor,
			       const struct flmem_python_modules *modules, const char *text)
{
	char path[FLMEM_PYTHON_DOTTED_MAX];
	size_t links = 0;

	if (strlen(text) >= sizeof(path))
		return NULL;
	snprintf(path, sizeof(path), "%s", text);
	while (links < LINKS_MAX && follow_link(&modules, path))
		links++;
	return links ? flmem_cursor_keep(cursor, path, strlen(path)) : NULL;
}

/* Whether the text of a node is a name: an expression, an entry of a list, the path of a call. */
static bool is_linkable(const struct flmem_node *node)
{
	if (node->kind == FLMEM_NODE_EXPRESSION)
		return *node->text;
	return node->kind == FLMEM_NODE_STRING &&
	       (!node->key || (strcmp(node->key, "path") == 0 && !node->parent->key));
}

/* Replaces the names in a value and in its parts. */
static int link_nodes(struct flmem_cursor *cursor, struct flmem_node *node,
		      const struct flmem_python_modules *modules, struct flmem_buf *paths)
{
	const char *path = is_linkable(node) ? linked_path(cursor, modules, node->text) : NULL;

	if (path) {
		node->text = path;
		flmem_buf_puts(paths, path);
		flmem_buf_putc(paths, '\n');
	}
	for (struct flmem_node *n = node->first; n && n->parent == node && !cursor->code;
	     n = n->next)
		link_nodes(cursor, n, modules, paths);
	return cursor->code;
}

int flmem_python_link(struct flmem_document *document, const struct flmem_python_modules *modules,
		      struct flmem_buf *paths, struct flmem_error *err)
{
	static const char *const lists[] = {"imports", "calls",	  "methods", "bases",
					    "values",  "rebound", NULL};
	struct flmem_cursor cursor = {.document = document, .line = 1, .err = err};
	int rc = 0;

	if (!modules->count || !document->root)
		return 0;
	for (struct flmem_node *n = document->root->first; n && !rc; n = n->next)
		if (flmem_text_is_one_of(n->key, lists))
			rc = link_nodes(&cursor, n, modules, paths);
	return rc;
}
