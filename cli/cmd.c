/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#define WORDS_MAX 32

const char *cmd_word(const struct cmd *cmd)
{
	const char *space = strrchr(cmd->name, ' ');

	return space ? space + 1 : cmd->name;
}

static const struct cmd *find_word(const struct cmd *const *table, const char *word)
{
	for (; table && *table; table++)
		if (strcmp(cmd_word(*table), word) == 0)
			return *table;
	return NULL;
}

const struct cmd *cmd_find(const char *name)
{
	return find_word(cmd_table, name);
}

const struct cmd *cmd_find_verb(const struct cmd *cmd, const char *word)
{
	return find_word(cmd->verbs, word);
}

const struct cmd *cmd_parent(const struct cmd *verb)
{
	for (const struct cmd *const *c = cmd_table; *c; c++)
		for (const struct cmd *const *v = (*c)->verbs; v && *v; v++)
			if (*v == verb)
				return *c;
	return NULL;
}

void cmd_join_name(const struct cmd *cmd, char separator, char *out, size_t size)
{
	snprintf(out, size, "%s", cmd->name);
	for (char *p = out; *p; p++)
		if (*p == ' ')
			*p = separator;
}

const char *cmd_nearest(const struct cmd *const *table, const char *word)
{
	const char *words[WORDS_MAX];
	size_t count = 0;

	for (; table && *table && count < WORDS_MAX; table++)
		words[count++] = cmd_word(*table);
	return opt_nearest(word, words, count);
}

bool cmd_suggest(const char *word, char *out, size_t size)
{
	const char *nearest = cmd_nearest(cmd_table, word);
	size_t length = 0;

	out[0] = '\0';
	for (const struct cmd *const *c = cmd_table; *c && length < size; c++) {
		const struct cmd *verb = cmd_find_verb(*c, word);

		if (verb)
			length += (size_t)snprintf(out + length, size - length, "%s'%s'",
						   length ? " or " : "", verb->name);
	}
	if (!length && nearest)
		snprintf(out, size, "'%s'", nearest);
	return length || nearest;
}

void cmd_raise_descriptor_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}
