/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_TESTS_OWN_CHILD_H
#define FLMEM_TESTS_OWN_CHILD_H

/*
 * Shared by groups of tests that each start a separate child, one at a time, over one shared page.
 */

#include "borrowed.h"

static pid_t child;

static inline void start_child(void (*be_child)(void))
{
	child = child_start(be_child);
	assert_true(child);
}

/* Tears down each test. */
static inline int end_child(void **state)
{
	(void)state;
	if (child)
		child_end(child);
	child = 0;
	return 0;
}

/* Sets up the group: puts the page into the pointer at `ret_page`. */
static inline int share_page(void *ret_page, size_t size)
{
	void *page = child_share(size);

	memcpy(ret_page, &page, sizeof(page));
	return !page;
}

#endif
