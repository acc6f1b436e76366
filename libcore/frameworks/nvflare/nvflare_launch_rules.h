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

#endif
