/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_NVFLARE_NVFLARE_GPUS_H
#define FLMEM_FRAMEWORKS_NVFLARE_NVFLARE_GPUS_H

/* Which clients of a job have GPUs: by the job's meta file, or by what its script says. */

#include "frameworks/nvflare/nvflare_classes.h"

/* The site with a GPU to which the meta file deploys this app; NULL when none is known. */
const char *flmem_nvflare_gpu_site(const struct flmem_check *check);

/* The same of a script; `*ret_by` is what assigns GPUs to it. */
const char *flmem_nvflare_gpu_site_of_script(const struct flmem_check *check, const char **ret_by);

/* Whether a script assigns GPUs, or none, by a variable. */
bool flmem_nvflare_may_run_on_gpus(const struct flmem_check *check);

#endif
