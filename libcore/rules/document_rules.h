/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_RULES_DOCUMENT_RULES_H
#define FLMEM_RULES_DOCUMENT_RULES_H

#include "rules/rules.h"

/* Rules about every file with a content (enum flmem_file_content), whatever its framework. */
extern const struct flmem_rule_table flmem_document_rules;

#endif
