/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/watch/round_logs.h"

#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text/text.h"
#include "proc/files/descriptors.h"
#include "proc/process.h"

/* Most descriptors of one process that are checked. */
#define DESCRIPTORS_MAX 4096U

int flmem_round_logs_open(const char *const *paths, size_t count, const char *regex, off_t back,
			  struct flmem_round_logs *ret_logs, struct flmem_error *err)
{
	FLMEM_AUTO(flmem_round_logs_clear) struct flmem_round_logs logs = {0};
	int rc = flmem_rounds_init(&logs.shared, regex, err);

	if (rc)
		return rc;
	logs.logs = calloc(count ? count : 1, sizeof(*logs.logs));
	logs.own = calloc(count ? count : 1, sizeof(*logs.own));
	logs.lines = calloc(count ? count : 1, sizeof(*logs.lines));
	logs.marks = calloc(count ? count : 1, sizeof(*logs.marks));
	if (!logs.logs || !logs.own || !logs.lines || !logs.marks)
		return flmem_error_nomem(err, "cannot follow the logs");
	for (; logs.count < count; logs.count++) {
		struct flmem_log *log = &logs.logs[logs.count];

		rc = flmem_log_open(paths[logs.count], back, log, err);
		if (rc)
			return rc;
		rc = flmem_rounds_init(&logs.own[logs.count], regex, err);
		if (rc) {
			flmem_log_close(log);
			return rc;
		}
	}
	*ret_logs = logs;
	logs = (struct flmem_round_logs){0};
	return 0;
}

void flmem_round_logs_clear(struct flmem_round_logs *logs)
{
	for (size_t i = 0; i < logs->count; i++) {
		flmem_log_close(&logs->logs[i]);
		flmem_rounds_clear(&logs->own[i]);
	}
	free(logs->logs);
	free(logs->own);
	free(logs->lines);
	free(logs->marks);
	flmem_rounds_clear(&logs->shared);
	*logs = (struct flmem_round_logs){0};
}

/* The context of reading the lines of a log. */
struct log_reading {
	struct flmem_round_logs *logs;
	size_t log;
	flmem_round_logs_visit *visit;
	void *context;
};

static void read_line(void *context, char *line, size_t length)
{
	const struct log_reading *r = context;
	struct flmem_round_change change;
	bool marks = flmem_rounds_read(&r->logs->shared, r->log, line, length, &change);

	r->logs->lines[r->log]++;
	r->logs->marks[r->log] += marks;
	if (marks)
		r->visit(r->context, FLMEM_ROUND_LOGS_SHARED, &change);
	if (r->logs->count > 1 &&
	    flmem_rounds_read(&r->logs->own[r->log], 0, line, length, &change))
		r->visit(r->context, r->log, &change);
}

void flmem_round_logs_read(struct flmem_round_logs *logs, flmem_round_logs_visit *visit,
			   void *context)
{
	struct flmem_round_change change;

	for (size_t i = 0; i < logs->count; i++) {
		struct log_reading reading = {logs, i, visit, context};

		flmem_log_poll(&logs->logs[i], read_line, &reading);
	}
	if (flmem_rounds_pause(&logs->shared, &change))
		visit(context, FLMEM_ROUND_LOGS_SHARED, &change);
	for (size_t i = 0; i < logs->count; i++)
		if (flmem_rounds_pause(&logs->own[i], &change))
			visit(context, i, &change);
}

static bool is_log(const struct flmem_log *log, const struct stat *status)
{
	return log->fd >= 0 && log->device == status->st_dev && log->inode == status->st_ino;
}

/*
 * Returns the log that one of the descriptors refers to. Only files with the right name are
 * examined: a file server that hangs would block.
 */
static size_t log_of_descriptor(const struct flmem_round_logs *logs,
				const struct flmem_descriptors *files)
{
	const char *name = flmem_text_basename(files->target);
	struct stat status;

	for (size_t i = 0; i < logs->count; i++)
		if (strcmp(name, flmem_text_basename(logs->logs[i].path)) == 0 &&
		    fstatat(dirfd(files->dir), files->name, &status, 0) == 0 &&
		    is_log(&logs->logs[i], &status))
			return i;
	return FLMEM_ROUND_LOGS_SHARED;
}

size_t flmem_round_logs_of(const struct flmem_round_logs *logs, const struct flmem_process *process)
{
	FLMEM_AUTO_DESCRIPTORS struct flmem_descriptors files = {0};
	size_t found = FLMEM_ROUND_LOGS_SHARED;

	/* A single log belongs to every process. */
	if (logs->count < 2 || flmem_descriptors_open(process, DESCRIPTORS_MAX, &files))
		return found;
	while (found == FLMEM_ROUND_LOGS_SHARED && flmem_descriptors_next(&files) > 0)
		found = log_of_descriptor(logs, &files);
	return found;
}
