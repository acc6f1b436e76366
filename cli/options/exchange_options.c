/* SPDX-License-Identifier: Apache-2.0 */
#include "options/exchange_options.h"

#include <string.h>

#include <flmem/parse.h>

#define US_PER_SECOND 1000000U
#define ROUND_MAX     1000000000U

static unsigned at_most(uint64_t number)
{
	return number < UINT16_MAX ? (unsigned)number : UINT16_MAX;
}

struct flmem_exchange_server exchange_server_of(const struct exchange_options *options,
						const char *url)
{
	return (struct flmem_exchange_server){
		.url = url,
		.token_file = options->token_file,
		.cert = options->cert,
		.key = options->key,
		.cacert = options->ca,
		.insecure = options->insecure,
		.retries = at_most(options->retries),
		.never_retry = options->retries_given && !options->retries,
		.timeout_seconds = at_most(options->timeout_us / US_PER_SECOND +
					   (options->timeout_us % US_PER_SECOND ? 1 : 0)),
	};
}

int exchange_round_read(const char *text, bool *ret_given, uint64_t *ret_round,
			struct flmem_error *err)
{
	int rc;

	*ret_given = text && strcmp(text, "latest") != 0;
	if (!*ret_given)
		return 0;
	rc = flmem_parse_u64(text, 0, ROUND_MAX, ret_round, err);
	return rc ? flmem_error_prefix(err, rc, "--round") : 0;
}
