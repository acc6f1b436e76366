/* SPDX-License-Identifier: Apache-2.0 */
/*
 * safe_keys: its threads wait with a protection key closed, each with a page under its key: a call
 * made on such a thread must leave its rights as they are. Status 77 where there are no keys.
 */
#include "safe_common.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define THREADS	   3
#define PAGE_BYTES 4096
#define WAIT_NS	   40000000L
#define NO_ACCESS  1 /* PKEY_DISABLE_ACCESS */
#define PATTERN	   0x5a

static _Noreturn void wait_behind_key(unsigned char *page, int key)
{
	for (;;) {
		struct timespec nap = {.tv_nsec = WAIT_NS};

		pkey_set(key, NO_ACCESS);
		if (nanosleep(&nap, NULL) != 0)
			victim_fail("nanosleep failed with errno %d", errno);
		if (pkey_get(key) != NO_ACCESS)
			victim_fail("a key that was closed is open");
		pkey_set(key, 0);
		if (page[0] != PATTERN)
			victim_fail("a page behind a key was changed");
		victim_round();
	}
}

static unsigned char *make_page(int key)
{
	unsigned char *page =
		mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		victim_die("mmap");
	memset(page, PATTERN, PAGE_BYTES);
	if (pkey_mprotect(page, PAGE_BYTES, PROT_READ | PROT_WRITE, key) != 0)
		victim_die("pkey_mprotect");
	return page;
}

static void *work(void *unused)
{
	int key = pkey_alloc(0, 0);

	(void)unused;
	if (key < 0)
		victim_die("pkey_alloc");

	unsigned char *page = make_page(key);

	thread_started();
	wait_behind_key(page, key);
}

int main(void)
{
	int key = pkey_alloc(0, 0);

	if (key < 0) {
		printf("SKIP: no protection keys here: %s\n", strerror(errno));
		return 77;
	}
	victim_open();
	heap_spread();
	threads_start(THREADS, work, NULL);

	unsigned char *page = make_page(key);

	victim_ready();
	wait_behind_key(page, key);
}
