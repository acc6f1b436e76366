/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_START_EMIT_SCRIPT_H
#define FLMEM_OPS_START_EMIT_SCRIPT_H

/* Fixed parts of emitted scripts. */

/* The start script of an NVFlare kit: before the memory block, after it, after the command. */
extern const char flmem_sub_start_head[];
extern const char flmem_sub_start_middle[];
extern const char flmem_sub_start_tail[];

#endif
