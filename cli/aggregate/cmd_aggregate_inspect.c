/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <flmem/inspect.h>
#include <flmem/report.h>
#include <flmem/text.h>

#include "aggregate/aggregate_progress.h"
#include "cmd.h"
#include "options/http_options.h"
#include "print/print_format.h"
#include "print/print_json.h"
#include "signals.h"

#define SHOWN_MAX 1024

struct inspect_options {
	struct http_options http; /* must be first: HTTP_OPTIONS */
	const char *key;
	uint64_t threads;
	bool headers_only;
	bool stats;
	bool json;
};

static const struct opt aggregate_inspect_options_table[] = {
	{.name = "key",
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct inspect_options, key),
	 .metavar = "NAME",
	 .help = "for PyTorch checkpoints: the dict that has the tensors, for example state_dict "
		 "(default: the top level)"},
	HTTP_OPTIONS,
	{.name = "headers-only",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct inspect_options, headers_only),
	 .help = "read no data, so print no checksums: fast for any size of model"},
	{.name = "stats",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct inspect_options, stats),
	 .help = "print for each tensor the smallest, largest and mean finite element, the L2 norm "
		 "and how many elements are NaN or infinite"},
	{.name = "threads",
	 .kind = OPT_NUMBER,
	 .offset = offsetof(struct inspect_options, threads),
	 .metavar = "N",
	 .help = "threads that read and compute (default: two per processor, at most 8)"},
	{.name = "json",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct inspect_options, json),
	 .help = "print one JSON object"},
	{0},
};

static void print_statistics(const struct flmem_inspected_tensor *tensor)
{
	const struct flmem_tensor_statistics *s = &tensor->statistics;

	if (tensor->no_statistics)
		printf("    no statistics: %s\n", tensor->no_statistics);
	else if (isnan(s->min))
		printf("    no finite element, %" PRIu64 " NaN, %" PRIu64 " infinite\n", s->nans,
		       s->infinities);
	else
		printf("    min %.6g, max %.6g, mean %.6g, norm %.6g, %" PRIu64 " NaN, %" PRIu64
		       " infinite\n",
		       s->min, s->max, s->mean, s->norm, s->nans, s->infinities);
}

static void print_inspected_tensor(const struct flmem_inspection *inspection,
				   const struct flmem_inspected_tensor *tensor)
{
	char shown[SHOWN_MAX], bytes[FORMAT_MAX];

	printf("  %s: %s [", flmem_text_escape(tensor->name, shown, sizeof(shown)), tensor->dtype);
	for (size_t i = 0; i < tensor->rank; i++)
		printf("%s%" PRIu64, i ? ", " : "", tensor->shape[i]);
	printf("], %s", format_bytes(tensor->bytes, bytes));
	if (inspection->has_data)
		printf(", crc32c %08" PRIx32, tensor->crc32c);
	putchar('\n');
}

static void print_files(const struct flmem_inspection *inspection)
{
	char shown[SHOWN_MAX], bytes[FORMAT_MAX];

	for (size_t i = 0; i < inspection->file_count; i++) {
		const struct flmem_inspected_file *file = &inspection->files[i];

		printf("  file %s: %s", flmem_text_escape(file->path, shown, sizeof(shown)),
		       format_bytes(file->bytes, bytes));
		if (inspection->has_data)
			printf(", crc32c %08" PRIx32, file->crc32c);
		putchar('\n');
	}
}

static void print_inspection(const struct flmem_inspection *inspection, bool stats)
{
	size_t count = inspection->tensors ? (size_t)inspection->tensor_count.value : 0;
	char shown[SHOWN_MAX], bytes[FORMAT_MAX], number[FLMEM_TEXT_COUNTED_MAX];

	printf("%s: %s, ", flmem_text_escape(inspection->path, shown, sizeof(shown)),
	       inspection->format);
	if (!inspection->tensor_count.unknown)
		printf("%s, ", flmem_text_counted(inspection->tensor_count.value, "tensor", number,
						  sizeof(number)));
	if (!inspection->parameters.unknown)
		printf("%s, ", flmem_text_counted(inspection->parameters.value, "parameter", number,
						  sizeof(number)));
	printf("%s\n", format_bytes(inspection->bytes, bytes));
	if (inspection->unlisted)
		printf("  tensors are not listed: %s\n", inspection->unlisted);
	print_files(inspection);
	for (size_t i = 0; i < count; i++) {
		print_inspected_tensor(inspection, &inspection->tensors[i]);
		if (stats)
			print_statistics(&inspection->tensors[i]);
	}
}

static int print_inspections(const struct inspect_options *o,
			     const struct flmem_inspection *inspections, size_t count,
			     struct flmem_error *err)
{
	for (size_t i = 0; !o->json && i < count; i++)
		print_inspection(&inspections[i], o->stats);
	if (!o->json)
		return 0;
	return print_json(flmem_report_inspect_json(inspections, count), err);
}

/*
 * Checks all inputs by their headers first: reading the first input may take hours, and an invalid
 * name is reported before.
 */
static int inspect_headers(const struct inspect_options *o, const struct opt_rest *rest,
			   const struct flmem_http_options *http, struct flmem_error *err)
{
	int rc = 0;

	for (int i = 0; i < rest->count && rest->count > 1 && !o->headers_only && !rc; i++) {
		const struct flmem_inspect_request request = {
			.path = rest->values[i],
			.key = o->key,
			.headers_only = true,
			.http = http,
		};
		struct flmem_inspection inspection = {0};

		rc = flmem_inspect(&request, &inspection, err);
		flmem_inspection_clear(&inspection);
	}
	return rc;
}

static int inspect_all(const struct inspect_options *o, const struct opt_rest *rest,
		       const struct flmem_http_options *http, struct flmem_inspection *inspections,
		       struct flmem_error *err)
{
	struct aggregate_progress progress = {.end_fd = -1};
	int rc;

	if (o->headers_only && o->stats)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "--headers-only and --stats exclude each other");
	if (!rest->count)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "name the files to inspect after the options");
	rc = inspect_headers(o, rest, http, err);
	progress.end_fd = signals_catch_end();
	progress.drawn = isatty(STDERR_FILENO);
	for (int i = 0; i < rest->count && !rc; i++) {
		const struct flmem_inspect_request request = {
			.path = rest->values[i],
			.key = o->key,
			.headers_only = o->headers_only,
			.statistics = o->stats,
			.threads = o->threads < UINT_MAX ? (unsigned)o->threads : UINT_MAX,
			.http = http,
			.progress = aggregate_progress_tick,
			.context = &progress,
		};

		rc = flmem_inspect(&request, &inspections[i], err);
	}
	aggregate_progress_end(&progress);
	return rc ? rc : print_inspections(o, inspections, (size_t)rest->count, err);
}

static int run_inspect(const struct cmd *cmd, void *options, const struct opt_rest *rest)
{
	const struct inspect_options *o = options;
	struct flmem_inspection *inspections =
		calloc((size_t)rest->count + 1, sizeof(*inspections));
	struct flmem_error err = {0};
	struct http_request http;
	int rc = http_request_init(&http, &o->http, &err);

	if (!rc)
		rc = inspections ? inspect_all(o, rest, &http.options, inspections, &err)
				 : flmem_error_nomem(&err, "cannot list the models");
	http_request_clear(&http);
	for (int i = 0; inspections && i < rest->count; i++)
		flmem_inspection_clear(&inspections[i]);
	free(inspections);
	return rc ? cmd_fail(cmd, o->json, &err) : 0;
}

static const char *const aggregate_inspect_examples[] = {
	"flmem aggregate inspect global.safetensors",
	"tensors, types, shapes and checksums",
	"flmem aggregate inspect --stats client-*.safetensors",
	"with statistics of each tensor: which client has diverged",
	NULL,
};

const struct cmd cmd_aggregate_inspect = {
	.name = "aggregate inspect",
	.summary = "lists the tensors of models with checksums and statistics",
	.arguments = "FILE...",
	.description =
		"Each FILE is a safetensors file, a folder of shards with a "
		"model.safetensors.index.json, a NumPy archive (.npz) or a PyTorch "
		"checkpoint; flmem reads in blocks, so memory does not grow with the model. "
		"Checksums are the CRC-32C of the bytes of each tensor, and of each file, as "
		"'flmem aggregate --json' prints it for its output.\n\n"
		"The pickle of a PyTorch checkpoint is read but never executed. If it "
		"contains other data than tensors, specify the dict of the tensors with "
		"--key; without it only the number of tensors and their bytes are printed.",
	.examples = aggregate_inspect_examples,
	.options = aggregate_inspect_options_table,
	.options_size = sizeof(struct inspect_options),
	.complete = OPT_COMPLETE_FILE,
	.run = run_inspect,
};
