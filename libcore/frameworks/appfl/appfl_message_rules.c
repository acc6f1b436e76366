/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules about APPFL's messages: their size, results that the server keeps, and keys that are
 * ignored.
 */
#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include <flmem/parse.h>

#include "base/text/text.h"
#include "frameworks/appfl/appfl_rules.h"

#define MESSAGE_DEFAULT INT64_C(2097152)
#define NEAR		2 /* letters in which a misspelt key may differ */

/*
 * Bytes that a server receives at least; max_message_size if that is more (1.12,
 * comm/grpc/utils.py).
 */
#define SERVER_RECEIVES INT64_C(268435456)

/* Keys of grpc_configs that set memory. The constructors accept any other key and ignore it. */
static const char *const appfl_message_names[] = {
	"use_model_chunking", "model_chunk_size", "max_message_size",
	"optimize_memory",    "use_polling",	  "poll_interval",
};

/*
 * Whether a receiver refuses the frames of a sender, which fills them to nine tenths of its limit.
 */
static bool exceeds_receiver(int64_t sender, int64_t receiver)
{
	return sender / 10 * 9 + sender % 10 * 9 / 10 > receiver;
}

/*
 * Whether the release is 1.12 or later: the client declares its limit, and the server's replies
 * keep to it.
 */
static bool is_negotiated(const struct flmem_check *check)
{
	static const struct flmem_version_number first = FLMEM_VERSION_NUMBER(1, 12, 0);

	return check->release.count && flmem_version_number_compare(&check->release, &first) >= 0;
}

/* How severe it is that the two sides have different sizes; NULL: not a fault. */
static const enum flmem_severity *judge_sizes(const struct flmem_check *check, int64_t client,
					      int64_t server)
{
	static const enum flmem_severity error = FLMEM_SEVERITY_ERROR,
					 warning = FLMEM_SEVERITY_WARNING,
					 info = FLMEM_SEVERITY_INFO;
	int64_t received = server > SERVER_RECEIVES ? server : SERVER_RECEIVES;

	if (client == server || client <= 0 || server <= 0)
		return NULL;
	if (exceeds_receiver(client, received))
		return &error;
	if (is_negotiated(check))
		return NULL;
	if (!check->release.count)
		return &info;
	return exceeds_receiver(client, server) || exceeds_receiver(server, client) ? &error
										    : &warning;
}

static void message_size(struct flmem_check *check)
{
	const struct flmem_rule_input *server =
		flmem_appfl_next(check, &flmem_appfl_server_file, NULL);
	const struct flmem_node *map = flmem_appfl_grpc(check->input);
	const enum flmem_severity *severity;
	char detail[300], proposed[24];
	int64_t own, theirs;

	if (!map || !server ||
	    !flmem_appfl_number(map, "max_message_size", MESSAGE_DEFAULT, &own) ||
	    !flmem_appfl_number(flmem_appfl_grpc(server), "max_message_size", MESSAGE_DEFAULT,
				&theirs))
		return;
	severity = judge_sizes(check, own, theirs);
	if (!severity)
		return;
	snprintf(detail, sizeof(detail), "%.200s has %" PRId64 "%s", server->file, theirs,
		 *severity == FLMEM_SEVERITY_INFO ? "; 1.12 and later agree on a size" : "");
	snprintf(proposed, sizeof(proposed), "%" PRId64, theirs);
	flmem_appfl_report(check, map, "max_message_size",
			   (struct flmem_remark){
				   .detail = detail, .proposed = proposed, .severity = severity});
}

static void polling_holds(struct flmem_check *check)
{
	const struct flmem_node *map = flmem_appfl_grpc(check->input);

	if (flmem_appfl_switch(map, "use_polling", FLMEM_APPFL_OFF) == FLMEM_APPFL_ON)
		flmem_appfl_report(check, map, "use_polling", (struct flmem_remark){0});
}

static bool is_name_read(const char *written)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(appfl_message_names); i++)
		if (strcmp(written, appfl_message_names[i]) == 0)
			return true;
	return false;
}

static bool fold_message_name(const char *written, char *ret_key, size_t size)
{
	if ((size_t)snprintf(ret_key, size, "%s", written) >= size)
		return false;
	for (char *p = ret_key; *p; p++)
		*p = *p == '-' ? '_' : (char)tolower((unsigned char)*p);
	return true;
}

static const char *find_meant_by_topic(const char *key)
{
	if (strstr(key, "chunk"))
		return strstr(key, "size") ? "model_chunk_size" : "use_model_chunking";
	if (strstr(key, "msg") || strstr(key, "message"))
		return "max_message_size";
	return strstr(key, "polling") ? "use_polling" : NULL;
}

/* The key that a name resembles; NULL if the name is read itself or resembles none. */
static const char *find_meant(const char *written)
{
	char key[64];

	if (is_name_read(written) || !fold_message_name(written, key, sizeof(key)))
		return NULL;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(appfl_message_names); i++)
		if (flmem_text_distance(key, appfl_message_names[i]) <= NEAR)
			return appfl_message_names[i];
	return find_meant_by_topic(key);
}

static void report_misspelt(struct flmem_check *check, const struct flmem_node *map)
{
	char detail[64];

	for (const struct flmem_node *n = flmem_node_first(map); n; n = n->next) {
		const char *meant = n->key ? find_meant(n->key) : NULL;

		if (!meant)
			continue;
		snprintf(detail, sizeof(detail), "did you mean %s", meant);
		flmem_check_report(check, &(struct flmem_remark){.node = n, .detail = detail});
	}
}

static void report_misplaced_key(struct flmem_check *check, const struct flmem_node *map,
				 const char *key, const char *detail)
{
	const struct flmem_node *n = flmem_node_get(map, key);

	if (n && !flmem_appfl_is_referred_to(check, key))
		flmem_check_report(check, &(struct flmem_remark){.node = n, .detail = detail});
}

/*
 * Reports keys of grpc_configs in a map where nothing reads them; optimize_memory is read
 * elsewhere, too.
 */
static void report_misplaced(struct flmem_check *check, const struct flmem_node *map)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(appfl_message_names); i++)
		if (strcmp(appfl_message_names[i], "optimize_memory") != 0)
			report_misplaced_key(check, map, appfl_message_names[i],
					     "it belongs in grpc_configs");
}

/*
 * Reports keys of secure aggregation outside of aggregator_kwargs, which has them for the clients
 * as well (agent/server.py of 1.12.0).
 */
static void report_misplaced_secure(struct flmem_check *check)
{
	static const char *const places[][4] = {
		{NULL},
		{"server_configs"},
		{"server_configs", "comm_configs"},
		{"server_configs", "comm_configs", "grpc_configs"},
		{"server_configs", "scheduler_kwargs"},
		{"client_configs"},
		{"client_configs", "train_configs"},
	};
	static const char *const keys[] = {"use_secure_agg", "secure_agg_client_weights_mode"};
	const struct flmem_node *root = check->input->document.root;
	bool client = check->input->kind != &flmem_appfl_server_file;

	if (client) /* the trainer of a client reads the one in train_configs */
		report_misplaced_key(check, root, keys[0], "it belongs in aggregator_kwargs");
	for (size_t i = 0; !client && i < FLMEM_ARRAY_SIZE(places); i++)
		for (size_t k = 0; k < FLMEM_ARRAY_SIZE(keys); k++)
			report_misplaced_key(check, flmem_appfl_at(root, places[i]), keys[k],
					     "it belongs in aggregator_kwargs");
}

/* Reports optimize_memory in a map where no part of APPFL reads it. */
static void report_misplaced_memory(struct flmem_check *check, const struct flmem_node *map)
{
	if (flmem_appfl_switch(map, "optimize_memory", FLMEM_APPFL_ON) == FLMEM_APPFL_OFF)
		report_misplaced_key(check, map, "optimize_memory",
				     "it belongs in grpc_configs, train_configs, "
				     "scheduler_kwargs or aggregator_kwargs");
}

/* Reports a misspelt optimize_memory in a map where it is read. */
static void report_misspelt_memory(struct flmem_check *check, const struct flmem_node *map)
{
	static const char name[] = "optimize_memory";

	for (const struct flmem_node *n = flmem_node_first(map); n; n = n->next)
		if (n->key && strcmp(n->key, name) != 0 &&
		    flmem_text_distance(n->key, name) <= NEAR)
			flmem_check_report(
				check,
				&(struct flmem_remark){.node = n,
						       .detail = "did you mean optimize_memory"});
}

/* Reports grpc_configs outside of comm_configs. */
static void report_misplaced_map(struct flmem_check *check, const struct flmem_node *map)
{
	const struct flmem_node *n = flmem_node_get(map, "grpc_configs");

	if (n && !flmem_appfl_is_referred_to(check, "grpc_configs"))
		flmem_check_report(
			check,
			&(struct flmem_remark){.node = n, .detail = "it belongs in comm_configs"});
}

static void key_ignored(struct flmem_check *check)
{
	const struct flmem_node *root = check->input->document.root;

	if (check->input->kind == &flmem_appfl_server_file)
		root = flmem_appfl_get(root, "server_configs");
	if (root != check->input->document.root)
		report_misplaced(check, check->input->document.root);
	report_misspelt(check, flmem_appfl_grpc(check->input));
	report_misplaced(check, root);
	report_misplaced(check, flmem_appfl_get(root, "comm_configs"));
	report_misplaced_memory(check, flmem_appfl_get(root, "comm_configs"));
	report_misplaced_secure(check);
	report_misplaced_map(check, root);
	if (root != check->input->document.root) {
		report_misplaced_memory(check, check->input->document.root);
		report_misplaced_map(check, check->input->document.root);
	}
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(flmem_appfl_memory_places); i++) {
		const struct flmem_node *map =
			flmem_appfl_at(check->input->document.root, flmem_appfl_memory_places[i]);

		if (map != flmem_appfl_grpc(check->input))
			report_misspelt_memory(check, map);
	}
}

#define DIGITS_MAX 64

/*
 * Whether a value is a string because of quotes, a block or a tag. An alias does not show these,
 * but digits without them would be a number.
 */
static bool is_written_as_text(const struct flmem_check *check, const struct flmem_node *node)
{
	const char *text = check->input->document.text.data + node->place.start;
	size_t digits = strspn(node->text, "0123456789_");

	while (*text == '&' || *text == '!') {
		if (*text == '!')
			return !flmem_text_starts(text, "!!float");
		text += strcspn(text, " \t\r\n");
		text += strspn(text, " \t\r\n");
	}
	return (*text && strchr("\"'|>", *text)) || (digits && !node->text[digits]);
}

/*
 * Whether a value is a number above 0 as OmegaConf reads it: 1e9 and 1_000 are, a text in quotes is
 * not. 0x100 and 0b1 are not examined.
 */
static bool is_size(const struct flmem_check *check, const struct flmem_node *node,
		    double *ret_number)
{
	const bool is_text = node->kind == FLMEM_NODE_STRING;
	const char *text = node->text + (*node->text == '+');
	char digits[DIGITS_MAX];
	size_t length = 0;

	if (is_text && is_written_as_text(check, node))
		return false;
	if (!is_text && node->kind != FLMEM_NODE_INTEGER && node->kind != FLMEM_NODE_REAL)
		return false;
	if (text[0] == '0' && text[1] && strchr("xXb", text[1]))
		return true;
	for (; *text && length < sizeof(digits) - 1; text++)
		if (is_text || *text != '_')
			digits[length++] = *text;
	digits[length] = '\0';
	return flmem_parse_real(digits, ret_number, NULL) == 0 && *ret_number > 0;
}

/*
 * Whether no byte of a model fits into a frame: it has nine tenths of the limit, and two bytes of
 * that state the length. gRPC takes the whole part of a real number.
 */
static bool fits_no_frame(double limit)
{
	const int bytes = (int)(limit * 0.9);

	return !bytes || bytes + 2 > (int)limit;
}

/* What is wrong with a number above 0 as size of a message; NULL: nothing. */
static const char *judge_message_size(const struct flmem_node *value, double number)
{
	if (value->kind == FLMEM_NODE_INTEGER && number > INT_MAX)
		return "gRPC takes at most 2147483647, so neither server nor client starts";
	if (number > 0 && number < 128 && fits_no_frame(number)) /* 0: the value is not examined */
		return "not even a frame of a few bytes fits; the default is 2097152";
	return NULL;
}

/* A value of the environment is a text, even if it has only digits. */
static void value_invalid(struct flmem_check *check)
{
	static const char *const sizes[] = {"model_chunk_size", "max_message_size"};
	const struct flmem_node *map = flmem_appfl_grpc(check->input);

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(sizes); i++) {
		const struct flmem_node *node = flmem_node_get(map, sizes[i]);
		const struct flmem_node *value = flmem_appfl_value(node);
		const char *wrong;
		double number = 0;

		if (flmem_appfl_is_environment(node))
			flmem_check_report(check,
					   &(struct flmem_remark){
						   .node = node,
						   .detail = "oc.env is a text; oc.decode makes a "
							     "number of it"});
		else if (value && !is_size(check, value, &number))
			flmem_check_report(check, &(struct flmem_remark){.node = node});
		else if (i && value && (wrong = judge_message_size(value, number)))
			flmem_check_report(check,
					   &(struct flmem_remark){.node = node, .detail = wrong});
	}
}

static void report_text(struct flmem_check *check, const struct flmem_node *map, const char *name)
{
	const struct flmem_node *node = flmem_node_get(map, name);
	const char *text = flmem_node_string(flmem_appfl_value(node));

	if ((text && *text) || flmem_appfl_is_environment(node))
		flmem_check_report(
			check,
			&(struct flmem_remark){.node = node,
					       .detail = text ? NULL : "oc.env is always a text"});
}

static void switch_is_text(struct flmem_check *check)
{
	static const char *const switches[] = {"use_model_chunking", "use_polling"};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(switches); i++)
		report_text(check, flmem_appfl_grpc(check->input), switches[i]);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(flmem_appfl_memory_places); i++)
		report_text(
			check,
			flmem_appfl_at(check->input->document.root, flmem_appfl_memory_places[i]),
			"optimize_memory");
}

#define APPFL	    .framework = FLMEM_FRAMEWORK_APPFL
#define SERVER_FILE &flmem_appfl_server_file
#define CLIENT_FILE &flmem_appfl_client_file

static const struct flmem_rule_row appfl_message_rows[] = {
	{
		.rule = {.id = "APPFL-MSGSIZE",
			 .severity = FLMEM_SEVERITY_ERROR,
			 APPFL,
			 .fixable = true,
			 .condition =
				 "before 1.12, max_message_size that differs between server and "
				 "client (a warning if the frames of each side, nine tenths of its "
				 "limit, still fit the other's limit; information where the "
				 "version is not known); in any version, frames of a client above "
				 "256 MiB and the server's limit",
			 .message = "server and client differ in the maximum message size, and a "
				    "frame larger than the receiver's maximum is refused; "
				    "use one size on both sides",
			 .source = "APPFL 1.11.0 and 1.12.0, comm/grpc"},
		.inputs = {CLIENT_FILE},
		.check = message_size,
	},
	{
		.rule = {.id = "APPFL-POLLING-HOLDS",
			 .severity = FLMEM_SEVERITY_INFO,
			 APPFL,
			 .since = "1.12",
			 .condition = "use_polling on for a server",
			 .message = "the server keeps each result, with its serialised model, in "
				    "memory until the client has fetched it, and without limit "
				    "for a client that does not return",
			 .source = "APPFL 1.12.0, comm/grpc/grpc_server_communicator.py"},
		.inputs = {SERVER_FILE},
		.check = polling_holds,
	},
	{
		.rule = {.id = "APPFL-SIZE-INVALID",
			 .severity = FLMEM_SEVERITY_ERROR,
			 APPFL,
			 .condition = "model_chunk_size or max_message_size that is not a number "
				      "above 0, or is one in quotes or a variable of the "
				      "environment, which is a text; max_message_size above "
				      "2147483647 or up to 10, in which no frame fits",
			 .message = "APPFL computes with this value as it is, so sending a model "
				    "fails; write a number of bytes",
			 .source = "APPFL 1.11.0 and 1.12.0, comm/grpc"},
		.inputs = {SERVER_FILE, CLIENT_FILE},
		.check = value_invalid,
	},
	{
		.rule = {.id = "APPFL-SWITCH-TEXT",
			 .severity = FLMEM_SEVERITY_WARNING,
			 APPFL,
			 .condition =
				 "use_model_chunking, use_polling or optimize_memory that is a "
				 "text, also as ${oc.env:NAME}",
			 .message = "Python takes any text as true, also \"False\"; write True or "
				    "False without quotes",
			 .source = "APPFL 1.11.0 and 1.12.0"},
		.inputs = {SERVER_FILE, CLIENT_FILE},
		.check = switch_is_text,
	},
	{
		.rule = {.id = "APPFL-KEY-IGNORED",
			 .severity = FLMEM_SEVERITY_WARNING,
			 APPFL,
			 .condition = "a key of grpc_configs that resembles one about chunks, "
				      "message sizes, optimize_memory or polling; "
				      "one of these outside grpc_configs, that outside "
				      "comm_configs, optimize_memory misspelt or where nothing "
				      "reads it, use_secure_agg outside aggregator_kwargs",
			 .message = "APPFL does not read this key, so the default applies; "
				    "correct its name or its place, or remove it",
			 .source = "APPFL 1.11.0 and 1.12.0, comm/grpc"},
		.inputs = {SERVER_FILE, CLIENT_FILE},
		.check = key_ignored,
	},
	{
		.rule = {.id = "APPFL-CANNOT-TELL",
			 .severity = FLMEM_SEVERITY_INFO,
			 APPFL,
			 .condition = "a value that rules need which is an interpolation of "
				      "OmegaConf, other than of a key in the same file, or ???",
			 .message = "cannot tell: the value is known only when the job runs",
			 .source = "OmegaConf 2.4.0, variable interpolation"},
		.inputs = {SERVER_FILE, CLIENT_FILE},
		.check = flmem_appfl_check_references,
	},
};

const struct flmem_rule_table flmem_appfl_message_rules = {appfl_message_rows,
							   FLMEM_ARRAY_SIZE(appfl_message_rows)};
