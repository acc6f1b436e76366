/* SPDX-License-Identifier: Apache-2.0 */
#include "runtimes/cuda_pools.h"

#include <stdbool.h>
#include <stddef.h>

#include <flmem/plugin.h>

#include "base/cleanup.h"

/* Values and types of cuda.h: CUdevice is an int, CUmemoryPool a pointer, each result an int. */
#define CAPTURE_MODE_RELAXED	  2
#define POOL_RESERVED_MEM_CURRENT 5

struct cuda_driver {
	int (*count)(int *count);
	int (*device)(int *device, int ordinal);
	int (*context_state)(int device, unsigned *flags, int *active);
	int (*exchange_capture_mode)(int *mode);
	int (*default_pool)(void **pool, int device);
	int (*trim_pool)(void *pool, size_t keep);
	int (*pool_attribute)(void *pool, int attribute, void *value);
};

static int driver_failed(const char *function, int code, struct flmem_error *err)
{
	return flmem_error_set(err, FLMEM_EFAILED, 0, "%s: CUDA error %d", function, code);
}

/* True if the device has a context: other calls would create one, of some hundred megabytes. */
static bool has_context(const struct cuda_driver *driver, int ordinal, int *ret_device)
{
	unsigned flags;
	int active = 0;

	return driver->device(ret_device, ordinal) == 0 &&
	       driver->context_state(*ret_device, &flags, &active) == 0 && active;
}

static int trim_device(const struct cuda_driver *driver, int device, uint64_t *released,
		       struct flmem_error *err)
{
	uint64_t before = 0, after = 0;
	void *pool = NULL;
	int code = driver->default_pool(&pool, device);

	if (code)
		return 0; /* the device has no such pools */
	code = driver->pool_attribute(pool, POOL_RESERVED_MEM_CURRENT, &before);
	if (code)
		return driver_failed("cuMemPoolGetAttribute", code, err);
	code = driver->trim_pool(pool, 0);
	if (code)
		return driver_failed("cuMemPoolTrimTo", code, err);
	code = driver->pool_attribute(pool, POOL_RESERVED_MEM_CURRENT, &after);
	if (code)
		return driver_failed("cuMemPoolGetAttribute", code, err);
	*released += before > after ? before - after : 0;
	return 0;
}

/*
 * Trims the pools in relaxed mode: these calls do not end the capture of a CUDA graph in another
 * thread.
 */
static int trim_devices(const struct cuda_driver *driver, uint64_t *released,
			struct flmem_error *err)
{
	int count = 0, mode = CAPTURE_MODE_RELAXED, rc = 0, device;

	if (driver->count(&count))
		return 0; /* CUDA is not initialised, so there is no context */
	if (driver->exchange_capture_mode(&mode))
		return 0;
	for (int i = 0; i < count && !rc; i++)
		if (has_context(driver, i, &device))
			rc = trim_device(driver, device, released, err);
	driver->exchange_capture_mode(&mode);
	return rc;
}

int flmem_cuda_pools_trim(uint64_t *ret_released, struct flmem_error *err)
{
	static const struct flmem_plugin plugin = {
		.sonames = {"libcuda.so.1"},
		.missing = "CUDA's driver",
		.loaded_only = true,
		.stays = true,
	};
	struct cuda_driver driver = {0};
	const struct flmem_plugin_symbol symbols[] = {
		{{"cuDeviceGetCount"}, &driver.count, false},
		{{"cuDeviceGet"}, &driver.device, false},
		{{"cuDevicePrimaryCtxGetState"}, &driver.context_state, false},
		{{"cuThreadExchangeStreamCaptureMode"}, &driver.exchange_capture_mode, false},
		{{"cuDeviceGetDefaultMemPool"}, &driver.default_pool, false},
		{{"cuMemPoolTrimTo"}, &driver.trim_pool, false},
		{{"cuMemPoolGetAttribute"}, &driver.pool_attribute, false},
	};

	*ret_released = 0;
	/* A driver from before CUDA 11.2 has no such pools. */
	if (flmem_plugin_load(&plugin, symbols, FLMEM_ARRAY_SIZE(symbols), NULL, NULL))
		return 0;
	return trim_devices(&driver, ret_released, err);
}
