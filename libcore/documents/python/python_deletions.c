/* SPDX-License-Identifier: Apache-2.0 */
#include "documents/python/python_deletions.h"

#include <string.h>

#include "documents/python/python_subscripts.h"

static int read_target(struct flmem_cursor *cursor, const struct flmem_python_names *names,
		       struct flmem_python_reader *ahead, struct flmem_node *calls,
		       const struct flmem_python_members *members)
{
	struct flmem_place place = ahead->word.place;
	char name[FLMEM_PYTHON_DOTTED_MAX];

	flmem_python_dotted(ahead, name);
	place.end = ahead->before.place.end;
	if (flmem_python_is(&ahead->word, "["))
		return flmem_python_subscript_deleted(cursor, names, ahead, name, calls);
	if (!strchr(name, '.') || !flmem_python_ends_deletion(&ahead->word))
		return 0;
	return flmem_python_member_assigned(cursor, names, members, name, &place);
}

int flmem_python_deletions_read(struct flmem_cursor *cursor, const struct flmem_python_names *names,
				const struct flmem_python_reader *reader, struct flmem_node *calls,
				const struct flmem_python_members *members)
{
	struct flmem_python_reader ahead = *reader;
	int rc = 0;

	if (!flmem_python_is(&reader->word, "del") || !flmem_python_at_statement(reader))
		return 0;
	flmem_python_advance(&ahead);
	while (!rc && !flmem_python_ends(&ahead.word)) {
		bool starts = ahead.word.kind == FLMEM_PYTHON_NAME &&
			      !flmem_python_is(&ahead.before, ".");

		if (starts)
			rc = read_target(cursor, names, &ahead, calls, members);
		else
			flmem_python_advance(&ahead);
	}
	return rc;
}
