/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_COMBINE_OPTIONS_H
#define FLMEM_CLI_COMBINE_OPTIONS_H

/* Declares options that `aggregate` and `exchange serve` share: how models are combined. */

#include <stddef.h>
#include <stdint.h>

#include <flmem/aggregate.h>
#include <flmem/error.h>

#include "options/opt.h"

struct combine_options {
	const char *algorithm;
	const char *trim;
	const char *server_rate;
	const char *beta1;
	const char *beta2;
	const char *tau;
	const char *clip_norm;
	uint64_t hostile;
	uint64_t keep;
	const char *key;
	const char *nan;
	const char *non_float;
	double betas[2]; /* the request refers to these */
};

/* These are the words of algorithms, in the order of the values. */
extern const char *const combine_algorithms[];
extern const char *const combine_nan_policies[];
extern const char *const combine_non_float_policies[];

/*
 * These are rows of an option table; `at` is the offset of a struct combine_options in the options.
 */
#define COMBINE_OPTIONS(at, nan_default, non_float_default)                                        \
	{.name = "algorithm",                                                                      \
	 .letter = 'a',                                                                            \
	 .kind = OPT_CHOICE,                                                                       \
	 .offset = (at) + offsetof(struct combine_options, algorithm),                             \
	 .choices = combine_algorithms,                                                            \
	 .help = "how elements are combined: weighted mean (default), a step of the server's "     \
		 "optimizer, sum of masked integers, or a method that limits the influence of "    \
		 "single inputs"},                                                                 \
		{.name = "trim",                                                                   \
		 .kind = OPT_TEXT,                                                                 \
		 .offset = (at) + offsetof(struct combine_options, trim),                          \
		 .metavar = "SHARE",                                                               \
		 .help = "for trimmed-mean: share of the inputs to drop at each end, "             \
			 "for each element (default 0.2)"},                                        \
		{.name = "server-rate",                                                            \
		 .kind = OPT_TEXT,                                                                 \
		 .offset = (at) + offsetof(struct combine_options, server_rate),                   \
		 .metavar = "NUMBER",                                                              \
		 .help = "for algorithms with a state: learning rate of the server (default 1 "    \
			 "for fedavgm, 0.1 for the others)"},                                      \
		{.name = "beta1",                                                                  \
		 .kind = OPT_TEXT,                                                                 \
		 .offset = (at) + offsetof(struct combine_options, beta1),                         \
		 .metavar = "NUMBER",                                                              \
		 .help = "for algorithms with a state: decay of the momentum (default 0.9, 0 for " \
			 "fedadagrad)"},                                                           \
		{.name = "beta2",                                                                  \
		 .kind = OPT_TEXT,                                                                 \
		 .offset = (at) + offsetof(struct combine_options, beta2),                         \
		 .metavar = "NUMBER",                                                              \
		 .help = "for fedadam and fedyogi: decay of the variance (default 0.99)"},         \
		{.name = "tau",                                                                    \
		 .kind = OPT_TEXT,                                                                 \
		 .offset = (at) + offsetof(struct combine_options, tau),                           \
		 .metavar = "NUMBER",                                                              \
		 .help = "for fedadam, fedyogi and fedadagrad: constant added to the square root " \
			 "of the variance (default 0.001)"},                                       \
		{.name = "clip-norm",                                                              \
		 .kind = OPT_TEXT,                                                                 \
		 .offset = (at) + offsetof(struct combine_options, clip_norm),                     \
		 .metavar = "NUMBER",                                                              \
		 .help = "for norm-clipped-mean: the largest L2 norm of an update (default: the "  \
			 "median of their norms)"},                                                \
		{.name = "hostile",                                                                \
		 .kind = OPT_NUMBER,                                                               \
		 .offset = (at) + offsetof(struct combine_options, hostile),                       \
		 .metavar = "N",                                                                   \
		 .help = "for krum, multi-krum and bulyan: how many inputs may be hostile "        \
			 "(default: the most that their number allows)"},                          \
		{.name = "keep",                                                                   \
		 .kind = OPT_NUMBER,                                                               \
		 .offset = (at) + offsetof(struct combine_options, keep),                          \
		 .metavar = "N",                                                                   \
		 .help = "for multi-krum: how many inputs to average (default: all but "           \
			 "the hostile ones and two)"},                                             \
		{.name = "key",                                                                    \
		 .kind = OPT_TEXT,                                                                 \
		 .offset = (at) + offsetof(struct combine_options, key),                           \
		 .metavar = "NAME",                                                                \
		 .help = "for PyTorch checkpoints: the dict that has the tensors, for example "    \
			 "state_dict (default: the top level)"},                                   \
		{.name = "nan",                                                                    \
		 .kind = OPT_CHOICE,                                                               \
		 .offset = (at) + offsetof(struct combine_options, nan),                           \
		 .choices = combine_nan_policies,                                                  \
		 .help = "a NaN or an infinity in an input: fail, average without that input, or " \
			 "compute with it (default " nan_default ")"},                             \
	{                                                                                          \
		.name = "non-float", .kind = OPT_CHOICE,                                           \
		.offset = (at) + offsetof(struct combine_options, non_float),                      \
		.choices = combine_non_float_policies,                                             \
		.help = "integer and other tensors: must be equal, are copied from the first "     \
			"input, or are averaged and rounded (default " non_float_default ")"       \
	}

/*
 * Fills a request with what is given. nan and non_float keep their values where they are not given.
 * `options` must live as long as the request. Returns FLMEM_EUSAGE for invalid values.
 */
int combine_options_fill(struct combine_options *options, struct flmem_aggregate_request *request,
			 struct flmem_error *err);

#endif
