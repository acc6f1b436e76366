/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_SAMPLED_FILE_H
#define FLMEM_REMOTE_SAMPLED_FILE_H

struct flmem_process;
struct flmem_maps;

/*
 * The name, for the caller, of the profile that a process writes now, which its memory shows;
 * "FILE" where it is not one that can be printed. NULL: none, or its memory may not be read. Freed
 * by the caller.
 */
char *flmem_sampled_file_of(const struct flmem_process *process, const struct flmem_maps *maps);

#endif
