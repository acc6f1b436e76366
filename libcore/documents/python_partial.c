/* SPDX-License-Identifier: Apache-2.0 */
#include "documents/python_partial.h"

#include <string.h>

void flmem_python_unfold_partial(struct flmem_node *path, struct flmem_node *args,
				 struct flmem_node *value)
{
	static const char *const positions[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8"};
	struct flmem_node *first = args->first;

	if (strcmp(path->text, "functools.partial") != 0 || !first ||
	    strcmp(first->key, "0") != 0 || first->kind != FLMEM_NODE_EXPRESSION ||
	    !strchr(first->text, '.'))
		return;
	path->text = first->text;
	first->key = "**";
	if (value && value->place.start == first->place.start)
		value->text = "";
	for (struct flmem_node *n = first->next; n; n = n->next)
		if (n->key[0] >= '1' && n->key[0] <= '9' && !n->key[1])
			n->key = positions[n->key[0] - '1'];
}
