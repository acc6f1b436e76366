/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/watch/gpu_use.h"

#include "proc/files/descriptors.h"
#include "proc/process.h"
#include "runtimes/gpu_devices.h"
#include "runtimes/nvml.h"

/*
 * A process may have any number of descriptors; those of the devices are usually among the first.
 */
#define DESCRIPTORS_MAX 4096U

void flmem_gpu_use_open(struct flmem_gpu_use *ret_use)
{
	*ret_use = (struct flmem_gpu_use){
		.present = flmem_gpu_devices_find("/dev") & FLMEM_GPU_NVIDIA,
	};
}

void flmem_gpu_use_close(struct flmem_gpu_use *use)
{
	flmem_nvml_close(use->nvml);
	*use = (struct flmem_gpu_use){0};
}

/*
 * Returns 1 if the process has a device of the driver open, 0 if not, -errno if access is denied.
 */
static int has_device_open(const struct flmem_process *process)
{
	FLMEM_AUTO_DESCRIPTORS struct flmem_descriptors files = {0};

	if (flmem_descriptors_open(process, DESCRIPTORS_MAX, &files))
		return -1;
	while (flmem_descriptors_next(&files) > 0)
		if (flmem_nvml_is_device(files.target))
			return 1;
	return 0;
}

struct flmem_u64 flmem_gpu_use_of(struct flmem_gpu_use *use, const struct flmem_process *process)
{
	int open;

	if (!use->present)
		return FLMEM_UNKNOWN("no NVIDIA GPU is visible here");
	open = has_device_open(process);
	if (open < 0)
		return FLMEM_UNKNOWN("access to its open files is denied");
	if (!open)
		return FLMEM_KNOWN(0);
	if (!use->tried)
		flmem_nvml_open(&use->nvml, NULL);
	use->tried = true;
	if (!use->nvml)
		return FLMEM_UNKNOWN("the driver's management library (NVML) cannot be used");
	return flmem_nvml_process_bytes(use->nvml, process->pid);
}
