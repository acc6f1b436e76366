/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules about a configuration that NVFlare ignores, since it reads one of the same name with
 * another suffix: it searches the suffixes in a fixed order and takes the first file (2.7.2, 2.8.1
 * and 2.9.0, fuel/utils/config.py and config_factory.py).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "frameworks/nvflare/rules/nvflare_rules.h"

/* The kind of files that are ignored. Only that is reported, so any root will do. */
static const struct flmem_input_kind ignored_file = {.any_root = true};

char *flmem_nvflare_read_instead(const char *path)
{
	const char *name = flmem_text_basename(path), *suffix = strchr(name, '.');
	int stem = suffix ? (int)(suffix - path) : 0, before = suffix ? (int)(name - path) : 0;

	for (const char *const *s = flmem_file_suffixes; suffix && *s && strcmp(*s, suffix) != 0;
	     s++) {
		FLMEM_AUTO_FREE char *other = NULL;

		if (asprintf(&other, "%.*s%s", stem, path, *s) < 0) {
			other = NULL;
			return NULL;
		}
		if (access(other, F_OK) == 0)
			return strdup(other + before);
	}
	return NULL;
}

const struct flmem_input_kind *flmem_nvflare_ignored(const struct flmem_found_file *file)
{
	FLMEM_AUTO_FREE char *other = flmem_nvflare_read_instead(file->path);

	return other ? &ignored_file : NULL;
}

/* Reports the file as a whole, not a value in it. A kit has both of its files on purpose. */
static void config_ignored(struct flmem_check *check)
{
	FLMEM_AUTO_FREE char *other = flmem_nvflare_read_instead(check->input->file);
	static const enum flmem_severity info = FLMEM_SEVERITY_INFO;
	bool kit = check->kind == &flmem_nvflare_resources_file &&
		   flmem_text_ends(check->input->file, ".default");
	struct flmem_node whole = *check->subject;
	char detail[96];

	if (!other)
		return;
	whole.place.end = whole.place.start;
	snprintf(detail, sizeof(detail), "it reads %s", other);
	flmem_check_report(check,
			   &(struct flmem_remark){.node = &whole,
						  .path = flmem_text_basename(check->input->file),
						  .detail = detail,
						  .severity = kit ? &info : NULL});
}

static int suffix_rank(const char *suffix)
{
	int rank = 0;

	while (flmem_file_suffixes[rank] && strcmp(flmem_file_suffixes[rank], suffix) != 0)
		rank++;
	return rank;
}

/*
 * The suffix of the comm_config file that is read first in a folder; NULL if the folder has none.
 */
static const char *comm_suffix_in(const char *folder)
{
	for (const char *const *s = flmem_file_suffixes; *s; s++) {
		FLMEM_AUTO_FREE char *path = NULL;

		if (asprintf(&path, "%s/comm_config%s", folder, *s) < 0) {
			path = NULL;
			return NULL;
		}
		if (access(path, F_OK) == 0)
			return *s;
	}
	return NULL;
}

/*
 * The folders of a kit in the order of os.walk(). The file system decides the order of the inner
 * two.
 */
enum comm_place {
	COMM_KIT,
	COMM_LOCAL,
	COMM_STARTUP,
	COMM_PLACES
};

static const char *const comm_places[COMM_PLACES] = {"", "local/", "startup/"};

static enum comm_place comm_place_of(const char *folder)
{
	const char *name = flmem_text_basename(folder);

	if (strcmp(name, "local") == 0)
		return COMM_LOCAL;
	return strcmp(name, "startup") == 0 ? COMM_STARTUP : COMM_KIT;
}

/* Another comm_config file of the kit that NVFlare reads, or may read, instead of this one. */
struct comm_rival {
	const char *folder, *suffix; /* NULL: there is no such file */
	bool certain;
};

/*
 * Finds the rival of a file. config_factory.py searches the workspace for one suffix after the
 * other, from the outside in.
 */
static struct comm_rival find_comm_rival(const char *path)
{
	FLMEM_AUTO_FREE char *folder = flmem_file_folder(path), *above = NULL;
	const char *own = strchr(flmem_text_basename(path), '.');
	struct comm_rival rival = {0};
	enum comm_place here;

	if (!folder || !own)
		return rival;
	here = comm_place_of(folder);
	above = here == COMM_KIT ? strdup(folder) : flmem_file_folder(folder);
	for (enum comm_place at = 0; above && at < COMM_PLACES && !rival.certain; at++) {
		FLMEM_AUTO_FREE char *other = NULL;
		const char *suffix;
		int order;

		if (at == here || asprintf(&other, "%s/%s", above, comm_places[at]) < 0) {
			other = NULL;
			continue;
		}
		suffix = comm_suffix_in(other);
		order = suffix ? suffix_rank(suffix) - suffix_rank(own) : 1;
		if (order > 0 || (order == 0 && here == COMM_KIT))
			continue;
		rival = (struct comm_rival){comm_places[at], suffix, order < 0 || at == COMM_KIT};
	}
	return rival;
}

bool flmem_nvflare_comm_ignored(const char *path)
{
	FLMEM_AUTO_FREE char *beside = flmem_nvflare_read_instead(path);

	return beside || find_comm_rival(path).certain;
}

static void comm_twice(struct flmem_check *check)
{
	struct comm_rival rival = find_comm_rival(check->input->file);
	struct flmem_node whole = *check->subject;
	char detail[96];

	if (!rival.suffix)
		return;
	whole.place.end = whole.place.start;
	snprintf(detail, sizeof(detail), "%s %scomm_config%s",
		 rival.certain ? "it reads" : "the other one is", rival.folder, rival.suffix);
	flmem_check_report(check,
			   &(struct flmem_remark){.node = &whole,
						  .path = flmem_text_basename(check->input->file),
						  .detail = detail});
}

static const struct flmem_rule_row nvflare_ignored_rows[] = {
	{
		.rule = {.id = "NVF-CONFIG-IGNORED",
			 .severity = FLMEM_SEVERITY_WARNING,
			 .framework = FLMEM_FRAMEWORK_NVFLARE,
			 .condition = "a config_fed_server, config_fed_client or meta file beside "
				      "one with the same name and an earlier suffix of .json, "
				      ".conf, .yml, .yaml, and these with the suffix .default; "
				      "nothing else in it is checked unless it is named; for "
				      "information also resources.json.default beside "
				      "resources.json; also comm_config and resources",
			 .message = "NVFlare ignores this file, as another suffix takes "
				    "precedence; keep one of the two",
			 .source = FLMEM_SOURCE_NVFLARE_CODE},
		.inputs = {&ignored_file, &flmem_nvflare_server_file, &flmem_nvflare_client_file,
			   &flmem_nvflare_meta_file, &flmem_nvflare_resources_file,
			   &flmem_nvflare_comm_file},
		.check = config_ignored,
	},
	{
		.rule = {.id = "NVF-COMM-TWICE",
			 .severity = FLMEM_SEVERITY_WARNING,
			 .framework = FLMEM_FRAMEWORK_NVFLARE,
			 .condition =
				 "a comm_config file in two of the folder of a kit, its local/ "
				 "and its startup/, except where this one is certain to be "
				 "read",
			 .message = "NVFlare reads one comm_config file of a workspace, that with "
				    "the earliest suffix, then the outermost one, then the first "
				    "in the order of the file system; keep one",
			 .source = "NVFlare 2.7.2, 2.8.1 and 2.9.0, fuel/utils/config_factory.py"},
		.inputs = {&flmem_nvflare_comm_file},
		.check = comm_twice,
	},
};

const struct flmem_rule_table flmem_nvflare_ignored_rules = {
	nvflare_ignored_rows, FLMEM_ARRAY_SIZE(nvflare_ignored_rows)};
