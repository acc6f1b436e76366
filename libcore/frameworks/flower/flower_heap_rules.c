/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about Flower's code in heap profiles: release 1.42.0. */
#include "frameworks/flower/flower_rules.h"

#include "base/cleanup.h"

#define KEEP_INPUT_MESSAGE                                                                      \
	"the record is a copy of the model, which stays in memory beside it; keep_input=False " \
	"empties the input while it is copied, where it is not used afterwards"
#define KEEP_INPUT_SOURCE "Flower code, app/message/arrayrecord.py, 1.42.0"

static const struct flmem_heap_site_row flower_heap_rows[] = {
	{
		.rule = {.id = "FLWR-HEAP-TORCH-RECORD",
			 .severity = FLMEM_SEVERITY_INFO,
			 .framework = FLMEM_FRAMEWORK_FLOWER,
			 .condition = "a heap profile in which "
				      "ArrayRecord.from_torch_state_dict has a tenth of the peak",
			 .message = KEEP_INPUT_MESSAGE,
			 .source = KEEP_INPUT_SOURCE},
		.place = {"from_torch_state_dict", "flwr/app/message/arrayrecord.py"},
		.path = "ArrayRecord.keep_input",
		.proposed = "False",
	},
	{
		.rule = {.id = "FLWR-HEAP-NUMPY-RECORD",
			 .severity = FLMEM_SEVERITY_INFO,
			 .framework = FLMEM_FRAMEWORK_FLOWER,
			 .condition = "a heap profile in which ArrayRecord.from_numpy_ndarrays has "
				      "a tenth of the peak",
			 .message = KEEP_INPUT_MESSAGE,
			 .source = KEEP_INPUT_SOURCE},
		.place = {"from_numpy_ndarrays", "flwr/app/message/arrayrecord.py"},
		.path = "ArrayRecord.keep_input",
		.proposed = "False",
	},
	{
		.rule = {.id = "FLWR-HEAP-COLLECT",
			 .severity = FLMEM_SEVERITY_INFO,
			 .framework = FLMEM_FRAMEWORK_FLOWER,
			 .condition = "a heap profile in which aggregate_arrayrecords has a tenth "
				      "of the peak",
			 .message = "the strategy averages a list with the replies of all "
				    "clients, for which Flower has no setting; the strategy "
				    "flmem.flower.FedAvg writes each reply to a file as it "
				    "arrives",
			 .source = "Flower code, serverapp/strategy/strategy_utils.py, 1.42.0, and "
				   "flmem's guide to aggregation"},
		.place = {"aggregate_arrayrecords", "flwr/serverapp/strategy/strategy_utils.py"},
		.path = "strategy",
		.proposed = "flmem.flower.FedAvg",
	},
};

const struct flmem_heap_site_table flmem_flower_heap_rules = {flower_heap_rows,
							      FLMEM_ARRAY_SIZE(flower_heap_rows)};
