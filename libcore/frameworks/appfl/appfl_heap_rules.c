/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about APPFL's code in heap profiles: release 1.12.0. */
#include "frameworks/appfl/appfl_rules.h"

#include "base/cleanup.h"

static const struct flmem_heap_site_row appfl_heap_rows[] = {
	{
		/* With models in chunks, aggregate() calls _aggregate_chunk() instead. */
		.rule = {.id = "APPFL-HEAP-WHOLE",
			 .severity = FLMEM_SEVERITY_INFO,
			 .framework = FLMEM_FRAMEWORK_APPFL,
			 .condition = "a heap profile in which FedAvgAggregator.compute_steps has "
				      "a tenth of the peak",
			 .message = "models are aggregated whole, so the server holds those of all "
				    "clients and their sum; over gRPC, FedAvgAggregator can take "
				    "them in chunks of model_chunk_size, if server and clients set "
				    "use_model_chunking",
			 .source = "APPFL code, algorithm/aggregator/fedavg_aggregator.py, 1.12.0"},
		.place = {"compute_steps", "appfl/algorithm/aggregator/fedavg_aggregator.py"},
		.path = "comm_configs.grpc_configs.use_model_chunking",
		.proposed = "True",
	},
	{
		/* The server calls this function only if the setting is off. */
		.rule = {.id = "APPFL-HEAP-OPTMEM",
			 .severity = FLMEM_SEVERITY_WARNING,
			 .framework = FLMEM_FRAMEWORK_APPFL,
			 .condition = "a heap profile in which UpdateGlobalModel joins messages by "
				      "efficient_bytearray_concatenation, with a tenth of the peak",
			 .message = "the server joins each upload as one message, beside its parts "
				    "and the model: optimize_memory is off; remove it, as its "
				    "default is True, on server and clients alike",
			 .source = "APPFL code, comm/grpc/grpc_server_communicator.py, 1.12.0"},
		.place = {"efficient_bytearray_concatenation", "appfl/misc/memory_utils.py"},
		.caller = {"UpdateGlobalModel", "appfl/comm/grpc/grpc_server_communicator.py"},
		.path = "comm_configs.grpc_configs.optimize_memory",
		.proposed = "True",
	},
};

const struct flmem_heap_site_table flmem_appfl_heap_rules = {appfl_heap_rows,
							     FLMEM_ARRAY_SIZE(appfl_heap_rows)};
