/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_LIMITS_GPU_OOM_LOG_H
#define FLMEM_PROC_LIMITS_GPU_OOM_LOG_H

/* Reads the log of a job for flmem/oom.h, with any line prefix, also inside JSON. */

#include <flmem/oom.h>

/* Reads the text. Returns false if it reports no failed allocation. */
bool flmem_gpu_oom_log_read(const char *text, struct flmem_gpu_oom *ret_oom);

#endif
