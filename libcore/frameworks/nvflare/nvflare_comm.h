/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_NVFLARE_NVFLARE_COMM_H
#define FLMEM_FRAMEWORKS_NVFLARE_NVFLARE_COMM_H

/*
 * Checks the sizes in comm_config.json and in the variables that stand for them. The file takes
 * precedence, and each value goes through int() (fuel/utils/config_service.py). What is wrong with
 * sizes follows from fuel/f3/streaming of 2.7.2, 2.8.1 and 2.9.0.
 */

#include <stdbool.h>
#include <stdint.h>

#include "documents/document.h"

#define FLMEM_NVFLARE_COMM_CHUNK   "NVFLARE_STREAMING_CHUNK_SIZE"
#define FLMEM_NVFLARE_COMM_WINDOW  "NVFLARE_STREAMING_WINDOW_SIZE"
#define FLMEM_NVFLARE_COMM_ACK	   "NVFLARE_STREAMING_ACK_INTERVAL"
#define FLMEM_NVFLARE_COMM_MESSAGE "NVFLARE_MAX_MESSAGE_SIZE"
#define FLMEM_NVFLARE_COMM_BLOB	   "NVFLARE_STREAMING_MAX_BLOB_SIZE"
#define FLMEM_NVFLARE_COMM_RETRY   "NVFLARE_STREAMING_RETRY_MAX_PENDING_BYTES"

/* First release with limits of blobs and of bytes that wait for a retry. */
#define FLMEM_NVFLARE_COMM_LIMITS "2.9"

enum flmem_comm_key {
	FLMEM_COMM_CHUNK,
	FLMEM_COMM_WINDOW,
	FLMEM_COMM_ACK,
	FLMEM_COMM_MESSAGE,
	FLMEM_COMM_BLOB,
	FLMEM_COMM_RETRY,
	FLMEM_COMM_KEYS
};

/* A key of comm_config.json, and the variable that stands for it. */
struct flmem_comm_key_row {
	const char *name, *variable;
	int64_t older, newer; /* default in bytes before 2.9, and from then on */
	/* First release with the key; NULL: all. */
	const char *since;
};

extern const struct flmem_comm_key_row flmem_comm_keys[FLMEM_COMM_KEYS];

/* What is known of the value of a key. */
enum flmem_comm_state {
	FLMEM_COMM_UNSET,
	FLMEM_COMM_NUMBER,
	FLMEM_COMM_INVALID,
	FLMEM_COMM_UNKNOWN
};

struct flmem_comm_value {
	enum flmem_comm_state state;
	int64_t number;
};

/* A fault in the values; `detail` may be NULL. */
struct flmem_comm_fault {
	enum flmem_comm_key key;
	bool corrects; /* the default would correct it */
	const char *detail;
};

/* The values that one file, one launch or one process sets, and a callback for their faults. */
struct flmem_comm_config {
	struct flmem_comm_value values[FLMEM_COMM_KEYS];
	void (*report)(const struct flmem_comm_config *config,
		       const struct flmem_comm_fault *fault);
	void *context; /* for `report` */
};

/* The value of a variable, which NVFlare converts by int(). */
struct flmem_comm_value flmem_comm_value_of_text(const char *text);

/* The value of a key in a file; `node` is NULL if the key is absent. */
struct flmem_comm_value flmem_comm_value_of_node(const struct flmem_node *node);

/* A function that reports the faults of one kind through config->report. */
typedef void flmem_comm_look(const struct flmem_comm_config *config);

flmem_comm_look flmem_comm_find_invalid, flmem_comm_find_zero, flmem_comm_find_stalls,
	flmem_comm_find_above_message, flmem_comm_find_above_blob, flmem_comm_find_blob_small,
	flmem_comm_find_no_limit, flmem_comm_find_retry_small;

#endif
