/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_RECOMMEND_RECOMMEND_PINNED_VERSION_H
#define FLMEM_OPS_RECOMMEND_RECOMMEND_PINNED_VERSION_H

/* The framework version that the files of one check install. */

#include "base/text/version_number.h"
#include "rules/rules.h"

/*
 * Returns the one version that "PACKAGE==VERSION" names, in these files and in lists of packages to
 * install beside `file`; no version if they name none or several. Comments count, too.
 */
struct flmem_version_number flmem_recommend_pinned(const struct flmem_bundle *bundle,
						   const char *file, const char *package);

#endif
