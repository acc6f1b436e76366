/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/heap_folder.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <flmem/text.h>

#include "base/cleanup.h"
#include "base/files/file_place.h"
#include "base/files/io.h"
#include "proc/files/guarded_file.h"
#include "proc/files/guarded_folder.h"
#include "proc/files/local_path.h"
#include "profiler/read_private.h"

static bool has_known_start(int fd)
{
	char magic[FLMEM_HEAP_MAGIC_BYTES];

	return flmem_io_read_at(fd, 0, magic, sizeof(magic)) && flmem_heap_profile_has_magic(magic);
}

/* Returns 1 for a profile, 0 for another file, or -errno if it cannot be read. */
static int examine_profile(const char *path)
{
	FLMEM_AUTO_GUARDED_FILE struct flmem_guarded_file *file = NULL;
	FLMEM_AUTO_CLOSE int fd = -1;
	char magic[FLMEM_HEAP_MAGIC_BYTES];
	int rc = flmem_guarded_file_open(path, &file);

	if (rc)
		return rc;
	fd = flmem_guarded_file_take(file);
	if (fd >= 0)
		return has_known_start(fd);
	if (flmem_guarded_file_read(file, 0, magic, sizeof(magic)))
		return flmem_heap_profile_has_magic(magic);
	return flmem_guarded_file_is_silent(file) ? -ETIMEDOUT : 0;
}

bool flmem_heap_profile_is_one(const char *path)
{
	return examine_profile(path) > 0;
}

struct name_list {
	char **list;
	size_t count;
	size_t denied; /* files that may not be read, whether profiles or others */
};

static void clear_profile_names(struct name_list *names)
{
	for (size_t i = 0; i < names->count; i++)
		free(names->list[i]);
	free(names->list);
}

static int compare_profile_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/*
 * Examines an entry of a folder, without a child where possible: a child process for each file of a
 * large folder would take long.
 */
static int examine_entry(const char *path, int folder, const struct flmem_guarded_entry *entry)
{
	FLMEM_AUTO_FREE char *file = NULL;
	FLMEM_AUTO_CLOSE int fd = -1;
	struct stat status;

	if (entry->type == DT_DIR)
		return 0;
	if (entry->type == DT_REG && folder >= 0 && flmem_local_path_is_here(folder)) {
		fd = flmem_file_place_open_regular(folder, entry->name,
						   O_RDONLY | O_NOFOLLOW | O_CLOEXEC, &status);
		return fd < 0 ? fd : has_known_start(fd);
	}
	if (asprintf(&file, "%s/%s", path, entry->name) < 0) {
		file = NULL;
		return -ENOMEM;
	}
	return examine_profile(file);
}

static int refuse_silent(const char *path, const char *name, struct flmem_error *err)
{
	return flmem_error_set(err, FLMEM_EFAILED, 0,
			       "the file system of '%s%s%s' did not answer within 2 s; name a "
			       "folder without it",
			       path, name[0] ? "/" : "", name);
}

static int refuse_unlisted(const char *path, int rc, struct flmem_error *err)
{
	if (rc == -ETIMEDOUT)
		return refuse_silent(path, "", err);
	return flmem_error_set(err, flmem_code_of_open(-rc), -rc,
			       "cannot read the folder '%s'; name one with profiles", path);
}

static int keep_profile_name(struct name_list *names, const char *name, struct flmem_error *err)
{
	if (names->count == FLMEM_HEAP_FOLDER_MAX)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "more than %u profiles; name a folder with fewer",
				       FLMEM_HEAP_FOLDER_MAX);
	names->list[names->count] = strdup(name);
	if (!names->list[names->count])
		return flmem_error_nomem(err, "cannot list the profiles");
	names->count++;
	return 0;
}

static int list_profiles(const char *path, struct flmem_guarded_folder *folder,
			 struct name_list *names, struct flmem_error *err)
{
	struct flmem_guarded_entry entry;
	int rc;

	names->list = calloc(FLMEM_HEAP_FOLDER_MAX, sizeof(*names->list));
	if (!names->list)
		return flmem_error_nomem(err, "cannot list the profiles");
	while ((rc = flmem_guarded_folder_next(folder, &entry)) > 0) {
		int found = examine_entry(path, flmem_guarded_folder_descriptor(folder), &entry);

		if (found == -ETIMEDOUT)
			return refuse_silent(path, entry.name, err);
		names->denied += found == -EACCES;
		rc = found > 0 ? keep_profile_name(names, entry.name, err) : 0;
		if (rc)
			return rc;
	}
	if (rc < 0)
		return refuse_unlisted(path, rc, err);
	qsort(names->list, names->count, sizeof(*names->list), compare_profile_names);
	return 0;
}

void flmem_heap_folder_clear(struct flmem_heap_folder *folder)
{
	for (size_t i = 0; i < folder->count; i++)
		flmem_heap_profile_free(folder->profiles[i]);
	for (size_t i = 0; i < folder->unread_count; i++)
		free(folder->unread[i].name);
	free(folder->profiles);
	free(folder->unread);
	*folder = (struct flmem_heap_folder){0};
}

static int read_comparable(const struct flmem_heap_request *request,
			   struct flmem_heap_profile **ret_profile, struct flmem_error *err)
{
	struct flmem_heap_profile *profile;
	int rc = flmem_heap_profile_read(request, &profile, err);
	const char *why = rc ? NULL : flmem_heap_lacks_amounts(profile);
	char shown[256];

	if (why) {
		flmem_heap_profile_free(profile);
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "'%s': %s",
				       flmem_text_escape(request->path, shown, sizeof(shown)), why);
	}
	if (!rc)
		*ret_profile = profile;
	return rc;
}

/* Adds a profile. A file that cannot be read is listed, and does not hide the others. */
static int add_profile(struct flmem_heap_folder *folder, const char *path, const char *name,
		       const struct flmem_heap_request *how)
{
	struct flmem_heap_request request = *how;
	FLMEM_AUTO_FREE char *file = NULL;
	struct flmem_heap_unread *unread = &folder->unread[folder->unread_count];
	struct flmem_error reason = {0};

	if (asprintf(&file, "%s/%s", path, name) < 0) {
		file = NULL;
		return FLMEM_EFAILED;
	}
	request.path = file;
	if (!read_comparable(&request, &folder->profiles[folder->count], &reason)) {
		folder->count++;
		return 0;
	}
	unread->name = strdup(name);
	snprintf(unread->reason, sizeof(unread->reason), "%s", reason.message);
	folder->unread_count += unread->name != NULL;
	return unread->name ? 0 : FLMEM_EFAILED;
}

static const char *name_of_profile(const struct flmem_heap_folder *folder, size_t i)
{
	const char *slash = strrchr(folder->profiles[i]->path, '/');

	return slash ? slash + 1 : folder->profiles[i]->path;
}

static bool is_named_baseline(const char *name)
{
	return strstr(name, "original") || strstr(name, "baseline") || strstr(name, "before");
}

/* Reads the status of a file. Returns as flmem_guarded_file_open(). */
static int find_profile(const char *path, struct stat *ret_status)
{
	FLMEM_AUTO_GUARDED_FILE struct flmem_guarded_file *file = NULL;
	int rc = flmem_guarded_file_open(path, &file);

	if (!rc)
		*ret_status = *flmem_guarded_file_status(file);
	return rc;
}

static bool is_same_profile(const char *path, const struct stat *wanted)
{
	struct stat status;

	return find_profile(path, &status) == 0 && flmem_file_is_same(&status, wanted);
}

static bool find_baseline_named(struct flmem_heap_folder *folder, const char *wanted)
{
	for (size_t i = 0; i < folder->count; i++)
		if (strcmp(name_of_profile(folder, i), wanted) == 0) {
			folder->baseline = i;
			return true;
		}
	return false;
}

static bool find_baseline_file(struct flmem_heap_folder *folder, const struct stat *wanted)
{
	for (size_t i = 0; i < folder->count; i++)
		if (is_same_profile(folder->profiles[i]->path, wanted)) {
			folder->baseline = i;
			return true;
		}
	return false;
}

/* Reads the baseline; one outside of the folder comes first. */
static int read_baseline(struct flmem_heap_folder *folder, const char *wanted,
			 const struct flmem_heap_request *how, struct flmem_error *err)
{
	struct flmem_heap_request request = *how;
	struct flmem_heap_profile *profile;
	int rc;

	request.path = wanted;
	rc = read_comparable(&request, &profile, err);
	if (rc)
		return flmem_error_prefix(err, rc, "--baseline");
	memmove(folder->profiles + 1, folder->profiles,
		folder->count++ * sizeof(struct flmem_heap_profile *));
	folder->profiles[0] = profile;
	folder->baseline = 0;
	return 0;
}

static void assume_baseline(struct flmem_heap_folder *folder)
{
	for (size_t i = 0; i < folder->count; i++)
		if (is_named_baseline(name_of_profile(folder, i))) {
			folder->baseline = i;
			return;
		}
}

/* Chooses the baseline by its name in the folder, or by a path. */
static int choose_baseline(struct flmem_heap_folder *folder, const char *wanted,
			   const struct flmem_heap_request *request, struct flmem_error *err)
{
	struct stat status;
	char shown[256];
	int rc;

	if (find_baseline_named(folder, wanted))
		return 0;
	rc = find_profile(wanted, &status);
	if (!rc && strchr(wanted, '/') && find_baseline_file(folder, &status))
		return 0;
	for (size_t i = 0; i < folder->unread_count; i++)
		if (strcmp(folder->unread[i].name, wanted) == 0)
			return flmem_error_set(err, FLMEM_EUSAGE, 0, "--baseline: %s",
					       folder->unread[i].reason);
	if (rc != -ENOENT)
		return read_baseline(folder, wanted, request, err);
	return flmem_error_set(
		err, FLMEM_EUSAGE, 0,
		"--baseline: no profile of the folder is called '%s', and there is no such file",
		flmem_text_escape(wanted, shown, sizeof(shown)));
}

static int refuse_folder(const struct flmem_heap_folder *folder, const char *path,
			 const struct name_list *names, struct flmem_error *err)
{
	char number[FLMEM_TEXT_COUNTED_MAX];

	if (names->denied && !folder->unread_count)
		return flmem_error_set(
			err, FLMEM_EPERM, 0,
			"%s: no heap profile that can be read; you have no "
			"permission to read %s of this folder",
			path, flmem_text_counted(names->denied, "file", number, sizeof(number)));
	return flmem_error_set(
		err, FLMEM_EUSAGE, 0,
		"%s: no heap profile that can be read%s%s; flmem profile run writes them", path,
		folder->unread_count ? ": " : "",
		folder->unread_count ? folder->unread[0].reason : "");
}

static int read_profiles(struct flmem_heap_folder *folder, const char *path,
			 const struct name_list *names, const struct flmem_heap_request *request,
			 struct flmem_error *err)
{
	folder->profiles =
		/* One more for a baseline. */
		calloc(names->count + 1, sizeof(struct flmem_heap_profile *));
	folder->unread = calloc(names->count + 1, sizeof(*folder->unread));
	if (!folder->profiles || !folder->unread)
		return flmem_error_nomem(err, "cannot read the profiles");
	for (size_t i = 0; i < names->count; i++)
		if (add_profile(folder, path, names->list[i], request))
			return flmem_error_nomem(err, "cannot read the profiles");
	return folder->count ? 0 : refuse_folder(folder, path, names, err);
}

int flmem_heap_folder_read(const char *path, const char *baseline,
			   const struct flmem_heap_request *request,
			   struct flmem_heap_folder *ret_folder, struct flmem_error *err)
{
	FLMEM_AUTO_GUARDED_FOLDER struct flmem_guarded_folder *list = NULL;
	struct flmem_heap_folder folder = {0};
	struct name_list names = {0};
	int rc = flmem_guarded_folder_open(path, &list);

	if (rc)
		return refuse_unlisted(path, rc, err);
	rc = list_profiles(path, list, &names, err);
	if (!rc)
		rc = read_profiles(&folder, path, &names, request, err);
	if (!rc && baseline)
		rc = choose_baseline(&folder, baseline, request, err);
	else if (!rc)
		assume_baseline(&folder);
	clear_profile_names(&names);
	if (rc)
		flmem_heap_folder_clear(&folder);
	else
		*ret_folder = folder;
	return rc;
}
