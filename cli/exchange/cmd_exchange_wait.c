/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include <flmem/exchange_client.h>
#include <flmem/report.h>

#include "cmd.h"
#include "exchange/exchange_progress.h"
#include "options/exchange_options.h"
#include "print/print_exchange.h"
#include "print/print_json.h"

struct wait_options {
	struct exchange_options server; /* must be first: EXCHANGE_OPTIONS */
	const char *round;
	uint64_t limit_us;
	bool quiet;
	bool json;
};

static const struct opt exchange_wait_options_table[] = {
	{.name = "round",
	 .letter = 'r',
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct wait_options, round),
	 .metavar = "ROUND",
	 .help = "wait until the model of this round is published (required)"},
	{.name = "timeout",
	 .kind = OPT_DURATION,
	 .offset = offsetof(struct wait_options, limit_us),
	 .metavar = "TIME",
	 .help = "end after this time with exit status 9 (default: none)"},
	EXCHANGE_OPTIONS,
	EXCHANGE_RETRIES_OPTION("default 10; 0: never"),
	{.name = "quiet",
	 .letter = 'q',
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct wait_options, quiet),
	 .help = "print nothing on success"},
	{.name = "json",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct wait_options, json),
	 .help = "print the state at the end as one JSON object"},
	{0},
};

static int print_waited(const struct wait_options *o, const struct flmem_exchange_status *status,
			struct flmem_error *err)
{
	if (!o->json) {
		if (!o->quiet)
			print_exchange_status(status);
		return 0;
	}
	return print_json(flmem_report_exchange_wait_json(status), err);
}

static int wait_for_model(const struct wait_options *o, const struct opt_rest *rest,
			  struct flmem_error *err)
{
	struct exchange_progress progress;
	struct flmem_exchange_status status;
	struct flmem_exchange_server server;
	uint64_t round = 0;
	bool given = false;
	int rc;

	if (rest->count != 1)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "name the address of the server");
	rc = exchange_round_read(o->round, &given, &round, err);
	if (!rc && !given)
		rc = flmem_error_set(err, FLMEM_EUSAGE, 0,
				     "name the round to wait for with --round ROUND");
	if (rc)
		return rc;
	server = exchange_server_of(&o->server, rest->values[0]);
	exchange_progress_begin(&progress, "wait", o->quiet, &server);
	progress.bar.drawn = false;
	rc = flmem_exchange_wait(&server, round, o->limit_us, &status, err);
	exchange_progress_end(&progress);
	return rc ? rc : print_waited(o, &status, err);
}

static int run_wait(const struct cmd *cmd, void *options, const struct opt_rest *rest)
{
	const struct wait_options *o = options;
	struct flmem_error err = {0};

	return wait_for_model(o, rest, &err) ? cmd_fail(cmd, o->json, &err) : 0;
}

static const char *const exchange_wait_examples[] = {
	"flmem exchange wait http://127.0.0.1:8477 --round 1",
	"until round 0 is complete, and its result is published as the model of round 1",
	NULL,
};

const struct cmd cmd_exchange_wait = {
	.name = "exchange wait",
	.summary = "waits until a round of an exchange is published",
	.arguments = "URL",
	.description =
		"Returns when the model of the round is published, or a later one. The exit "
		"status is 9 after --timeout, 7 if the exchange fails, and 2 if it ends before "
		"this round.",
	.examples = exchange_wait_examples,
	.options = exchange_wait_options_table,
	.options_size = sizeof(struct wait_options),
	.run = run_wait,
};
