/* SPDX-License-Identifier: Apache-2.0 */
#include "series/downsample_job.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/files/file_place.h"
#include "base/files/io.h"
#include "base/thread.h"
#include "series/downsample.h"

#define COPY_BYTES 65536U

/* Samples this young are never thinned, whatever the budget. */
#define YOUNGEST_US UINT64_C(60000000)

struct flmem_downsample_job {
	char *path, *beside;
	/*
	 * The place of the recording and the thinned file; both names are relative to it, even if
	 * `path` refers elsewhere later.
	 */
	struct flmem_file_place place;
	const char *beside_name;
	struct stat status; /* of the recording */
	uint64_t size, budget;
	size_t processes;
	atomic_int state; /* enum flmem_downsample_state */
	atomic_bool cancelled;
	bool placed;
	struct flmem_recorder out; /* owned by the thread until it is done */
	pthread_t thread;
};

static void close_out(struct flmem_downsample_job *job)
{
	if (job->out.fd < 0)
		return;
	flmem_recorder_close(&job->out);
	unlinkat(job->place.directory, job->beside_name, 0);
}

static int open_part(const struct flmem_downsample_job *job, struct flmem_recording *ret_recording)
{
	int rc = flmem_recording_open(job->path, ret_recording, NULL);

	if (!rc)
		flmem_recording_limit(ret_recording, job->size);
	return rc;
}

/* Makes the new file as private as the one that it will replace. */
static void copy_mode(const struct flmem_downsample_job *job)
{
	if (fchown(job->out.fd, job->status.st_uid, job->status.st_gid) == 0 || errno == EPERM)
		fchmod(job->out.fd, job->status.st_mode & 0777);
}

/*
 * Creates the thinned file. An existing one is replaced only if it is the rest of an earlier one
 * whose writer was killed.
 */
static bool open_beside(struct flmem_downsample_job *job)
{
	int rc = flmem_recorder_open_new(job->place.directory, job->beside_name, &job->out);

	if (rc == -EEXIST && flmem_recorder_may_drop(job->place.directory, job->beside_name) &&
	    unlinkat(job->place.directory, job->beside_name, 0) == 0)
		rc = flmem_recorder_open_new(job->place.directory, job->beside_name, &job->out);
	if (rc)
		return false;
	job->out.budget = 0;
	return true;
}

static bool write_thinned(struct flmem_downsample_job *job, uint64_t span_us, uint64_t keep_us)
{
	FLMEM_AUTO(flmem_recording_close) struct flmem_recording from = FLMEM_RECORDING_INIT;

	if (!open_beside(job))
		return false;
	copy_mode(job);
	return open_part(job, &from) == 0 &&
	       flmem_recording_downsample(&from, span_us, keep_us, &job->cancelled, &job->out) &&
	       !job->out.lost;
}

/* Thins more and more of the recording until it is small enough. */
static enum flmem_downsample_state thin_step(struct flmem_downsample_job *job)
{
	FLMEM_AUTO(flmem_recording_close) struct flmem_recording from = FLMEM_RECORDING_INIT;
	struct flmem_recording_extent extent;
	uint64_t enough;

	if (open_part(job, &from))
		return FLMEM_DOWNSAMPLE_FAILED;
	flmem_recording_measure(&from, &job->cancelled, &extent);
	job->processes = extent.processes ? extent.processes : 1;
	if (job->size <= flmem_downsample_job_budget(job))
		return FLMEM_DOWNSAMPLE_NEEDLESS;
	enough = flmem_downsample_job_budget(job) / 8 * 5;
	for (uint64_t keep_us = extent.span_us / 4;; keep_us /= 2) {
		if (!write_thinned(job, extent.span_us, keep_us)) {
			close_out(job);
			return FLMEM_DOWNSAMPLE_FAILED;
		}
		if (job->out.size <= enough || keep_us < YOUNGEST_US)
			break;
		close_out(job);
	}
	if (fdatasync(job->out.fd) == 0)
		return FLMEM_DOWNSAMPLE_DONE;
	close_out(job);
	return FLMEM_DOWNSAMPLE_FAILED;
}

static void *run_thread(void *context)
{
	struct flmem_downsample_job *job = context;

	atomic_store(&job->state, (int)thin_step(job));
	return NULL;
}

static void release_job(struct flmem_downsample_job *job)
{
	flmem_file_place_close(&job->place);
	free(job->path);
	free(job->beside);
	free(job);
}

static bool find_place(struct flmem_downsample_job *job)
{
	if (flmem_file_place_open(job->path, &job->place))
		return false;
	job->beside_name = job->beside + (job->place.name - job->place.path);
	return fstatat(job->place.directory, job->place.name, &job->status, AT_SYMLINK_NOFOLLOW) ==
		       0 &&
	       S_ISREG(job->status.st_mode);
}

/* Reports whether the name still refers to the recording. */
static bool is_job_in_place(const struct flmem_downsample_job *job, int fd)
{
	struct stat held;

	return fstat(fd, &held) == 0 && flmem_file_is_same(&held, &job->status) &&
	       flmem_file_place_is_named(fd, job->place.directory, job->place.name);
}

struct flmem_downsample_job *flmem_downsample_job_start(const char *path, uint64_t size,
							uint64_t budget)
{
	struct flmem_downsample_job *job = calloc(1, sizeof(*job));

	if (!job)
		return NULL;
	*job = (struct flmem_downsample_job){
		.path = strdup(path),
		.place = FLMEM_FILE_PLACE_INIT,
		.size = size,
		.budget = budget,
		.out = {.fd = -1},
	};
	if (job->path && asprintf(&job->beside, "%s.downsampler", path) < 0)
		job->beside = NULL;
	if (job->path && job->beside && find_place(job) &&
	    flmem_thread_start(&job->thread, run_thread, job) == 0)
		return job;
	release_job(job);
	return NULL;
}

enum flmem_downsample_state flmem_downsample_job_state(const struct flmem_downsample_job *job)
{
	return (enum flmem_downsample_state)atomic_load(&job->state);
}

uint64_t flmem_downsample_job_budget(const struct flmem_downsample_job *job)
{
	return job->budget * job->processes;
}

static int copy_range(int from, uint64_t at, uint64_t end, int to)
{
	FLMEM_AUTO_FREE char *bytes = malloc(COPY_BYTES);

	while (bytes && at < end) {
		size_t want = end - at < COPY_BYTES ? (size_t)(end - at) : COPY_BYTES;
		ssize_t got = pread(from, bytes, want, (off_t)at);
		int rc = got > 0 ? flmem_io_write_all(to, bytes, (size_t)got) : -EIO;

		if (rc)
			return rc;
		at += (uint64_t)got;
	}
	return bytes ? 0 : -ENOMEM;
}

int flmem_downsample_job_replace(struct flmem_downsample_job *job, int fd, uint64_t size,
				 uint64_t *ret_size)
{
	int rc = lseek(job->out.fd, (off_t)job->out.size, SEEK_SET) < 0 ? -errno : 0;

	/* Blocks are self-contained, so those written meanwhile are copied unchanged. */
	if (!rc)
		rc = copy_range(fd, job->size, size, job->out.fd);
	if (!rc && !is_job_in_place(job, fd))
		rc = -ESTALE;
	if (!rc && renameat(job->place.directory, job->beside_name, job->place.directory,
			    job->place.name) < 0)
		rc = -errno;
	if (rc)
		return rc;
	job->placed = true;
	*ret_size = job->out.size + (size - job->size);
	return FLMEM_TAKE_FD(job->out.fd);
}

void flmem_downsample_job_free(struct flmem_downsample_job *job)
{
	if (!job)
		return;
	atomic_store(&job->cancelled, true);
	pthread_join(job->thread, NULL);
	if (job->placed)
		flmem_recorder_close(&job->out);
	else
		close_out(job);
	release_job(job);
}
