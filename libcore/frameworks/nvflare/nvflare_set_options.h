/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_NVFLARE_NVFLARE_SET_OPTIONS_H
#define FLMEM_FRAMEWORKS_NVFLARE_NVFLARE_SET_OPTIONS_H

/*
 * Reads KEY=VALUE after --set of a command that runs NVFlare. A value there takes precedence over
 * files and the environment, and reaches the processes of jobs (fuel/utils/config_service.py).
 */

#include "frameworks/nvflare/nvflare_comm.h"
#include "rules/rules.h"

#define FLMEM_NVFLARE_SETS_MAX 32

/* One word after --set. */
struct flmem_nvflare_set {
	const char *key; /* not terminated; `length` bytes */
	size_t length;
	struct flmem_place place;
	bool open; /* the word is a variable, which may hold any key */
	char value[64];
};

/* The words of one command. */
struct flmem_nvflare_sets {
	struct flmem_nvflare_set rows[FLMEM_NVFLARE_SETS_MAX];
	size_t count;
};

typedef void flmem_nvflare_sets_look(const struct flmem_nvflare_sets *sets, void *context);

/* Calls `look` for each such command of a file that starts programs. */
void flmem_nvflare_sets_each(const struct flmem_rule_input *input, flmem_nvflare_sets_look *look,
			     void *context);

/* The last row with a key; NULL if the command does not set it. */
const struct flmem_nvflare_set *flmem_nvflare_set_find(const struct flmem_nvflare_sets *sets,
						       const char *key);

/* Reports a word after --set, as the value of a key; `detail` may be NULL. */
void flmem_nvflare_set_report(struct flmem_check *check, const struct flmem_nvflare_set *row,
			      const char *key, const char *detail);

/* The value that NVFlare reads: parse_vars(), then int(). */
struct flmem_comm_value flmem_nvflare_set_value(const char *text);

#endif
