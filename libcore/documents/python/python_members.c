/* SPDX-License-Identifier: Apache-2.0 */
#include "documents/python/python_members.h"

#include <string.h>

#include "documents/python/python_nodes.h"
#include "documents/python/python_targets.h"

/*
 * Adds a definition. Once half of the nodes are used, further ones are left out, so that imported
 * names have room.
 */
static int add_definition(struct flmem_cursor *cursor, const struct flmem_python_members *members,
			  const char *name, const struct flmem_place *place)
{
	if (cursor->document->node_count >= FLMEM_DOCUMENT_NODES_MAX / 2)
		return 0;
	return flmem_python_path_add(cursor, members->definitions, name, place);
}

int flmem_python_member_defined(struct flmem_cursor *cursor,
				const struct flmem_python_members *members,
				const struct flmem_python_word *name)
{
	char text[FLMEM_PYTHON_DOTTED_MAX];

	if (!flmem_python_word_text(name, text))
		return 0;
	return add_definition(cursor, members, text, &name->place);
}

int flmem_python_member_assigned(struct flmem_cursor *cursor,
				 const struct flmem_python_names *names,
				 const struct flmem_python_members *members, const char *dotted,
				 const struct flmem_place *place)
{
	const char *attribute = flmem_python_foreign_attribute(dotted);
	const char *dot = strrchr(dotted, '.');
	char path[FLMEM_PYTHON_DOTTED_MAX];
	int rc;

	if (!attribute)
		return dot || place->column > 1
			       ? add_definition(cursor, members, dot ? dot + 1 : dotted, place)
			       : 0;
	rc = flmem_python_path_add(cursor, members->attributes, attribute, place);
	if (!rc && flmem_python_names_find(names, dotted, place->start, 0, path))
		rc = flmem_python_path_add(cursor, members->rebound, path, place);
	return rc;
}
