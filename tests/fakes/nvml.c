/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands for NVIDIA's libnvidia-ml.so.1 on machines without a GPU: the functions that flmem calls,
 * written after the NVML API reference. REVISION is the newest revision of the process lists that
 * it has, as drivers before 460 (1), before 510 (2) and since have them.
 *
 * Two GPUs. The environment sets what they report:
 *   FAKE_NVML_INIT=N     nvmlInit_v2 fails with N
 *   FAKE_NVML_PID=P      process P holds 1 GiB of the first GPU and is in both of its lists (it
 *                        computes and draws), and 256 MiB of each of two parts of the second;
 *                        process P + 1 is listed without its memory
 *   FAKE_NVML_OTHERS=N   N other processes stand before it in every list
 *   FAKE_NVML_NO_MIG=1   no function about MIG works (error 999); else the second GPU has two
 *                        instances, and the first cannot be partitioned
 *   FAKE_NVML_CUDA=N     the CUDA version that it supports (12050)
 *   FAKE_NVML_NO_LISTS=1 no process is listed at all (error 3, not supported)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	SUCCESS = 0,
	UNINITIALIZED = 1,
	INVALID_ARGUMENT = 2,
	NOT_SUPPORTED = 3,
	NOT_FOUND = 6,
	INSUFFICIENT_SIZE = 7,
	UNKNOWN_ERROR = 999,
};

#define GIB 1073741824ULL

struct device {
	const char *name;
	unsigned long long total, used;
};

static struct device devices[] = {
	{"Fake GPU 80GB", 80 * GIB, 3 * GIB},
	{"Fake GPU 80GB parted", 80 * GIB, 2 * GIB},
};

/* Memory reserved by the driver: newer revisions report it apart from memory in use. */
#define RESERVED (GIB / 2)

struct memory {
	unsigned long long total, free, used;
};

struct memory_v2 {
	unsigned version;
	unsigned long long total, reserved, free, used;
};

struct process {
	unsigned pid;
	unsigned long long used;
#if REVISION > 1
	unsigned gpu_instance, compute_instance;
#endif
};

static int initialised;

static unsigned setting(const char *name)
{
	const char *text = getenv(name);

	return text ? (unsigned)strtoul(text, NULL, 10) : 0;
}

int nvmlInit_v2(void)
{
	int rc = (int)setting("FAKE_NVML_INIT");

	initialised = rc == SUCCESS;
	return rc;
}

int nvmlShutdown(void)
{
	if (!initialised)
		return UNINITIALIZED;
	initialised = 0;
	return SUCCESS;
}

int nvmlSystemGetDriverVersion(char *version, unsigned length)
{
	if (!initialised)
		return UNINITIALIZED;
	return snprintf(version, length, "555.42.06") < (int)length ? SUCCESS : INSUFFICIENT_SIZE;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
	*count = 2;
	return initialised ? SUCCESS : UNINITIALIZED;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct device **device)
{
	if (index >= 2)
		return INVALID_ARGUMENT;
	*device = &devices[index];
	return initialised ? SUCCESS : UNINITIALIZED;
}

int nvmlDeviceGetName(struct device *device, char *name, unsigned length)
{
	return snprintf(name, length, "%s", device->name) < (int)length ? SUCCESS
									: INSUFFICIENT_SIZE;
}

int nvmlDeviceGetMemoryInfo(struct device *device, struct memory *memory)
{
	memory->total = device->total;
	memory->used = device->used + RESERVED;
	memory->free = device->total - memory->used;
	return SUCCESS;
}

#if REVISION > 2
int nvmlDeviceGetMemoryInfo_v2(struct device *device, struct memory_v2 *memory)
{
	if (memory->version != (sizeof(*memory) | 2 << 24))
		return INVALID_ARGUMENT;
	memory->total = device->total;
	memory->reserved = RESERVED;
	memory->used = device->used;
	memory->free = device->total - device->used - RESERVED;
	return SUCCESS;
}
#endif

static int list(unsigned *count, struct process *rows, const struct process *own,
		unsigned own_count)
{
	unsigned others = setting("FAKE_NVML_OTHERS"), needed = others + own_count, room = *count;

	if (setting("FAKE_NVML_NO_LISTS"))
		return NOT_SUPPORTED;
	*count = needed;
	if (room < needed)
		return INSUFFICIENT_SIZE;
	for (unsigned i = 0; i < others; i++)
		rows[i] = (struct process){.pid = 4000000 + i, .used = GIB};
	memcpy(rows + others, own, own_count * sizeof(*own));
	return SUCCESS;
}

static int compute(struct device *device, unsigned *count, struct process *rows)
{
	unsigned pid = setting("FAKE_NVML_PID");
	const struct process first[] = {{.pid = pid, .used = GIB}, {.pid = pid + 1, .used = ~0ULL}};
	const struct process second[] = {{.pid = pid, .used = GIB / 4},
					 {.pid = pid, .used = GIB / 4}};

	return device == devices ? list(count, rows, first, 2) : list(count, rows, second, 2);
}

static int graphics(struct device *device, unsigned *count, struct process *rows)
{
	const struct process both = {.pid = setting("FAKE_NVML_PID"), .used = GIB};

	return list(count, rows, &both, device == devices);
}

/* Drivers before 410 and 450 lack these. */
#if REVISION > 1
int nvmlSystemGetCudaDriverVersion_v2(int *version)
{
	*version = getenv("FAKE_NVML_CUDA") ? (int)setting("FAKE_NVML_CUDA") : 12050;
	return initialised ? SUCCESS : UNINITIALIZED;
}

int nvmlDeviceGetMigMode(struct device *device, unsigned *current, unsigned *pending)
{
	if (setting("FAKE_NVML_NO_MIG"))
		return UNKNOWN_ERROR;
	if (device == devices)
		return NOT_SUPPORTED;
	*current = *pending = 1;
	return SUCCESS;
}

int nvmlDeviceGetMaxMigDeviceCount(struct device *device, unsigned *count)
{
	*count = device == devices ? 0 : 7;
	return SUCCESS;
}

/* There are instances 1 and 4: freed instances leave gaps. */
int nvmlDeviceGetMigDeviceHandleByIndex(struct device *device, unsigned index, struct device **mig)
{
	if (device == devices || (index != 1 && index != 4))
		return NOT_FOUND;
	*mig = device;
	return SUCCESS;
}
#endif

#if REVISION == 1
#define COMPUTE	 nvmlDeviceGetComputeRunningProcesses
#define GRAPHICS nvmlDeviceGetGraphicsRunningProcesses
#elif REVISION == 2
#define COMPUTE	 nvmlDeviceGetComputeRunningProcesses_v2
#define GRAPHICS nvmlDeviceGetGraphicsRunningProcesses_v2
#else
#define COMPUTE	 nvmlDeviceGetComputeRunningProcesses_v3
#define GRAPHICS nvmlDeviceGetGraphicsRunningProcesses_v3
#endif

int COMPUTE(struct device *device, unsigned *count, struct process *rows)
{
	return compute(device, count, rows);
}

int GRAPHICS(struct device *device, unsigned *count, struct process *rows)
{
	return graphics(device, count, rows);
}

#if REVISION > 1
/* The old name stays in new drivers and takes the old struct: flmem must not use it. */
int nvmlDeviceGetComputeRunningProcesses(struct device *device, unsigned *count, void *rows)
{
	(void)device;
	(void)count;
	(void)rows;
	return INVALID_ARGUMENT;
}
#endif
