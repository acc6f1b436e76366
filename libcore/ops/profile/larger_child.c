/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/attach.h>

#include <fcntl.h>

#include "base/cleanup.h"
#include "proc/process.h"
#include "proc/scan.h"
#include "proc/status.h"

static uint64_t resident_bytes_of(pid_t pid)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	struct flmem_status status;

	if (flmem_process_open(pid, &process, NULL) || flmem_status_read(&process, &status, NULL) ||
	    status.rss_bytes.unknown)
		return 0;
	return status.rss_bytes.value;
}

pid_t flmem_profile_larger_child(pid_t pid, uint64_t *ret_bytes)
{
	FLMEM_AUTO_CLOSE int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	FLMEM_AUTO_SCAN struct flmem_scan scan = {0};
	uint64_t most = resident_bytes_of(pid);
	pid_t found = 0;

	if (!most || proc < 0 || flmem_scan_read(proc, &scan, NULL))
		return 0;
	for (size_t i = 0; i < scan.count; i++) {
		uint64_t bytes;

		if (scan.rows[i].pid == pid || !flmem_scan_row_runs(&scan.rows[i]) ||
		    !flmem_scan_descends(&scan, scan.rows[i].pid, pid))
			continue;
		bytes = resident_bytes_of(scan.rows[i].pid);
		if (bytes <= most)
			continue;
		most = bytes;
		found = scan.rows[i].pid;
	}
	*ret_bytes = most;
	return found;
}
