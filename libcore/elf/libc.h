/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ELF_LIBC_H
#define FLMEM_ELF_LIBC_H

/*
 * Determines the C library with which a program on disk would be started: its dynamic linker
 * (PT_INTERP) gives the kind, and the library in the linker's directory the version.
 */

#include <stdbool.h>
#include <stddef.h>

#include <flmem/error.h>
#include <flmem/roles.h>

#include "elf/image.h"

struct flmem_module;
struct flmem_modules;

#define FLMEM_LIBC_PATH_MAX    512
#define FLMEM_LIBC_VERSION_MAX 32

/*
 * Offset of `tid` in glibc's struct pthread (nptl/descr.h), the same in all versions: it follows a
 * list and the block of the thread pointer (704 bytes on x86-64), or 24 words where that block is
 * elsewhere.
 */
#ifdef __aarch64__
#define FLMEM_LIBC_GLIBC_TID 208U
#else
#define FLMEM_LIBC_GLIBC_TID 720U
#endif

struct flmem_libc {
	enum flmem_allocator_kind kind;	      /* glibc or musl */
	char linker[FLMEM_LIBC_PATH_MAX];     /* the dynamic linker, as the program names it */
	char library[FLMEM_LIBC_PATH_MAX];    /* the file that has malloc; "" when not found */
	char version[FLMEM_LIBC_VERSION_MAX]; /* "2.36"; "" when unknown */
	bool has_malloc_trim;		      /* the library exports it */
	bool reads_arena_max; /* the library or its linker reads the variable MALLOC_ARENA_MAX */
};

/*
 * Examines a program. FLMEM_EUNSUPPORTED when the file cannot be read, is not a 64-bit ELF program,
 * is statically linked, or linked to another C library.
 */
int flmem_libc_of_program(const char *path, struct flmem_libc *ret_libc, struct flmem_error *err);

/*
 * Returns the C library that a shared library needs: FLMEM_ALLOCATOR_GLIBC, FLMEM_ALLOCATOR_MUSL,
 * or FLMEM_ALLOCATOR_UNKNOWN when it needs none, or when that could not be read.
 */
enum flmem_allocator_kind flmem_libc_of_library(const char *path);

/*
 * The libraries of sanitizers that replace malloc() and cannot have another one before them, by the
 * beginnings of their names, and which of them a program needs: NULL for none.
 */
extern const char *const flmem_sanitizer_libraries[];
const char *flmem_libc_sanitizer(const char *path);

/*
 * Finds the version in the file of a C library; false when the file is not one. glibc prints a
 * banner when it is run ("GNU C Library ... release version 2.36"), musl's linker a usage text
 * ("Version 1.2.3").
 */
bool flmem_libc_glibc_version(struct flmem_image *image, char out[FLMEM_LIBC_VERSION_MAX]);
bool flmem_libc_musl_version(struct flmem_image *image, char out[FLMEM_LIBC_VERSION_MAX]);

/*
 * Finds the file of a process's C library by its contents, since the first module with the name of
 * one of its functions may be a preloaded one. NULL if there is none.
 */
const struct flmem_module *flmem_libc_module(const struct flmem_modules *modules, bool *ret_glibc);

#endif
