/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include <flmem/parse.h>
#include <flmem/profile.h>

#include "cmd.h"

static const struct opt profile_round_options_table[] = {{0}};

static int set_profile_round(const struct opt_rest *rest, struct flmem_error *err)
{
	uint64_t round = UINT32_MAX;
	int rc = 0;

	if (rest->count != 2)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "give the file and the round");
	if (strcmp(rest->values[1], "none") != 0)
		rc = flmem_parse_u64(rest->values[1], 0, UINT32_MAX - 1, &round, err);
	return rc ? rc : flmem_profile_set_round(rest->values[0], (uint32_t)round, err);
}

static int run_profile_round(const struct cmd *cmd, void *options, const struct opt_rest *rest)
{
	struct flmem_error err = {0};
	int rc = set_profile_round(rest, &err);

	(void)options;
	return rc ? cmd_fail(cmd, false, &err) : 0;
}

static const char *const profile_round_examples[] = {
	"flmem profile round server.prof 7",
	"later samples belong to round 7",
	NULL,
};

const struct cmd cmd_profile_round = {
	.name = "profile round",
	.summary = "announces the round to a profile of a running process",
	.arguments = "FILE NUMBER|none",
	.description =
		"Stores the number of the federated-learning round in a profile whose process "
		"runs. Its samples belong to this round until the next one is announced. The "
		"exit status is 2 if the profile has ended, or if the file is a copy, which "
		"the process does not read. It is 3 if the process is not found: it was "
		"killed, has executed a program without the sampler, or runs in another "
		"container or on another host.",
	.examples = profile_round_examples,
	.options = profile_round_options_table,
	.complete = OPT_COMPLETE_FILE,
	.run = run_profile_round,
};
