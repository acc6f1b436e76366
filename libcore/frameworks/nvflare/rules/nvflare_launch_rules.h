/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_NVFLARE_NVFLARE_LAUNCH_RULES_H
#define FLMEM_FRAMEWORKS_NVFLARE_NVFLARE_LAUNCH_RULES_H

/* Shared by the rules about files that start NVFlare. */

#include "frameworks/launch/launch_check.h"

/* Whether a Python file runs a simulator; false for NULL. */
bool flmem_nvflare_is_simulation(const struct flmem_rule_input *script);

/* Whether the file limits the arenas of a start, or may do so by another file or allocator. */
bool flmem_nvflare_limits_arenas(const struct flmem_launch_check *one);

/* Whether the files that start the checked one limit its arenas. */
enum flmem_launch_reach flmem_nvflare_limited_by_caller(const struct flmem_check *check);

/*
 * What a call of the script starts or sets that is not followed, as static text for a finding;
 * NULL: nothing known.
 */
const char *flmem_nvflare_start_by(const struct flmem_check *check, const struct flmem_node *call);

/* Reports commands of the checked script whose variables are not followed. */
void flmem_nvflare_check_commands(struct flmem_check *check);

/* Reports only calls of the checked script that read variables from a file. */
void flmem_nvflare_check_loaders(struct flmem_check *check);

/* Reports commands of the checked exported job whose variables are not followed. */
void flmem_nvflare_check_job_commands(struct flmem_check *check);

/*
 * Reports other strings of the checked script that set variables which rules check, or that are
 * commands which start NVFlare: it is not known what runs them. Call it after the functions that
 * report commands.
 */
void flmem_nvflare_check_texts(struct flmem_check *check);

/* Whether a line of a script changes the configuration of a job: sed -i ... config_fed_server. */
bool flmem_nvflare_edits_job(const char *line);

#endif
