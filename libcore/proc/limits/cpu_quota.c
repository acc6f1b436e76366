/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/limits/cpu_quota.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <flmem/parse.h>

#include "base/cleanup.h"
#include "base/files/io.h"
#include "base/text/buf.h"
#include "proc/limits/cgroup.h"
#include "proc/process.h"

#define FILE_MAX	  ((size_t)4 << 10)
#define REAL_TIME_PERCENT 95U /* kernel.sched_rt_runtime_us, by default */

/* Parses "QUOTA PERIOD"; false for "max PERIOD". */
static bool parse_quota(char *text, uint64_t *ret_quota, uint64_t *ret_period)
{
	char *period = strchr(text, ' ');

	if (!period)
		return false;
	*period++ = '\0';
	period[strcspn(period, "\n")] = '\0';
	return !flmem_parse_u64(text, 0, UINT64_MAX, ret_quota, NULL) &&
	       !flmem_parse_u64(period, 0, UINT64_MAX, ret_period, NULL);
}

/* Reads the quota of version 2; false if the group has none. */
static bool read_quota(int group, const struct flmem_buf *above, uint64_t *ret_quota,
		       uint64_t *ret_period)
{
	FLMEM_AUTO_BUF struct flmem_buf path = FLMEM_BUF_INIT;
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;

	flmem_buf_printf(&path, "%scpu.max", above->data);
	return !path.failed && !flmem_io_read_file_at(group, path.data, FILE_MAX, &text) &&
	       parse_quota(text.data, ret_quota, ret_period);
}

/* Version 1 has two files; the quota of a group without one is negative. */
static bool read_quota_1(int group, const struct flmem_buf *above, uint64_t *ret_quota,
			 uint64_t *ret_period)
{
	*ret_quota = flmem_cgroup_number_above(group, above, "cpu.cfs_quota_us");
	*ret_period = flmem_cgroup_number_above(group, above, "cpu.cfs_period_us");
	return *ret_quota != UINT64_MAX && *ret_period != UINT64_MAX;
}

static struct flmem_cpu_quota find_least_quota(int group, bool version_1)
{
	struct flmem_cpu_quota found = {.least_us = UINT64_MAX};
	FLMEM_AUTO_BUF struct flmem_buf above = FLMEM_BUF_INIT;

	while (flmem_cgroup_climb(group, &above)) {
		uint64_t quota, period;

		if (!(version_1 ? read_quota_1 : read_quota)(group, &above, &quota, &period))
			continue;
		found.least_us = quota < found.least_us ? quota : found.least_us;
		found.longest_period_us =
			period > found.longest_period_us ? period : found.longest_period_us;
	}
	return found;
}

struct flmem_cpu_quota flmem_cpu_quota_read(int rootfd, const struct flmem_process *process)
{
	FLMEM_AUTO_CGROUPS struct flmem_cgroups *cgroups = NULL;
	FLMEM_AUTO_CGROUP_PLACE struct flmem_cgroup_place place = FLMEM_CGROUP_PLACE_INIT;

	if (flmem_cgroups_open_controller(rootfd, "cpu", &cgroups, NULL) || !cgroups)
		return (struct flmem_cpu_quota){.least_us = UINT64_MAX};
	flmem_cgroups_open_place(cgroups, process, &place);
	if (place.memory >= 0) /* the group of version 1 that has this controller */
		return find_least_quota(place.memory, true);
	return place.unified < 0 ? (struct flmem_cpu_quota){.least_us = UINT64_MAX}
				 : find_least_quota(place.unified, false);
}

/* Returns true if a group gives its real-time threads less than the kernel does by default. */
static bool has_real_time_budget(int group)
{
	FLMEM_AUTO_BUF struct flmem_buf above = FLMEM_BUF_INIT;

	while (flmem_cgroup_climb(group, &above)) {
		uint64_t runtime = flmem_cgroup_number_above(group, &above, "cpu.rt_runtime_us");
		uint64_t period = flmem_cgroup_number_above(group, &above, "cpu.rt_period_us");

		if (runtime != UINT64_MAX && period != UINT64_MAX &&
		    runtime < period / 100 * REAL_TIME_PERCENT)
			return true;
	}
	return false;
}

bool flmem_cpu_quota_limits_real_time(int rootfd, const struct flmem_process *process)
{
	FLMEM_AUTO_CGROUPS struct flmem_cgroups *cgroups = NULL;
	FLMEM_AUTO_CGROUP_PLACE struct flmem_cgroup_place place = FLMEM_CGROUP_PLACE_INIT;

	if (flmem_cgroups_open_controller(rootfd, "cpu", &cgroups, NULL) || !cgroups)
		return false;
	flmem_cgroups_open_place(cgroups, process, &place);
	return place.memory >= 0 && has_real_time_budget(place.memory);
}

struct flmem_cpu_quota flmem_cpu_quota_read_own(void)
{
	FLMEM_AUTO_CLOSE int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	FLMEM_AUTO_PROCESS struct flmem_process own = FLMEM_PROCESS_INIT;

	if (root < 0 || flmem_process_open(getpid(), &own, NULL))
		return (struct flmem_cpu_quota){.least_us = UINT64_MAX};
	return flmem_cpu_quota_read(root, &own);
}

bool flmem_cpu_quota_limits_own_real_time(void)
{
	FLMEM_AUTO_CLOSE int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	FLMEM_AUTO_PROCESS struct flmem_process own = FLMEM_PROCESS_INIT;

	return root < 0 || flmem_process_open(getpid(), &own, NULL) ||
	       flmem_cpu_quota_limits_real_time(root, &own);
}
