/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a library, removes its file, spoils in its own memory what others read of it, says "ready"
 * and sleeps. Neither the library nor the loader is used any more then.
 *
 * usage: hostile WAY LIBRARY, which is a copy
 */
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE	 ((uintptr_t)4096)
#define FAKES	 100000U
#define MAPPINGS 30000U

static const char *path;
static struct link_map *library;

static void give_up(const char *what)
{
	perror(what);
	exit(1);
}

/* Overwrites memory that may be read-only. */
static void spoil(uintptr_t at, size_t length, int byte)
{
	const uintptr_t start = at & ~(PAGE - 1);

	if (mprotect((void *)start, at + length - start, PROT_READ | PROT_WRITE))
		give_up("mprotect");
	memset((void *)at, byte, length);
}

static ElfW(Dyn) * entry_of(ElfW(Sxword) tag)
{
	for (ElfW(Dyn) *entry = library->l_ld; entry->d_tag != DT_NULL; entry++)
		if (entry->d_tag == tag)
			return entry;
	fprintf(stderr, "%s has no such entry\n", path);
	exit(1);
}

/* Some C libraries relocate the addresses in place. */
static uintptr_t table_of(ElfW(Sxword) tag)
{
	const uintptr_t value = entry_of(tag)->d_un.d_ptr;

	return value < library->l_addr ? value + library->l_addr : value;
}

static void header(void)
{
	spoil(library->l_addr, sizeof(ElfW(Ehdr)), 0);
}

/* The header is intact, and leads to segments without end. */
static void segments(void)
{
	const ElfW(Ehdr) *head = (const ElfW(Ehdr) *)library->l_addr;

	spoil(library->l_addr + head->e_phoff, head->e_phnum * sizeof(ElfW(Phdr)), 0xff);
}

static void dynamic(void)
{
	for (ElfW(Dyn) *entry = library->l_ld; entry->d_tag != DT_NULL; entry++) {
		spoil((uintptr_t)&entry->d_un, sizeof(entry->d_un), 0x41);
		entry->d_un.d_val &= INT64_MAX;
	}
}

/* Hash tables of 16 million entries in which each chain leads to itself. */
static void hash(void)
{
	const uintptr_t table = table_of(DT_GNU_HASH);

	spoil(table, 2 * PAGE, 0);
	((uint32_t *)table)[0] = 1U << 24;
	((uint32_t *)table)[1] = 1;
	((uint32_t *)table)[2] = 1U << 24;
	for (size_t i = 4; i < PAGE / sizeof(uint32_t); i++)
		((uint32_t *)table)[i] = 2;
}

static void symbols(void)
{
	spoil(table_of(DT_SYMTAB), PAGE, 0xff);
	spoil(table_of(DT_STRTAB), PAGE, 'x');
}

/* The loader's list of objects. */
static void list_turns_back(void)
{
	library->l_next = library->l_prev;
}

static void list_bites_its_tail(void)
{
	library->l_next = library;
}

static void list_leads_nowhere(void)
{
	library->l_next = (struct link_map *)(uintptr_t)0x8000000000000010;
}

static void list_is_endless(void)
{
	struct link_map *fakes = mmap(NULL, FAKES * sizeof(*fakes), PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (fakes == MAP_FAILED)
		give_up("mmap");
	for (size_t i = 0; i < FAKES; i++) {
		fakes[i].l_ld = (ElfW(Dyn) *)&fakes[i];
		fakes[i].l_next = &fakes[(i + 1) % FAKES];
	}
	library->l_next = fakes;
}

static void list_begins_nowhere(void)
{
	_r_debug.r_map = (struct link_map *)(uintptr_t)1;
}

/*
 * Adds mappings as if the loader had mapped the library again and again, as many as the system
 * allows.
 */
static void mappings(void)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC);

	for (size_t i = 0; i < MAPPINGS; i++)
		if (mmap(NULL, 1, i % 2 ? PROT_READ : PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) ==
		    MAP_FAILED)
			break;
	close(fd);
}

static const struct {
	const char *name;
	void (*spoil)(void);
} ways[] = {
	{"header", header},
	{"segments", segments},
	{"dynamic", dynamic},
	{"hash", hash},
	{"symbols", symbols},
	{"list-turns-back", list_turns_back},
	{"list-bites-its-tail", list_bites_its_tail},
	{"list-leads-nowhere", list_leads_nowhere},
	{"list-is-endless", list_is_endless},
	{"list-begins-nowhere", list_begins_nowhere},
	{"mappings", mappings},
};

int main(int argc, char **argv)
{
	void *handle;

	if (argc != 3)
		return 2;
	path = argv[2];
	handle = dlopen(path, RTLD_NOW);
	if (!handle || dlinfo(handle, RTLD_DI_LINKMAP, &library)) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		if (strcmp(ways[i].name, argv[1]) != 0)
			continue;
		ways[i].spoil();
		if (unlink(path))
			give_up(path);
		/* Uses system calls alone, which need no library. */
		if (write(STDOUT_FILENO, "ready\n", 6) != 6)
			return 1;
		for (;;)
			pause();
	}
	return 2;
}
