/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arranges that something which others read of it from outside never answers, says "ready" and
 * sleeps. Exits with 77 where the machine has no means for it.
 *
 * usage: silent WAY [DIRECTORY], an empty one
 *        silent around DIRECTORY COMMAND..., which runs beside a file system that answers nothing
 *        silent after READS FILE DIRECTORY COMMAND..., likewise, one that answers so many reads of
 *        DIRECTORY/file, which has the bytes of FILE
 */
#include "silent.h"

#include <dirent.h>
#include <fcntl.h>
#include <link.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE ((size_t)4096)

static const char *directory;

void silent_give_up(const char *what)
{
	perror(what);
	exit(1);
}

/* Returns a page that is missing, and that nobody will ever supply. */
static void *missing_page(void)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register range = {.mode = UFFDIO_REGISTER_MODE_MISSING};
	const int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api)) {
		printf("skip: no userfaultfd for faults of the kernel\n");
		exit(77);
	}
	range.range = (struct uffdio_range){(uintptr_t)page, PAGE};
	if (page == MAP_FAILED || ioctl(fd, UFFDIO_REGISTER, &range))
		silent_give_up("UFFDIO_REGISTER");
	return page;
}

/* Returns a page of a file whose server does not answer. */
static void *silent_page(bool async, int protection)
{
	const struct silent_fuse how = {.async = async};
	char path[4096];
	void *page;
	int fd;

	silent_fuse_mount(directory, &how);
	snprintf(path, sizeof(path), "%s/file", directory);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	page = mmap(NULL, PAGE, protection, MAP_PRIVATE, fd, 0);
	if (fd < 0 || page == MAP_FAILED)
		silent_give_up(path);
	return page;
}

/* Leads the list to the page; neither the loader nor this program follows the list any more. */
static void lead_list_to(void *page)
{
	struct link_map *last = _r_debug.r_map;

	while (last->l_next)
		last = last->l_next;
	last->l_next = page;
}

static void list_missing(void)
{
	lead_list_to(missing_page());
}

static void list_fuse(void)
{
	lead_list_to(silent_page(false, PROT_READ | PROT_WRITE));
}

static void list_fuse_async(void)
{
	lead_list_to(silent_page(true, PROT_READ | PROT_WRITE));
}

/* Adds a library to the list, whose file can neither be opened nor read. */
static void module(void)
{
	static struct link_map library;

	/* Place it before the C library, which has all symbols that are looked up. */
	library.l_ld = silent_page(false, PROT_READ | PROT_EXEC);
	library.l_next = _r_debug.r_map->l_next;
	_r_debug.r_map->l_next = &library;
	silent_fuse_hush();
}

static void *execute(void *unused)
{
	char path[4096];
	char *argv[] = {path, NULL};

	snprintf(path, sizeof(path), "%s/file", directory);
	execv(path, argv);
	silent_give_up(path);
	return unused;
}

/* The calls of the first thread are not of interest. */
static bool is_executing(void)
{
	char path[64], text[8] = "";
	DIR *tasks = opendir("/proc/self/task");
	FILE *file;

	for (const struct dirent *task; tasks && (task = readdir(tasks));) {
		snprintf(path, sizeof(path), "/proc/self/task/%.20s/syscall", task->d_name);
		file = strtol(task->d_name, NULL, 10) > getpid() ? fopen(path, "re") : NULL;
		if (file && !fgets(text, sizeof(text), file))
			text[0] = '\0';
		if (file)
			fclose(file);
	}
	if (tasks)
		closedir(tasks);
	return strtol(text, NULL, 10) == SYS_execve;
}

/* A second thread executes a program that cannot be read, which no other thread notices. */
static void exec_fuse(void)
{
	const struct silent_fuse how = {0};
	pthread_t thread;

	silent_fuse_mount(directory, &how);
	if (pthread_create(&thread, NULL, execute, NULL))
		silent_give_up("pthread_create");
	while (!is_executing())
		usleep(1000);
}

/* Dumps core to a place that does not answer; the dump is interrupted. */
static void dump_fuse(void)
{
	const struct silent_fuse how = {.gives_up = true};
	const struct rlimit any = {RLIM_INFINITY, RLIM_INFINITY};

	silent_fuse_mount(directory, &how);
	if (chdir(directory) || setrlimit(RLIMIT_CORE, &any))
		silent_give_up("a core to be dumped");
	silent_fuse_hush();
}

static int run_around(char **argv)
{
	const struct silent_fuse how = {0};

	silent_fuse_mount(argv[0], &how);
	silent_fuse_hush();
	execvp(argv[1], argv + 1);
	silent_give_up(argv[1]);
}

static int run_until_silent(char **argv)
{
	const struct silent_fuse how = {
		.reads = (unsigned)strtoul(argv[0], NULL, 10),
		.content = open(argv[1], O_RDONLY | O_CLOEXEC),
	};

	if (how.content < 0)
		silent_give_up(argv[1]);
	silent_fuse_mount(argv[2], &how);
	execvp(argv[3], argv + 3);
	silent_give_up(argv[3]);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*arrange)(void);
	} ways[] = {
		{"list-missing", list_missing},
		{"list-fuse", list_fuse},
		{"list-fuse-async", list_fuse_async},
		{"module", module},
		{"exec", exec_fuse},
		{"dump", dump_fuse},
	};

	if (argc > 3 && strcmp(argv[1], "around") == 0)
		return run_around(argv + 2);
	if (argc > 5 && strcmp(argv[1], "after") == 0)
		return run_until_silent(argv + 2);
	directory = argc > 2 ? argv[2] : "/nonexistent";
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		if (argc < 2 || strcmp(argv[1], ways[i].name) != 0)
			continue;
		ways[i].arrange();
		printf("ready\n");
		fflush(stdout);
		for (;;)
			pause();
	}
	fprintf(stderr, "usage: silent WAY [DIRECTORY]\n");
	return 2;
}
