/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <flmem/launch.h>
#include <flmem/report.h>
#include <flmem/settings.h>
#include <flmem/text.h>

#include "cmd.h"
#include "signals.h"
#include "start.h"

static const struct opt options_table[] = {
	ROLE_OPTIONS,
	{.name = "jemalloc",
	 .letter = 'j',
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct start_options, jemalloc),
	 .help = "preload jemalloc, once a probe has shown that it loads: --allocator=jemalloc"},
	{.name = "no-inherit-preload",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct start_options, no_inherit_preload),
	 .help = "children of the command start without the preloaded jemalloc"},
	{.name = "force",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct start_options, role.force),
	 .help = "replace values that are set already; without it they stand. With --output: "
		 "replace the file"},
	{.name = "dry-run",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct start_options, dry_run),
	 .help = "prove, and print what would be started, as a shell script"},
	{.name = "json",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct start_options, json),
	 .help = "with --dry-run: print one JSON object"},
	{.name = "supervise",
	 .letter = 's',
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct start_options, supervise),
	 .help = "keep the command alive, by NVFlare's control files in the workspace: pid.fl, "
		 "daemon_pid.fl, shutdown.fl, restart.fl"},
	{.name = "workspace",
	 .letter = 'w',
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct start_options, workspace),
	 .metavar = "DIRECTORY",
	 .complete = OPT_COMPLETE_DIRECTORY,
	 .help = "where the control files are; with --emit the job's directory"},
	{.name = "wait",
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct start_options, wait),
	 .metavar = "DURATION",
	 .help = "time that the command has to end by itself, once its end is requested, before "
		 "SIGTERM (default 10s when it runs NVFlare, which has no handler for SIGTERM, "
		 "else 0)"},
	{.name = "grace",
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct start_options, grace),
	 .metavar = "DURATION",
	 .help = "time from SIGTERM to SIGKILL (default 10s)"},
	{.name = "emit",
	 .letter = 'e',
	 .kind = OPT_CHOICE,
	 .offset = offsetof(struct start_options, emit),
	 .choices = start_emit_choices,
	 .help = "start nothing, print what starts this role elsewhere: the memory block of a "
		 "start script, a whole one, a unit, a batch script, a compose service, a pod"},
	{.name = "output",
	 .letter = 'o',
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct start_options, output),
	 .metavar = "FILE",
	 .complete = OPT_COMPLETE_FILE,
	 .help = "with --emit: write this file; one that exists is kept unless --force is given"},
	{.name = "site",
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct start_options, site),
	 .metavar = "NAME",
	 .help = "with --emit: NVFlare name of the client (default site-1, in sub_start that of "
		 "the kit's directory)"},
	{.name = "org",
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct start_options, org),
	 .metavar = "NAME",
	 .help = "with --emit: NVFlare organisation"},
	{.name = "image",
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct start_options, image),
	 .metavar = "IMAGE",
	 .help = "with --emit=docker and k8s: container image"},
	{0},
};

/* What is about to be started; all owned. */
struct start {
	struct flmem_settings settings;
	char **environment;
	struct flmem_preload_proof proof;
};

static void start_clear(struct start *start)
{
	flmem_settings_clear(&start->settings);
	flmem_launch_environment_free(start->environment);
	flmem_preload_proof_clear(&start->proof);
}

static int check_supervision(const struct start_options *o, struct flmem_error *err)
{
	if (o->supervise && !o->workspace)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "--supervise needs --workspace");
	if (o->supervise && o->dry_run)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "--supervise and --dry-run exclude each other");
	if (o->output || o->site || o->org || o->image)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "--output, --site, --org and --image go with --emit");
	if (!o->supervise && (o->workspace || o->wait || o->grace))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "--workspace, --wait and --grace go with --supervise");
	return 0;
}

static int check_options(struct start_options *o, const struct opt_rest *rest,
			 struct flmem_error *err)
{
	if (o->jemalloc && o->role.allocator && strcmp(o->role.allocator, "jemalloc") != 0)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "--jemalloc and --allocator=%s exclude each other",
				       o->role.allocator);
	if (o->jemalloc)
		o->role.allocator = "jemalloc";
	if (o->emit && (o->supervise || o->dry_run || o->json || o->no_inherit_preload))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "--emit excludes --supervise, --dry-run, --json and "
				       "--no-inherit-preload");
	if (o->emit)
		return 0;
	if (o->no_inherit_preload && !o->role.allocator)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "--no-inherit-preload goes with --jemalloc");
	if (o->json && !o->dry_run)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "--json goes with --dry-run; otherwise standard output is "
				       "the command's own");
	if (!rest->count)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "no command to start; put it behind --");
	return check_supervision(o, err);
}

static int prepare(struct start *start, const struct flmem_settings_request *request, bool scrub,
		   char *const *argv, struct flmem_error *err)
{
	int rc = flmem_settings_make(request, &start->settings, err);

	if (!rc)
		rc = flmem_launch_environment(&start->settings, environ, scrub, &start->environment,
					      err);
	if (!rc && start->settings.allocator == FLMEM_ALLOCATOR_JEMALLOC)
		rc = flmem_launch_prove(&start->settings, argv, start->environment, &start->proof,
					err);
	return rc;
}

/* `auto` goes on with glibc where jemalloc does not load, and says why. */
static int prepare_any(struct start *start, const struct start_options *o, char *const *argv,
		       struct flmem_error *err)
{
	struct flmem_settings_request request;
	char shown[FLMEM_ERROR_MESSAGE_MAX];
	int rc = role_request(&o->role, &request, err);

	if (!rc)
		rc = prepare(start, &request, o->no_inherit_preload, argv, err);
	if ((rc != FLMEM_EUNSUPPORTED && rc != FLMEM_EPERM) ||
	    request.allocator != FLMEM_SETTINGS_ALLOCATOR_AUTO)
		return rc;
	fprintf(stderr, "flmem start: goes on with glibc: %s\n",
		flmem_text_escape(err->message, shown, sizeof(shown)));
	start_clear(start);
	*start = (struct start){0};
	request.allocator = FLMEM_SETTINGS_ALLOCATOR_GLIBC;
	return prepare(start, &request, false, argv, err);
}

/* A Python "shim" is such a script: then the proof is not about Python. */
static void note_shell(const struct flmem_preload_proof *proof)
{
	char shown[256];

	if (proof->program && proof->is_shell)
		fprintf(stderr,
			"flmem start: the command is a script; jemalloc is proven for its shell, "
			"%s, and inherited by what it starts\n",
			flmem_text_escape(proof->program, shown, sizeof(shown)));
}

static int print_dry_run(const struct start *start, bool json, char *const *argv,
			 struct flmem_error *err)
{
	char *text = NULL;
	int rc = 0;

	if (json) {
		text = flmem_report_start_json(&start->settings, argv,
					       start->proof.program ? &start->proof : NULL);
		rc = text ? 0 : flmem_error_set(err, FLMEM_EFAILED, 0, "out of memory");
	} else {
		if (start->proof.program)
			printf("# proven: jemalloc serves malloc in %s\n", start->proof.program);
		rc = flmem_launch_script(&start->settings, argv, false, &text, err);
	}
	if (!rc)
		fputs(text, stdout);
	free(text);
	return rc;
}

static int run(const struct cmd *cmd, void *options, const struct opt_rest *rest)
{
	struct start_options *o = options;
	struct flmem_error err = {0};
	struct start start = {0};
	int status = 0, rc = check_options(o, rest, &err);

	if (!rc && o->emit) {
		rc = start_emit(o, rest->count ? rest->values : NULL, &err);
		return rc ? cmd_fail(cmd, false, &err) : 0;
	}
	if (!rc)
		rc = prepare_any(&start, o, rest->values, &err);
	if (!rc)
		note_shell(&start.proof);
	if (!rc && o->dry_run) {
		rc = print_dry_run(&start, o->json, rest->values, &err);
	} else if (!rc && o->supervise) {
		rc = start_supervise(o, rest->values, start.environment, &status, &err);
	} else if (!rc) {
		signals_restore();
		rc = flmem_launch_exec(rest->values, start.environment, &err);
	}
	start_clear(&start);
	return rc ? cmd_fail(cmd, o->json, &err) : status;
}

static const char *const examples[] = {
	"flmem start --role client -- python3 client.py",
	"a client with 2 arenas",
	"flmem start --role server --jemalloc -- python3 -u -m my.server",
	"a server on jemalloc, or an error that says why it does not load",
	"flmem start --role trainer --allocator auto -- ./train.sh",
	"jemalloc where it loads, else glibc",
	"flmem start --role server --jemalloc --dry-run -- python3 server.py",
	"only the proof, and what would be started",
	"flmem start -r client --supervise --workspace . -- python3 -m MODULE",
	"keep a client alive; NVFlare's own stop and restart work on it",
	"flmem start --role client --emit sub_start --output startup/sub_start.sh",
	"a start script for an NVFlare kit, with a client's own arenas",
	NULL,
};

const struct cmd cmd_start = {
	.name = "start",
	.summary = "runs a command with the settings of its role, and proves them",
	.arguments = "[--] command [arguments]",
	.description =
		"Sets the environment of the role and becomes the command: same process id, "
		"signals and exit status. With jemalloc it first proves in a probe child, which "
		"is held before its main() and killed there, that the library serves malloc in "
		"this very program. The exit status is the command's; 127 when there is no such "
		"command, 126 when it cannot be executed.",
	.examples = examples,
	.options = options_table,
	.options_size = sizeof(struct start_options),
	.takes_command = true,
	.run = run,
};
