/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/recommend/recommend_suppressions.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files/io.h"
#include "base/text/text.h"
#include "documents/document.h"
#include "frameworks/files.h"
#include "ops/recommend/recommend_files.h"

#define NAME "/.flmem-recommend.yaml"

static int suppressions_nomem(struct flmem_error *err)
{
	return flmem_error_nomem(err, "cannot store the suppressed rules");
}

static void suppression_clear(struct flmem_suppression *suppression)
{
	free(suppression->rule);
	free(suppression->folder);
	free(suppression->pattern);
}

void flmem_suppressions_clear(struct flmem_suppressions *suppressions)
{
	for (size_t i = 0; i < suppressions->count; i++)
		suppression_clear(&suppressions->rows[i]);
	for (size_t i = 0; i < suppressions->folder_count; i++)
		free(suppressions->folders[i]);
	free(suppressions->rows);
	free(suppressions->folders);
	*suppressions = (struct flmem_suppressions){0};
}

static bool is_rule(const char *id)
{
	const struct flmem_rule *rule;

	for (size_t i = 0; (rule = flmem_recommend_rule(i)); i++)
		if (strcmp(rule->id, id) == 0)
			return true;
	return false;
}

/* Returns the error in an entry, or NULL. */
static const char *fault_of(const struct flmem_node *entry)
{
	const char *rule = flmem_node_string(flmem_node_get(entry, "rule"));
	const char *reason = flmem_node_string(flmem_node_get(entry, "reason"));
	const struct flmem_node *path = flmem_node_get(entry, "path");

	if (!rule || !is_rule(rule))
		return "does not name a rule; docs/rules.md lists the rules";
	if (!reason || !reason[strspn(reason, " ")])
		return "has no reason";
	return path && !flmem_node_string(path) ? "has a path that is not a string" : NULL;
}

static bool add_suppression(struct flmem_suppressions *suppressions, const char *folder,
			    const struct flmem_node *entry)
{
	struct flmem_suppression *grown =
		reallocarray(suppressions->rows, suppressions->count + 1, sizeof(*grown));
	const char *path = flmem_node_string(flmem_node_get(entry, "path"));
	struct flmem_suppression *row;

	if (!grown)
		return false;
	suppressions->rows = grown;
	row = &grown[suppressions->count++];
	*row = (struct flmem_suppression){
		.rule = strdup(flmem_node_string(flmem_node_get(entry, "rule"))),
		.folder = strdup(folder),
		.pattern = strdup(path ? path : "*"),
	};
	return row->rule && row->folder && row->pattern;
}

static int add_suppression_problem(struct flmem_recommendations *found, const char *file,
				   unsigned line, const char *what, struct flmem_error *err)
{
	struct flmem_error why = {0};

	flmem_error_set(&why, FLMEM_EUSAGE, 0, "%s", what);
	return flmem_recommendations_add_problem(found, file, line, &why) ? 0
									  : suppressions_nomem(err);
}

static int read_suppression_entries(const struct flmem_document *document, const char *file,
				    const char *folder, struct flmem_suppressions *suppressions,
				    struct flmem_recommendations *found, struct flmem_error *err)
{
	const struct flmem_node *list = flmem_node_get(document->root, "ignore");
	const struct flmem_node *entry = flmem_node_first(list);
	int rc = 0;

	if (!flmem_node_is_kind(list, FLMEM_NODE_LIST))
		return add_suppression_problem(found, file, 0, "has no list 'ignore'", err);
	for (; entry && !rc; entry = entry->next) {
		const char *fault = fault_of(entry);

		if (fault)
			rc = add_suppression_problem(found, file, entry->place.line, fault, err);
		else if (!add_suppression(suppressions, folder, entry))
			rc = suppressions_nomem(err);
	}
	return rc;
}

static int read_folder(const char *folder, struct flmem_suppressions *suppressions,
		       struct flmem_recommendations *found, struct flmem_error *err)
{
	FLMEM_AUTO_DOCUMENT struct flmem_document document = {0};
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	FLMEM_AUTO_FREE char *file = NULL;
	struct flmem_error why = {0};
	int rc;

	if (asprintf(&file, "%s" NAME, folder) < 0) {
		file = NULL;
		return suppressions_nomem(err);
	}
	rc = flmem_io_read_file_at(AT_FDCWD, file, FLMEM_DOCUMENT_BYTES_MAX, &text);
	if (rc == -ENOENT || rc == -ENOTDIR)
		return 0;
	if (rc)
		return add_suppression_problem(found, file, 0, "cannot be read", err);
	if (flmem_document_read(FLMEM_SYNTAX_YAML, &text, &document, &why))
		return flmem_recommendations_add_problem(found, file, document.bad_line, &why)
			       ? 0
			       : suppressions_nomem(err);
	return read_suppression_entries(&document, file, folder, suppressions, found, err);
}

/* Returns the folder that a path names, or that holds the file; the caller frees it. */
static char *searched_folder(const char *path)
{
	struct stat status;

	if (stat(path, &status) == 0 && S_ISDIR(status.st_mode))
		return strdup(path);
	return flmem_file_folder(path);
}

/* Stores a folder that is new. Returns false for a known one, and if memory is out. */
static bool is_new(struct flmem_suppressions *suppressions, char **folder)
{
	char **grown;

	for (size_t i = 0; i < suppressions->folder_count; i++)
		if (strcmp(suppressions->folders[i], *folder) == 0)
			return false;
	grown = reallocarray(suppressions->folders, suppressions->folder_count + 1, sizeof(*grown));
	if (!grown)
		return false;
	suppressions->folders = grown;
	grown[suppressions->folder_count++] = FLMEM_TAKE(*folder);
	return true;
}

int flmem_suppressions_read(const char *const *paths, size_t count,
			    struct flmem_recommendations *found,
			    struct flmem_suppressions *ret_suppressions, struct flmem_error *err)
{
	FLMEM_AUTO_SUPPRESSIONS struct flmem_suppressions suppressions = {0};
	int rc = 0;

	for (size_t i = 0; i < count && !rc; i++) {
		FLMEM_AUTO_FREE char *folder = searched_folder(paths[i]);

		if (!folder)
			return suppressions_nomem(err);
		if (is_new(&suppressions, &folder))
			rc = read_folder(suppressions.folders[suppressions.folder_count - 1],
					 &suppressions, found, err);
	}
	if (rc)
		return rc;
	*ret_suppressions = suppressions;
	suppressions = (struct flmem_suppressions){0};
	return 0;
}

/* Returns the part of the file's path below the folder; NULL for a file outside of it. */
static const char *path_below(const char *file, const char *folder)
{
	size_t length = strlen(folder);

	if (strcmp(folder, ".") == 0 && file[0] != '/')
		return flmem_text_starts(file, "./") ? file + 2 : file;
	while (length > 1 && folder[length - 1] == '/')
		length--;
	if (strncmp(file, folder, length) != 0 ||
	    (file[length] != '/' && folder[length - 1] != '/'))
		return NULL;
	file += length;
	return file + strspn(file, "/");
}

static bool is_rule_suppressed(const struct flmem_suppressions *suppressions,
			       const struct flmem_finding *finding)
{
	for (size_t i = 0; i < suppressions->count; i++) {
		const struct flmem_suppression *row = &suppressions->rows[i];
		const char *rest = path_below(finding->file, row->folder);

		if (rest && !strcmp(row->rule, finding->rule->id) &&
		    fnmatch(row->pattern, rest, 0) == 0)
			return true;
	}
	return false;
}

void flmem_suppressions_apply(const struct flmem_suppressions *suppressions,
			      struct flmem_recommendations *found)
{
	size_t kept = 0;

	for (size_t i = 0; i < found->finding_count; i++) {
		struct flmem_finding *finding = &found->findings[i];

		if (is_rule_suppressed(suppressions, finding)) {
			flmem_finding_clear(finding);
			found->suppressed_count++;
		} else {
			found->findings[kept++] = *finding;
		}
	}
	found->finding_count = kept;
}
