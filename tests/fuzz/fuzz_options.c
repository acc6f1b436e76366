/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines: the input's lines are the words, the first one names the command. */
#include "cmd.h"
#include "fuzz.h"

#define WORDS_MAX 64

static void parse(const struct cmd *cmd, char **words, int count)
{
	void *options = calloc(1, cmd->options_size ? cmd->options_size : 1);
	struct opt_rest rest = {.values = words, .count = count};
	struct flmem_error err = {0};

	if (!options)
		abort();
	if (opt_parse(cmd->options, options, &rest, cmd->takes_command, &err)) {
		if (err.code != FLMEM_EUSAGE || !err.message[0])
			abort();
	} else if (rest.count < 0 || rest.count > count) {
		abort();
	}
	opt_clear(cmd->options, options);
	free(options);
}

static void find_and_parse(const struct cmd *const *table, const char *name, char **words,
			   int count)
{
	for (; table && *table; table++) {
		if (strcmp((*table)->name, name) == 0)
			parse(*table, words, count);
		else
			find_and_parse((*table)->verbs, name, words, count);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size), *rest = text, *words[WORDS_MAX + 1];
	const char *name = strsep(&rest, "\n");
	int count = 0;

	while (count < WORDS_MAX && rest)
		words[count++] = strsep(&rest, "\n");
	words[count] = NULL;
	find_and_parse(cmd_table, name, words, count);
	free(text);
	return 0;
}
