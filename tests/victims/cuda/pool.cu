/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps 256 MiB in the default stream-ordered pool of device 0 of which 64 MiB are allocated, asks
 * libflmem to release the rest, and prints: result, bytes released, kept before and after, and a sum
 * over the allocated memory, which must stay 64 * 2^20.
 *
 *   cuda_pool cleanup | capture
 *
 * With "capture" another stream captures a graph meanwhile, which must be valid at the end.
 */
#include <cuda_runtime.h>
#include <flmem/own_process.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB (1UL << 20)

static void check(cudaError_t code, const char *what)
{
	if (code == cudaSuccess)
		return;
	fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(code));
	exit(code == cudaErrorNoDevice || code == cudaErrorInsufficientDriver ? 77 : 1);
}

static uint64_t pool_reserved(void)
{
	cudaMemPool_t pool;
	uint64_t bytes = 0;

	check(cudaDeviceGetDefaultMemPool(&pool, 0), "cudaDeviceGetDefaultMemPool");
	check(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &bytes),
	      "cudaMemPoolGetAttribute");
	return bytes;
}

static void fill_pool(cudaStream_t stream, void **kept)
{
	cudaMemPool_t pool;
	uint64_t threshold = UINT64_MAX; /* otherwise the pool is emptied at each synchronisation */
	void *freed;

	check(cudaDeviceGetDefaultMemPool(&pool, 0), "cudaDeviceGetDefaultMemPool");
	check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold),
	      "cudaMemPoolSetAttribute");
	check(cudaMallocAsync(kept, 64 * MIB, stream), "cudaMallocAsync");
	check(cudaMallocAsync(&freed, 192 * MIB, stream), "cudaMallocAsync");
	check(cudaMemsetAsync(*kept, 1, 64 * MIB, stream), "cudaMemsetAsync");
	check(cudaFreeAsync(freed, stream), "cudaFreeAsync");
	check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

static uint64_t sum_of(const void *kept)
{
	unsigned char *bytes = (unsigned char *)malloc(64 * MIB);
	uint64_t sum = 0;

	check(cudaMemcpy(bytes, kept, 64 * MIB, cudaMemcpyDeviceToHost), "cudaMemcpy");
	for (size_t i = 0; i < 64 * MIB; i++)
		sum += bytes[i];
	free(bytes);
	return sum;
}

int main(int argc, char **argv)
{
	bool captures = argc > 1 && strcmp(argv[1], "capture") == 0;
	cudaStream_t stream, other;
	cudaGraph_t graph = NULL;
	struct flmem_error err = {};
	uint64_t before, released = 0;
	void *kept;
	int rc;

	check(cudaStreamCreate(&stream), "cudaStreamCreate");
	check(cudaStreamCreate(&other), "cudaStreamCreate");
	fill_pool(stream, &kept);
	before = pool_reserved();
	if (captures)
		check(cudaStreamBeginCapture(other, cudaStreamCaptureModeGlobal),
		      "cudaStreamBeginCapture");
	rc = flmem_cleanup_memory_with(FLMEM_CLEANUP_CUDA, &released, &err);
	if (captures)
		check(cudaStreamEndCapture(other, &graph), "cudaStreamEndCapture");
	printf("%d %llu %llu %llu %llu\n", rc, (unsigned long long)released,
	       (unsigned long long)before, (unsigned long long)pool_reserved(),
	       (unsigned long long)sum_of(kept));
	if (rc)
		fprintf(stderr, "%s\n", err.message);
	return 0;
}
