/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that handles the page faults of its own heap (userfaultfd): its second thread waits for
 * them and for notices that pages were dropped. The kernel lets the thread that drops pages wait
 * until the notice has been read, so a borrowed handler would wait for itself, with the heap
 * locked.
 *	safe_userfault
 */
#include "safe_common.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE ((size_t)4096)
/* Below the size from which malloc() maps each block separately. */
#define PART	 ((size_t)100 << 10)
#define PARTS	 64
#define NOT_HERE 77

static int faults = -1;

static void open_faults(void)
{
	struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_EVENT_REMOVE};

	faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	if (faults < 0 || ioctl(faults, UFFDIO_API, &api) != 0)
		exit(NOT_HERE);
}

static void supply_zeros(uint64_t address)
{
	struct uffdio_zeropage page = {.range = {address & ~(PAGE - 1), PAGE}};

	if (ioctl(faults, UFFDIO_ZEROPAGE, &page) != 0 && errno != EEXIST)
		victim_fail("no page at %llx: %s", (unsigned long long)address, strerror(errno));
}

static void *handle_faults(void *unused)
{
	struct uffd_msg message;

	thread_started();
	for (;;) {
		if (read(faults, &message, sizeof(message)) != (ssize_t)sizeof(message))
			continue;
		if (message.event == UFFD_EVENT_PAGEFAULT)
			supply_zeros(message.arg.pagefault.address);
		victim_round();
	}
	return unused;
}

/* Watches all pages inside a block, which is then freed: the next user of it faults. */
static void watch_pages(char *block)
{
	const uintptr_t from = ((uintptr_t)block + PAGE) & ~(PAGE - 1);
	struct uffdio_register range = {
		.range = {from, ((uintptr_t)block + PART - PAGE - from) & ~(PAGE - 1)},
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};

	if (ioctl(faults, UFFDIO_REGISTER, &range) != 0)
		victim_die("UFFDIO_REGISTER");
}

int main(void)
{
	char *parts[PARTS], byte;
	int ends[2];

	victim_open();
	open_faults();
	if (pipe(ends) != 0)
		victim_die("pipe");
	threads_start(1, handle_faults, NULL);
	for (size_t i = 0; i < PARTS; i++) {
		parts[i] = malloc(PART);
		if (!parts[i])
			victim_die("malloc");
		memset(parts[i], 1, PART);
	}
	for (size_t i = 0; i < PARTS; i += 2) {
		watch_pages(parts[i]);
		free(parts[i]);
	}
	victim_ready();
	while (read(ends[0], &byte, 1) < 0 && errno == EINTR)
		;
	return 1;
}
