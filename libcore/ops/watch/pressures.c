/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/watch/pressures.h"

#include <stdlib.h>

#include "proc/limits/cgroup.h"
#include "proc/process.h"

#define READ_EVERY_US 5000000U

int flmem_pressures_open(struct flmem_pressures **ret_pressures, struct flmem_error *err)
{
	struct flmem_pressures *pressures = calloc(1, sizeof(*pressures));
	int rc;

	if (!pressures)
		return flmem_error_nomem(err, "cannot allocate the list of control groups");
	rc = flmem_cgroups_open(&pressures->cgroups, err);
	if (rc) {
		free(pressures);
		return rc;
	}
	*ret_pressures = pressures;
	return 0;
}

void flmem_pressures_free(struct flmem_pressures *pressures)
{
	if (!pressures)
		return;
	for (size_t i = 0; i < pressures->count; i++)
		flmem_pressure_close(&pressures->groups[i].files);
	flmem_cgroups_free(pressures->cgroups);
	free(pressures);
}

static bool is_same(const struct flmem_pressure_files *a, const struct flmem_pressure_files *b)
{
	return a->inode == b->inode && a->device == b->device;
}

size_t flmem_pressures_group(struct flmem_pressures *pressures, const struct flmem_process *process)
{
	FLMEM_AUTO_PRESSURE_FILES struct flmem_pressure_files files = FLMEM_PRESSURE_FILES_INIT;

	flmem_pressure_open(pressures->cgroups, process, &files);
	for (size_t i = 0; i < pressures->count; i++)
		if (is_same(&pressures->groups[i].files, &files))
			return i;
	if (pressures->count == FLMEM_PRESSURES_MAX)
		return FLMEM_PRESSURES_NONE;
	pressures->groups[pressures->count] = (struct flmem_pressure_group){.files = files};
	files = (struct flmem_pressure_files)FLMEM_PRESSURE_FILES_INIT;
	return pressures->count++;
}

static bool has_pressure_risen(struct flmem_u64 before, struct flmem_u64 now)
{
	return !before.unknown && !now.unknown && now.value > before.value;
}

static bool is_long(struct flmem_u64 hundredths)
{
	return !hundredths.unknown && hundredths.value >= FLMEM_PRESSURE_SHORT_HUNDREDTHS;
}

const char *flmem_pressure_sign(const struct flmem_pressure *before,
				const struct flmem_pressure *now)
{
	if (has_pressure_risen(before->oom_kill, now->oom_kill))
		return "the kernel has killed a process of its control group because memory ran "
		       "out";
	if (has_pressure_risen(before->oom, now->oom))
		return "its control group has run out of memory";
	if (has_pressure_risen(before->max, now->max))
		return "its control group has reached its memory limit";
	if (has_pressure_risen(before->high, now->high))
		return "its control group is throttled above its memory.high";
	if (!is_long(now->some_avg10_hundredths))
		return NULL;
	return now->stalls_of_host ? "tasks of this host wait for memory"
				   : "tasks of its control group wait for memory";
}

bool flmem_pressures_read(struct flmem_pressures *pressures, size_t group, uint64_t now_us)
{
	struct flmem_pressure_group *g;
	struct flmem_pressure before;
	const char *sign;

	if (group >= pressures->count)
		return false;
	g = &pressures->groups[group];
	if (g->read && now_us - g->read_us < READ_EVERY_US)
		return g->read_us == now_us;
	before = g->now;
	flmem_pressure_read(&g->files, &g->now);
	sign = g->read ? flmem_pressure_sign(&before, &g->now) : NULL;
	if (sign) {
		g->shown = true;
		g->shown_us = now_us;
		g->what = sign;
	}
	g->read = true;
	g->read_us = now_us;
	return true;
}

const char *flmem_pressures_short(const struct flmem_pressures *pressures, size_t group,
				  uint64_t now_us)
{
	const struct flmem_pressure_group *g;

	if (group >= pressures->count)
		return NULL;
	g = &pressures->groups[group];
	return g->shown && now_us - g->shown_us < FLMEM_PRESSURE_LASTS_US ? g->what : NULL;
}

static struct flmem_u64 counter_increase(struct flmem_u64 now, struct flmem_u64 first)
{
	if (now.unknown || first.unknown)
		return now.unknown ? now : first;
	return FLMEM_KNOWN(now.value > first.value ? now.value - first.value : 0);
}

void flmem_pressure_rise(const struct flmem_pressure *now, const struct flmem_pressure *first,
			 struct flmem_pressure *ret_rise)
{
	*ret_rise = *now;
	ret_rise->high = counter_increase(now->high, first->high);
	ret_rise->max = counter_increase(now->max, first->max);
	ret_rise->oom = counter_increase(now->oom, first->oom);
	ret_rise->oom_kill = counter_increase(now->oom_kill, first->oom_kill);
	ret_rise->some_total_us = counter_increase(now->some_total_us, first->some_total_us);
}
