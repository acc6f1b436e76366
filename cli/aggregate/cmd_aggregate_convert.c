/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <flmem/convert.h>
#include <flmem/report.h>
#include <flmem/text.h>

#include "aggregate/aggregate_progress.h"
#include "cmd.h"
#include "options/http_options.h"
#include "print/print_format.h"
#include "print/print_json.h"
#include "signals.h"

struct convert_options {
	struct http_options http; /* must be first: HTTP_OPTIONS */
	uint64_t shard_bytes;
	const char *output;
	const char *key;
	const char *dtype;
	bool resume;
	bool quiet;
	bool json;
};

/*
 * The choices have both spellings, as elsewhere. `dtype_names` has the names of the format's
 * headers for each.
 */
static const char *const dtype_choices[] = {"bf16", "f16",  "f32",  "f64",
					    "fp16", "fp32", "fp64", NULL};
static const char *const dtype_names[] = {"BF16", "F16", "F32", "F64", "F16", "F32", "F64"};

static const struct opt aggregate_convert_options_table[] = {
	{.name = "output",
	 .letter = 'o',
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct convert_options, output),
	 .metavar = "FILE",
	 .complete = OPT_COMPLETE_FILE,
	 .help = "file to write (required); its suffix decides the format: .npz for an archive of "
		 "NumPy, .pt, "
		 ".pth, .bin or .ckpt for a copy of a checkpoint, any other for safetensors"},
	{.name = "dtype",
	 .kind = OPT_CHOICE,
	 .offset = offsetof(struct convert_options, dtype),
	 .choices = dtype_choices,
	 .help = "type of all floating-point tensors in the output, rounded to nearest (default: "
		 "as they are)"},
	{.name = "key",
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct convert_options, key),
	 .metavar = "NAME",
	 .help = "for PyTorch checkpoints: the dict that has the tensors, for example state_dict "
		 "(default: the top level)"},
	{.name = "shard-size",
	 .kind = OPT_SIZE,
	 .offset = offsetof(struct convert_options, shard_bytes),
	 .metavar = "SIZE",
	 .help = "make the output a new folder of safetensors files with at most SIZE bytes of "
		 "tensors "
		 "each, and a model.safetensors.index.json"},
	HTTP_OPTIONS,
	{.name = "resume",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct convert_options, resume),
	 .help = "continue a run of the same input and options that was stopped or killed; if "
		 "there is none, start a new one"},
	{.name = "json",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct convert_options, json),
	 .help = "print the result as one JSON object"},
	{.name = "quiet",
	 .letter = 'q',
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct convert_options, quiet),
	 .help = "print nothing on success, and no progress"},
	{0},
};

static const char *stored_dtype(const char *choice)
{
	for (size_t i = 0; choice && dtype_choices[i]; i++)
		if (strcmp(dtype_choices[i], choice) == 0)
			return dtype_names[i];
	return NULL;
}

static void print_conversion(const struct flmem_convert_request *request,
			     const struct flmem_conversion *conversion)
{
	char shown[1024], bytes[FORMAT_MAX], took[FORMAT_MAX], count[FLMEM_TEXT_COUNTED_MAX];

	printf("%s: %s, %" PRIu64 " of them converted, %s in %s, crc32c %08" PRIx32 "\n",
	       flmem_text_escape(request->output, shown, sizeof(shown)),
	       flmem_text_counted(conversion->tensors, "tensor", count, sizeof(count)),
	       conversion->converted, format_bytes(conversion->output_bytes, bytes),
	       format_us(conversion->took_us, took), conversion->crc32c);
	if (conversion->resumed_bytes)
		printf("  resumed: %s were already written\n",
		       format_bytes(conversion->resumed_bytes, bytes));
	if (conversion->restarted)
		printf("  not resumed: an earlier run with another input or other options left its "
		       "files\n");
}

static int print_result(const struct convert_options *o,
			const struct flmem_convert_request *request,
			const struct flmem_conversion *conversion, struct flmem_error *err)
{
	if (!o->json) {
		if (!o->quiet)
			print_conversion(request, conversion);
		return 0;
	}
	return print_json(flmem_report_convert_json(request, conversion), err);
}

static int convert_with(const struct convert_options *o, struct flmem_convert_request *request,
			struct flmem_error *err)
{
	struct aggregate_progress progress = {
		.end_fd = signals_catch_end(),
		.drawn = !o->quiet && isatty(STDERR_FILENO),
	};
	struct flmem_conversion conversion;
	int rc;

	request->progress = aggregate_progress_tick;
	request->context = &progress;
	rc = flmem_convert(request, &conversion, err);
	aggregate_progress_end(&progress);
	return rc ? rc : print_result(o, request, &conversion, err);
}

static int convert_model(const struct convert_options *o, const struct opt_rest *rest,
			 struct flmem_error *err)
{
	struct http_request http;
	int rc;

	if (!o->output)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "name the file to write with --output FILE");
	if (rest->count != 1)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "name one model after the options, not %d", rest->count);

	struct flmem_convert_request request = {
		.input = rest->values[0],
		.output = o->output,
		.key = o->key,
		.dtype = stored_dtype(o->dtype),
		.http = &http.options,
		.shard_bytes = o->shard_bytes,
		.resume = o->resume,
	};

	rc = http_request_init(&http, &o->http, err);
	if (!rc)
		rc = convert_with(o, &request, err);
	http_request_clear(&http);
	return rc;
}

static int run_convert(const struct cmd *cmd, void *options, const struct opt_rest *rest)
{
	const struct convert_options *o = options;
	struct flmem_error err = {0};

	return convert_model(o, rest, &err) ? cmd_fail(cmd, o->json, &err) : 0;
}

static const char *const aggregate_convert_examples[] = {
	"flmem aggregate convert -o model.safetensors model.pt",
	"a PyTorch checkpoint as a safetensors file",
	"flmem aggregate convert --dtype bf16 -o half.safetensors model.safetensors",
	"with half of the bytes",
	NULL,
};

const struct cmd cmd_aggregate_convert = {
	.name = "aggregate convert",
	.summary = "writes a model in another format or type",
	.arguments = "FILE",
	.description =
		"FILE is a safetensors file, a folder of shards with a "
		"model.safetensors.index.json, a NumPy archive (.npz) or a PyTorch "
		"checkpoint, whose pickle is read but never executed. flmem reads and writes "
		"in blocks, so memory does not grow with the model. The output appears when "
		"it is complete; until then an older output stays. The same command with "
		"--resume continues a run that was stopped or killed.\n\n"
		"With --dtype floating-point numbers are rounded once, to nearest with ties "
		"to even. A finite number that would become infinite is an error. Integers "
		"are not changed. If the output is a checkpoint, the input must be a "
		"checkpoint, and the types are kept.",
	.examples = aggregate_convert_examples,
	.options = aggregate_convert_options_table,
	.options_size = sizeof(struct convert_options),
	.complete = OPT_COMPLETE_FILE,
	.run = run_convert,
};
