/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_NVFLARE_NVFLARE_LAUNCH_RULES_H
#define FLMEM_FRAMEWORKS_NVFLARE_NVFLARE_LAUNCH_RULES_H

/* What the rules about files that start NVFlare share. */

#include "frameworks/launch/launch_check.h"

/* Whether a file of Python runs a simulator; false for NULL. */
bool flmem_nvflare_is_simulation(const struct flmem_rule_input *script);

/* Whether a start has a limit of arenas by its file, perhaps by another allocator. */
bool flmem_nvflare_limits_arenas(const struct flmem_launch_check *one);

/* The same by the files that start the checked one. */
enum flmem_launch_reach flmem_nvflare_limited_by_caller(const struct flmem_check *check);

/* What a call of the script starts, or sets, that is not followed; NULL: nothing known. */
const char *flmem_nvflare_start_by(const struct flmem_check *check, const struct flmem_node *call);

/* Reports commands of the script that is checked whose variables are not followed. */
void flmem_nvflare_check_commands(struct flmem_check *check);

/* Of these only what reads variables from a file. */
void flmem_nvflare_check_loaders(struct flmem_check *check);

/* The same in an exported job. */
void flmem_nvflare_check_job_commands(struct flmem_check *check);

/*
 * Reports other texts of the script that set variables which rules check, or are commands that
 * start NVFlare: what runs them is not known. Call it after what reports commands.
 */
void flmem_nvflare_check_texts(struct flmem_check *check);

/* Whether a command of a line changes the configuration of a job: sed -i ... config_fed_server. */
bool flmem_nvflare_edits_job(const char *line);

#endif
