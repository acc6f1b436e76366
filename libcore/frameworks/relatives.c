/* SPDX-License-Identifier: Apache-2.0 */
#include "frameworks/framework.h"

#include "proc/process.h"

/*
 * Reads all processes at the first call. On failure the list is empty, so that no process has
 * relatives.
 */
static void read_processes_once(struct flmem_relatives *relatives)
{
	if (relatives->read)
		return;
	relatives->read = true;
	flmem_scan_read(relatives->proc_dirfd, &relatives->scan, NULL);
}

void flmem_relatives_clear(struct flmem_relatives *relatives)
{
	flmem_scan_clear(&relatives->scan);
	relatives->read = false;
}

static bool passes_test(const struct flmem_relatives *relatives, const struct flmem_scan_row *row,
			flmem_relatives_test *test)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	FLMEM_AUTO_ARGV_ENV struct flmem_argv_env command = {0};

	return flmem_scan_row_runs(row) &&
	       flmem_process_open_at(relatives->proc_dirfd, row->pid, &process, NULL) == 0 &&
	       process.start_time == row->start_time &&
	       flmem_argv_env_read_argv(&process, &command, NULL) == 0 && test(&command);
}

bool flmem_relatives_has_child(struct flmem_relatives *relatives, pid_t pid,
			       flmem_relatives_test *test)
{
	read_processes_once(relatives);
	for (size_t i = 0; i < relatives->scan.count; i++)
		if (relatives->scan.rows[i].parent == pid &&
		    passes_test(relatives, &relatives->scan.rows[i], test))
			return true;
	return false;
}

bool flmem_relatives_is(struct flmem_relatives *relatives, pid_t pid, flmem_relatives_test *test)
{
	const struct flmem_scan_row *row;

	read_processes_once(relatives);
	row = flmem_scan_find(&relatives->scan, pid);
	return row && passes_test(relatives, row, test);
}
