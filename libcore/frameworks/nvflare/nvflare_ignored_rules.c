/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A configuration beside one of the same name that NVFlare reads in its place: it searches the
 * suffixes in a fixed order and takes the first file (2.7.2, 2.8.1 and 2.9.0, fuel/utils/config.py
 * and config_factory.py).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "frameworks/nvflare/nvflare_rules.h"

/* Nothing but that it is ignored is checked, so its root does not matter. */
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

/* The file as a whole: its text is no value of it. A kit has both of its files on purpose. */
static void config_ignored(struct flmem_check *check)
{
	FLMEM_AUTO_FREE char *other = flmem_nvflare_read_instead(check->input->file);
	static const enum flmem_severity info = FLMEM_SEVERITY_INFO;
	bool kit = check->kind == &flmem_nvflare_resources_file;
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

static const struct flmem_rule_row rows[] = {
	{
		.rule = {.id = "NVF-CONFIG-IGNORED",
			 .severity = FLMEM_SEVERITY_WARNING,
			 .framework = FLMEM_FRAMEWORK_NVFLARE,
			 .condition = "a config_fed_server, config_fed_client or meta file beside "
				      "one with the same name and an earlier suffix of .json, "
				      ".conf, .yml, .yaml, and these with .default behind; "
				      "nothing else in it is checked unless it is named; for "
				      "information also resources.json.default beside "
				      "resources.json; also comm_config",
			 .message = "NVFlare ignores this file, as another suffix takes "
				    "precedence; keep one of both",
			 .source = FLMEM_SOURCE_NVFLARE_CODE},
		.inputs = {&ignored_file, &flmem_nvflare_server_file, &flmem_nvflare_client_file,
			   &flmem_nvflare_meta_file, &flmem_nvflare_resources_file,
			   &flmem_nvflare_comm_file},
		.check = config_ignored,
	},
};

const struct flmem_rule_table flmem_nvflare_ignored_rules = {rows, FLMEM_ARRAY_SIZE(rows)};
