/* SPDX-License-Identifier: Apache-2.0 */
#include "start.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <flmem/emit.h>

#define NAME_OF(name, text) text,
const char *const start_emit_choices[] = {FLMEM_EMIT_KINDS(NAME_OF) NULL};
#undef NAME_OF

/* The choices are the kinds in their order. */
static enum flmem_emit_kind find_emit_kind(const char *name)
{
	unsigned kind = 0;

	while (strcmp(start_emit_choices[kind], name) != 0)
		kind++;
	return (enum flmem_emit_kind)kind;
}

int start_emit(const struct start_options *options, char *const *argv, struct flmem_error *err)
{
	struct flmem_emit_options o = {
		.kind = find_emit_kind(options->emit),
		.argv = argv,
		.workspace = options->workspace,
		.site = options->site,
		.org = options->org,
		.image = options->image,
	};
	char *text = NULL;
	int rc = role_request(&options->role, &o.settings, err);

	if (!rc)
		rc = flmem_emit(&o, &text, err);
	if (!rc && options->output)
		rc = flmem_emit_save(options->output, text, flmem_emit_is_program(o.kind),
				     options->role.force, err);
	else if (!rc)
		fputs(text, stdout);
	free(text);
	return rc;
}
