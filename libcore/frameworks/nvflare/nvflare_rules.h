/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_NVFLARE_NVFLARE_RULES_H
#define FLMEM_FRAMEWORKS_NVFLARE_NVFLARE_RULES_H

/* The rules about files of NVFlare. */

#include "rules/rules.h"

extern const struct flmem_rule_table flmem_nvflare_server_rules;
extern const struct flmem_rule_table flmem_nvflare_client_rules;
extern const struct flmem_rule_table flmem_nvflare_python_rules;
extern const struct flmem_rule_table flmem_nvflare_launch_rules;
extern const struct flmem_rule_table flmem_nvflare_key_rules;
extern const struct flmem_rule_table flmem_nvflare_facts;

#endif
