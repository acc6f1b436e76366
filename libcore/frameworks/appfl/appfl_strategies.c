/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strategies of APPFL over gRPC. The server keeps its model and the global state. A receiver keeps
 * all messages of an upload, joins them, and loads the result; with chunking it does so chunk by
 * chunk, and it holds the current chunk of every client at once. The aggregation of whole models
 * holds the results of all clients, their sum and the copy that it returns.
 */
#include "frameworks/appfl/appfl_rules.h"

#include "base/cleanup.h"

#define MESSAGE_MAX 2147483647U /* gRPC's own limit */
#define CHUNK_MAX   (UINT64_C(4) << 30)
#define WHOLE_MAX   (UINT64_C(1) << 30) /* the same size as in rule APPFL-CHUNK-OFF */
#define RUNTIME	    (UINT64_C(300) << 20)

/* Steps that all strategies have. */
#define SERVER_WAITS                                                                    \
	{                                                                               \
		.role = FLMEM_ROLE_SERVER, .name = "wait",                              \
		.contents = "the model and the global state", .models = 2 * FLMEM_WHOLE \
	}

#define CLIENT_TRAINS                                                    \
	{                                                                \
		.role = FLMEM_ROLE_CLIENT, .name = "train",              \
		.contents = "the model and the state that was received", \
		.models = 2 * FLMEM_WHOLE, .trains = true                \
	}

static const struct flmem_strategy_step whole_steps[] = {
	SERVER_WAITS,
	{.role = FLMEM_ROLE_SERVER,
	 .name = "send the model",
	 .contents = "and, for each client, the model as bytes, written and copied",
	 .models = 2 * FLMEM_WHOLE,
	 .models_per_client = 2 * FLMEM_WHOLE},
	{.role = FLMEM_ROLE_SERVER,
	 .name = "collect the results",
	 .contents = "and, for each client, its messages, joined, and loaded",
	 .models = 2 * FLMEM_WHOLE,
	 .models_per_client = 3 * FLMEM_WHOLE},
	{.role = FLMEM_ROLE_SERVER,
	 .name = "aggregate",
	 .contents = "and the results of all clients, their sum, and the copy that is sent",
	 .models = 4 * FLMEM_WHOLE,
	 .models_per_client = 1 * FLMEM_WHOLE},
	{.role = FLMEM_ROLE_CLIENT,
	 .name = "receive the model",
	 .contents = "the model, the messages, joined, and loaded",
	 .models = 4 * FLMEM_WHOLE},
	CLIENT_TRAINS,
	{.role = FLMEM_ROLE_CLIENT,
	 .name = "send the result",
	 .contents = "and the result as bytes, written and copied",
	 .models = 4 * FLMEM_WHOLE},
};

static const struct flmem_strategy_step chunked_steps[] = {
	SERVER_WAITS,
	{.role = FLMEM_ROLE_SERVER,
	 .name = "aggregate a chunk",
	 .contents = "and, for each client, the chunk's messages, joined, and loaded",
	 .models = 2 * FLMEM_WHOLE,
	 .chunks_per_client = 3 * FLMEM_WHOLE},
	CLIENT_TRAINS,
	{.role = FLMEM_ROLE_CLIENT,
	 .name = "exchange a chunk",
	 .contents = "and the chunk as bytes, written and copied, and the answer as messages, "
		     "joined, and loaded",
	 .models = 2 * FLMEM_WHOLE,
	 .chunks = 5 * FLMEM_WHOLE},
};

static void write_grpc(struct flmem_buf *text, const char *indent,
		       const struct flmem_strategy_values *values)
{
	flmem_buf_printf(text, "%scomm_configs:\n%s  grpc_configs:\n", indent, indent);
	flmem_buf_printf(text, "%s    max_message_size: %llu\n", indent,
			 (unsigned long long)values->message_bytes);
	if (!values->chunk_bytes) {
		flmem_buf_printf(text, "%s    use_model_chunking: False\n", indent);
		return;
	}
	flmem_buf_printf(text, "%s    use_model_chunking: True\n%s    model_chunk_size: %llu\n",
			 indent, indent, (unsigned long long)values->chunk_bytes);
}

static void write_appfl_server(const struct flmem_strategy_values *values, struct flmem_buf *text)
{
	flmem_buf_puts(text, "server_configs:\n");
	if (values->chunk_bytes)
		flmem_buf_puts(text, "  aggregator: \"FedAvgAggregator\"  # chunks need it\n");
	write_grpc(text, "  ", values);
}

static void write_appfl_client(const struct flmem_strategy_values *values, struct flmem_buf *text)
{
	write_grpc(text, "", values);
}

static const struct flmem_strategy_file appfl_strategies_files[] = {
	{"server's YAML", write_appfl_server},
	{"YAML of every client", write_appfl_client},
};

static const struct flmem_strategy appfl_strategies[] = {
	{.name = "whole",
	 .summary = "models are sent and averaged whole, as without use_model_chunking",
	 .steps = whole_steps,
	 .step_count = FLMEM_ARRAY_SIZE(whole_steps),
	 .files = appfl_strategies_files,
	 .file_count = FLMEM_ARRAY_SIZE(appfl_strategies_files),
	 .message_max = MESSAGE_MAX,
	 .model_max = WHOLE_MAX},
	{.name = "chunked",
	 .summary =
		 "models are sent and averaged chunk by chunk; only FedAvgAggregator supports this",
	 .steps = chunked_steps,
	 .step_count = FLMEM_ARRAY_SIZE(chunked_steps),
	 .files = appfl_strategies_files,
	 .file_count = FLMEM_ARRAY_SIZE(appfl_strategies_files),
	 .chunk_max = CHUNK_MAX,
	 .message_max = MESSAGE_MAX},
};

const struct flmem_strategies flmem_appfl_strategies = {
	.strategies = appfl_strategies,
	.count = FLMEM_ARRAY_SIZE(appfl_strategies),
	.runtime_bytes = RUNTIME,
};
