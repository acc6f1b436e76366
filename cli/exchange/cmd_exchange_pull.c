/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <flmem/exchange_client.h>
#include <flmem/report.h>
#include <flmem/text.h>

#include "cmd.h"
#include "exchange/exchange_progress.h"
#include "options/exchange_options.h"
#include "print/print_format.h"
#include "print/print_json.h"

struct pull_options {
	struct exchange_options server; /* must be first: EXCHANGE_OPTIONS */
	const char *output;
	const char *round;
	bool quiet;
	bool json;
};

static const struct opt exchange_pull_options_table[] = {
	{.name = "output",
	 .letter = 'o',
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct pull_options, output),
	 .metavar = "PATH",
	 .complete = OPT_COMPLETE_FILE,
	 .help = "file or folder to write (required); a model of several files is written to a "
		 "folder, "
		 "which is created; verify: writes nothing, and compares the SHA-256 of what is "
		 "received"},
	{.name = "round",
	 .letter = 'r',
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct pull_options, round),
	 .metavar = "ROUND",
	 .help = "the round whose model is fetched (default: latest)"},
	EXCHANGE_OPTIONS,
	EXCHANGE_RETRIES_OPTION("default 10; 0: never"),
	EXCHANGE_TIMEOUT_OPTION,
	{.name = "quiet",
	 .letter = 'q',
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct pull_options, quiet),
	 .help = "print nothing on success, and no progress"},
	{.name = "json",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct pull_options, json),
	 .help = "print the result as one JSON object"},
	{0},
};

static int print_pulled(const struct pull_options *o,
			const struct flmem_exchange_pull_request *request,
			const struct flmem_exchange_pull_result *result, struct flmem_error *err)
{
	char shown[1024], bytes[FORMAT_MAX], took[FORMAT_MAX], had[FORMAT_MAX];

	if (!o->json && !o->quiet) {
		bool verifies = strcmp(request->output, FLMEM_AGGREGATE_VERIFY) == 0;

		printf("%s%smodel of round %" PRIu64 ", %s in %s",
		       verifies ? "" : flmem_text_escape(request->output, shown, sizeof(shown)),
		       verifies ? "" : ": ", result->round, format_bytes(result->bytes, bytes),
		       format_us(result->took_us, took));
		if (verifies)
			printf("; its SHA-256 is the published one, nothing was written");
		if (result->resumed_bytes)
			printf(", %s were already "
			       "present",
			       format_bytes(result->resumed_bytes, had));
		putchar('\n');
	}
	if (!o->json)
		return 0;
	return print_json(flmem_report_exchange_pull_json(request, result), err);
}

static int pull_with(const struct pull_options *o, struct flmem_exchange_server *server,
		     struct flmem_exchange_pull_request *request, struct flmem_error *err)
{
	struct exchange_progress progress;
	struct flmem_exchange_pull_result result;
	int rc;

	exchange_progress_begin(&progress, "pull", o->quiet, server);
	request->server = server;
	rc = flmem_exchange_pull(request, &result, err);
	exchange_progress_end(&progress);
	return rc ? rc : print_pulled(o, request, &result, err);
}

static int pull_model(const struct pull_options *o, const struct opt_rest *rest,
		      struct flmem_error *err)
{
	struct flmem_exchange_pull_request request = {.output = o->output};
	struct flmem_exchange_server server;
	int rc;

	if (rest->count != 1)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "name the address of the server");
	if (!o->output)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "name the file or the folder to write with --output PATH");
	rc = exchange_round_read(o->round, &request.has_round, &request.round, err);
	if (rc)
		return rc;
	server = exchange_server_of(&o->server, rest->values[0]);
	return pull_with(o, &server, &request, err);
}

static int run_pull(const struct cmd *cmd, void *options, const struct opt_rest *rest)
{
	const struct pull_options *o = options;
	struct flmem_error err = {0};

	return pull_model(o, rest, &err) ? cmd_fail(cmd, o->json, &err) : 0;
}

static const char *const exchange_pull_examples[] = {
	"flmem exchange pull http://127.0.0.1:8477 -o global.safetensors",
	"fetch the newest model",
	"flmem exchange pull https://fl.example.org -o model/ -r 3 --token-file token",
	"fetch the model of round 3 into a folder",
	"flmem exchange pull http://127.0.0.1:8477 -o verify:",
	"compare what would be fetched with its SHA-256, and write nothing",
	NULL,
};

const struct cmd cmd_exchange_pull = {
	.name = "exchange pull",
	.summary = "fetches a published model from the server of an exchange",
	.arguments = "URL",
	.description =
		"Downloads into PATH.part, and renames it when its SHA-256 matches the "
		"published one; until then an older output stays. After a disconnect, or if "
		"the same command runs again after a kill, it requests only the missing part.",
	.examples = exchange_pull_examples,
	.options = exchange_pull_options_table,
	.options_size = sizeof(struct pull_options),
	.run = run_pull,
};
