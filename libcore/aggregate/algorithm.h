/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_AGGREGATE_ALGORITHM_H
#define FLMEM_AGGREGATE_ALGORITHM_H

/*
 * One way to make one model of several, element by element. Each is one file that ends in one
 * constant table, named in FLMEM_ALGORITHMS (flmem/algorithm.h); types of elements, files and
 * threads are not its concern.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/algorithm.h>
#include <flmem/error.h>

#include "aggregate/kernels.h"

/* The most elements that are combined at once. */
#define FLMEM_ROW_LONGEST 1024U

/* What stays the same for all elements. */
struct flmem_combination {
	const struct flmem_algorithm *algorithm;
	const struct flmem_kernels *kernels;
	size_t inputs;
	const double *weights; /* one per input, all above 0 */
	double total;	       /* their sum, from 0.5 to 1 */
	double trim;	       /* share to drop at each end */
	size_t trimmed;	       /* the same as a number of inputs, by prepare() */
	size_t hostile;	       /* inputs that may be; 0: as many as possible, until prepare() */
	size_t keep;	       /* inputs to choose; the same */
	double clip_norm;      /* 0: use the median of the norms */
	const double *factors; /* of each input, by judge(); may be NULL */
	bool has_base;	       /* after the rows of the inputs is that of the base */
	bool first_round;      /* the state is not set yet */
	double rate, beta1, beta2, tau; /* of the server's steps; rate and tau may be 0: default */
};

/* Models in the type of the inputs that combine() reads: rows of the state are after theirs. */
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
	FLMEM_MEASURE_NORMS,	 /* of each input's difference from the base */
	FLMEM_MEASURE_DISTANCES, /* of each two inputs */
};

struct flmem_algorithm {
	bool weighted; /* uses the weights */
	bool is_mean;  /* combine() is the weighted mean, for which kernels have a shorter way */
	bool trims;    /* uses the share to drop */
	bool compares; /* limits what single inputs can do by comparing them with the others */
	bool keeps;    /* uses the number of inputs to choose */
	bool clips;    /* uses the largest norm */
	bool takes_base;
	enum flmem_measure measures;
	size_t slots;		/* of enum flmem_slot; 0: keeps no state */
	double beta1, beta2;	/* their defaults; 0 for beta2: it has none */
	const char *left_out;	/* why judge() gave an input the factor 0 */
	const char *scaled_out; /* the same, of one whose measure is finite; NULL: as left_out */
	/*
	 * A NaN or an infinity of an input always makes the result one, so that only the result
	 * has to be checked.
	 */
	bool passes_special;
	/* Checks and completes what depends on the number of inputs. May be NULL. */
	int (*prepare)(struct flmem_combination *combination, struct flmem_error *err);
	/*
	 * Sets the factors, which are 0 before; 0 leaves an input out. `squares` are what was
	 * measured, squared: a number per input, or a row of numbers per input. `scratch` has room
	 * for two numbers per input.
	 */
	void (*judge)(const struct flmem_combination *combination, const double *squares,
		      double *factors, double *scratch);
	/*
	 * `rows` has an array of `count` elements per input, which may be overwritten, then one of
	 * the base, then those of the state, which it sets for the next round.
	 */
	void (*combine)(const struct flmem_combination *combination, double *const *rows,
			size_t count, double *ret_result);
	/*
	 * In place of combine() for models of whole numbers only: combines `count` numbers of
	 * `bytes` bytes, from byte `at` of each input's buffer, into the buffer after theirs.
	 */
	void (*combine_whole)(size_t inputs, size_t bytes, char *const *buffers, size_t at,
			      size_t count);
};

/* Of all algorithms. */
#define FLMEM_ALGORITHM_EXTERN(identifier, name, meaning) \
	extern const struct flmem_algorithm flmem_##identifier;
FLMEM_ALGORITHMS(FLMEM_ALGORITHM_EXTERN)
#undef FLMEM_ALGORITHM_EXTERN

/* By a name of FLMEM_ALGORITHMS; NULL for none. */
const struct flmem_algorithm *flmem_algorithm_find(const char *name);

/* The name of one that was found. */
const char *flmem_algorithm_name(const struct flmem_algorithm *algorithm);

/*
 * Scales weights by a power of two, so that their sum lies between 0.5 and 1 and no weighted sum of
 * finite elements is infinite; this changes no bit of a result. FLMEM_EUSAGE for weights that are
 * negative, not finite, all 0, or so different that the scaled ones are not exact.
 */
int flmem_weights_scale(double *weights, size_t count, double *ret_total, struct flmem_error *err);

#endif
