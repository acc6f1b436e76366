/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/recommend/recommend_oom.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files/io.h"
#include "ops/recommend/recommend_files.h"
#include "proc/limits/gpu_oom_log.h"
#include "proc/limits/oom_log.h"
#include "rules/oom_rules.h"

#define LOG_BYTES_MAX (16U << 20) /* read at the end; a kernel's buffer has at most this */

/*
 * Reads the end of the file as text; `*ret_cut` if the file has more before it. Returns 0 or
 * -errno.
 */
static int read_end(const char *path, struct flmem_buf *text, bool *ret_cut)
{
	FLMEM_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat status;
	int rc;

	if (fd < 0 || fstat(fd, &status) < 0)
		return -errno;
	if (!S_ISREG(status.st_mode))
		return -EINVAL;
	*ret_cut = status.st_size > LOG_BYTES_MAX;
	if (*ret_cut && lseek(fd, status.st_size - LOG_BYTES_MAX, SEEK_SET) < 0)
		return -errno;
	rc = flmem_io_read_all(fd, LOG_BYTES_MAX, text);
	for (size_t i = 0; i < text->length;
	     i++) /* a NUL in the console output must not end the text */
		if (!text->data[i])
			text->data[i] = ' ';
	return rc == -EFBIG ? 0 : rc; /* the file grows meanwhile */
}

bool flmem_recommend_is_oom_log(const char *path)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	struct flmem_gpu_oom gpu;
	bool cut = false;

	return read_end(path, &text, &cut) == 0 &&
	       (flmem_oom_log_is_likely(text.data) || flmem_gpu_oom_log_read(text.data, &gpu));
}

static bool store_log(struct flmem_recommendations *found, const char *path,
		      const struct flmem_checked_oom_log *read)
{
	struct flmem_checked_oom_log *grown =
		reallocarray(found->oom_logs, found->oom_log_count + 1, sizeof(*grown));
	char *file = grown ? strdup(path) : NULL;

	if (grown)
		found->oom_logs = grown;
	if (!file)
		return false;
	grown[found->oom_log_count] = *read;
	grown[found->oom_log_count++].file = file;
	return true;
}

static int add_log_problem(struct flmem_recommendations *found, const char *path, int sys_errno,
			   struct flmem_error *err)
{
	struct flmem_error why = {0};

	flmem_error_set(&why, flmem_code_of_open(sys_errno), sys_errno, "%s",
			sys_errno ? "cannot be read" : FLMEM_RECOMMEND_NO_RULES);
	return flmem_recommendations_store_problem(found, path, 0, &why, err);
}

/* Forgets line numbers: they count from the start of the file, which a cut text does not show. */
static void forget_lines(struct flmem_checked_oom_log *read)
{
	read->log.last.line = 0;
	read->gpu.line = 0;
}

static int check_log(const struct flmem_checked_oom_log *read, const char *path,
		     struct flmem_recommendations *found, struct flmem_error *err)
{
	int rc = read->log.kills ? flmem_oom_rules_run(&read->log, path, found, err) : 0;

	return rc || !read->gpu.count ? rc : flmem_gpu_oom_rules_run(&read->gpu, path, found, err);
}

int flmem_recommend_oom_log(const char *path, struct flmem_recommendations *found,
			    struct flmem_error *err)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	struct flmem_checked_oom_log read = {0};
	bool cut = false;
	int rc = read_end(path, &text, &cut);
	bool killed = !rc && flmem_oom_log_read(text.data, &read.log);
	bool failed = !rc && flmem_gpu_oom_log_read(text.data, &read.gpu);

	if (!killed && !failed)
		return add_log_problem(found, path, -rc, err);
	if (cut)
		forget_lines(&read);
	found->file_count++;
	if (!store_log(found, path, &read))
		return flmem_error_nomem(err, "cannot store the kills in '%s'", path);
	return check_log(&read, path, found, err);
}
