/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules for comm_config.json of a site and for the variables that stand for its keys: the file
 * takes precedence, each value goes through int() (fuel/utils/config_service.py). Sizes as in
 * fuel/f3/streaming of 2.7.2, 2.8.1 and 2.9.0.
 */
#include "frameworks/launch/launch_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "frameworks/nvflare/nvflare_comm.h"
#include "frameworks/nvflare/nvflare_rules.h"
#include "runtimes/cpython_int.h"

#define MIB	 (INT64_C(1) << 20)
#define DOWNLOAD (2 * MIB) /* of a chunk of a model, unless the job sets another one */
#define NEWER	 "2.9"

enum comm_key {
	CHUNK,
	WINDOW,
	ACK,
	MESSAGE,
	BLOB,
	RETRY,
	KEYS
};

static const struct {
	const char *name, *variable;
	int64_t older, newer; /* default before 2.9, and from then on */
	const char *since;
} keys[KEYS] = {
	[CHUNK] = {"streaming_chunk_size", FLMEM_NVFLARE_COMM_CHUNK, MIB, MIB, NULL},
	[WINDOW] = {"streaming_window_size", FLMEM_NVFLARE_COMM_WINDOW, 16 * MIB, 64 * MIB, NULL},
	[ACK] = {"streaming_ack_interval", FLMEM_NVFLARE_COMM_ACK, 4 * MIB, 16 * MIB, NULL},
	[MESSAGE] = {"max_message_size", FLMEM_NVFLARE_COMM_MESSAGE, 2045 * MIB - 16,
		     2045 * MIB - 16, NULL},
	[BLOB] = {"streaming_max_blob_size", FLMEM_NVFLARE_COMM_BLOB, 4096 * MIB, 4096 * MIB,
		  NEWER},
	[RETRY] = {"streaming_retry_max_pending_bytes", FLMEM_NVFLARE_COMM_RETRY, 128 * MIB,
		   128 * MIB, NEWER},
};

/* Its other keys, some of which have similar names. */
static const char *const other_keys[] = {
	"streaming_ack_wait",
	"streaming_max_out_seq_chunks",
	"streaming_read_timeout",
	"streaming_send_timeout",
	"streaming_ack_progress_timeout",
	"streaming_ack_progress_check_interval",
	"streaming_reliable",
	"streaming_retry_wait",
	"streaming_retry_timeout",
	"streaming_max_peer_silence",
	NULL,
};

enum comm_state {
	UNSET,
	NUMBER,
	INVALID,
	UNKNOWN
};

struct comm_value {
	enum comm_state state;
	int64_t number;
};

/* What one file, or one variable with the others of its launch, sets. */
struct comm_config {
	struct flmem_check *check;
	const struct flmem_launch_variable *variable; /* NULL: a file */
	struct comm_value values[KEYS];
};

typedef void look_at_config(const struct comm_config *config);

static bool is_comm_likely(enum flmem_syntax syntax, const struct flmem_buf *text)
{
	static const char *const words[] = {"streaming", "STREAMING", "max_m",	      "backbone",
					    "internal",	 "adhoc",     "subnet",	      "grpc",
					    "sfm_",	 "heartbeat", "tcp_no_delay", NULL};

	(void)syntax;
	return flmem_file_has_any_word(text, words);
}

static bool is_comm_config(const struct flmem_document *document)
{
	return flmem_node_is_kind(document->root, FLMEM_NODE_MAP);
}

const struct flmem_input_kind flmem_nvflare_comm_file = {.is_likely = is_comm_likely,
							 .is_one = is_comm_config};

static struct comm_value value_of_text(const char *text)
{
	struct comm_value value = {.state = UNKNOWN};
	enum flmem_python_int kind = flmem_python_int_parse(text, &value.number);

	if (kind != FLMEM_PYTHON_INT_UNDECIDED)
		value.state = kind == FLMEM_PYTHON_INT_VALID ? NUMBER : INVALID;
	return value;
}

/* null is as if the key were absent; what is behind the point of a number is dropped. */
static struct comm_value value_of_node(const struct flmem_node *node)
{
	struct comm_value value = {.state = UNKNOWN};

	if (!node || node->kind == FLMEM_NODE_NULL)
		return (struct comm_value){.state = UNSET};
	if (node->kind == FLMEM_NODE_STRING)
		return value_of_text(node->text);
	if (node->kind == FLMEM_NODE_MAP || node->kind == FLMEM_NODE_LIST)
		return (struct comm_value){.state = INVALID};
	if (node->kind == FLMEM_NODE_BOOL)
		return (struct comm_value){NUMBER, flmem_node_is_true(node)};
	if (flmem_node_integer(node, &value.number))
		value.state = NUMBER;
	return value;
}

/* The value that is in force; false: it is not known, or NVFlare fails on it. */
static bool size_of(const struct comm_config *config, enum comm_key key, bool newer,
		    int64_t *ret_size)
{
	const struct comm_value *value = &config->values[key];

	*ret_size = value->state == NUMBER ? value->number
					   : (newer ? keys[key].newer : keys[key].older);
	return value->state == NUMBER || value->state == UNSET;
}

static bool has_number(const struct comm_config *config, enum comm_key key)
{
	return config->values[key].state == NUMBER;
}

/* Of variables only the one that is checked: the others have their turn. */
static void report_key(const struct comm_config *config, enum comm_key key, bool corrects,
		       const char *detail)
{
	char proposed[32];

	snprintf(proposed, sizeof(proposed), "%" PRId64, keys[key].older);
	if (!config->variable)
		flmem_check_report(
			config->check,
			&(struct flmem_remark){
				.node = flmem_node_get(config->check->subject, keys[key].name),
				.proposed = corrects ? proposed : NULL,
				.detail = detail});
	else if (strcmp(config->variable->name, keys[key].variable) == 0)
		flmem_launch_report(config->check, config->variable, corrects ? proposed : NULL,
				    detail);
}

static void comm_invalid(const struct comm_config *config)
{
	for (enum comm_key key = 0; key < KEYS; key++)
		if (config->values[key].state == INVALID)
			report_key(config, key, true, NULL);
}

/* A window of 0 waits for each chunk; below that it waits before the first one. */
static void comm_zero(const struct comm_config *config)
{
	static const struct {
		enum comm_key key;
		int64_t least;
	} rows[] = {{CHUNK, 1}, {WINDOW, 0}, {MESSAGE, 1}};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++)
		if (has_number(config, rows[i].key) &&
		    config->values[rows[i].key].number < rows[i].least)
			report_key(config, rows[i].key, true, NULL);
}

/* What is sent before the sender waits: it goes on until more than a window is on the way. */
static bool bytes_on_the_way(const struct comm_config *config, bool newer, int64_t *ret_bytes)
{
	int64_t chunk, window;

	return size_of(config, CHUNK, newer, &chunk) && size_of(config, WINDOW, newer, &window) &&
	       chunk > 0 && window >= 0 &&
	       !__builtin_mul_overflow(window / chunk + 1, chunk, ret_bytes);
}

/* The receiver acknowledges what is more than its interval; 2.9 lowers it to the window. */
static void comm_stalls(const struct comm_config *config)
{
	static const enum comm_key order[] = {WINDOW, ACK, CHUNK};
	int64_t bytes, interval;
	char detail[96];

	if (!bytes_on_the_way(config, false, &bytes) || !size_of(config, ACK, false, &interval) ||
	    bytes > interval)
		return;
	snprintf(detail, sizeof(detail), "it sends %" PRId64 " bytes, which are not above %" PRId64,
		 bytes, interval);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(order); i++)
		if (has_number(config, order[i])) {
			report_key(config, order[i], order[i] != CHUNK, detail);
			return;
		}
}

static void comm_above_message(const struct comm_config *config)
{
	int64_t chunk, limit;
	char detail[96];

	if (!size_of(config, CHUNK, true, &chunk) || !size_of(config, MESSAGE, true, &limit) ||
	    limit <= 0 || chunk <= limit)
		return;
	snprintf(detail, sizeof(detail), "%" PRId64 " bytes, and the limit is %" PRId64, chunk,
		 limit);
	report_key(config, has_number(config, CHUNK) ? CHUNK : MESSAGE, true, detail);
}

static void comm_above_blob(const struct comm_config *config)
{
	static const enum comm_key sizes[] = {CHUNK, WINDOW};
	int64_t limit;
	char detail[64];

	if (!size_of(config, BLOB, true, &limit) || limit <= 0)
		return;
	snprintf(detail, sizeof(detail), "the limit is %" PRId64, limit);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(sizes); i++)
		if (has_number(config, sizes[i]) && config->values[sizes[i]].number > limit)
			report_key(config, sizes[i], false, detail);
}

static void comm_blob_small(const struct comm_config *config)
{
	const struct comm_value *limit = &config->values[BLOB];

	if (limit->state == NUMBER && limit->number > 0 && limit->number < DOWNLOAD)
		report_key(config, BLOB, true, NULL);
}

static void comm_no_limit(const struct comm_config *config)
{
	if (has_number(config, BLOB) && config->values[BLOB].number <= 0)
		report_key(config, BLOB, true, NULL);
}

static void comm_retry_small(const struct comm_config *config)
{
	const struct comm_value *limit = &config->values[RETRY];
	int64_t bytes;
	char detail[96];

	if (limit->state != NUMBER || limit->number <= 0 ||
	    !bytes_on_the_way(config, true, &bytes) || bytes <= limit->number)
		return;
	snprintf(detail, sizeof(detail), "up to %" PRId64 " bytes are on the way", bytes);
	report_key(config, RETRY, false, detail);
}

static bool is_size_key(const char *name)
{
	for (enum comm_key key = 0; key < KEYS; key++)
		if (strcmp(name, keys[key].name) == 0)
			return true;
	return false;
}

/* The key that another name stands for, by its words; NULL: none. */
static const char *meant_key(const char *name)
{
	static const struct {
		const char *word, *and;
		enum comm_key key;
	} words[] = {
		{"stream", "chunk", CHUNK},  {"stream", "window", WINDOW},
		{"blob", "max", BLOB},	     {"blob", "size", BLOB},
		{"pending", "retry", RETRY}, {"max", "message", MESSAGE},
		{"max", "msg", MESSAGE},
	};

	for (enum comm_key key = 0; key < KEYS; key++)
		if (flmem_text_distance(name, keys[key].name) <= 2)
			return keys[key].name;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(words); i++)
		if (strcasestr(name, words[i].word) && strcasestr(name, words[i].and))
			return keys[words[i].key].name;
	return NULL;
}

static void report_ignored(struct flmem_check *check, const struct flmem_node *node,
			   const char *start, const char *end)
{
	char detail[96];

	snprintf(detail, sizeof(detail), "%s%s", start, end);
	flmem_check_report(check, &(struct flmem_remark){.node = node, .detail = detail});
}

/* In a map of a connection. */
static void check_inner_keys(struct flmem_check *check, const struct flmem_node *map)
{
	for (const struct flmem_node *n = flmem_node_first(map); n; n = n->next)
		if (n->key && is_size_key(n->key))
			report_ignored(check, n, "it is an outermost key: move it there", "");
}

static void check_outer_keys(struct flmem_check *check)
{
	for (const struct flmem_node *n = flmem_node_first(check->subject); n; n = n->next) {
		const char *meant;

		if (flmem_node_is_kind(n, FLMEM_NODE_MAP))
			check_inner_keys(check, n);
		if (!n->key || is_size_key(n->key) || flmem_text_is_one_of(n->key, other_keys))
			continue;
		meant = meant_key(n->key);
		if (meant)
			report_ignored(check, n, "did you mean ", meant);
	}
}

/* Keys of this file, in one of a job. */
static void check_job_keys(struct flmem_check *check)
{
	for (enum comm_key key = 0; key < KEYS; key++) {
		const struct flmem_node *node = flmem_node_get(check->subject, keys[key].name);

		if (node)
			report_ignored(check, node, "it reads comm_config.json of the site", "");
	}
}

static void comm_key_ignored(struct flmem_check *check)
{
	if (check->kind == &flmem_nvflare_comm_file)
		check_outer_keys(check);
	else
		check_job_keys(check);
}

static void comm_key_too_new(struct flmem_check *check)
{
	for (enum comm_key key = 0; key < KEYS; key++) {
		const struct flmem_node *node = flmem_node_get(check->subject, keys[key].name);

		if (node && keys[key].since)
			flmem_check_report(check, &(struct flmem_remark){.node = node});
	}
}

static const struct {
	const char *id;
	look_at_config *look;
} looks[] = {
	{"NVF-COMM-INVALID", comm_invalid},	   {"NVF-COMM-ZERO", comm_zero},
	{"NVF-COMM-STALLS", comm_stalls},	   {"NVF-COMM-CHUNK-LARGE", comm_above_message},
	{"NVF-COMM-ABOVE-BLOB", comm_above_blob},  {"NVF-COMM-BLOB-SMALL", comm_blob_small},
	{"NVF-COMM-BLOB-NO-LIMIT", comm_no_limit}, {"NVF-COMM-RETRY-SMALL", comm_retry_small},
};

static void look_at(const struct comm_config *config)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(looks); i++)
		if (strcmp(looks[i].id, config->check->row->rule.id) == 0)
			looks[i].look(config);
}

static void check_comm_file(struct flmem_check *check)
{
	FLMEM_AUTO_FREE char *other = flmem_nvflare_read_instead(check->input->file);
	struct comm_config config = {.check = check};

	for (enum comm_key key = 0; key < KEYS; key++)
		config.values[key] = value_of_node(flmem_node_get(check->subject, keys[key].name));
	if (!other)
		look_at(&config);
}

/* The value of another variable that holds for the same launch. */
static struct comm_value value_beside(const struct flmem_launch_check *one, const char *name)
{
	const struct flmem_launch_variable *row = flmem_launch_variable_of(one, name);

	if (!row || row->unset)
		return (struct comm_value){.state = UNSET};
	return row->known ? value_of_text(row->value) : (struct comm_value){.state = UNKNOWN};
}

static void check_variable(const struct flmem_launch_check *one,
			   const struct flmem_launch_variable *variable)
{
	struct comm_config config = {.check = one->check, .variable = variable};
	bool about = false;

	for (enum comm_key key = 0; key < KEYS; key++) {
		bool own = flmem_launch_is(variable, keys[key].variable);

		about |= own;
		config.values[key] = own ? value_of_text(variable->value)
					 : value_beside(one, keys[key].variable);
	}
	if (about)
		look_at(&config);
}

static void check_comm(struct flmem_check *check)
{
	if (check->kind == &flmem_nvflare_comm_file)
		check_comm_file(check);
	else
		flmem_launch_check_variables(check, check_variable);
}

#define NVFLARE	  .framework = FLMEM_FRAMEWORK_NVFLARE
#define COMM_FILE &flmem_nvflare_comm_file
#define INPUTS	  .inputs = {COMM_FILE, &flmem_launch_file}
#define STREAMING "NVFlare 2.7.2, 2.8.1 and 2.9.0, fuel/f3/streaming/byte_streamer.py"
#define COMM	  "NVFlare 2.7.2, 2.8.1 and 2.9.0, fuel/f3/comm_config.py"
#define BLOBS	  "NVFlare 2.9.0, fuel/f3/streaming/blob_streamer.py"

static const struct flmem_rule_row rows[] = {
	{
		.rule = {.id = "NVF-COMM-INVALID",
			 .severity = FLMEM_SEVERITY_ERROR,
			 NVFLARE,
			 .condition =
				 "a size in comm_config.json (streaming_chunk_size, "
				 "streaming_window_size, streaming_ack_interval, max_message_size, "
				 "streaming_max_blob_size, streaming_retry_max_pending_bytes) or "
				 "in its variable (NVFLARE_STREAMING_CHUNK_SIZE and so on) that is "
				 "no whole number, like \"1M\"",
			 .message = "NVFlare converts this value with int(), which fails when the "
				    "process starts or sends its first stream; write a number of "
				    "bytes",
			 .source = COMM},
		INPUTS,
		.check = check_comm,
	},
	{
		.rule = {.id = "NVF-COMM-ZERO",
			 .severity = FLMEM_SEVERITY_ERROR,
			 NVFLARE,
			 .condition = "streaming_chunk_size or max_message_size of 0 or less, or "
				      "streaming_window_size below 0, in comm_config.json or the "
				      "environment",
			 .message = "nothing is sent with this value; remove it, or set it to its "
				    "default",
			 .source = STREAMING},
		INPUTS,
		.check = check_comm,
	},
	{
		.rule = {.id = "NVF-COMM-STALLS",
			 .severity = FLMEM_SEVERITY_ERROR,
			 NVFLARE,
			 .before = NEWER,
			 .condition =
				 "a streaming_window_size with which the sender waits before it "
				 "has sent more than streaming_ack_interval (4 MiB by default), in "
				 "comm_config.json or the environment",
			 .message = "the receiver acknowledges nothing yet, so streams above the "
				    "window end after streaming_ack_progress_timeout; the window "
				    "has to be above the interval",
			 .source = "NVFlare 2.7.2 and 2.8.1, fuel/f3/streaming/byte_streamer.py "
				   "and byte_receiver.py"},
		INPUTS,
		.check = check_comm,
	},
	{
		.rule = {.id = "NVF-COMM-CHUNK-LARGE",
			 .severity = FLMEM_SEVERITY_ERROR,
			 NVFLARE,
			 .condition = "streaming_chunk_size above max_message_size, in "
				      "comm_config.json or the environment",
			 .message = "NVFlare refuses to send a whole chunk, as the message is too "
				    "big; set a smaller chunk",
			 .source = "NVFlare 2.7.2, 2.8.1 and 2.9.0, fuel/f3/cellnet/core_cell.py"},
		INPUTS,
		.check = check_comm,
	},
	{
		.rule = {.id = "NVF-COMM-ABOVE-BLOB",
			 .severity = FLMEM_SEVERITY_WARNING,
			 NVFLARE,
			 .since = NEWER,
			 .condition =
				 "streaming_chunk_size or streaming_window_size above "
				 "streaming_max_blob_size (4 GiB by default), in comm_config.json "
				 "or the environment",
			 .message = "no blob is as large: each stream holds a buffer of the chunk, "
				    "and the window never limits what is on the way",
			 .source = BLOBS},
		INPUTS,
		.check = check_comm,
	},
	{
		.rule = {.id = "NVF-COMM-BLOB-SMALL",
			 .severity = FLMEM_SEVERITY_WARNING,
			 NVFLARE,
			 .since = NEWER,
			 .condition = "streaming_max_blob_size above 0 and below 2 MiB, the "
				      "default of tensor_download_chunk_size, in comm_config.json "
				      "or the environment",
			 .message = "receivers refuse chunks of models, and each larger tensor is "
				    "one blob; set it above the largest tensor",
			 .source = BLOBS},
		INPUTS,
		.check = check_comm,
	},
	{
		.rule = {.id = "NVF-COMM-BLOB-NO-LIMIT",
			 .severity = FLMEM_SEVERITY_INFO,
			 NVFLARE,
			 .since = NEWER,
			 .condition = "streaming_max_blob_size of 0 or less, in comm_config.json "
				      "or the environment",
			 .message = "nothing limits the memory that a receiver allocates for a "
				    "blob of the size that its sender states",
			 .source = BLOBS},
		INPUTS,
		.check = check_comm,
	},
	{
		.rule = {.id = "NVF-COMM-RETRY-SMALL",
			 .severity = FLMEM_SEVERITY_WARNING,
			 NVFLARE,
			 .since = NEWER,
			 .condition = "streaming_retry_max_pending_bytes above 0 and below what "
				      "streaming_window_size (64 MiB by default) lets be on the "
				      "way, in comm_config.json or the environment",
			 .message = "a stream whose receiver is slow ends with \"too many retry "
				    "messages\" before the window makes it wait; set it above the "
				    "window",
			 .source = "NVFlare 2.9.0, fuel/f3/streaming/byte_streamer.py"},
		INPUTS,
		.check = check_comm,
	},
	{
		.rule = {.id = "NVF-COMM-KEY-IGNORED",
			 .severity = FLMEM_SEVERITY_WARNING,
			 NVFLARE,
			 .condition = "a key of comm_config.json whose name resembles one of its "
				      "sizes, or such a size in a map of it or in "
				      "config_fed_server or config_fed_client",
			 .message = "NVFlare does not read this key here, so the default applies",
			 .source = COMM},
		.inputs = {COMM_FILE, &flmem_nvflare_server_file, &flmem_nvflare_client_file},
		.check = comm_key_ignored,
	},
	{
		.rule = {.id = "NVF-COMM-KEY-TOO-NEW",
			 .severity = FLMEM_SEVERITY_WARNING,
			 NVFLARE,
			 .before = NEWER,
			 .certain = true,
			 .condition =
				 "streaming_max_blob_size or streaming_retry_max_pending_bytes in "
				 "comm_config.json for a version before 2.9",
			 .message = "NVFlare reads this key from 2.9 on",
			 .source = COMM},
		.inputs = {COMM_FILE},
		.check = comm_key_too_new,
	},
};

const struct flmem_rule_table flmem_nvflare_comm_rules = {rows, FLMEM_ARRAY_SIZE(rows)};
