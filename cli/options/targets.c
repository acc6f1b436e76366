/* SPDX-License-Identifier: Apache-2.0 */
#include "options/targets.h"

#include <stdio.h>
#include <string.h>

#include <flmem/roles.h>
#include <flmem/text.h>

#define ROLE_TEXT(name, text) text,
const char *const target_roles[] = {FLMEM_ROLES(ROLE_TEXT) NULL};
#undef ROLE_TEXT

bool targets_are_explicit(const struct target_options *options)
{
	return options->pids.count > 0;
}

bool targets_given(const struct target_options *options)
{
	return options->pids.count || options->name || options->all || options->tree;
}

/* Writes the given options as text: "--pid and --all". */
static void list_given_options(const struct target_options *options, char *out, size_t size)
{
	const struct {
		bool given;
		const char *option;
	} ways[] = {
		{options->pids.count > 0, "--pid"},
		{options->name != NULL, "--name"},
		{options->all, "--all"},
		{options->tree != 0, "--tree"},
	};
	size_t used = 0;

	out[0] = '\0';
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]) && used < size; i++)
		if (ways[i].given)
			used += (size_t)snprintf(out + used, size - used, "%s%s",
						 used ? " and " : "", ways[i].option);
}

static int check_targets(const struct target_options *options, struct flmem_error *err)
{
	int ways = (options->pids.count > 0) + (options->name != NULL) + options->all +
		   (options->tree != 0);
	char list[64];

	if (!ways && (options->role || options->min_rss_bytes))
		return flmem_error_set(
			err, FLMEM_EUSAGE, 0,
			"%s only filters targets; add --pid, --name, --tree or --all",
			options->role ? "--role" : "--min-rss");
	if (!ways)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "no target; use --pid, --name, --tree or --all");
	if (ways == 1)
		return 0;
	list_given_options(options, list, sizeof(list));
	return flmem_error_set(err, FLMEM_EUSAGE, 0, "%s exclude each other; use one", list);
}

int targets_nothing_matched(const struct target_options *options, struct flmem_error *err)
{
	char shown[64];

	if (!options->name || options->role || options->min_rss_bytes)
		return err->code;
	flmem_text_escape(options->name, shown, sizeof(shown));
	return flmem_error_set(err, FLMEM_ENOPROC, 0, "no command line matches --name '%s'", shown);
}

int targets_selection(const struct target_options *options, struct flmem_selection *ret_selection,
		      struct flmem_error *err)
{
	int rc = check_targets(options, err);

	if (rc)
		return rc;
	*ret_selection = (struct flmem_selection){
		.pids = options->pids.values,
		.pid_count = options->pids.count,
		.all = options->all,
		.name_regex = options->name,
		.tree = options->tree,
		.roles = options->role ? flmem_role_mask(options->role) : 0,
		.min_rss_bytes = options->min_rss_bytes,
	};
	return 0;
}

int targets_select(const struct target_options *options, struct flmem_targets *ret_targets,
		   struct flmem_error *err)
{
	struct flmem_selection selection;
	int rc = targets_selection(options, &selection, err);

	if (rc)
		return rc;
	rc = flmem_select(&selection, ret_targets, err);
	return rc == FLMEM_ENOPROC ? targets_nothing_matched(options, err) : rc;
}
