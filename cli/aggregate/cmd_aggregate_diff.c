/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <flmem/compare.h>
#include <flmem/parse.h>
#include <flmem/report.h>
#include <flmem/text.h>

#include "aggregate/aggregate_progress.h"
#include "cmd.h"
#include "options/http_options.h"
#include "print/print_json.h"
#include "signals.h"

#define SHOWN_MAX   1024
#define PRINTED_MAX 20U

struct aggregate_diff_options {
	struct http_options http; /* must be first: HTTP_OPTIONS */
	const char *key;
	const char *tolerance;
	uint64_t threads;
	bool json;
};

static const struct opt aggregate_diff_options_table[] = {
	{.name = "key",
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct aggregate_diff_options, key),
	 .metavar = "NAME",
	 .help = "for PyTorch checkpoints: the dict that has the tensors, for example state_dict "
		 "(default: the top level)"},
	HTTP_OPTIONS,
	{.name = "tolerance",
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct aggregate_diff_options, tolerance),
	 .metavar = "NUMBER",
	 .help = "accept differences of elements up to this (default 0)"},
	{.name = "threads",
	 .kind = OPT_NUMBER,
	 .offset = offsetof(struct aggregate_diff_options, threads),
	 .metavar = "N",
	 .help = "threads that read and compute (default: two per processor, at most 8)"},
	{.name = "json",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct aggregate_diff_options, json),
	 .help = "print one JSON object, with all tensors that differ"},
	{0},
};

/* Orders tensors that have values other than numbers first, then the largest differences. */
static int compare_size(const void *a, const void *b)
{
	const struct flmem_compared_tensor *x = a, *y = b;
	double one = isnan(x->absolute) ? (double)INFINITY : x->absolute;
	double other = isnan(y->absolute) ? (double)INFINITY : y->absolute;

	return one > other ? -1 : one < other;
}

static void print_compared_tensor(const struct flmem_compared_tensor *tensor)
{
	char shown[SHOWN_MAX], count[FLMEM_TEXT_COUNTED_MAX];

	printf("  %s: %s", flmem_text_escape(tensor->name, shown, sizeof(shown)),
	       tensor->difference);
	if (tensor->shapes[0] && tensor->shapes[1] &&
	    strcmp(tensor->shapes[0], tensor->shapes[1]) != 0)
		printf(", %s and %s", tensor->shapes[0], tensor->shapes[1]);
	if (tensor->dtypes[0] && tensor->dtypes[1] && tensor->dtypes[0] != tensor->dtypes[1])
		printf(", %s and %s", tensor->dtypes[0], tensor->dtypes[1]);
	if (isnan(tensor->absolute) && tensor->differing)
		printf(", %s differ%s",
		       flmem_text_counted(tensor->differing, "byte", count, sizeof(count)),
		       tensor->differing == 1 ? "s" : "");
	else if (tensor->differing)
		printf(", at most %.6g (element %" PRIu64 "), relative %.6g, %s differ%s",
		       tensor->absolute, tensor->at, tensor->relative,
		       flmem_text_counted(tensor->differing, "element", count, sizeof(count)),
		       tensor->differing == 1 ? "s" : "");
	putchar('\n');
}

static void print_comparison(struct flmem_comparison *comparison)
{
	size_t count = comparison->differing_count;
	char all[FLMEM_TEXT_COUNTED_MAX];

	printf("%zu of %s differ%s, %" PRIu64
	       " of them in name, shape or type, or by more than the tolerance\n",
	       count, flmem_text_counted(comparison->tensors, "tensor", all, sizeof(all)),
	       comparison->tensors == 1 ? "s" : "", comparison->exceeding);
	if (count)
		qsort(comparison->differing, count, sizeof(*comparison->differing), compare_size);
	for (size_t i = 0; i < count && i < PRINTED_MAX; i++)
		print_compared_tensor(&comparison->differing[i]);
	if (count > PRINTED_MAX)
		printf("  and %zu more; --json lists all\n", count - PRINTED_MAX);
}

static int print_diff_result(const struct aggregate_diff_options *o,
			     const struct flmem_compare_request *request,
			     struct flmem_comparison *comparison, struct flmem_error *err)
{
	if (!o->json) {
		print_comparison(comparison);
		return 0;
	}
	return print_json(flmem_report_compare_json(request, comparison), err);
}

static int fill_diff_request(const struct aggregate_diff_options *o, const struct opt_rest *rest,
			     struct flmem_compare_request *request, struct flmem_error *err)
{
	if (rest->count != 2)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "name two models after the options, not %d", rest->count);
	*request = (struct flmem_compare_request){
		.paths = {rest->values[0], rest->values[1]},
		.key = o->key,
		.threads = o->threads < UINT_MAX ? (unsigned)o->threads : UINT_MAX,
	};
	if (o->tolerance && flmem_parse_real(o->tolerance, &request->tolerance, err))
		return flmem_error_prefix(err, FLMEM_EUSAGE, "--tolerance");
	return 0;
}

static int compare_with_progress(struct flmem_compare_request *request,
				 struct flmem_comparison *comparison, struct flmem_error *err)
{
	struct aggregate_progress progress = {
		.end_fd = signals_catch_end(),
		.drawn = isatty(STDERR_FILENO),
	};
	int rc;

	request->progress = aggregate_progress_tick;
	request->context = &progress;
	rc = flmem_compare(request, comparison, err);
	aggregate_progress_end(&progress);
	return rc;
}

static int run_diff(const struct cmd *cmd, void *options, const struct opt_rest *rest)
{
	const struct aggregate_diff_options *o = options;
	struct flmem_compare_request request;
	struct flmem_comparison comparison = {0};
	struct flmem_error err = {0};
	struct http_request http;
	int rc = http_request_init(&http, &o->http, &err);

	if (!rc)
		rc = fill_diff_request(o, rest, &request, &err);
	request.http = &http.options;
	if (!rc)
		rc = compare_with_progress(&request, &comparison, &err);
	if (!rc)
		rc = print_diff_result(o, &request, &comparison, &err);
	if (rc)
		rc = cmd_fail(cmd, o->json, &err);
	else
		rc = flmem_code_exit_status(comparison.exceeding ? FLMEM_EFINDINGS : 0);
	http_request_clear(&http);
	flmem_comparison_clear(&comparison);
	return rc;
}

static const char *const aggregate_diff_examples[] = {
	"flmem aggregate diff old.safetensors new.safetensors",
	"which tensors differ, and by how much",
	"flmem aggregate diff --tolerance 1e-6 a.safetensors b.safetensors",
	"exit status 1 if an element differs by more",
	NULL,
};

const struct cmd cmd_aggregate_diff = {
	.name = "aggregate diff",
	.summary = "compares two models tensor by tensor",
	.arguments = "A B",
	.description =
		"A and B are safetensors files, folders of shards with a "
		"model.safetensors.index.json, NumPy archives or PyTorch checkpoints, in any "
		"combination. Prints the largest absolute and relative difference of the "
		"elements for each tensor that differs, the largest first, and the tensors "
		"that only one model has or whose shapes or types differ. The relative "
		"difference is |a - b| divided by the larger of |a| and |b|. Two NaNs are "
		"equal; the difference between a NaN or an infinity and any other value is "
		"infinite.\n\n"
		"Exit status: 0 if no difference exceeds the tolerance, otherwise 1.",
	.examples = aggregate_diff_examples,
	.options = aggregate_diff_options_table,
	.options_size = sizeof(struct aggregate_diff_options),
	.complete = OPT_COMPLETE_FILE,
	.run = run_diff,
};
