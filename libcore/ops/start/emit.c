/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/emit.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/files/io.h"
#include "base/text/buf.h"
#include "base/text/quote.h"
#include "frameworks/start_ops.h"
#include "ops/start/emit_image.h"
#include "ops/start/emit_place.h"
#include "settings/preload.h"
#include "settings/table.h"

/* State of the text that is being written. */
struct emit_state {
	const struct flmem_emit_options *options;
	const struct flmem_settings *settings;
	const char *role;
	const struct flmem_start_ops *start;
	char *const *argv; /* the command; NULL in a start script that runs the standard command */
	/* Directory that the user named, as the reader accepts it; NULL: none. */
	const char *directory;
	const char *program; /* argv[0] as the reader accepts it; NULL: unchanged */
	const char *problem; /* what the format cannot represent; NULL: nothing */
	struct flmem_buf out;
};

static void put_quoted(struct emit_state *e, flmem_quote_fn *quote, const char *text)
{
	const char *problem = quote(&e->out, text);

	if (problem)
		e->problem = problem;
}

static void put_words(struct emit_state *e, flmem_quote_fn *quote, const char *separator)
{
	for (char *const *a = e->argv; *a; a++) {
		if (a != e->argv)
			flmem_buf_puts(&e->out, separator);
		put_quoted(e, quote, *a);
	}
}

/* Writes the command. In its first word, the path, systemd expands specifiers but no variables. */
static void put_unit_words(struct emit_state *e)
{
	put_quoted(e, flmem_quote_systemd, e->program ? e->program : e->argv[0]);
	for (char *const *a = e->argv + 1; *a; a++) {
		flmem_buf_putc(&e->out, ' ');
		put_quoted(e, flmem_quote_systemd_command, *a);
	}
}

static bool is_emitted_variable(const struct flmem_setting *s)
{
	return !s->where && s->value;
}

static const struct flmem_setting_row *find_emit_row(const char *name)
{
	const struct flmem_setting_row *row;

	for (size_t i = 0; (row = flmem_setting_row_at(i)); i++)
		if (strcmp(row->name, name) == 0)
			break;
	return row;
}

static const char *describe_jemalloc_default(void)
{
	const struct flmem_setting_row *row = find_emit_row("MALLOC_CONF");

	return row ? row->value : "";
}

/*
 * Exports a setting. A value that is set where the script runs is kept, unless its reader would
 * ignore it.
 */
static void put_export(struct emit_state *e, const struct flmem_setting *s)
{
	const struct flmem_setting_row *row = find_emit_row(s->name);

	if (row && row->ignored_pattern)
		flmem_buf_printf(&e->out, "case ${%s:-} in %s) unset %s ;; esac\n", s->name,
				 row->ignored_pattern, s->name);
	flmem_buf_printf(&e->out, "export %s=\"${%s:-%s}\"\n", s->name, s->name, s->value);
}

/*
 * Writes the memory settings of a script: values that are already set are kept, and jemalloc is
 * opt-in.
 */
static void put_block(struct emit_state *e)
{
	bool wanted = e->options->settings.allocator == FLMEM_SETTINGS_ALLOCATOR_JEMALLOC;

	flmem_buf_printf(&e->out, "# Memory settings of a %s.\n", e->role);
	for (size_t i = 0; i < e->settings->count; i++) {
		const struct flmem_setting *s = &e->settings->rows[i];

		if (is_emitted_variable(s))
			put_export(e, s);
	}
	flmem_buf_printf(&e->out,
			 "# jemalloc is preloaded only when it is opted in to and installed.\n"
			 "if [ \"${%s:-%s}\" = \"true\" ]; then\n"
			 "	for JEMALLOC in ",
			 e->start->jemalloc_variable, wanted ? "true" : "false");
	if (e->options->settings.jemalloc_library) {
		put_quoted(e, flmem_quote_sh, e->options->settings.jemalloc_library);
		flmem_buf_puts(&e->out, " \\\n\t\t");
	}
	for (const char *const *p = flmem_jemalloc_paths; *p; p++)
		flmem_buf_printf(&e->out, "%s%s", p == flmem_jemalloc_paths ? "" : " \\\n\t\t", *p);
	flmem_buf_printf(&e->out,
			 "; do\n"
			 "		if [ -f \"$JEMALLOC\" ]; then\n"
			 "			export "
			 "LD_PRELOAD=\"${LD_PRELOAD:+$LD_PRELOAD:}$JEMALLOC\"\n"
			 "			export MALLOC_CONF=\"${MALLOC_CONF:-%s}\"\n"
			 "			break\n"
			 "		fi\n"
			 "	done\n"
			 "fi\n",
			 describe_jemalloc_default());
}

static void emit_snippet(struct emit_state *e)
{
	put_block(e);
}

static void put_standard_run(struct emit_state *e)
{
	const struct flmem_emit_options *o = e->options;

	if (!o->site || !o->org)
		flmem_buf_puts(&e->out, e->start->script_names);
	flmem_buf_puts(&e->out, "site=");
	if (o->site)
		put_quoted(e, flmem_quote_sh, o->site);
	else
		flmem_buf_puts(&e->out, e->start->script_site);
	flmem_buf_puts(&e->out, "\norg=");
	if (o->org)
		put_quoted(e, flmem_quote_sh, o->org);
	else
		flmem_buf_puts(&e->out, e->start->script_org);
	flmem_buf_puts(&e->out, "\nexport site org\n\n");
	flmem_buf_puts(&e->out, e->start->script_run(e->settings->role));
}

static void emit_sub_start(struct emit_state *e)
{
	flmem_buf_printf(&e->out,
			 "#!/bin/sh\n# Starts %s %s with its memory settings and keeps it "
			 "running.\n",
			 e->start->script_kit, e->role);
	flmem_buf_puts(&e->out, e->start->script_head);
	put_block(e);
	flmem_buf_puts(&e->out, e->start->script_middle);
	if (e->argv) {
		flmem_buf_puts(&e->out, "run() {\n\texec ");
		put_words(e, flmem_quote_sh, " ");
		flmem_buf_puts(&e->out, "\n}\n");
	} else {
		put_standard_run(e);
	}
	flmem_buf_puts(&e->out, e->start->script_tail);
}

/* Writes a batch script. `launcher` is the command prefix that starts several processes. */
static void put_batch(struct emit_state *e, const char *submitted, const char *launcher)
{
	flmem_buf_puts(&e->out, "set -eu\n");
	/* A batch system may start a script in the home directory. */
	if (!e->directory || *e->directory != '/')
		flmem_buf_printf(&e->out, "cd -- \"${%s:-.}\"\n", submitted);
	if (e->directory) {
		flmem_buf_puts(&e->out, "cd -- ");
		put_quoted(e, flmem_quote_sh, e->directory);
		flmem_buf_putc(&e->out, '\n');
	}
	flmem_buf_putc(&e->out, '\n');
	put_block(e);
	flmem_buf_puts(&e->out, "\nexec ");
	if (e->options->tasks > 1)
		flmem_buf_puts(&e->out, launcher);
	put_words(e, flmem_quote_sh, " ");
	flmem_buf_putc(&e->out, '\n');
	/* sbatch and qsub take a script with such a line for one of DOS, and refuse it. */
	if (e->out.data && strstr(e->out.data, "\r\n"))
		e->problem = "a carriage return before a line break";
}

static void emit_slurm(struct emit_state *e)
{
	unsigned tasks = e->options->tasks;

	flmem_buf_printf(&e->out,
			 "#!/bin/bash\n#SBATCH --job-name=fl-%s\n%s#SBATCH --ntasks=%u\n%s",
			 e->role, tasks > 1 ? "" : "#SBATCH --nodes=1\n", tasks > 1 ? tasks : 1,
			 e->options->settings.gpu ? "#SBATCH --gres=gpu:1\n" : "");
	put_batch(e, "SLURM_SUBMIT_DIR", "srun --mpi=pmix ");
}

static void emit_pbs(struct emit_state *e)
{
	char launcher[32];

	flmem_buf_printf(&e->out, "#!/bin/bash\n#PBS -N fl-%s\n#PBS -l select=%u%s%s\n", e->role,
			 e->options->tasks > 1 ? e->options->tasks : 1,
			 e->options->tasks > 1 ? ":mpiprocs=1" : "",
			 e->options->settings.gpu ? ":ngpus=1" : "");
	snprintf(launcher, sizeof(launcher), "mpirun -n %u ", e->options->tasks);
	put_batch(e, "PBS_O_WORKDIR", launcher);
}

static const char *find_workspace(const struct emit_state *e)
{
	return e->directory ? e->directory : "/workspace";
}

static void emit_systemd(struct emit_state *e)
{
	FLMEM_AUTO_FREE char *variables = NULL;
	struct flmem_error err = {0};

	flmem_buf_printf(
		&e->out,
		"[Unit]\nDescription=Federated learning %s\nWants=network-online.target\n"
		"After=network-online.target\nStartLimitIntervalSec=300\nStartLimitBurst=5\n\n"
		"[Service]\nType=exec\nWorkingDirectory=",
		e->role);
	/* In a path setting systemd expands specifiers, but knows no quotes (systemd.exec(5)). */
	for (const char *p = find_workspace(e); *p; p++)
		flmem_buf_printf(&e->out, "%s%c", *p == '%' ? "%" : "", *p);
	flmem_buf_putc(&e->out, '\n');
	if (flmem_settings_print(e->settings, FLMEM_SETTINGS_FORMAT_SYSTEMD, false, &variables,
				 &err))
		e->problem = "a setting";
	else
		flmem_buf_puts(&e->out, variables);
	flmem_buf_puts(&e->out, "ExecStart=");
	put_unit_words(e);
	flmem_buf_puts(&e->out, "\nRestart=on-failure\nRestartSec=1\n\n[Install]\n"
				"WantedBy=multi-user.target\n");
}

static void emit_docker(struct emit_state *e)
{
	flmem_buf_printf(&e->out, "services:\n  fl-%s:\n    image: ", e->role);
	put_quoted(e, flmem_quote_k8s, e->options->image ? e->options->image : "your-image");
	flmem_buf_puts(&e->out, "\n    working_dir: ");
	put_quoted(e, flmem_quote_k8s, find_workspace(e));
	flmem_buf_puts(&e->out, "\n    environment:\n");
	for (size_t i = 0; i < e->settings->count; i++) {
		if (!is_emitted_variable(&e->settings->rows[i]))
			continue;
		flmem_buf_printf(&e->out, "      %s: ", e->settings->rows[i].name);
		put_quoted(e, flmem_quote_k8s, e->settings->rows[i].value);
		flmem_buf_putc(&e->out, '\n');
	}
	flmem_buf_puts(&e->out, "    command:\n      - ");
	put_words(e, flmem_quote_k8s, "\n      - ");
	flmem_buf_puts(&e->out, "\n    init: true\n    restart: \"on-failure:5\"\n");
	/* Readers older than Compose 2.30 do not know the short form, gpus: all. */
	if (e->options->settings.gpu)
		flmem_buf_puts(&e->out, "    deploy:\n      resources:\n        reservations:\n"
					"          devices:\n            - driver: nvidia\n"
					"              count: all\n"
					"              capabilities: [gpu]\n");
}

static void emit_k8s(struct emit_state *e)
{
	flmem_buf_printf(
		&e->out,
		"apiVersion: v1\nkind: Pod\nmetadata:\n  name: fl-%s\nspec:\n"
		"  restartPolicy: OnFailure\n  containers:\n    - name: fl-%s\n      image: ",
		e->role, e->role);
	put_quoted(e, flmem_quote_yaml, e->options->image ? e->options->image : "your-image");
	flmem_buf_puts(&e->out, "\n      workingDir: ");
	put_quoted(e, flmem_quote_yaml, find_workspace(e));
	flmem_buf_puts(&e->out, "\n      env:\n");
	for (size_t i = 0; i < e->settings->count; i++) {
		if (!is_emitted_variable(&e->settings->rows[i]))
			continue;
		flmem_buf_printf(&e->out, "        - name: %s\n          value: ",
				 e->settings->rows[i].name);
		put_quoted(e, flmem_quote_k8s, e->settings->rows[i].value);
		flmem_buf_putc(&e->out, '\n');
	}
	flmem_buf_puts(&e->out, "      command:\n        - ");
	put_words(e, flmem_quote_k8s, "\n        - ");
	flmem_buf_putc(&e->out, '\n');
	if (e->options->settings.gpu)
		flmem_buf_puts(&e->out, "      resources:\n        limits:\n"
					"          nvidia.com/gpu: 1\n");
}

/* Kinds of text. Scripts search for jemalloc where they run; the other formats name its path. */
static const struct {
	void (*emit)(struct emit_state *e);
	bool is_program;
	bool finds_jemalloc;
	bool needs_command;
	enum flmem_emit_place place;
} emit_kinds[] = {
	[FLMEM_EMIT_SNIPPET] = {emit_snippet, false, true, false, FLMEM_PLACE_SCRIPT},
	[FLMEM_EMIT_SUB_START] = {emit_sub_start, true, true, false, FLMEM_PLACE_SCRIPT},
	[FLMEM_EMIT_SYSTEMD] = {emit_systemd, false, false, true, FLMEM_PLACE_HOST},
	[FLMEM_EMIT_SLURM] = {emit_slurm, true, true, true, FLMEM_PLACE_SCRIPT},
	[FLMEM_EMIT_PBS] = {emit_pbs, true, true, true, FLMEM_PLACE_SCRIPT},
	[FLMEM_EMIT_DOCKER] = {emit_docker, false, false, true, FLMEM_PLACE_CONTAINER},
	[FLMEM_EMIT_K8S] = {emit_k8s, false, false, true, FLMEM_PLACE_CONTAINER},
};

bool flmem_emit_is_program(enum flmem_emit_kind kind)
{
	return emit_kinds[kind].is_program;
}

/* Finds the framework's command for the role; false if there is none. */
static bool make_standard_command(const struct emit_state *e,
				  struct flmem_start_command *ret_command)
{
	const struct flmem_emit_options *o = e->options;
	const struct flmem_start_ops *start = flmem_start_of(e->settings->framework);
	const struct flmem_start_request request = {
		.role = e->settings->role,
		.workspace = emit_kinds[o->kind].finds_jemalloc ? "." : find_workspace(e),
		.site = o->site ? o->site : "site-1",
		.org = o->org ? o->org : "",
	};

	return start && start->command(&request, ret_command);
}

static int finish_text(struct emit_state *e, char **ret_text, struct flmem_error *err)
{
	char *text;

	if (e->problem)
		return flmem_error_set(
			err, FLMEM_EUNSUPPORTED, 0,
			"the command or a name cannot be written in this format: it has %s",
			e->problem);
	text = flmem_buf_take(&e->out);
	if (!text)
		return flmem_error_nomem(err, "cannot write the text");
	*ret_text = text;
	return 0;
}

static int choose_program(struct emit_state *e, char **ret_program, struct flmem_error *err)
{
	int rc = 0;

	if (e->options->kind == FLMEM_EMIT_SYSTEMD && e->argv)
		rc = flmem_emit_unit_program(e->argv[0], e->directory, ret_program, err);
	e->program = *ret_program;
	return rc;
}

static int emit_text(struct emit_state *e, char **ret_text, struct flmem_error *err)
{
	const struct flmem_emit_options *o = e->options;
	FLMEM_AUTO_FREE char *program = NULL;
	struct flmem_start_command command;
	bool standard = make_standard_command(e, &command);
	int rc;

	if (!o->argv && !standard && o->kind != FLMEM_EMIT_SNIPPET)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "a %s of %s has no standard command; put one after --",
				       e->role, flmem_framework_name(e->settings->framework));
	e->argv = o->argv;
	if (!o->argv && emit_kinds[o->kind].needs_command)
		e->argv = (char *const *)(uintptr_t)command.words;
	rc = choose_program(e, &program, err);
	if (!rc) {
		emit_kinds[o->kind].emit(e);
		rc = finish_text(e, ret_text, err);
		flmem_buf_clear(&e->out);
	}
	e->argv = NULL; /* it may point into `command`, which goes out of scope */
	return rc;
}

int flmem_emit(const struct flmem_emit_options *options, char **ret_text, struct flmem_error *err)
{
	struct flmem_settings_request request = options->settings;
	FLMEM_AUTO(flmem_settings_clear) struct flmem_settings settings = {0};
	FLMEM_AUTO_FREE char *directory = NULL;
	struct emit_state e = {.options = options, .settings = &settings, .out = FLMEM_BUF_INIT};
	int rc = flmem_emit_directory(emit_kinds[options->kind].place, options->workspace,
				      &directory, err);

	if (!rc && options->argv && options->argv[0] && !*options->argv[0])
		rc = flmem_error_set(err, FLMEM_EUSAGE, 0, "the command after -- is empty");
	if (!rc && options->image)
		rc = flmem_emit_image_check(options->image, err);
	if (rc)
		return rc;
	e.directory = directory;
	/* For the other kinds flmem_settings_make() checks the library. */
	if (emit_kinds[options->kind].finds_jemalloc && request.jemalloc_library)
		rc = flmem_preload_check(request.jemalloc_library, false, err);
	if (rc)
		return rc;

	request.environment = NULL;
	request.elsewhere = true;
	if (emit_kinds[options->kind].finds_jemalloc)
		request.allocator = FLMEM_SETTINGS_ALLOCATOR_GLIBC;
	rc = flmem_settings_make(&request, &settings, err);
	if (rc)
		return rc;
	e.role = flmem_role_name(settings.role);
	e.start = flmem_start_script_of(settings.framework);
	return emit_text(&e, ret_text, err);
}

int flmem_emit_save(const char *path, const char *text, bool executable, bool replace,
		    struct flmem_error *err)
{
	return flmem_io_write_file(path, text, strlen(text), executable ? 0755 : 0644, replace,
				   err);
}
