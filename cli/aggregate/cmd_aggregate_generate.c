/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include <flmem/aggregate.h>
#include <flmem/model.h>
#include <flmem/parse.h>

#include "aggregate/aggregate_run.h"
#include "cmd.h"

struct generate_options {
	const char *output;
	const char *shape;
	const char *seed;
	const char *client;
	const char *dtype;
	uint64_t threads;
	bool resume;
	bool quiet;
	bool json;
};

#define SHAPE_TEXT(name) name,
static const char *const shape_choices[] = {FLMEM_SHAPES(SHAPE_TEXT) NULL};
#undef SHAPE_TEXT

static const struct opt aggregate_generate_options_table[] = {
	{.name = "output",
	 .letter = 'o',
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct generate_options, output),
	 .metavar = "FILE",
	 .complete = OPT_COMPLETE_FILE,
	 .help = "safetensors file to write (required); it appears when it is "
		 "complete"},
	{.name = "shape",
	 .kind = OPT_CHOICE,
	 .offset = offsetof(struct generate_options, shape),
	 .choices = shape_choices,
	 .help = "published model whose tensor names, shapes and types are used "
		 "(required)"},
	{.name = "seed",
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct generate_options, seed),
	 .metavar = "N",
	 .help = "seed of the generated values (default 0)"},
	{.name = "client",
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct generate_options, client),
	 .metavar = "N",
	 .help = "a variation of the model of that seed, as after a client's training "
		 "(default 0: the model itself)"},
	{.name = "dtype",
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct generate_options, dtype),
	 .metavar = "TYPE",
	 .help = "type of its floating-point tensors: fp32, bf16, fp16, fp64, fp8-e4m3, fp8-e5m2 "
		 "(default: that of the published model)"},
	{.name = "threads",
	 .kind = OPT_NUMBER,
	 .offset = offsetof(struct generate_options, threads),
	 .metavar = "N",
	 .help = "threads that generate and write values (default: two per processor, at most 8)"},
	{.name = "resume",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct generate_options, resume),
	 .help = "resume an earlier call with the same options"},
	{.name = "quiet",
	 .letter = 'q',
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct generate_options, quiet),
	 .help = "print nothing on success, and no progress"},
	{.name = "json",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct generate_options, json),
	 .help = "print the result as one JSON object"},
	{0},
};

static int check_options(const struct generate_options *o, const struct opt_rest *rest,
			 struct flmem_error *err)
{
	if (!o->output)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "name the file to write with --output FILE");
	if (!o->shape)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "name the model with --shape SHAPE");
	if (rest->count)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "unexpected argument '%.60s'; a generated model has no "
				       "inputs",
				       rest->values[0]);
	return 0;
}

/* Reads the number of an option. *ret_number is 0, which is valid, if the option is not given. */
static int read_generate_number(const char *option, const char *text, uint64_t *ret_number,
				struct flmem_error *err)
{
	*ret_number = 0;
	if (!text || !flmem_parse_u64(text, 0, UINT64_MAX, ret_number, NULL))
		return 0;
	return flmem_error_set(err, FLMEM_EUSAGE, 0,
			       "invalid number '%.60s' for --%s; expected 0 to 2^64 - 1", text,
			       option);
}

/* Writes the generated model as an aggregation of one input: a model is the mean of itself. */
static int generate_model(const struct generate_options *o, struct flmem_error *err)
{
	const struct aggregate_output output = {
		.quiet = o->quiet,
		.json = o->json,
		.generated = true,
	};
	struct flmem_aggregate_request request = {
		.output = o->output,
		.input_count = 1,
		.threads = o->threads < UINT_MAX ? (unsigned)o->threads : UINT_MAX,
		.resume = o->resume,
	};
	uint64_t seed, client;
	char *input;
	int rc = read_generate_number("seed", o->seed, &seed, err);

	if (!rc)
		rc = read_generate_number("client", o->client, &client, err);
	if (rc)
		return rc;
	if (asprintf(&input, "%s%s?seed=%" PRIu64 "&client=%" PRIu64 "%s%s",
		     FLMEM_AGGREGATE_GENERATE, o->shape, seed, client, o->dtype ? "&dtype=" : "",
		     o->dtype ? o->dtype : "") < 0)
		return flmem_error_nomem(err, "cannot generate a model");
	request.inputs = (const char *const *)&input;
	rc = aggregate_run(&request, &output, err);
	free(input);
	return rc;
}

static int run_generate(const struct cmd *cmd, void *options, const struct opt_rest *rest)
{
	const struct generate_options *o = options;
	struct flmem_error err = {0};
	int rc = check_options(o, rest, &err);

	if (!rc)
		rc = generate_model(o, &err);
	return rc ? cmd_fail(cmd, o->json, &err) : 0;
}

static const char *const aggregate_generate_examples[] = {
	"flmem aggregate generate --shape resnet18 -o model.safetensors",
	"a small model, the same bytes on every machine",
	"flmem aggregate generate --shape llama-3.1-8b --client 2 -o 2.safetensors",
	"16 GB: as a client would send it",
	NULL,
};

const struct cmd cmd_aggregate_generate = {
	.name = "aggregate generate",
	.summary = "writes a model with the tensors of a known one and generated values",
	.arguments = NULL,
	.description =
		"Writes a model for tests and measurements. Names, shapes and types are those "
		"of the published model; the values are pseudo-random numbers, computed from "
		"seed, client, tensor and index (SplitMix64). So the file has the same bytes "
		"on every machine and for any number of threads. Integers are 1000 for all "
		"clients.\n\n"
		"As with 'flmem aggregate', the file appears when it is complete, and "
		"--resume continues after a crash.",
	.examples = aggregate_generate_examples,
	.options = aggregate_generate_options_table,
	.options_size = sizeof(struct generate_options),
	.run = run_generate,
};
