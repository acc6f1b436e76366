/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <flmem/heap_report.h>
#include <flmem/text.h>

#include "cmd.h"
#include "print/print_format.h"
#include "print/print_json.h"
#include "print/print_profile.h"
#include "profile/profile_options.h"

#define ROWS_SHOWN 20U

static const struct opt profile_tree_options_table[] = {
	PROFILE_OPTIONS("show at most this many stacks, the largest (default 20)"),
	{0},
};

static void print_branch(const struct flmem_heap_profile *p, enum flmem_heap_measure measure,
			 const struct flmem_heap_branch *branch)
{
	uint64_t total = branch->total.bytes[measure];
	char bytes[FORMAT_MAX];

	printf("%11s%7.1f%%  %*s", format_bytes(total, bytes),
	       (double)total / (double)p->totals.bytes[measure] * 100,
	       branch->depth < 60 ? (int)branch->depth - 1 : 60, "");
	print_profile_frame(p, p->nodes[branch->node].frame);
}

static void print_tree(const struct flmem_heap_profile *p, enum flmem_heap_measure measure,
		       const struct flmem_heap_tree *tree)
{
	char bytes[FORMAT_MAX];

	printf("%11s%8s  all stacks (by %s)\n", format_bytes(p->totals.bytes[measure], bytes), "",
	       flmem_heap_measure_name(measure));
	for (size_t i = 1; i < tree->count; i++)
		print_branch(p, measure, &tree->branches[i]);
	print_profile_notes(p);
}

static int show_tree(const struct profile_options *o, const struct flmem_heap_profile *p,
		     struct flmem_error *err)
{
	struct flmem_heap_tree_request request = {.sites_max = o->limit ? o->limit : ROWS_SHOWN};
	struct flmem_heap_tree tree;
	int rc = profile_measure(o, p, &request.measure, err);

	if (!rc)
		rc = flmem_heap_tree_make(p, &request, &tree, err);
	if (rc)
		return rc;
	if (o->json)
		rc = print_json(flmem_report_heap_tree_json(p, request.measure, &tree), err);
	else
		print_tree(p, request.measure, &tree);
	flmem_heap_tree_clear(&tree);
	return rc;
}

static int run_profile_tree(const struct cmd *cmd, void *options, const struct opt_rest *rest)
{
	return profile_show_one(cmd, options, rest, show_tree);
}

static const char *const profile_tree_examples[] = {
	"flmem profile tree server.prof",
	"the stacks of the 20 largest sites as one tree",
	"flmem profile tree --stack mixed --limit 5 server.prof",
	"Python and native frames together",
	NULL,
};

const struct cmd cmd_profile_tree = {
	.name = "profile tree",
	.summary = "shows the largest stacks as a tree, callers first",
	.arguments = "FILE",
	.description =
		"Each branch shows the total of all its stacks, including those that --limit "
		"omits.",
	.examples = profile_tree_examples,
	.options = profile_tree_options_table,
	.options_size = sizeof(struct profile_options),
	.complete = OPT_COMPLETE_FILE,
	.run = run_profile_tree,
};
