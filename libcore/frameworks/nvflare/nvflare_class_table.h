/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_NVFLARE_NVFLARE_CLASS_TABLE_H
#define FLMEM_FRAMEWORKS_NVFLARE_NVFLARE_CLASS_TABLE_H

/* The table of the classes that nvflare_classes.h describes. Rules use that header only. */

#include "frameworks/nvflare/nvflare_classes.h"

extern const struct flmem_nvflare_class flmem_nvflare_classes[];
extern const size_t flmem_nvflare_class_count;

#endif
