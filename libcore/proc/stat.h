/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_STAT_H
#define FLMEM_PROC_STAT_H

/* Parses the fields of /proc/PID/stat and /proc/PID/task/TID/stat (proc_pid_stat(5)). */

#include <stdbool.h>
#include <stdint.h>

/*
 * Returns the fields from the third one (the state) on: those after the command name, which may
 * contain spaces and brackets. NULL if the text does not have the format of the file.
 */
const char *flmem_stat_fields(const char *text);

/*
 * Reads the number in a field, counted from 1 as in the manual; `fields` is what
 * flmem_stat_fields() returned. Returns false for a negative number, or if there are fewer fields.
 */
bool flmem_stat_number(const char *fields, int field, uint64_t *ret_value);

#endif
