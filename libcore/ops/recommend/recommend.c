/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/recommend.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <flmem/text.h>

#include "base/files/file_place.h"
#include "base/files/io.h"
#include "base/text/text.h"
#include "frameworks/framework.h"
#include "frameworks/launch/launch_limit_ranges.h"
#include "frameworks/launch/launch_search.h"
#include "frameworks/limits.h"
#include "ops/recommend/recommend_correct.h"
#include "ops/recommend/recommend_files.h"
#include "ops/recommend/recommend_heap.h"
#include "ops/recommend/recommend_module_rules.h"
#include "ops/recommend/recommend_modules.h"
#include "ops/recommend/recommend_oom.h"
#include "ops/recommend/recommend_pinned_version.h"
#include "ops/recommend/recommend_plan.h"
#include "ops/recommend/recommend_recording.h"
#include "ops/recommend/recommend_suppressions.h"
#include "rules/document_rules.h"

/* State of the check of one job. */
struct job_check {
	struct flmem_found_file *files;
	size_t count; /* number of files */
	struct flmem_rule_input *inputs;
	size_t read; /* number of readable inputs */
	/* Files that are not checked themselves, stored after the inputs. */
	struct flmem_rule_input *others;
	size_t other_count;
	struct flmem_recommendations *found;
	struct flmem_corrections *texts; /* texts used instead of those on disk, or NULL */
	struct flmem_importing_scripts *scripts;
	const struct flmem_plan_peaks *peaks; /* peaks of a plan; NULL: no plan */
	struct flmem_read_file last_read;
};

static struct flmem_file_identity identity_of(const struct stat *status)
{
	return (struct flmem_file_identity){.device = status->st_dev, .inode = status->st_ino};
}

static int read_input_text(const char *path, struct flmem_buf *text,
			   struct flmem_read_file *ret_read, struct flmem_error *why)
{
	FLMEM_AUTO_FILE_PLACE struct flmem_file_place place = FLMEM_FILE_PLACE_INIT;
	FLMEM_AUTO_CLOSE int fd = -1;
	struct stat status, folder;
	int rc = flmem_file_place_open(path, &place);

	fd = rc ? rc
		: flmem_file_place_open_regular(place.directory, place.name, O_RDONLY, &status);
	if (fd == -EINVAL)
		return flmem_error_set(why, FLMEM_EUSAGE, 0, "not a regular file");
	if (fd < 0 || fstat(place.directory, &folder) < 0)
		return flmem_error_set(why, flmem_code_of_open(fd < 0 ? -fd : 0),
				       fd < 0 ? -fd : errno, "cannot be read");
	rc = flmem_io_read_all(fd, FLMEM_DOCUMENT_BYTES_MAX + 1, text);
	if (rc && rc != -EFBIG) /* the reader rejects larger files */
		return flmem_error_set(why, FLMEM_EFAILED, -rc, "cannot be read");
	ret_read->identity = identity_of(&status);
	ret_read->folder = identity_of(&folder);
	return 0;
}

static bool is_foreign_file(const struct job_check *job, const struct flmem_found_file *file)
{
	const struct flmem_job_layout *jobs = file->framework ? file->framework->jobs : NULL;
	const struct flmem_found_job found = {.files = job->files, .count = job->count};

	return jobs && jobs->is_foreign && jobs->is_foreign(&found, file);
}

/* Returns the kind of a file by its name. A file that the user names is checked in any case. */
static const struct flmem_input_kind *kind_of_file(const struct flmem_found_file *file)
{
	const struct flmem_job_layout *jobs = file->framework ? file->framework->jobs : NULL;
	const struct flmem_input_kind *ignored =
		jobs && jobs->ignored && !file->named ? jobs->ignored(file) : NULL;

	return ignored ? ignored : file->kind;
}

/* Returns true if the content of a foreign file makes it one of a job. */
static bool is_claimed(const struct flmem_found_file *file, const struct flmem_document *document)
{
	return file->framework->jobs->claims && file->framework->jobs->claims(document);
}

static int load_text(struct job_check *job, const char *path, struct flmem_buf *text,
		     struct flmem_error *why)
{
	const struct flmem_correction *known =
		job->texts ? flmem_corrections_find(job->texts, path) : NULL;

	if (!known)
		return read_input_text(path, text, &job->last_read, why);
	flmem_buf_puts(text, known->after);
	return 0;
}

/* Stores the text of an input that may be corrected; that of a notebook is not the file's. */
static int store_text(struct job_check *job, const struct flmem_rule_input *input,
		      struct flmem_error *err)
{
	if (!job->texts || input->document.syntax == FLMEM_SYNTAX_NOTEBOOK ||
	    flmem_corrections_find(job->texts, input->file) ||
	    flmem_corrections_add(job->texts, input->file, &input->document, &job->last_read))
		return 0;
	return flmem_error_nomem(err, "cannot store the text of '%s'", input->file);
}

/* Rules about keys need one map: a list, or several YAML documents, are not checked. */
static int check_root(const struct flmem_rule_input *input, bool *ret_known,
		      struct flmem_error *why)
{
	if (input->kind->any_root || flmem_node_is_kind(input->document.root, FLMEM_NODE_MAP))
		return 0;
	*ret_known = false;
	return flmem_error_set(why, FLMEM_EUSAGE, 0,
			       "not one map of settings, but a list, several documents or "
			       "nothing; the framework refuses it too");
}

static bool is_template(const struct flmem_found_file *file, const struct flmem_buf *text)
{
	return file->syntax == FLMEM_SYNTAX_YAML &&
	       (flmem_file_has_word(text, "{{") || flmem_file_has_word(text, "{%"));
}

/* Reads a template of YAML (of Helm, for example) that is not YAML itself as plain text. */
static bool read_as_template(const struct flmem_found_file *file, struct flmem_buf *text,
			     struct flmem_rule_input *input)
{
	struct flmem_found_file plain = *file;

	plain.syntax = FLMEM_SYNTAX_PLAIN;
	flmem_document_clear(&input->document);
	flmem_buf_init(&input->document.text);
	if (flmem_document_read(plain.syntax, text, &input->document, NULL))
		return false;
	input->kind = file->kind ? NULL : flmem_file_recognise(&plain, &input->document);
	return input->kind;
}

/* Replaces JSON comments that HOCON does not have by blanks. */
static void blank_comments(char *text)
{
	bool quoted = false;

	while (*text) {
		bool opens = !quoted && text[0] == '/' && text[1] == '*';
		char *end = opens ? strstr(text + 2, "*/") : NULL;

		if (opens && !end)
			return;
		if (*text == '\n') {
			quoted = false;
		} else if (quoted && *text == '\\' && text[1]) {
			text++;
		} else if (*text == '"') {
			quoted = !quoted;
		} else if (!quoted && text[0] == '/' && text[1] == '/') {
			text += strcspn(text, "\n");
			continue;
		} else if (end) {
			for (; text < end + 2; text++)
				*text = *text == '\n' ? '\n' : ' ';
			continue;
		}
		text++;
	}
}

/* Returns true if the text has the name of a file, or of its module for "python3 -m". */
static bool has_stem_of(const struct flmem_buf *text, const char *path)
{
	const char *name = flmem_text_basename(path), *dot = strrchr(name, '.');

	return memmem(text->data, text->length, name, dot ? (size_t)(dot - name) : strlen(name));
}

/* Returns true for a script without a framework that runs a checked Python file of its folder. */
static bool runs_checked_file(const struct job_check *job, const struct flmem_found_file *file,
			      const struct flmem_buf *text)
{
	struct flmem_launches launches;
	bool read = false;

	if (file->syntax != FLMEM_SYNTAX_PLAIN || !text->data)
		return false;
	for (size_t i = 0; i < job->read; i++) {
		const struct flmem_rule_input *input = &job->inputs[i];

		if (!flmem_syntax_is_python(input->document.syntax) ||
		    !has_stem_of(text, input->file))
			continue;
		if (!read)
			flmem_launch_read_plain(file->path, text->data, &launches);
		read = true;
		if (flmem_launch_runs(&launches, input->file))
			return true;
	}
	return false;
}

/* Keeps a file that is not checked, if it may start one that is, or bounds its memory. */
static void keep_other(struct job_check *job, struct flmem_found_file *file, struct flmem_buf *text)
{
	struct flmem_rule_input *other = &job->others[job->other_count];
	bool ranges = job->peaks && flmem_limit_ranges_are_likely(text);

	if (!ranges && !flmem_launch_sets_for_others(text))
		return;
	*other = (struct flmem_rule_input){.kind = &flmem_launch_file, .file = file->path};
	if (ranges) {
		flmem_limit_ranges_read(file->syntax, text, &other->document);
		file->checked = flmem_limit_ranges_are_in(&other->document);
	} else {
		other->document.syntax = file->syntax;
		other->document.text = *text;
	}
	flmem_buf_init(text);
	job->other_count++;
}

/* Recognises the kinds of a document by its content, with what Python code imports. */
static int recognise_document(const struct flmem_found_file *file,
			      const struct flmem_python_modules *modules,
			      struct flmem_rule_input *input, struct flmem_error *why)
{
	FLMEM_AUTO_BUF struct flmem_buf paths = FLMEM_BUF_INIT;
	struct flmem_document document = input->document;
	int rc = 0;

	if (file->syntax == FLMEM_SYNTAX_YAML)
		flmem_recommend_targets_mark(&input->document, modules);
	else
		rc = flmem_python_link(&input->document, modules, &paths, why);
	if (rc || input->kind)
		return rc;
	if (paths.length) {
		flmem_buf_puts(&paths, document.text.data);
		document.text = paths;
	}
	if (paths.failed)
		return flmem_error_nomem(why, "cannot store the names");
	input->kind = flmem_file_recognise(file, &document);
	if (input->kind)
		flmem_file_recognise_more(file, &document, input->kind, input->more);
	return 0;
}

/*
 * Reads the file into the slot after the inputs read so far; `*ret_known` is false when no rules
 * apply to it.
 */
static int read_document(struct job_check *job, struct flmem_found_file *file, bool *ret_known,
			 struct flmem_error *why)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT, copy = FLMEM_BUF_INIT;
	FLMEM_AUTO_PYTHON_MODULES struct flmem_python_modules modules = {0};
	FLMEM_AUTO_MODULE_PATHS struct flmem_module_paths paths = {0};
	struct flmem_rule_input *input = &job->inputs[job->read];
	int rc = load_text(job, file->path, &text, why);
	bool runs;

	if (!rc)
		rc = flmem_recommend_modules_find(file, &text, &modules, &paths, why);
	if (rc)
		return rc;
	runs = !file->kind && runs_checked_file(job, file, &text);
	if (!file->kind && !file->named && !runs && !modules.count &&
	    !flmem_file_is_likely(file, &text)) {
		*ret_known = false;
		keep_other(job, file, &text);
		return 0;
	}
	if (is_template(file, &text))
		flmem_buf_puts(&copy, text.data);
	if (file->syntax == FLMEM_SYNTAX_HOCON && flmem_text_ends(file->path, ".json"))
		blank_comments(text.data);
	rc = flmem_document_read(file->syntax, &text, &input->document, why);
	if (rc && copy.length && read_as_template(file, &copy, input)) {
		*ret_known = true;
		return 0;
	}
	if (rc)
		return rc == FLMEM_EUSAGE && flmem_file_may_be_other(file, &input->document.text)
			       ? 0
			       : rc;
	input->document.shown &= !file->named;
	rc = recognise_document(file, &modules, input, why);
	if (!rc)
		rc = flmem_importing_scripts_add(job->scripts, input, &paths, why);
	if (rc)
		return rc;
	if (runs && !input->kind)
		input->kind = &flmem_launch_file;
	*ret_known = input->kind;
	if (!*ret_known)
		keep_other(job, file, &input->document.text);
	if (!*ret_known && file->named && !file->checked)
		return flmem_error_set(why, FLMEM_EUSAGE, 0, FLMEM_RECOMMEND_NO_RULES);
	return *ret_known ? check_root(input, ret_known, why) : 0;
}

static int read_input(struct job_check *job, struct flmem_found_file *file, struct flmem_error *err)
{
	struct flmem_rule_input *input = &job->inputs[job->read];
	bool foreign = is_foreign_file(job, file), known = false;
	struct flmem_error why = {0};
	int rc = 0;

	if (file->record)
		return 0;
	*input = (struct flmem_rule_input){
		.kind = kind_of_file(file), .file = file->path, .app = file->app};
	flmem_buf_init(&input->document.text);
	/* A file that was not stored is not known to be foreign, so it needs a reason. */
	if (read_document(job, file, &known, &why) && (!foreign || why.code == FLMEM_EFAILED))
		rc = flmem_recommendations_store_problem(job->found, file->path,
							 input->document.bad_line, &why, err);
	if (!known || (foreign && !is_claimed(file, &input->document))) {
		flmem_document_clear(&input->document);
		return rc;
	}
	file->checked = true;
	job->read++;
	if (!flmem_rules_reach(input)) {
		flmem_error_set(&why, FLMEM_EUSAGE, 0,
				"holds more than %u parts of a job; the others are not checked",
				FLMEM_PARTS_MAX);
		rc = flmem_recommendations_store_problem(job->found, file->path, 0, &why, err);
		if (rc)
			return rc;
	}
	return store_text(job, input, err);
}

static int check_completeness(struct job_check *job, struct flmem_error *err)
{
	const struct flmem_found_job found = {.files = job->files,
					      .count = job->count,
					      .inputs = job->inputs,
					      .input_count = job->read};
	int rc = 0;

	for (const struct flmem_framework_ops *const *f = flmem_frameworks; *f && !rc; f++)
		if ((*f)->jobs && (*f)->jobs->check)
			rc = (*f)->jobs->check(&found, job->found, err);
	return rc;
}

/* Returns the requested version, else the one that the files install. */
static struct flmem_version_number release_of(const struct flmem_framework_ops *framework,
					      const struct flmem_bundle *bundle,
					      const struct flmem_version_number *release)
{
	if (release->count || !bundle->count)
		return *release;
	return flmem_recommend_pinned(bundle, bundle->inputs[0].file, framework->package);
}

/* Collect the facts of all files first: rules use them. */
static int run_rules(const struct flmem_bundle *bundle, const struct flmem_version_number *release,
		     struct flmem_recommendations *found, struct flmem_error *err)
{
	struct flmem_bundle run = *bundle;
	int rc = 0;

	run.passes_shown = true;
	for (const struct flmem_framework_ops *const *f = flmem_frameworks; *f && !rc; f++) {
		struct flmem_version_number own = release_of(*f, bundle, release);

		if ((*f)->facts)
			rc = flmem_rules_run((*f)->facts, &run, &own, found, err);
	}
	for (const struct flmem_framework_ops *const *f = flmem_frameworks; *f; f++) {
		struct flmem_version_number own = release_of(*f, bundle, release);

		for (const struct flmem_rule_table *const *t = (*f)->rules; t && *t && !rc; t++)
			rc = flmem_rules_run(*t, bundle, &own, found, err);
	}
	if (!rc)
		rc = flmem_rules_run(&flmem_document_rules, bundle, release, found, err);
	return rc || !bundle->peaks
		       ? rc
		       : flmem_rules_run(&flmem_limit_rules, bundle, release, found, err);
}

static int read_and_check(struct job_check *job, const struct flmem_version_number *release,
			  struct flmem_error *err)
{
	struct flmem_bundle bundle;
	int rc = 0;

	/* Read scripts after the Python files that they may run. */
	for (size_t i = 0; i < job->count && !rc; i++)
		if (job->files[i].syntax != FLMEM_SYNTAX_PLAIN)
			rc = read_input(job, &job->files[i], err);
	for (size_t i = 0; i < job->count && !rc; i++)
		if (job->files[i].syntax == FLMEM_SYNTAX_PLAIN)
			rc = read_input(job, &job->files[i], err);
	if (!rc)
		rc = check_completeness(job, err);
	if (rc)
		return rc;
	bundle = (struct flmem_bundle){.inputs = job->inputs,
				       .count = job->read,
				       .others = job->others,
				       .other_count = job->other_count,
				       .peaks = job->peaks};
	job->found->file_count += job->read;
	return run_rules(&bundle, release, job->found, err);
}

static int check_job_files(struct job_check *job, const struct flmem_version_number *release,
			   struct flmem_error *err)
{
	int rc;

	job->inputs = calloc(2 * job->count, sizeof(*job->inputs));
	if (!job->inputs)
		return flmem_error_nomem(err, "cannot store the job");
	job->others = job->inputs + job->count;
	rc = read_and_check(job, release, err);
	for (size_t i = 0; i < job->read; i++)
		flmem_document_clear(&job->inputs[i].document);
	for (size_t i = 0; i < job->other_count; i++)
		flmem_document_clear(&job->others[i].document);
	free(job->inputs);
	return rc;
}

/* Compares by file and line; findings of one line keep the order of the rules. */
static int compare_finding_place(const void *a, const void *b)
{
	const struct flmem_finding *x = a, *y = b;
	int order = strcmp(x->file, y->file);

	if (order)
		return order;
	if (x->line != y->line)
		return x->line < y->line ? -1 : 1;
	order = strcmp(x->path, y->path);
	return order ? order : strcmp(x->rule->id, y->rule->id);
}

static bool is_job(const struct job_check *job)
{
	for (size_t i = 0; i < job->count; i++)
		if (job->files[i].app)
			return true;
	return false;
}

/* Checks the groups of files that are jobs, or with `jobs` false the other groups. */
static int check_groups(const struct flmem_found_files *files, bool jobs,
			const struct flmem_version_number *release, struct job_check *each,
			struct flmem_error *err)
{
	size_t end;
	int rc = 0;

	for (size_t start = 0; start < files->count && !rc; start = end) {
		struct job_check job = *each;

		end = start + 1;
		while (end < files->count &&
		       strcmp(files->files[end].job, files->files[start].job) == 0)
			end++;
		job.files = files->files + start;
		job.count = end - start;
		if (is_job(&job) == jobs)
			rc = check_job_files(&job, release, err);
	}
	return rc;
}

/* Checks jobs first: launch files are checked against the settings of the jobs. */
static int check_found_files(const struct flmem_found_files *files,
			     const struct flmem_version_number *release, struct job_check each,
			     struct flmem_error *err)
{
	FLMEM_AUTO_IMPORTING_SCRIPTS struct flmem_importing_scripts scripts = {0};
	int rc;

	each.scripts = &scripts;
	rc = check_groups(files, true, release, &each, err);

	if (!rc)
		rc = check_groups(files, false, release, &each, err);
	return rc ? rc : flmem_recommend_module_rules(files, &scripts, release, each.found, err);
}

/* Checks records after the jobs, which define how often the processes clean up. */
static int check_records(const struct flmem_found_files *files,
			 const struct flmem_recommend_options *options,
			 const struct flmem_version_number *release,
			 struct flmem_recommendations *found, struct flmem_error *err)
{
	int rc = 0;

	for (size_t i = 0; i < files->count && !rc; i++) {
		struct flmem_found_file *file = &files->files[i];

		file->checked |= file->record != FLMEM_FOUND_DOCUMENT;
		if (file->record == FLMEM_FOUND_RECORDING)
			rc = flmem_recommend_recording(file->path, options, release, found, err);
		else if (file->record == FLMEM_FOUND_OOM_LOG)
			rc = flmem_recommend_oom_log(file->path, found, err);
		else if (file->record == FLMEM_FOUND_HEAP)
			rc = flmem_recommend_heap(file->path, release, found, err);
	}
	return rc;
}

/* Reports findings that were left out: one of them could be more severe than the kept ones. */
static int report_left_out(struct flmem_recommendations *found, struct flmem_error *err)
{
	char count[FLMEM_TEXT_COUNTED_MAX];
	struct flmem_error why = {0};

	if (!found->left_out_count)
		return 0;
	flmem_error_set(&why, FLMEM_EUSAGE, 0,
			"%s beyond the first %u %s left out; check fewer files at once",
			flmem_text_counted(found->left_out_count, "finding", count, sizeof(count)),
			FLMEM_FINDINGS_MAX, found->left_out_count == 1 ? "is" : "are");
	if (flmem_recommendations_add_problem(found, found->findings[0].file, 0, &why))
		return 0;
	return flmem_error_nomem(err, "cannot report the findings that are left out");
}

int flmem_recommend_over(const char *const *paths, size_t count,
			 const struct flmem_recommend_options *options,
			 struct flmem_corrections *texts,
			 struct flmem_recommendations *ret_recommendations, struct flmem_error *err)
{
	FLMEM_AUTO(flmem_recommendations_clear)
	struct flmem_recommendations found = {0};
	FLMEM_AUTO_FOUND_FILES struct flmem_found_files files = {0};
	FLMEM_AUTO_SUPPRESSIONS struct flmem_suppressions suppressions = {0};
	struct flmem_version_number release = {0};
	struct flmem_plan_peaks peaks;
	struct job_check each = {.found = &found, .texts = texts};
	int rc = 0;

	flmem_recommendations_init(&found);
	if (options && options->plan) {
		peaks = flmem_recommend_peaks(options->plan, options->plan_framework);
		each.peaks = &peaks;
		flmem_recommend_set_peaks(&peaks, &found);
	}
	if (options && options->framework_version)
		rc = flmem_version_number_option(options->framework_version, &release, err);
	if (!rc)
		rc = flmem_found_files_search(paths, count, &found, &files, err);
	if (!rc)
		rc = check_found_files(&files, &release, each, err);
	if (!rc && !texts) /* records have nothing to correct */
		rc = check_records(&files, options, &release, &found, err);
	if (!rc)
		rc = report_left_out(&found, err);
	if (!rc)
		rc = flmem_found_files_report_idle(&files, paths, count, &found, err);
	if (!rc && each.peaks && found.file_count)
		rc = flmem_recommend_no_limit(paths[0], &found, err);
	if (!rc)
		rc = flmem_suppressions_read(paths, count, &found, &suppressions, err);
	if (rc)
		return rc;
	flmem_suppressions_apply(&suppressions, &found);
	if (found.finding_count)
		qsort(found.findings, found.finding_count, sizeof(*found.findings),
		      compare_finding_place);
	*ret_recommendations = found;
	found = (struct flmem_recommendations){0};
	return 0;
}

int flmem_recommend(const char *const *paths, size_t count,
		    const struct flmem_recommend_options *options,
		    struct flmem_recommendations *ret_recommendations, struct flmem_error *err)
{
	return flmem_recommend_over(paths, count, options, NULL, ret_recommendations, err);
}
