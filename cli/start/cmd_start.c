/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <flmem/launch.h>
#include <flmem/profile.h>
#include <flmem/report.h>
#include <flmem/settings.h>
#include <flmem/text.h>

#include "cmd.h"
#include "print/print_format.h"
#include "signals.h"
#include "start/start.h"

static const struct opt start_options_table[] = {
	ROLE_OPTIONS,
	{.name = "jemalloc",
	 .letter = 'j',
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct start_options, jemalloc),
	 .help = "preload jemalloc after a probe has shown that it loads; same as "
		 "--allocator=jemalloc"},
	{.name = "no-inherit-preload",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct start_options, no_inherit_preload),
	 .help = "start children of the command without the preloaded jemalloc"},
	{.name = "profile-ready",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct start_options, profile_ready),
	 .help = "preload the sampler of 'flmem profile', inactive until 'flmem "
		 "profile attach', which then need not load it"},
	{.name = "profile-socket",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct start_options, profile_socket),
	 .help = "as --profile-ready, and give each program that the command "
		 "executes a socket and one thread more: 'flmem profile attach' "
		 "then need not trace it. Only the same user and root may use "
		 "the socket"},
	{.name = "assume-seccomp",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct start_options, assume_seccomp),
	 .help = "with --profile-socket: create the socket also under seccomp "
		 "filters, as in containers; if they do not allow it, the "
		 "kernel may kill the command"},
	{.name = "force",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct start_options, role.force),
	 .help = "replace values that are already set (default: keep them); with --output: replace "
		 "an existing file"},
	{.name = "dry-run",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct start_options, dry_run),
	 .help = "do not start the command: run the probe of jemalloc, and "
		 "print the start as a shell script"},
	{.name = "json",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct start_options, json),
	 .help = "with --dry-run: print one JSON object"},
	{.name = "supervise",
	 .letter = 's',
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct start_options, supervise),
	 .help = "restart the command when it ends, and obey NVFlare's control "
		 "files in --workspace: pid.fl, daemon_pid.fl, shutdown.fl, "
		 "restart.fl"},
	{.name = "workspace",
	 .letter = 'w',
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct start_options, workspace),
	 .metavar = "DIRECTORY",
	 .complete = OPT_COMPLETE_DIRECTORY,
	 .help = "with --supervise: directory of the control files; with "
		 "--emit: directory of the job"},
	{.name = "wait",
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct start_options, wait),
	 .metavar = "TIME",
	 .help = "with --supervise: time between a stop request and SIGTERM, "
		 "for the command to exit by itself (default 10s if it runs "
		 "NVFlare, which has no handler for SIGTERM, else 0)"},
	{.name = "grace",
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct start_options, grace),
	 .metavar = "TIME",
	 .help = "with --supervise: time between SIGTERM and SIGKILL (default "
		 "10s)"},
	{.name = "emit",
	 .letter = 'e',
	 .kind = OPT_CHOICE,
	 .offset = offsetof(struct start_options, emit),
	 .choices = start_emit_choices,
	 .help = "start nothing; print a file that starts this role elsewhere: "
		 "the memory block of a start script, a whole start script of "
		 "NVFlare, a systemd unit, a batch script, a Compose service, a "
		 "Kubernetes pod"},
	{.name = "output",
	 .letter = 'o',
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct start_options, output),
	 .metavar = "FILE",
	 .complete = OPT_COMPLETE_FILE,
	 .help = "with --emit: write this file; an existing file is kept unless --force is given"},
	{.name = "site",
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct start_options, site),
	 .metavar = "NAME",
	 .help = "with --emit: NVFlare name of the client (default site-1; sub_start: name of the "
		 "kit's directory)"},
	{.name = "org",
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct start_options, org),
	 .metavar = "NAME",
	 .help = "with --emit: NVFlare organisation"},
	{.name = "image",
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct start_options, image),
	 .metavar = "IMAGE",
	 .help = "with --emit=docker or k8s: container image"},
	{.name = "command",
	 .kind = OPT_CHOICE,
	 .offset = offsetof(struct start_options, command),
	 .choices = start_command_choices,
	 .help = "with --emit: the command is 'flmem aggregate' with the arguments after --"},
	{.name = "tasks",
	 .kind = OPT_NUMBER,
	 .offset = offsetof(struct start_options, tasks),
	 .metavar = "N",
	 .help = "with --emit=slurm or pbs: start the command in N processes of an MPI job; with "
		 "--command=aggregate they share the work (default 1)"},
	{0},
};

/* This is everything needed to start the command. It owns all of it. */
struct start_command {
	struct flmem_settings settings;
	char **environment;
	struct flmem_preload_proof proof;
};

static void start_clear(struct start_command *start)
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
	if (o->output || o->site || o->org || o->image || o->command || o->tasks)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "--output, --site, --org, --image, --command and --tasks "
				       "need --emit");
	if (!o->supervise && (o->workspace || o->wait || o->grace))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "--workspace, --wait and --grace need --supervise");
	return 0;
}

static int check_start_options(struct start_options *o, const struct opt_rest *rest,
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
				       "--emit cannot be combined with --supervise, --dry-run, "
				       "--json or --no-inherit-preload");
	if ((o->profile_ready || o->profile_socket) && (o->emit || o->dry_run))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "%s cannot be combined with --emit or --dry-run",
				       o->profile_socket ? "--profile-socket" : "--profile-ready");
	if (o->assume_seccomp && !o->profile_socket)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "--assume-seccomp needs --profile-socket");
	if (o->emit)
		return 0;
	if (o->no_inherit_preload && !o->role.allocator)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "--no-inherit-preload needs --jemalloc");
	if (o->json && !o->dry_run)
		return flmem_error_set(
			err, FLMEM_EUSAGE, 0,
			"--json needs --dry-run; otherwise standard output belongs to the command");
	if (!rest->count)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "no command to start; give it after --");
	return check_supervision(o, err);
}

static int prepare_start(struct start_command *start, const struct flmem_settings_request *request,
			 bool scrub, char *const *argv, struct flmem_error *err)
{
	int rc = flmem_settings_make(request, &start->settings, err);

	if (!rc)
		role_print_problems("start", &start->settings);
	if (!rc)
		rc = flmem_launch_environment(&start->settings, environ, scrub, &start->environment,
					      err);
	if (!rc && start->settings.allocator == FLMEM_ALLOCATOR_JEMALLOC)
		rc = flmem_launch_prove(&start->settings, argv, start->environment, &start->proof,
					err);
	return rc;
}

/* With `auto`, falls back to glibc if jemalloc does not load, and prints why. */
static int prepare_start_or_fall_back(struct start_command *start, const struct start_options *o,
				      char *const *argv, struct flmem_error *err)
{
	struct flmem_settings_request request;
	char shown[ESCAPED_MESSAGE_MAX];
	int rc = role_request(&o->role, &request, err);

	if (!rc)
		rc = prepare_start(start, &request, o->no_inherit_preload, argv, err);
	if ((rc != FLMEM_EUNSUPPORTED && rc != FLMEM_EPERM) ||
	    request.allocator != FLMEM_SETTINGS_ALLOCATOR_AUTO)
		return rc;
	fprintf(stderr, "flmem start: using glibc instead of jemalloc: %s\n",
		flmem_text_escape(err->message, shown, sizeof(shown)));
	start_clear(start);
	*start = (struct start_command){0};
	request.allocator = FLMEM_SETTINGS_ALLOCATOR_GLIBC;
	return prepare_start(start, &request, false, argv, err);
}

/*
 * Prepares the environment for the sampler. It follows the proof of jemalloc, because the sampler
 * passes calls on to it.
 */
static int make_profile_ready(struct start_command *start, const struct start_options *o,
			      const char *program, struct flmem_error *err)
{
	char **environment;
	int rc = flmem_profile_program_check(program, err);

	if (rc)
		return rc;
	rc = o->profile_socket ? flmem_profile_ready_socket(o->assume_seccomp, start->environment,
							    &environment, err)
			       : flmem_profile_ready(start->environment, &environment, err);
	if (rc)
		return rc;
	flmem_launch_environment_free(start->environment);
	start->environment = environment;
	return 0;
}

/*
 * Prints a note for a Python "shim", which is a shell script: the probe then covers the shell, not
 * Python.
 */
static void note_shell_probe(const struct flmem_preload_proof *proof)
{
	char shown[256];

	if (proof->program && proof->is_shell)
		fprintf(stderr,
			"flmem start: the command is a script; jemalloc is verified for its shell, "
			"%s, and inherited by its children\n",
			flmem_text_escape(proof->program, shown, sizeof(shown)));
}

static int print_dry_run(const struct start_command *start, bool json, char *const *argv,
			 struct flmem_error *err)
{
	char *text = NULL;
	int rc = 0;

	if (json) {
		text = flmem_report_start_json(&start->settings, argv,
					       start->proof.program ? &start->proof : NULL);
		rc = text ? 0 : flmem_error_nomem(err, "cannot print the settings");
	} else {
		if (start->proof.program)
			printf("# verified: jemalloc serves malloc in %s\n", start->proof.program);
		rc = flmem_launch_script(&start->settings, argv, false, &text, err);
	}
	if (!rc)
		fputs(text, stdout);
	free(text);
	return rc;
}

static int run_start(const struct cmd *cmd, void *options, const struct opt_rest *rest)
{
	struct start_options *o = options;
	struct flmem_error err = {0};
	struct start_command start = {0};
	int status = 0, rc = check_start_options(o, rest, &err);

	if (!rc && o->emit) {
		rc = start_emit(o, rest->count ? rest->values : NULL, &err);
		return rc ? cmd_fail(cmd, false, &err) : 0;
	}
	if (!rc)
		rc = prepare_start_or_fall_back(&start, o, rest->values, &err);
	if (!rc)
		note_shell_probe(&start.proof);
	if (!rc && (o->profile_ready || o->profile_socket))
		rc = make_profile_ready(&start, o, rest->values[0], &err);
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

static const char *const start_examples[] = {
	"flmem start --role client -- python3 client.py",
	"a client with 2 arenas",
	"flmem start --role server --jemalloc -- python3 -u -m my.server",
	"a server with jemalloc, or an error with the reason why it does not load",
	"flmem start --role trainer --allocator auto -- ./train.sh",
	"jemalloc if it loads, else glibc",
	"flmem start --role server --jemalloc --dry-run -- python3 server.py",
	"run the probe only and print the start script",
	"flmem start -r client --supervise --workspace . -- python3 -m MODULE",
	"keep a client running; NVFlare's stop and restart control it",
	"flmem start --role client --emit sub_start --output startup/sub_start.sh",
	"a start script for an NVFlare kit, with the arenas of a client",
	NULL,
};

const struct cmd cmd_start = {
	.name = "start",
	.summary = "runs a command with the settings of its role and verifies them",
	.arguments = "[--] command [arguments]",
	.description =
		"Sets the environment of the role and executes the command in the process of "
		"flmem, so process ID, signals and exit status are those of the command. With "
		"jemalloc it first verifies that the library serves malloc in this program, "
		"in a probe child that is stopped before its main() and killed there. The "
		"exit status is that of the command; 127 if the command does not exist, 126 "
		"if it cannot be executed.",
	.examples = start_examples,
	.options = start_options_table,
	.options_size = sizeof(struct start_options),
	.takes_command = true,
	.run = run_start,
};
