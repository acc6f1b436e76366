/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <flmem/heap_report.h>
#include <flmem/output_place.h>
#include <flmem/text.h>

#include "cmd.h"
#include "print/print_profile.h"
#include "profile/profile_options.h"

struct export_options {
	struct profile_options profile; /* must be first: PROFILE_..._OPTION */
	const char *format;
	const char *output;
};

#define TEXT_ROW(name, text) text,
static const char *const profile_export_format_choices[] = {FLMEM_HEAP_FORMATS(TEXT_ROW) NULL};
#undef TEXT_ROW

static const struct opt profile_export_options_table[] = {
	{.name = "format",
	 .letter = 'f',
	 .kind = OPT_CHOICE,
	 .offset = offsetof(struct export_options, format),
	 .choices = profile_export_format_choices,
	 .help = "pprof (compressed), collapsed stacks of flamegraph.pl, speedscope, or JSON with "
		 "all stacks (required)"},
	{.name = "output",
	 .letter = 'o',
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct export_options, output),
	 .metavar = "FILE",
	 .complete = OPT_COMPLETE_FILE,
	 .once = true,
	 .help = "write to a file, which must not exist (default: standard output)"},
	PROFILE_BY_OPTION,
	PROFILE_STACK_OPTION,
	PROFILE_ROUND_OPTION,
	{0},
};

/* Writes the new file. It did not exist before. */
static int write_export_file(const char *path, const char *bytes, size_t length,
			     struct flmem_error *err)
{
	FILE *out = fopen(path, "wxe");
	char shown[FLMEM_HEAP_FRAME_TEXT_MAX];
	bool opened = out;
	int error = errno;

	flmem_text_escape(path, shown, sizeof(shown));
	if (!opened && error == EEXIST)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' exists; name another file with --output, or remove it",
				       shown);
	if (opened) {
		bool done = fwrite(bytes, 1, length, out) == length;

		error = errno;
		if (fclose(out) == 0 && done)
			return 0;
		error = done ? errno : error;
		unlink(path);
	}
	return flmem_error_set(err, opened ? FLMEM_EFAILED : flmem_code_of_open(error), error,
			       "cannot write '%s'", shown);
}

static int export_profile(const struct export_options *o, const struct flmem_heap_profile *p,
			  struct flmem_error *err)
{
	enum flmem_heap_format format = FLMEM_HEAP_FORMAT_PPROF;
	enum flmem_heap_measure measure;
	size_t length;
	char *bytes;
	int rc = profile_measure(&o->profile, p, &measure, err);

	while (strcmp(profile_export_format_choices[format], o->format) != 0)
		format++;
	if (!rc)
		rc = flmem_heap_export(p, format, measure, &bytes, &length, err);
	if (rc)
		return rc;
	if (o->output)
		rc = flmem_output_place_check(o->output, err);
	if (!rc && o->output)
		rc = write_export_file(o->output, bytes, length, err);
	else if (!rc)
		fwrite(bytes, 1, length, stdout); /* main() reports a failure */
	free(bytes);
	if (!rc)
		print_profile_notes(p);
	return rc;
}

static int check_export(const struct export_options *o, struct flmem_error *err)
{
	if (!o->format)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "give --format: pprof, collapsed, speedscope or json");
	if (strcmp(o->format, "pprof") == 0 && !o->output && isatty(STDOUT_FILENO))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "pprof is binary: give --output FILE, or redirect it");
	return 0;
}

static int run_profile_export(const struct cmd *cmd, void *options, const struct opt_rest *rest)
{
	struct export_options *o = options;
	struct flmem_heap_profile *profile = NULL;
	struct flmem_error err = {0};
	int rc = profile_count_files(rest, 1, &err);

	/* Frames of imports stay: the programs that read the export have filters themselves. */
	o->profile.import_frames = true;
	if (!rc)
		rc = check_export(o, &err);
	if (!rc)
		rc = profile_load(&o->profile, rest, 0, true, &profile, &err);
	if (!rc)
		rc = export_profile(o, profile, &err);
	flmem_heap_profile_free(profile);
	return rc ? cmd_fail(cmd, false, &err) : 0;
}

static const char *const profile_export_examples[] = {
	"flmem profile export --format pprof -o server.pb.gz server.prof",
	"for 'go tool pprof' and services that read its format",
	"flmem profile export -f collapsed server.prof | flamegraph.pl > peak.svg",
	"collapsed stacks of what was live at the peak",
	NULL,
};

const struct cmd cmd_profile_export = {
	.name = "profile export",
	.summary = "converts a heap profile for other tools",
	.arguments = "FILE",
	.description =
		"pprof and speedscope files contain all measures; viewers first show the one "
		"of --by. Collapsed stacks contain only that measure.",
	.examples = profile_export_examples,
	.options = profile_export_options_table,
	.options_size = sizeof(struct export_options),
	.complete = OPT_COMPLETE_FILE,
	.run = run_profile_export,
};
