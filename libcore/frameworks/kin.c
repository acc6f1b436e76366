/* SPDX-License-Identifier: Apache-2.0 */
#include "frameworks/framework.h"

#include "proc/process.h"

/* A snapshot that cannot be taken is an empty one: nobody has relatives then. */
static void read_once(struct flmem_kin *kin)
{
	if (kin->read)
		return;
	kin->read = true;
	flmem_scan_read(kin->proc_dirfd, &kin->scan, NULL);
}

void flmem_kin_clear(struct flmem_kin *kin)
{
	flmem_scan_clear(&kin->scan);
	kin->read = false;
}

static bool passes(const struct flmem_kin *kin, const struct flmem_scan_row *row,
		   flmem_kin_test *test)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	FLMEM_AUTO_WORDS struct flmem_words command = {0};

	return flmem_scan_row_runs(row) &&
	       flmem_process_open_at(kin->proc_dirfd, row->pid, &process, NULL) == 0 &&
	       process.start_time == row->start_time &&
	       flmem_words_read_command(&process, &command, NULL) == 0 && test(&command);
}

bool flmem_kin_has_child(struct flmem_kin *kin, pid_t pid, flmem_kin_test *test)
{
	read_once(kin);
	for (size_t i = 0; i < kin->scan.count; i++)
		if (kin->scan.rows[i].parent == pid && passes(kin, &kin->scan.rows[i], test))
			return true;
	return false;
}

bool flmem_kin_is(struct flmem_kin *kin, pid_t pid, flmem_kin_test *test)
{
	const struct flmem_scan_row *row;

	read_once(kin);
	row = flmem_scan_find(&kin->scan, pid);
	return row && passes(kin, row, test);
}
