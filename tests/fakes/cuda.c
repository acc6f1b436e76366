/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces CUDA's driver where there is none, with the functions that flmem calls: two devices, of
 * which the second one has an active context. FAKE_CUDA_CONTEXT=0: none has one. FAKE_CUDA_ERROR is
 * what cuMemPoolTrimTo returns. A call that would create a context, or one from a thread that is
 * not in the relaxed capture mode, ends the process.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES 2
#define MIB	(UINT64_C(1) << 20)

static uint64_t reserved[DEVICES] = {48 * MIB, 100 * MIB};
static const uint64_t used[DEVICES] = {16 * MIB, 36 * MIB};
static _Thread_local int mode;

static int is_active(int device)
{
	const char *context = getenv("FAKE_CUDA_CONTEXT");

	return device == 1 && (!context || strcmp(context, "0") != 0);
}

static int pool_of(const void *pool)
{
	int device = (int)((uintptr_t)pool >> 4) - 1;

	if (device < 0 || device >= DEVICES || !is_active(device) || mode != 2)
		abort();
	return device;
}

int cuDeviceGetCount(int *count)
{
	*count = DEVICES;
	return 0;
}

int cuDeviceGet(int *device, int ordinal)
{
	*device = ordinal;
	return ordinal < DEVICES ? 0 : 101;
}

int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
	*flags = 0;
	*active = is_active(device);
	return 0;
}

int cuThreadExchangeStreamCaptureMode(int *exchanged)
{
	int before = mode;

	mode = *exchanged;
	*exchanged = before;
	return 0;
}

int cuDeviceGetDefaultMemPool(void **pool, int device)
{
	*pool = (void *)((uintptr_t)(device + 1) << 4);
	return 0;
}

int cuMemPoolTrimTo(void *pool, size_t keep)
{
	const char *error = getenv("FAKE_CUDA_ERROR");
	int device = pool_of(pool);

	if (error)
		return (int)strtol(error, NULL, 10);
	reserved[device] = used[device] > keep ? used[device] : keep;
	return 0;
}

int cuMemPoolGetAttribute(void *pool, int attribute, void *value)
{
	int device = pool_of(pool);

	if (attribute != 5 && attribute != 7)
		return 1;
	memcpy(value, attribute == 5 ? &reserved[device] : &used[device], sizeof(uint64_t));
	return 0;
}
