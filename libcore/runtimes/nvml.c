/* SPDX-License-Identifier: Apache-2.0 */
#include "runtimes/nvml.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <flmem/plugin.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "proc/host_facts.h"
#include "runtimes/cuda_runtime.h"

/*
 * The used part of NVML's ABI, as the NVML API reference documents it (stable since driver 340; a
 * number after a function name is the revision of the struct that it takes).
 */
#define LIBRARY "libnvidia-ml.so.1"

enum {
	NVML_SUCCESS = 0,
	NVML_NOT_SUPPORTED = 3,
	NVML_INSUFFICIENT_SIZE = 7,
	NVML_DRIVER_NOT_LOADED = 9,
	NVML_LIB_RM_VERSION_MISMATCH = 18,
};

#define DRIVER_VERSION_MAX 80
#define DEVICE_NAME_MAX	   96
#define NOT_AVAILABLE	   UINT64_MAX

struct nvml_device; /* opaque; handles are pointers to it */

struct nvml_memory {
	unsigned long long total, free, used;
};

/* nvmlMemory_v2_t: `used` of the first revision includes `reserved`, which no process can have. */
struct nvml_memory_v2 {
	unsigned version;
	unsigned long long total, reserved, free, used;
};

#define MEMORY_VERSION (sizeof(struct nvml_memory_v2) | 2U << 24)

/* nvmlProcessInfo_v1_t: for the function without a number. */
struct nvml_process_v1 {
	unsigned pid;
	unsigned long long used;
};

/* nvmlProcessInfo_v2_t: for _v2 and _v3. */
struct nvml_process_v2 {
	unsigned pid;
	unsigned long long used;
	unsigned gpu_instance, compute_instance;
};

_Static_assert(sizeof(struct nvml_memory_v2) == 40, "nvmlMemory_v2_t is 40 bytes");
_Static_assert(sizeof(struct nvml_process_v1) == 16, "nvmlProcessInfo_v1_t is 16 bytes");
_Static_assert(sizeof(struct nvml_process_v2) == 24, "nvmlProcessInfo_v2_t is 24 bytes");

typedef int nvml_list(struct nvml_device *device, unsigned *count, void *rows);

/* One of the two lists of processes, in the newest revision that the library has. */
struct process_list {
	nvml_list *call;
	size_t row_size;
};

struct flmem_nvml {
	void *library;
	bool initialised;
	int (*init)(void);
	int (*shutdown)(void);
	int (*driver_version)(char *version, unsigned length);
	int (*device_count)(unsigned *count);
	int (*device)(unsigned index, struct nvml_device **device);
	int (*device_name)(struct nvml_device *device, char *name, unsigned length);
	int (*device_memory)(struct nvml_device *device, struct nvml_memory *memory);
	struct process_list lists[2]; /* lists of compute and of graphics processes */
	/* These functions are NULL in drivers before 410, 450 and 510. */
	int (*cuda_version)(int *version);
	int (*mig_mode)(struct nvml_device *device, unsigned *current, unsigned *pending);
	int (*mig_limit)(struct nvml_device *device, unsigned *count);
	int (*mig_device)(struct nvml_device *device, unsigned index, struct nvml_device **mig);
	int (*device_memory_v2)(struct nvml_device *device, struct nvml_memory_v2 *memory);
};

#define DEVICE_LIMIT  256U
#define PROCESS_LIMIT 65536U

bool flmem_nvml_is_device(const char *path)
{
	/* WSL has one device instead of the driver's. */
	return flmem_text_starts(path, "/dev/nvidia") || flmem_text_starts(path, "/dev/dxg");
}

/*
 * The process lists have one row layout in their first revision and another since. The newest
 * revision that the library has is used.
 */
static void choose_lists(struct flmem_nvml *nvml, nvml_list *const *v1)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(nvml->lists); i++) {
		struct process_list *list = &nvml->lists[i];

		list->row_size = list->call ? sizeof(struct nvml_process_v2)
					    : sizeof(struct nvml_process_v1);
		if (!list->call)
			list->call = v1[i];
	}
}

static int load_library(struct flmem_nvml *nvml, struct flmem_error *err)
{
	static const struct flmem_plugin plugin = {
		.sonames = {LIBRARY},
		.missing = "no NVIDIA driver",
		.lacks = "functions that every driver since 340 has",
	};
	nvml_list *v1[FLMEM_ARRAY_SIZE(nvml->lists)];
	const struct flmem_plugin_symbol symbols[] = {
		{{"nvmlInit_v2", "nvmlInit"}, &nvml->init, false},
		{{"nvmlShutdown"}, &nvml->shutdown, false},
		{{"nvmlSystemGetDriverVersion"}, &nvml->driver_version, false},
		{{"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"}, &nvml->device_count, false},
		{{"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"},
		 &nvml->device,
		 false},
		{{"nvmlDeviceGetName"}, &nvml->device_name, false},
		{{"nvmlDeviceGetMemoryInfo"}, &nvml->device_memory, false},
		{{"nvmlDeviceGetComputeRunningProcesses_v3",
		  "nvmlDeviceGetComputeRunningProcesses_v2"},
		 &nvml->lists[0].call,
		 true},
		{{"nvmlDeviceGetGraphicsRunningProcesses_v3",
		  "nvmlDeviceGetGraphicsRunningProcesses_v2"},
		 &nvml->lists[1].call,
		 true},
		{{"nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion"},
		 &nvml->cuda_version,
		 true},
		{{"nvmlDeviceGetMigMode"}, &nvml->mig_mode, true},
		{{"nvmlDeviceGetMaxMigDeviceCount"}, &nvml->mig_limit, true},
		{{"nvmlDeviceGetMigDeviceHandleByIndex"}, &nvml->mig_device, true},
		{{"nvmlDeviceGetMemoryInfo_v2"}, &nvml->device_memory_v2, true},
		{{"nvmlDeviceGetComputeRunningProcesses"}, &v1[0], true},
		{{"nvmlDeviceGetGraphicsRunningProcesses"}, &v1[1], true},
	};
	int rc =
		flmem_plugin_load(&plugin, symbols, FLMEM_ARRAY_SIZE(symbols), &nvml->library, err);

	if (!rc)
		choose_lists(nvml, v1);
	return rc;
}

static int start_library(struct flmem_nvml *nvml, struct flmem_error *err)
{
	int rc = nvml->init();

	switch (rc) {
	case NVML_SUCCESS:
		nvml->initialised = true;
		return 0;
	case NVML_DRIVER_NOT_LOADED:
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
				       "the NVIDIA driver is not loaded, or its devices are not "
				       "visible here");
	case NVML_LIB_RM_VERSION_MISMATCH:
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
				       LIBRARY " and the loaded NVIDIA driver have different "
					       "versions; reboot after the update");
	default:
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
				       LIBRARY " does not start: NVML error %d", rc);
	}
}

int flmem_nvml_open(struct flmem_nvml **ret_nvml, struct flmem_error *err)
{
	FLMEM_AUTO_NVML struct flmem_nvml *nvml = calloc(1, sizeof(*nvml));
	int rc;

	if (!nvml)
		return flmem_error_nomem(err, "cannot open NVML");
	rc = load_library(nvml, err);
	if (!rc)
		rc = start_library(nvml, err);
	if (!rc)
		*ret_nvml = FLMEM_TAKE(nvml);
	return rc;
}

void flmem_nvml_close(struct flmem_nvml *nvml)
{
	if (!nvml)
		return;
	if (nvml->initialised)
		nvml->shutdown();
	flmem_plugin_close(nvml->library);
	free(nvml);
}

char *flmem_nvml_driver(struct flmem_nvml *nvml)
{
	char version[DRIVER_VERSION_MAX] = "";

	if (nvml->driver_version(version, sizeof(version)) != NVML_SUCCESS)
		return NULL;
	return strndup(version, sizeof(version));
}

char *flmem_nvml_cuda(struct flmem_nvml *nvml)
{
	int version;

	if (!nvml->cuda_version || nvml->cuda_version(&version) != NVML_SUCCESS)
		return NULL;
	return flmem_cuda_version_text(version);
}

static unsigned count_devices(struct flmem_nvml *nvml)
{
	unsigned count;

	if (nvml->device_count(&count) != NVML_SUCCESS)
		return 0;
	return count < DEVICE_LIMIT ? count : DEVICE_LIMIT;
}

static enum flmem_mig read_mig_mode(const struct flmem_nvml *nvml, struct nvml_device *device)
{
	unsigned current, pending; /* `pending` is the mode after the next reset */
	int rc = nvml->mig_mode ? nvml->mig_mode(device, &current, &pending) : NVML_SUCCESS;

	if (rc == NVML_NOT_SUPPORTED)
		return FLMEM_MIG_UNSUPPORTED;
	if (!nvml->mig_mode || rc != NVML_SUCCESS || current > 1)
		return FLMEM_MIG_UNKNOWN;
	return current ? FLMEM_MIG_ON : FLMEM_MIG_OFF;
}

/* Indexes of instances may have gaps, so each up to the limit is tried. */
static struct flmem_u64 count_mig(const struct flmem_nvml *nvml, struct nvml_device *device)
{
	struct nvml_device *mig;
	unsigned limit, count = 0;

	if (!nvml->mig_limit || !nvml->mig_device ||
	    nvml->mig_limit(device, &limit) != NVML_SUCCESS || limit > DEVICE_LIMIT)
		return FLMEM_UNKNOWN("the driver does not list the instances");
	for (unsigned i = 0; i < limit; i++)
		count += nvml->mig_device(device, i, &mig) == NVML_SUCCESS;
	return FLMEM_KNOWN(count);
}

static void read_mig(const struct flmem_nvml *nvml, struct nvml_device *device,
		     struct flmem_gpu *gpu)
{
	gpu->mig = read_mig_mode(nvml, device);
	if (gpu->mig == FLMEM_MIG_ON)
		gpu->mig_instances = count_mig(nvml, device);
	else if (gpu->mig != FLMEM_MIG_UNKNOWN)
		gpu->mig_instances = FLMEM_KNOWN(0);
}

static bool read_device_memory(const struct flmem_nvml *nvml, struct nvml_device *device,
			       struct nvml_memory *memory)
{
	struct nvml_memory_v2 newer = {.version = MEMORY_VERSION};

	if (nvml->device_memory_v2 && nvml->device_memory_v2(device, &newer) == NVML_SUCCESS) {
		*memory = (struct nvml_memory){newer.total, newer.free, newer.used};
		return true;
	}
	return nvml->device_memory(device, memory) == NVML_SUCCESS;
}

static int read_gpu(struct flmem_nvml *nvml, unsigned index, struct flmem_gpu *gpu)
{
	static const char untold[] = "the driver does not report it";
	struct nvml_memory memory;
	struct nvml_device *device;
	char name[DEVICE_NAME_MAX] = "";

	gpu->total_bytes = FLMEM_UNKNOWN(untold);
	gpu->used_bytes = FLMEM_UNKNOWN(untold);
	gpu->free_bytes = FLMEM_UNKNOWN(untold);
	gpu->mig_instances = FLMEM_UNKNOWN(untold);
	if (nvml->device(index, &device) == NVML_SUCCESS) {
		nvml->device_name(device, name, sizeof(name));
		read_mig(nvml, device, gpu);
		if (read_device_memory(nvml, device, &memory)) {
			gpu->total_bytes = FLMEM_KNOWN(memory.total);
			gpu->used_bytes = FLMEM_KNOWN(memory.used);
			gpu->free_bytes = FLMEM_KNOWN(memory.free);
		}
	}
	gpu->name = strndup(name, sizeof(name));
	return gpu->name ? 0 : -1;
}

int flmem_nvml_gpus(struct flmem_nvml *nvml, struct flmem_gpu **ret_gpus, size_t *ret_count,
		    struct flmem_error *err)
{
	unsigned count = count_devices(nvml);
	struct flmem_gpu *gpus = calloc(count ? count : 1, sizeof(*gpus));

	for (unsigned i = 0; gpus && i < count; i++) {
		if (!read_gpu(nvml, i, &gpus[i]))
			continue;
		while (i--)
			free(gpus[i].name);
		free(gpus);
		gpus = NULL;
	}
	if (!gpus)
		return flmem_error_nomem(err, "cannot list the GPUs");
	*ret_gpus = gpus;
	*ret_count = count;
	return 0;
}

/*
 * Reads the rows of one list of one device; NULL with *ret_count 0 if it is empty. Returns -1 on
 * failure.
 */
static int read_list(const struct process_list *list, struct nvml_device *device, void **ret_rows,
		     unsigned *ret_count)
{
	unsigned count = 0, room = 32;

	if (!list->call)
		return -1;
	/* Processes may start between the calls, so the returned size may be outdated. */
	for (int attempt = 0; attempt < 4; attempt++) {
		void *rows = calloc(room, list->row_size);
		int rc;

		if (!rows)
			return -1;
		count = room;
		rc = list->call(device, &count, rows);
		if (rc == NVML_SUCCESS && count <= room) {
			*ret_rows = rows;
			*ret_count = count;
			return 0;
		}
		free(rows);
		if (rc != NVML_INSUFFICIENT_SIZE || count > PROCESS_LIMIT)
			return -1;
		room = count + 16;
	}
	return -1;
}

/* Figures of one process, from the lists. */
struct process_figures {
	pid_t pid;
	bool seen; /* the process is in a list */
	struct flmem_u64 bytes;
};

/* Adds the figures of one list. Returns false if the list cannot be read. */
static bool read_list_bytes(const struct process_list *list, struct nvml_device *device,
			    struct process_figures *account)
{
	FLMEM_AUTO_FREE void *rows = NULL;
	struct flmem_u64 bytes = FLMEM_KNOWN(0);
	unsigned count;

	if (read_list(list, device, &rows, &count))
		return false;
	for (unsigned i = 0; i < count; i++) {
		struct nvml_process_v1 row; /* both revisions start with this struct */

		memcpy(&row, (char *)rows + i * list->row_size, sizeof(row));
		if (row.pid != (unsigned)account->pid)
			continue;
		account->seen = true;
		if (row.used == NOT_AVAILABLE)
			bytes = FLMEM_UNKNOWN("the driver does not report the memory of processes");
		else if (!bytes.unknown) /* instances of a GPU add up */
			bytes.value += row.used;
	}
	account->bytes = bytes;
	return true;
}

/*
 * Adds the figures of one GPU. A process that computes and draws is in both lists with the same
 * memory: the larger counts.
 */
static bool read_gpu_bytes(const struct flmem_nvml *nvml, struct nvml_device *device,
			   struct process_figures *account)
{
	struct flmem_u64 most = FLMEM_KNOWN(0);
	bool listed = false;

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(nvml->lists); i++) {
		if (!read_list_bytes(&nvml->lists[i], device, account))
			continue;
		listed = true;
		if (account->bytes.unknown || (!most.unknown && account->bytes.value > most.value))
			most = account->bytes;
	}
	account->bytes = most;
	return listed;
}

struct flmem_u64 flmem_nvml_process_bytes(struct flmem_nvml *nvml, pid_t pid)
{
	struct process_figures account = {.pid = pid};
	unsigned count = count_devices(nvml);
	uint64_t total = 0;

	for (unsigned i = 0; i < count; i++) {
		struct nvml_device *device;

		if (nvml->device(i, &device) != NVML_SUCCESS ||
		    !read_gpu_bytes(nvml, device, &account))
			return FLMEM_UNKNOWN("the driver does not list the processes of a GPU");
		if (account.bytes.unknown)
			return account.bytes;
		total += account.bytes.value;
	}
	if (!account.seen && flmem_own_pid_namespace())
		return FLMEM_UNKNOWN("the driver counts processes by their pid on the host, which "
				     "differs in a container");
	return FLMEM_KNOWN(total);
}
