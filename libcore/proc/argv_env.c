/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/argv_env.h"

#include <errno.h>
#include <string.h>

#include "base/files/io.h"
#include "base/text/buf.h"
#include "proc/process.h"

#define TEXT_LIMIT ((size_t)2 << 20)

static size_t count_nul_words(const char *text, size_t length)
{
	const char *end = text + length;
	size_t count = 0;

	for (; text < end && count < FLMEM_ARGV_ENV_MAX; count++)
		text += strlen(text) + 1;
	return count;
}

int flmem_argv_env_split(struct flmem_buf *buf, bool cut, struct flmem_argv_env *ret_words)
{
	FLMEM_AUTO_ARGV_ENV struct flmem_argv_env words = {.cut = cut};
	size_t length = buf->length, count;
	char *next;

	words.text = flmem_buf_take(buf);
	if (!words.text)
		return -ENOMEM;
	count = count_nul_words(words.text, length);
	words.values = calloc(count ? count : 1, sizeof(*words.values));
	if (!words.values)
		return -ENOMEM;
	for (next = words.text; words.count < count; next += strlen(next) + 1)
		words.values[words.count++] = next;
	if (next < words.text + length)
		words.cut = true;
	*ret_words = words;
	words = (struct flmem_argv_env){0};
	return 0;
}

static int read_argv_env(const struct flmem_process *process, const char *name, const char *what,
			 struct flmem_argv_env *ret_words, struct flmem_error *err)
{
	FLMEM_AUTO_BUF struct flmem_buf buf = FLMEM_BUF_INIT;
	int rc = flmem_io_read_file_at(process->dirfd, name, TEXT_LIMIT, &buf);
	bool cut = rc == -EFBIG;

	if (!rc || cut)
		rc = flmem_argv_env_split(&buf, cut, ret_words);
	return rc ? flmem_process_error(process, rc, what, err) : 0;
}

int flmem_argv_env_read_argv(const struct flmem_process *process, struct flmem_argv_env *ret_words,
			     struct flmem_error *err)
{
	return read_argv_env(process, "cmdline", "read the command line", ret_words, err);
}

int flmem_argv_env_read_env(const struct flmem_process *process, struct flmem_argv_env *ret_words,
			    struct flmem_error *err)
{
	return read_argv_env(process, "environ", "read the environment", ret_words, err);
}

void flmem_argv_env_clear(struct flmem_argv_env *words)
{
	free(words->values);
	free(words->text);
	*words = (struct flmem_argv_env){0};
}

const char *flmem_argv_env_getenv(const struct flmem_argv_env *words, const char *name)
{
	size_t length = strlen(name);

	for (size_t i = 0; i < words->count; i++)
		if (strncmp(words->values[i], name, length) == 0 && words->values[i][length] == '=')
			return words->values[i] + length + 1;
	return NULL;
}
