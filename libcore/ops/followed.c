/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/followed.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>

#include "base/redact.h"
#include "frameworks/framework.h"
#include "ops/pressures.h"
#include "proc/status.h"

#define COMMAND_WORDS_MAX 4096U

/* Samples from one split to the next, while the counters change and while they do not. */
#define SPLIT_EVERY	  30U
#define SPLIT_EVERY_QUIET 240U

/* Descriptors that the rest of a watch may need at a time. */
#define SPARE_DESCRIPTORS 16U

static const char not_read[] = "it could not be read before the process ended";

static int fill_identity(struct flmem_followed *f, const struct flmem_words *command,
			 const struct flmem_words *environment, struct flmem_kin *kin)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	struct flmem_subject subject = {
		.process = &f->process,
		.command = command,
		.environment = environment,
		.kin = kin,
	};
	struct flmem_identity identity;

	flmem_identify(&subject, &identity);
	f->id.framework = identity.framework;
	f->id.role = identity.role;
	flmem_redact_command(
		command->values,
		command->count < COMMAND_WORDS_MAX ? command->count : COMMAND_WORDS_MAX, &text);
	free(f->id.command);
	f->id.command = flmem_buf_take(&text);
	if (identity.site[0])
		f->id.site = strdup(identity.site);
	return f->id.command && (f->id.site || !identity.site[0]) ? 0 : -ENOMEM;
}

static int identify(struct flmem_followed *f, struct flmem_kin *kin, struct flmem_error *err)
{
	FLMEM_AUTO_WORDS struct flmem_words command = {0}, environment = {0};
	int rc = flmem_words_read_command(&f->process, &command, err);

	if (rc)
		return rc;
	rc = flmem_words_read_environment(&f->process, &environment, NULL);
	if (fill_identity(f, &command, rc ? NULL : &environment, kin))
		return flmem_error_set(err, FLMEM_EFAILED, ENOMEM, "cannot follow process %d",
				       (int)f->id.pid);
	return 0;
}

struct flmem_followed *flmem_followed_new(struct flmem_watch_process *id, uint64_t interval_us,
					  struct flmem_error *err)
{
	FLMEM_AUTO_FOLLOWED struct flmem_followed *f = calloc(1, sizeof(*f));
	bool whole = f && id->command;

	if (f) {
		f->id = *id;
		f->process = (struct flmem_process)FLMEM_PROCESS_INIT;
		f->statm = -1;
		f->split = (struct flmem_watch_split){
			FLMEM_UNKNOWN(not_read), FLMEM_UNKNOWN(not_read), FLMEM_UNKNOWN(not_read),
			FLMEM_UNKNOWN(not_read)};
		flmem_history_init(&f->history, interval_us ? interval_us : 1);
		f->group = FLMEM_PRESSURES_NONE;
		flmem_pressure_init(&f->pressure, not_read);
		f->pressure_first = f->pressure;
	} else {
		free(id->command);
		free(id->site);
	}
	if (whole)
		return FLMEM_TAKE(f);
	flmem_error_set(err, FLMEM_EFAILED, ENOMEM, "cannot follow process %d", (int)id->pid);
	return NULL;
}

/* The lowest free number is the next one, so it tells how many are taken. */
static rlim_t descriptors_left(int fd)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return 0;
	return (rlim_t)fd < limit.rlim_cur ? limit.rlim_cur - (rlim_t)fd : 0;
}

static int open_counters(const struct flmem_followed *f)
{
	int fd = openat(f->process.dirfd, "statm", O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* Kept: the directory, which stands for the process, and where there is room the counters. */
static int open_files(struct flmem_followed *f, uint64_t start_time, struct flmem_error *err)
{
	int rc = flmem_process_open(f->id.pid, &f->process, err);

	if (rc)
		return rc;
	if (start_time && f->process.start_time != start_time)
		return flmem_error_set(err, FLMEM_ENOPROC, 0, "process %d is gone", (int)f->id.pid);
	f->id.start_time = f->process.start_time;
	flmem_process_unpin(&f->process);
	if (descriptors_left(f->process.dirfd) <= SPARE_DESCRIPTORS)
		return flmem_error_set(err, FLMEM_EFAILED, EMFILE,
				       "cannot follow process %d beside so many others; raise the "
				       "limit of open files (ulimit -n)",
				       (int)f->id.pid);
	f->statm = open_counters(f);
	if (f->statm < 0)
		return flmem_process_error(&f->process, f->statm, "read the memory counters", err);
	/* The second half is for directories: without its directory no process can be followed. */
	if (descriptors_left(f->statm) <= (rlim_t)f->statm) {
		close(f->statm);
		f->statm = -1;
	}
	return 0;
}

int flmem_followed_open(pid_t pid, uint64_t start_time, uint64_t interval_us, struct flmem_kin *kin,
			struct flmem_followed **ret_followed, struct flmem_error *err)
{
	struct flmem_watch_process id = {.pid = pid, .command = strdup("")};
	FLMEM_AUTO_FOLLOWED struct flmem_followed *f = flmem_followed_new(&id, interval_us, err);
	int rc;

	if (!f)
		return FLMEM_EFAILED;
	rc = open_files(f, start_time, err);
	if (!rc)
		rc = identify(f, kin, err);
	if (rc)
		return rc;
	*ret_followed = FLMEM_TAKE(f);
	return 0;
}

void flmem_followed_end(struct flmem_followed *followed)
{
	followed->ended = true;
	flmem_process_close(&followed->process);
	flmem_cleanup_close(&followed->statm);
	followed->statm = -1;
}

void flmem_followed_free(struct flmem_followed *followed)
{
	if (!followed)
		return;
	flmem_followed_end(followed);
	free(followed->id.command);
	free(followed->id.site);
	free(followed->ward);
	free(followed);
}

/* Digits and the blank behind them. */
static bool take_pages(const char **at, uint64_t *ret_pages)
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

/* SIZE RESIDENT SHARED ..., in pages; all are 0 once the process is a zombie. */
static bool parse_counters(const char *text, uint64_t *ret_resident, uint64_t *ret_shared)
{
	uint64_t size;

	return take_pages(&text, &size) && size && take_pages(&text, ret_resident) &&
	       take_pages(&text, ret_shared);
}

static uint64_t page_bytes(void)
{
	static uint64_t size;

	if (!size)
		size = (uint64_t)sysconf(_SC_PAGESIZE);
	return size;
}

void flmem_followed_count(struct flmem_followed *followed, uint64_t now_us, uint64_t bytes)
{
	if (!followed->history.samples) {
		followed->first_us = now_us;
		followed->first_bytes = followed->lowest_bytes = bytes;
	}
	followed->last_us = now_us;
	followed->last_bytes = bytes;
	if (bytes < followed->lowest_bytes)
		followed->lowest_bytes = bytes;
	if (bytes > followed->peak_bytes)
		followed->peak_bytes = bytes;
	flmem_history_add(&followed->history, now_us, bytes);
}

static ssize_t read_counters(const struct flmem_followed *f, char *text, size_t size)
{
	FLMEM_AUTO_CLOSE int own = -1;
	int fd = f->statm;
	ssize_t got;

	if (fd < 0)
		fd = own = open_counters(f);
	if (fd < 0)
		return fd;
	got = pread(fd, text, size - 1, 0);
	if (got < 0)
		return -errno;
	text[got] = '\0';
	return got;
}

int flmem_followed_sample(struct flmem_followed *followed, uint64_t now_us)
{
	char text[192];
	uint64_t resident, shared;
	ssize_t got = read_counters(followed, text, sizeof(text));

	if (got == -EMFILE || got == -ENFILE || got == -ENOMEM)
		return FLMEM_EFAILED;
	if (got <= 0 || !parse_counters(text, &resident, &shared))
		return FLMEM_ENOPROC;
	resident *= page_bytes();
	followed->changed |= resident != followed->last_bytes || shared != followed->shared_pages;
	followed->shared_pages = shared;
	flmem_followed_count(followed, now_us, resident);
	return 0;
}

bool flmem_followed_split_is_due(const struct flmem_followed *followed)
{
	uint64_t turn = followed->history.samples - 1 + followed->number;

	return followed->history.samples == 1 ||
	       turn % (followed->changed ? SPLIT_EVERY : SPLIT_EVERY_QUIET) == 0;
}

void flmem_followed_split(struct flmem_followed *followed)
{
	struct flmem_status status;

	followed->changed = false;
	if (flmem_status_read(&followed->process, &status, NULL))
		return;
	followed->split = (struct flmem_watch_split){
		.anon_bytes = status.anon_bytes,
		.file_bytes = status.file_bytes,
		.shmem_bytes = status.shmem_bytes,
		.swap_bytes = status.swap_bytes,
	};
}
