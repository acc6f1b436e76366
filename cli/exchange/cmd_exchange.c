/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd.h"

extern const struct cmd cmd_exchange_pull;
extern const struct cmd cmd_exchange_push;
extern const struct cmd cmd_exchange_serve;
extern const struct cmd cmd_exchange_status;
extern const struct cmd cmd_exchange_wait;

static const struct cmd *const exchange_verbs[] = {
	&cmd_exchange_serve,  &cmd_exchange_push, &cmd_exchange_pull,
	&cmd_exchange_status, &cmd_exchange_wait, NULL,
};

static const struct opt exchange_options_table[] = {{0}};

static const char *const exchange_examples[] = {
	"flmem exchange serve -m m.safetensors -n 2 --rounds 3 --state state",
	"serve three rounds for two clients on this host",
	NULL,
};

const struct cmd cmd_exchange = {
	.name = "exchange",
	.summary = "moves models in chunks between a server and its clients",
	.description =
		"The server publishes a model, receives the clients' updates as resumable "
		"uploads (tus 1.0), combines them with the algorithms of 'flmem aggregate' "
		"and publishes the result as the model of the next round. Neither side keeps "
		"a model in memory, and both continue after a disconnect or a kill.",
	.examples = exchange_examples,
	.options = exchange_options_table,
	.verbs = exchange_verbs,
};
