/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE

/*
 * A thread calls malloc() in a library for the first time, and is stopped where the linker, which
 * has found it, writes it into the entry of the library: that page cannot be written. It continues
 * when another thread has changed the entry, and so changes it back.
 */

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE	  4096U
#define LIBRARIES 64

typedef void *(*function)(size_t);

static function functions[LIBRARIES];
static int count;
static _Atomic int stopped;
static __thread uintptr_t *volatile slot;
static void *volatile sink;

static void *page_of(const volatile void *address)
{
	return (void *)((uintptr_t)address & ~(uintptr_t)(PAGE - 1));
}

/* The linker's write is made again when this handler returns. */
static void wait_for_change(int signal)
{
	uintptr_t before = slot ? *slot : 0;

	(void)signal;
	if (!slot)
		_exit(4);
	stopped++;
	while (__atomic_load_n(slot, __ATOMIC_ACQUIRE) == before)
		sched_yield();
	if (mprotect(page_of(slot), PAGE, PROT_READ | PROT_WRITE))
		_exit(4);
}

/* Returns the library's entry for malloc(). */
static uintptr_t *find_entry(void *library)
{
	const struct link_map *map = NULL;
	const ElfW(Sym) *symbols = NULL;
	const ElfW(Rela) *rows = NULL;
	const char *names = NULL;
	size_t size = 0;

	if (dlinfo(library, RTLD_DI_LINKMAP, &map))
		return NULL;
	for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_SYMTAB)
			symbols = (const void *)d->d_un.d_ptr;
		else if (d->d_tag == DT_STRTAB)
			names = (const void *)d->d_un.d_ptr;
		else if (d->d_tag == DT_JMPREL)
			rows = (const void *)d->d_un.d_ptr;
		else if (d->d_tag == DT_PLTRELSZ)
			size = d->d_un.d_val;
	}
	for (size_t i = 0; names && symbols && rows && i < size / sizeof(*rows); i++)
		if (strcmp(names + symbols[ELF64_R_SYM(rows[i].r_info)].st_name, "malloc") == 0)
			return (uintptr_t *)(map->l_addr + rows[i].r_offset);
	return NULL;
}

static void *call_first(void *context)
{
	void *library = context;
	function call;

	*(void **)&call = dlsym(library, "library_allocate");
	slot = find_entry(library);
	if (!slot || mprotect(page_of(slot), PAGE, PROT_READ))
		_exit(4);
	sink = call(4000);
	return NULL;
}

static void start_thread(const char *path)
{
	void *library = dlopen(path, RTLD_LAZY);
	pthread_t thread;

	if (!library)
		_exit(3);
	*(void **)&functions[count++] = dlsym(library, "library_allocate");
	if (pthread_create(&thread, NULL, call_first, library))
		_exit(3);
	while (stopped < count)
		sched_yield();
}

/* Returns 0 when a thread is stopped where it binds the entry of this library. */
__attribute__((visibility("default"))) int stop_binding(const char *path)
{
	struct sigaction action = {.sa_handler = wait_for_change};

	if (count == LIBRARIES || sigaction(SIGSEGV, &action, NULL))
		return -1;
	start_thread(path);
	return 0;
}

__attribute__((visibility("default"))) void call_all(void)
{
	for (int i = 0; i < count; i++)
		sink = functions[i](4000);
}
