/* SPDX-License-Identifier: Apache-2.0 */
#include "documents/python/python_nodes.h"

#include <string.h>

struct flmem_node *flmem_python_node_add(struct flmem_cursor *cursor, struct flmem_node *parent,
					 const char *key, const char *text,
					 const struct flmem_place *place)
{
	const char *kept = key ? flmem_cursor_keep(cursor, key, strlen(key)) : NULL;
	struct flmem_node *node;

	if (key && !kept)
		return NULL;
	cursor->line = place->line; /* for the message at a limit */
	node = flmem_cursor_add(cursor, parent, kept, place);
	if (!node)
		return NULL;
	node->place = *place;
	node->kind = FLMEM_NODE_EXPRESSION;
	if (text)
		node->text = flmem_cursor_keep(cursor, text, strlen(text));
	return node->text ? node : NULL;
}

int flmem_python_path_add(struct flmem_cursor *cursor, struct flmem_node *list, const char *path,
			  const struct flmem_place *place)
{
	struct flmem_node *node = flmem_python_node_add(cursor, list, NULL, path, place);

	if (!node)
		return cursor->code;
	node->kind = FLMEM_NODE_STRING;
	return 0;
}
