/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_NVFLARE_NVFLARE_RULES_H
#define FLMEM_FRAMEWORKS_NVFLARE_NVFLARE_RULES_H

/* The rules about files of NVFlare. */

#include "frameworks/files.h"
#include "rules/rules.h"

extern const struct flmem_input_kind flmem_nvflare_meta_file;
extern const struct flmem_input_kind flmem_nvflare_server_file;
extern const struct flmem_input_kind flmem_nvflare_client_file;
extern const struct flmem_input_kind flmem_nvflare_python_file;
extern const struct flmem_input_kind flmem_nvflare_launch_file;

extern const struct flmem_file_name flmem_nvflare_files[];
extern const struct flmem_job_layout flmem_nvflare_jobs;

extern const struct flmem_rule_table flmem_nvflare_server_rules;
extern const struct flmem_rule_table flmem_nvflare_client_rules;
extern const struct flmem_rule_table flmem_nvflare_python_rules;
extern const struct flmem_rule_table flmem_nvflare_launch_rules;
extern const struct flmem_rule_table flmem_nvflare_key_rules;
extern const struct flmem_rule_table flmem_nvflare_facts;

#endif
