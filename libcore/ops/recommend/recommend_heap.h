/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_RECOMMEND_RECOMMEND_HEAP_H
#define FLMEM_OPS_RECOMMEND_RECOMMEND_HEAP_H

#include <flmem/recommend.h>

#include "base/text/version_number.h"

/*
 * Checks a heap profile against the rules about heap profiles, and about the code of frameworks. An
 * unreadable profile becomes a problem in `found`. FLMEM_EFAILED if memory is out.
 */
int flmem_recommend_heap(const char *path, const struct flmem_version_number *release,
			 struct flmem_recommendations *found, struct flmem_error *err);

#endif
