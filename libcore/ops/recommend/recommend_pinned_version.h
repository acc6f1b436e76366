/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_RECOMMEND_RECOMMEND_PINNED_VERSION_H
#define FLMEM_OPS_RECOMMEND_RECOMMEND_PINNED_VERSION_H

/* The version of a framework that files which are checked together install. */

#include "base/text/version_number.h"
#include "rules/rules.h"

/*
 * The one version that "PACKAGE==VERSION" of the files names, and those that list what is to be
 * installed beside `file`; no version where they name several or none, also in comments.
 */
struct flmem_version_number flmem_recommend_pinned(const struct flmem_bundle *bundle,
						   const char *file, const char *package);

#endif
