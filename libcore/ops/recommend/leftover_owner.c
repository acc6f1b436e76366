/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/recommend/leftover_owner.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/clock.h"
#include "base/files/io.h"
#include "base/text/buf.h"
#include "base/text/text.h"
#include "proc/files/descriptors.h"
#include "proc/process.h"
#include "proc/scan.h"
#include "proc/status.h"

#define MAPS_MAX    ((size_t)64 << 20)
#define LINKS_MAX   65536U
#define SUFFIX	    9U	/* length of "_" and the letters of Python's tempfile */
#define UUID_LENGTH 36U /* length of the IDs that the server gives jobs */
#define SLACK_S	    60U /* margin, since the clock may have been set after the host started */

/* Identity and open files of one process, read once for all directories. */
struct owner_candidate {
	struct flmem_process process;
	struct flmem_status status;
	struct flmem_argv_env command;
	struct flmem_identity identity;
	struct flmem_buf places; /* names of what it maps and has open; untrusted text */
	uint64_t started_s;	 /* start time, since 1970-01-01 UTC */
	bool unnamed;		 /* its command line could not be read */
	bool unread;		 /* its open files could not be read */
};

static void owner_candidate_clear(struct owner_candidate *candidate)
{
	flmem_process_close(&candidate->process);
	flmem_argv_env_clear(&candidate->command);
	flmem_buf_clear(&candidate->places);
}

static bool has_gone(int negative_errno)
{
	return negative_errno == -ENOENT || negative_errno == -ESRCH;
}

/* Reads only the text of links: what they point to may never answer. */
static int read_open_files(struct owner_candidate *candidate)
{
	FLMEM_AUTO_DESCRIPTORS struct flmem_descriptors files = {0};
	int rc = flmem_descriptors_open(&candidate->process, LINKS_MAX, &files);

	if (rc)
		return rc;
	while ((rc = flmem_descriptors_next(&files)) > 0) {
		flmem_buf_puts(&candidate->places, files.target);
		flmem_buf_putc(&candidate->places, '\n');
	}
	return rc ? rc : candidate->places.failed ? -ENOMEM : 0;
}

static int read_places(struct owner_candidate *candidate)
{
	char cwd[4096];
	int rc = flmem_io_read_file_at(candidate->process.dirfd, "maps", MAPS_MAX,
				       &candidate->places);

	if (!rc)
		rc = flmem_process_readlink(&candidate->process, "cwd", cwd, sizeof(cwd));
	if (rc)
		return rc;
	flmem_buf_puts(&candidate->places, cwd);
	flmem_buf_putc(&candidate->places, '\n');
	return read_open_files(candidate);
}

static bool is_among(const struct flmem_ids *ids, uint32_t uid)
{
	return !ids->known || ids->real == uid || ids->effective == uid || ids->saved == uid ||
	       ids->fs == uid;
}

static bool is_any_users(const struct flmem_ids *ids, const struct flmem_leftovers *leftovers)
{
	for (size_t i = 0; i < leftovers->count; i++)
		if (is_among(ids, leftovers->rows[i].uid))
			return true;
	return false;
}

static void identify_candidate(struct owner_candidate *candidate, struct flmem_relatives *relatives)
{
	FLMEM_AUTO_ARGV_ENV struct flmem_argv_env words = {0};
	int rc = flmem_argv_env_read_env(&candidate->process, &words, NULL);
	struct flmem_subject subject = {
		.process = &candidate->process,
		.command = &candidate->command,
		.environment = rc ? NULL : &words,
		.relatives = relatives,
	};

	flmem_identify(&subject, &candidate->identity);
}

/* Reads a process. Returns false if it has ended, or if no directory can be its own. */
static bool read_candidate(int proc_dirfd, pid_t pid, const struct flmem_leftovers *leftovers,
			   struct flmem_relatives *relatives, struct owner_candidate *candidate)
{
	int rc;

	if (flmem_process_open_at(proc_dirfd, pid, &candidate->process, NULL) ||
	    flmem_status_read(&candidate->process, &candidate->status, NULL) ||
	    !is_any_users(&candidate->status.uid, leftovers))
		return false;
	candidate->started_s = flmem_process_started_us(&candidate->process) / 1000000U;
	rc = flmem_argv_env_read_argv(&candidate->process, &candidate->command, NULL);
	if (!rc)
		identify_candidate(candidate, relatives);
	candidate->unnamed = rc || candidate->command.cut;
	rc = read_places(candidate);
	candidate->unread = rc || candidate->unnamed;
	return !has_gone(rc);
}

/* Copies the part of the name between the prefix and the letters that make it unique. */
static void copy_job_id(const char *name, const char *prefix, char ret_id[FLMEM_LEFTOVER_NAME_MAX])
{
	size_t skip = strlen(prefix), length = strlen(name + skip);

	length = length > SUFFIX ? length - SUFFIX : 0;
	memcpy(ret_id, name + skip, length);
	ret_id[length] = '\0';
}

static bool is_uuid(const char *id)
{
	return strlen(id) == UUID_LENGTH && strspn(id, "0123456789abcdefABCDEF-") == UUID_LENGTH &&
	       id[8] == '-' && id[13] == '-' && id[18] == '-' && id[23] == '-';
}

static bool names_job(const struct flmem_argv_env *command, const char *id)
{
	for (size_t i = 0; i < command->count; i++)
		if (strstr(command->values[i], id))
			return true;
	return false;
}

/*
 * Returns why the process may be the one that created the directory, or NULL. The command lines of
 * a job's processes contain the ID of the job if a server gave it; elsewhere all jobs have the same
 * ID.
 */
static const char *doubt_of(const struct owner_candidate *candidate, bool named,
			    enum flmem_framework framework)
{
	enum flmem_role role = candidate->identity.role;

	if (named ? candidate->unnamed : candidate->unread)
		return "could not be read";
	if (named)
		return NULL;
	if (candidate->identity.framework == framework)
		return role == FLMEM_ROLE_SERVER || role == FLMEM_ROLE_CLIENT
			       ? NULL
			       : "is older and may have created it";
	return strstr(candidate->places.data, "python")
		       ? "runs Python, is older and may have created it"
		       : NULL;
}

static void judge_candidate(const struct owner_candidate *candidate,
			    const struct flmem_leftover *leftover,
			    const struct flmem_leftover_row *row,
			    struct flmem_leftover_owner *owner)
{
	bool later = leftover->created_s && candidate->started_s > leftover->created_s + SLACK_S;
	const char *why = NULL;
	char id[FLMEM_LEFTOVER_NAME_MAX];

	if (owner->used || !is_among(&candidate->status.uid, leftover->uid))
		return;
	copy_job_id(leftover->name, row->prefix, id);
	owner->used = strstr(candidate->places.data, leftover->name) ||
		      (is_uuid(id) && names_job(&candidate->command, id));
	if (!owner->used && !later)
		why = doubt_of(candidate, is_uuid(id), row->rule.framework);
	if (owner->used || (why && !owner->why)) {
		owner->why = why;
		owner->pid = candidate->process.pid;
	}
}

static void judge_process(int proc_dirfd, pid_t pid, const struct flmem_leftovers *leftovers,
			  const struct flmem_leftover_row *row, struct flmem_relatives *relatives,
			  struct flmem_leftover_owner *owners)
{
	FLMEM_AUTO(owner_candidate_clear)
	struct owner_candidate candidate = {.process = FLMEM_PROCESS_INIT,
					    .places = FLMEM_BUF_INIT};

	if (read_candidate(proc_dirfd, pid, leftovers, relatives, &candidate))
		for (size_t i = 0; i < leftovers->count; i++)
			judge_candidate(&candidate, &leftovers->rows[i], row, &owners[i]);
}

static void set_all_unknown(const char *why, size_t count, struct flmem_leftover_owner *owners)
{
	for (size_t i = 0; i < count; i++)
		if (!owners[i].used)
			owners[i] = (struct flmem_leftover_owner){.why = why};
}

void flmem_leftover_owners_find(int proc_dirfd, const struct flmem_leftovers *leftovers,
				const struct flmem_leftover_row *row, uint64_t deadline_us,
				struct flmem_leftover_owner ret_owners[FLMEM_LEFTOVERS_MAX])
{
	FLMEM_AUTO_RELATIVES struct flmem_relatives relatives = {.proc_dirfd = proc_dirfd};
	FLMEM_AUTO_SCAN struct flmem_scan scan = {0};

	memset(ret_owners, 0, FLMEM_LEFTOVERS_MAX * sizeof(*ret_owners));
	if (!leftovers->count)
		return;
	if (flmem_scan_read(proc_dirfd, &scan, NULL)) {
		set_all_unknown("the processes cannot be listed", leftovers->count, ret_owners);
		return;
	}
	for (size_t i = 0; i < scan.count; i++) {
		if (flmem_clock_us() > deadline_us) {
			set_all_unknown("there are too many processes to check in time",
					leftovers->count, ret_owners);
			return;
		}
		if (flmem_scan_row_runs(&scan.rows[i]))
			judge_process(proc_dirfd, scan.rows[i].pid, leftovers, row, &relatives,
				      ret_owners);
	}
}
