/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_RUNTIMES_CPYTHON_SCRIPT_H
#define FLMEM_RUNTIMES_CPYTHON_SCRIPT_H

/*
 * Creates a Python script in the file system of a process, readable only for that process. The
 * process's mount namespace decides what a path refers to, so the script is created and removed
 * with the rights of the process, without those of flmem.
 */

#include <flmem/error.h>

#include "base/cleanup.h"
#include "proc/files/fs_user.h"
#include "proc/process.h"

#define FLMEM_CPYTHON_SCRIPT_NAME_MAX 64

struct flmem_cpython_script {
	struct flmem_fs_user user;
	int directory;	  /* descriptor of the directory; -1: none */
	const char *path; /* path of the directory, as the process sees it; static */
	char name[FLMEM_CPYTHON_SCRIPT_NAME_MAX];
};

#define FLMEM_CPYTHON_SCRIPT_INIT \
	{                         \
		.directory = -1   \
	}

/*
 * Writes `text` into a new file, after a line that removes the file. `number` is part of its name.
 * FLMEM_EUNSAFE if the process has no directory for temporary files, or flmem may not use its user
 * ID; err has the reason.
 */
int flmem_cpython_script_write(const struct flmem_process *process, uint64_t number,
			       const char *text, struct flmem_cpython_script *ret_script,
			       struct flmem_error *err);

/*
 * Writes a library into a new file, which the code that loads it removes, in a directory from which
 * code may be mapped. Errors as by flmem_cpython_script_write().
 */
int flmem_cpython_script_write_library(const struct flmem_process *process, uint64_t number,
				       const void *bytes, size_t length,
				       struct flmem_cpython_script *ret_script,
				       struct flmem_error *err);

/* Removes the file, if it still exists. */
void flmem_cpython_script_remove(struct flmem_cpython_script *script);

#define FLMEM_AUTO_CPYTHON_SCRIPT FLMEM_AUTO(flmem_cpython_script_remove)

#endif
