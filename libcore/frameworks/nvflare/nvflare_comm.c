/* SPDX-License-Identifier: Apache-2.0 */
#include "frameworks/nvflare/nvflare_comm.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/text/text.h"
#include "runtimes/cpython_int.h"

#define MIB	 (INT64_C(1) << 20)
#define DOWNLOAD (2 * MIB) /* bytes of a chunk of a model, unless the job sets another size */

const struct flmem_comm_key_row flmem_comm_keys[FLMEM_COMM_KEYS] = {
	[FLMEM_COMM_CHUNK] = {"streaming_chunk_size", FLMEM_NVFLARE_COMM_CHUNK, MIB, MIB, NULL},
	[FLMEM_COMM_WINDOW] = {"streaming_window_size", FLMEM_NVFLARE_COMM_WINDOW, 16 * MIB,
			       64 * MIB, NULL},
	[FLMEM_COMM_ACK] = {"streaming_ack_interval", FLMEM_NVFLARE_COMM_ACK, 4 * MIB, 16 * MIB,
			    NULL},
	[FLMEM_COMM_MESSAGE] = {"max_message_size", FLMEM_NVFLARE_COMM_MESSAGE, 2045 * MIB - 16,
				2045 * MIB - 16, NULL},
	[FLMEM_COMM_BLOB] = {"streaming_max_blob_size", FLMEM_NVFLARE_COMM_BLOB, 4096 * MIB,
			     4096 * MIB, FLMEM_NVFLARE_COMM_LIMITS},
	[FLMEM_COMM_RETRY] = {"streaming_retry_max_pending_bytes", FLMEM_NVFLARE_COMM_RETRY,
			      128 * MIB, 128 * MIB, FLMEM_NVFLARE_COMM_LIMITS},
};

struct flmem_comm_value flmem_comm_value_of_text(const char *text)
{
	struct flmem_comm_value value = {.state = FLMEM_COMM_UNKNOWN};
	enum flmem_python_int kind = flmem_python_int_parse(text, &value.number);

	if (kind != FLMEM_PYTHON_INT_UNDECIDED)
		value.state =
			kind == FLMEM_PYTHON_INT_VALID ? FLMEM_COMM_NUMBER : FLMEM_COMM_INVALID;
	return value;
}

/* null has the same effect as an absent key. Digits after the point of a number are dropped. */
struct flmem_comm_value flmem_comm_value_of_node(const struct flmem_node *node)
{
	struct flmem_comm_value value = {.state = FLMEM_COMM_UNKNOWN};

	if (!node || node->kind == FLMEM_NODE_NULL)
		return (struct flmem_comm_value){.state = FLMEM_COMM_UNSET};
	if (node->kind == FLMEM_NODE_STRING)
		return flmem_comm_value_of_text(node->text);
	if (node->kind == FLMEM_NODE_MAP || node->kind == FLMEM_NODE_LIST)
		return (struct flmem_comm_value){.state = FLMEM_COMM_INVALID};
	if (node->kind == FLMEM_NODE_BOOL)
		return (struct flmem_comm_value){FLMEM_COMM_NUMBER, flmem_node_is_true(node)};
	if (flmem_node_integer(node, &value.number))
		value.state = FLMEM_COMM_NUMBER;
	return value;
}

/* Reads the value that is in force. Returns false if it is not known, or if NVFlare fails on it. */
static bool size_of(const struct flmem_comm_config *config, enum flmem_comm_key key, bool newer,
		    int64_t *ret_size)
{
	const struct flmem_comm_value *value = &config->values[key];

	*ret_size = value->state == FLMEM_COMM_NUMBER
			    ? value->number
			    : (newer ? flmem_comm_keys[key].newer : flmem_comm_keys[key].older);
	return value->state == FLMEM_COMM_NUMBER || value->state == FLMEM_COMM_UNSET;
}

static bool has_number(const struct flmem_comm_config *config, enum flmem_comm_key key)
{
	return config->values[key].state == FLMEM_COMM_NUMBER;
}

static void report_key(const struct flmem_comm_config *config, enum flmem_comm_key key,
		       bool corrects, const char *detail)
{
	config->report(config, &(struct flmem_comm_fault){key, corrects, detail});
}

void flmem_comm_find_invalid(const struct flmem_comm_config *config)
{
	for (enum flmem_comm_key key = 0; key < FLMEM_COMM_KEYS; key++)
		if (config->values[key].state == FLMEM_COMM_INVALID)
			report_key(config, key, true, NULL);
}

/* With a window of 0 the sender waits for each chunk; below 0, before the first one. */
void flmem_comm_find_zero(const struct flmem_comm_config *config)
{
	static const struct {
		enum flmem_comm_key key;
		int64_t least;
	} rows[] = {{FLMEM_COMM_CHUNK, 1}, {FLMEM_COMM_WINDOW, 0}, {FLMEM_COMM_MESSAGE, 1}};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++)
		if (has_number(config, rows[i].key) &&
		    config->values[rows[i].key].number < rows[i].least)
			report_key(config, rows[i].key, true, NULL);
}

/*
 * The bytes that are sent before the sender waits: it sends until more than a window is in flight.
 */
static bool bytes_in_transit(const struct flmem_comm_config *config, bool newer, int64_t *ret_bytes)
{
	int64_t chunk, window;

	return size_of(config, FLMEM_COMM_CHUNK, newer, &chunk) &&
	       size_of(config, FLMEM_COMM_WINDOW, newer, &window) && chunk > 0 && window >= 0 &&
	       !__builtin_mul_overflow(window / chunk + 1, chunk, ret_bytes);
}

/*
 * The receiver acknowledges once more than its interval is received; 2.9 lowers the interval to the
 * window.
 */
void flmem_comm_find_stalls(const struct flmem_comm_config *config)
{
	static const enum flmem_comm_key order[] = {FLMEM_COMM_WINDOW, FLMEM_COMM_ACK,
						    FLMEM_COMM_CHUNK};
	int64_t bytes, interval;
	char detail[96];

	if (!bytes_in_transit(config, false, &bytes) ||
	    !size_of(config, FLMEM_COMM_ACK, false, &interval) || bytes > interval)
		return;
	snprintf(detail, sizeof(detail), "it sends %" PRId64 " bytes, which are not above %" PRId64,
		 bytes, interval);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(order); i++)
		if (has_number(config, order[i])) {
			report_key(config, order[i], order[i] != FLMEM_COMM_CHUNK, detail);
			return;
		}
}

void flmem_comm_find_above_message(const struct flmem_comm_config *config)
{
	int64_t chunk, limit;
	char detail[96];

	if (!size_of(config, FLMEM_COMM_CHUNK, true, &chunk) ||
	    !size_of(config, FLMEM_COMM_MESSAGE, true, &limit) || limit <= 0 || chunk <= limit)
		return;
	snprintf(detail, sizeof(detail), "%" PRId64 " bytes, and the limit is %" PRId64, chunk,
		 limit);
	report_key(config,
		   has_number(config, FLMEM_COMM_CHUNK) ? FLMEM_COMM_CHUNK : FLMEM_COMM_MESSAGE,
		   true, detail);
}

void flmem_comm_find_above_blob(const struct flmem_comm_config *config)
{
	static const enum flmem_comm_key sizes[] = {FLMEM_COMM_CHUNK, FLMEM_COMM_WINDOW};
	int64_t limit;
	char detail[64];

	if (!size_of(config, FLMEM_COMM_BLOB, true, &limit) || limit <= 0)
		return;
	snprintf(detail, sizeof(detail), "the limit is %" PRId64, limit);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(sizes); i++)
		if (has_number(config, sizes[i]) && config->values[sizes[i]].number > limit)
			report_key(config, sizes[i], false, detail);
}

void flmem_comm_find_blob_small(const struct flmem_comm_config *config)
{
	const struct flmem_comm_value *limit = &config->values[FLMEM_COMM_BLOB];

	if (limit->state == FLMEM_COMM_NUMBER && limit->number > 0 && limit->number < DOWNLOAD)
		report_key(config, FLMEM_COMM_BLOB, true, NULL);
}

void flmem_comm_find_no_limit(const struct flmem_comm_config *config)
{
	if (has_number(config, FLMEM_COMM_BLOB) && config->values[FLMEM_COMM_BLOB].number <= 0)
		report_key(config, FLMEM_COMM_BLOB, true, NULL);
}

void flmem_comm_find_retry_small(const struct flmem_comm_config *config)
{
	const struct flmem_comm_value *limit = &config->values[FLMEM_COMM_RETRY];
	int64_t bytes;
	char detail[96];

	if (limit->state != FLMEM_COMM_NUMBER || limit->number <= 0 ||
	    !bytes_in_transit(config, true, &bytes) || bytes <= limit->number)
		return;
	snprintf(detail, sizeof(detail), "up to %" PRId64 " bytes are in flight", bytes);
	report_key(config, FLMEM_COMM_RETRY, false, detail);
}
