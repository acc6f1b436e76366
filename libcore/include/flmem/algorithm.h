/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ALGORITHM_H
#define FLMEM_ALGORITHM_H

/* Names of the aggregation algorithms, which flmem_aggregate() (flmem/aggregate.h) runs. */

/* Ways to combine the elements of the inputs. X(identifier, name, meaning) */
#define FLMEM_ALGORITHMS(X)                                                               \
	X(fedavg, "fedavg", "weighted mean")                                              \
	X(fedavgm, "fedavgm", "weighted mean, with momentum")                             \
	X(fedadam, "fedadam", "Adam with the weighted mean as its step")                  \
	X(fedyogi, "fedyogi", "Yogi with the weighted mean as its step")                  \
	X(fedadagrad, "fedadagrad", "Adagrad with the weighted mean as its step")         \
	X(median, "median", "median of each element")                                     \
	X(trimmed_mean, "trimmed-mean",                                                   \
	  "mean of each element without its largest and smallest values")                 \
	X(sum, "sum", "sum of integers modulo the size of their type")                    \
	X(norm_clipped_mean, "norm-clipped-mean", "mean of updates with a largest norm")  \
	X(krum, "krum", "the input nearest to most others")                               \
	X(multi_krum, "multi-krum", "weighted mean of the inputs nearest to most others") \
	X(bulyan, "bulyan", "of inputs that krum chooses, the mean near each element's median")

#endif
