/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/launch.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text/buf.h"
#include "base/text/quote.h"
#include "proc/command.h"
#include "settings/preload.h"

#define SCRUBBER "libflmem_scrub.so"

/*
 * Joins a value of LD_PRELOAD: the user's entries without the library, then the library, then the
 * scrubber (preload/scrub.c).
 */
static char *join_scrubber(const char *value, const char *library, const char *scrubber)
{
	FLMEM_AUTO_BUF struct flmem_buf list = FLMEM_BUF_INIT;

	while (*value) {
		size_t length = strcspn(value, ": ");

		if (length && (length != strlen(library) || strncmp(value, library, length) != 0)) {
			flmem_buf_append(&list, value, length);
			flmem_buf_putc(&list, ':');
		}
		value += length;
		value += strspn(value, ": ");
	}
	flmem_buf_printf(&list, "%s:%s", library, scrubber);
	return flmem_buf_take(&list);
}

/* Makes "NAME=value" of a setting; NULL if memory is out. */
static char *format_assignment(const struct flmem_settings *settings,
			       const struct flmem_setting *setting, const char *scrubber)
{
	FLMEM_AUTO_FREE char *list = NULL;
	const char *value = setting->value;
	char *pair;

	if (scrubber && strcmp(setting->name, "LD_PRELOAD") == 0) {
		list = join_scrubber(value, settings->jemalloc_library, scrubber);
		value = list;
	}
	if (!value || asprintf(&pair, "%s=%s", setting->name, value) < 0)
		return NULL;
	return pair;
}

static bool entry_has_name(const char *pair, const char *name)
{
	size_t length = strlen(name);

	return strncmp(pair, name, length) == 0 && pair[length] == '=';
}

/* Replaces every entry of that name (a hostile environment may have several) or appends it. */
static bool set_environment_entry(char **environment, char *pair, const char *name)
{
	char **kept = environment;

	if (!pair)
		return false;
	for (char **e = environment; *e; e++) {
		if (entry_has_name(*e, name))
			free(*e);
		else
			*kept++ = *e;
	}
	*kept++ = pair;
	*kept = NULL;
	return true;
}

static char **copy_environment(char *const *environment, size_t extra)
{
	size_t count = 0;
	char **copy;

	while (environment && environment[count])
		count++;
	copy = calloc(count + extra + 1, sizeof(*copy));
	for (size_t i = 0; copy && i < count; i++) {
		copy[i] = strdup(environment[i]);
		if (!copy[i]) {
			flmem_launch_environment_free(copy);
			return NULL;
		}
	}
	return copy;
}

static bool is_environment_setting(const struct flmem_setting *setting)
{
	return !setting->where && setting->origin != FLMEM_SETTING_OMITTED;
}

int flmem_launch_environment(const struct flmem_settings *settings, char *const *environment,
			     bool scrub_preload, char ***ret_environment, struct flmem_error *err)
{
	bool scrub = scrub_preload && settings->jemalloc_library;
	char scrubber[FLMEM_PRELOAD_PATH_MAX];
	char **made;
	int rc = scrub ? flmem_preload_find_own(SCRUBBER, scrubber, err) : 0;

	if (rc)
		return flmem_error_prefix(err, rc, "without it children inherit the preload");
	made = copy_environment(environment, settings->count);
	for (size_t i = 0; made && i < settings->count; i++) {
		const struct flmem_setting *s = &settings->rows[i];

		if (is_environment_setting(s) &&
		    !set_environment_entry(made,
					   format_assignment(settings, s, scrub ? scrubber : NULL),
					   s->name)) {
			flmem_launch_environment_free(made);
			made = NULL;
		}
	}
	if (!made)
		return flmem_error_nomem(err, "cannot store the environment");
	*ret_environment = made;
	return 0;
}

void flmem_launch_environment_free(char **environment)
{
	for (char **e = environment; e && *e; e++)
		free(*e);
	free(environment);
}

int flmem_launch_exec(char *const *argv, char *const *environment, struct flmem_error *err)
{
	execvpe(argv[0], argv, environment);
	return flmem_command_error(argv[0], errno, err);
}

int flmem_launch_script(const struct flmem_settings *settings, char *const *argv, bool explain,
			char **ret_text, struct flmem_error *err)
{
	FLMEM_AUTO_BUF struct flmem_buf script = FLMEM_BUF_INIT;
	FLMEM_AUTO_FREE char *assignments = NULL;
	char *text;
	int rc = flmem_settings_print(settings, FLMEM_SETTINGS_FORMAT_SH, explain, &assignments,
				      err);

	if (rc)
		return rc;
	flmem_buf_puts(&script, assignments);
	flmem_buf_puts(&script, "exec");
	for (char *const *a = argv; *a; a++) {
		flmem_buf_putc(&script, ' ');
		flmem_quote_sh(&script, *a);
	}
	flmem_buf_putc(&script, '\n');
	text = flmem_buf_take(&script);
	if (!text)
		return flmem_error_nomem(err, "cannot write the script");
	*ret_text = text;
	return 0;
}
