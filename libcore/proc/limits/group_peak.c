/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/limits/group_peak.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/text/text.h"
#include "proc/limits/cgroup.h"

/* What is written to reset the peak; the kernel accepts any text that is not empty. */
#define RESET "reset\n"

static const char version_1[] = "control groups of version 1 count no peak that can be reset";
static const char root_group[] =
	"its control group is the root, or does not count memory, or the kernel is older than 5.19";
static const char group_peak_refused[] = "access to memory.peak of its control group is denied";
static const char old_kernel[] = "the kernel cannot reset memory.peak (before Linux 6.12)";
static const char group_peak_unreadable[] = "memory.peak of its control group could not be read";
static const char not_reset[] = "no round has started since it is watched";

static const char *explain_open(int error)
{
	switch (error) {
	case ENOENT:
		return root_group;
	case EACCES:
	case EPERM:
	case EROFS:
		return group_peak_refused;
	default:
		return group_peak_unreadable;
	}
}

void flmem_group_peak_open(struct flmem_cgroups *cgroups, const struct flmem_process *process,
			   struct flmem_group_peak *ret_peak)
{
	FLMEM_AUTO_CGROUP_PLACE struct flmem_cgroup_place place = FLMEM_CGROUP_PLACE_INIT;

	*ret_peak = (struct flmem_group_peak){.fd = -1};
	ret_peak->unknown = flmem_cgroups_open_place(cgroups, process, &place);
	if (place.memory >= 0)
		ret_peak->unknown = version_1;
	if (ret_peak->unknown)
		return;
	ret_peak->fd = openat(place.unified, "memory.peak", O_RDWR | O_CLOEXEC);
	if (ret_peak->fd < 0)
		ret_peak->unknown = explain_open(errno);
}

void flmem_group_peak_close(struct flmem_group_peak *peak)
{
	flmem_cleanup_close(&peak->fd);
	*peak = (struct flmem_group_peak)FLMEM_GROUP_PEAK_INIT;
}

void flmem_group_peak_reset(struct flmem_group_peak *peak)
{
	const char *unknown = group_peak_unreadable;
	ssize_t written;

	if (peak->fd < 0)
		return;
	written = pwrite(peak->fd, RESET, sizeof(RESET) - 1, 0);
	peak->reset = written == (ssize_t)sizeof(RESET) - 1;
	if (peak->reset)
		return;
	if (written < 0 && errno == EINVAL) /* the file cannot be written: the kernel is too old */
		unknown = old_kernel;
	flmem_group_peak_close(peak);
	peak->unknown = unknown;
}

struct flmem_u64 flmem_group_peak_read(const struct flmem_group_peak *peak)
{
	char text[32];
	const char *at = text;
	uint64_t bytes;
	ssize_t got;

	if (peak->fd < 0)
		return FLMEM_UNKNOWN(peak->unknown);
	if (!peak->reset)
		return FLMEM_UNKNOWN(not_reset);
	got = pread(peak->fd, text, sizeof(text) - 1, 0);
	if (got <= 0)
		return FLMEM_UNKNOWN(group_peak_unreadable);
	text[got] = '\0';
	if (!flmem_text_read_digits(&at, &bytes) || *at != '\n')
		return FLMEM_UNKNOWN(group_peak_unreadable);
	return FLMEM_KNOWN(bytes);
}
