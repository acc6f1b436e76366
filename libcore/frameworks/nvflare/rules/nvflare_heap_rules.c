/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about NVFlare's code in heap profiles: release 2.9.0. */
#include "frameworks/nvflare/rules/nvflare_rules.h"

#include "base/cleanup.h"

static const struct flmem_heap_site_row nvflare_heap_rows[] = {
	{
		/*
		 * With the setting, DiskTensorConsumer writes the bytes to a file, and load() is
		 * not called.
		 */
		.rule = {.id = "NVF-HEAP-RECEIVED",
			 .severity = FLMEM_SEVERITY_INFO,
			 .framework = FLMEM_FRAMEWORK_NVFLARE,
			 .since = "2.9.0",
			 .condition = "a heap profile in which tensors that "
				      "TensorConsumer.consume_items loads have a tenth of the peak",
			 .message = "received PyTorch tensors stay in memory until they are "
				    "aggregated; on the server of a FedAvg, ScatterAndGather or "
				    "Scaffold job, and on the clients of a swarm job, "
				    "enable_tensor_disk_offload has them in files below TMPDIR",
			 .source = "NVFlare code, app_opt/pt/tensor_downloader.py, 2.9.0"},
		.place = {"load", "safetensors/torch.py"},
		.caller = {"consume_items", "nvflare/app_opt/pt/tensor_downloader.py"},
		.path = "workflows[].args.enable_tensor_disk_offload",
		.proposed = "true",
	},
	{
		.rule = {.id = "NVF-HEAP-DIFF",
			 .severity = FLMEM_SEVERITY_INFO,
			 .framework = FLMEM_FRAMEWORK_NVFLARE,
			 .since = "2.9.0",
			 .condition = "a heap profile in which the differences of "
				      "numerical_params_diff have a tenth of the peak",
			 .message = "the client makes the difference between its model and the "
				    "received one, while it holds both; with the transfer type "
				    "FULL it sends the model itself, where the aggregation accepts "
				    "that",
			 .source = "NVFlare code, client/utils.py and client/in_process/api.py, "
				   "2.9.0"},
		.place = {"numerical_params_diff", "nvflare/client/utils.py"},
		.path = "executors[].executor.args.params_transfer_type",
		.proposed = "FULL",
	},
	{
		.rule = {.id = "NVF-HEAP-STREAM",
			 .severity = FLMEM_SEVERITY_INFO,
			 .framework = FLMEM_FRAMEWORK_NVFLARE,
			 .since = "2.9.0",
			 .condition = "a heap profile in which the buffers of TxTask have a tenth "
				      "of the peak",
			 .message = "each stream that is sent has a buffer of "
				    "streaming_chunk_size, 1 MiB by default, also for a small "
				    "message; a smaller one in comm_config.json takes less memory "
				    "and more messages",
			 .source = "NVFlare code, fuel/f3/streaming/byte_streamer.py, 2.9.0"},
		.place = {"__init__", "nvflare/fuel/f3/streaming/byte_streamer.py"},
		.path = "streaming_chunk_size",
	},
};

const struct flmem_heap_site_table flmem_nvflare_heap_rules = {nvflare_heap_rows,
							       FLMEM_ARRAY_SIZE(nvflare_heap_rows)};
