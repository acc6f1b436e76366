/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/watch/watched_process.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>

#include "base/text/redact.h"
#include "frameworks/framework.h"
#include "ops/watch/pressures.h"
#include "proc/status.h"
#include "remote/checks/preflight.h"

#define COMMAND_WORDS_MAX 4096U

/* Samples between two reads of the split, while counters change, and while they do not. */
#define SPLIT_EVERY	  30U
#define SPLIT_EVERY_QUIET 240U

/* File descriptors reserved for the rest of a watch. */
#define SPARE_DESCRIPTORS 16U

static const char not_read[] = "the process ended before it could be read";

static void free_identity(struct flmem_watch_process *id)
{
	free(id->command);
	free(id->site);
	id->command = id->site = NULL;
}

static int find_identity(const struct flmem_watched_process *watched,
			 const struct flmem_argv_env *command,
			 const struct flmem_argv_env *environment,
			 struct flmem_relatives *relatives, struct flmem_watch_process *ret_id)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	struct flmem_subject subject = {
		.process = &watched->process,
		.command = command,
		.environment = environment,
		.relatives = relatives,
	};
	struct flmem_identity identity;
	struct flmem_watch_process id = watched->id;

	flmem_identify(&subject, &identity);
	id.framework = identity.framework;
	id.role = identity.role;
	flmem_redact_command(
		command->values,
		command->count < COMMAND_WORDS_MAX ? command->count : COMMAND_WORDS_MAX, &text);
	id.command = flmem_buf_take(&text);
	id.site = identity.site[0] ? strdup(identity.site) : NULL;
	if (!id.command || (!id.site && identity.site[0])) {
		free_identity(&id);
		return -ENOMEM;
	}
	*ret_id = id;
	return 0;
}

static int identify_process(struct flmem_watched_process *watched,
			    struct flmem_relatives *relatives, struct flmem_watch_process *ret_id,
			    struct flmem_error *err)
{
	FLMEM_AUTO_ARGV_ENV struct flmem_argv_env command = {0}, environment = {0};
	int rc;

	/* Read this before the command line, so that an exec in between is noticed later. */
	if (flmem_process_arguments_at(&watched->process, &watched->arguments_at))
		watched->arguments_at = 0;
	rc = flmem_argv_env_read_argv(&watched->process, &command, err);
	if (rc)
		return rc;
	rc = flmem_argv_env_read_env(&watched->process, &environment, NULL);
	if (find_identity(watched, &command, rc ? NULL : &environment, relatives, ret_id))
		return flmem_error_nomem(err, "cannot follow process %d", (int)watched->id.pid);
	return 0;
}

struct flmem_watched_process *flmem_watched_process_new(struct flmem_watch_process *id,
							uint64_t interval_us,
							struct flmem_error *err)
{
	FLMEM_AUTO_WATCHED_PROCESS struct flmem_watched_process *watched =
		calloc(1, sizeof(*watched));
	bool whole = watched && id->command;

	if (watched) {
		watched->id = *id;
		watched->process = (struct flmem_process)FLMEM_PROCESS_INIT;
		watched->statm = -1;
		watched->group_peak = (struct flmem_group_peak)FLMEM_GROUP_PEAK_INIT;
		watched->split = (struct flmem_watch_split){
			FLMEM_UNKNOWN(not_read), FLMEM_UNKNOWN(not_read), FLMEM_UNKNOWN(not_read),
			FLMEM_UNKNOWN(not_read)};
		flmem_history_init(&watched->history, interval_us ? interval_us : 1);
		watched->group = FLMEM_PRESSURES_NONE;
		flmem_pressure_init(&watched->pressure, not_read);
		watched->pressure_first = watched->pressure;
	} else {
		free_identity(id);
	}
	if (whole)
		return FLMEM_TAKE(watched);
	flmem_error_nomem(err, "cannot follow process %d", (int)id->pid);
	return NULL;
}

/*
 * Estimates how many descriptors are left: the kernel assigns the lowest free number, which shows
 * how many are in use.
 */
static rlim_t descriptors_left(int fd)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return 0;
	return (rlim_t)fd < limit.rlim_cur ? limit.rlim_cur - (rlim_t)fd : 0;
}

static int open_counters(const struct flmem_watched_process *watched)
{
	int fd = openat(watched->process.dirfd, "statm", O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/*
 * Keeps the directory open, which identifies the process, and the counters if descriptors are left.
 */
static int open_files(struct flmem_watched_process *watched, uint64_t start_time,
		      struct flmem_error *err)
{
	int rc = flmem_process_open(watched->id.pid, &watched->process, err);

	if (rc)
		return rc;
	if (start_time && watched->process.start_time != start_time)
		return flmem_error_set(err, FLMEM_ENOPROC, 0, "process %d has exited",
				       (int)watched->id.pid);
	watched->id.start_time = watched->process.start_time;
	rc = flmem_preflight_identity(&watched->process, err);
	if (rc)
		return rc;
	flmem_process_unpin(&watched->process);
	if (descriptors_left(watched->process.dirfd) <= SPARE_DESCRIPTORS)
		return flmem_error_set(err, FLMEM_EFAILED, EMFILE, "cannot follow process %d",
				       (int)watched->id.pid);
	watched->statm = open_counters(watched);
	if (watched->statm < 0)
		return flmem_process_error(&watched->process, watched->statm,
					   "read the memory counters", err);
	/*
	 * Half of the descriptors are for directories: a process cannot be followed without its
	 * directory.
	 */
	if (descriptors_left(watched->statm) <= (rlim_t)watched->statm) {
		close(watched->statm);
		watched->statm = -1;
	}
	return 0;
}

int flmem_watched_process_open(pid_t pid, uint64_t start_time, uint64_t interval_us,
			       struct flmem_relatives *relatives,
			       struct flmem_watched_process **ret_watched, struct flmem_error *err)
{
	struct flmem_watch_process id = {.pid = pid, .command = strdup("")};
	FLMEM_AUTO_WATCHED_PROCESS struct flmem_watched_process *watched =
		flmem_watched_process_new(&id, interval_us, err);
	int rc;

	if (!watched)
		return FLMEM_EFAILED;
	rc = open_files(watched, start_time, err);
	if (!rc)
		rc = identify_process(watched, relatives, &id, err);
	if (rc)
		return rc;
	free_identity(&watched->id);
	watched->id = id;
	*ret_watched = FLMEM_TAKE(watched);
	return 0;
}

void flmem_watched_process_end(struct flmem_watched_process *watched)
{
	watched->ended = true;
	flmem_process_close(&watched->process);
	flmem_group_peak_close(&watched->group_peak);
	flmem_cleanup_close(&watched->statm);
	watched->statm = -1;
}

void flmem_watched_process_free(struct flmem_watched_process *watched)
{
	if (!watched)
		return;
	flmem_watched_process_end(watched);
	free_identity(&watched->id);
	free(watched->trim_state);
	free(watched);
}

/* Parses the digits of one count, and the space after them. */
static bool set_page_counts(const char **at, uint64_t *ret_pages)
{
	const char *first = *at;
	uint64_t pages = 0;

	for (; **at >= '0' && **at <= '9'; ++*at)
		if (__builtin_mul_overflow(pages, 10, &pages) ||
		    __builtin_add_overflow(pages, (uint64_t)(**at - '0'), &pages))
			return false;
	*ret_pages = pages;
	return *at != first && *(*at)++ == ' ';
}

/* The counters of a sample. */
struct statm_counters {
	uint64_t size, resident, shared, code;
};

/*
 * Parses "SIZE RESIDENT SHARED CODE ...", in pages. All are 0 once the process is a zombie, and the
 * result is then false.
 */
static bool parse_counters(const char *text, struct statm_counters *ret_counters)
{
	return set_page_counts(&text, &ret_counters->size) && ret_counters->size &&
	       set_page_counts(&text, &ret_counters->resident) &&
	       set_page_counts(&text, &ret_counters->shared) &&
	       set_page_counts(&text, &ret_counters->code);
}

static uint64_t page_bytes(void)
{
	static uint64_t size;

	if (!size)
		size = (uint64_t)sysconf(_SC_PAGESIZE);
	return size;
}

void flmem_watched_process_count(struct flmem_watched_process *watched, uint64_t now_us,
				 uint64_t bytes)
{
	if (!watched->history.samples) {
		watched->first_us = now_us;
		watched->first_bytes = watched->lowest_bytes = bytes;
	}
	watched->last_us = now_us;
	watched->last_bytes = bytes;
	if (bytes < watched->lowest_bytes)
		watched->lowest_bytes = bytes;
	if (bytes > watched->peak_bytes)
		watched->peak_bytes = bytes;
	flmem_history_add(&watched->history, now_us, bytes);
}

void flmem_watched_process_begin_again(struct flmem_watched_process *watched, uint64_t interval_us)
{
	flmem_history_init(&watched->history, interval_us ? interval_us : 1);
	flmem_round_stats_init(&watched->rounds, interval_us, false);
	watched->trend.version = 0;
}

static ssize_t read_counters(const struct flmem_watched_process *watched, char *text, size_t size)
{
	FLMEM_AUTO_CLOSE int own = -1;
	int fd = watched->statm;
	ssize_t got;

	if (fd < 0)
		fd = own = open_counters(watched);
	if (fd < 0)
		return fd;
	got = pread(fd, text, size - 1, 0);
	if (got < 0)
		return -errno;
	text[got] = '\0';
	return got;
}

int flmem_watched_process_sample(struct flmem_watched_process *watched, uint64_t now_us)
{
	char text[192];
	struct statm_counters now;
	ssize_t got = read_counters(watched, text, sizeof(text));

	if (got == -EMFILE || got == -ENFILE || got == -ENOMEM)
		return FLMEM_EFAILED;
	if (got <= 0 || !parse_counters(text, &now))
		return FLMEM_ENOPROC;
	now.resident *= page_bytes();
	watched->changed |=
		now.resident != watched->last_bytes || now.shared != watched->shared_pages;
	watched->shared_pages = now.shared;
	/* The code size of a program is constant. */
	watched->execed |= now.code != watched->code_pages && watched->history.samples;
	watched->code_pages = now.code;
	flmem_watched_process_count(watched, now_us, now.resident);
	return 0;
}

bool flmem_watched_process_split_is_due(const struct flmem_watched_process *watched)
{
	uint64_t turn = watched->history.samples - 1 + watched->number;

	return watched->history.samples == 1 ||
	       turn % (watched->changed ? SPLIT_EVERY : SPLIT_EVERY_QUIET) == 0;
}

void flmem_watched_process_split(struct flmem_watched_process *watched)
{
	struct flmem_status status;
	uint64_t arguments_at;

	watched->changed = false;
	/* The process may have executed the same program again. */
	watched->execed |= !flmem_process_arguments_at(&watched->process, &arguments_at) &&
			   arguments_at && arguments_at != watched->arguments_at;
	if (flmem_status_read(&watched->process, &status, NULL))
		return;
	watched->split = (struct flmem_watch_split){
		.anon_bytes = status.anon_bytes,
		.file_bytes = status.file_bytes,
		.shmem_bytes = status.shmem_bytes,
		.swap_bytes = status.swap_bytes,
	};
}

static bool is_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool is_called(const struct flmem_watch_process *id, const struct flmem_watch_process *as)
{
	return id->framework == as->framework && id->role == as->role &&
	       is_text(id->command, as->command) && is_text(id->site, as->site);
}

bool flmem_watched_process_identify(struct flmem_watched_process *watched,
				    struct flmem_relatives *relatives)
{
	struct flmem_watched_process *f = watched;
	struct flmem_watch_process id = {0};
	bool same;

	if (f->identified_at && f->history.samples - f->identified_at < SPLIT_EVERY)
		return false;
	f->identified_at = f->history.samples;
	f->execed = false;
	if (identify_process(f, relatives, &id, NULL))
		return false;
	/* A process that is ending has no command line. */
	same = is_text(id.command, "") || is_called(&f->id, &id);
	free_identity(same ? &id : &f->id);
	if (same)
		return false;
	f->id = id;
	free(f->trim_state);
	f->trim_state = NULL;
	return true;
}

int flmem_watched_process_rename(struct flmem_watched_process *watched,
				 const struct flmem_watch_process *as, struct flmem_error *err)
{
	struct flmem_watch_process id = watched->id;

	if (is_called(&watched->id, as))
		return 0;
	id.framework = as->framework;
	id.role = as->role;
	id.command = strdup(as->command);
	id.site = as->site ? strdup(as->site) : NULL;
	if (!id.command || (as->site && !id.site)) {
		free_identity(&id);
		return flmem_error_nomem(err, "cannot store the identity of process %d",
					 (int)watched->id.pid);
	}
	free_identity(&watched->id);
	watched->id = id;
	return 0;
}
