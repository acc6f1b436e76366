/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_TESTS_COUNTING_PEEK_H
#define FLMEM_TESTS_COUNTING_PEEK_H

/* Reads a live process and counts calls and bytes: a walk promises to read little. */

#include <errno.h>
#include <sys/uio.h>

#include "proc/pages.h"
#include "proc/peek.h"
#include "proc/process.h"

struct counting_peek {
	struct flmem_peek *peek;
	struct flmem_pages pages;
	pid_t pid;
	uint64_t bytes_read, calls;
	bool fails;	 /* each read does */
	uint64_t widest; /* bytes of the longest range that was queried */
	uint64_t wide;	 /* queries of so many */
};

static int counting_each(void *context, uint64_t start, uint64_t end, flmem_pages_visit *visit,
			 void *visit_context)
{
	struct counting_peek *counting = context;

	assert_true(start < end);
	if (end - start > counting->widest)
		counting->wide = 0;
	counting->wide += end - start >= counting->widest;
	counting->widest = end - start > counting->widest ? end - start : counting->widest;
	return flmem_pages_each(&counting->pages, start, end, visit, visit_context);
}

static int counting_read(void *context, const struct iovec *local, const struct iovec *remote,
			 size_t count)
{
	struct counting_peek *counting = context;
	size_t wanted = 0;
	ssize_t got = process_vm_readv(counting->pid, local, count, remote, count, 0);

	counting->calls++;
	if (counting->fails)
		return -EFAULT;
	for (size_t i = 0; i < count; i++)
		wanted += remote[i].iov_len;
	if (got < 0)
		return -errno;
	counting->bytes_read += (size_t)got;
	return (size_t)got == wanted ? 0 : -EFAULT;
}

/* The peek must not move until counting_peek_close(). */
static inline void counting_peek_open(const struct flmem_process *process,
				      struct counting_peek *counting)
{
	const struct flmem_peek_source source = {
		.page_bytes = flmem_page_bytes(),
		.each = counting_each,
		.read = counting_read,
		.context = counting,
	};

	*counting = (struct counting_peek){.pages = FLMEM_PAGES_INIT, .pid = process->pid};
	assert_int_equal(flmem_pages_open(process, &counting->pages, NULL), 0);
	counting->peek = flmem_peek_new(&source);
	assert_non_null(counting->peek);
}

static inline void counting_peek_close(struct counting_peek *counting)
{
	flmem_peek_free(counting->peek);
	flmem_pages_close(&counting->pages);
}

#endif
