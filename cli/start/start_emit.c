/* SPDX-License-Identifier: Apache-2.0 */
#include "start/start.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <flmem/emit.h>

#define NAME_OF(name, text) text,
const char *const start_emit_choices[] = {FLMEM_EMIT_KINDS(NAME_OF) NULL};
#undef NAME_OF

const char *const start_command_choices[] = {"aggregate", NULL};

#define TASKS_MAX 100000U
#define WORDS	  3 /* number of words of: flmem aggregate --mpi */

/* Finds the kind of a name. The choices are in the order of the kinds. */
static enum flmem_emit_kind find_emit_kind(const char *name)
{
	unsigned kind = 0;

	while (strcmp(start_emit_choices[kind], name) != 0)
		kind++;
	return (enum flmem_emit_kind)kind;
}

/*
 * Makes the words of `flmem aggregate` with these arguments. The caller frees the array. Returns
 * NULL if memory is out.
 */
static char **make_aggregate_command(char *const *argv, bool shared)
{
	static char flmem[] = "flmem", aggregate[] = "aggregate", mpi[] = "--mpi";
	size_t count = 0, at = 0;
	char **command;

	while (argv && argv[count])
		count++;
	command = calloc(count + WORDS + 1, sizeof(*command));
	if (!command)
		return NULL;
	command[at++] = flmem;
	command[at++] = aggregate;
	if (shared)
		command[at++] = mpi;
	for (size_t i = 0; i < count; i++)
		command[at++] = argv[i];
	return command;
}

/* Checks the value of another option: it is one word of a command. */
static int check_emit_name(const char *option, const char *name, struct flmem_error *err)
{
	if (name && !*name)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "%s needs a name", option);
	if (name && strlen(name) > NAME_MAX)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "%s accepts at most %u bytes", option,
				       (unsigned)NAME_MAX);
	return 0;
}

/* Refuses options that this kind would leave out. */
static int check_emit_unused(const struct start_options *options, char *const *argv,
			     enum flmem_emit_kind kind, struct flmem_error *err)
{
	bool container = kind == FLMEM_EMIT_DOCKER || kind == FLMEM_EMIT_K8S;
	bool command = options->command || (argv && argv[0]);

	if (options->image && !container)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "--image needs --emit=docker or k8s");
	if (kind == FLMEM_EMIT_SNIPPET &&
	    (command || options->site || options->org || options->workspace))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "--emit=snippet has no command, so it takes neither one nor "
				       "--site, --org or --workspace");
	if (command && kind != FLMEM_EMIT_SUB_START && (options->site || options->org))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "--site and --org are for the role's own command; write the "
				       "names into the command after --");
	return 0;
}

static int check_emit_options(const struct start_options *options, char *const *argv,
			      enum flmem_emit_kind kind, struct flmem_error *err)
{
	int rc = check_emit_name("--site", options->site, err);

	if (!rc)
		rc = check_emit_name("--org", options->org, err);
	if (!rc)
		rc = check_emit_name("--image", options->image, err);
	return rc ? rc : check_emit_unused(options, argv, kind, err);
}

static int check_command(const struct start_options *options, char *const *argv,
			 enum flmem_emit_kind kind, struct flmem_error *err)
{
	if (options->command && !(argv && argv[0]))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "--command=aggregate: name the arguments of 'flmem "
				       "aggregate' after --");
	if (!options->tasks)
		return 0;
	if (kind != FLMEM_EMIT_SLURM && kind != FLMEM_EMIT_PBS)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "--tasks needs --emit=slurm or pbs");
	if (options->tasks > TASKS_MAX)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "--tasks accepts at most %u",
				       TASKS_MAX);
	return 0;
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
		.tasks = (unsigned)options->tasks,
	};
	char *text = NULL, **command = NULL;
	int rc = role_request(&options->role, &o.settings, err);

	if (!rc)
		rc = check_emit_options(options, argv, o.kind, err);
	if (!rc)
		rc = check_command(options, argv, o.kind, err);
	if (!rc && options->command) {
		o.argv = command = make_aggregate_command(argv, options->tasks > 1);
		if (!command)
			rc = flmem_error_nomem(err, "cannot write the command");
	}
	if (!rc)
		rc = flmem_emit(&o, &text, err);
	free(command);
	if (!rc && options->output)
		rc = flmem_emit_save(options->output, text, flmem_emit_is_program(o.kind),
				     options->role.force, err);
	else if (!rc)
		fputs(text, stdout);
	free(text);
	return rc;
}
