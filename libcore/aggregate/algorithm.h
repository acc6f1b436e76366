/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_AGGREGATE_ALGORITHM_H
#define FLMEM_AGGREGATE_ALGORITHM_H

/*
 * An aggregation algorithm combines several models into one, element by element. Each algorithm is
 * one file that ends in one constant table, named in FLMEM_ALGORITHMS (flmem/algorithm.h). Types of
 * elements, files and threads are handled by the callers.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/algorithm.h>
#include <flmem/error.h>

#include "aggregate/kernels.h"

/* The most elements that are combined at once. */
#define FLMEM_ROW_LONGEST 1024U

/* The parameters of one combination, the same for all its elements. */
struct flmem_combination {
	const struct flmem_algorithm *algorithm;
	const struct flmem_kernels *kernels;
	size_t inputs;
	const double *weights; /* one per input, all above 0 */
	double total;	       /* the sum of the weights, from 0.5 to 1 */
	double trim;	       /* share of the inputs to drop at each end */
	size_t trimmed;	       /* number of inputs to drop at each end, set by prepare() */
	/* Number of inputs assumed hostile; 0: prepare() sets the largest possible. */
	size_t hostile;
	size_t keep;	       /* number of inputs to choose; 0: prepare() sets it */
	double clip_norm;      /* 0: use the median of the norms */
	const double *factors; /* one per input, set by judge(); may be NULL */
	bool has_base;	       /* the row of the base follows the rows of the inputs */
	bool first_round;      /* the state is not set yet */
	/* Parameters of the server's step; 0 for rate or tau: default. */
	double rate, beta1, beta2, tau;
};

/* Number of rows in the type of the inputs that combine() reads; rows of the state follow them. */
static inline size_t flmem_combination_sources(const struct flmem_combination *c)
{
	return c->inputs + c->has_base;
}

/* What is kept of each element from round to round. */
enum flmem_slot {
	FLMEM_SLOT_MODEL,
	FLMEM_SLOT_MOMENTUM,
	FLMEM_SLOT_VARIANCE,
	FLMEM_SLOTS_MAX,
};

/* What a pass over all inputs measures before they are combined. */
enum flmem_measure {
	FLMEM_MEASURE_NOTHING,
	FLMEM_MEASURE_NORMS,	 /* the norm of each input's difference from the base */
	FLMEM_MEASURE_DISTANCES, /* the distance of each pair of inputs */
};

struct flmem_algorithm {
	bool weighted; /* the algorithm uses the weights */
	bool is_mean;  /* combine() is the weighted mean, for which kernels have a shorter way */
	bool trims;    /* uses `trim` */
	bool compares; /* limits what single inputs can do by comparing them with the others */
	bool keeps;    /* uses `keep` */
	bool clips;    /* uses `clip_norm` */
	bool takes_base;
	enum flmem_measure measures;
	size_t slots;	      /* number of values of enum flmem_slot that are kept; 0: no state */
	double beta1, beta2;  /* the defaults; 0 for beta2: it is not used */
	const char *left_out; /* why judge() gave an input the factor 0 */
	/* Why judge() scaled an input with finite measure to 0; NULL: left_out. */
	const char *scaled_out;
	/*
	 * A NaN or an infinity in an input always makes the result NaN or infinite, so that only
	 * the result has to be checked.
	 */
	bool passes_special;
	/* Checks and completes what depends on the number of inputs. May be NULL. */
	int (*prepare)(struct flmem_combination *combination, struct flmem_error *err);
	/*
	 * Sets the factor of each input. Factors are 0 before the call, and 0 leaves an input out.
	 * `squares` holds the squared measures: one number per input (norms), or one row of numbers
	 * per input (distances). `scratch` has room for two numbers per input.
	 */
	void (*judge)(const struct flmem_combination *combination, const double *squares,
		      double *factors, double *scratch);
	/*
	 * Combines `count` elements into `ret_result`. `rows` holds an array of `count` elements
	 * per input, which may be overwritten, then one of the base, then those of the state, which
	 * the function sets for the next round.
	 */
	void (*combine)(const struct flmem_combination *combination, double *const *rows,
			size_t count, double *ret_result);
	/*
	 * Replaces combine() for models that hold only integers: combines `count` numbers of
	 * `bytes` bytes, from byte `at` of each input's buffer, into the buffer that follows
	 * theirs.
	 */
	void (*combine_whole)(size_t inputs, size_t bytes, char *const *buffers, size_t at,
			      size_t count);
};

/* Declares the tables of all algorithms. */
#define FLMEM_ALGORITHM_EXTERN(identifier, name, meaning) \
	extern const struct flmem_algorithm flmem_##identifier;
FLMEM_ALGORITHMS(FLMEM_ALGORITHM_EXTERN)
#undef FLMEM_ALGORITHM_EXTERN

/* Finds an algorithm by its name in FLMEM_ALGORITHMS; NULL if there is none. */
const struct flmem_algorithm *flmem_algorithm_find(const char *name);

/* The name of an algorithm that flmem_algorithm_find() returned. */
const char *flmem_algorithm_name(const struct flmem_algorithm *algorithm);

/*
 * Scales the weights by a power of two, so that their sum lies between 0.5 and 1 and no weighted
 * sum of finite elements is infinite; this changes no bit of a result. FLMEM_EUSAGE if weights are
 * negative, not finite, all 0, or so different that the scaled ones are not exact.
 */
int flmem_weights_scale(double *weights, size_t count, double *ret_total, struct flmem_error *err);

#endif
