/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include <flmem/exchange_client.h>
#include <flmem/report.h>

#include "cmd.h"
#include "exchange/exchange_progress.h"
#include "options/exchange_options.h"
#include "print/print_exchange.h"
#include "print/print_json.h"

struct status_options {
	struct exchange_options server; /* must be first: EXCHANGE_OPTIONS */
	bool json;
};

static const struct opt exchange_status_options_table[] = {
	EXCHANGE_OPTIONS,
	EXCHANGE_RETRIES_OPTION("default: never"),
	EXCHANGE_TIMEOUT_OPTION,
	{.name = "json",
	 .kind = OPT_FLAG,
	 .offset = offsetof(struct status_options, json),
	 .help = "print the result as one JSON object"},
	{0},
};

static int show_status(const struct status_options *o, const struct opt_rest *rest,
		       struct flmem_error *err)
{
	struct flmem_exchange_status status;
	struct flmem_exchange_server server;
	struct exchange_progress progress;
	int rc;

	if (rest->count != 1)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "name the address of the server");
	server = exchange_server_of(&o->server, rest->values[0]);
	/* The answer is about this moment, so retries are off by default. */
	server.never_retry |= !o->server.retries_given;
	exchange_progress_begin(&progress, "status", false, &server);
	progress.bar.drawn = false;
	rc = flmem_exchange_status_read(&server, &status, err);
	exchange_progress_end(&progress);
	if (rc)
		return rc;
	if (!o->json) {
		print_exchange_status(&status);
		return 0;
	}
	return print_json(flmem_report_exchange_status_json(&status), err);
}

static int run_status(const struct cmd *cmd, void *options, const struct opt_rest *rest)
{
	const struct status_options *o = options;
	struct flmem_error err = {0};

	return show_status(o, rest, &err) ? cmd_fail(cmd, o->json, &err) : 0;
}

static const char *const exchange_status_examples[] = {
	"flmem exchange status http://127.0.0.1:8477",
	"print the round, and how many clients have sent their update",
	NULL,
};

const struct cmd cmd_exchange_status = {
	.name = "exchange status",
	.summary = "prints the state of an exchange",
	.arguments = "URL",
	.description = "Prints the round, its clients and its deadline as the server reports them.",
	.examples = exchange_status_examples,
	.options = exchange_status_options_table,
	.options_size = sizeof(struct status_options),
	.run = run_status,
};
