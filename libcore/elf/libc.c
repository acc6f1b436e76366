/* SPDX-License-Identifier: Apache-2.0 */
#include "elf/libc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "elf/modules.h"

#define DIGITS "0123456789"

/* More than any C library has in .data.rel.ro, so that a hostile file costs little. */
#define HITS_MAX  64
#define NAMES_MAX ((uint64_t)16 << 20) /* limit of a table of names */
#define RELRO_MAX ((uint64_t)1 << 20)

static struct flmem_image *open_image(const char *path, struct flmem_error *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct flmem_image *image = NULL;

	if (fd < 0) {
		flmem_error_set(err, FLMEM_EUNSUPPORTED, errno, "cannot open '%s'", path);
		return NULL;
	}
	return flmem_image_open(fd, &image, err) ? NULL : image;
}

/* Copies a version of two or three numbers that starts at `offset`. */
static bool copy_version(struct flmem_image *image, uint64_t offset,
			 char out[FLMEM_LIBC_VERSION_MAX])
{
	char text[FLMEM_LIBC_VERSION_MAX];
	size_t length = 0;
	int numbers = 0;

	if (!flmem_image_read(image, offset, text, sizeof(text)))
		return false;
	text[sizeof(text) - 1] = '\0';
	while (numbers < 3) {
		size_t digits = strspn(text + length, DIGITS);

		if (!digits)
			return false;
		length += digits;
		numbers++;
		/* A full stop at the end of the sentence is not part of the version. */
		if (text[length] != '.' || !strchr(DIGITS, text[length + 1]) || !text[length + 1])
			break;
		length++;
	}
	if (numbers < 2)
		return false;
	snprintf(out, FLMEM_LIBC_VERSION_MAX, "%.*s", (int)length, text);
	return true;
}

bool flmem_libc_glibc_version(struct flmem_image *image, char out[FLMEM_LIBC_VERSION_MAX])
{
	static const char banner[] = "GNU C Library ", lead[] = " release version ";
	int64_t start = flmem_image_find_bytes(image, banner, strlen(banner), 0), at;

	if (start < 0)
		return false;
	at = flmem_image_find_bytes(image, lead, strlen(lead), (uint64_t)start);
	/* Both texts are in one line, with the vendor's name between them. */
	if (at < 0 || at - start > 128)
		return false;
	return copy_version(image, (uint64_t)at + strlen(lead), out);
}

bool flmem_libc_musl_version(struct flmem_image *image, char out[FLMEM_LIBC_VERSION_MAX])
{
	/* __libc_version is a separate string; the usage text only has "Version %s". */
	static const char usage[] = "musl libc (", lead[] = "\0001.";
	int64_t at = -1;

	if (flmem_image_find_bytes(image, usage, strlen(usage), 0) < 0)
		return false;
	for (int i = 0; i < HITS_MAX; i++) {
		char text[FLMEM_LIBC_VERSION_MAX];

		at = flmem_image_find_bytes(image, lead, sizeof(lead) - 1, (uint64_t)(at + 1));
		if (at < 0)
			return false;
		if (copy_version(image, (uint64_t)at + 1, text) &&
		    flmem_image_read(image, (uint64_t)at + 1 + strlen(text), out, 1) && !*out &&
		    strchr(strchr(text, '.') + 1, '.')) {
			memcpy(out, text, sizeof(text));
			return true;
		}
	}
	return false;
}

static int identify_kind(struct flmem_libc *libc, const char *path, struct flmem_error *err)
{
	const char *name = flmem_text_basename(libc->linker);

	/* Recognises ld-linux-x86-64.so.2, ld-linux-aarch64.so.1 and ld-musl-x86_64.so.1. */
	if (flmem_text_starts(name, "ld-musl-"))
		libc->kind = FLMEM_ALLOCATOR_MUSL;
	else if (flmem_text_starts(name, "ld-linux"))
		libc->kind = FLMEM_ALLOCATOR_GLIBC;
	else
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
				       "'%s' is linked to an unknown C library", path);
	return 0;
}

/*
 * Finds the library: with musl it is the linker itself, with glibc it is in the directory of the
 * resolved linker path.
 */
static void find_libc_library(struct flmem_libc *libc)
{
	FLMEM_AUTO_FREE char *linker = realpath(libc->linker, NULL);
	int length;

	if (!linker)
		return;
	length = (int)(flmem_text_basename(linker) - linker);
	snprintf(libc->library, sizeof(libc->library), "%.*s%s", length, linker,
		 libc->kind == FLMEM_ALLOCATOR_MUSL ? linker + length : "libc.so.6");
}

/* Searches for a string in the tables that the linker makes read-only after relocation. */
static bool has_constant(struct flmem_image *image, const char *text)
{
	FLMEM_AUTO_FREE char *bytes = NULL;
	uint64_t address, size;

	if (!flmem_image_find_section(image, ".data.rel.ro", &address, &size) || size > RELRO_MAX)
		return false;
	bytes = malloc((size_t)size + 1);
	return bytes && flmem_image_read_address(image, address, bytes, (size_t)size) &&
	       memmem(bytes, (size_t)size, text, strlen(text) + 1);
}

/*
 * Reports whether the C library reads MALLOC_ARENA_MAX. Since 2.26 the variable's name is in the
 * linker's list of tunables (elf/dl-tunables.list), in .data.rel.ro; before, malloc itself compares
 * the text after "MALLOC_".
 */
static bool knows_arena_max(const struct flmem_libc *libc, struct flmem_image *library)
{
	FLMEM_AUTO_IMAGE struct flmem_image *linker = open_image(libc->linker, NULL);
	static const char old_name[] = "ARENA_MAX";

	if (libc->kind != FLMEM_ALLOCATOR_GLIBC)
		return false;
	return (linker && has_constant(linker, "MALLOC_ARENA_MAX")) ||
	       flmem_image_find_bytes(library, old_name, strlen(old_name), 0) >= 0;
}

static void read_library(struct flmem_libc *libc)
{
	FLMEM_AUTO_IMAGE struct flmem_image *image = open_image(libc->library, NULL);
	struct flmem_symbol symbol;

	if (!image) {
		libc->library[0] = '\0';
		return;
	}
	if (libc->kind == FLMEM_ALLOCATOR_MUSL)
		flmem_libc_musl_version(image, libc->version);
	else
		flmem_libc_glibc_version(image, libc->version);
	libc->has_malloc_trim = flmem_image_find_dynamic(image, "malloc_trim", &symbol);
	libc->reads_arena_max = knows_arena_max(libc, image);
}

int flmem_libc_of_program(const char *path, struct flmem_libc *ret_libc, struct flmem_error *err)
{
	FLMEM_AUTO_IMAGE struct flmem_image *image = open_image(path, err);
	struct flmem_libc libc = {0};
	int rc;

	if (!image)
		return FLMEM_EUNSUPPORTED;
	if (!flmem_image_interpreter(image, libc.linker, sizeof(libc.linker)))
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0, "'%s' is statically linked",
				       path);
	rc = identify_kind(&libc, path, err);
	if (rc)
		return rc;
	find_libc_library(&libc);
	read_library(&libc);
	*ret_libc = libc;
	return 0;
}

static bool table_has_name(const char *names, size_t size, const char *name, size_t length)
{
	return memmem(names, size, name, length) != NULL;
}

static enum flmem_allocator_kind libc_in_names(const char *names, size_t size)
{
	static const char glibc[] = "\0libc.so.6", linker[] = "\0libc.so",
			  alpine[] = "\0libc.musl-";

	if (table_has_name(names, size, glibc, sizeof(glibc)))
		return FLMEM_ALLOCATOR_GLIBC;
	/* musl's loader treats every name "libc.*" as its own (ldso/dynlink.c). */
	if (table_has_name(names, size, linker, sizeof(linker)) ||
	    table_has_name(names, size, alpine, sizeof(alpine) - 1))
		return FLMEM_ALLOCATOR_MUSL;
	return FLMEM_ALLOCATOR_UNKNOWN;
}

/* Reads the table that has the names of the libraries which a file needs; NULL if there is none. */
static char *read_needed_names(const char *path, size_t *ret_size)
{
	FLMEM_AUTO_IMAGE struct flmem_image *image = open_image(path, NULL);
	FLMEM_AUTO_FREE char *names = NULL;
	uint64_t address, size;

	if (!image || !flmem_image_find_section(image, ".dynstr", &address, &size) ||
	    size > NAMES_MAX)
		return NULL;
	names = malloc((size_t)size + 1);
	if (!names || !flmem_image_read_address(image, address, names, (size_t)size))
		return NULL;
	*ret_size = (size_t)size;
	return FLMEM_TAKE(names);
}

enum flmem_allocator_kind flmem_libc_of_library(const char *path)
{
	size_t size = 0;
	FLMEM_AUTO_FREE char *names = read_needed_names(path, &size);

	return names ? libc_in_names(names, size) : FLMEM_ALLOCATOR_UNKNOWN;
}

const char *const flmem_sanitizer_libraries[] = {
	"libasan.so",	    "libtsan.so",	  "libhwasan.so", "libclang_rt.asan",
	"libclang_rt.tsan", "libclang_rt.hwasan", NULL,
};

const char *flmem_libc_sanitizer(const char *path)
{
	size_t size = 0;
	FLMEM_AUTO_FREE char *names = read_needed_names(path, &size);
	char wanted[32];

	for (const char *const *name = flmem_sanitizer_libraries; names && *name; name++) {
		/* A name begins after the end of another one. */
		int length = snprintf(wanted, sizeof(wanted), "%c%s", '\0', *name);

		if (table_has_name(names, size, wanted, (size_t)length))
			return *name;
	}
	return NULL;
}

static bool is_libc_module(const struct flmem_module *module, bool *ret_glibc)
{
	struct flmem_image *image = flmem_module_image(module, NULL);
	char version[FLMEM_LIBC_VERSION_MAX];
	struct flmem_symbol symbol;

	if (!image || !flmem_image_find_dynamic(image, "__libc_start_main", &symbol))
		return false;
	*ret_glibc = flmem_libc_glibc_version(image, version);
	return *ret_glibc || flmem_libc_musl_version(image, version);
}

const struct flmem_module *flmem_libc_module(const struct flmem_modules *modules, bool *ret_glibc)
{
	for (size_t i = 0; i < modules->rank_count; i++)
		if (is_libc_module(modules->by_rank[i], ret_glibc))
			return modules->by_rank[i];
	return NULL;
}
