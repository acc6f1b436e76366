/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/files/mounts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/files/io.h"
#include "proc/process.h"

#define MOUNTINFO_MAX ((size_t)4 << 20)

/* Parses \001 to \377; an escaped NUL, which the kernel never writes, stays as it is. */
static char parse_octal(const char *p)
{
	if (p[0] != '\\' || p[1] < '0' || p[1] > '3' || p[2] < '0' || p[2] > '7' || p[3] < '0' ||
	    p[3] > '7')
		return '\0';
	return (char)((p[1] - '0') << 6 | (p[2] - '0') << 3 | (p[3] - '0'));
}

/* Replaces the escapes of mountinfo, which writes space, tab, newline and backslash as \ooo. */
static void unescape_path(char *text)
{
	char *out = text, c;

	for (const char *p = text; *p; p += c ? 4 : 1) {
		c = parse_octal(p);
		*out++ = c ? c : *p;
	}
	*out = '\0';
}

bool flmem_mount_split(char *line, struct flmem_mount *ret_mount)
{
	char *tail = strstr(line, " - "), *fields[5];

	if (!tail)
		return false;
	*tail = '\0';
	tail += strlen(" - ");
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(fields); i++)
		fields[i] = strsep(&line, " ");
	if (!fields[4] || fields[4][0] != '/' || !*tail)
		return false;
	unescape_path(fields[3]);
	unescape_path(fields[4]);
	*ret_mount =
		(struct flmem_mount){.device = fields[2], .root = fields[3], .point = fields[4]};
	ret_mount->type = strsep(&tail, " ");
	ret_mount->source = strsep(&tail, " ");
	ret_mount->options = tail;
	return true;
}

void flmem_mounts_clear(struct flmem_mounts *mounts)
{
	flmem_buf_clear(&mounts->text);
	free(mounts->rows);
	*mounts = (struct flmem_mounts)FLMEM_MOUNTS_INIT;
}

/* Splits the text into rows. */
static int split_rows(struct flmem_mounts *mounts)
{
	char *text = mounts->text.data;
	size_t lines = 1;

	for (const char *p = text; (p = strchr(p, '\n')); p++)
		lines++;
	mounts->rows = calloc(lines, sizeof(*mounts->rows));
	if (!mounts->rows)
		return -ENOMEM;
	for (char *line; (line = strsep(&text, "\n"));)
		mounts->count += flmem_mount_split(line, &mounts->rows[mounts->count]);
	return 0;
}

int flmem_mounts_parse(const char *text, size_t length, struct flmem_mounts *ret_mounts)
{
	FLMEM_AUTO_MOUNTS struct flmem_mounts mounts = FLMEM_MOUNTS_INIT;
	int rc;

	flmem_buf_append(&mounts.text, text, length);
	rc = mounts.text.failed ? -ENOMEM : split_rows(&mounts);
	if (rc)
		return rc;
	*ret_mounts = mounts;
	mounts = (struct flmem_mounts)FLMEM_MOUNTS_INIT;
	return 0;
}

int flmem_mounts_read(const struct flmem_process *process, struct flmem_mounts *ret_mounts)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	int rc = flmem_io_read_file_at(process->dirfd, "mountinfo", MOUNTINFO_MAX, &text);

	return rc ? rc : flmem_mounts_parse(text.data, text.length, ret_mounts);
}

/* Returns true if a mount point is the path or above it. */
static bool is_at_or_above(const char *point, const char *path)
{
	size_t length = strlen(point);

	return strncmp(point, path, length) == 0 &&
	       (length == 1 || !path[length] || path[length] == '/');
}

/* Of several mounts at one place, the last one in the list is on top. */
const struct flmem_mount *flmem_mounts_covering(const struct flmem_mounts *mounts, const char *path)
{
	const struct flmem_mount *deepest = NULL;

	for (size_t i = 0; i < mounts->count; i++)
		if (is_at_or_above(mounts->rows[i].point, path) &&
		    (!deepest || strlen(mounts->rows[i].point) >= strlen(deepest->point)))
			deepest = &mounts->rows[i];
	return deepest;
}
