/* SPDX-License-Identifier: Apache-2.0 */
#include "allocators/installed.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/files/file_place.h"
#include "base/files/io.h"
#include "base/text/buf.h"

#if defined(__x86_64__)
#define OWN_MACHINE EM_X86_64
#else
#define OWN_MACHINE EM_AARCH64
#endif

/* Directories where distributions, conda images and local builds put libraries; ends in NULL. */
static const char *const library_directories[] = {
	"/usr/lib/" FLMEM_MULTIARCH,
	"/usr/lib64",
	"/usr/local/lib",
	"/usr/local/lib64",
	"/usr/local/lib/" FLMEM_MULTIARCH,
	"/usr/lib",
	"/lib/" FLMEM_MULTIARCH,
	"/lib64",
	"/lib",
	"/opt/conda/lib",
	NULL,
};

/* Debugging variants are left out: they check every call and are too slow for a job. */
static const struct {
	enum flmem_allocator_kind kind;
	const char *file;
} installed_names[] = {
	{FLMEM_ALLOCATOR_JEMALLOC, "libjemalloc.so.2"},
	{FLMEM_ALLOCATOR_JEMALLOC, "libjemalloc.so.1"},
	{FLMEM_ALLOCATOR_JEMALLOC, "libjemalloc.so"},
	{FLMEM_ALLOCATOR_TCMALLOC, "libtcmalloc_minimal.so.4"},
	{FLMEM_ALLOCATOR_TCMALLOC, "libtcmalloc.so.4"},
	{FLMEM_ALLOCATOR_TCMALLOC, "libtcmalloc_minimal.so"},
	{FLMEM_ALLOCATOR_TCMALLOC, "libtcmalloc.so"},
	{FLMEM_ALLOCATOR_MIMALLOC, "libmimalloc.so.3"},
	{FLMEM_ALLOCATOR_MIMALLOC, "libmimalloc.so.2"},
	{FLMEM_ALLOCATOR_MIMALLOC, "libmimalloc.so.1"},
	{FLMEM_ALLOCATOR_MIMALLOC, "libmimalloc.so"},
	{FLMEM_ALLOCATOR_MIMALLOC, "libmimalloc-secure.so"},
};

#define DIRECTORY_LIMIT 64
#define CACHE_LIMIT	((size_t)16 << 20)

struct directory_list {
	char *rows[DIRECTORY_LIMIT];
	size_t count;
};

static void directories_clear(struct directory_list *list)
{
	while (list->count)
		free(list->rows[--list->count]);
}

/* Directories past the limit are left out: real linker configurations are far below it. */
static void add_directory(struct directory_list *list, const char *path, size_t length)
{
	if (length < 2 || path[0] != '/' || list->count == DIRECTORY_LIMIT)
		return;
	for (size_t i = 0; i < list->count; i++)
		if (strncmp(list->rows[i], path, length) == 0 && !list->rows[i][length])
			return;
	list->rows[list->count] = strndup(path, length);
	if (list->rows[list->count])
		list->count++;
}

/*
 * The cache of the dynamic linker, glibc's sysdeps/generic/dl-cache.h. Format 1.1 is a header of 48
 * bytes and rows of 24; up to glibc 2.31 an older table precedes it.
 */
#define CACHE_MAGIC	"glibc-ld.so.cache1.1"
#define OLD_CACHE_MAGIC "ld.so-1.7.0"
#define CACHE_HEADER	48U
#define CACHE_ROW	24U
#define CACHE_ROW_VALUE 8U

static uint32_t read_u32(const char *bytes)
{
	uint32_t value;

	memcpy(&value, bytes, sizeof(value));
	return value;
}

/* Offset of the table in format 1.1; the buffer's length when there is none. */
static size_t find_cache_start(const struct flmem_buf *cache)
{
	size_t start = 0;

	if (cache->length > 16 && memcmp(cache->data, OLD_CACHE_MAGIC, 11) == 0)
		start = (16 + (size_t)read_u32(cache->data + 12) * 12 + 7) & ~(size_t)7;
	if (start > cache->length || cache->length - start < CACHE_HEADER ||
	    memcmp(cache->data + start, CACHE_MAGIC, strlen(CACHE_MAGIC)) != 0)
		return cache->length;
	return start;
}

static void add_cache_directories(int rootfd, struct directory_list *list)
{
	FLMEM_AUTO_BUF struct flmem_buf cache = FLMEM_BUF_INIT;
	size_t start, room;
	uint32_t count;

	if (flmem_io_read_file_at(rootfd, "etc/ld.so.cache", CACHE_LIMIT, &cache))
		return;
	start = find_cache_start(&cache);
	if (start == cache.length)
		return;
	room = cache.length - start;
	count = read_u32(cache.data + start + strlen(CACHE_MAGIC));
	if (count > (room - CACHE_HEADER) / CACHE_ROW)
		return;
	for (uint32_t i = 0; i < count; i++) {
		const char *row = cache.data + start + CACHE_HEADER + (size_t)i * CACHE_ROW;
		uint32_t value = read_u32(row + CACHE_ROW_VALUE);
		const char *path = cache.data + start + value, *slash;

		/* The buffer ends in a NUL, so every offset inside it starts a string. */
		slash = value < room ? strrchr(path, '/') : NULL;
		if (slash)
			add_directory(list, path, (size_t)(slash - path));
	}
}

static void add_environment_directories(struct directory_list *list)
{
	const char *conda = getenv("CONDA_PREFIX"), *search = getenv("LD_LIBRARY_PATH");
	char path[4096];

	if (conda && snprintf(path, sizeof(path), "%s/lib", conda) < (int)sizeof(path))
		add_directory(list, path, strlen(path));
	while (search && *search) {
		size_t length = strcspn(search, ":;");

		add_directory(list, search, length);
		search += length + (search[length] != '\0');
	}
}

/* Checks for a shared library of this machine's kind; `ret_status` identifies the file. */
static bool is_library(int rootfd, const char *path, struct stat *ret_status)
{
	FLMEM_AUTO_CLOSE int fd = openat(rootfd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	Elf64_Ehdr header;

	if (fd < 0 || fstat(fd, ret_status) < 0 || !S_ISREG(ret_status->st_mode))
		return false;
	if (pread(fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header))
		return false;
	return memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
	       header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_type == ET_DYN &&
	       header.e_machine == OWN_MACHINE;
}

struct installed_search {
	int rootfd;
	struct flmem_installed_allocator *rows;
	struct stat *files; /* the array has the capacity of the rows */
	size_t count, room;
};

static int check_library(struct installed_search *search, const char *directory, size_t name)
{
	char path[4200];
	struct stat status;

	/* The path is relative to the root, hence without the leading slash. */
	if (snprintf(path, sizeof(path), "%s/%s", directory + 1, installed_names[name].file) >=
	    (int)sizeof(path))
		return 0;
	if (search->count == search->room || !is_library(search->rootfd, path, &status) ||
	    flmem_file_is_among(&status, search->files, search->count))
		return 0;
	if (asprintf(&search->rows[search->count].path, "/%s", path) < 0)
		return -ENOMEM;
	search->rows[search->count].kind = installed_names[name].kind;
	search->files[search->count++] = status;
	return 0;
}

static int search_directories(struct installed_search *search)
{
	FLMEM_AUTO(directories_clear) struct directory_list list = {0};
	int rc = 0;

	add_environment_directories(&list);
	for (const char *const *d = library_directories; *d; d++)
		add_directory(&list, *d, strlen(*d));
	add_cache_directories(search->rootfd, &list);
	search->room = list.count * FLMEM_ARRAY_SIZE(installed_names);
	search->rows = calloc(search->room, sizeof(*search->rows));
	search->files = calloc(search->room, sizeof(*search->files));
	if (!search->rows || !search->files)
		return -ENOMEM;
	for (size_t name = 0; name < FLMEM_ARRAY_SIZE(installed_names); name++)
		for (size_t i = 0; i < list.count && !rc; i++)
			rc = check_library(search, list.rows[i], name);
	return rc;
}

int flmem_installed_find(int rootfd, struct flmem_installed_allocator **ret_rows, size_t *ret_count,
			 struct flmem_error *err)
{
	struct installed_search search = {.rootfd = rootfd};
	int rc = search_directories(&search);

	free(search.files);
	if (rc) {
		flmem_installed_free(search.rows, search.count);
		return flmem_error_set(err, FLMEM_EFAILED, -rc, "cannot search for allocators");
	}
	*ret_rows = search.rows;
	*ret_count = search.count;
	return 0;
}

void flmem_installed_free(struct flmem_installed_allocator *rows, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(rows[i].path);
	free(rows);
}
