/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE

/*
 * long_path LIBRARY: a function of the library allocates, whose line in /proc/self/maps is after
 * that of a file whose path is longer than a page. Directories are made in the working directory,
 * and removed before.
 */

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE   4096U
#define NAME   250
#define LEVELS 40

static void *volatile sink;

/* Maps a file at the address if that is not NULL, and removes its name. */
static int map_long(const char *name, void *at)
{
	int fd = open("file", O_RDWR | O_CREAT | O_EXCL, 0600);
	void *map = MAP_FAILED;

	if (fd >= 0 && ftruncate(fd, PAGE) == 0)
		map = mmap(at, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0);
	if (fd < 0 || unlink("file"))
		return -1;
	close(fd);
	for (int i = 0; i < LEVELS; i++)
		if (chdir("..") || rmdir(name))
			return -1;
	return map == MAP_FAILED ? -1 : 0;
}

int main(int argc, char **argv)
{
	char name[NAME + 1];
	void *library = dlopen(argc > 1 ? argv[1] : "", RTLD_NOW), *(*function)(size_t);
	char *place;

	/* Choose a place below the library. */
	place = mmap(NULL, 3 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!library || place == MAP_FAILED)
		return 3;
	memset(name, 'd', NAME);
	name[NAME] = '\0';
	for (int i = 0; i < LEVELS; i++)
		if (mkdir(name, 0700) || chdir(name))
			return 3;
	if (map_long(name, place + PAGE))
		return 3;
	*(void **)&function = dlsym(library, "library_allocate");
	sink = function(4000);
	return place + PAGE < (char *)(void *)function ? 0 : 3;
}
