/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/text/text.h"
#include "model/tensors.h"

static const struct flmem_dtype dtypes[] = {
	{"fp32", "F32", 32, 17},
	{"fp16", "F16", 16, 13},
	{"bf16", "BF16", 16, 14},
	{"fp64", "F64", 64, 19},
	{"fp8-e4m3", "F8_E4M3", 8, 7},
	{"fp8-e5m2", "F8_E5M2", 8, 6},
	{"fp8-e8m0", "F8_E8M0", 8, 8},
	{"fp8-e4m3fnuz", "F8_E4M3FNUZ", 8, 9},
	{"fp8-e5m2fnuz", "F8_E5M2FNUZ", 8, 10},
	{"fp6-e2m3", "F6_E2M3", 6, 2},
	{"fp6-e3m2", "F6_E3M2", 6, 3},
	{"fp4", "F4", 4, 1},
	{"int64", "I64", 64, 20},
	{"int32", "I32", 32, 15},
	{"int16", "I16", 16, 11},
	{"int8", "I8", 8, 5},
	{"uint64", "U64", 64, 21},
	{"uint32", "U32", 32, 16},
	{"uint16", "U16", 16, 12},
	{"uint8", "U8", 8, 4},
	{"bool", "BOOL", 8, 0},
	{"complex64", "C64", 64, 18},
	{NULL, NULL, 0, 0},
};

/* The names of types that PyTorch and NumPy use. */
static const struct {
	const char *name, *stored;
} dtypes_other_names[] = {
	{"f32", "F32"},
	{"f16", "F16"},
	{"f64", "F64"},
	{"float32", "F32"},
	{"float", "F32"},
	{"float16", "F16"},
	{"half", "F16"},
	{"bfloat16", "BF16"},
	{"float64", "F64"},
	{"double", "F64"},
	{"float8_e4m3fn", "F8_E4M3"},
	{"float8_e5m2", "F8_E5M2"},
	{"float8_e8m0fnu", "F8_E8M0"},
	{"float8_e4m3fnuz", "F8_E4M3FNUZ"},
	{"float8_e5m2fnuz", "F8_E5M2FNUZ"},
};

/* Finds the stored name; the name may have Python's prefix: torch.float16. */
static const char *stored_name(const char *name)
{
	const char *plain = flmem_text_starts(name, "torch.") ? name + 6 : name;

	for (size_t i = 0; i < sizeof(dtypes_other_names) / sizeof(dtypes_other_names[0]); i++)
		if (strcmp(dtypes_other_names[i].name, plain) == 0)
			return dtypes_other_names[i].stored;
	return plain;
}

const struct flmem_dtype *flmem_dtype_by_option(const char *name)
{
	return flmem_dtype_find(stored_name(name));
}

const struct flmem_dtype *flmem_dtype_find(const char *name)
{
	for (const struct flmem_dtype *d = dtypes; d->name; d++)
		if (strcmp(d->name, name) == 0 || strcmp(d->stored, name) == 0)
			return d;
	return NULL;
}

size_t flmem_dtype_index(const struct flmem_dtype *dtype)
{
	return (size_t)(dtype - dtypes);
}

const struct flmem_dtype *flmem_dtype_at(size_t index)
{
	return &dtypes[index];
}
