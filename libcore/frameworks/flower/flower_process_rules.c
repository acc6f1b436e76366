/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about live processes of Flower. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "frameworks/flower/flower_rules.h"

#define OPTION "--database"

/* Copies the value of the last --database of a command line; "" if there is none. */
static void find_database(const char *command, char *out, size_t size)
{
	*out = '\0';
	for (const char *at = strstr(command, " " OPTION); at; at = strstr(at + 1, " " OPTION)) {
		const char *value = at + sizeof(" " OPTION) - 1;

		if (*value == '=' || *value == ' ')
			snprintf(out, size, "%.*s", (int)strcspn(value + 1, " "), value + 1);
	}
}

/*
 * Whether the store is in memory (supercore/constant.py); objects and messages are in the same one.
 */
static bool is_in_memory(const char *database)
{
	static const char *const names[] = {"",
					    ":flwr-in-memory:", ":memory:", "sqlite:///:memory:"};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(names); i++)
		if (strcmp(database, names[i]) == 0)
			return true;
	return false;
}

static bool store_in_memory(const struct flmem_process_report *process,
			    struct flmem_live_remark *remark)
{
	char database[128];

	if (process->framework != FLMEM_FRAMEWORK_FLOWER || process->role != FLMEM_ROLE_SERVER ||
	    !process->command)
		return false;
	find_database(process->command, database, sizeof(database));
	if (!is_in_memory(database))
		return false;
	remark->path = OPTION;
	flmem_live_put(remark->current, sizeof(remark->current), database);
	return true;
}

static const struct flmem_live_row flower_process_rows[] = {
	{.rule = {.id = "FLWR-STORE-IN-MEMORY",
		  .severity = FLMEM_SEVERITY_INFO,
		  .framework = FLMEM_FRAMEWORK_FLOWER,
		  .condition = "a live SuperLink without --database, or with one in memory",
		  .message = "the SuperLink keeps all messages, with their models, in its memory "
			     "until they are fetched and deleted; start it with --database FILE "
			     "to keep them on a disk (a SuperNode has no such option)",
		  .source = "Flower 1.42.0, superlink/cli/flower_superlink.py and "
			    "supercore/object_store"},
	 .check = store_in_memory},
};

const struct flmem_live_table flmem_flower_live_rules = {flower_process_rows,
							 FLMEM_ARRAY_SIZE(flower_process_rows)};
