/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <flmem/exchange_serve.h>
#include <flmem/report.h>
#include <flmem/text.h>

#include "cmd.h"
#include "options/combine_options.h"
#include "print/print_format.h"
#include "print/print_json.h"
#include "signals.h"

#define SHOWN_MAX 1024

struct serve_options {
	struct combine_options combine; /* for COMBINE_OPTIONS */
	const char *model;
	const char *listen;
	const char *state;
	uint64_t clients;
	uint64_t rounds;
	uint64_t quorum;
	uint64_t deadline_us;
	uint64_t chunk_bytes;
	uint64_t max_request_bytes;
	uint64_t quota_bytes;
	uint64_t reserve_bytes;
	uint64_t expire_us;
	uint64_t idle_us;
	uint64_t settle_us;
	uint64_t connections;
	uint64_t address_connections;
	const char *tls_cert;
	const char *tls_key;
	const char *client_ca;
	const char *authorised;
	const char *token_file;
	const char *mode;
	struct opt_texts verify;
	bool insecure;
	bool json_log;
	bool quiet;
	bool json;
};

static const char *const mode_choices[] = {"staged", "lockstep", NULL};

static const struct opt exchange_serve_options_table[] = {
	{.name = "model",
	 .letter = 'm',
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct serve_options, model),
	 .metavar = "FILE",
	 .complete = OPT_COMPLETE_FILE,
	 .help = "the initial model: a file, a folder of shards with its index, or a generated "
		 "model, such as generate:resnet18 (required)"},
	{.name = "clients",
	 .letter = 'n',
	 .kind = OPT_NUMBER,
	 .offset = offsetof(struct serve_options, clients),
	 .metavar = "N",
	 .help = "updates per round: a round ends when this many are complete (required)"},
	{.name = "rounds",
	 .kind = OPT_NUMBER,
	 .offset = offsetof(struct serve_options, rounds),
	 .metavar = "R",
	 .help = "number of rounds to serve (default 1)"},
	{.name = "listen",
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct serve_options, listen),
	 .metavar = "ADDRESS:PORT",
	 .help = "address to listen on; port 0 selects a free port (default 127.0.0.1:8477)"},
	{.name = "state",
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct serve_options, state),
	 .metavar = "DIR",
	 .complete = OPT_COMPLETE_DIRECTORY,
	 .help = "directory for uploads, models and the state of the server "
		 "(required); after a kill the same command continues from it"},
	COMBINE_OPTIONS(offsetof(struct serve_options, combine), "skip-client; reject in lockstep",
			"first: with equal one client could end the exchange"),
	{.name = "mode",
	 .kind = OPT_CHOICE,
	 .offset = offsetof(struct serve_options, mode),
	 .choices = mode_choices,
	 .help = "staged: updates are kept on disk until a round ends (default); lockstep: they "
		 "are combined while they arrive, and a client waits for the others"},
	{.name = "verify",
	 .kind = OPT_TEXTS,
	 .offset = offsetof(struct serve_options, verify),
	 .metavar = "CLIENT=MODEL",
	 .help = "once for each client, with --mode lockstep: do not write the "
		 "new model, but compare the update of CLIENT with the "
		 "generated MODEL, and the average with the exact one"},
	{.name = "quorum",
	 .kind = OPT_NUMBER,
	 .offset = offsetof(struct serve_options, quorum),
	 .metavar = "Q",
	 .help = "with --deadline: number of updates that are sufficient at the deadline "
		 "(default: all)"},
	{.name = "deadline",
	 .kind = OPT_DURATION,
	 .offset = offsetof(struct serve_options, deadline_us),
	 .metavar = "TIME",
	 .help = "a round ends after this time if --quorum updates are "
		 "complete; with fewer the exchange fails (default: none)"},
	{.name = "chunk",
	 .kind = OPT_SIZE,
	 .offset = offsetof(struct serve_options, chunk_bytes),
	 .metavar = "SIZE",
	 .help = "size of the requests that the server proposes to clients (default 2MiB)"},
	{.name = "max-request",
	 .kind = OPT_SIZE,
	 .offset = offsetof(struct serve_options, max_request_bytes),
	 .metavar = "SIZE",
	 .help = "refuse requests with a larger body; set it to the limit of a "
		 "reverse proxy in front of the server (default: no limit)"},
	{.name = "quota",
	 .kind = OPT_SIZE,
	 .offset = offsetof(struct serve_options, quota_bytes),
	 .metavar = "SIZE",
	 .help = "bytes that a client may upload in a round (default: twice the "
		 "model and 16MiB)"},
	{.name = "reserve",
	 .kind = OPT_SIZE,
	 .offset = offsetof(struct serve_options, reserve_bytes),
	 .metavar = "SIZE",
	 .help = "disk space that stays free in addition to uploads and the next model "
		 "(default 256MiB)"},
	{.name = "expire",
	 .kind = OPT_DURATION,
	 .offset = offsetof(struct serve_options, expire_us),
	 .metavar = "TIME",
	 .help = "remove unfinished uploads without progress for this long (default 24h)"},
	{.name = "idle-timeout",
	 .kind = OPT_DURATION,
	 .offset = offsetof(struct serve_options, idle_us),
	 .metavar = "TIME",
	 .help = "close connections that are idle, or transfer less than 1 KiB per second, for "
		 "this long (default 60s)"},
	{.name = "settle",
	 .kind = OPT_DURATION,
	 .offset = offsetof(struct serve_options, settle_us),
	 .metavar = "TIME",
	 .help = "exit this long after the last request once the last round is published "
		 "(default 5s)"},
	{.name = "connections",
	 .kind = OPT_NUMBER,
	 .offset = offsetof(struct serve_options, connections),
	 .metavar = "N",
	 .help = "simultaneous connections (default 512)"},
	{.name = "address-connections",
	 .kind = OPT_NUMBER,
	 .offset = offsetof(struct serve_options, address_connections),
	 .metavar = "N",
	 .help = "simultaneous connections of one address; all clients of a proxy have the "
		 "same address (default 300)"},
	{.name = "tls-cert",
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct serve_options, tls_cert),
	 .metavar = "FILE",
	 .complete = OPT_COMPLETE_FILE,
	 .help = "certificate of the server and its chain, PEM: turns on TLS"},
	{.name = "tls-key",
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct serve_options, tls_key),
	 .metavar = "FILE",
	 .complete = OPT_COMPLETE_FILE,
	 .help = "key of the certificate, PEM"},
	{.name = "client-ca",
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct serve_options, client_ca),
	 .metavar = "FILE",
	 .complete = OPT_COMPLETE_FILE,
	 .help = "clients need a certificate of these authorities, PEM; its CN "
		 "is the client's name"},
	{.name = "authorised-clients",
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct serve_options, authorised),
	 .metavar = "FILE",
	 .complete = OPT_COMPLETE_FILE,
	 .help = "with --client-ca: file that lists the accepted certificates, "
		 "in lines 'NAME CN=TEXT' or 'NAME sha256:FINGERPRINT'"},
	{.name = "token-file",
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct serve_options, token_file),
	 .metavar = "FILE",
	 .complete = OPT_COMPLETE_FILE,
	 .help = "file with the tokens of the clients, in lines 'NAME TOKEN'; "
		 "each request then needs one"},
	{.name = "insecure",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct serve_options, insecure),
	 .help = "allow plain HTTP on addresses other than loopback"},
	{.name = "json-log",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct serve_options, json_log),
	 .help = "write the log on standard error as JSON objects, one per line"},
	{.name = "quiet",
	 .letter = 'q',
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct serve_options, quiet),
	 .help = "log warnings only"},
	{.name = "json",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct serve_options, json),
	 .help = "print one JSON object at the end"},
	{0},
};

static int check_serve_options(const struct serve_options *o, struct flmem_error *err)
{
	if (!o->model || !o->state || !o->clients)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "%s is required",
				       !o->model   ? "--model"
				       : !o->state ? "--state"
						   : "--clients");
	return 0;
}

static struct flmem_exchange_serve_options make_request(const struct serve_options *o)
{
	bool lockstep = o->mode && strcmp(o->mode, "lockstep") == 0;

	return (struct flmem_exchange_serve_options){
		.model = o->model,
		.listen = o->listen ?: "127.0.0.1:8477",
		.state = o->state,
		.clients = o->clients,
		.rounds = o->rounds ?: 1,
		.quorum = o->quorum,
		.deadline_us = o->deadline_us,
		.chunk_bytes = o->chunk_bytes,
		.max_request_bytes = o->max_request_bytes,
		.quota_bytes = o->quota_bytes,
		.reserve_bytes = o->reserve_bytes,
		.expire_us = o->expire_us,
		.idle_us = o->idle_us,
		.settle_us = o->settle_us,
		.connections =
			(unsigned)(o->connections < UINT16_MAX ? o->connections : UINT16_MAX),
		.address_connections =
			(unsigned)(o->address_connections < UINT16_MAX ? o->address_connections
								       : UINT16_MAX),
		.tls_cert = o->tls_cert,
		.tls_key = o->tls_key,
		.client_ca = o->client_ca,
		.authorised = o->authorised,
		.token_file = o->token_file,
		.insecure = o->insecure,
		.lockstep = lockstep,
		/*
		 * In lockstep NaN is refused: part of an update has been combined when it is found.
		 */
		.aggregate = {.nan = lockstep ? FLMEM_NAN_REJECT : FLMEM_NAN_SKIP_CLIENT,
			      .non_float = FLMEM_NON_FLOAT_FIRST},
		.stop = -1,
	};
}

/* Reads --verify of each client. The caller frees `ret_expected` and the texts in it. */
static int read_verify_options(const struct serve_options *o,
			       struct flmem_exchange_expected *expected, struct flmem_error *err)
{
	for (size_t i = 0; i < o->verify.count; i++) {
		char *text = strdup(o->verify.values[i]);
		char *model = text ? strchr(text, '=') : NULL;

		if (!text)
			return flmem_error_nomem(err, "cannot read --verify");
		expected[i].client = text;
		if (!model)
			return flmem_error_set(err, FLMEM_EUSAGE, 0,
					       "invalid value '%s' for --verify; expected "
					       "CLIENT=MODEL, for example "
					       "site-1=generate:resnet18?client=1",
					       text);
		*model = '\0';
		expected[i].model = model + 1;
	}
	return 0;
}

static void print_event_json(const struct flmem_exchange_event *event)
{
	char *line = flmem_report_exchange_event(event);

	fputs(line ?: "", stderr);
	free(line);
}

static void print_event(void *context, const struct flmem_exchange_event *event)
{
	const struct serve_options *o = context;
	char shown[SHOWN_MAX], bytes[FORMAT_MAX];

	if (o->quiet && !event->warning)
		return;
	if (o->json_log) {
		print_event_json(event);
		return;
	}
	flockfile(stderr);
	fprintf(stderr, "flmem exchange serve: round %" PRIu64 ": %s", event->round, event->event);
	if (event->client)
		fprintf(stderr, " %s", event->client);
	if (event->bytes)
		fprintf(stderr, ", %s", format_bytes(event->bytes, bytes));
	if (event->took_us)
		fprintf(stderr, ", %.3f s", (double)event->took_us / 1e6);
	if (event->detail)
		fprintf(stderr, ": %s", flmem_text_escape(event->detail, shown, sizeof(shown)));
	fputc('\n', stderr);
	funlockfile(stderr);
}

static void print_listening(void *context, const char *url, bool local)
{
	const struct serve_options *o = context;
	struct timespec now = {0};

	if (o->json_log) {
		clock_gettime(CLOCK_REALTIME, &now);
		print_event_json(&(struct flmem_exchange_event){
			.wall_us = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000,
			.event = "listening",
			.warning = !local,
			.round = FLMEM_EXCHANGE_NO_ROUND,
			.detail = url,
		});
		return;
	}
	fprintf(stderr, "flmem exchange serve: listening at %s\n", url);
	if (!local)
		fprintf(stderr, "flmem exchange serve: other hosts can reach it\n");
}

static int print_served(const struct serve_options *o, const struct flmem_exchange_served *served,
			struct flmem_error *err)
{
	char shown[SHOWN_MAX];

	if (!o->json) {
		if (served->verified_elements)
			printf("nothing was written: all updates are the generated ones, and %s "
			       "%s their exact mean\n",
			       flmem_text_counted(served->verified_elements, "element", shown,
						  sizeof(shown)),
			       served->verified_elements == 1 ? "is" : "are");
		else if (!served->stopped)
			printf("%s\n", flmem_text_escape(served->model, shown, sizeof(shown)));
		return 0;
	}
	return print_json(flmem_report_exchange_served(served), err);
}

static int serve_rounds(struct serve_options *o, struct flmem_exchange_serve_options *request,
			struct flmem_error *err)
{
	struct flmem_exchange_served served = {0};
	int rc;

	request->log = print_event;
	request->listening = print_listening;
	request->context = o;
	request->stop = signals_catch_end();
	/*
	 * A connection takes two descriptors, and each file of an update one while it is combined.
	 */
	cmd_raise_descriptor_limit();
	rc = flmem_exchange_serve(request, &served, err);
	if (!rc)
		rc = print_served(o, &served, err);
	if (request->stop >= 0)
		close(request->stop);
	flmem_exchange_served_clear(&served);
	return rc;
}

static int run_serve(const struct cmd *cmd, void *options, const struct opt_rest *rest)
{
	struct serve_options *o = options;
	struct flmem_exchange_serve_options request = make_request(o);
	struct flmem_exchange_expected *expected = calloc(o->verify.count + 1, sizeof(*expected));
	struct flmem_error err = {0};
	int rc = cmd_no_arguments(cmd, rest, &err);

	request.verify = expected;
	request.verify_count = o->verify.count;
	if (!rc)
		rc = check_serve_options(o, &err);
	if (!rc)
		rc = combine_options_fill(&o->combine, &request.aggregate, &err);
	if (!rc)
		rc = expected ? read_verify_options(o, expected, &err)
			      : flmem_error_nomem(&err, "cannot read --verify");
	if (!rc)
		rc = serve_rounds(o, &request, &err);
	for (size_t i = 0; expected && i < o->verify.count; i++)
		free((char *)expected[i].client);
	free(expected);
	return rc ? cmd_fail(cmd, o->json, &err) : 0;
}

static const char *const exchange_serve_examples[] = {
	"flmem exchange serve -m m.safetensors -n 2 --rounds 3 --state state",
	"three rounds for two clients on this host; the path of the last model is printed",
	"flmem exchange serve -m m.safetensors -n 9 --quorum 6 --deadline 1h --state s",
	"a round ends after an hour, with the updates of at least six clients",
	NULL,
};

const struct cmd cmd_exchange_serve = {
	.name = "exchange serve",
	.summary = "serves a model by rounds, receives and combines the clients' updates",
	.description =
		"Publishes the model as round 0 at http://ADDRESS:PORT/v1/rounds/0/model and "
		"receives updates at /v1/uploads (tus 1.0: resumable, with checksums). When "
		"all clients have sent their update of a round, or at the deadline with a "
		"quorum, the updates are combined and the result is published as the next "
		"round. After the last round the server exits once no client has sent a "
		"request for some seconds.\n\n"
		"Without tokens or client certificates every process that can reach the "
		"address may read the model and send an update under any name. Plain HTTP is "
		"available on loopback addresses only, for example for a reverse proxy, "
		"unless --insecure is given.\n\n"
		"An update counts after its tensors were compared with those of the model. "
		"The state directory contains the whole state of the server: after a kill the "
		"same command continues, and refuses options that would change the result. "
		"SIGTERM and SIGINT stop the server; the same command continues then, too.",
	.examples = exchange_serve_examples,
	.options = exchange_serve_options_table,
	.options_size = sizeof(struct serve_options),
	.run = run_serve,
};
