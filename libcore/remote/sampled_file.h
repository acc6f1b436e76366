/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_SAMPLED_FILE_H
#define FLMEM_REMOTE_SAMPLED_FILE_H

struct flmem_process;
struct flmem_maps;

/*
 * Returns the name of the profile that a process writes now, read from its memory and as the caller
 * would name it; "FILE" if the name is not printable. NULL: there is none, or its memory may not be
 * read. The caller frees it.
 */
char *flmem_sampled_file_of(const struct flmem_process *process, const struct flmem_maps *maps);

#endif
