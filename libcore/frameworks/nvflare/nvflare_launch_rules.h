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

#endif
