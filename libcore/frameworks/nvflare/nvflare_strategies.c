/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strategies of NVFlare 2.8: FedAvg with PyTorch models, cleaned up as the generated configuration
 * specifies. The server keeps the persistor's model, the current one and the one from which it was
 * computed; with concurrent clients, glibc keeps more than the results themselves. Counts as
 * measured in docs/guides/planning.md.
 */
#include "frameworks/nvflare/rules/nvflare_rules.h"

#include <inttypes.h>

#include "base/cleanup.h"

/*
 * Bytes of a blob at most (2.9, fuel/f3/comm_config.py). A tensor above the chunk size is one blob.
 */
#define BLOB_MAX (UINT64_C(4) << 30)

#define CHUNK	(UINT64_C(2) << 20) /* default of both chunk sizes */
#define RUNTIME (UINT64_C(290) << 20)

/*
 * Measured by tests/bench/nvflare/parents.py: 2.8.1 and 2.9.0, two clients, models of 0 to 256 MiB.
 */
#define BESIDE                                                                                    \
	"Beside each process of a job runs the parent process that started it, which no figure "  \
	"includes. Measured with 2.8.1 and 2.9.0 and two clients: a client's took 49 to 54 MiB; " \
	"a server's 53 to 74 MiB, and up to 271 MiB while models of 256 MiB passed through it. "  \
	"How it grows with larger models and more clients is not known."

#define SERVER_WAIT                                                                   \
	{                                                                             \
		.role = FLMEM_ROLE_SERVER, .name = "wait",                            \
		.contents = "the persistor's model, the current one, the one before", \
		.models = 3 * FLMEM_WHOLE                                             \
	}

/*
 * The server keeps each tensor as bytes, once for all receivers, until the last one has it
 * (fuel/f3/streaming/cacheable.py of 2.8.1 and 2.9.0).
 */
#define SERVER_SEND                                                                \
	{                                                                          \
		.role = FLMEM_ROLE_SERVER, .name = "send the model",               \
		.contents = "and, for each client, copies of a tensor in transit;" \
			    " for several, the model as bytes",                    \
		.models = 3 * FLMEM_WHOLE, .tensors_per_client = 5 * FLMEM_WHOLE,  \
		.models_if_several = FLMEM_WHOLE                                   \
	}

#define CLIENT_STEPS                                                              \
	{.role = FLMEM_ROLE_CLIENT,                                               \
	 .name = "receive the model",                                             \
	 .contents = "the model that was received, and what the last round left", \
	 .models = 2 * FLMEM_WHOLE},                                              \
		{.role = FLMEM_ROLE_CLIENT,                                       \
		 .name = "train",                                                 \
		 .contents = "the model that was received, and the script's own", \
		 .models = 2 * FLMEM_WHOLE,                                       \
		 .trains = true},                                                 \
	{                                                                         \
		.role = FLMEM_ROLE_CLIENT, .name = "send the result",             \
		.contents = "both, and tensors in transit", .models = 27,         \
		.tensors = 2 * FLMEM_WHOLE                                        \
	}

static const struct flmem_strategy_step memory_steps[] = {
	SERVER_WAIT,
	SERVER_SEND,
	{.role = FLMEM_ROLE_SERVER,
	 .name = "collect and aggregate",
	 .contents = "and the results of all clients, their sum, a product, tensors in transit",
	 .models = 52,
	 .models_per_client = 11,
	 .tensors_per_client = FLMEM_WHOLE},
	CLIENT_STEPS,
};

static const struct flmem_strategy_step offload_steps[] = {
	SERVER_WAIT,
	SERVER_SEND,
	{.role = FLMEM_ROLE_SERVER,
	 .name = "collect and aggregate",
	 .contents = "and the sum of the results, which are on disk",
	 .models = 52},
	CLIENT_STEPS,
};

/*
 * Filters of task results in 2.9.0: app_common/filters/percentile_privacy.py (differences, their
 * absolute values and a copy of those for the percentile), svt_privacy.py (a mask of a byte for
 * each value and the result), app_opt/pt/quantization/quantizer.py.
 */
static const struct flmem_strategy_filter nvflare_strategies_filters[] = {
	{"percentile",
	 {.role = FLMEM_ROLE_CLIENT,
	  .name = "filter the result",
	  .contents = "both, the differences, their absolute values, and a copy to sort",
	  .models = 5 * FLMEM_WHOLE}},
	{"svt",
	 {.role = FLMEM_ROLE_CLIENT,
	  .name = "filter the result",
	  .contents = "both, the result, and a mask",
	  .models = 33}},
	{"float16",
	 {.role = FLMEM_ROLE_CLIENT,
	  .name = "filter the result",
	  .contents = "both, the converted tensors, and copies of one",
	  .models = 25,
	  .tensors = 2 * FLMEM_WHOLE}},
	{.name = NULL},
};

static void write_sizes(const struct flmem_strategy_values *values, struct flmem_buf *text)
{
	flmem_buf_printf(text,
			 "  \"tensor_download_chunk_size\": %llu,\n"
			 "  \"np_download_chunk_size\": %llu,\n",
			 (unsigned long long)values->chunk_bytes,
			 (unsigned long long)values->chunk_bytes);
}

static void write_nvflare_server(const struct flmem_strategy_values *values, struct flmem_buf *text)
{
	flmem_buf_puts(text, "{\n");
	write_sizes(values, text);
	flmem_buf_printf(text, "  \"workflows\": [{\"args\": {\"memory_gc_rounds\": 5%s}}]\n}\n",
			 values->disk_bytes ? ", \"enable_tensor_disk_offload\": true" : "");
}

static void write_nvflare_client(const struct flmem_strategy_values *values, struct flmem_buf *text)
{
	flmem_buf_puts(text, "{\n");
	write_sizes(values, text);
	flmem_buf_puts(text,
		       "  \"executors\": [{\"executor\": {\"args\": {\n"
		       "    \"memory_gc_rounds\": 1, \"server_expected_format\": \"pytorch\"}}}]\n"
		       "}\n");
}

static void write_environment(const struct flmem_strategy_values *values, struct flmem_buf *text)
{
	flmem_buf_puts(text, "export MALLOC_ARENA_MAX=4\n");
	if (values->disk_bytes)
		flmem_buf_printf(text,
				 "export TMPDIR=/var/tmp  # on a disk, not tmpfs, with %" PRIu64
				 " MB free\n",
				 values->disk_bytes / 1000000 + 1);
	if (values->tensor_bytes > BLOB_MAX)
		flmem_buf_printf(text,
				 "export NVFLARE_STREAMING_MAX_BLOB_SIZE=%" PRIu64
				 "  # 2.9 refuses larger tensors; also on clients\n",
				 values->tensor_bytes / BLOB_MAX * BLOB_MAX + BLOB_MAX);
}

static const struct flmem_strategy_file nvflare_strategies_files[] = {
	{"config_fed_server.json, merged", write_nvflare_server},
	{"config_fed_client.json, merged", write_nvflare_client},
	{"environment of the server", write_environment},
};

static const struct flmem_strategy nvflare_strategies[] = {
	{.name = "memory",
	 .summary = "the server keeps the results of all clients in memory, as by default",
	 .steps = memory_steps,
	 .step_count = FLMEM_ARRAY_SIZE(memory_steps),
	 .files = nvflare_strategies_files,
	 .file_count = FLMEM_ARRAY_SIZE(nvflare_strategies_files),
	 .chunk_bytes = CHUNK,
	 .chunk_max = CHUNK},
	{.name = "offload",
	 .summary = "the server keeps them on its disk: enable_tensor_disk_offload, of 2.8 or "
		    "later, for PyTorch models (the simulator of 2.8.1 ignores it)",
	 .steps = offload_steps,
	 .step_count = FLMEM_ARRAY_SIZE(offload_steps),
	 .files = nvflare_strategies_files,
	 .file_count = FLMEM_ARRAY_SIZE(nvflare_strategies_files),
	 .chunk_bytes = CHUNK,
	 .chunk_max = CHUNK,
	 .disk_models_per_client = 1},
};

const struct flmem_strategies flmem_nvflare_strategies = {
	.strategies = nvflare_strategies,
	.count = FLMEM_ARRAY_SIZE(nvflare_strategies),
	.runtime_bytes = RUNTIME,
	.filters = nvflare_strategies_filters,
	.beside = BESIDE,
};
