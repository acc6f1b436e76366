/* SPDX-License-Identifier: Apache-2.0 */
/* Every rule about APPFL's files: inputs that must trigger it, and near misses that must not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <flmem/recommend.h>

#include "base/cleanup.h"
#include "findings.h"
#include "tree.h"

#define SERVER(grpc, more) "server_configs:\n  comm_configs:\n    grpc_configs: {" grpc "}\n" more
#define MODEL(n)	   "client_configs: {model_configs: {model_kwargs: {model_name: " n "}}}\n"
#define CLIENT(grpc, more) "client_id: one\ncomm_configs:\n  grpc_configs: {" grpc "}\n" more
#define TAG		   "YAML-TAG-REFUSED"
#define ON		   "use_model_chunking: True"
#define SECURE(value)	   "  aggregator_kwargs: {use_secure_agg: " value "}\n"

struct row {
	const char *rule, *server, *client, *client_2, *version;
	bool hit;
	enum flmem_severity severity;
};

#define WARNING .severity = FLMEM_SEVERITY_WARNING
#define INFO	.severity = FLMEM_SEVERITY_INFO

static const struct row rows[] = {
	{"APPFL-CHUNK-OFF", .server = SERVER("", MODEL("meta-llama/Llama-3.1-8B-Instruct")),
	 .hit = true, WARNING},
	{"APPFL-CHUNK-OFF", .server = SERVER("use_model_chunking: no", MODEL("Qwen2-1.5B")),
	 .hit = true, WARNING},
	{"APPFL-CHUNK-OFF", .server = SERVER("", MODEL("Qwen2-0.5B")), .hit = false},
	{"APPFL-CHUNK-OFF", .server = SERVER("", MODEL("ResNet18")), .hit = false},
	{"APPFL-CHUNK-OFF", .server = SERVER(ON, MODEL("Llama-3.1-8B")), .hit = false},

	{"APPFL-CHUNK-NOOP",
	 .server = SERVER(ON ", model_chunk_size: 17179869184", MODEL("Llama-3.1-8B")), .hit = true,
	 INFO},
	{"APPFL-CHUNK-NOOP", .server = SERVER(ON, MODEL("Qwen2-0.5B")), .hit = true, INFO},
	{"APPFL-CHUNK-NOOP", .server = SERVER(ON, MODEL("Llama-3.1-8B")), .hit = false},
	{"APPFL-CHUNK-NOOP", .server = SERVER(ON, MODEL("ResNet18")), .hit = false},

	{"APPFL-CHUNK-ONE-SIDED", .server = SERVER(ON, ""), .client = CLIENT("", ""), .hit = true},
	{"APPFL-CHUNK-ONE-SIDED", .server = SERVER("", ""), .client = CLIENT(ON, ""), .hit = true},
	{"APPFL-CHUNK-ONE-SIDED", .server = SERVER(ON, ""), .client = CLIENT(ON, ""), .hit = false},
	{"APPFL-CHUNK-ONE-SIDED", .server = SERVER("", ""), .client = CLIENT("", ""), .hit = false},
	{"APPFL-CHUNK-ONE-SIDED", .client = CLIENT(ON, ""), .client_2 = CLIENT("", ""),
	 .hit = false},
	{"APPFL-CHUNK-ONE-SIDED", .server = SERVER("", ""), .client = CLIENT("", ""),
	 .client_2 = CLIENT(ON, ""), .hit = true},

	/* what Python takes as true or false */
	{"APPFL-CHUNK-OFF", .server = SERVER("use_model_chunking: 'False'", MODEL("Qwen2-1.5B")),
	 .hit = false},
	{"APPFL-CHUNK-OFF", .server = SERVER("use_model_chunking: 0", MODEL("Qwen2-1.5B")),
	 .hit = true, WARNING},
	{"APPFL-CHUNK-ONE-SIDED", .server = SERVER("use_model_chunking: 'True'", ""),
	 .client = CLIENT(ON, ""), .hit = false},
	{"APPFL-SWITCH-TEXT", .server = SERVER("use_model_chunking: 'False'", ""), .hit = true,
	 WARNING},
	{"APPFL-SWITCH-TEXT", .client = CLIENT("", "train_configs: {optimize_memory: 'no'}\n"),
	 .hit = true, WARNING},
	{"APPFL-SWITCH-TEXT", .server = SERVER(ON ", use_polling: '${x}'", ""), .hit = false},
	{"APPFL-SIZE-INVALID", .server = SERVER("model_chunk_size: 1GB", ""), .hit = true},
	{"APPFL-SIZE-INVALID", .server = SERVER("max_message_size: 0", ""), .hit = true},
	{"APPFL-SIZE-INVALID", .server = SERVER("max_message_size: !!str 55", ""), .hit = true},
	{"APPFL-SIZE-INVALID", .server = SERVER("max_message_size: 1", ""), .hit = true},
	{"APPFL-SIZE-INVALID", .client = CLIENT("max_message_size: 10", ""), .hit = true},
	{"APPFL-SIZE-INVALID", .client = CLIENT("max_message_size: 10.99", ""), .hit = true},
	{"APPFL-SIZE-INVALID", .client = CLIENT("max_message_size: 11", ""), .hit = false},
	{"APPFL-SIZE-INVALID", .client = CLIENT("max_message_size: 0x100", ""), .hit = false},
	{"APPFL-SIZE-INVALID", .client = CLIENT("model_chunk_size: 1", ""), .hit = false},
	{"APPFL-SIZE-INVALID", .server = SERVER("max_message_size: &x \"1e6\"", ""), .hit = true},
	{"APPFL-SIZE-INVALID", .server = "x: &v '5'\n" SERVER("max_message_size: *v", ""),
	 .hit = true},
	{"APPFL-SIZE-INVALID", .server = SERVER("max_message_size: &x 1e6", ""), .hit = false},
	{"APPFL-SIZE-INVALID", .server = SERVER("max_message_size: !!float 55", ""), .hit = false},
	{"YAML-KEY-TWICE", .server = SERVER("max_message_size: 5, max_message_size: 6", ""),
	 .hit = true},
	{"YAML-KEY-TWICE",
	 .server = "x: &m {max_message_size: 5}\n" SERVER("<<: *m, max_message_size: 6", ""),
	 .hit = false},
	{TAG, .server = SERVER("max_message_size: !size 5", ""), .hit = true},
	{TAG, .server = "!server\n" SERVER("max_message_size: 5", ""), .hit = true},
	{TAG, .server = SERVER("!x max_message_size: 5", ""), .hit = true},
	{TAG, .server = SERVER("a: !!python/tuple [1]", ""), .hit = true},
	{TAG, .server = SERVER("a: !!python/object/apply:pathlib.Path [a]", ""), .hit = false},
	{TAG, .server = SERVER("a: !!set {b, c}", ""), .hit = true},
	{TAG, .server = SERVER("a: !!timestamp 2026-01-01", ""), .hit = true},
	{TAG, .server = SERVER("a: !!int x", ""), .hit = true},
	{TAG, .server = SERVER("a: !!bool x", ""), .hit = true},
	{TAG, .server = SERVER("a: !!map [1]", ""), .hit = true},
	{TAG, .server = SERVER("!!str a: {b: 1}, c: !!bool 'yes', d: ! 5, e: !!int 0o17", ""),
	 .hit = false},
	{TAG,
	 .server = SERVER("a: !!map {b: !!seq [!!str 5]}, c: !!omap [d: 1], e: !!binary aGk=", ""),
	 .hit = false},
	{TAG, .client = CLIENT("", "train_configs: {optimize_memory: !yes true}\n"), .hit = true},
	{"APPFL-SIZE-INVALID", .client = CLIENT("max_message_size: -1", ""), .hit = true},
	{"APPFL-SIZE-INVALID", .client = CLIENT("max_message_size: 2147483648", ""), .hit = true},
	{"APPFL-SIZE-INVALID", .server = SERVER("max_message_size: 2147483647", ""), .hit = false},
	{"APPFL-SIZE-INVALID", .server = SERVER("model_chunk_size: 2147483648", ""), .hit = false},
	{"APPFL-SIZE-INVALID", .client = CLIENT("model_chunk_size: 4 * 1024", ""), .hit = true},
	{"APPFL-SIZE-INVALID", .client = CLIENT("model_chunk_size: true", ""), .hit = true},
	{"APPFL-SIZE-INVALID", .client = CLIENT("model_chunk_size: 1e9", ""), .hit = false},
	{"APPFL-SIZE-INVALID", .client = CLIENT("model_chunk_size: 1_000", ""), .hit = false},
	{"APPFL-SIZE-INVALID", .client = CLIENT("model_chunk_size: 17:46:40", ""), .hit = false},
	{"APPFL-SIZE-INVALID", .client = CLIENT("model_chunk_size: -1:30", ""), .hit = true},
	{"VALUE-BASE-60", .server = SERVER("max_message_size: 1:30", ""), .hit = true, WARNING},
	{"VALUE-BASE-60", .client = CLIENT("model_chunk_size: 17:46:40", ""), .hit = true, WARNING},
	{"VALUE-BASE-60", .server = SERVER("max_message_size: 90, server_uri: a:50051", ""),
	 .hit = false},
	{"VALUE-BASE-60", .server = SERVER("max_message_size: '1:30'", ""), .hit = false},
	{"APPFL-SIZE-INVALID", .client = CLIENT("model_chunk_size: 1:60", ""), .hit = true},
	{"APPFL-SIZE-INVALID", .client = CLIENT("model_chunk_size: '${oc.env:SIZE}'", ""),
	 .hit = true},
	{"APPFL-SIZE-INVALID",
	 .client = CLIENT("model_chunk_size: '${oc.decode:${oc.env:SIZE}}'", ""), .hit = false},
	{"APPFL-SIZE-INVALID", .client = CLIENT("model_chunk_size: '1024'", ""), .hit = true},

	{"APPFL-SIZE-INVALID", .client = CLIENT("model_chunk_size: 0x100000", ""), .hit = false},
	{"APPFL-SIZE-INVALID", .client = CLIENT("model_chunk_size: '\?\?\?'", ""), .hit = false},
	{"APPFL-SWITCH-TEXT", .server = SERVER("use_model_chunking: '\?\?\?'", ""), .hit = false},
	{"APPFL-CANNOT-TELL", .server = SERVER("use_model_chunking: '\?\?\?'", ""), .hit = true,
	 INFO},
	{"APPFL-CHUNK-OFF", .server = SERVER("use_model_chunking: '\?\?\?'", MODEL("Qwen2-1.5B")),
	 .hit = false},
	{"APPFL-CHUNK-OFF", .server = SERVER("use_model_chunking: [True]", MODEL("Qwen2-1.5B")),
	 .hit = false},
	{"APPFL-CHUNK-OFF", .server = SERVER("use_model_chunking: []", MODEL("Qwen2-1.5B")),
	 .hit = true, WARNING},
	{"APPFL-CHUNK-OFF", .server = SERVER("use_model_chunking: {a: 1}", MODEL("Qwen2-1.5B")),
	 .hit = false},
	{"APPFL-CHUNK-OFF", .server = SERVER("use_model_chunking: 1.0", MODEL("Qwen2-1.5B")),
	 .hit = false},
	{"APPFL-CHUNK-OFF", .server = SERVER("use_model_chunking: 0.0", MODEL("Qwen2-1.5B")),
	 .hit = true, WARNING},

	/* references of OmegaConf */
	{"APPFL-SIZE-INVALID", .client = CLIENT("model_chunk_size: '${a.b}'", "a: {b: 1GB}\n"),
	 .hit = true},
	{"APPFL-SIZE-INVALID", .client = CLIENT("model_chunk_size: '${a.b}'", "a: {b: 1024}\n"),
	 .hit = false},
	{"APPFL-SIZE-INVALID", .client = CLIENT("model_chunk_size: '${.size}', size: 0", ""),
	 .hit = true},
	{"APPFL-SIZE-INVALID",
	 .client = CLIENT("model_chunk_size: '${..size}'", "size: 0\ncomm: {size: 0}\n"),
	 .hit = false},
	{"APPFL-SIZE-INVALID",
	 .client = "client_id: x\ncomm_configs:\n  size: 0\n  grpc_configs: {max_message_size: "
		   "'${..size}'}\n",
	 .hit = true},
	{"APPFL-SIZE-INVALID",
	 .client = CLIENT("model_chunk_size: '${ a[1] }'", "a: [1, 0]\nb: 0\n"), .hit = true},
	{"APPFL-SIZE-INVALID",
	 .client = CLIENT("model_chunk_size: '${a[0]}'", "a: ['${b}', 0]\nb: 7\n"), .hit = false},
	{"APPFL-SIZE-INVALID",
	 .client = CLIENT("model_chunk_size: '${a}'", "a: '${b}'\nb: '${a}'\n"), .hit = false},
	{"APPFL-CHUNK-OFF",
	 .server = SERVER("use_model_chunking: '${on}'", MODEL("Qwen2-1.5B") "on: False\n"),
	 .hit = true, WARNING},
	{"APPFL-CHUNK-OFF",
	 .server = SERVER("use_model_chunking: '${on}'", MODEL("Qwen2-1.5B") "on: True\n"),
	 .hit = false},
	{"APPFL-CHUNK-OFF",
	 .server = SERVER("use_model_chunking: '${oc.env:ON}'", MODEL("Qwen2-1.5B")), .hit = false},
	{"APPFL-CHUNK-OFF", .server = SERVER("", MODEL("'${name}'") "name: Qwen2-1.5B\n"),
	 .hit = true, WARNING},
	{"APPFL-CHUNK-OFF",
	 .server = "server_configs: {comm_configs: {grpc_configs: '${shared}'}}\nshared: "
		   "{use_model_chunking: False}\n" MODEL("Qwen2-1.5B"),
	 .hit = true, WARNING},
	{"APPFL-CHUNK-ONE-SIDED", .server = SERVER(ON, ""),
	 .client = CLIENT("use_model_chunking: '${on}'", "on: 0\n"), .hit = true},
	{"APPFL-CHUNK-ONE-SIDED", .server = SERVER(ON, ""),
	 .client = CLIENT("use_model_chunking: '${on}'", ""), .hit = false},
	{"APPFL-OPTMEM-SPLIT", .server = SERVER("optimize_memory: '${o}'", "o: False\n"),
	 .client = CLIENT("", ""), .hit = true},
	{"APPFL-OPTMEM-SPLIT", .server = SERVER("optimize_memory: '${o}'", ""),
	 .client = CLIENT("optimize_memory: False", ""), .hit = false},
	{"APPFL-OPTMEM-OFF",
	 .client = CLIENT("", "train_configs: {optimize_memory: '${o}'}\no: "
			      "False\n"),
	 .hit = true, WARNING},
	{"APPFL-POLLING-HOLDS", .server = SERVER("use_polling: '${p}'", "p: True\n"), .hit = true,
	 INFO},
	{"APPFL-CHUNK-AGGREGATOR",
	 .server = SERVER(ON, "  aggregator: '${agg}'\nagg: FedAsyncAggregator\n"), .hit = true},
	{"APPFL-CHUNK-SECAGG", .server = SERVER(ON, SECURE("'${s}'") "s: True\n"), .hit = true},
	{"APPFL-SWITCH-TEXT", .server = SERVER("use_polling: '${oc.env:P}'", ""), .hit = true,
	 WARNING},
	{"APPFL-SWITCH-TEXT", .server = SERVER("use_polling: '${p}'", "p: 'False'\n"), .hit = true,
	 WARNING},
	{"APPFL-SWITCH-TEXT", .server = SERVER("use_polling: '${oc.decode:${oc.env:P}}'", ""),
	 .hit = false},
	{"APPFL-KEY-IGNORED",
	 .server = SERVER("use_model_chunking: '${use_model_chunking}'",
			  "use_model_chunking: True\n"),
	 .hit = false},
	{"APPFL-KEY-IGNORED",
	 .server = SERVER("use_model_chunking: '${use_model}'", "use_model_chunking: True\n"),
	 .hit = true, WARNING},
	{"APPFL-KEY-IGNORED", .server = SERVER("Use_Model_Chunking: True", ""), .hit = true,
	 WARNING},
	{"APPFL-KEY-IGNORED", .server = SERVER("use-polling: True", ""), .hit = true, WARNING},
	{"APPFL-KEY-IGNORED", .server = SERVER("max_msg_size: 9", ""), .hit = true, WARNING},
	{"APPFL-KEY-IGNORED", .client = CLIENT("polling: True", ""), .hit = true, WARNING},
	{"APPFL-KEY-IGNORED", .client = CLIENT("poll_interval: 5", ""), .hit = false},
	{"APPFL-CANNOT-TELL", .server = SERVER("use_model_chunking: '${oc.env:ON}'", ""),
	 .hit = true, INFO},
	{"APPFL-CANNOT-TELL", .server = "server_configs: ${oc.env:BASE}\n", .hit = true, INFO},
	{"APPFL-CANNOT-TELL",
	 .server = "server_configs: ${base}\nbase: {aggregator: FedAvgAggregator}\n", .hit = false},
	{"APPFL-CHUNK-AGGREGATOR",
	 .server = "server_configs: ${base}\nbase:\n  aggregator: FedAdamAggregator\n"
		   "  comm_configs: {grpc_configs: {use_model_chunking: True}}\n",
	 .hit = true},
	{"APPFL-CANNOT-TELL", .server = SERVER("use_model_chunking: '${on}'", ""), .hit = true,
	 INFO},
	{"APPFL-CANNOT-TELL", .server = SERVER("use_model_chunking: '${on}'", "on: True\n"),
	 .hit = false},
	{"APPFL-CANNOT-TELL", .client = CLIENT("max_message_size: '${a.b}'", "a: {c: 1}\n"),
	 .hit = true, INFO},
	{"APPFL-CANNOT-TELL", .client = CLIENT("max_message_size: '${.x}0'", ""), .hit = true,
	 INFO},
	{"APPFL-CANNOT-TELL",
	 .client = CLIENT("model_chunk_size: '${a.${b}}'", "a: {c: 1}\nb: c\n"), .hit = true, INFO},
	{"APPFL-CANNOT-TELL", .client = CLIENT("use_polling: '${a}'", "a: '${b}'\nb: '${a}'\n"),
	 .hit = true, INFO},
	{"APPFL-CANNOT-TELL", .server = SERVER(ON, SECURE("'${s}'")), .hit = true, INFO},
	{"APPFL-CANNOT-TELL", .server = SERVER(ON, "  aggregator: '${oc.env:A}'\n"), .hit = true,
	 INFO},
	{"APPFL-CANNOT-TELL", .server = SERVER("", MODEL("'${name}'")), .hit = true, INFO},
	{"APPFL-CANNOT-TELL", .server = SERVER("", "  optimize_memory: '${o}'\n"), .hit = true,
	 INFO},
	{"APPFL-CANNOT-TELL", .client = "client_id: x\ncomm_configs: '${c}'\n# grpc_configs\n",
	 .hit = true, INFO},
	{"APPFL-CANNOT-TELL", .client = CLIENT("server_uri: '${u}'", ""), .hit = false},
	{"APPFL-KEY-IGNORED", .server = "server_configs:\n  grpc_configs: {max_message_size: 1}\n",
	 .hit = true, WARNING},
	{"APPFL-KEY-IGNORED", .server = SERVER(ON, "grpc_configs: {}\n"), .hit = true, WARNING},
	{"APPFL-KEY-IGNORED", .server = SERVER(ON, "grpc_configs: {}\nx: '${grpc_configs}'\n"),
	 .hit = false},
	{"APPFL-KEY-IGNORED", .server = SERVER(ON, "grpc_configs: {}\nx: '${ grpc_configs }'\n"),
	 .hit = false},
	{"APPFL-KEY-IGNORED", .server = SERVER(ON, "grpc_configs: {}\nx: '${..grpc_configs.a}'\n"),
	 .hit = false},
	{"APPFL-KEY-IGNORED", .server = SERVER(ON, "grpc_configs: {}\nx: '${grpc_settings}'\n"),
	 .hit = true, WARNING},
	{"APPFL-KEY-IGNORED", .server = SERVER(ON, "grpc_configs: {}\nx: '${grpc_confixx}'\n"),
	 .hit = true, WARNING},
	{"APPFL-KEY-IGNORED", .server = SERVER(ON, "grpc_configs: {}\nx: '${grpc_configs2}'\n"),
	 .hit = true, WARNING},
	{"APPFL-KEY-IGNORED", .client = CLIENT("", "train_configs: {optimise_memory: False}\n"),
	 .hit = true, WARNING},
	{"APPFL-OPTMEM-OFF", .client = CLIENT("", "train_configs: {optimize_memory: 0}\n"),
	 .hit = true, WARNING},
	{"APPFL-OPTMEM-OFF", .client = CLIENT("", "train_configs: {optimize_memory: 'False'}\n"),
	 .hit = false},
	{"APPFL-CHUNK-SIZE-MISMATCH", .server = SERVER(ON ", model_chunk_size: 0", ""),
	 .client = CLIENT(ON, ""), .hit = false},

	{"APPFL-CHUNK-SIZE-MISMATCH", .server = SERVER(ON, ""),
	 .client = CLIENT(ON ", model_chunk_size: 1024", ""), .hit = true, WARNING},
	{"APPFL-CHUNK-SIZE-MISMATCH", .client = CLIENT(ON, ""),
	 .client_2 = CLIENT(ON ", model_chunk_size: 1024", ""), .hit = true},
	{"APPFL-CHUNK-SIZE-MISMATCH", .server = SERVER(ON, ""),
	 .client = CLIENT(ON ", model_chunk_size: 1_073_741_824", ""), .hit = false},
	{"APPFL-CHUNK-SIZE-MISMATCH", .server = SERVER(ON, ""),
	 .client = CLIENT("model_chunk_size: 1024", ""), .hit = false},
	{"APPFL-CHUNK-SIZE-MISMATCH", .server = SERVER(ON, ""),
	 .client = CLIENT(ON ", model_chunk_size: \"${size}\"", ""), .hit = false},

	{"APPFL-CHUNK-AGGREGATOR", .server = SERVER(ON, "  aggregator: FedAdamAggregator\n"),
	 .hit = true},
	{"APPFL-CHUNK-AGGREGATOR", .server = SERVER(ON, "  aggregator: FedAvgAggregator\n"),
	 .hit = false},
	{"APPFL-CHUNK-AGGREGATOR", .server = SERVER("", "  aggregator: FedAdamAggregator\n"),
	 .hit = false},

	{"APPFL-CHUNK-SECAGG", .server = SERVER(ON, SECURE("True")), .hit = true},
	{"APPFL-CHUNK-SECAGG", .server = SERVER(ON, SECURE("False")), .hit = false},
	{"APPFL-CHUNK-SECAGG", .server = SERVER("", SECURE("True")), .hit = false},

	{"APPFL-POLLING-HOLDS", .server = SERVER("use_polling: True", ""), .hit = true, INFO},
	{"APPFL-POLLING-HOLDS", .server = SERVER("use_polling: False", ""), .hit = false},
	{"APPFL-POLLING-HOLDS", .server = SERVER("", ""), .hit = false},
	{"APPFL-POLLING-HOLDS", .server = SERVER("use_polling: True", ""), .version = "1.11",
	 .hit = false},

	{"APPFL-KEY-IGNORED", .server = SERVER("use_model_chunkin: True", ""), .hit = true,
	 WARNING},
	{"APPFL-KEY-IGNORED", .client = CLIENT("model_chunk_sizes: 1024", ""), .hit = true,
	 WARNING},
	{"APPFL-KEY-IGNORED", .client = CLIENT("chunk_size: 1024", ""), .hit = true, WARNING},
	{"APPFL-KEY-IGNORED", .server = SERVER("", "  use_model_chunking: True\n"), .hit = true,
	 WARNING},
	{"APPFL-KEY-IGNORED", .client = CLIENT("", "  model_chunk_size: 1024\n"), .hit = true,
	 WARNING},
	{"APPFL-KEY-IGNORED", .server = SERVER("", "use_model_chunking: True\n"), .hit = true,
	 WARNING},
	{"APPFL-KEY-IGNORED", .client = CLIENT("max_mesage_size: 1024", ""), .hit = true, WARNING},
	{"APPFL-KEY-IGNORED", .server = SERVER(ON ", server_uri: \"localhost:1\"", ""),
	 .hit = false},

	{"APPFL-OPTMEM-SPLIT", .server = SERVER("optimize_memory: False", ""),
	 .client = CLIENT("", ""), .hit = true},
	{"APPFL-OPTMEM-SPLIT", .server = SERVER("optimize_memory: False", ""),
	 .client = CLIENT("optimize_memory: False", ""), .hit = false},
	{"APPFL-OPTMEM-SPLIT", .server = SERVER("optimize_memory: True", ""),
	 .client = CLIENT("", "optimize_memory: False\n"), .hit = false},

	{"APPFL-OPTMEM-OFF", .server = SERVER("optimize_memory: False", ""), .hit = true, WARNING},
	{"APPFL-OPTMEM-OFF", .server = SERVER("", "  scheduler_kwargs: {optimize_memory: False}\n"),
	 .hit = true, WARNING},
	{"APPFL-OPTMEM-OFF", .client = CLIENT("", "optimize_memory: False\n"), .hit = true,
	 WARNING},
	{"APPFL-OPTMEM-OFF", .client = CLIENT("optimize_memory: True", ""), .hit = false},
	{"APPFL-OPTMEM-OFF", .client = CLIENT("", "other: {optimize_memory: False}\n"),
	 .hit = false},

	{"APPFL-MSGSIZE", .server = SERVER("max_message_size: 10485760", ""),
	 .client = CLIENT("max_message_size: 104857600", ""), .version = "1.11", .hit = true},
	{"APPFL-MSGSIZE", .server = SERVER("max_message_size: 2100000", ""),
	 .client = CLIENT("", ""), .version = "1.11", .hit = true, WARNING},
	{"APPFL-MSGSIZE", .server = SERVER("max_message_size: 10485760", ""),
	 .client = CLIENT("max_message_size: 104857600", ""), .hit = true, INFO},
	{"APPFL-MSGSIZE", .server = SERVER("max_message_size: 10485760", ""),
	 .client = CLIENT("max_message_size: 104857600", ""), .version = "1.12", .hit = false},
	{"APPFL-MSGSIZE", .server = SERVER("max_message_size: 104857600", ""),
	 .client = CLIENT("max_message_size: 10485760", ""), .version = "1.12", .hit = false},
	{"APPFL-MSGSIZE", .server = SERVER("", ""),
	 .client = CLIENT("max_message_size: 298261618", ""), .version = "1.12.0", .hit = false},
	{"APPFL-MSGSIZE", .server = SERVER("", ""),
	 .client = CLIENT("max_message_size: 298261619", ""), .version = "1.12.0", .hit = true},
	{"APPFL-MSGSIZE", .server = SERVER("max_message_size: 300000000", ""),
	 .client = CLIENT("max_message_size: 310000000", ""), .version = "1.12.0", .hit = false},
	{"APPFL-MSGSIZE", .server = SERVER("max_message_size: 2097152", ""),
	 .client = CLIENT("", ""), .hit = false},
	{"APPFL-MSGSIZE", .client = CLIENT("max_message_size: 1", ""), .hit = false},
};

static void check_row(size_t index, const struct row *row)
{
	struct flmem_recommend_options options = {.framework_version = row->version};
	struct flmem_recommendations found = {0};
	const struct flmem_finding *last;
	const char *path;
	struct tree tree;
	size_t count;

	tree_init(&tree);
	path = tree.path;
	if (row->server)
		tree_puts(&tree, "server.yaml", row->server);
	if (row->client)
		tree_puts(&tree, "client_1.yaml", row->client);
	if (row->client_2)
		tree_puts(&tree, "client_2.yml", row->client_2);
	assert_int_equal(flmem_recommend(&path, 1, &options, &found, NULL), 0);
	assert_int_equal(found.problem_count, 0);
	count = findings_of(&found, row->rule, &last);
	if (count != (row->hit ? 1U : 0U))
		fail_msg("row %zu: %s fired %zu times", index, row->rule, count);
	if (last && last->severity != row->severity)
		fail_msg("row %zu: %s is a %s", index, row->rule,
			 flmem_severity_name(last->severity));
	flmem_recommendations_clear(&found);
	tree_clear(&tree);
}

static void rules_fire_where_they_should_and_nowhere_else(void **state)
{
	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++)
		check_row(i, &rows[i]);
}

static void every_rule_is_tried_both_ways(void **state)
{
	const struct flmem_rule *rule;

	(void)state;
	for (size_t r = 0; (rule = flmem_recommend_rule(r)); r++) {
		size_t tried[2] = {0};

		/* Rules about heap profiles, Python and scripts have separate tests. */
		if (rule->framework != FLMEM_FRAMEWORK_APPFL || strstr(rule->id, "-HEAP-") ||
		    strstr(rule->id, "-IN-PYTHON") || strstr(rule->id, "-LAUNCH-"))
			continue;
		for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++)
			if (strcmp(rows[i].rule, rule->id) == 0)
				tried[rows[i].hit]++;
		if (!tried[true] || !tried[false])
			fail_msg("%s lacks a trigger or a near miss", rule->id);
	}
}

/* A setting in a script overrides the one in the YAML. */
static void settings_in_python_are_reported(void **state)
{
	static const struct {
		const char *text;
		size_t hits;
	} scripts[] = {
		{"import appfl\nc.server_configs.optimize_memory = False\n", 1},
		{"import appfl\nc['max_message_size'] = 1\nd = {'model_chunk_size': 2}\n", 2},
		{"from appfl.agent import ServerAgent as S\nfrom omegaconf import OmegaConf as O\n"
		 "S(O.create({'grpc_configs': {'use_model_chunking': False}}))\n",
		 1},
		{"import appfl\nd = dict(model_chunk_size=9)\n", 1},
		{"import appfl\nO.update(c, 'server_configs.grpc_configs.optimize_memory', "
		 "False)\n",
		 1},
		{"import appfl\nO.update(c, 'server_configs.grpc_configs.trainer', False)\n", 0},
		{"import appfl\nprint(c.optimize_memory)\nc.trainer = x\n", 0},
		{"import other\nc.optimize_memory = False\n", 0},
		{"import appfl\nfrom omegaconf import OmegaConf as O\n"
		 "O.from_dotlist(['a.grpc_configs.use_model_chunking=true'])\nO.from_dotlist(x)\n",
		 1},
		{"import appfl\nl = [f'b.model_chunk_size={n}', \"max_message_size=1\"]\n"
		 "c.merge_with_dotlist(l)\n",
		 2},
		{"import appfl\nl = ['b.model_chunk_size=1']\nprint(l)\n", 0},
		{"import appfl\nc.grpc_configs['use_polling'] = True\n", 1},
		{"import appfl\nsetattr(c.kwargs, 'optimize_memory', False)\n", 1},
		{"import appfl\nc = O.create('''\na:\n  optimize_memory: false\n''')\n", 1},
		{"import appfl\nc = O.merge(O.load('s.yaml'), O.from_cli())\n", 1},
		{"import appfl\nc = O.load('s.yaml')\nprint('use_polling', c.x)\n", 0},
		{"import appfl\nexec(open('s.py').read())\n", 1},
		{"exec('import appfl\\nc.x = 1')\nexec('x = 1')\n", 1},
		/* 𝐚𝐩𝐩𝐟𝐥 */
		{"import \xf0\x9d\x90\x9a\xf0\x9d\x90\xa9\xf0\x9d\x90\xa9\xf0\x9d\x90\x9f"
		 "\xf0\x9d\x90\xa5\nc.optimize_memory = False\n",
		 1},
		{"import appfl\nO.from_dotlist(['a.b=1'])\nassert c.model_chunk_size==1\n", 0},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(scripts); i++) {
		struct flmem_recommendations found = {0};
		const struct flmem_finding *last;
		struct tree tree;
		const char *path;

		tree_init(&tree);
		path = tree.path;
		tree_puts(&tree, "run.py", scripts[i].text);
		assert_int_equal(flmem_recommend(&path, 1, NULL, &found, NULL), 0);
		if (findings_of(&found, "APPFL-SET-IN-PYTHON", &last) != scripts[i].hits)
			fail_msg("row %zu", i);
		flmem_recommendations_clear(&found);
		tree_clear(&tree);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(settings_in_python_are_reported),
		cmocka_unit_test(rules_fire_where_they_should_and_nowhere_else),
		cmocka_unit_test(every_rule_is_tried_both_ways),
	};

	return cmocka_run_group_tests_name("appfl_rules", tests, NULL, NULL);
}
