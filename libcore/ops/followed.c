/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/followed.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/redact.h"
#include "frameworks/framework.h"
#include "proc/status.h"

#define COMMAND_WORDS_MAX 4096U

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
	} else {
		free(id->command);
		free(id->site);
	}
	if (whole)
		return FLMEM_TAKE(f);
	flmem_error_set(err, FLMEM_EFAILED, ENOMEM, "cannot follow process %d", (int)id->pid);
	return NULL;
}

static int open_files(struct flmem_followed *f, uint64_t start_time, struct flmem_error *err)
{
	int rc = flmem_process_open(f->id.pid, &f->process, err);

	if (rc)
		return rc;
	if (start_time && f->process.start_time != start_time)
		return flmem_error_set(err, FLMEM_ENOPROC, 0, "process %d is gone", (int)f->id.pid);
	f->id.start_time = f->process.start_time;
	f->statm = openat(f->process.dirfd, "statm", O_RDONLY | O_CLOEXEC);
	if (f->statm < 0)
		return flmem_process_error(&f->process, -errno, "read the memory counters", err);
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
	free(followed);
}

/* SIZE RESIDENT ..., in pages; both are 0 once the process is a zombie. */
static bool parse_resident(const char *text, uint64_t *ret_pages)
{
	const char *p = strchr(text, ' ');
	uint64_t pages = 0;

	if (!p || text[0] == '0')
		return false;
	for (p++; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(pages, 10, &pages) ||
		    __builtin_add_overflow(pages, (uint64_t)(*p - '0'), &pages))
			return false;
	*ret_pages = pages;
	return true;
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

bool flmem_followed_sample(struct flmem_followed *followed, uint64_t now_us,
			   uint64_t *ret_rss_bytes)
{
	char text[192];
	uint64_t pages;
	ssize_t got = pread(followed->statm, text, sizeof(text) - 1, 0);

	if (got <= 0)
		return false;
	text[got] = '\0';
	if (!parse_resident(text, &pages))
		return false;
	*ret_rss_bytes = pages * page_bytes();
	flmem_followed_count(followed, now_us, *ret_rss_bytes);
	return true;
}

void flmem_followed_split(struct flmem_followed *followed)
{
	struct flmem_status status;

	if (flmem_status_read(&followed->process, &status, NULL))
		return;
	followed->split = (struct flmem_watch_split){
		.anon_bytes = status.anon_bytes,
		.file_bytes = status.file_bytes,
		.shmem_bytes = status.shmem_bytes,
		.swap_bytes = status.swap_bytes,
	};
}
