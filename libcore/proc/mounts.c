/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/mounts.h"

#include <string.h>

#include "base/cleanup.h"

/* \001 to \377; an escaped NUL, which the kernel never writes, stays as it is. */
static char octal(const char *p)
{
	if (p[0] != '\\' || p[1] < '0' || p[1] > '3' || p[2] < '0' || p[2] > '7' || p[3] < '0' ||
	    p[3] > '7')
		return '\0';
	return (char)((p[1] - '0') << 6 | (p[2] - '0') << 3 | (p[3] - '0'));
}

/* mountinfo writes space, tab, newline and backslash as \ooo. */
static void unescape(char *text)
{
	char *out = text, c;

	for (const char *p = text; *p; p += c ? 4 : 1) {
		c = octal(p);
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
	unescape(fields[3]);
	unescape(fields[4]);
	*ret_mount =
		(struct flmem_mount){.device = fields[2], .root = fields[3], .point = fields[4]};
	ret_mount->type = strsep(&tail, " ");
	ret_mount->source = strsep(&tail, " ");
	ret_mount->options = tail;
	return true;
}
