/* SPDX-License-Identifier: Apache-2.0 */
#include "settings/observed.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/redact.h"
#include "base/text/text.h"
#include "frameworks/framework.h"
#include "proc/argv_env.h"
#include "settings/table.h"

/* Limit of rows: more than any program reads. A hostile environment may hold any number. */
#define ROWS_MAX 256

struct observed_variable {
	const char *name;
	bool prefix; /* true: every name with this prefix */
};

static const struct observed_variable observed[] = {
	{"MALLOC_", true}, /* glibc's, and MALLOC_CONF of jemalloc */
	{"GLIBC_TUNABLES", false},
	{"_RJEM_MALLOC_CONF", false}, /* jemalloc inside Rust programs */
	{"JE_MALLOC_CONF", false},    /* jemalloc built with the prefix je_ */
	{"LD_PRELOAD", false},
	{"TCMALLOC_", true},
	{"MIMALLOC_", true},
	{"PYTHONMALLOC", false},
	{"PYTORCH_ALLOC_CONF", false},
	{"PYTORCH_CUDA_ALLOC_CONF", false},
	{"PYTORCH_NO_CUDA_MEMORY_CACHING", false},
	{"TMPDIR", false}, /* the directory to which frameworks offload tensors */
	{"GOMEMLIMIT", false},
	{"GOGC", false},
};

/* True for a variable that configures the memory of an allocator, runtime or framework. */
static bool is_observed_setting(const char *name, size_t length)
{
	for (const struct flmem_framework_ops *const *f = flmem_frameworks; *f; f++)
		if ((*f)->variable_prefix && length > strlen((*f)->variable_prefix) &&
		    flmem_text_starts(name, (*f)->variable_prefix))
			return true;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(observed); i++) {
		size_t needed = strlen(observed[i].name);

		if (observed[i].prefix ? length <= needed : length != needed)
			continue;
		if (memcmp(name, observed[i].name, needed) == 0)
			return true;
	}
	return false;
}

/* The rows collected so far; `rows` has room for ROWS_MAX. */
struct collected_rows {
	struct flmem_setting_report *rows;
	size_t count;
};

static void clear_gathered(struct collected_rows *gathered)
{
	flmem_settings_free(gathered->rows, gathered->count);
}

static bool has_setting(const struct collected_rows *gathered, const char *name, size_t length)
{
	for (size_t i = 0; i < gathered->count; i++)
		if (strncmp(gathered->rows[i].name, name, length) == 0 &&
		    !gathered->rows[i].name[length])
			return true;
	return false;
}

static int add_observed_variable(struct collected_rows *gathered, const char *word, size_t length)
{
	FLMEM_AUTO_BUF struct flmem_buf value = FLMEM_BUF_INIT;
	struct flmem_setting_report *row = &gathered->rows[gathered->count++];

	row->name = strndup(word, length);
	if (!row->name)
		return -ENOMEM;
	flmem_redact_variable(row->name, word + length + 1, &value);
	row->value = flmem_buf_take(&value);
	row->source = "environment";
	row->note = flmem_setting_problem(row->name, word + length + 1);
	return row->value ? 0 : -ENOMEM;
}

int flmem_settings_observe(const struct flmem_argv_env *environment,
			   struct flmem_setting_report **ret_rows, size_t *ret_count,
			   struct flmem_error *err)
{
	FLMEM_AUTO(clear_gathered) struct collected_rows gathered = {0};
	int rc = 0;

	gathered.rows = calloc(ROWS_MAX, sizeof(*gathered.rows));
	if (!gathered.rows)
		rc = -ENOMEM;
	for (size_t i = 0; !rc && i < environment->count && gathered.count < ROWS_MAX; i++) {
		const char *word = environment->values[i];
		size_t length = strcspn(word, "=");

		/* Like getenv(3), keep the first value of a name. */
		if (word[length] && is_observed_setting(word, length) &&
		    !has_setting(&gathered, word, length))
			rc = add_observed_variable(&gathered, word, length);
	}
	if (rc)
		return flmem_error_set(err, FLMEM_EFAILED, -rc, "cannot store the settings");
	*ret_count = gathered.count;
	*ret_rows = FLMEM_TAKE(gathered.rows);
	gathered.count = 0;
	return 0;
}

void flmem_settings_free(struct flmem_setting_report *rows, size_t count)
{
	for (size_t i = 0; rows && i < count; i++) {
		free(rows[i].name);
		free(rows[i].value);
	}
	free(rows);
}
