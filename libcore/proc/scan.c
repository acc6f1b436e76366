/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/scan.h"

#include <errno.h>

#include <flmem/parse.h>

#include "base/files/io.h"
#include "proc/process.h"

#define PROCESS_LIMIT ((size_t)1 << 22) /* PID_MAX_LIMIT */

static int append_row(struct flmem_scan *scan, size_t *capacity, const struct flmem_scan_row *row)
{
	struct flmem_scan_row *grown;

	if (scan->count == *capacity) {
		*capacity = *capacity ? *capacity * 2 : 256;
		grown = reallocarray(scan->rows, *capacity, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		scan->rows = grown;
	}
	scan->rows[scan->count++] = *row;
	return 0;
}

static bool read_row(int proc_dirfd, const char *name, struct flmem_scan_row *ret_row)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	pid_t pid;

	if (flmem_parse_pid(name, &pid, NULL) ||
	    flmem_process_open_at(proc_dirfd, pid, &process, NULL))
		return false;
	*ret_row = (struct flmem_scan_row){
		.pid = pid,
		.parent = process.parent,
		.start_time = process.start_time,
		.state = process.state,
		.kernel_thread = process.kernel_thread,
	};
	return true;
}

static int compare_scan_rows(const void *a, const void *b)
{
	const struct flmem_scan_row *left = a, *right = b;

	return (left->pid > right->pid) - (left->pid < right->pid);
}

int flmem_scan_read(int proc_dirfd, struct flmem_scan *ret_scan, struct flmem_error *err)
{
	FLMEM_AUTO_SCAN struct flmem_scan scan = {0};
	FLMEM_AUTO_DIR DIR *dir = flmem_io_open_dir(proc_dirfd, ".");
	size_t capacity = 0;
	int rc = 0;

	if (!dir)
		return flmem_error_set(err, FLMEM_EFAILED, errno, "cannot list the processes");
	for (struct dirent *entry; !rc && scan.count < PROCESS_LIMIT && (entry = readdir(dir));) {
		struct flmem_scan_row row;

		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
		    read_row(proc_dirfd, entry->d_name, &row))
			rc = append_row(&scan, &capacity, &row);
	}
	if (rc)
		return flmem_error_set(err, FLMEM_EFAILED, -rc,
				       "cannot allocate the list of processes");
	if (scan.count)
		qsort(scan.rows, scan.count, sizeof(*scan.rows), compare_scan_rows);
	*ret_scan = scan;
	scan = (struct flmem_scan){0};
	return 0;
}

void flmem_scan_clear(struct flmem_scan *scan)
{
	free(scan->rows);
	*scan = (struct flmem_scan){0};
}

const struct flmem_scan_row *flmem_scan_find(const struct flmem_scan *scan, pid_t pid)
{
	const struct flmem_scan_row key = {.pid = pid};

	if (!scan->count)
		return NULL;
	return bsearch(&key, scan->rows, scan->count, sizeof(*scan->rows), compare_scan_rows);
}

bool flmem_scan_row_runs(const struct flmem_scan_row *row)
{
	return !row->kernel_thread && row->state != 'Z' && row->state != 'X';
}

bool flmem_scan_descends(const struct flmem_scan *scan, pid_t pid, pid_t ancestor)
{
	/*
	 * Parents were read at different times, so a cycle is possible: the number of steps is
	 * bounded.
	 */
	for (size_t steps = 0; steps <= scan->count && pid > 0; steps++) {
		const struct flmem_scan_row *row;

		if (pid == ancestor)
			return true;
		row = flmem_scan_find(scan, pid);
		if (!row)
			return false;
		pid = row->parent;
	}
	return false;
}
