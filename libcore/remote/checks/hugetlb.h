/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_CHECKS_HUGETLB_H
#define FLMEM_REMOTE_CHECKS_HUGETLB_H

/*
 * Detects kernels that lose data of huge pages. Linux 5.18 to 6.0 rounds the end of a range up to a
 * whole huge page where madvise() drops memory of hugetlbfs, so an allocator that drops a part of
 * one loses the blocks after it. 6.1 rounds down ("mm,madvise,hugetlb: fix unexpected data loss
 * with MADV_DONTNEED on hugetlbfs"), earlier kernels refuse the call. Updates of 5.19 and 6.0 may
 * contain the fix, which the release number does not show.
 */

#include <flmem/error.h>

struct flmem_process;
struct flmem_status;

/* FLMEM_EUNSUPPORTED on such a kernel if the process has huge pages of hugetlbfs. */
int flmem_huge_pages_check(const struct flmem_process *process, const struct flmem_status *status,
			   struct flmem_error *err);

#endif
