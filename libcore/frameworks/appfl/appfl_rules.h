/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_APPFL_APPFL_RULES_H
#define FLMEM_FRAMEWORKS_APPFL_APPFL_RULES_H

/* The rules about files of APPFL. */

#include "frameworks/files.h"
#include "rules/rules.h"

extern const struct flmem_input_kind flmem_appfl_server_file;
extern const struct flmem_input_kind flmem_appfl_client_file;

extern const struct flmem_file_name flmem_appfl_files[];
extern const struct flmem_rule_table flmem_appfl_rules;

#endif
