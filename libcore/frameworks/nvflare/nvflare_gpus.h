/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_NVFLARE_NVFLARE_GPUS_H
#define FLMEM_FRAMEWORKS_NVFLARE_NVFLARE_GPUS_H

/* Finds clients of a job that have GPUs: by the meta file of the job, or by its script. */

#include "frameworks/nvflare/nvflare_classes.h"

/* The site with a GPU to which the meta file deploys this app; NULL if none is known. */
const char *flmem_nvflare_gpu_site(const struct flmem_check *check);

/*
 * The client to which the checked script assigns a GPU; NULL if none is known. *ret_by is the name
 * of the call that assigns it.
 */
const char *flmem_nvflare_gpu_site_of_script(const struct flmem_check *check, const char **ret_by);

/* Whether it is known only when the script runs whether a client has GPUs. */
bool flmem_nvflare_may_run_on_gpus(const struct flmem_check *check);

#endif
