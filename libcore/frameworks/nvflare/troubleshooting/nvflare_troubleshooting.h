/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_NVFLARE_TROUBLESHOOTING_H
#define FLMEM_FRAMEWORKS_NVFLARE_TROUBLESHOOTING_H

/* The troubleshooting lists of NVFlare's guide. */

#include "frameworks/troubleshooting.h"

extern const struct flmem_trouble_row flmem_nvflare_troubles[];

/* The checks of the steps, by what they are about. */
flmem_trouble_check flmem_trouble_arenas;
flmem_trouble_check flmem_trouble_server_gc;
flmem_trouble_check flmem_trouble_client_gc;
flmem_trouble_check flmem_trouble_interval;
flmem_trouble_check flmem_trouble_every_round;
flmem_trouble_check flmem_trouble_clear_cache;
flmem_trouble_check flmem_trouble_cuda;
flmem_trouble_check flmem_trouble_jemalloc;
flmem_trouble_check flmem_trouble_decay;
flmem_trouble_check flmem_trouble_monitor;
flmem_trouble_check flmem_trouble_batch;
flmem_trouble_check flmem_trouble_leaks;

#endif
