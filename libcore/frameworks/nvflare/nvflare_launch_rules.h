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

/* Whether a function of Python starts a program, by its full path. */
bool flmem_nvflare_is_start(const char *path);

/* The same of packages whose objects do so, too, also on other hosts and in containers. */
bool flmem_nvflare_starts_by_package(const char *path);

/* Whether the script that is checked calls such a function. */
bool flmem_nvflare_has_start(const struct flmem_check *check);

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

/* The line of a notebook that holds an offset of its code, by what was read of that. */
unsigned flmem_nvflare_notebook_line(const struct flmem_check *check, size_t at);

#endif
