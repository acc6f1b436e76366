/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <flmem/aggregate.h>
#include <flmem/parse.h>
#include <flmem/report.h>
#include <flmem/text.h>

#include "aggregate/aggregate_progress.h"
#include "aggregate/aggregate_run.h"
#include "cmd.h"
#include "options/combine_options.h"
#include "options/http_options.h"
#include "print/print_format.h"
#include "print/print_json.h"
#include "signals.h"

struct aggregate_options {
	struct http_options http; /* must be first: HTTP_OPTIONS */
	struct combine_options combine;
	uint64_t shard_bytes;
	const char *output;
	const char *weights;
	const char *weights_from;
	const char *client_weights;
	const char *base;
	const char *state;
	uint64_t chunk_bytes;
	uint64_t threads;
	bool resume;
	bool mpi;
	bool quiet;
	bool json;
};

static const char *const weight_choices[] = {"equal", "sample_size", NULL};

static const struct opt aggregate_options_table[] = {
	{.name = "output",
	 .letter = 'o',
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct aggregate_options, output),
	 .metavar = "FILE",
	 .complete = OPT_COMPLETE_FILE,
	 .help = "file to write (required); an existing file is replaced only "
		 "when the new one is complete. Its suffix decides the format: "
		 ".npz for an archive of NumPy, .pt, .pth, .bin or .ckpt for a "
		 "copy of the first input, a PyTorch checkpoint, with the "
		 "resulting tensors, any other for safetensors; 'verify:' "
		 "writes nothing"},
	{.name = "weights",
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct aggregate_options, weights),
	 .metavar = "LIST",
	 .help = "one number per input, for example counts of samples: 600,1200,200; they are "
		 "divided by their sum (default: all equal)"},
	{.name = "weights-from",
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct aggregate_options, weights_from),
	 .metavar = "FILE",
	 .complete = OPT_COMPLETE_FILE,
	 .help = "file with a JSON object that has a count of samples for each "
		 "input: {\"client-1\": 600, ...}; a key is the path of the "
		 "input, its file name, or its file name without suffix"},
	{.name = "client-weights",
	 .kind = OPT_CHOICE,
	 .offset = offsetof(struct aggregate_options, client_weights),
	 .choices = weight_choices,
	 .help = "equal: all inputs count the same; sample_size: by the counts of --weights-from, "
		 "which is then required"},
	{.name = "base",
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct aggregate_options, base),
	 .metavar = "FILE",
	 .complete = OPT_COMPLETE_FILE,
	 .help = "the model that the clients started from; required in the "
		 "first round of an algorithm with a state. For "
		 "norm-clipped-mean: clip the differences from it (default: the "
		 "inputs are updates)"},
	{.name = "state",
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct aggregate_options, state),
	 .metavar = "FILE",
	 .complete = OPT_COMPLETE_FILE,
	 .help = "for fedavgm, fedadam, fedyogi and fedadagrad: safetensors file with their state "
		 "between rounds; the first round creates it"},
	{.name = "shard-size",
	 .kind = OPT_SIZE,
	 .offset = offsetof(struct aggregate_options, shard_bytes),
	 .metavar = "SIZE",
	 .help = "make the output a new folder of safetensors files with at most SIZE bytes of "
		 "tensors "
		 "each, and a model.safetensors.index.json"},
	COMBINE_OPTIONS(offsetof(struct aggregate_options, combine), "reject", "equal"),
	HTTP_OPTIONS,
	{.name = "resume",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct aggregate_options, resume),
	 .help = "continue a run of the same inputs and options that was stopped or killed; if "
		 "there is none, start a new one"},
	{.name = "mpi",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct aggregate_options, mpi),
	 .help = "share the work with the other processes that mpirun or srun started with the "
		 "same "
		 "command: each writes a range of the output, or shards of it"},
	{.name = "chunk",
	 .kind = OPT_SIZE,
	 .offset = offsetof(struct aggregate_options, chunk_bytes),
	 .metavar = "SIZE",
	 .help = "unit of reading ahead, writing and resuming (default 4MiB)"},
	{.name = "threads",
	 .kind = OPT_NUMBER,
	 .offset = offsetof(struct aggregate_options, threads),
	 .metavar = "N",
	 .help = "threads that read, compute and write (default: two per processor, at most 8)"},
	{.name = "quiet",
	 .letter = 'q',
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct aggregate_options, quiet),
	 .help = "print nothing on success, and no progress"},
	{.name = "json",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct aggregate_options, json),
	 .help = "print the result as one JSON object"},
	{0},
};

/*
 * Returns whether the text has a digit above 0. This is also true for a number below the smallest
 * double.
 */
static bool is_not_zero(const char *number)
{
	return strcspn(number, "123456789") < strcspn(number, "eE");
}

/* Reads one weight per input. The words of `list` are cut in place. */
static int read_weights(char *list, double *weights, size_t count, struct flmem_error *err)
{
	char given[FLMEM_TEXT_COUNTED_MAX], inputs[FLMEM_TEXT_COUNTED_MAX];
	size_t found = 0;
	char *word;

	while ((word = strsep(&list, ","))) {
		double weight;
		int rc;

		if (word[strspn(word, " ")] == '-')
			return flmem_error_set(err, FLMEM_EUSAGE, 0,
					       "--weights: invalid weight '%.60s'; weights are not "
					       "negative",
					       word);
		rc = flmem_parse_real(word, &weight, err);
		if (rc)
			return flmem_error_prefix(err, rc, "--weights");
		if (weight == 0 && is_not_zero(word))
			return flmem_error_set(
				err, FLMEM_EUSAGE, 0,
				"--weights: '%.60s' is too small; it would count as 0", word);
		if (found < count)
			weights[found] = weight;
		found++;
	}
	if (found == count)
		return 0;
	return flmem_error_set(err, FLMEM_EUSAGE, 0, "%s for %s",
			       flmem_text_counted(found, "weight", given, sizeof(given)),
			       flmem_text_counted(count, "input", inputs, sizeof(inputs)));
}

/* Makes the weights of the inputs. `ret_weights` stays NULL where all count the same. */
static int make_weights(const struct aggregate_options *o, const struct opt_rest *rest,
			double **ret_weights, struct flmem_error *err)
{
	bool equal = o->client_weights && strcmp(o->client_weights, "equal") == 0;
	size_t count = (size_t)rest->count;
	char *list = NULL;
	int rc;

	if ((o->weights != NULL) + (o->weights_from != NULL) + equal > 1)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "--weights, --weights-from and --client-weights equal "
				       "exclude each other");
	if (o->client_weights && !equal && !o->weights_from)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "--client-weights sample_size needs the counts: name their "
				       "file with --weights-from");
	if (!o->weights && !o->weights_from)
		return 0;
	*ret_weights = calloc(count, sizeof(**ret_weights));
	list = o->weights ? strdup(o->weights) : NULL;
	if (!*ret_weights || (o->weights && !list))
		rc = flmem_error_nomem(err, "cannot read the weights");
	else if (list)
		rc = read_weights(list, *ret_weights, count, err);
	else
		rc = flmem_aggregate_weights_read(o->weights_from,
						  (const char *const *)rest->values, count,
						  *ret_weights, err);
	free(list);
	return rc;
}

static int fill_aggregate_request(const struct aggregate_options *o, const struct opt_rest *rest,
				  struct flmem_aggregate_request *request, struct flmem_error *err)
{
	if (!o->output)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "name the file to write with --output FILE");
	if (!rest->count)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "name the files to average after the options");
	*request = (struct flmem_aggregate_request){
		.output = o->output,
		.inputs = (const char *const *)rest->values,
		.input_count = (size_t)rest->count,
		.base = o->base,
		.state = o->state,
		.chunk_bytes = o->chunk_bytes,
		.threads = o->threads < UINT_MAX ? (unsigned)o->threads : UINT_MAX,
		.resume = o->resume,
		.shard_bytes = o->shard_bytes,
		.mpi = o->mpi,
	};
	return 0;
}

static void print_skipped(const struct flmem_aggregate_result *result)
{
	char shown[1024];

	for (size_t i = 0; i < result->input_count; i++)
		if (result->inputs[i].skipped)
			printf("  without %s: %s\n",
			       flmem_text_escape(result->inputs[i].path, shown, sizeof(shown)),
			       result->inputs[i].skipped);
}

static void print_repeated(const struct flmem_aggregate_result *result)
{
	char shown[1024], same[1024];

	for (size_t i = 0; i < result->input_count; i++)
		if (result->inputs[i].same_as)
			printf("  note: %s counts again: it is the same file as %s\n",
			       flmem_text_escape(result->inputs[i].path, shown, sizeof(shown)),
			       flmem_text_escape(result->inputs[i].same_as, same, sizeof(same)));
}

static void print_combined(const struct flmem_aggregate_result *result)
{
	char count[FLMEM_TEXT_COUNTED_MAX];
	size_t skipped = 0;

	for (size_t i = 0; i < result->input_count; i++)
		skipped += result->inputs[i].skipped != NULL;
	printf("%s of ", result->algorithm);
	if (skipped)
		printf("%zu of ", result->input_count - skipped);
	printf("%s, ", flmem_text_counted(result->input_count, "model", count, sizeof(count)));
}

static void print_aggregate_result(const struct flmem_aggregate_result *result, bool generated)
{
	char shown[1024], bytes[FORMAT_MAX], took[FORMAT_MAX], peak[FORMAT_MAX];
	uint64_t us = result->took_us ? result->took_us : 1;
	char rate[FORMAT_MAX], count[FLMEM_TEXT_COUNTED_MAX];

	printf("%s%s", flmem_text_escape(result->output, shown, sizeof(shown)),
	       result->verified_elements ? " " : ": ");
	if (!generated)
		print_combined(result);
	printf("%s, %s\n", flmem_text_counted(result->tensors, "tensor", count, sizeof(count)),
	       format_bytes(result->output_bytes, bytes));
	if (result->verified_elements)
		printf("  nothing was written: %s %s the exact mean of the generated values\n",
		       flmem_text_counted(result->verified_elements, "element", count,
					  sizeof(count)),
		       result->verified_elements == 1 ? "is" : "are");
	printf("  %s %s in %s (%s/s), peak anonymous memory %s\n", generated ? "made" : "read",
	       format_bytes(result->read_bytes, bytes), format_us(result->took_us, took),
	       format_bytes((uint64_t)((double)result->read_bytes * 1e6 / (double)us), rate),
	       format_bytes_or(result->peak_anon_bytes, "unknown", peak));
	if (result->processes > 1)
		printf("  by %u processes\n", result->processes);
	if (result->resumed_bytes)
		printf("  resumed: %s were already written\n",
		       format_bytes(result->resumed_bytes, bytes));
	if (result->restarted)
		printf("  not resumed: an earlier run with other inputs or options left its "
		       "files\n");
	print_skipped(result);
	print_repeated(result);
}

static int print_aggregate_json(const struct flmem_aggregate_result *result, bool generated,
				struct flmem_error *err)
{
	return print_json(generated ? flmem_report_generate_json(result)
				    : flmem_report_aggregate_json(result),
			  err);
}

int aggregate_run(struct flmem_aggregate_request *request, const struct aggregate_output *output,
		  struct flmem_error *err)
{
	struct aggregate_progress progress = {
		.end_fd = signals_catch_end(),
		.drawn = !output->quiet && isatty(STDERR_FILENO),
	};
	struct flmem_aggregate_result result;
	int rc;

	request->progress = aggregate_progress_tick;
	request->context = &progress;
	flmem_aggregate_map_inputs();
	rc = flmem_aggregate(request, &result, err);
	aggregate_progress_end(&progress);
	if (rc)
		return rc;
	if (flmem_aggregate_process() > 0)
		rc = 0; /* only the first process prints */
	else if (output->json)
		rc = print_aggregate_json(&result, output->generated, err);
	else if (!output->quiet)
		print_aggregate_result(&result, output->generated);
	flmem_aggregate_result_clear(&result);
	return rc;
}

static int run_aggregate(const struct cmd *cmd, void *options, const struct opt_rest *rest)
{
	struct aggregate_options *o = options;
	const struct aggregate_output output = {.quiet = o->quiet, .json = o->json};
	struct flmem_aggregate_request request;
	struct flmem_error err = {0};
	struct http_request http;
	double *weights = NULL;
	int rc = fill_aggregate_request(o, rest, &request, &err);

	if (!rc)
		rc = combine_options_fill(&o->combine, &request, &err);
	if (!rc)
		rc = make_weights(o, rest, &weights, &err);
	request.weights = weights;
	if (!rc) {
		rc = http_request_init(&http, &o->http, &err);
		request.http = &http.options;
		if (!rc)
			rc = aggregate_run(&request, &output, &err);
		http_request_clear(&http);
	}
	free(weights);
	if (rc && flmem_aggregate_process() > 0)
		return flmem_code_exit_status(rc);
	return rc ? cmd_fail(cmd, o->json, &err) : 0;
}

static const char *const aggregate_examples[] = {
	"flmem aggregate -o global.safetensors client-*.safetensors",
	"the mean of the clients' models",
	"flmem aggregate -o new.safetensors --weights 6,12 a.safetensors b.safetensors",
	"weighted by their counts of samples",
	"flmem aggregate -o global.safetensors --nan skip-client client-*.safetensors",
	"without clients whose model has diverged",
	"flmem aggregate -a fedadam --state a.safetensors -o new.safetensors clients/*",
	"a step of the server's Adam; the first one needs --base",
	"flmem aggregate -o global.pt --key state_dict client-1.pt client-2.pt",
	"PyTorch checkpoints; the pickle is read but never executed",
	"flmem aggregate -o global.safetensors --resume client-*.safetensors",
	"continue after the machine was shut down",
	"mpirun -n 4 flmem aggregate --mpi -o global.safetensors client-*.safetensors",
	"four processes, here or on several machines with a common file system",
	NULL,
};

extern const struct cmd cmd_aggregate_convert;
extern const struct cmd cmd_aggregate_diff;
extern const struct cmd cmd_aggregate_generate;
extern const struct cmd cmd_aggregate_inspect;

static const struct cmd *const aggregate_verbs[] = {&cmd_aggregate_inspect, &cmd_aggregate_diff,
						    &cmd_aggregate_convert, &cmd_aggregate_generate,
						    NULL};

const struct cmd cmd_aggregate = {
	.name = "aggregate",
	.summary = "averages models on disk in memory that does not grow with the model",
	.arguments = "FILE...",
	.description =
		"Combines several models with the same tensors into one, by default their "
		"weighted mean. Each FILE is a safetensors file, a folder of shards with a "
		"model.safetensors.index.json, a NumPy archive (.npz), or a PyTorch "
		"checkpoint of version 1.6 or later, whose pickle is read but never executed. "
		"It may be the http:// or https:// address of such a file, or of the index of "
		"shards; it is requested in parts. "
		"'generate:SHAPE?seed=N&client=N&dtype=TYPE' is a model that is generated "
		"while it is read (see 'flmem aggregate generate'); with the output 'verify:' "
		"the mean of such models is compared with the exact one, element by element, "
		"and not written. Sums are kept in 64-bit floating point in the order of the "
		"inputs and rounded once, so the result has the same bits for any number of "
		"threads, chunk size and processor.\n\n"
		"flmem reads the inputs in chunks, and uses a few MiB of memory for any size "
		"of model. Names, shapes and types are compared before anything is written. "
		"The output is written as FILE.part, with a journal, and renamed when it is "
		"complete; until then an older output stays. --resume continues after a "
		"failed write, a stop or a crash.",
	.examples = aggregate_examples,
	.options = aggregate_options_table,
	.options_size = sizeof(struct aggregate_options),
	.complete = OPT_COMPLETE_FILE,
	.verbs = aggregate_verbs,
	.run = run_aggregate,
};
