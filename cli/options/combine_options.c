/* SPDX-License-Identifier: Apache-2.0 */
#include "options/combine_options.h"

#include <stdbool.h>

#include <flmem/parse.h>

#define POLICY_TEXT(name, text, meaning) text,
const char *const combine_nan_policies[] = {FLMEM_NAN_POLICIES(POLICY_TEXT) NULL};
const char *const combine_non_float_policies[] = {FLMEM_NON_FLOAT_POLICIES(POLICY_TEXT) NULL};
#undef POLICY_TEXT
#define ALGORITHM_TEXT(identifier, name, meaning) name,
const char *const combine_algorithms[] = {FLMEM_ALGORITHMS(ALGORITHM_TEXT) NULL};
#undef ALGORITHM_TEXT

/* Reads the numbers of an algorithm that are given. */
static int fill_combine_numbers(struct combine_options *o, struct flmem_aggregate_request *request,
				struct flmem_error *err)
{
	const struct {
		const char *option, *text, *expected;
		double *number;
		bool zero;
		double below; /* exclusive limit; 0: none */
	} rows[] = {
		{"trim", o->trim, "more than 0 and less than 0.5", &request->trim, false, 0.5},
		{"clip-norm", o->clip_norm, "more than 0", &request->clip_norm, false, 0},
		{"server-rate", o->server_rate, "more than 0", &request->server_rate, false, 0},
		{"beta1", o->beta1, "0 or more and less than 1", &o->betas[0], true, 1},
		{"beta2", o->beta2, "0 or more and less than 1", &o->betas[1], true, 1},
		{"tau", o->tau, "more than 0", &request->tau, false, 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		double *number = rows[i].number;

		if (!rows[i].text)
			continue;
		if (flmem_parse_real(rows[i].text, number, err) ||
		    (*number == 0 && !rows[i].zero) ||
		    (rows[i].below > 0 && *number >= rows[i].below))
			return flmem_error_set(err, FLMEM_EUSAGE, 0,
					       "invalid number '%.60s' for --%s; expected %s",
					       rows[i].text, rows[i].option, rows[i].expected);
	}
	return 0;
}

int combine_options_fill(struct combine_options *o, struct flmem_aggregate_request *request,
			 struct flmem_error *err)
{
	request->algorithm = o->algorithm;
	request->key = o->key;
	request->hostile = (size_t)o->hostile;
	request->keep = (size_t)o->keep;
	request->nan = (enum flmem_nan_policy)opt_choice_index(combine_nan_policies, o->nan,
							       (unsigned)request->nan);
	request->non_float = (enum flmem_non_float_policy)opt_choice_index(
		combine_non_float_policies, o->non_float, (unsigned)request->non_float);
	request->beta1 = o->beta1 ? &o->betas[0] : NULL;
	request->beta2 = o->beta2 ? &o->betas[1] : NULL;
	return fill_combine_numbers(o, request, err);
}
