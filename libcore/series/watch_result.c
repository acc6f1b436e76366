/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/watch_result.h>

#include <stdlib.h>

#include "base/cleanup.h"

const char *flmem_watch_action_name(enum flmem_watch_action_kind kind)
{
	static const char *const names[] = {
#define ACTION_NAME(name, text) text,
		FLMEM_WATCH_ACTIONS(ACTION_NAME)
#undef ACTION_NAME
	};

	return names[(size_t)kind < FLMEM_ARRAY_SIZE(names) ? kind : FLMEM_WATCH_REFUSED];
}

void flmem_watch_summary_clear(struct flmem_watch_summary *summary)
{
	for (size_t i = 0; i < summary->count; i++) {
		free(summary->results[i].process.command);
		free(summary->results[i].process.site);
		free(summary->results[i].sampled_into);
	}
	free(summary->results);
	*summary = (struct flmem_watch_summary){0};
}
