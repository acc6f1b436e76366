/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_APPFL_APPFL_RULES_H
#define FLMEM_FRAMEWORKS_APPFL_APPFL_RULES_H

/* The files of APPFL and the rules about them; its strategies. */

#include "frameworks/files.h"
#include "frameworks/strategies.h"
#include "rules/rules.h"

extern const struct flmem_input_kind flmem_appfl_server_file;
extern const struct flmem_input_kind flmem_appfl_client_file;

extern const struct flmem_file_name flmem_appfl_files[];
extern const struct flmem_rule_table flmem_appfl_rules;
extern const struct flmem_strategies flmem_appfl_strategies;

#endif
