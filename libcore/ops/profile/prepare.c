/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/profile/prepare.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <flmem/launch.h>
#include <flmem/output_place.h>
#include <flmem/text.h>
#include <flmem/version.h>

#include "base/cleanup.h"
#include "base/files/file_place.h"
#include "base/files/io.h"
#include "base/text/buf.h"
#include "base/text/redact.h"
#include "elf/libc.h"
#include "ops/profile/profile_filters.h"
#include "ops/profile/profile_place.h"
#include "preload/profile_format.h"
#include "preload/profile_layout.h"
#include "preload/sampler_state.h"
#include "proc/command.h"
#include "proc/limits/group_room.h"
#include "proc/process.h"
#include "profiler/profile_file.h"
#include "settings/preload.h"

int flmem_profile_sizes_check(const struct flmem_profile_request *request, struct flmem_error *err)
{
	uint64_t limit = request->limit_bytes, interval = request->interval_bytes;

	if (limit && (limit < FLMEM_PROFILE_LIMIT_MIN || limit > FLMEM_PROFILE_LIMIT_MAX))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "--limit accepts 1 MiB to 4 GiB; the default is 64 MiB");
	if (interval > FLMEM_PROFILE_INTERVAL_MAX)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "--interval accepts at most 1 TiB; the default is 512 KiB");
	return 0;
}

void flmem_profile_command_fill(char *const *argv, struct flmem_profile_header *header)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	size_t count = 0;

	while (argv[count])
		count++;
	flmem_redact_command((const char *const *)argv, count, &text);
	flmem_text_escape(text.data, header->command, sizeof(header->command));
}

void flmem_profile_header_fill(const struct flmem_profile_request *request,
			       struct flmem_profile_header *header)
{
	uint64_t limit = request->limit_bytes ? request->limit_bytes : FLMEM_PROFILE_LIMIT;
	uint64_t interval =
		request->interval_bytes ? request->interval_bytes : FLMEM_PROFILE_INTERVAL;

	memcpy(header->magic, FLMEM_PROFILE_MAGIC, sizeof(header->magic));
	header->version = FLMEM_PROFILE_VERSION;
	header->header_size = FLMEM_PROFILE_HEADER_SIZE;
	header->order = FLMEM_PROFILE_ORDER;
	header->flags = (request->native ? FLMEM_PROFILE_NATIVE : 0) |
			(request->follow_children ? FLMEM_PROFILE_FOLLOW : 0) |
			(request->python_allocators ? FLMEM_PROFILE_PYTHON_ALLOCATORS : 0) |
			(request->interval_bytes ? 0 : FLMEM_PROFILE_PACED);
	header->phase = FLMEM_PROFILE_PREPARED;
	header->interval_bytes = interval;
	header->interval_now_bytes = interval;
	header->pid = (uint32_t)getpid(); /* the command keeps this PID */
	header->parent_pid = (uint32_t)getppid();
	header->round = FLMEM_PROFILE_ROUND_NONE;
	header->cells_full_round = FLMEM_PROFILE_ROUND_NONE;
	snprintf(header->build, sizeof(header->build), "%s", flmem_version());
	flmem_profile_divide(header, limit);
}

/*
 * Allocates all blocks: a mapped file on a full disk would kill the process later. A file beyond
 * the limit of the process would make the kernel send SIGXFSZ.
 */
static int allocate_profile(int fd, uint64_t size, const char *path, struct flmem_error *err)
{
	char wanted[FLMEM_TEXT_BYTES_MAX], most[FLMEM_TEXT_BYTES_MAX];
	struct rlimit limit = {0};
	int error = getrlimit(RLIMIT_FSIZE, &limit) < 0 ? errno : 0;

	flmem_text_bytes(size, wanted, sizeof(wanted));
	if (!error && limit.rlim_cur < size)
		return flmem_error_set(err, FLMEM_EFAILED, 0,
				       "cannot allocate %s for '%s': files of this process may "
				       "have %s (ulimit -f); raise that or give a smaller --limit",
				       wanted, path,
				       flmem_text_bytes(limit.rlim_cur, most, sizeof(most)));
	if (!error)
		error = posix_fallocate(fd, 0, (off_t)size);
	return !error ? 0
		      : flmem_error_set(err, FLMEM_EFAILED, error,
					"cannot allocate %s for '%s'; free some space, choose "
					"another place or give a smaller --limit",
					wanted, path);
}

/* Memory that others in the control group may use while the file is allocated. */
#define OWN_ROOM (UINT64_C(16) << 20)

#define NAME_SHOWN 256

/* Returns true if the file may be in memory; also for an unknown file system. */
static bool may_be_in_memory(uint32_t kind)
{
	return !kind || kind == TMPFS_MAGIC || kind == RAMFS_MAGIC;
}

/* The kernel counts the whole file for the control group of the process that allocates it. */
int flmem_profile_room_check(uint32_t kind, uint64_t size, struct flmem_error *err)
{
	FLMEM_AUTO_PROCESS struct flmem_process own = FLMEM_PROCESS_INIT;
	int rc;

	if (!may_be_in_memory(kind))
		return 0;
	rc = flmem_process_open(getpid(), &own, err);
	return rc ? rc
		  : flmem_group_room_check(&own, size + OWN_ROOM, "a profile in memory",
					   FLMEM_PROFILE_ROOM_HOW, err);
}

/*
 * Checks the room for files of children. Their number is unknown, and several may allocate their
 * profiles at once.
 */
static int check_room_of_children(uint32_t kind, struct flmem_error *err)
{
	FLMEM_AUTO_PROCESS struct flmem_process own = FLMEM_PROCESS_INIT;
	FLMEM_AUTO_CLOSE int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	const uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	int rc = flmem_process_open(getpid(), &own, err);

	if (rc || !may_be_in_memory(kind) || flmem_group_room_left(root, &own, true) >= memory)
		return rc;
	return flmem_error_set(err, FLMEM_EUNSAFE, 0,
			       "with --follow-children each child takes memory for its profile, "
			       "too, and the control group of flmem has a limit (memory.max, "
			       "memory.high), for which the kernel could kill one of them; choose "
			       "a place on a disk");
}

int flmem_profile_name_check(const struct stat *old, const char *path, bool replace,
			     struct flmem_error *err)
{
	if (!old)
		return 0;
	if (S_ISDIR(old->st_mode))
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "'%s' is a directory; name a file",
				       path);
	/*
	 * Otherwise a call by root could remove /dev/null for everybody. A symbolic link is
	 * replaced, not its target.
	 */
	if (!flmem_file_is_replaceable(old))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' is not a regular file; name another", path);
	return replace ? 0
		       : flmem_error_set(err, FLMEM_EUSAGE, 0,
					 "'%s' exists; use --force to replace it", path);
}

static int write_profile_header(int fd, const struct flmem_profile_header *header, const char *path,
				struct flmem_error *err)
{
	int rc = allocate_profile(fd, header->file_size, path, err);

	if (rc)
		return rc;
	rc = flmem_io_write_all(fd, header, sizeof(*header));
	if (rc)
		return flmem_error_set(err, FLMEM_EFAILED, -rc, "cannot write '%s'", path);
	return 0;
}

int flmem_profile_file_fill(int fd, const struct flmem_profile_header *header, bool is_mapped,
			    const char *path, struct flmem_error *err)
{
	int rc = flmem_profile_place_check(flmem_profile_place_kind(fd), is_mapped, path, err);

	if (!rc)
		rc = write_profile_header(fd, header, path, err);
	if (!rc && is_mapped)
		rc = flmem_profile_blocks_check(fd, header, sizeof(*header), path, err);
	return rc;
}

static int check_directory_mount(int directory, const char *path, struct flmem_error *err)
{
	struct stat status;

	return fstat(directory, &status) < 0
		       ? 0
		       : flmem_profile_mount_check(NULL, status.st_dev, path, err);
}

static int create_profile(const struct flmem_profile_request *request, char *const *argv,
			  struct flmem_error *err)
{
	FLMEM_AUTO_FILE_PLACE struct flmem_file_place place = FLMEM_FILE_PLACE_INIT;
	FLMEM_AUTO_TEMPORARY struct flmem_temporary new = FLMEM_TEMPORARY_INIT;
	struct flmem_profile_header header = {0};
	struct stat old;
	int rc = flmem_output_place_check(request->output, err);
	uint32_t kind;
	bool exists;

	if (rc)
		return rc;
	rc = flmem_file_place_open(request->output, &place);
	if (rc)
		return flmem_error_set(err, flmem_code_of_open(-rc), -rc, "cannot write '%s'",
				       request->output);
	exists = fstatat(place.directory, place.name, &old, AT_SYMLINK_NOFOLLOW) == 0;
	rc = flmem_profile_name_check(exists ? &old : NULL, request->output, request->force, err);
	if (rc)
		return rc;
	rc = check_directory_mount(place.directory, request->output, err);
	if (rc)
		return rc;
	flmem_profile_header_fill(request, &header);
	kind = flmem_profile_place_kind(place.directory);
	rc = flmem_profile_room_check(kind, header.file_size, err);
	if (!rc && request->follow_children)
		rc = check_room_of_children(kind, err);
	if (rc)
		return rc;
	flmem_profile_command_fill(argv, &header);
	rc = flmem_temporary_create(place.directory, 0600, &new);
	if (rc)
		return flmem_error_set(err, flmem_code_of_open(-rc), -rc, "cannot write '%s'",
				       request->output);
	rc = flmem_profile_file_fill(new.fd, &header, true, request->output, err);
	return rc ? rc : flmem_temporary_publish(&place, &new, request->force, err);
}

static const char *find_preload(char *const *environment)
{
	for (; environment && *environment; environment++)
		if (strncmp(*environment, "LD_PRELOAD=", 11) == 0)
			return *environment + 11;
	return "";
}

/* Puts the sampler before the user's entries, to which it passes calls on. */
static char *join_profile_preload(const char *sampler, char *const *environment)
{
	const char *old = find_preload(environment);
	char *list;

	if (asprintf(&list, "%s%s%s", sampler, *old ? ":" : "", old) < 0)
		return NULL;
	return list;
}

static int make_profile_environment(const struct flmem_profile_request *request,
				    const char *sampler, char *const *environment,
				    char ***ret_environment, struct flmem_error *err)
{
	FLMEM_AUTO_FREE char *preload = join_profile_preload(sampler, environment);
	FLMEM_AUTO_FREE char *path = realpath(request->output, NULL);
	char libc_malloc[] = "malloc", filters[FLMEM_PROFILE_FILTERS_MAX];
	struct flmem_setting rows[] = {
		{.name = "LD_PRELOAD", .value = preload},
		{.name = FLMEM_PROFILE_VARIABLE, .value = path},
		{.name = FLMEM_PROFILE_FILTERS, .value = filters},
		{.name = "PYTHONMALLOC", .value = libc_malloc},
	};
	const struct flmem_settings settings = {
		.rows = rows,
		.count = request->python_allocators ? 4 : 3,
	};

	if (!preload || !path)
		return flmem_error_set(err, FLMEM_EFAILED, errno, "cannot name '%s'",
				       request->output);
	flmem_profile_filters_name(filters);
	return flmem_launch_environment(&settings, environment, false, ret_environment, err);
}

static int check_c_library(const char *path, const char *sampler, struct flmem_error *err)
{
	const enum flmem_allocator_kind needed = flmem_libc_of_library(sampler);
	struct flmem_libc libc = {0};
	char shown[256];

	if (needed == FLMEM_ALLOCATOR_UNKNOWN || flmem_libc_of_program(path, &libc, NULL) ||
	    libc.kind == needed)
		return 0;
	return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
			       "the sampler is built for %s, but '%s' runs with %s, and would not "
			       "start with it",
			       flmem_allocator_name(needed),
			       flmem_text_escape(path, shown, sizeof(shown)),
			       flmem_allocator_name(libc.kind));
}

/* AddressSanitizer ends a program where its library is not the first, ThreadSanitizer crashes. */
static int check_sanitizer(const char *path, const char *preload, struct flmem_error *err)
{
	const char *library = flmem_libc_sanitizer(path);
	FLMEM_AUTO_FREE char *entry = NULL;
	char shown[256];

	for (size_t i = 0; !library && !entry && flmem_sanitizer_libraries[i]; i++)
		entry = flmem_preload_entry(preload, flmem_sanitizer_libraries[i]);
	if (!library && !entry)
		return 0;
	return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
			       "'%s' runs with a sanitizer (%s), whose library cannot have another "
			       "one before it: use a build without it",
			       flmem_text_escape(path, shown, sizeof(shown)),
			       library ? library : "LD_PRELOAD");
}

/* Refuses a program that would not start with the sampler. */
static int check_program(const char *program, const char *sampler, char *const *environment,
			 struct flmem_error *err)
{
	FLMEM_AUTO_FREE char *path = NULL;
	int rc = flmem_command_find(program, &path, err);

	if (!rc)
		rc = check_c_library(path, sampler, err);
	return rc ? rc : check_sanitizer(path, find_preload(environment), err);
}

int flmem_profile_program_check(const char *program, struct flmem_error *err)
{
	char sampler[FLMEM_PRELOAD_PATH_MAX];
	int rc = flmem_preload_find_own(FLMEM_SAMPLER_READY_LIBRARY, sampler, err);

	return rc ? rc : check_program(program, sampler, environ, err);
}

int flmem_profile_prepare(const struct flmem_profile_request *request, char *const *argv,
			  char *const *environment, char ***ret_environment,
			  struct flmem_error *err)
{
	char sampler[FLMEM_PRELOAD_PATH_MAX];
	int rc = flmem_profile_sizes_check(request, err);

	if (!rc)
		rc = flmem_preload_find_own(FLMEM_SAMPLER_LIBRARY, sampler, err);
	if (!rc) /* checked before an older profile is replaced */
		rc = check_program(argv[0], sampler, environment, err);
	if (!rc)
		rc = flmem_profile_filters_check(err);
	if (!rc)
		rc = create_profile(request, argv, err);
	if (rc)
		return rc;
	return make_profile_environment(request, sampler, environment, ret_environment, err);
}

static int make_ready_environment(const char *socket, char *const *environment,
				  char ***ret_environment, struct flmem_error *err)
{
	char sampler[FLMEM_PRELOAD_PATH_MAX];
	FLMEM_AUTO_FREE char *preload = NULL, *asked = socket ? strdup(socket) : NULL;
	struct flmem_setting rows[] = {
		{.name = "LD_PRELOAD"},
		{.name = FLMEM_SAMPLER_SOCKET_VARIABLE, .value = asked},
	};
	const struct flmem_settings settings = {.rows = rows, .count = socket ? 2 : 1};
	int rc = flmem_preload_find_own(FLMEM_SAMPLER_READY_LIBRARY, sampler, err);

	if (rc)
		return rc;
	preload = join_profile_preload(sampler, environment);
	if (!preload || (socket && !asked))
		return flmem_error_nomem(err, "cannot store the environment");
	rows[0].value = preload;
	return flmem_launch_environment(&settings, environment, false, ret_environment, err);
}

int flmem_profile_ready(char *const *environment, char ***ret_environment, struct flmem_error *err)
{
	return make_ready_environment(NULL, environment, ret_environment, err);
}

int flmem_profile_ready_socket(bool assume_seccomp, char *const *environment,
			       char ***ret_environment, struct flmem_error *err)
{
	return make_ready_environment(assume_seccomp ? FLMEM_SAMPLER_SOCKET_ASSUMED
						     : FLMEM_SAMPLER_SOCKET_UNFILTERED,
				      environment, ret_environment, err);
}

static int refuse_unsampled(const struct flmem_profile_header *header, const char *path,
			    struct flmem_error *err)
{
	char why[sizeof(header->refusal)], text[sizeof(header->refusal)];

	snprintf(text, sizeof(text), "%.*s", (int)sizeof(header->refusal) - 1, header->refusal);
	return flmem_error_set(err, FLMEM_EUSAGE, 0, "nothing is sampled into '%s': %s", path,
			       flmem_text_escape(text, why, sizeof(why)));
}

int flmem_profile_set_round(const char *path, uint32_t round, struct flmem_error *err)
{
	FLMEM_AUTO_CLOSE int fd = -1;
	struct flmem_profile_header header;
	char name[NAME_SHOWN];
	struct stat status;
	pid_t pid;

	fd = flmem_file_place_open_regular(AT_FDCWD, path, O_RDWR | O_CLOEXEC, &status);
	if (fd < 0)
		return flmem_error_set(err, flmem_code_of_open(-fd), -fd, "cannot open '%s'", path);
	if (!flmem_io_read_at(fd, 0, &header, sizeof(header)) ||
	    memcmp(header.magic, FLMEM_PROFILE_MAGIC, sizeof(header.magic)) != 0 ||
	    header.version != FLMEM_PROFILE_VERSION || header.order != FLMEM_PROFILE_ORDER)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "'%s' is not a heap profile", path);
	if (header.phase == FLMEM_PROFILE_ENDED)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "the profile '%s' has ended: its process exited or was "
				       "detached; announce rounds while it is sampled",
				       path);
	if (header.phase == FLMEM_PROFILE_REFUSED)
		return refuse_unsampled(&header, path, err);
	pid = header.phase == FLMEM_PROFILE_RUNNING ? flmem_profile_process_find(&header) : 0;
	if (pid && flmem_profile_is_copy(pid, &header, &status, name, sizeof(name)))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' is a copy, which no process reads; name the file into "
				       "which process %d is sampled: '%s'",
				       path, (int)pid, name);
	if (pwrite(fd, &round, sizeof(round), FLMEM_PROFILE_ROUND_OFFSET) != (ssize_t)sizeof(round))
		return flmem_error_set(err, FLMEM_EFAILED, errno, "cannot write '%s'", path);
	if (header.phase != FLMEM_PROFILE_RUNNING || pid)
		return 0;
	return flmem_error_set(err, FLMEM_ENOPROC, 0,
			       "process %u of '%s' was not found: it was killed, ended by _exit(), "
			       "has executed another program, or runs in another container or on "
			       "another host; the round is stored",
			       header.pid, path);
}
