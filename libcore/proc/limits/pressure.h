/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_LIMITS_PRESSURE_H
#define FLMEM_PROC_LIMITS_PRESSURE_H

/* Reads the counters of flmem/pressure.h from files of one control group, which stay open. */

#include <sys/types.h>

#include <flmem/pressure.h>

#include "base/cleanup.h"

struct flmem_cgroups;
struct flmem_process;

/*
 * Files of the group in which a process was when they were opened; -1 for files that do not exist.
 */
struct flmem_pressure_files {
	dev_t device; /* device of the group's directory; with the inode it identifies the group */
	ino_t inode;
	int events;   /* memory.events */
	int failures; /* version 1: memory.failcnt */
	int control;  /* version 1: memory.oom_control */
	int stalls;   /* memory.pressure, or the host's */
	bool stalls_of_host;
	const char *unknown; /* why there are no counters, or NULL */
};

#define FLMEM_PRESSURE_FILES_INIT                                          \
	{                                                                  \
		.events = -1, .failures = -1, .control = -1, .stalls = -1, \
	}

/*
 * Opens the files. It never fails: a counter whose file cannot be opened is unknown with its
 * reason.
 */
void flmem_pressure_open(struct flmem_cgroups *cgroups, const struct flmem_process *process,
			 struct flmem_pressure_files *ret_files);

void flmem_pressure_close(struct flmem_pressure_files *files);

#define FLMEM_AUTO_PRESSURE_FILES FLMEM_AUTO(flmem_pressure_close)

void flmem_pressure_read(const struct flmem_pressure_files *files,
			 struct flmem_pressure *ret_pressure);

/* Sets every counter to unknown with this reason. */
void flmem_pressure_init(struct flmem_pressure *pressure, const char *unknown);

/*
 * Parses lines "NAME NUMBER", as in memory.events and memory.oom_control; counters without a line
 * stay unchanged.
 */
void flmem_pressure_parse_events(const char *text, struct flmem_pressure *pressure);

/* Parses lines "some avg10=0.00 avg60=0.00 avg300=0.00 total=0" in the same way. */
void flmem_pressure_parse_stalls(const char *text, struct flmem_pressure *pressure);

#endif
