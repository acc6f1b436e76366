/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_AGGREGATE_KERNELS_H
#define FLMEM_AGGREGATE_KERNELS_H

/*
 * Arithmetic on arrays of tensor elements. Everything is computed in double and rounded once, to
 * nearest with ties to even, when it is stored. kernels_body.inc is compiled once per instruction
 * set; the results have the same bits, since no compiler may contract or reorder the operations.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(NAME, stored name of the type, C type, bytes); the floating-point types first. */
#define FLMEM_ELEMENTS(X)                \
	X(F16, "F16", f16, 2)            \
	X(BF16, "BF16", bf16, 2)         \
	X(F32, "F32", f32, 4)            \
	X(F64, "F64", f64, 8)            \
	X(F8_E4M3, "F8_E4M3", f8e4m3, 1) \
	X(F8_E5M2, "F8_E5M2", f8e5m2, 1) \
	X(I8, "I8", i8, 1)               \
	X(U8, "U8", u8, 1)               \
	X(I16, "I16", i16, 2)            \
	X(U16, "U16", u16, 2)            \
	X(I32, "I32", i32, 4)            \
	X(U32, "U32", u32, 4)            \
	X(I64, "I64", i64, 8)            \
	X(U64, "U64", u64, 8)            \
	X(BOOL, "BOOL", truth, 1)

enum flmem_element {
#define FLMEM_ELEMENT_ENUM(name, stored, type, bytes) FLMEM_ELEMENT_##name,
	FLMEM_ELEMENTS(FLMEM_ELEMENT_ENUM)
#undef FLMEM_ELEMENT_ENUM
	FLMEM_ELEMENTS_COUNT, /* a type without arithmetic */
};

/* Finds a type by its stored name; FLMEM_ELEMENTS_COUNT for types without arithmetic. */
enum flmem_element flmem_element_find(const char *stored);

size_t flmem_element_bytes(enum flmem_element element);

static inline bool flmem_element_is_real(enum flmem_element element)
{
	return element <= FLMEM_ELEMENT_F8_E5M2;
}

static inline bool flmem_element_is_integer(enum flmem_element element)
{
	return element >= FLMEM_ELEMENT_I8 && element <= FLMEM_ELEMENT_U64;
}

struct flmem_generator;

/* The request for a weighted mean of elements of one type. */
struct flmem_mean {
	char *const *from; /* one buffer per input */
	const double *weights;
	size_t inputs; /* at least one */
	double total;  /* divisor of the weighted sum */
};

/*
 * Smallest and largest value and sum of finite values, in eight lanes whose order is the same for
 * every instruction set. `lost` is what additions to `sum` have rounded off.
 */
#define FLMEM_LANES 8U
struct flmem_lanes {
	double min[FLMEM_LANES], max[FLMEM_LANES], sum[FLMEM_LANES], lost[FLMEM_LANES];
};

/* How finite values differ: the largest |a - b|, and the largest divided by that of |a| and |b|. */
struct flmem_difference {
	uint64_t differing;
	double absolute, relative;
};

struct flmem_kernels {
	const char *name;
	bool (*supported)(void); /* reports whether this processor has the instructions */
	/* NaNs of every kind are stored as the one quiet NaN of the type with a clear sign. */
	void (*load[FLMEM_ELEMENTS_COUNT])(const void *from, double *to, size_t count);
	void (*store[FLMEM_ELEMENTS_COUNT])(const double *from, void *to, size_t count);
	/*
	 * Stores the weighted mean of `count` elements, from byte `at` of each buffer, in `to`. The
	 * bits are the same as by load, scale, add, divide and store, but no arrays of doubles are
	 * needed in between. Returns true if all means are finite before they are rounded. NULL for
	 * types without this kernel.
	 */
	bool (*mean[FLMEM_ELEMENTS_COUNT])(const struct flmem_mean *mean, size_t at, void *to,
					   size_t count);
	void (*scale)(const double *from, double factor, double *to, size_t count);
	void (*add)(const double *from, double factor, double *to, size_t count); /* to += */
	void (*divide)(double *values, double divisor, size_t count);
	/*
	 * Exchanges the values of each pair that are in the wrong order. A pair with a NaN is left
	 * as it is.
	 */
	void (*order)(double *lower, double *upper, size_t count);
	/* Returns the sum of the squared differences. */
	double (*distance)(const double *a, const double *b, size_t count);
	/* Computes the lanes of at least one finite value. */
	void (*survey)(const double *values, size_t count, struct flmem_lanes *ret_lanes);
	void (*differ)(const double *a, const double *b, size_t count,
		       struct flmem_difference *ret_difference);
	/* Returns the sum of the squares of the products with `factor`. */
	double (*squares)(const double *values, double factor, size_t count);
	/* True if there is no NaN and no infinity. */
	bool (*finite)(const double *values, size_t count);
	/* Computes the values of whole groups of a generated tensor; see generator.h. */
	void (*generate)(const struct flmem_generator *generator, uint64_t group, double *to,
			 size_t groups);
};

/* The fastest table that this processor supports. */
const struct flmem_kernels *flmem_kernels_best(void);

/*
 * Returns a table by index, the fastest first; NULL after the last. Tables that this processor does
 * not support are included.
 */
const struct flmem_kernels *flmem_kernels_at(size_t index);

#endif
