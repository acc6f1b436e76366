/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/rollup.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <flmem/parse.h>

#include "base/files/io.h"
#include "base/text/buf.h"
#include "proc/process.h"

#define ROLLUP_MAX ((size_t)64 << 10)

static const char rollup_denied[] = "access denied: run as the user of the process or as root";
static const char rollup_absent[] = "this kernel does not report it";

bool flmem_rollup_find(const char *text, const char *name, uint64_t *ret_bytes)
{
	char key[64], number[32];
	const char *at;
	uint64_t kilobytes;
	size_t length;

	snprintf(key, sizeof(key), "\n%s:", name);
	at = strstr(text, key);
	if (!at)
		return false;
	at += strlen(key);
	at += strspn(at, " \t");
	length = strcspn(at, " \n");
	if (length >= sizeof(number))
		return false;
	memcpy(number, at, length);
	number[length] = '\0';
	if (flmem_parse_u64(number, 0, UINT64_MAX / 1024, &kilobytes, NULL))
		return false;
	*ret_bytes = kilobytes * 1024;
	return true;
}

struct flmem_u64 flmem_rollup_bytes(const struct flmem_process *process, const char *name)
{
	FLMEM_AUTO_BUF struct flmem_buf buf = FLMEM_BUF_INIT;
	int rc = flmem_io_read_file_at(process->dirfd, "smaps_rollup", ROLLUP_MAX, &buf);
	uint64_t bytes;

	if (rc)
		return FLMEM_UNKNOWN(rc == -EACCES || rc == -EPERM ? rollup_denied : rollup_absent);
	return flmem_rollup_find(buf.data, name, &bytes) ? FLMEM_KNOWN(bytes)
							 : FLMEM_UNKNOWN(rollup_absent);
}
