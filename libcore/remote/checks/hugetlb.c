/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/checks/hugetlb.h"

#include <stdbool.h>
#include <sys/utsname.h>

#include "base/text/version_number.h"
#include "proc/process.h"
#include "proc/status.h"

static bool drops_whole_pages(const char *kernel)
{
	static const struct flmem_version_number first = FLMEM_VERSION_NUMBER(5, 18, 0),
						 mended = FLMEM_VERSION_NUMBER(6, 1, 0);
	struct flmem_version_number release;

	return !flmem_version_number_parse(kernel, &release, NULL) &&
	       flmem_version_number_compare(&release, &first) >= 0 &&
	       flmem_version_number_compare(&release, &mended) < 0;
}

int flmem_huge_pages_check(const struct flmem_process *process, const struct flmem_status *status,
			   struct flmem_error *err)
{
	struct utsname names;

	if (status->hugetlb_bytes.unknown || !status->hugetlb_bytes.value || uname(&names) ||
	    !drops_whole_pages(names.release))
		return 0;
	return flmem_error_set(
		err, FLMEM_EUNSUPPORTED, 0,
		"process %d uses huge pages of hugetlbfs, and Linux %.20s could drop "
		"blocks in use with the free part of one; use Linux 6.1 or later",
		(int)process->pid, names.release);
}
