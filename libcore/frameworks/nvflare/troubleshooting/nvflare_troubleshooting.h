/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_NVFLARE_TROUBLESHOOTING_H
#define FLMEM_FRAMEWORKS_NVFLARE_TROUBLESHOOTING_H

/* The troubleshooting lists of NVFlare's guide (framework.h, `troubles`). */

#include "frameworks/troubleshooting.h"

extern const struct flmem_troubleshoot_row flmem_nvflare_troubles[];

/* Each decides whether a step is done; named after the subject of the step. */
flmem_troubleshoot_check flmem_troubleshoot_arenas;
flmem_troubleshoot_check flmem_troubleshoot_server_gc;
flmem_troubleshoot_check flmem_troubleshoot_client_gc;
flmem_troubleshoot_check flmem_troubleshoot_interval;
flmem_troubleshoot_check flmem_troubleshoot_every_round;
flmem_troubleshoot_check flmem_troubleshoot_clear_cache;
flmem_troubleshoot_check flmem_troubleshoot_cuda;
flmem_troubleshoot_check flmem_troubleshoot_jemalloc;
flmem_troubleshoot_check flmem_troubleshoot_decay;
flmem_troubleshoot_check flmem_troubleshoot_monitor;
flmem_troubleshoot_check flmem_troubleshoot_batch;
flmem_troubleshoot_check flmem_troubleshoot_leaks;

#endif
