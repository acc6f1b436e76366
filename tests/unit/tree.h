/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_TESTS_TREE_H
#define FLMEM_TESTS_TREE_H

/* Small directory trees in a temporary directory, for readers that take a root descriptor. */

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct tree {
	char path[64];
	int fd;
};

static inline void tree_init(struct tree *tree)
{
	snprintf(tree->path, sizeof(tree->path), "/tmp/flmem-test-XXXXXX");
	assert_non_null(mkdtemp(tree->path));
	tree->fd = open(tree->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(tree->fd >= 0);
}

static inline int tree_remove_one(const char *path, const struct stat *status, int kind,
				  struct FTW *where)
{
	(void)status;
	(void)kind;
	(void)where;
	return remove(path);
}

static inline void tree_clear(struct tree *tree)
{
	close(tree->fd);
	nftw(tree->path, tree_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Makes a tree as the state of cmocka's tests before each of them; tree_teardown() removes it. */
static inline int tree_setup(void **state)
{
	struct tree *tree = calloc(1, sizeof(*tree));

	if (!tree)
		return -1;
	tree_init(tree);
	*state = tree;
	return 0;
}

static inline int tree_teardown(void **state)
{
	tree_clear(*state);
	free(*state);
	return 0;
}

/* Writes a file and makes the directories of its path; `length` allows bytes to contain NULs. */
static inline void tree_write(const struct tree *tree, const char *path, const char *bytes,
			      size_t length)
{
	char step[512];
	int fd;

	snprintf(step, sizeof(step), "%s", path);
	for (char *p = step; (p = strchr(p, '/')); *p++ = '/') {
		*p = '\0';
		mkdirat(tree->fd, step, 0755);
	}
	fd = openat(tree->fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, length), (ssize_t)length);
	close(fd);
}

static inline void tree_puts(const struct tree *tree, const char *path, const char *text)
{
	tree_write(tree, path, text, strlen(text));
}

/* Writes proc/PID/stat of a sleeping process, enough for flmem_process_open_at(). */
static inline void tree_process(const struct tree *tree, int pid, int parent)
{
	char path[64], text[256];

	snprintf(path, sizeof(path), "proc/%d/stat", pid);
	snprintf(text, sizeof(text),
		 "%d (some (odd) name) S %d 1 1 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 %d 0 0\n",
		 pid, parent, 1000 + pid);
	tree_puts(tree, path, text);
}

#endif
