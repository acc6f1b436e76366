/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_STRATEGIES_H
#define FLMEM_FRAMEWORKS_STRATEGIES_H

/*
 * The strategies of a framework for a round, as data: what its server and its clients hold in each
 * step, counted in models, chunks and largest tensors, and the configuration that selects the
 * strategy. ops/recommend/memory_plan.c converts the counts to bytes; docs/guides/planning.md gives
 * their sources.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/roles.h>

#include "base/text/buf.h"

/* Counts of models are in tenths, because an allocator retains fractions of a model. */
#define FLMEM_WHOLE 10U

/* What one process holds in a step of a round. */
struct flmem_strategy_step {
	const char *name;
	const char *contents;
	enum flmem_role role; /* SERVER or CLIENT */
	unsigned models, models_per_client;
	unsigned chunks, chunks_per_client;
	unsigned tensors, tensors_per_client; /* tensors as large as the largest one */
	unsigned models_if_several;	      /* models held once if there are several clients */
	bool trains;			      /* the step also needs the memory of the optimizer */
};

/* A filter of results on the client, or what a framework calls so. It is a step before sending. */
struct flmem_strategy_filter {
	const char *name; /* value of --filter; NULL ends the table */
	struct flmem_strategy_step step;
};

/* The values for the generated configurations, in bytes except `clients`. */
struct flmem_strategy_values {
	uint64_t clients;
	uint64_t model_bytes, chunk_bytes, message_bytes;
	uint64_t disk_bytes;
	uint64_t tensor_bytes; /* size of the largest tensor; 0: not known */
};

/* A part of the generated configuration. */
struct flmem_strategy_file {
	const char *where; /* where the text belongs */
	void (*write)(const struct flmem_strategy_values *values, struct flmem_buf *text);
};

/* One strategy. All texts are static. */
struct flmem_strategy {
	const char *name;
	const char *summary;
	const struct flmem_strategy_step *steps;
	size_t step_count;
	const struct flmem_strategy_file *files;
	size_t file_count;
	uint64_t chunk_bytes; /* fixed size of chunks; 0: chosen for the node, up to `chunk_max` */
	uint64_t chunk_max;   /* largest size of chunks; 0: no chunks */
	uint64_t message_max; /* largest size of messages; 0: nothing to set */
	uint64_t model_max; /* for larger models, a later strategy is preferred; 0: no such limit */
	unsigned disk_models_per_client; /* models per client on the disk of the server */
};

/* The strategies of a framework. */
struct flmem_strategies {
	const struct flmem_strategy *strategies; /* the framework's default is the first */
	size_t count;
	uint64_t runtime_bytes; /* memory of a process before it loads a model */
	const struct flmem_strategy_filter *filters; /* NULL: it has no filters */
	const char *caveat; /* limit of the framework's settings, as text for plans; or NULL */
	/* Processes that no step counts, with measured memory, as text; or NULL. */
	const char *beside;
};

/* The strategies of a framework; NULL for NONE, and for a framework without plans. */
const struct flmem_strategies *flmem_strategies_find(enum flmem_framework framework);

#endif
