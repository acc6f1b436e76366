/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Corrections are applied in memory and checked again until the rules find nothing more to correct:
 * one correction may require another, and a second run must find none.
 */
#include "ops/recommend/recommend_correct.h"

#include <stdlib.h>
#include <string.h>

#include <flmem/text.h>

#include "base/cleanup.h"
#include "base/text/buf.h"
#include "base/text/diff.h"
#include "documents/edit.h"

#define PASSES_MAX 16

struct flmem_correction *flmem_corrections_find(struct flmem_corrections *corrections,
						const char *file)
{
	for (size_t i = 0; i < corrections->count; i++)
		if (strcmp(corrections->rows[i].file, file) == 0)
			return &corrections->rows[i];
	return NULL;
}

bool flmem_corrections_add(struct flmem_corrections *corrections, const char *file,
			   const struct flmem_document *document,
			   const struct flmem_read_file *read)
{
	struct flmem_correction *grown =
		reallocarray(corrections->rows, corrections->count + 1, sizeof(*grown));
	struct flmem_correction *row;

	if (!grown)
		return false;
	corrections->rows = grown;
	row = &grown[corrections->count++];
	*row = (struct flmem_correction){
		.file = strdup(file),
		.syntax = document->syntax,
		.before = strdup(document->text.data),
		.after = strdup(document->text.data),
		.identity = read->identity,
		.folder = read->folder,
	};
	return row->file && row->before && row->after;
}

static void correction_clear(struct flmem_correction *correction)
{
	free(correction->file);
	free(correction->before);
	free(correction->after);
}

void flmem_corrections_clear(struct flmem_corrections *corrections)
{
	for (size_t i = 0; i < corrections->count; i++)
		correction_clear(&corrections->rows[i]);
	free(corrections->rows);
	*corrections = (struct flmem_corrections){0};
}

/*
 * Replaces the text of a file with the edited one, after a check that the edits changed only their
 * values.
 */
static int replace_text(struct flmem_correction *correction, char *after,
			const struct flmem_edit *const *edits, size_t count,
			struct flmem_error *err)
{
	const enum flmem_syntax syntax = (enum flmem_syntax)correction->syntax;

	if (!after)
		return flmem_error_nomem(err, "cannot correct '%s'", correction->file);
	if (!flmem_edits_are_safe(syntax, correction->after, after, edits, count)) {
		free(after);
		return flmem_error_set(err, FLMEM_EFAILED, 0,
				       "the corrections would change other parts of '%s'; nothing "
				       "is changed, correct it by hand",
				       correction->file);
	}
	free(correction->after);
	correction->after = after;
	correction->changes += count;
	return 0;
}

/* Applies the corrections of one file; adds their number to `*made`. */
static int correct_file(struct flmem_correction *correction,
			const struct flmem_recommendations *found, size_t *made,
			struct flmem_error *err)
{
	FLMEM_AUTO_FREE const struct flmem_edit **edits =
		calloc(found->finding_count + 1, sizeof(*edits));
	size_t count = 0;

	if (!edits)
		return flmem_error_nomem(err, "cannot correct '%s'", correction->file);
	for (size_t i = 0; i < found->finding_count; i++)
		if (found->findings[i].fixable &&
		    strcmp(found->findings[i].file, correction->file) == 0)
			edits[count++] = &found->findings[i].edit;
	if (!count)
		return 0;
	count = flmem_edits_select(edits, count);
	*made += count;
	return replace_text(correction, flmem_edits_apply(correction->after, edits, count), edits,
			    count, err);
}

static int correct_all(struct flmem_corrections *corrections,
		       const struct flmem_recommendations *found, size_t *made,
		       struct flmem_error *err)
{
	int rc = 0;

	for (size_t i = 0; i < corrections->count && !rc; i++)
		rc = correct_file(&corrections->rows[i], found, made, err);
	return rc;
}

static void drop_unchanged(struct flmem_corrections *corrections)
{
	size_t kept = 0;

	for (size_t i = 0; i < corrections->count; i++) {
		struct flmem_correction *row = &corrections->rows[i];

		if (strcmp(row->before, row->after) == 0)
			correction_clear(row);
		else
			corrections->rows[kept++] = *row;
	}
	corrections->count = kept;
}

int flmem_recommend_correct(const char *const *paths, size_t count,
			    const struct flmem_recommend_options *options,
			    struct flmem_corrections *ret_corrections, struct flmem_error *err)
{
	FLMEM_AUTO(flmem_corrections_clear) struct flmem_corrections corrections = {0};
	size_t made = 1;
	int rc = 0;

	for (int pass = 0; made && !rc; pass++) {
		struct flmem_recommendations found = {0};

		if (pass == PASSES_MAX)
			return flmem_error_set(err, FLMEM_EFAILED, 0,
					       "each correction requires another one; nothing is "
					       "changed, correct the findings by hand");
		made = 0;
		rc = flmem_recommend_over(paths, count, options, &corrections, &found, err);
		if (!rc)
			rc = correct_all(&corrections, &found, &made, err);
		flmem_recommendations_clear(&found);
	}
	if (rc)
		return rc;
	drop_unchanged(&corrections);
	*ret_corrections = corrections;
	corrections = (struct flmem_corrections){0};
	return 0;
}

char *flmem_correction_diff(const struct flmem_correction *correction)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	char name[4096];

	flmem_diff_unified(flmem_text_escape(correction->file, name, sizeof(name)),
			   correction->before, correction->after, &text);
	return flmem_buf_take(&text);
}
