/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/settings.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocators/glibc/glibc_arena_max.h"
#include "base/cleanup.h"
#include "base/text/text.h"
#include "frameworks/framework.h"
#include "runtimes/gpu_devices.h"
#include "settings/preload.h"
#include "settings/table.h"

#define NO_JEMALLOC                                                                         \
	"no jemalloc library found; install it (apt-get install libjemalloc2, dnf install " \
	"jemalloc) or name it with --jemalloc-library"

#define TUNABLES "GLIBC_TUNABLES"

#define OTHER_MALLOC                                                         \
	"it holds another allocator, which serves malloc and does not read " \
	"MALLOC_ARENA_MAX"

/* The request, in the form that is compared with the rows. */
struct request_context {
	const struct flmem_settings_request *request;
	struct flmem_settings *settings;
	struct flmem_version_number release;
	unsigned needs; /* FLMEM_NEEDS_* that are satisfied */
};

enum row_verdict {
	ROW_APPLIES,
	ROW_OMITTED, /* left out, with the row's `otherwise` as the reason */
	ROW_SILENT,
};

const char *flmem_setting_origin_name(enum flmem_setting_origin origin)
{
#define ORIGIN_CASE(name, text)    \
	case FLMEM_SETTING_##name: \
		return text;
	switch (origin) {
		FLMEM_SETTING_ORIGINS(ORIGIN_CASE)
	}
#undef ORIGIN_CASE
	return NULL;
}

bool flmem_settings_gpu_present(void)
{
	return flmem_gpu_devices_find("/dev") != 0;
}

/* Returns the value that the user has set; an empty one counts as unset, as in ${NAME:-...}. */
static const char *find_user_value(char *const *environment, const char *name)
{
	size_t length = strlen(name);

	for (; environment && *environment; environment++)
		if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=')
			return (*environment)[length + 1] ? *environment + length + 1 : NULL;
	return NULL;
}

/* Returns why a row for a GPU is left out; NULL: it is kept, or left out without a message. */
static const char *find_gpu_reason(const struct request_context *c,
				   const struct flmem_setting_row *row)
{
	return (row->needs & ~c->needs) == FLMEM_NEEDS_GPU ? c->request->gpu_missing : NULL;
}

static enum row_verdict judge_row(const struct request_context *c,
				  const struct flmem_setting_row *row)
{
	unsigned missing =
		row->needs & ~c->needs & ~(find_gpu_reason(c, row) ? FLMEM_NEEDS_GPU : 0U);
	bool in_release = (!row->since.count ||
			   flmem_version_number_compare(&c->release, &row->since) >= 0) &&
			  (!row->before.count || !c->release.count ||
			   flmem_version_number_compare(&c->release, &row->before) < 0);

	if (!(row->roles & FLMEM_BIT(c->settings->role)) || missing ||
	    !(row->frameworks & FLMEM_BIT(c->settings->framework)))
		return ROW_SILENT;
	if ((row->allocators & FLMEM_BIT(c->settings->allocator)) && in_release)
		return ROW_APPLIES;
	return row->otherwise ? ROW_OMITTED : ROW_SILENT;
}

/* Returns why a variable that would override the job is left out; NULL: it is kept. */
static const char *find_job_conflict(const struct request_context *c,
				     const struct flmem_setting_row *row)
{
	static const char *const reasons[] = {
		[FLMEM_SETTINGS_JOB_UNKNOWN] =
			"external trainers take it instead of the job's own value; --job JOB sets "
			"it if that job has none",
		[FLMEM_SETTINGS_JOB_SET] =
			"the job sets its own interval, which the variable would override",
		[FLMEM_SETTINGS_JOB_UNREAD] =
			"the job has no external trainer that reads the variable",
		[FLMEM_SETTINGS_JOB_LEFT] = NULL,
	};

	if (!row->overrides_job || find_user_value(c->request->environment, row->name))
		return NULL;
	return reasons[c->request->job];
}

/*
 * Returns the tunables that override a row. glibc also reads GLIBC_TUNABLES, and a tunable there
 * overrides the older variable, even with a value that sets no limit (-1).
 */
static const char *find_winning_tunables(const struct request_context *c,
					 const struct flmem_setting_row *row)
{
	const char *tunables = find_user_value(c->request->environment, TUNABLES);

	return strcmp(row->name, "MALLOC_ARENA_MAX") == 0 &&
			       flmem_glibc_arena_max_overrides(tunables)
		       ? tunables
		       : NULL;
}

/* Returns the user's LD_PRELOAD if it replaces the malloc that is configured, else NULL. */
static const char *find_other_malloc(const struct request_context *c,
				     const struct flmem_setting_row *row)
{
	const char *user = find_user_value(c->request->environment, "LD_PRELOAD");
	FLMEM_AUTO_FREE char *own = NULL;

	if (row->value || !user || c->settings->allocator != FLMEM_ALLOCATOR_GLIBC)
		return NULL;
	own = flmem_preload_entry(user, "libjemalloc");
	return own || flmem_preload_lists_other_allocator(user) ? user : NULL;
}

/* Returns the user's jemalloc, or the library to be added when LD_PRELOAD lists it already. */
static char *find_own_library(const struct request_context *c, const char *user)
{
	char *entry = flmem_preload_entry(user, "libjemalloc");

	if (!entry)
		entry = flmem_preload_entry(user,
					    flmem_text_basename(c->settings->jemalloc_library));
	return entry;
}

static void join_preload(const struct request_context *c, const char *user,
			 struct flmem_setting *setting)
{
	char *own = user ? find_own_library(c, user) : NULL;

	if (own) {
		setting->origin = FLMEM_SETTING_USER;
		setting->value = strdup(user);
		free(c->settings->jemalloc_library);
		c->settings->jemalloc_library = own;
	} else if (user) {
		setting->origin = FLMEM_SETTING_JOINED;
		if (asprintf(&setting->value, "%s:%s", user, c->settings->jemalloc_library) < 0)
			setting->value = NULL;
	} else {
		setting->value = strdup(c->settings->jemalloc_library);
	}
	if (user && flmem_preload_lists_other_allocator(user))
		setting->note = "it holds another allocator, and the first one serves malloc";
}

/* Reports whether a job may set a value that differs from the variable. */
static bool overrides_known_job(const struct request_context *c,
				const struct flmem_setting_row *row)
{
	return row->overrides_job && c->request->job != FLMEM_SETTINGS_JOB_LEFT;
}

/*
 * Reports whether the user's value is kept: unless it is ineffective anyway or the role forces
 * another value.
 */
static bool is_setting_kept(const struct request_context *c, const struct flmem_setting_row *row,
			    const char *problem)
{
	if (c->request->force)
		return overrides_known_job(c, row);
	return !problem || !row->ignored_pattern;
}

static void set_value(const struct request_context *c, const struct flmem_setting_row *row,
		      struct flmem_setting *setting)
{
	const char *user = row->where ? NULL : find_user_value(c->request->environment, row->name);

	if (!row->value) {
		join_preload(c, user, setting);
		return;
	}
	if (user && row->valid && !row->valid(user))
		setting->note = row->invalid;
	if (user && is_setting_kept(c, row, setting->note)) {
		if (!setting->note && overrides_known_job(c, row))
			setting->note = "external trainers take it instead of the job's own value";
		setting->origin = FLMEM_SETTING_USER;
		setting->value = strdup(user);
		return;
	}
	setting->value = strdup(row->value);
}

/* Returns why a row that applies is left out; NULL: it is kept. */
static const char *find_reason_to_omit(const struct request_context *c,
				       const struct flmem_setting_row *row)
{
	const char *reason = find_gpu_reason(c, row);
	const char *tunables = find_winning_tunables(c, row);

	if (!c->request->force && tunables && !flmem_setting_problem(TUNABLES, tunables))
		return "glibc.malloc.arena_max in your GLIBC_TUNABLES takes precedence";
	return reason ? reason : find_job_conflict(c, row);
}

/* Sets the value in place of the user's tunable, which would override the variable. */
static void set_tunable_value(const struct request_context *c, const char *tunables,
			      const struct flmem_setting_row *row, struct flmem_setting *setting)
{
	const char *user = find_user_value(c->request->environment, row->name);
	bool kept = user && row->valid(user) && !c->request->force;

	setting->name = TUNABLES;
	setting->note = flmem_setting_problem(TUNABLES, tunables);
	setting->value = flmem_glibc_arena_max_replace(tunables, kept ? user : row->value);
}

static int add_setting(const struct request_context *c, const struct flmem_setting_row *row,
		       struct flmem_error *err)
{
	struct flmem_setting *setting = &c->settings->rows[c->settings->count];
	enum row_verdict verdict = judge_row(c, row);
	const char *other = find_other_malloc(c, row), *tunables = find_winning_tunables(c, row);
	const char *omitted = verdict == ROW_OMITTED ? row->otherwise : NULL;

	if (other)
		omitted = "your value stays as it is";
	else if (verdict == ROW_SILENT)
		return 0;
	if (!omitted)
		omitted = find_reason_to_omit(c, row);
	*setting = (struct flmem_setting){
		.name = row->name,
		.origin = FLMEM_SETTING_ROLE,
		.where = row->where,
		.reason = row->reason,
		.source = row->source,
		.note = other ? OTHER_MALLOC : NULL,
	};
	c->settings->count++;
	if (omitted) {
		setting->origin = FLMEM_SETTING_OMITTED;
		setting->reason = omitted;
		return 0;
	}
	if (tunables)
		set_tunable_value(c, tunables, row, setting);
	else
		set_value(c, row, setting);
	return setting->value ? 0 : flmem_error_nomem(err, "cannot hold %s", row->name);
}

/* Chooses the named library, if it is usable, else an installed one; NULL: none. */
static int choose_jemalloc_library(const struct flmem_settings_request *request, char **ret_library,
				   struct flmem_error *err)
{
	const char *named = request->jemalloc_library;
	int rc = named ? flmem_preload_check(named, !request->elsewhere, err) : 0;

	if (rc)
		return rc;
	*ret_library = named ? strdup(named) : flmem_jemalloc_find();
	if (named && !*ret_library)
		return flmem_error_nomem(err, "cannot store the path");
	rc = *ret_library && !request->elsewhere ? flmem_preload_check_pages(*ret_library, err) : 0;
	if (!rc)
		return 0;
	free(*ret_library);
	*ret_library = NULL;
	/* An installed library that does not fit is skipped, as the user did not name it. */
	return !named && request->allocator == FLMEM_SETTINGS_ALLOCATOR_AUTO ? 0 : rc;
}

static int choose_allocator(const struct flmem_settings_request *request,
			    struct flmem_settings *settings, struct flmem_error *err)
{
	int rc;

	settings->allocator = FLMEM_ALLOCATOR_GLIBC;
	if (request->allocator == FLMEM_SETTINGS_ALLOCATOR_GLIBC)
		return 0;
	rc = choose_jemalloc_library(request, &settings->jemalloc_library, err);
	if (rc)
		return rc;
	if (settings->jemalloc_library)
		settings->allocator = FLMEM_ALLOCATOR_JEMALLOC;
	else if (request->allocator == FLMEM_SETTINGS_ALLOCATOR_JEMALLOC)
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0, NO_JEMALLOC);
	return 0;
}

static int check_role(const struct flmem_settings_request *request, struct flmem_error *err)
{
	const char *name = flmem_role_name(request->role);

	if (request->role != FLMEM_ROLE_SERVER && request->role != FLMEM_ROLE_CLIENT &&
	    request->role != FLMEM_ROLE_TRAINER)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "no settings for role '%s'; choose from server, client, "
				       "trainer",
				       name ? name : "none");
	if (request->high_parallelism && request->role != FLMEM_ROLE_SERVER)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "high parallelism applies to a server only, not to a %s",
				       name);
	return 0;
}

static int read_circumstances(const struct flmem_settings_request *request,
			      struct flmem_settings *settings, struct request_context *c,
			      struct flmem_error *err)
{
	int rc = check_role(request, err);
	size_t rows = 0;

	if (!rc && request->framework_version)
		rc = flmem_version_number_option(request->framework_version, &c->release, err);
	if (rc)
		return rc;
	c->request = request;
	c->settings = settings;
	c->needs = (request->gpu ? FLMEM_NEEDS_GPU : 0U) |
		   (request->high_parallelism ? FLMEM_NEEDS_HIGH_PARALLELISM
					      : FLMEM_NEEDS_NORMAL_PARALLELISM);
	settings->role = request->role;
	settings->framework =
		request->framework ? request->framework : flmem_frameworks[0]->framework;
	while (flmem_setting_row_at(rows))
		rows++;
	settings->rows = calloc(rows ? rows : 1, sizeof(*settings->rows));
	if (!settings->rows)
		return flmem_error_nomem(err, "cannot store the settings");
	return choose_allocator(request, settings, err);
}

int flmem_settings_make(const struct flmem_settings_request *request,
			struct flmem_settings *ret_settings, struct flmem_error *err)
{
	struct flmem_settings settings = {0};
	struct request_context c = {0};
	const struct flmem_setting_row *row;
	int rc = read_circumstances(request, &settings, &c, err);

	for (size_t i = 0; !rc && (row = flmem_setting_row_at(i)); i++)
		rc = add_setting(&c, row, err);
	if (rc)
		flmem_settings_clear(&settings);
	else
		*ret_settings = settings;
	return rc;
}

void flmem_settings_clear(struct flmem_settings *settings)
{
	for (size_t i = 0; i < settings->count; i++)
		free(settings->rows[i].value);
	free(settings->rows);
	free(settings->jemalloc_library);
	*settings = (struct flmem_settings){0};
}
