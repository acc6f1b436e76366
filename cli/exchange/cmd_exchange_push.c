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

struct push_options {
	struct exchange_options server; /* must be first: EXCHANGE_OPTIONS */
	const char *client;
	const char *round;
	const char *weight;
	uint64_t chunk_bytes;
	bool sha256;
	bool replace;
	bool quiet;
	bool json;
};

static const struct opt exchange_push_options_table[] = {
	{.name = "client",
	 .letter = 'c',
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct push_options, client),
	 .metavar = "NAME",
	 .help = "name of this client; may be omitted if a token or a certificate contains it"},
	{.name = "round",
	 .letter = 'r',
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct push_options, round),
	 .metavar = "ROUND",
	 .help = "the round of the model from which the update was made (default: the current "
		 "round)"},
	{.name = "weight",
	 .letter = 'w',
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct push_options, weight),
	 .metavar = "NUMBER",
	 .help = "weight of the update, for example its count of samples (default 1)"},
	{.name = "chunk",
	 .kind = OPT_SIZE,
	 .offset = offsetof(struct push_options, chunk_bytes),
	 .metavar = "SIZE",
	 .help = "bytes to send in one request, at most what the server accepts (default: as the "
		 "server proposes)"},
	{.name = "sha256",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct push_options, sha256),
	 .help = "have the server compare the SHA-256 of each whole file, too; takes longer, since "
		 "both read it once more"},
	{.name = "replace",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct push_options, replace),
	 .help = "delete the unfinished upload that an earlier push of this client and round began "
		 "with another file or weight"},
	EXCHANGE_OPTIONS,
	EXCHANGE_RETRIES_OPTION("default 10; 0: never"),
	EXCHANGE_TIMEOUT_OPTION,
	{.name = "quiet",
	 .letter = 'q',
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct push_options, quiet),
	 .help = "print nothing on success, and no progress"},
	{.name = "json",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct push_options, json),
	 .help = "print the result as one JSON object"},
	{0},
};

static int print_pushed(const struct push_options *o, const char *path,
			const struct flmem_exchange_push_result *result, struct flmem_error *err)
{
	char shown[1024], bytes[FORMAT_MAX], took[FORMAT_MAX], had[FORMAT_MAX];

	if (!o->json && !o->quiet) {
		printf("%s: accepted for round %" PRIu64 ", %s in %s",
		       flmem_text_escape(path, shown, sizeof(shown)), result->round,
		       format_bytes(result->bytes, bytes), format_us(result->took_us, took));
		if (result->resumed_bytes)
			printf(", the server had %s", format_bytes(result->resumed_bytes, had));
		putchar('\n');
	}
	if (!o->json)
		return 0;
	return print_json(flmem_report_exchange_push_json(result), err);
}

static int push_with(const struct push_options *o, struct flmem_exchange_server *server,
		     struct flmem_exchange_push_request *request, struct flmem_error *err)
{
	struct exchange_progress progress;
	struct flmem_exchange_push_result result;
	int rc;

	exchange_progress_begin(&progress, "push", o->quiet, server);
	request->server = server;
	rc = flmem_exchange_push(request, &result, err);
	exchange_progress_end(&progress);
	return rc ? rc : print_pushed(o, request->path, &result, err);
}

static int push_update(const struct push_options *o, const struct opt_rest *rest,
		       struct flmem_error *err)
{
	struct flmem_exchange_push_request request = {
		.client = o->client,
		.weight = o->weight,
		.chunk_bytes = o->chunk_bytes,
		.sha256 = o->sha256,
		.replace = o->replace,
	};
	struct flmem_exchange_server server;
	int rc;

	if (rest->count != 2)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "name the address of the server and one model");
	if (!o->client && !o->server.token_file && !o->server.cert)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "name this client with --client NAME");
	rc = exchange_round_read(o->round, &request.has_round, &request.round, err);
	if (rc)
		return rc;
	server = exchange_server_of(&o->server, rest->values[0]);
	request.path = rest->values[1];
	return push_with(o, &server, &request, err);
}

static int run_push(const struct cmd *cmd, void *options, const struct opt_rest *rest)
{
	const struct push_options *o = options;
	struct flmem_error err = {0};

	return push_update(o, rest, &err) ? cmd_fail(cmd, o->json, &err) : 0;
}

static const char *const exchange_push_examples[] = {
	"flmem exchange push http://127.0.0.1:8477 u.safetensors -c site-1 -w 600",
	"send an update that was trained on 600 samples",
	"flmem exchange push https://fl.example.org u.pt --token-file token -r 3",
	"as the client that a token belongs to, for round 3 and no other",
	NULL,
};

const struct cmd cmd_exchange_push = {
	.name = "exchange push",
	.summary = "sends an update to the server of an exchange",
	.arguments = "URL FILE",
	.description =
		"FILE is a safetensors file, a PyTorch checkpoint, a NumPy archive (.npz), or "
		"a folder of shards with a model.safetensors.index.json, or a model that is "
		"generated while it is read, such as generate:resnet18. The command sends it "
		"in chunks, each with a checksum, as a resumable upload (tus 1.0). After a "
		"disconnect, or if the same command runs again after a kill, it continues at "
		"the first chunk that the server lacks. It uses memory for two chunks.\n\n"
		"The command returns when the server has accepted the update: it compares "
		"names, shapes and types of the tensors with those of its model. If the "
		"server refuses the update, the command fails with the server's reason.",
	.examples = exchange_push_examples,
	.options = exchange_push_options_table,
	.options_size = sizeof(struct push_options),
	.complete = OPT_COMPLETE_FILE,
	.run = run_push,
};
