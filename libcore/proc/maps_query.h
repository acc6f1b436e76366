/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_MAPS_QUERY_H
#define FLMEM_PROC_MAPS_QUERY_H

#include "proc/maps.h"

/*
 * Reads the mappings with PROCMAP_QUERY (Linux 6.11), one by one, without the text that the kernel
 * formats otherwise: that takes twice as long, most of it for the path of each mapping. `fd` is an
 * open /proc/PID/maps. Returns 0 or -errno; then the text has to be read. -ENOTTY: an older kernel.
 * -EILSEQ: a path that the text shows in another form.
 */
int flmem_maps_query(int fd, struct flmem_maps *ret_maps);

#endif
