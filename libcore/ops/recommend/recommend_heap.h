/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_RECOMMEND_RECOMMEND_HEAP_H
#define FLMEM_OPS_RECOMMEND_RECOMMEND_HEAP_H

#include <flmem/recommend.h>

/*
 * Checks a heap profile against the rules about them. An unreadable one becomes a problem in
 * `found`. FLMEM_EFAILED when out of memory.
 */
int flmem_recommend_heap(const char *path, struct flmem_recommendations *found,
			 struct flmem_error *err);

#endif
