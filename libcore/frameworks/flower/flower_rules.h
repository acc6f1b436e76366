/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_FLOWER_FLOWER_RULES_H
#define FLMEM_FRAMEWORKS_FLOWER_FLOWER_RULES_H

/* Flower's kinds of files, its rules and its strategies. */

#include "frameworks/files.h"
#include "frameworks/strategies.h"
#include "rules/heap_site_rules.h"
#include "rules/live_rules.h"
#include "rules/rules.h"

extern const struct flmem_file_name flmem_flower_files[];
extern const struct flmem_rule_table flmem_flower_rules;
extern const struct flmem_strategies flmem_flower_strategies;
extern const struct flmem_live_table flmem_flower_live_rules;
extern const struct flmem_heap_site_table flmem_flower_heap_rules;

#endif
