/* SPDX-License-Identifier: Apache-2.0 */
#include "frameworks/troubleshooting.h"

#include "frameworks/framework.h"

static const struct flmem_troubleshoot_row *find_troubleshooting_row(size_t index)
{
	for (size_t i = 0; flmem_frameworks[i]; i++)
		for (const struct flmem_troubleshoot_row *row = flmem_frameworks[i]->troubles;
		     row && row->check; row++)
			if (!index--)
				return row;
	return NULL;
}

const struct flmem_troubleshoot_step *flmem_troubleshoot_step(size_t index)
{
	const struct flmem_troubleshoot_row *row = find_troubleshooting_row(index);

	return row ? &row->step : NULL;
}

void flmem_troubleshoot_answer(size_t index, const struct flmem_troubleshoot_case *one,
			       struct flmem_troubleshoot_answer *ret_answer)
{
	const struct flmem_troubleshoot_row *row = find_troubleshooting_row(index);

	*ret_answer = (struct flmem_troubleshoot_answer){.state = FLMEM_STEP_CANNOT_TELL};
	if (row)
		row->check(one, ret_answer);
}

#define NAME_CASE(prefix, name, text) \
	case prefix##name:            \
		return text;

const char *flmem_troubleshoot_list_name(enum flmem_troubleshoot_list list)
{
#define LIST_CASE(name, text, title) NAME_CASE(FLMEM_TROUBLESHOOT_, name, text)
	switch (list) {
		FLMEM_TROUBLESHOOT_LISTS(LIST_CASE)
	}
#undef LIST_CASE
	return "";
}

const char *flmem_troubleshoot_list_title(enum flmem_troubleshoot_list list)
{
#define LIST_CASE(name, text, title) NAME_CASE(FLMEM_TROUBLESHOOT_, name, title)
	switch (list) {
		FLMEM_TROUBLESHOOT_LISTS(LIST_CASE)
	}
#undef LIST_CASE
	return "";
}

const char *flmem_step_state_name(enum flmem_step_state state)
{
#define STATE_CASE(name, text) NAME_CASE(FLMEM_STEP_, name, text)
	switch (state) {
		FLMEM_STEP_STATES(STATE_CASE)
	}
#undef STATE_CASE
	return "";
}
