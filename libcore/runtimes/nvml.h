/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_RUNTIMES_NVML_H
#define FLMEM_RUNTIMES_NVML_H

/*
 * Reads the GPUs of this host through NVIDIA's management library, libnvidia-ml.so.1, which the
 * driver installs. The library is loaded when a handle is opened and is optional otherwise. Opening
 * takes milliseconds, with a sleeping GPU up to a second, so open it only for processes that map a
 * GPU. One thread at a time per handle.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <flmem/error.h>
#include <flmem/inventory.h>
#include <flmem/value.h>

struct flmem_nvml;

/* True if this is the path of a device of the driver, which every process that uses a GPU maps. */
bool flmem_nvml_is_device(const char *path);

/*
 * Opens the library. FLMEM_EUNSUPPORTED if it is missing or finds no driver; the message has the
 * reason.
 */
int flmem_nvml_open(struct flmem_nvml **ret_nvml, struct flmem_error *err);
void flmem_nvml_close(struct flmem_nvml *nvml);

/* Returns the version of the driver, as a heap string; NULL if it is not reported. */
char *flmem_nvml_driver(struct flmem_nvml *nvml);

/*
 * Returns the newest CUDA version that the driver supports, "12.5", as a heap string; NULL if it is
 * not reported.
 */
char *flmem_nvml_cuda(struct flmem_nvml *nvml);

/* Lists every GPU; the caller frees the array and the names. */
int flmem_nvml_gpus(struct flmem_nvml *nvml, struct flmem_gpu **ret_gpus, size_t *ret_count,
		    struct flmem_error *err);

/*
 * Returns the memory of all GPUs that one process holds, contexts included. 0 for a process that
 * the driver does not list; unknown if the driver does not list processes or their memory, and for
 * a process that it does not list if this PID namespace may differ from the driver's.
 */
struct flmem_u64 flmem_nvml_process_bytes(struct flmem_nvml *nvml, pid_t pid);

static inline void flmem_nvml_cleanup(struct flmem_nvml **nvml)
{
	flmem_nvml_close(*nvml);
}

#define FLMEM_AUTO_NVML FLMEM_AUTO(flmem_nvml_cleanup)

#endif
