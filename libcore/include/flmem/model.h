/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_MODEL_H
#define FLMEM_MODEL_H

/*
 * The size of a model, read from its file or folder without loading it. Sizes are in bytes. Results
 * own their strings: release with flmem_model_clear(). Calls share nothing between threads.
 */

#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>
#include <flmem/value.h>
#include <flmem/visibility.h>

/* Models whose tensors are known by name; flmem/aggregate.h generates values for them. X(name) */
#define FLMEM_SHAPES(X)    \
	X("resnet18")      \
	X("llama-3.2-1b")  \
	X("llama-3.2-3b")  \
	X("llama-3.1-8b")  \
	X("llama-3.1-70b") \
	X("llama-3.1-405b")

/* Facts about a model, read without loading it. */
struct flmem_model {
	char *name;			/* name or path, as the caller gave it */
	const char *dtype;		/* type of the tensors: "bf16", "mixed"; NULL: unknown */
	uint64_t bytes;			/* bytes of all tensors together */
	struct flmem_u64 parameters;	/* number of elements of all tensors */
	struct flmem_u64 tensors;	/* number of tensors */
	struct flmem_u64 largest_bytes; /* bytes of the largest tensor */
};

/*
 * Reads the size of a model from a safetensors file (its header), a PyTorch checkpoint (the
 * directory of its archive; nothing is unpickled), or a folder of either, shards included; or
 * computes it from the shape of a model that is known by name. `dtype` NULL keeps the model's type;
 * "fp32", "bf16", ... give the size after conversion. FLMEM_EUSAGE for unsupported, damaged or too
 * large input, FLMEM_EPERM for unreadable input.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_model_read(const char *what, const char *dtype,
						struct flmem_model *ret_model,
						struct flmem_error *err);

/*
 * Makes a model of this many parameters. `dtype` NULL means fp32. FLMEM_EUSAGE for an unknown type,
 * 0 parameters, or a size beyond 64 bits. Release with flmem_model_clear().
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_model_make(uint64_t parameters, const char *dtype,
						struct flmem_model *ret_model,
						struct flmem_error *err);

/* Frees what the model owns and zeroes the struct. */
FLMEM_API void flmem_model_clear(struct flmem_model *model);

#endif
