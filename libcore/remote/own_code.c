/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/own_code.h"

#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/ptrace.h>

#include "base/cleanup.h"

#define PAGE	  4096U /* the smallest page size */
#define PARTS_MAX 32U

/* Parts of the objects that are loaded; these objects stay loaded as long as flmem. */
struct own_parts {
	struct {
		const volatile unsigned char *start;
		size_t length;
	} rows[PARTS_MAX];
	size_t count;
};

static struct own_parts own_parts;
static pthread_once_t own_parts_listed = PTHREAD_ONCE_INIT;

static bool has_own_address(const struct dl_phdr_info *object, uintptr_t address)
{
	for (size_t i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &object->dlpi_phdr[i];

		if (part->p_type == PT_LOAD &&
		    address - (object->dlpi_addr + part->p_vaddr) < part->p_memsz)
			return true;
	}
	return false;
}

static bool runs_while_held(const struct dl_phdr_info *object)
{
	const uintptr_t needed[] = {
		(uintptr_t)flmem_own_code_fault_in,
		(uintptr_t)ptrace,
		(uintptr_t)malloc,
		(uintptr_t)getauxval(AT_BASE),
	};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(needed); i++)
		if (has_own_address(object, needed[i]))
			return true;
	return false;
}

static int list_object(struct dl_phdr_info *object, size_t size, void *unused)
{
	(void)size, (void)unused;
	if (!runs_while_held(object))
		return 0;
	for (size_t i = 0; i < object->dlpi_phnum && own_parts.count < PARTS_MAX; i++) {
		const ElfW(Phdr) *part = &object->dlpi_phdr[i];

		if (part->p_type != PT_LOAD || !(part->p_flags & PF_R))
			continue;
		own_parts.rows[own_parts.count].start =
			(const unsigned char *)(object->dlpi_addr + part->p_vaddr);
		own_parts.rows[own_parts.count++].length = part->p_filesz;
	}
	return 0;
}

static void list_own_parts(void)
{
	dl_iterate_phdr(list_object, NULL);
}

/* A sanitizer has parts between variables that must not be read. */
__attribute__((no_sanitize("address"))) void flmem_own_code_fault_in(void)
{
	pthread_once(&own_parts_listed, list_own_parts);
	for (size_t i = 0; i < own_parts.count; i++) {
		const size_t length = own_parts.rows[i].length;

		for (size_t at = 0; at < length; at += PAGE)
			(void)own_parts.rows[i].start[at];
		if (length)
			(void)own_parts.rows[i].start[length - 1];
	}
}
