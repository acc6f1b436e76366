/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_APPFL_APPFL_RULES_H
#define FLMEM_FRAMEWORKS_APPFL_APPFL_RULES_H

/* The rules about files of APPFL. */

#include "rules/rules.h"

extern const struct flmem_rule_table flmem_appfl_rules;

#endif
