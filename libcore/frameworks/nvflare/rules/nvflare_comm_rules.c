/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about comm_config.json of a site, and about the variables that stand for its keys. */
#include "frameworks/launch/launch_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "frameworks/nvflare/nvflare_comm.h"
#include "frameworks/nvflare/nvflare_set_options.h"
#include "frameworks/nvflare/rules/nvflare_rules.h"

#define NEWER	  FLMEM_NVFLARE_COMM_LIMITS
#define COMM_FILE &flmem_nvflare_comm_file

/* Other keys of the file. Some resemble the keys that are checked. */
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

const struct flmem_input_kind flmem_nvflare_comm_file = {
	.is_likely = is_comm_likely,
	.is_one = is_comm_config,
	.content = FLMEM_CONTENT_CONFIG,
};

/* What a file sets, or a command by --set, or a variable with the others of its launch. */
struct comm_check {
	struct flmem_comm_config config;
	struct flmem_check *check;
	/* The variable that is checked; NULL: a file, or --set. */
	const struct flmem_launch_variable *variable;
	const struct flmem_nvflare_sets *sets; /* the words of --set; or NULL */
	flmem_comm_look *look;		       /* reports the faults of one kind; for --set */
};

static void report_set_fault(const struct comm_check *comm, const char *key, const char *detail)
{
	const struct flmem_nvflare_set *row = flmem_nvflare_set_find(comm->sets, key);

	if (row)
		flmem_nvflare_set_report(comm->check, row, key, detail);
}

/*
 * Reports a fault; for variables only if it is at the checked one, as each of the others is checked
 * separately.
 */
static void report_fault(const struct flmem_comm_config *config,
			 const struct flmem_comm_fault *fault)
{
	const struct comm_check *comm = config->context;
	const struct flmem_comm_key_row *row = &flmem_comm_keys[fault->key];
	char proposed[32];

	snprintf(proposed, sizeof(proposed), "%" PRId64, row->older);
	if (comm->sets)
		report_set_fault(comm, row->name, fault->detail);
	else if (!comm->variable)
		flmem_check_report(comm->check,
				   &(struct flmem_remark){
					   .node = flmem_node_get(comm->check->subject, row->name),
					   .proposed = fault->corrects ? proposed : NULL,
					   .detail = fault->detail});
	else if (strcmp(comm->variable->name, row->variable) == 0)
		flmem_launch_report(comm->check, comm->variable, fault->corrects ? proposed : NULL,
				    fault->detail);
}

static bool is_size_key(const char *name)
{
	for (enum flmem_comm_key key = 0; key < FLMEM_COMM_KEYS; key++)
		if (strcmp(name, flmem_comm_keys[key].name) == 0)
			return true;
	return false;
}

/* The key that a name is meant to be, by the words in it; NULL: none. */
static const char *meant_key(const char *name)
{
	static const struct {
		const char *word, *and;
		enum flmem_comm_key key;
	} words[] = {
		{"stream", "chunk", FLMEM_COMM_CHUNK},	{"stream", "window", FLMEM_COMM_WINDOW},
		{"blob", "max", FLMEM_COMM_BLOB},	{"blob", "size", FLMEM_COMM_BLOB},
		{"pending", "retry", FLMEM_COMM_RETRY}, {"max", "message", FLMEM_COMM_MESSAGE},
		{"max", "msg", FLMEM_COMM_MESSAGE},
	};

	for (enum flmem_comm_key key = 0; key < FLMEM_COMM_KEYS; key++)
		if (flmem_text_distance(name, flmem_comm_keys[key].name) <= 2)
			return flmem_comm_keys[key].name;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(words); i++)
		if (strcasestr(name, words[i].word) && strcasestr(name, words[i].and))
			return flmem_comm_keys[words[i].key].name;
	return NULL;
}

static void report_ignored(struct flmem_check *check, const struct flmem_node *node,
			   const char *start, const char *end)
{
	char detail[96];

	snprintf(detail, sizeof(detail), "%s%s", start, end);
	flmem_check_report(check, &(struct flmem_remark){.node = node, .detail = detail});
}

/* Checks the keys in the map of a connection. */
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

/* Reports keys of comm_config in a file of a job, or in another file of the site. */
static void check_job_keys(struct flmem_check *check)
{
	for (enum flmem_comm_key key = 0; key < FLMEM_COMM_KEYS; key++) {
		const struct flmem_node *node =
			flmem_node_get(check->subject, flmem_comm_keys[key].name);

		if (node)
			report_ignored(check, node, "it reads comm_config.json of the site", "");
	}
}

static void comm_key_ignored(struct flmem_check *check)
{
	if (check->kind == COMM_FILE)
		check_outer_keys(check);
	else
		check_job_keys(check);
}

static void comm_key_too_new(struct flmem_check *check)
{
	for (enum flmem_comm_key key = 0; key < FLMEM_COMM_KEYS; key++) {
		const struct flmem_node *node =
			flmem_node_get(check->subject, flmem_comm_keys[key].name);

		if (node && flmem_comm_keys[key].since)
			flmem_check_report(check, &(struct flmem_remark){.node = node});
	}
}

static void check_comm_file(struct flmem_check *check, flmem_comm_look *look)
{
	struct comm_check comm = {.config = {.report = report_fault, .context = &comm},
				  .check = check};

	if (flmem_nvflare_comm_ignored(check->input->file))
		return;
	for (enum flmem_comm_key key = 0; key < FLMEM_COMM_KEYS; key++)
		comm.config.values[key] = flmem_comm_value_of_node(
			flmem_node_get(check->subject, flmem_comm_keys[key].name));
	look(&comm.config);
}

/* The value of another variable that reaches the same launch. */
static struct flmem_comm_value value_beside(const struct flmem_launch_check *one, const char *name)
{
	const struct flmem_launch_variable *row = flmem_launch_variable_of(one, name);

	if (!row || row->unset)
		return (struct flmem_comm_value){.state = FLMEM_COMM_UNSET};
	return row->known ? flmem_comm_value_of_text(row->value)
			  : (struct flmem_comm_value){.state = FLMEM_COMM_UNKNOWN};
}

static void check_comm_variable(const struct flmem_launch_check *one,
				const struct flmem_launch_variable *variable)
{
	struct comm_check comm = {.config = {.report = report_fault, .context = &comm},
				  .check = one->check,
				  .variable = variable};
	flmem_comm_look *const *look = one->context;
	bool about = false;

	for (enum flmem_comm_key key = 0; key < FLMEM_COMM_KEYS; key++) {
		bool own = flmem_launch_is(variable, flmem_comm_keys[key].variable);

		about |= own;
		comm.config.values[key] = own ? flmem_comm_value_of_text(variable->value)
					      : value_beside(one, flmem_comm_keys[key].variable);
	}
	if (about)
		(*look)(&comm.config);
}

static void check_comm_sets(const struct flmem_nvflare_sets *sets, void *context)
{
	const struct comm_check *request = context;
	struct comm_check comm = {.config = {.report = report_fault, .context = &comm},
				  .check = request->check,
				  .sets = sets};

	for (enum flmem_comm_key key = 0; key < FLMEM_COMM_KEYS; key++) {
		const struct flmem_nvflare_set *row =
			flmem_nvflare_set_find(sets, flmem_comm_keys[key].name);

		if (row)
			comm.config.values[key] = flmem_nvflare_set_value(row->value);
	}
	request->look(&comm.config);
}

static void check_comm(struct flmem_check *check, flmem_comm_look *look)
{
	struct comm_check request = {.check = check, .look = look};

	if (check->kind == COMM_FILE) {
		check_comm_file(check, look);
		return;
	}
	if (check->kind != &flmem_nvflare_python_file)
		flmem_launch_check_variables_with(check, check_comm_variable, &look);
	flmem_nvflare_sets_each(check->input, check_comm_sets, &request);
}

static void check_comm_invalid(struct flmem_check *check)
{
	check_comm(check, flmem_comm_find_invalid);
}

static void check_comm_zero(struct flmem_check *check)
{
	check_comm(check, flmem_comm_find_zero);
}

static void check_comm_stalls(struct flmem_check *check)
{
	check_comm(check, flmem_comm_find_stalls);
}

static void check_comm_above_message(struct flmem_check *check)
{
	check_comm(check, flmem_comm_find_above_message);
}

static void check_comm_above_blob(struct flmem_check *check)
{
	check_comm(check, flmem_comm_find_above_blob);
}

static void check_comm_blob_small(struct flmem_check *check)
{
	check_comm(check, flmem_comm_find_blob_small);
}

static void check_comm_no_limit(struct flmem_check *check)
{
	check_comm(check, flmem_comm_find_no_limit);
}

static void check_comm_retry_small(struct flmem_check *check)
{
	check_comm(check, flmem_comm_find_retry_small);
}

#define NVFLARE	  .framework = FLMEM_FRAMEWORK_NVFLARE
#define INPUTS	  .inputs = {COMM_FILE, &flmem_launch_file, &flmem_nvflare_python_file}
#define SINGLE	  .inputs = {COMM_FILE, FLMEM_NVFLARE_VARIABLE_FILES, &flmem_nvflare_python_file}
#define STREAMING "NVFlare 2.7.2, 2.8.1 and 2.9.0, fuel/f3/streaming/byte_streamer.py"
#define COMM	  "NVFlare 2.7.2, 2.8.1 and 2.9.0, fuel/f3/comm_config.py"
#define BLOBS	  "NVFlare 2.9.0, fuel/f3/streaming/blob_streamer.py"

static const struct flmem_rule_row nvflare_comm_rows[] = {
	{
		.rule = {.id = "NVF-COMM-INVALID",
			 .severity = FLMEM_SEVERITY_ERROR,
			 NVFLARE,
			 .condition =
				 "a size in comm_config.json (streaming_chunk_size, "
				 "streaming_window_size, streaming_ack_interval, max_message_size, "
				 "streaming_max_blob_size, streaming_retry_max_pending_bytes) or "
				 "in its variable (NVFLARE_STREAMING_CHUNK_SIZE and so on), or "
				 "after --set, that is not a whole number, like \"1M\"",
			 .message = "NVFlare converts this value with int(), which fails when the "
				    "process starts or sends its first stream; write a number of "
				    "bytes",
			 .source = COMM},
		SINGLE,
		.check = check_comm_invalid,
	},
	{
		.rule = {.id = "NVF-COMM-ZERO",
			 .severity = FLMEM_SEVERITY_ERROR,
			 NVFLARE,
			 .condition = "streaming_chunk_size or max_message_size of 0 or less, or "
				      "streaming_window_size below 0, in comm_config.json, the "
				      "environment or after --set",
			 .message = "nothing is sent with this value; remove it, or set it to its "
				    "default",
			 .source = STREAMING},
		SINGLE,
		.check = check_comm_zero,
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
		.check = check_comm_stalls,
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
		.check = check_comm_above_message,
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
				    "and the window never limits what is in flight; "
				    "set it below streaming_max_blob_size",
			 .source = BLOBS},
		INPUTS,
		.check = check_comm_above_blob,
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
		.check = check_comm_blob_small,
	},
	{
		.rule = {.id = "NVF-COMM-BLOB-NO-LIMIT",
			 .severity = FLMEM_SEVERITY_INFO,
			 NVFLARE,
			 .since = NEWER,
			 .condition = "streaming_max_blob_size of 0 or less, in comm_config.json "
				      "or the environment",
			 .message = "nothing limits the memory that a receiver allocates for a "
				    "blob of the size that its sender states; "
				    "set a limit above the largest tensor",
			 .source = BLOBS},
		INPUTS,
		.check = check_comm_no_limit,
	},
	{
		.rule = {.id = "NVF-COMM-RETRY-SMALL",
			 .severity = FLMEM_SEVERITY_WARNING,
			 NVFLARE,
			 .since = NEWER,
			 .condition = "streaming_retry_max_pending_bytes above 0 and below what "
				      "streaming_window_size (64 MiB by default) lets be in "
				      "flight, in comm_config.json or the environment",
			 .message = "a stream whose receiver is slow ends with \"too many retry "
				    "messages\" before the window makes it wait; set it above the "
				    "window",
			 .source = "NVFlare 2.9.0, fuel/f3/streaming/byte_streamer.py"},
		INPUTS,
		.check = check_comm_retry_small,
	},
	{
		.rule = {.id = "NVF-COMM-KEY-IGNORED",
			 .severity = FLMEM_SEVERITY_WARNING,
			 NVFLARE,
			 .condition = "a key of comm_config.json whose name resembles one of its "
				      "sizes, or such a size in a map of it or in "
				      "config_fed_server, config_fed_client or resources.json "
				      "and the like of a kit",
			 .message = "NVFlare does not read this key here, so the default applies; "
				    "correct its name or its place, or remove it",
			 .source = COMM},
		.inputs = {COMM_FILE, &flmem_nvflare_server_file, &flmem_nvflare_client_file,
			   &flmem_nvflare_resources_file},
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

const struct flmem_rule_table flmem_nvflare_comm_rules = {nvflare_comm_rows,
							  FLMEM_ARRAY_SIZE(nvflare_comm_rows)};
