/* SPDX-License-Identifier: Apache-2.0 */
/* Tests whether flmem finds from outside the hooks that a program gave its allocator. */
#include "borrowed.h"

#include <string.h>

#include "allocators/allocator_registry.h"
#include "ops/target/target_hooks.h"

#define HOOKED	VICTIMS "/allocators/hooked"
#define LIBRARY "/usr/lib/x86_64-linux-gnu/"

struct row {
	const char *preload, *where;
	enum flmem_allocator_kind kind;
	const char *version; /* version that it is taken for; NULL: its own */
	const char *reason;  /* part of the reason; NULL: not refused */
};

#define OLD "2.33"
#define NEW "2.34"

static const struct row rows[] = {
	{NULL, "__after_morecore_hook", FLMEM_ALLOCATOR_GLIBC, OLD, "__after_morecore_hook"},
	{NULL, "__morecore", FLMEM_ALLOCATOR_GLIBC, OLD, "__morecore"},
	{NULL, "__morecore", FLMEM_ALLOCATOR_GLIBC, NEW, NULL},
	{NULL, "none", FLMEM_ALLOCATOR_GLIBC, OLD, NULL},
	{NULL, "__free_hook", FLMEM_ALLOCATOR_GLIBC, OLD, NULL}, /* malloc_trim() never calls it */
	{LIBRARY "libmimalloc.so.2", "0", FLMEM_ALLOCATOR_MIMALLOC, NULL, "deferred_free"},
	{LIBRARY "libmimalloc.so.2", "none", FLMEM_ALLOCATOR_MIMALLOC, NULL, NULL},
	{LIBRARY "libtcmalloc_minimal.so.4", "0", FLMEM_ALLOCATOR_TCMALLOC, NULL, "SysAllocator"},
	{LIBRARY "libtcmalloc_minimal.so.4", "extension", FLMEM_ALLOCATOR_TCMALLOC, NULL,
	 "MallocExtension::Register"},
	{LIBRARY "libtcmalloc_minimal.so.4", "none", FLMEM_ALLOCATOR_TCMALLOC, NULL, NULL},
};

static const struct row *current;
static int said[2];

static void be_hooked(void)
{
	static int input[2];

	if (current->preload)
		setenv("LD_PRELOAD", current->preload, 1);
	if (pipe(input) || dup2(input[0], STDIN_FILENO) < 0 || dup2(said[1], STDOUT_FILENO) < 0)
		_exit(1);
	execl(HOOKED, HOOKED, current->where, (char *)NULL);
}

static bool is_unreadable;

int __real_flmem_process_read_memory(const struct flmem_process *process, uint64_t address,
				     void *out, size_t length);
int __wrap_flmem_process_read_memory(const struct flmem_process *process, uint64_t address,
				     void *out, size_t length);
int __wrap_flmem_process_read_memory(const struct flmem_process *process, uint64_t address,
				     void *out, size_t length)
{
	return is_unreadable ? -EFAULT
			     : __real_flmem_process_read_memory(process, address, out, length);
}

static void expect_unread(int rc, int expected, const struct flmem_error *err)
{
	if (rc != expected || !strstr(err->message, "cannot be read"))
		fail_msg("%d: %s", rc, err->message);
}

/* Checks the refusals if the place of a hook, or the code of the C library, cannot be read. */
static void check_unreadable(const struct target *target, const struct flmem_allocator_list *list,
			     const struct flmem_allocator *found)
{
	struct flmem_error err = {0};
	uint64_t stopped_us = 0;
	int rc;

	is_unreadable = true;
	rc = found->ops->check_hooks(&target->view, found, &err);
	expect_unread(rc, FLMEM_EUNSAFE, &err);
	flmem_error_clear(&err);
	rc = flmem_target_hooks_check(&target->view, list, found, NULL, &stopped_us, &err);
	expect_unread(rc, FLMEM_EUNSUPPORTED, &err);
	is_unreadable = false;
}

static void check(pid_t child)
{
	struct flmem_allocator_list list = {0};
	struct flmem_error err = {0};
	struct target target;
	uint64_t stopped_us = 0;
	size_t seen = 0;

	target_open(child, &target);
	flmem_allocators_find(&target.view, &list);
	for (size_t i = 0; i < list.count; i++) {
		struct flmem_allocator *found = &list.rows[i];

		if (found->ops->kind != current->kind)
			continue;
		seen++;
		if (current->version)
			snprintf(found->version, sizeof(found->version), "%s", current->version);
		assert_int_equal(flmem_target_hooks_check(&target.view, &list, found, NULL,
							  &stopped_us, &err),
				 current->reason ? FLMEM_EUNSUPPORTED : 0);
		if (current->reason && !strstr(err.message, current->reason))
			fail_msg("%s", err.message);
		if (current->reason)
			check_unreadable(&target, &list, found);
	}
	assert_int_equal(seen, 1);
	target_close(&target);
}

static void hooks_are_read_from_outside(void **state)
{
	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		pid_t child;
		char byte;

		current = &rows[i];
		if (current->preload && access(current->preload, R_OK)) {
			print_message("SKIP: needs %s\n", current->preload);
			continue;
		}
		assert_int_equal(pipe(said), 0);
		child = child_start(be_hooked);
		close(said[1]);
		assert_int_equal(read(said[0], &byte, 1), 1);
		check(child);
		child_end(child);
		close(said[0]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hooks_are_read_from_outside),
	};

	return cmocka_run_group_tests_name("hooks", tests, NULL, NULL);
}
