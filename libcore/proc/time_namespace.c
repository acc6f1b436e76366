/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/time_namespace.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/files/io.h"
#include "base/text/buf.h"
#include "base/text/text.h"
#include "proc/process.h"

#define OFFSETS_MAX 4096U
#define SECOND_NS   INT64_C(1000000000)

struct boot_offset {
	int64_t seconds, nanoseconds;
};

static bool read_signed_number(const char **at, int64_t *ret_number)
{
	uint64_t number;
	bool is_negative;

	*at += strspn(*at, " ");
	is_negative = **at == '-';
	*at += is_negative;
	if (!flmem_text_read_digits(at, &number) || number >= (uint64_t)(INT64_MAX / SECOND_NS))
		return false;
	*ret_number = is_negative ? -(int64_t)number : (int64_t)number;
	return true;
}

/* Reads lines "CLOCK SECONDS NANOSECONDS". Returns false before Linux 5.6. */
static bool read_boot_offset(int directory, const char *path, struct boot_offset *ret_offset)
{
	static const char name[] = "boottime";
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	const char *at;

	if (flmem_io_read_file_at(directory, path, OFFSETS_MAX, &text))
		return false;
	at = strstr(text.data, name);
	if (!at)
		return false;
	at += strlen(name);
	return read_signed_number(&at, &ret_offset->seconds) &&
	       read_signed_number(&at, &ret_offset->nanoseconds) &&
	       ret_offset->nanoseconds < SECOND_NS && ret_offset->nanoseconds > -SECOND_NS;
}

bool flmem_time_namespace_is_start(const struct flmem_process *process, uint64_t ticks)
{
	const int64_t rate = sysconf(_SC_CLK_TCK);
	struct boot_offset inner, own;
	int64_t part, shift;

	if (ticks == process->start_time)
		return true;
	if (!read_boot_offset(process->dirfd, "timens_offsets", &inner) ||
	    !read_boot_offset(AT_FDCWD, "/proc/self/timens_offsets", &own))
		return false;
	part = (inner.nanoseconds - own.nanoseconds + SECOND_NS) * rate;
	shift = (inner.seconds - own.seconds - 1) * rate + part / SECOND_NS;
	ticks -= process->start_time + (uint64_t)shift;
	/* The start itself had a fraction of a tick, which may add up to one more tick. */
	return ticks == 0 || (ticks == 1 && part % SECOND_NS != 0);
}
