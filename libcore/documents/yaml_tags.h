/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_YAML_TAGS_H
#define FLMEM_DOCUMENTS_YAML_TAGS_H

#include "documents/document.h"

/*
 * Calls `report` for each node whose tag, or whose value for that tag, OmegaConf 2.3 and 2.4
 * refuse.
 */
void flmem_yaml_tags_find_refused(const struct flmem_node *node,
				  void (*report)(const struct flmem_node *node, void *context),
				  void *context);

#endif
