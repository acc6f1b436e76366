/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/recommend/recommend_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <flmem/heap_profile.h>

#include "base/text/text.h"
#include "frameworks/framework.h"
#include "frameworks/launch/launch_search.h"
#include "ops/recommend/recommend_oom.h"
#include "series/recording.h"

#define DEPTH_MAX   32
#define ENTRIES_MAX 1000000U

#define FIRST_LINE_MAX 128
#define GUESSED_MAX    4096
#define DATA_MIN       (1U << 20) /* larger unknown JSON and TOML files are data */

struct file_search {
	const char *const *paths; /* the user named these paths */
	size_t path_count;
	struct flmem_found_files *files;
	struct flmem_recommendations *found;
	struct flmem_error *err;
	size_t entries;
};

static int files_nomem(struct flmem_error *err)
{
	return flmem_error_nomem(err, "cannot list the files");
}

static int add_problem(struct file_search *search, const char *path, int sys_errno,
		       const char *text)
{
	struct flmem_error why = {0};

	flmem_error_set(&why, flmem_code_of_open(sys_errno), sys_errno, "%s", text);
	return flmem_recommendations_add_problem(search->found, path, 0, &why)
		       ? 0
		       : files_nomem(search->err);
}

static int add_input_file(struct file_search *search, const char *path,
			  const struct flmem_found_file *file)
{
	struct flmem_found_files *files = search->files;
	struct flmem_found_file *grown = files->files;

	/* The capacity doubles whenever the count reaches a power of two. */
	if (!(files->count & (files->count - 1)))
		grown = reallocarray(files->files, files->count ? files->count * 2 : 1,
				     sizeof(*grown));
	if (!grown)
		return files_nomem(search->err);
	files->files = grown;
	grown[files->count] = *file;
	grown[files->count].path = strdup(path);
	return grown[files->count++].path ? 0 : files_nomem(search->err);
}

/* Reads the start of a file whose name has no suffix; "" for any other file. */
static void read_start(const char *path, char *out, size_t size)
{
	FLMEM_AUTO_CLOSE int fd = -1;
	struct stat status;
	ssize_t length = 0;

	if (!strchr(flmem_text_basename(path), '.') && stat(path, &status) == 0 &&
	    S_ISREG(status.st_mode)) {
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
		length = fd < 0 ? 0 : read(fd, out, size - 1);
	}
	out[length < 0 ? 0 : length] = '\0';
}

/*
 * Returns a name with the suffix that a script with a "#!" line would have, by its interpreter;
 * NULL for other files.
 */
static const char *name_of_script(const char *path)
{
	char line[FIRST_LINE_MAX];

	read_start(path, line, sizeof(line));
	line[strcspn(line, "\n")] = '\0';
	if (!flmem_text_starts(line, "#!"))
		return NULL;
	return strstr(line, "python") ? "script.py" : "script.sh";
}

/*
 * Returns such a name for a script without a "#!" line, if it has words of a framework; NULL for
 * other files.
 */
static const char *guess_script(const char *path)
{
	char data[GUESSED_MAX];
	struct flmem_buf text = {.data = data};

	read_start(path, data, sizeof(data));
	text.length = strlen(data);
	if (!flmem_launch_owner(&text) && !flmem_launch_is_likely(data))
		return NULL;
	return strstr(data, "import ") ? "script.py" : "script.sh";
}

/*
 * Returns true for a large file of data: data sets have many such files, and configurations do not
 * reach that size.
 */
static bool is_data_file(const struct flmem_found_file *file, const char *path)
{
	struct stat status;

	return file->match == FLMEM_NAME_SUFFIX && !file->named &&
	       (file->syntax == FLMEM_SYNTAX_JSON || file->syntax == FLMEM_SYNTAX_TOML) &&
	       stat(path, &status) == 0 && status.st_size >= (off_t)DATA_MIN;
}

static int add_if_known(struct file_search *search, const char *path, bool named)
{
	struct flmem_found_file file = {.named = named};

	if (flmem_file_name_find(path, &file))
		return is_data_file(&file, path) ? 0 : add_input_file(search, path, &file);
	file.as = name_of_script(path);
	if (file.as && flmem_file_name_find(file.as, &file))
		return add_input_file(search, path, &file);
	file.record = FLMEM_FOUND_RECORDING;
	if (named && flmem_recording_is_one(path))
		return add_input_file(search, path, &file);
	file.record = FLMEM_FOUND_HEAP;
	if (named && flmem_heap_profile_is_one(path))
		return add_input_file(search, path, &file);
	file.record = FLMEM_FOUND_OOM_LOG;
	if (named && flmem_recommend_is_oom_log(path))
		return add_input_file(search, path, &file);
	file.record = FLMEM_FOUND_DOCUMENT;
	file.as = named ? guess_script(path) : NULL;
	if (file.as && flmem_file_name_find(file.as, &file))
		return add_input_file(search, path, &file);
	return named ? add_problem(search, path, 0, FLMEM_RECOMMEND_NO_RULES) : 0;
}

/*
 * Returns true for hidden files that are read: files of variables, and configurations of CI
 * services.
 */
static bool is_read_hidden(const char *name)
{
	static const char *const names[] = {".env",
					    ".envrc",
					    ".devcontainer",
					    ".devcontainer.json",
					    ".vscode",
					    ".github",
					    ".gitlab-ci.yml",
					    ".gitlab",
					    ".circleci",
					    ".travis.yml",
					    ".drone.yml",
					    ".woodpecker",
					    ".woodpecker.yml",
					    ".woodpecker.yaml",
					    ".buildkite",
					    ".cirrus.yml",
					    ".semaphore",
					    ".azure-pipelines",
					    ".azure-pipelines.yml",
					    ".forgejo",
					    ".gitea",
					    ".appveyor.yml",
					    ".tekton",
					    ".pre-commit-config.yaml",
					    NULL};

	return flmem_text_is_one_of(name, names);
}

static bool is_passed_over(const char *name)
{
	static const char *const packages[] = {"__pycache__", "node_modules", "site-packages",
					       "dist-packages", NULL};

	if (is_read_hidden(name))
		return false;
	return name[0] == '.' || flmem_text_is_one_of(name, packages);
}

/* Returns true for a folder that venv, virtualenv or conda made: it holds installed packages. */
static bool is_python_environment(int folder)
{
	return faccessat(folder, "pyvenv.cfg", F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
	       faccessat(folder, "conda-meta/history", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static int search_folder(struct file_search *search, int parent, const char *name, const char *path,
			 int depth);

/* Whether a file is the path itself or below it. */
static bool is_under(const char *file, const char *path)
{
	size_t length = strlen(path);

	while (length > 1 && path[length - 1] == '/')
		length--;
	return strncmp(file, path, length) == 0 &&
	       (!file[length] || file[length] == '/' || path[length - 1] == '/');
}

/* The folder of the link is searched anyway, as it is below a named path. */
static bool is_target_searched(const struct file_search *search, const char *link)
{
	FLMEM_AUTO_FREE char *target = realpath(link, NULL);

	for (size_t i = 0; target && i < search->path_count; i++) {
		FLMEM_AUTO_FREE char *path = realpath(search->paths[i], NULL);

		if (path && is_under(target, path))
			return true;
	}
	return false;
}

/* Links to folders could lead anywhere, in circles too. */
static int visit_link(struct file_search *search, const char *path)
{
	struct stat status;
	int rc;

	if (stat(path, &status) < 0 || !S_ISDIR(status.st_mode))
		return add_if_known(search, path, false);
	if (is_target_searched(search, path))
		return 0;
	rc = add_problem(search, path, 0,
			 "a symbolic link to a folder, which is not followed; name it to check it");
	if (!rc) {
		struct flmem_input_problem *problem =
			&search->found->problems[search->found->problem_count - 1];

		problem->warning = problem->link = true;
	}
	return rc;
}

static int visit_file(struct file_search *search, int folder, const struct dirent *entry,
		      const char *path, int depth)
{
	unsigned char type = entry->d_type;

	if (type == DT_UNKNOWN) {
		struct stat status;

		if (fstatat(folder, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0)
			return 0;
		type = S_ISDIR(status.st_mode) ? DT_DIR : S_ISLNK(status.st_mode) ? DT_LNK : DT_REG;
	}
	if (type == DT_LNK)
		return visit_link(search, path);
	if (type == DT_DIR)
		return search_folder(search, folder, entry->d_name, path, depth + 1);
	return add_if_known(search, path, false);
}

static int search_entries(struct file_search *search, DIR *directory, const char *path, int depth)
{
	const char *slash = flmem_text_ends(path, "/") ? "" : "/";
	struct dirent *entry;

	while ((entry = readdir(directory))) {
		FLMEM_AUTO_FREE char *below = NULL;
		int rc;

		if (is_passed_over(entry->d_name))
			continue;
		if (search->entries++ >= ENTRIES_MAX)
			return add_problem(search, path, 0,
					   "too many files; the remaining ones are not checked");
		if (asprintf(&below, "%s%s%s", path, slash, entry->d_name) < 0) {
			below = NULL;
			return files_nomem(search->err);
		}
		rc = visit_file(search, dirfd(directory), entry, below, depth);
		if (rc)
			return rc;
	}
	return 0;
}

static int search_folder(struct file_search *search, int parent, const char *name, const char *path,
			 int depth)
{
	FLMEM_AUTO_DIR DIR *directory = NULL;
	int fd, flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | (depth ? O_NOFOLLOW : 0);

	if (depth > DEPTH_MAX)
		return add_problem(search, path, 0,
				   "folders nested too deep; this folder is not checked");
	fd = openat(parent, name, flags);
	if (fd < 0)
		return add_problem(search, path, errno, "cannot search the folder");
	if (depth && is_python_environment(fd)) {
		close(fd);
		return 0;
	}
	directory = fdopendir(fd);
	if (!directory) {
		close(fd);
		return files_nomem(search->err);
	}
	return search_entries(search, directory, path, depth);
}

static int visit_path(struct file_search *search, const char *path)
{
	struct stat status;

	if (stat(path, &status) < 0)
		return add_problem(search, path, errno, "cannot be read");
	if (S_ISDIR(status.st_mode))
		return search_folder(search, AT_FDCWD, path, path, 0);
	return add_if_known(search, path, true);
}

/* Returns the folder of a file; for a drop-in (UNIT.service.d/NAME.conf) that of its unit. */
static char *folder_of(const char *path)
{
	char *folder = flmem_file_folder(path), *above;

	if (!folder || !flmem_text_ends(folder, ".service.d"))
		return folder;
	above = flmem_file_folder(folder);
	free(folder);
	return above;
}

/*
 * Assigns a file to a job. Files that are not part of a framework's job form a group if they are in
 * one folder, or if the user named all of them and their content decided.
 */
static int assign_job(struct flmem_found_file *file, struct flmem_error *err)
{
	const struct flmem_job_layout *jobs = file->framework ? file->framework->jobs : NULL;

	if (jobs)
		return jobs->locate(file, &file->job, &file->app) ? 0 : files_nomem(err);
	file->job = file->named && !file->kind ? strdup("") : folder_of(file->path);
	return file->job ? 0 : files_nomem(err);
}

static int compare_to_place(const struct flmem_found_file *file, const char *job, const char *path)
{
	int order = strcmp(file->job, job);

	return order ? order : strcmp(file->path, path);
}

static int compare_job_and_path(const void *a, const void *b)
{
	const struct flmem_found_file *y = b;

	return compare_to_place(a, y->job, y->path);
}

bool flmem_found_files_have(const struct flmem_found_files *files, const char *group,
			    const char *path)
{
	size_t low = 0, high = files->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = compare_to_place(&files->files[middle], group, path);

		if (!order)
			return true;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return false;
}

static void file_clear(struct flmem_found_file *file)
{
	free(file->path);
	free(file->job);
	free(file->app);
}

static void sort_and_drop_doubles(struct flmem_found_files *files)
{
	size_t kept = 0;

	if (files->count)
		qsort(files->files, files->count, sizeof(*files->files), compare_job_and_path);
	for (size_t i = 0; i < files->count; i++) {
		if (kept && strcmp(files->files[i].path, files->files[kept - 1].path) == 0)
			file_clear(&files->files[i]);
		else
			files->files[kept++] = files->files[i];
	}
	files->count = kept;
}

int flmem_found_files_search(const char *const *paths, size_t count,
			     struct flmem_recommendations *found,
			     struct flmem_found_files *ret_files, struct flmem_error *err)
{
	FLMEM_AUTO_FOUND_FILES struct flmem_found_files files = {0};
	struct file_search search = {
		.paths = paths, .path_count = count, .files = &files, .found = found, .err = err};
	int rc = 0;

	for (size_t i = 0; i < count && !rc; i++)
		rc = visit_path(&search, paths[i]);
	for (size_t i = 0; i < files.count && !rc; i++)
		rc = assign_job(&files.files[i], err);
	if (rc)
		return rc;
	sort_and_drop_doubles(&files);
	*ret_files = files;
	files = (struct flmem_found_files){0};
	return 0;
}

void flmem_found_files_clear(struct flmem_found_files *files)
{
	for (size_t i = 0; i < files->count; i++)
		file_clear(&files->files[i]);
	free(files->files);
	*files = (struct flmem_found_files){0};
}

static bool is_idle(const struct flmem_found_files *files,
		    const struct flmem_recommendations *found, const char *path)
{
	for (size_t i = 0; i < files->count; i++)
		if (files->files[i].checked && is_under(files->files[i].path, path))
			return false;
	for (size_t i = 0; i < found->problem_count; i++)
		if (is_under(found->problems[i].file, path))
			return false;
	return true;
}

int flmem_found_files_report_idle(const struct flmem_found_files *files, const char *const *paths,
				  size_t count, struct flmem_recommendations *found,
				  struct flmem_error *err)
{
	struct flmem_error why = {0};

	flmem_error_set(&why, FLMEM_EUSAGE, 0,
			"nothing to check: there are no rules for anything in it");
	for (size_t i = 0; i < count; i++) {
		if (!is_idle(files, found, paths[i]))
			continue;
		if (!flmem_recommendations_add_problem(found, paths[i], 0, &why))
			return files_nomem(err);
		found->problems[found->problem_count - 1].warning = true;
	}
	return 0;
}
