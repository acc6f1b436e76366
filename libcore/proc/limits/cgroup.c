/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/limits/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include <flmem/parse.h>

#include "base/files/io.h"
#include "base/text/buf.h"
#include "base/text/text.h"
#include "proc/files/mounts.h"
#include "proc/process.h"

#define REMEMBERED_MAX 1024
#define LEVELS_MAX     256
#define FILE_MAX       ((size_t)64 << 10)
#define MOUNTINFO_MAX  ((size_t)16 << 20)

/*
 * Version 1 writes "no limit" as the largest page count times the page size (PAGE_COUNTER_MAX,
 * include/linux/page_counter.h), so it depends on the page size; real limits are far below.
 */
#define NO_LIMIT_V1 UINT64_C(0x7fffffff00000000)

static const char no_limit[] = "no memory limit is set";
static const char no_mount[] = "no cgroup file system with the memory controller is mounted here";
static const char not_named[] = "the process is in no control group that is visible here";
static const char outside[] = "its control group is outside of this cgroup namespace or mount";
static const char cgroup_unreadable[] = "access to its control group is denied";
static const char gone[] =
	"its control group does not exist here (removed, or another mount namespace)";
static const char no_controller[] = "the memory controller is not on for its control group";
static const char set_above[] = "the limit is set above the control groups that are visible here";
static const char cgroup_out_of_memory[] = "flmem is out of memory";

/* The files of one version of the memory controller. */
struct cgroup_version {
	const char *max, *used;
	const char *hierarchy; /* file that is 0 if limits do not apply to children; or NULL */
	const char *stat;      /* file with hierarchical_memory_limit; or NULL */
};

static const struct cgroup_version versions[] = {
	{"memory.limit_in_bytes", "memory.usage_in_bytes", "memory.use_hierarchy", "memory.stat"},
	{"memory.max", "memory.current", NULL, NULL},
};

enum {
	V1,
	V2
};

struct cgroup_mount {
	int version;
	char *root;  /* path of the group at the root of the mount */
	char *point; /* mount point below the root directory, without the leading slash */
};

struct cached_limit {
	char *directory;
	struct flmem_cgroup_limit limit;
};

struct flmem_cgroups {
	int rootfd;
	const char *controller; /* name of the version 1 controller */
	struct cgroup_mount *mounts;
	size_t mount_count;
	struct cached_limit *known;
	size_t known_count;
};

static bool has_item(const char *list, const char *item)
{
	size_t length = strlen(item);

	for (; *list; list += *list == ',') {
		size_t one = strcspn(list, ",");

		if (one == length && memcmp(list, item, length) == 0)
			return true;
		list += one;
	}
	return false;
}

static int add_cgroup_mount(struct flmem_cgroups *cgroups, char *line)
{
	struct flmem_mount found;
	struct cgroup_mount *mount;
	int version;

	if (!flmem_mount_split(line, &found) || !found.source || found.root[0] != '/' ||
	    (strcmp(found.type, "cgroup2") != 0 && strcmp(found.type, "cgroup") != 0))
		return 0;
	version = strcmp(found.type, "cgroup2") == 0 ? V2 : V1;
	if (version == V1 && !(found.options && has_item(found.options, cgroups->controller)))
		return 0;
	mount = reallocarray(cgroups->mounts, cgroups->mount_count + 1, sizeof(*mount));
	if (!mount)
		return -ENOMEM;
	cgroups->mounts = mount;
	mount += cgroups->mount_count++;
	*mount = (struct cgroup_mount){version, strdup(found.root), strdup(found.point + 1)};
	return mount->root && mount->point ? 0 : -ENOMEM;
}

static int read_mounts(struct flmem_cgroups *cgroups)
{
	FLMEM_AUTO_BUF struct flmem_buf buf = FLMEM_BUF_INIT;
	int rc = flmem_io_read_file_at(cgroups->rootfd, "proc/self/mountinfo", MOUNTINFO_MAX, &buf);
	char *rest = buf.data;

	for (char *line; !rc && (line = strsep(&rest, "\n"));)
		rc = add_cgroup_mount(cgroups, line);
	return rc;
}

int flmem_cgroups_open_controller(int rootfd, const char *controller,
				  struct flmem_cgroups **ret_cgroups, struct flmem_error *err)
{
	FLMEM_AUTO_CGROUPS struct flmem_cgroups *cgroups = calloc(1, sizeof(*cgroups));
	int rc;

	if (!cgroups)
		return flmem_error_nomem(err, "cannot read the mounts");
	cgroups->controller = controller;
	cgroups->rootfd = openat(rootfd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	rc = cgroups->rootfd < 0 ? -errno : read_mounts(cgroups);
	if (rc)
		return flmem_error_set(err, FLMEM_EFAILED, -rc, "cannot read the mounts");
	*ret_cgroups = FLMEM_TAKE(cgroups);
	return 0;
}

int flmem_cgroups_open_at(int rootfd, struct flmem_cgroups **ret_cgroups, struct flmem_error *err)
{
	return flmem_cgroups_open_controller(rootfd, "memory", ret_cgroups, err);
}

int flmem_cgroups_open(struct flmem_cgroups **ret_cgroups, struct flmem_error *err)
{
	FLMEM_AUTO_CLOSE int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (root < 0)
		return flmem_error_set(err, FLMEM_EFAILED, errno, "cannot open '/'");
	return flmem_cgroups_open_at(root, ret_cgroups, err);
}

void flmem_cgroups_free(struct flmem_cgroups *cgroups)
{
	if (!cgroups)
		return;
	for (size_t i = 0; i < cgroups->mount_count; i++) {
		free(cgroups->mounts[i].root);
		free(cgroups->mounts[i].point);
	}
	for (size_t i = 0; i < cgroups->known_count; i++)
		free(cgroups->known[i].directory);
	free(cgroups->mounts);
	free(cgroups->known);
	if (cgroups->rootfd >= 0)
		close(cgroups->rootfd);
	free(cgroups);
}

static void set_unknown(struct flmem_cgroup_limit *limit, const char *reason)
{
	limit->max_bytes = FLMEM_UNKNOWN(reason);
	limit->used_bytes = FLMEM_UNKNOWN(reason);
	limit->headroom_bytes = FLMEM_UNKNOWN(reason);
}

/*
 * Reads the number in a file of one line, UINT64_MAX for "max". Returns 0, or -errno without a
 * number.
 */
static int read_cgroup_number(const struct flmem_cgroups *cgroups, const char *directory,
			      const char *name, uint64_t *ret_number)
{
	FLMEM_AUTO_BUF struct flmem_buf path = FLMEM_BUF_INIT;
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	int rc;

	flmem_buf_printf(&path, "%s/%s", directory, name);
	if (path.failed)
		return -ENOMEM;
	rc = flmem_io_read_file_at(cgroups->rootfd, path.data, FILE_MAX, &text);
	if (rc)
		return rc;
	text.data[strcspn(text.data, "\n")] = '\0';
	if (strcmp(text.data, "max") == 0) {
		*ret_number = UINT64_MAX;
		return 0;
	}
	return flmem_parse_u64(text.data, 0, UINT64_MAX, ret_number, NULL) ? -EINVAL : 0;
}

/*
 * Applies the lowest limit of all ancestors, which version 1 reports, including ancestors that no
 * mount shows.
 */
static void check_hierarchy_limit(const struct flmem_cgroups *cgroups, const char *directory,
				  struct flmem_cgroup_limit *limit)
{
	static const char key[] = "\nhierarchical_memory_limit ";
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	FLMEM_AUTO_BUF struct flmem_buf path = FLMEM_BUF_INIT;
	uint64_t number;
	char *at;

	flmem_buf_printf(&path, "%s/%s", directory, versions[V1].stat);
	flmem_buf_putc(&text, '\n');
	if (path.failed ||
	    flmem_io_read_file_at(cgroups->rootfd, path.data, FILE_MAX, &text) != 0 || text.failed)
		return;
	at = strstr(text.data, key);
	if (!at)
		return;
	at += strlen(key);
	at[strcspn(at, "\n")] = '\0';
	if (flmem_parse_u64(at, 0, UINT64_MAX, &number, NULL) || number >= NO_LIMIT_V1 ||
	    (!limit->max_bytes.unknown && limit->max_bytes.value <= number))
		return;
	set_unknown(limit, set_above);
	limit->max_bytes = FLMEM_KNOWN(number);
}

/* Results of the groups visited so far on the way up. */
struct cgroup_walk {
	const struct cgroup_version *version;
	uint64_t lowest, used;
	bool any_file, used_known, stop;
};

static int visit_group(const struct flmem_cgroups *cgroups, const char *directory, bool leaf,
		       struct cgroup_walk *walk)
{
	uint64_t number;
	int rc;

	if (!leaf && walk->version->hierarchy &&
	    read_cgroup_number(cgroups, directory, walk->version->hierarchy, &number) == 0 &&
	    number == 0) {
		walk->stop = true;
		return 0;
	}
	rc = read_cgroup_number(cgroups, directory, walk->version->max, &number);
	/* In version 2 the root group, and a group without the controller, lack this file. */
	if (rc)
		return rc == -ENOENT ? 0 : rc;
	walk->any_file = true;
	if (number >= NO_LIMIT_V1 || number >= walk->lowest)
		return 0;
	walk->lowest = number;
	walk->used_known =
		read_cgroup_number(cgroups, directory, walk->version->used, &walk->used) == 0;
	return 0;
}

static void set_limit(const struct cgroup_walk *walk, struct flmem_cgroup_limit *limit)
{
	if (!walk->any_file || walk->lowest == UINT64_MAX) {
		set_unknown(limit, walk->any_file ? no_limit : no_controller);
		return;
	}
	set_unknown(limit, cgroup_unreadable);
	limit->max_bytes = FLMEM_KNOWN(walk->lowest);
	if (!walk->used_known)
		return;
	limit->used_bytes = FLMEM_KNOWN(walk->used);
	limit->headroom_bytes =
		FLMEM_KNOWN(walk->used < walk->lowest ? walk->lowest - walk->used : 0);
}

/*
 * Visits the parent groups. `directory` is changed: shortened level by level down to its first
 * `top` bytes.
 */
static void walk_parent_groups(const struct flmem_cgroups *cgroups,
			       const struct cgroup_mount *mount, char *directory, size_t top,
			       struct flmem_cgroup_limit *limit)
{
	struct cgroup_walk walk = {.version = &versions[mount->version], .lowest = UINT64_MAX};
	FLMEM_AUTO_FREE char *leaf = strdup(directory);
	int rc = faccessat(cgroups->rootfd, directory, F_OK, 0) < 0 ? -errno : 0;

	if (rc || !leaf) {
		set_unknown(limit, !leaf	   ? cgroup_out_of_memory
				   : rc == -EACCES ? cgroup_unreadable
						   : gone);
		return;
	}
	for (int level = 0; level < LEVELS_MAX && !rc && !walk.stop; level++) {
		char *slash;

		rc = visit_group(cgroups, directory, level == 0, &walk);
		slash = strrchr(directory, '/');
		if (!slash || (size_t)(slash - directory) < top)
			break;
		*slash = '\0';
	}
	if (rc)
		set_unknown(limit, cgroup_unreadable);
	else
		set_limit(&walk, limit);
	if (!rc && walk.version->stat)
		check_hierarchy_limit(cgroups, leaf, limit);
}

static bool has_parent_component(const char *path)
{
	return strcmp(path, "..") == 0 || flmem_text_starts(path, "../") || strstr(path, "/../") ||
	       flmem_text_ends(path, "/..");
}

/*
 * Returns the part of a group's path below the root of the mount; NULL if the group is not below
 * it.
 */
static const char *path_below_mount(const struct cgroup_mount *mount, const char *path)
{
	size_t length = strlen(mount->root);

	if (path[0] != '/' || has_parent_component(path) || has_parent_component(mount->root))
		return NULL;
	if (length == 1)
		return path;
	if (strncmp(path, mount->root, length) != 0 || (path[length] && path[length] != '/'))
		return NULL;
	return path + length;
}

static const struct cgroup_mount *find_mount(const struct flmem_cgroups *cgroups, int version,
					     const char *path, const char **ret_below,
					     const char **ret_reason)
{
	*ret_reason = no_mount;
	for (size_t i = 0; i < cgroups->mount_count; i++) {
		const struct cgroup_mount *mount = &cgroups->mounts[i];

		if (mount->version != version)
			continue;
		*ret_below = path_below_mount(mount, path);
		if (*ret_below)
			return mount;
		*ret_reason = outside;
	}
	return NULL;
}

/*
 * Caches a limit and takes ownership of `directory`. Not caching a group costs only time, so a lack
 * of memory is ignored.
 */
static void remember_group(struct flmem_cgroups *cgroups, char *directory,
			   const struct flmem_cgroup_limit *limit)
{
	struct cached_limit *grown = NULL;

	if (cgroups->known_count < REMEMBERED_MAX)
		grown = reallocarray(cgroups->known, cgroups->known_count + 1, sizeof(*grown));
	if (!grown) {
		free(directory);
		return;
	}
	cgroups->known = grown;
	cgroups->known[cgroups->known_count++] =
		(struct cached_limit){.directory = directory, .limit = *limit};
}

static void read_group_limit(struct flmem_cgroups *cgroups, int version, const char *path,
			     struct flmem_cgroup_limit *ret_limit)
{
	FLMEM_AUTO_BUF struct flmem_buf directory = FLMEM_BUF_INIT;
	const char *rest, *reason;
	const struct cgroup_mount *mount = find_mount(cgroups, version, path, &rest, &reason);
	char *copy;

	set_unknown(ret_limit, reason);
	if (!mount)
		return;
	flmem_buf_printf(&directory, "%s%s", mount->point, strcmp(rest, "/") == 0 ? "" : rest);
	copy = directory.failed ? NULL : strdup(directory.data);
	if (!copy) {
		set_unknown(ret_limit, cgroup_out_of_memory);
		return;
	}
	for (size_t i = 0; i < cgroups->known_count; i++)
		if (strcmp(cgroups->known[i].directory, copy) == 0) {
			*ret_limit = cgroups->known[i].limit;
			free(copy);
			return;
		}
	walk_parent_groups(cgroups, mount, directory.data, strlen(mount->point), ret_limit);
	remember_group(cgroups, copy, ret_limit);
}

/*
 * Parses a line ID:CONTROLLERS:PATH; version 2 is "0::PATH". NULL if the line is for another
 * version.
 */
static const char *parse_path(char *line, const char *controller, int version)
{
	char *controllers = strchr(line, ':'),
	     *path = controllers ? strchr(controllers + 1, ':') : NULL;

	if (!path)
		return NULL;
	*path++ = '\0';
	controllers++;
	if (version == V2)
		return controllers[0] ? NULL : path;
	return has_item(controllers, controller) ? path : NULL;
}

/*
 * Reads the paths of the process's groups by version into `buf`. Returns NULL, or the reason why
 * there are none.
 */
static const char *read_paths(const struct flmem_cgroups *cgroups,
			      const struct flmem_process *process, struct flmem_buf *buf,
			      const char *ret_paths[2])
{
	int rc = flmem_io_read_file_at(process->dirfd, "cgroup", FILE_MAX, buf);
	char *rest = buf->data;

	ret_paths[V1] = ret_paths[V2] = NULL;
	if (rc)
		return rc == -EACCES || rc == -EPERM ? cgroup_unreadable : not_named;
	for (char *line; (line = strsep(&rest, "\n"));) {
		char *colon = strchr(line, ':');
		int version = colon && colon[1] == ':' ? V2 : V1;

		if (!ret_paths[version])
			ret_paths[version] = parse_path(line, cgroups->controller, version);
	}
	return ret_paths[V1] || ret_paths[V2] ? NULL : not_named;
}

void flmem_cgroups_limit(struct flmem_cgroups *cgroups, const struct flmem_process *process,
			 struct flmem_cgroup_limit *ret_limit)
{
	FLMEM_AUTO_BUF struct flmem_buf buf = FLMEM_BUF_INIT;
	const char *paths[2], *unknown = read_paths(cgroups, process, &buf, paths);

	if (unknown)
		set_unknown(ret_limit, unknown);
	else if (paths[V1])
		read_group_limit(cgroups, V1, paths[V1], ret_limit);
	else
		read_group_limit(cgroups, V2, paths[V2], ret_limit);
}

static int open_group(const struct flmem_cgroups *cgroups, int version, const char *path,
		      const char **ret_reason)
{
	FLMEM_AUTO_BUF struct flmem_buf directory = FLMEM_BUF_INIT;
	const char *rest;
	const struct cgroup_mount *mount = find_mount(cgroups, version, path, &rest, ret_reason);
	int fd;

	if (!mount)
		return -1;
	flmem_buf_printf(&directory, "%s%s", mount->point, rest);
	*ret_reason = cgroup_out_of_memory;
	if (directory.failed)
		return -1;
	fd = openat(cgroups->rootfd, directory.data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*ret_reason = fd >= 0 ? NULL : errno == EACCES ? cgroup_unreadable : gone;
	return fd;
}

const char *flmem_cgroups_open_place(struct flmem_cgroups *cgroups,
				     const struct flmem_process *process,
				     struct flmem_cgroup_place *ret_place)
{
	FLMEM_AUTO_BUF struct flmem_buf buf = FLMEM_BUF_INIT;
	const char *paths[2], *unknown = read_paths(cgroups, process, &buf, paths), *ignored;

	*ret_place = (struct flmem_cgroup_place)FLMEM_CGROUP_PLACE_INIT;
	if (unknown)
		return unknown;
	if (paths[V2])
		ret_place->unified = open_group(cgroups, V2, paths[V2], &unknown);
	if (paths[V1])
		ret_place->memory = open_group(cgroups, V1, paths[V1],
					       ret_place->unified < 0 ? &unknown : &ignored);
	return ret_place->memory >= 0 || ret_place->unified >= 0 ? NULL : unknown;
}

uint64_t flmem_cgroup_number_above(int group, const struct flmem_buf *above, const char *name)
{
	FLMEM_AUTO_BUF struct flmem_buf path = FLMEM_BUF_INIT;
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	uint64_t number;

	flmem_buf_printf(&path, "%s%s", above->data, name);
	if (path.failed || flmem_io_read_file_at(group, path.data, FILE_MAX, &text))
		return UINT64_MAX;
	text.data[strcspn(text.data, "\n")] = '\0';
	return flmem_parse_u64(text.data, 0, UINT64_MAX, &number, NULL) ? UINT64_MAX : number;
}

static bool is_group(int group, const struct flmem_buf *above)
{
	FLMEM_AUTO_BUF struct flmem_buf path = FLMEM_BUF_INIT;

	if (above->failed)
		return false;
	flmem_buf_printf(&path, "%scgroup.procs", above->data);
	return !path.failed && faccessat(group, path.data, F_OK, 0) == 0;
}

bool flmem_cgroup_climb(int group, struct flmem_buf *above)
{
	flmem_buf_puts(above, above->length ? "../" : "./");
	return above->length < LEVELS_MAX * sizeof("..") && is_group(group, above);
}

/*
 * Returns how many tasks a group allows. A group without the controller limits nothing; if its
 * number of tasks cannot be read, it allows none.
 */
static uint64_t find_tasks_left(int group)
{
	FLMEM_AUTO_BUF struct flmem_buf above = FLMEM_BUF_INIT;
	uint64_t least = UINT64_MAX;

	while (flmem_cgroup_climb(group, &above)) {
		const uint64_t most = flmem_cgroup_number_above(group, &above, "pids.max");
		const uint64_t used = flmem_cgroup_number_above(group, &above, "pids.current");
		const uint64_t left = used < most ? most - used : 0;

		if (most != UINT64_MAX && left < least)
			least = left;
	}
	return least;
}

uint64_t flmem_cgroups_tasks_left(int rootfd, const struct flmem_process *process)
{
	FLMEM_AUTO_CGROUPS struct flmem_cgroups *cgroups = NULL;
	FLMEM_AUTO_CGROUP_PLACE struct flmem_cgroup_place place = FLMEM_CGROUP_PLACE_INIT;

	if (flmem_cgroups_open_controller(rootfd, "pids", &cgroups, NULL) || !cgroups)
		return 0; /* the mounts cannot be read */
	flmem_cgroups_open_place(cgroups, process, &place);
	if (place.memory < 0 && place.unified < 0)
		return UINT64_MAX;
	return find_tasks_left(place.memory >= 0 ? place.memory : place.unified);
}

static bool find_freezing_group(int group)
{
	FLMEM_AUTO_BUF struct flmem_buf above = FLMEM_BUF_INIT;

	while (flmem_cgroup_climb(group, &above))
		if (flmem_cgroup_number_above(group, &above, "cgroup.freeze") == 1)
			return true; /* the root group lacks this file */
	return false;
}

bool flmem_cgroups_freeze(int rootfd, const struct flmem_process *process)
{
	FLMEM_AUTO_CGROUPS struct flmem_cgroups *cgroups = NULL;
	FLMEM_AUTO_CGROUP_PLACE struct flmem_cgroup_place place = FLMEM_CGROUP_PLACE_INIT;

	if (flmem_cgroups_open_at(rootfd, &cgroups, NULL) || !cgroups)
		return true; /* the mounts cannot be read */
	flmem_cgroups_open_place(cgroups, process, &place);
	return place.unified >= 0 && find_freezing_group(place.unified);
}

int flmem_cgroups_open_host(const struct flmem_cgroups *cgroups, const char *path)
{
	return openat(cgroups->rootfd, path, O_RDONLY | O_CLOEXEC);
}
