/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules about APPFL's YAML. The file of a server holds server_configs, that of a client its own
 * comm_configs. Sizes and switches must agree, because each side frames the data that the other
 * reads.
 */
#include "frameworks/appfl/appfl_rules.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define CHUNK_DEFAULT	INT64_C(1073741824)
#define LARGE_MODEL	INT64_C(1073741824)
#define BYTES_PER_PARAM 2 /* such models are loaded in bfloat16 */

#define SERVER_FILE &flmem_appfl_server_file
#define CLIENT_FILE &flmem_appfl_client_file
#define BOTH_FILES  SERVER_FILE, CLIENT_FILE

static bool is_likely_appfl(enum flmem_syntax syntax, const struct flmem_buf *text)
{
	(void)syntax;
	return flmem_file_has_word(text, "server_configs") ||
	       flmem_file_has_word(text, "grpc_configs");
}

static bool is_server_map(const struct flmem_node *root)
{
	const struct flmem_node *server = flmem_node_get(root, "server_configs");

	return flmem_node_is_kind(server, FLMEM_NODE_MAP) || flmem_appfl_is_interpolation(server);
}

static bool is_client_map(const struct flmem_node *root)
{
	const struct flmem_node *comm = flmem_node_get(root, "comm_configs");

	return (flmem_node_get(flmem_appfl_value(comm), "grpc_configs") ||
		flmem_appfl_is_interpolation(comm)) &&
	       (flmem_node_get(root, "client_id") || flmem_node_get(root, "data_configs"));
}

/*
 * Whether the root, or one of several documents, is such a map. OmegaConf refuses several
 * documents: that is a problem of an APPFL file, not another kind of file.
 */
static bool is_of_root(const struct flmem_node *root, bool (*is_map)(const struct flmem_node *root))
{
	bool found = is_map(root);

	if (flmem_node_is_kind(root, FLMEM_NODE_LIST))
		for (const struct flmem_node *n = root->first; n && !found; n = n->next)
			found = is_map(n);
	return found;
}

static bool is_server_config(const struct flmem_document *document)
{
	return is_of_root(document->root, is_server_map);
}

static bool is_client_config(const struct flmem_document *document)
{
	return is_of_root(document->root, is_client_map);
}

const struct flmem_input_kind flmem_appfl_server_file = {
	.is_likely = is_likely_appfl,
	.is_one = is_server_config,
	.content = FLMEM_CONTENT_CONFIG,
};

const struct flmem_input_kind flmem_appfl_client_file = {
	.is_likely = is_likely_appfl,
	.is_one = is_client_config,
	.content = FLMEM_CONTENT_CONFIG,
};

const struct flmem_file_name flmem_appfl_files[] = {
	{".yml", &flmem_appfl_server_file, FLMEM_NAME_SUFFIX, FLMEM_SYNTAX_YAML},
	{".yml", &flmem_appfl_client_file, FLMEM_NAME_SUFFIX, FLMEM_SYNTAX_YAML},
	{".yaml", &flmem_appfl_server_file, FLMEM_NAME_SUFFIX, FLMEM_SYNTAX_YAML},
	{".yaml", &flmem_appfl_client_file, FLMEM_NAME_SUFFIX, FLMEM_SYNTAX_YAML},
	{".json", &flmem_appfl_server_file, FLMEM_NAME_SUFFIX, FLMEM_SYNTAX_JSON},
	{".json", &flmem_appfl_client_file, FLMEM_NAME_SUFFIX, FLMEM_SYNTAX_JSON},
	{".toml", &flmem_appfl_server_file, FLMEM_NAME_SUFFIX, FLMEM_SYNTAX_TOML},
	{".toml", &flmem_appfl_client_file, FLMEM_NAME_SUFFIX, FLMEM_SYNTAX_TOML},
	FLMEM_PYTHON_FILE_NAMES(&flmem_appfl_python_file),
	{0},
};

const struct flmem_node *flmem_appfl_grpc(const struct flmem_rule_input *input)
{
	const struct flmem_node *root = input->document.root;

	if (input->kind == &flmem_appfl_server_file)
		root = flmem_appfl_get(root, "server_configs");
	return FLMEM_APPFL_AT(root, "comm_configs", "grpc_configs");
}

/* Python's truth value: APPFL tests values as they are, so a text like "False" is on. */
enum flmem_appfl_switch flmem_appfl_switch(const struct flmem_node *map, const char *key,
					   enum flmem_appfl_switch fallback)
{
	const struct flmem_node *node = flmem_appfl_get(map, key);
	int64_t number;

	if (!node)
		return flmem_node_get(map, key) ? FLMEM_APPFL_UNCLEAR : fallback;
	if (flmem_node_is_kind(node, FLMEM_NODE_BOOL))
		return flmem_node_is_true(node) ? FLMEM_APPFL_ON : FLMEM_APPFL_OFF;
	if (flmem_node_integer(node, &number))
		return number ? FLMEM_APPFL_ON : FLMEM_APPFL_OFF;
	if (flmem_node_is_kind(node, FLMEM_NODE_NULL))
		return FLMEM_APPFL_OFF;
	if (flmem_node_is_kind(node, FLMEM_NODE_LIST) || flmem_node_is_kind(node, FLMEM_NODE_MAP))
		return node->first ? FLMEM_APPFL_ON : FLMEM_APPFL_OFF;
	if (flmem_node_is_kind(node, FLMEM_NODE_REAL))
		return node->text[strspn(node->text, "-+0.eE")] ? FLMEM_APPFL_ON : FLMEM_APPFL_OFF;
	return *node->text ? FLMEM_APPFL_ON : FLMEM_APPFL_OFF;
}

static enum flmem_appfl_switch chunking_of(const struct flmem_rule_input *input)
{
	return flmem_appfl_switch(flmem_appfl_grpc(input), "use_model_chunking", FLMEM_APPFL_OFF);
}

static bool has_chunking(const struct flmem_rule_input *input)
{
	return chunking_of(input) == FLMEM_APPFL_ON;
}

static bool lacks_chunking(const struct flmem_rule_input *input)
{
	return chunking_of(input) == FLMEM_APPFL_OFF;
}

bool flmem_appfl_number(const struct flmem_node *map, const char *key, int64_t fallback,
			int64_t *ret_value)
{
	if (flmem_node_get(map, key))
		return flmem_node_integer(flmem_appfl_get(map, key), ret_value);
	*ret_value = fallback;
	return true;
}

void flmem_appfl_report(struct flmem_check *check, const struct flmem_node *map, const char *key,
			struct flmem_remark remark)
{
	bool yaml = check->input->document.syntax == FLMEM_SYNTAX_YAML;

	if (!yaml && remark.proposed && strcmp(remark.proposed, "True") == 0)
		remark.proposed = "true";
	remark.node = flmem_node_get(map, key);
	if (!remark.node) {
		remark.node = map;
		remark.missing = key;
	}
	flmem_check_report(check, &remark);
}

const struct flmem_rule_input *flmem_appfl_next(const struct flmem_check *check,
						const struct flmem_input_kind *kind,
						const struct flmem_rule_input *after)
{
	const struct flmem_rule_input *end = check->bundle->inputs + check->bundle->count;
	const struct flmem_rule_input *input = after ? after + 1 : check->bundle->inputs;

	for (; input < end; input++)
		if (input->kind == kind && input != check->input && flmem_appfl_grpc(input))
			return input;
	return NULL;
}

/* Tenths of a billion parameters that a part of a name states ("8B", "1.5b"); 0 if none. */
static int64_t billions_in(const char *part, size_t length)
{
	int64_t tenths = 0;
	size_t at = 0;

	while (at < length && at < 5 && part[at] >= '0' && part[at] <= '9')
		tenths = tenths * 10 + (part[at++] - '0');
	tenths *= 10;
	if (at + 2 < length && part[at] == '.' && part[at + 1] >= '0' && part[at + 1] <= '9') {
		tenths += part[at + 1] - '0';
		at += 2;
	}
	return at && at + 1 == length && (part[at] == 'B' || part[at] == 'b') ? tenths : 0;
}

/*
 * Bytes of a model whose name states its parameters, as "meta-llama/Llama-3.1-8B"; 0 if it does
 * not.
 */
static int64_t model_bytes(const char *name)
{
	int64_t tenths = 0;

	while (name && *name && !tenths) {
		size_t length = strcspn(name, "-_/");

		tenths = billions_in(name, length);
		name += length + (name[length] != '\0');
	}
	return tenths * INT64_C(100000000) * BYTES_PER_PARAM;
}

static int64_t configured_model_bytes(const struct flmem_check *check)
{
	return model_bytes(
		flmem_node_string(FLMEM_APPFL_AT(check->input->document.root, "client_configs",
						 "model_configs", "model_kwargs", "model_name")));
}

static void chunk_off(struct flmem_check *check)
{
	const struct flmem_node *map = flmem_appfl_grpc(check->input);
	int64_t bytes = configured_model_bytes(check);
	char detail[96];

	if (!map || !lacks_chunking(check->input) || bytes <= LARGE_MODEL)
		return;
	snprintf(detail, sizeof(detail), "the model's name implies about %" PRId64 " GiB",
		 bytes >> 30);
	flmem_appfl_report(check, map, "use_model_chunking",
			   (struct flmem_remark){.proposed = "True", .detail = detail});
}

static void chunk_noop(struct flmem_check *check)
{
	const struct flmem_node *map = flmem_appfl_grpc(check->input);
	int64_t bytes = configured_model_bytes(check), size;

	if (bytes && has_chunking(check->input) &&
	    flmem_appfl_number(map, "model_chunk_size", CHUNK_DEFAULT, &size) && size >= bytes)
		flmem_appfl_report(check, map, "model_chunk_size", (struct flmem_remark){0});
}

/* Reports chunking on one side only, once, at the side that has it off. */
static void chunk_one_sided(struct flmem_check *check)
{
	bool server = check->input->kind == &flmem_appfl_server_file;
	const struct flmem_rule_input *other = NULL;
	char detail[300];

	if (!flmem_appfl_grpc(check->input) || !lacks_chunking(check->input))
		return;
	do
		other = flmem_appfl_next(
			check, server ? &flmem_appfl_client_file : &flmem_appfl_server_file, other);
	while (other && !has_chunking(other));
	if (!other)
		return;
	snprintf(detail, sizeof(detail), "in %.200s it is on", other->file);
	flmem_appfl_report(check, flmem_appfl_grpc(check->input), "use_model_chunking",
			   (struct flmem_remark){.proposed = "True", .detail = detail});
}

/*
 * The file whose chunk size is the reference for this client: that of the server, else that of the
 * first client.
 */
static const struct flmem_rule_input *size_measure(const struct flmem_check *check)
{
	const struct flmem_rule_input *server =
		flmem_appfl_next(check, &flmem_appfl_server_file, NULL);
	const struct flmem_rule_input *first =
		flmem_appfl_next(check, &flmem_appfl_client_file, NULL);

	if (server && has_chunking(server))
		return server;
	return first && first < check->input && has_chunking(first) ? first : NULL;
}

static void chunk_size_mismatch(struct flmem_check *check)
{
	static const enum flmem_severity warning = FLMEM_SEVERITY_WARNING;
	const struct flmem_rule_input *measure = size_measure(check);
	const struct flmem_node *map = flmem_appfl_grpc(check->input);
	struct flmem_remark remark = {0};
	char detail[300], proposed[24];
	int64_t own, size;

	if (!measure || !has_chunking(check->input) ||
	    !flmem_appfl_number(map, "model_chunk_size", CHUNK_DEFAULT, &own) ||
	    !flmem_appfl_number(flmem_appfl_grpc(measure), "model_chunk_size", CHUNK_DEFAULT,
				&size) ||
	    own == size || size <= 0)
		return;
	snprintf(detail, sizeof(detail), "%.200s has %" PRId64, measure->file, size);
	snprintf(proposed, sizeof(proposed), "%" PRId64, size);
	remark.detail = detail;
	remark.proposed = proposed;
	remark.severity = measure->kind == &flmem_appfl_server_file ? &warning : NULL;
	flmem_appfl_report(check, map, "model_chunk_size", remark);
}

static void chunk_aggregator(struct flmem_check *check)
{
	const struct flmem_node *server = flmem_appfl_get(check->subject, "server_configs");
	const struct flmem_node *aggregator = flmem_node_get(server, "aggregator");
	const char *name = flmem_node_string(flmem_appfl_value(aggregator));

	if (name && has_chunking(check->input) && strcmp(name, "FedAvgAggregator") != 0)
		flmem_check_report(check, &(struct flmem_remark){.node = aggregator});
}

/* fedavg_aggregator.py asserts that secure aggregation has whole models. */
static void chunk_secagg(struct flmem_check *check)
{
	const struct flmem_node *kwargs =
		FLMEM_APPFL_AT(check->subject, "server_configs", "aggregator_kwargs");

	if (has_chunking(check->input) &&
	    flmem_appfl_switch(kwargs, "use_secure_agg", FLMEM_APPFL_OFF) == FLMEM_APPFL_ON)
		flmem_appfl_report(check, kwargs, "use_secure_agg", (struct flmem_remark){0});
}

static enum flmem_appfl_switch memory_switch(const struct flmem_node *map)
{
	return flmem_appfl_switch(map, "optimize_memory", FLMEM_APPFL_ON);
}

static void optmem_split(struct flmem_check *check)
{
	const struct flmem_rule_input *server =
		flmem_appfl_next(check, &flmem_appfl_server_file, NULL);
	const struct flmem_node *map = flmem_appfl_grpc(check->input);
	enum flmem_appfl_switch own = memory_switch(map), theirs;
	char detail[300];

	if (!map || !server || own == FLMEM_APPFL_UNCLEAR)
		return;
	theirs = memory_switch(flmem_appfl_grpc(server));
	if (theirs == FLMEM_APPFL_UNCLEAR || own == theirs)
		return;
	snprintf(detail, sizeof(detail), "in %.200s it is %s", server->file,
		 theirs == FLMEM_APPFL_ON ? "on" : "off");
	flmem_appfl_report(check, map, "optimize_memory", (struct flmem_remark){.detail = detail});
}

const char *const flmem_appfl_memory_places[9][4] = {
	{"server_configs"},
	{"server_configs", "scheduler_kwargs"},
	{"server_configs", "aggregator_kwargs"},
	{"server_configs", "comm_configs", "grpc_configs"},
	{"client_configs"},
	{"client_configs", "train_configs"},
	{"train_configs"},
	{"comm_configs", "grpc_configs"},
	{NULL},
};

static void optmem_off(struct flmem_check *check)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(flmem_appfl_memory_places); i++) {
		const struct flmem_node *map =
			flmem_appfl_at(check->subject, flmem_appfl_memory_places[i]);

		if (memory_switch(map) == FLMEM_APPFL_OFF)
			flmem_appfl_report(check, map, "optimize_memory",
					   (struct flmem_remark){.proposed = "True"});
	}
}

#define APPFL .framework = FLMEM_FRAMEWORK_APPFL
#define CODE  "APPFL code"
#define GUIDE "APPFL example \"memory_profiling\""

static const struct flmem_rule_row appfl_rows[] = {
	{
		.rule = {.id = "APPFL-CHUNK-OFF",
			 .severity = FLMEM_SEVERITY_WARNING,
			 APPFL,
			 .condition =
				 "use_model_chunking off in a server's file whose model, by the "
				 "number of parameters in its name, is above 1 GiB",
			 .message = "a large model is sent and aggregated whole; enable "
				    "use_model_chunking on the server and all clients",
			 .source = GUIDE},
		.inputs = {SERVER_FILE},
		.check = chunk_off,
	},
	{
		.rule = {.id = "APPFL-CHUNK-NOOP",
			 .severity = FLMEM_SEVERITY_INFO,
			 APPFL,
			 .condition = "model_chunk_size at or above the size of the model, by the "
				      "number of parameters in its name",
			 .message = "the whole model fits one chunk, so chunking saves nothing; "
				    "set a smaller model_chunk_size, or turn chunking off",
			 .source = CODE},
		.inputs = {SERVER_FILE},
		.check = chunk_noop,
	},
	{
		.rule = {.id = "APPFL-CHUNK-ONE-SIDED",
			 .severity = FLMEM_SEVERITY_ERROR,
			 APPFL,
			 .condition = "use_model_chunking on for a server and off for a client of "
				      "the same folder, or the reverse",
			 .message = "chunking is enabled on one side only; enable it on both",
			 .source = CODE},
		.inputs = {BOTH_FILES},
		.check = chunk_one_sided,
	},
	{
		.rule = {.id = "APPFL-CHUNK-SIZE-MISMATCH",
			 .severity = FLMEM_SEVERITY_ERROR,
			 APPFL,
			 .fixable = true,
			 .condition =
				 "model_chunk_size of a client that differs from the server's (a "
				 "warning), or from another client's where there is no server",
			 .message = "chunks of different sizes hold different parameters and "
				    "cannot be averaged; use one size everywhere",
			 .source = CODE},
		.inputs = {CLIENT_FILE},
		.check = chunk_size_mismatch,
	},
	{
		.rule = {.id = "APPFL-CHUNK-AGGREGATOR",
			 .severity = FLMEM_SEVERITY_ERROR,
			 APPFL,
			 .condition = "use_model_chunking on with an aggregator that is not "
				      "FedAvgAggregator",
			 .message = "only FedAvgAggregator averages chunks; the server refuses to "
				    "start with this aggregator",
			 .source = CODE},
		.inputs = {SERVER_FILE},
		.check = chunk_aggregator,
	},
	{
		.rule = {.id = "APPFL-CHUNK-SECAGG",
			 .severity = FLMEM_SEVERITY_ERROR,
			 APPFL,
			 .condition = "use_model_chunking on with use_secure_agg of "
				      "aggregator_kwargs",
			 .message = "secure aggregation of chunks fails an assertion at the first "
				    "aggregation; turn one of the two off",
			 .source = "APPFL 1.11.0 and 1.12.0, "
				   "algorithm/aggregator/fedavg_aggregator.py"},
		.inputs = {SERVER_FILE},
		.check = chunk_secagg,
	},
	{
		.rule = {.id = "APPFL-OPTMEM-SPLIT",
			 .severity = FLMEM_SEVERITY_ERROR,
			 APPFL,
			 .condition =
				 "optimize_memory of grpc_configs that differs between server and "
				 "client",
			 .message = "the two sides serialise models in different formats and "
				    "cannot read each other's messages; "
				    "use one value on both sides",
			 .source = CODE},
		.inputs = {CLIENT_FILE},
		.check = optmem_split,
	},
	{
		.rule = {.id = "APPFL-OPTMEM-OFF",
			 .severity = FLMEM_SEVERITY_WARNING,
			 APPFL,
			 .condition = "optimize_memory false at any level (absent is on)",
			 .message = "the memory optimisations are off here; according to APPFL, "
				    "the default (on) lowers peaks by 20 to 40%",
			 .source = GUIDE},
		.inputs = {BOTH_FILES},
		.check = optmem_off,
	},
};

const struct flmem_rule_table flmem_appfl_rules = {appfl_rows, FLMEM_ARRAY_SIZE(appfl_rows)};
