/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROFILER_PROFILE_FILE_H
#define FLMEM_PROFILER_PROFILE_FILE_H

/*
 * Reads the records of a profile file (preload/profile_format.h). The file is untrusted and may be
 * written meanwhile; it is read, never mapped: one that is cut while it is mapped would end the
 * reader with SIGBUS.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <flmem/error.h>

#include "base/cleanup.h"
#include "preload/profile_format.h"

struct flmem_profile_file {
	int fd;
	uint64_t size;
	const char *path; /* owned by the caller */
	struct flmem_profile_header header;
	bool cut; /* the file is shorter than its header says */
};

#define FLMEM_PROFILE_FILE_INIT \
	{                       \
		.fd = -1        \
	}

/*
 * Takes an open file and checks its header: afterwards every section has records of the size of
 * this version, and its texts end in a NUL. FLMEM_EUSAGE if the file is not a profile, is of
 * another version, or nothing was sampled.
 */
int flmem_profile_file_open(int fd, const char *path, struct flmem_profile_file *ret_file,
			    struct flmem_error *err);
void flmem_profile_file_close(struct flmem_profile_file *file);

#define FLMEM_AUTO_PROFILE_FILE FLMEM_AUTO(flmem_profile_file_close)

/* Returns the largest number of records of a section that the file may have. */
uint32_t flmem_profile_file_count(const struct flmem_profile_file *file,
				  enum flmem_profile_section_index section);

/*
 * Calls `visit` for each record that exists, in order. Returns false if `visit` did, which stops,
 * or if the file cannot be read.
 */
bool flmem_profile_file_visit(const struct flmem_profile_file *file,
			      enum flmem_profile_section_index section,
			      bool (*visit)(void *context, uint32_t index, const void *record),
			      void *context);

/*
 * Returns true if the file was cut before the last record of a section, or has lost records of it.
 */
bool flmem_profile_file_lacks(const struct flmem_profile_file *file,
			      enum flmem_profile_section_index section);

/* Reads a string of the file; false if it is inconsistent. */
bool flmem_profile_file_string(const struct flmem_profile_file *file, uint32_t index,
			       char out[FLMEM_PROFILE_STRING_MAX + 1], size_t *ret_length);

/*
 * Returns true if the sampled process lives, also in a container below this one; false if no
 * visible process can be it.
 */
bool flmem_profile_process_lives(const struct flmem_profile_header *header);

/*
 * Returns the sampled process in the PID namespace of the caller; 0: no visible process can be it.
 */
pid_t flmem_profile_process_find(const struct flmem_profile_header *header);

/*
 * Returns true if the sampled process writes its profile into another file than that of `status`,
 * and stores the name of that file for the process. False if it is the same file, or if that is not
 * visible.
 */
bool flmem_profile_is_copy(pid_t pid, const struct flmem_profile_header *header,
			   const struct stat *status, char *ret_name, size_t size);

/* Returns true if the file has changed since it was opened, or was being changed then. */
bool flmem_profile_file_changed(const struct flmem_profile_file *file);

#endif
