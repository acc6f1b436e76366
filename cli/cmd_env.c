/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <flmem/launch.h>
#include <flmem/report.h>
#include <flmem/settings.h>

#include "cmd.h"
#include "options/role_options.h"

struct env_options {
	struct role_options role; /* must be first: ROLE_OPTIONS requires it */
	const char *format;
	bool explain;
	bool json;
};

#define NAME_OF(name, text, meaning) text,
static const char *const env_format_choices[] = {FLMEM_SETTINGS_FORMATS(NAME_OF) "json", NULL};
#undef NAME_OF

static const struct opt env_options_table[] = {
	ROLE_OPTIONS,
	{.name = "force",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct env_options, role.force),
	 .help = "replace values that are already set (default: keep them)"},
	{.name = "format",
	 .kind = OPT_CHOICE,
	 .offset = offsetof(struct env_options, format),
	 .choices = env_format_choices,
	 .help = "output format (default sh)"},
	{.name = "explain",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct env_options, explain),
	 .help = "add comments: reason and source of every line, omitted settings, and the related "
		 "settings of the job"},
	{.name = "json",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct env_options, json),
	 .help = "the same as --format=json"},
	{0},
};

/*
 * Tries the named jemalloc library as `start` does. It is not tried where the settings are for
 * another machine.
 */
static int prove_library(const struct env_options *options,
			 const struct flmem_settings_request *request,
			 const struct flmem_settings *settings, struct flmem_error *err)
{
	char *const argv[] = {(char[]){"true"}, NULL};
	struct flmem_preload_proof proof = {0};
	char **environment = NULL;
	int rc;

	if (!options->role.jemalloc_library || request->elsewhere || !settings->jemalloc_library)
		return 0;
	rc = flmem_launch_environment(settings, environ, false, &environment, err);
	if (!rc)
		rc = flmem_launch_prove(settings, argv, environment, &proof, err);
	flmem_preload_proof_clear(&proof);
	flmem_launch_environment_free(environment);
	return rc;
}

static int make_env_text(const struct env_options *options, bool json, char **ret_text,
			 struct flmem_error *err)
{
	struct flmem_settings settings = {0};
	struct flmem_settings_request request;
	enum flmem_settings_format format = FLMEM_SETTINGS_FORMAT_SH;
	int rc = role_request(&options->role, &request, err);

	if (!rc && options->format && !json)
		rc = flmem_settings_format_find(options->format, &format, err);
	if (rc)
		return rc;
	request.elsewhere = flmem_settings_format_elsewhere(format);
	rc = flmem_settings_make(&request, &settings, err);
	if (!rc)
		rc = prove_library(options, &request, &settings, err);
	if (rc) {
		flmem_settings_clear(&settings);
		return rc;
	}
	role_print_problems("env", &settings);
	if (json) {
		*ret_text = flmem_report_settings_json(&settings);
		rc = *ret_text ? 0 : flmem_error_nomem(err, "cannot print the settings");
	} else {
		rc = flmem_settings_print(&settings, format, options->explain, ret_text, err);
	}
	flmem_settings_clear(&settings);
	return rc;
}

static int run_env(const struct cmd *cmd, void *options, const struct opt_rest *rest)
{
	const struct env_options *o = options;
	bool json = o->json || (o->format && strcmp(o->format, "json") == 0);
	struct flmem_error err = {0};
	char *text = NULL;

	if (cmd_no_arguments(cmd, rest, &err) || make_env_text(o, json, &text, &err))
		return cmd_fail(cmd, json, &err);
	fputs(text, stdout);
	free(text);
	return 0;
}

static const char *const env_examples[] = {
	"eval \"$(flmem env --role client)\"",
	"configure this shell for a client",
	"flmem env --role server --parallelism high --explain",
	"settings of a busy server, with reasons",
	"flmem env --role client --allocator jemalloc --format systemd",
	"lines for the [Service] section of a unit",
	"docker run --env-file <(flmem env --role trainer --format docker) image",
	"start a container with the settings",
	NULL,
};

const struct cmd cmd_env = {
	.name = "env",
	.summary = "prints the memory settings of a role for a shell or another launcher",
	.description =
		"Prints the environment variables with which a federated-learning process should "
		"start. Variables that are already set keep their value, and libraries that are "
		"already preloaded stay first. Every value is quoted for the output format.",
	.examples = env_examples,
	.options = env_options_table,
	.options_size = sizeof(struct env_options),
	.run = run_env,
};
