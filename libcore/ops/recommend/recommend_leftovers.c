/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/recommend/recommend_leftovers.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <flmem/text.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/files/file_place.h"
#include "base/text/buf.h"
#include "ops/recommend/leftover_owner.h"
#include "proc/files/mounts.h"
#include "proc/files/path_resolve.h"
#include "proc/host_facts.h"
#include "proc/process.h"
#include "proc/status.h"
#include "rules/live_rules.h"
#include "rules/rules.h"

#define BUDGET_US  2000000U
#define PLACES_MAX 16U
#define CAP_PTRACE 19U

/* A directory for temporary files, as one process sees it. */
struct leftover_place {
	char prefix[32];     /* prefix of its path, if flmem has another root than the process */
	char path[PATH_MAX]; /* path for the process, with links resolved */
	bool shared;	     /* processes that flmem does not see may use it */
};

struct leftover_search {
	const struct flmem_leftover_row *row;
	struct flmem_recommendations *found;
	struct flmem_error *err;
	uint64_t deadline_us;
	bool reads_all; /* flmem may read the processes of all users */
	struct stat seen[PLACES_MAX];
	size_t seen_count;
};

/* Opens a path without links below a root; -1 if a part of it was replaced meanwhile. */
static int open_resolved(int root, const char *path)
{
	struct open_how how = {
		.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS,
	};

	return (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
}

/* Returns true if paths mean the same to the process and to flmem. */
static bool sees_same_paths(const struct flmem_process *process)
{
	char root[8];

	return flmem_process_shares_mounts(process) &&
	       flmem_process_readlink(process, "root", root, sizeof(root)) == 0 &&
	       strcmp(root, "/") == 0;
}

static const char *temporary_of(const struct flmem_process_report *process)
{
	const char *path = process ? flmem_live_setting(process, "TMPDIR") : getenv("TMPDIR");

	return path && path[0] == '/' ? path : "/tmp";
}

/*
 * Returns true if the directory may be shared with processes that flmem does not see: in a
 * container, this can be any file system other than the root's.
 */
static bool is_shared_place(int root, const struct stat *status)
{
	struct stat top;

	return flmem_own_pid_namespace() && (fstat(root, &top) < 0 || top.st_dev != status->st_dev);
}

/* Returns why processes that use this directory may be invisible, or NULL. */
static const char *unseen_users(const struct leftover_search *search,
				const struct leftover_place *place,
				const struct flmem_leftover *leftover)
{
	if (place->shared)
		return "processes outside of this container may use it";
	if (leftover->uid != geteuid() && !search->reads_all)
		return "it belongs to another user";
	return NULL;
}

static void put_size(const struct flmem_leftover *leftover, char *current, size_t size)
{
	char bytes[FLMEM_TEXT_BYTES_MAX], files[FLMEM_TEXT_COUNTED_MAX];

	snprintf(current, size, "%s%s in %s", leftover->partly ? "at least " : "",
		 flmem_text_bytes(leftover->bytes, bytes, sizeof(bytes)),
		 flmem_text_counted(leftover->files, "file", files, sizeof(files)));
}

static void put_doubt(const char *why, pid_t pid, struct flmem_live_remark *remark)
{
	static const enum flmem_severity info = FLMEM_SEVERITY_INFO;
	char process[32] = "";

	if (pid)
		snprintf(process, sizeof(process), "process %d ", (int)pid);
	snprintf(remark->detail, sizeof(remark->detail),
		 "cannot tell whether a process uses it: %s%s", process, why);
	remark->severity = &info;
}

static int report_leftover(struct leftover_search *search, const struct leftover_place *place,
			   const struct flmem_leftover *leftover,
			   const struct flmem_leftover_owner *owner)
{
	const char *unseen = unseen_users(search, place, leftover);
	struct flmem_live_remark remark = {.path = "size"};
	FLMEM_AUTO_BUF struct flmem_buf file = FLMEM_BUF_INIT;
	struct flmem_finding_place where = {0};

	if (owner->used || (!leftover->files && !leftover->partly))
		return 0;
	flmem_buf_printf(&file, "%s%s/%s", place->prefix,
			 strcmp(place->path, "/") == 0 ? "" : place->path, leftover->name);
	if (file.failed)
		return flmem_error_nomem(search->err, "cannot store a path");
	where.file = file.data;
	put_size(leftover, remark.current, sizeof(remark.current));
	if (unseen || owner->why)
		put_doubt(unseen ? unseen : owner->why, unseen ? 0 : owner->pid, &remark);
	else
		snprintf(remark.detail, sizeof(remark.detail), "no process uses it");
	return flmem_live_finding_add(&search->row->rule, &where, &remark, search->found,
				      search->err);
}

static int report_more(struct leftover_search *search, const struct leftover_place *place)
{
	struct flmem_error why = {0};

	flmem_error_set(&why, FLMEM_EPARTLY, 0,
			"it has too many names to search for directories %s* that were left behind",
			search->row->prefix);
	if (!flmem_recommendations_add_problem(search->found, place->path, 0, &why))
		return flmem_error_nomem(search->err, "cannot store the problem");
	search->found->problems[search->found->problem_count - 1].warning = true;
	return 0;
}

static int search_place(struct leftover_search *search, const struct leftover_place *place, int fd)
{
	FLMEM_AUTO_CLOSE int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct flmem_leftover_owner owners[FLMEM_LEFTOVERS_MAX];
	struct flmem_leftovers leftovers;
	int rc = 0;

	flmem_leftovers_find(fd, search->row->prefix, search->deadline_us, &leftovers);
	flmem_leftover_owners_find(proc, &leftovers, search->row, search->deadline_us, owners);
	for (size_t i = 0; i < leftovers.count && !rc; i++)
		rc = report_leftover(search, place, &leftovers.rows[i], &owners[i]);
	return !rc && leftovers.more ? report_more(search, place) : rc;
}

/*
 * Searches a path for temporary files. A path that cannot be opened, or that may never answer, is
 * left out.
 */
static int search_paths_of(struct leftover_search *search, const struct flmem_process *process,
			   const char *path)
{
	FLMEM_AUTO_MOUNTS struct flmem_mounts mounts = FLMEM_MOUNTS_INIT;
	FLMEM_AUTO_CLOSE int root =
		openat(process->dirfd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	FLMEM_AUTO_CLOSE int fd = -1;
	struct leftover_place place = {0};
	struct stat status;

	if (search->seen_count == PLACES_MAX || root < 0 || flmem_mounts_read(process, &mounts) ||
	    flmem_path_resolve(root, &mounts, path, place.path))
		return 0;
	fd = open_resolved(root, place.path);
	if (fd < 0 || fstat(fd, &status) < 0 ||
	    flmem_file_is_among(&status, search->seen, search->seen_count))
		return 0;
	search->seen[search->seen_count++] = status;
	if (!sees_same_paths(process))
		snprintf(place.prefix, sizeof(place.prefix), "/proc/%d/root", (int)process->pid);
	place.shared = is_shared_place(root, &status);
	return search_place(search, &place, fd);
}

static int search_process(struct leftover_search *search, pid_t pid,
			  const struct flmem_process_report *report)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;

	/* A process that has exited meanwhile is skipped. */
	if (flmem_process_open(pid, &process, NULL))
		return 0;
	return search_paths_of(search, &process, temporary_of(report));
}

static bool may_read_all(void)
{
	FLMEM_AUTO_PROCESS struct flmem_process self = FLMEM_PROCESS_INIT;
	struct flmem_status status;

	return !flmem_process_open(getpid(), &self, NULL) &&
	       !flmem_status_read(&self, &status, NULL) && !status.cap_effective.unknown &&
	       (status.cap_effective.value >> CAP_PTRACE & 1);
}

static int search_framework(const struct flmem_detect_report *report, bool of_host,
			    struct leftover_search *search)
{
	bool own = of_host;
	int rc = own ? search_process(search, getpid(), NULL) : 0;

	for (size_t i = 0; i < report->process_count && !rc; i++) {
		const struct flmem_process_report *process = &report->processes[i];

		if (process->framework != search->row->rule.framework)
			continue;
		if (!own)
			rc = search_process(search, getpid(), NULL);
		own = true;
		if (!rc)
			rc = search_process(search, process->pid, process);
	}
	return rc;
}

int flmem_recommend_leftovers(const struct flmem_detect_report *report, bool of_host,
			      const struct flmem_version_number *release,
			      struct flmem_recommendations *found, struct flmem_error *err)
{
	struct leftover_search search = {
		.found = found,
		.err = err,
		.deadline_us = flmem_clock_us() + BUDGET_US,
		.reads_all = may_read_all(),
	};
	int rc = 0;

	for (const struct flmem_framework_ops *const *f = flmem_frameworks; *f && !rc; f++) {
		search.row = (*f)->leftover;
		search.seen_count = 0;
		if (search.row && flmem_rule_holds(&search.row->rule, release))
			rc = search_framework(report, of_host, &search);
	}
	return rc;
}
