/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_WATCH_PRESSURES_H
#define FLMEM_OPS_WATCH_PRESSURES_H

/*
 * Reads memory pressure in the control groups of the processes of a watch. Processes share groups,
 * so each group is read once, and only every few seconds.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>
#include <flmem/pressure.h>

#include "proc/limits/pressure.h"

#define FLMEM_PRESSURES_NONE SIZE_MAX
#define FLMEM_PRESSURES_MAX  256U

/* Tasks that stall on memory for this share of the time count as memory pressure: 10 %. */
#define FLMEM_PRESSURE_SHORT_HUNDREDTHS 1000U

/* Time for which memory pressure counts after its last sign. */
#define FLMEM_PRESSURE_LASTS_US 60000000U

struct flmem_pressure_group {
	struct flmem_pressure_files files;
	struct flmem_pressure now;
	bool read;
	uint64_t read_us;
	bool shown;	   /* a sign of pressure was seen */
	uint64_t shown_us; /* time of the last sign */
	const char *what;  /* static: description of the sign */
};

struct flmem_pressures {
	struct flmem_cgroups *cgroups;
	struct flmem_pressure_group groups[FLMEM_PRESSURES_MAX];
	size_t count;
};

int flmem_pressures_open(struct flmem_pressures **ret_pressures, struct flmem_error *err);
void flmem_pressures_free(struct flmem_pressures *pressures);

/* Returns the index of the process's group; FLMEM_PRESSURES_NONE if there are too many groups. */
size_t flmem_pressures_group(struct flmem_pressures *pressures,
			     const struct flmem_process *process);

/* Reads the group unless it was read a moment ago. Returns true if it was read now. */
bool flmem_pressures_read(struct flmem_pressures *pressures, size_t group, uint64_t now_us);

/* Returns the current sign of memory pressure in this group, or NULL. */
const char *flmem_pressures_short(const struct flmem_pressures *pressures, size_t group,
				  uint64_t now_us);

/* Computes the increase of the counters since `first`, an earlier reading of the same group. */
void flmem_pressure_rise(const struct flmem_pressure *now, const struct flmem_pressure *first,
			 struct flmem_pressure *ret_rise);

/* Returns the sign of memory pressure between two readings; static, or NULL. */
const char *flmem_pressure_sign(const struct flmem_pressure *before,
				const struct flmem_pressure *now);

#endif
