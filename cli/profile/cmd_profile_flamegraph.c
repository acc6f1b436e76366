/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include <flmem/heap_report.h>
#include <flmem/output_place.h>
#include <flmem/text.h>

#include "cmd.h"
#include "print/print_profile.h"
#include "profile/profile_options.h"

struct flamegraph_options {
	struct profile_options profile; /* must be first: PROFILE_..._OPTION */
	const char *output;
};

static const struct opt profile_flamegraph_options_table[] = {
	{.name = "output",
	 .letter = 'o',
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct flamegraph_options, output),
	 .metavar = "PAGE",
	 .complete = OPT_COMPLETE_FILE,
	 .once = true,
	 .help = "file for the page (default: FILE.html); a page of flmem is replaced, another "
		 "file is not"},
	PROFILE_BY_OPTION,
	PROFILE_STACK_OPTION,
	PROFILE_IMPORTS_OPTION,
	PROFILE_ROUND_OPTION,
	{0},
};

static int draw_profile(const struct flamegraph_options *o, const char *path,
			const struct flmem_heap_profile *p, struct flmem_error *err)
{
	char name[FLMEM_HEAP_FRAME_TEXT_MAX], shown[FLMEM_HEAP_FRAME_TEXT_MAX];
	const char *page = o->output ? o->output : name;
	enum flmem_heap_measure measure;
	int rc = profile_measure(&o->profile, p, &measure, err);

	if (!o->output && (size_t)snprintf(name, sizeof(name), "%s.html", path) >= sizeof(name))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "the name of the file is too long: give --output PAGE");
	if (!rc)
		rc = flmem_output_place_check(page, err);
	if (!rc)
		rc = flmem_heap_page_write(p, NULL, measure, page, err);
	if (rc)
		return rc;
	print_profile_notes(p);
	printf("%s\n", flmem_text_escape(page, shown, sizeof(shown)));
	return 0;
}

static int run_profile_flamegraph(const struct cmd *cmd, void *options, const struct opt_rest *rest)
{
	const struct flamegraph_options *o = options;
	struct flmem_heap_profile *profile = NULL;
	struct flmem_error err = {0};
	int rc = profile_count_files(rest, 1, &err);

	if (!rc)
		rc = profile_load(&o->profile, rest, 0, true, &profile, &err);
	if (!rc)
		rc = draw_profile(o, rest->values[0], profile, &err);
	flmem_heap_profile_free(profile);
	return rc ? cmd_fail(cmd, false, &err) : 0;
}

static const char *const profile_flamegraph_examples[] = {
	"flmem profile flamegraph server.prof",
	"writes the self-contained page server.prof.html",
	"flmem profile flamegraph --by live --stack python -o live.html server.prof",
	"begin with what is live at the end, without native frames",
	NULL,
};

const struct cmd cmd_profile_flamegraph = {
	.name = "profile flamegraph",
	.summary = "draws a heap profile as a page with a flame graph",
	.arguments = "FILE",
	.description =
		"The page is one self-contained file. It has search, zoom, an inverted view "
		"and a choice of measures, can be used by keyboard, and shows resident memory "
		"and live heap over time with the rounds.",
	.examples = profile_flamegraph_examples,
	.options = profile_flamegraph_options_table,
	.options_size = sizeof(struct flamegraph_options),
	.complete = OPT_COMPLETE_FILE,
	.run = run_profile_flamegraph,
};
