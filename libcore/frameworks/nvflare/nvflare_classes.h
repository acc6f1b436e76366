/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_NVFLARE_NVFLARE_CLASSES_H
#define FLMEM_FRAMEWORKS_NVFLARE_NVFLARE_CLASSES_H

/*
 * What NVFlare's own classes do with memory_gc_rounds. A job file holds an argument only where it
 * differs from the default of the class (job export compares the two), so an absent key means that
 * default.
 */

#include <stdbool.h>
#include <stdint.h>

#include "frameworks/nvflare/nvflare_rules.h"

enum flmem_nvflare_part {
	FLMEM_NVFLARE_CONTROLLER,     /* runs on the server */
	FLMEM_NVFLARE_EXECUTOR,	      /* runs a training script on a client */
	FLMEM_NVFLARE_SWARM_EXECUTOR, /* aggregates on a client */
};

struct flmem_nvflare_class {
	const char *path;
	int64_t gc_default;
	enum flmem_nvflare_part part;
	bool gc_ignored; /* accepts the argument and never cleans up */
	bool legacy;	 /* of the client stack that 2.9 removed */
};

/* The class of a workflow or executor by its `path` (or built-in `name`); NULL when unknown. */
const struct flmem_nvflare_class *flmem_nvflare_class_of(const struct flmem_node *subject);

/* The last name of a dotted class path. */
const char *flmem_nvflare_short_name(const char *path);

/*
 * The value of memory_gc_rounds that is in force: the key's, or the default of the class. False
 * where it is not known. `*ret_node` is the key's value, or NULL when it is absent.
 */
bool flmem_nvflare_gc_rounds(const struct flmem_check *check, int64_t *ret_rounds,
			     const struct flmem_node **ret_node);

/* Reports on the key `name` of the subject's args, present (`node`) or not. */
void flmem_nvflare_report_arg(struct flmem_check *check, const char *name,
			      const struct flmem_node *node, struct flmem_remark remark);

/* Reports memory_gc_rounds where the value in force is 0, with the reason where it is absent. */
void flmem_nvflare_report_gc_off(struct flmem_check *check, const char *proposed);

/* num_rounds of the first workflow of the job's server that sets it; false without one. */
bool flmem_nvflare_job_rounds(const struct flmem_bundle *bundle, int64_t *ret_rounds);

/* An integer argument; false when absent or of another type. */
bool flmem_nvflare_integer(const struct flmem_input *input, const struct flmem_node *args,
			   const char *name, int64_t *ret_value);

#endif
