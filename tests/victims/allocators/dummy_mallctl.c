/* SPDX-License-Identifier: Apache-2.0 */
/* Exports jemalloc's names without being it, as snmalloc's shim does. */
#include <errno.h>
#include <stddef.h>

int mallctl(const char *name, void *old, size_t *old_length, void *new, size_t new_length);
int mallctlbymib(const size_t *mib, size_t length, void *old, size_t *old_length, void *new,
		 size_t new_length);
void malloc_stats_print(void (*print)(void *, const char *), void *data, const char *options);

int mallctl(const char *name, void *old, size_t *old_length, void *new, size_t new_length)
{
	(void)name, (void)old, (void)old_length, (void)new, (void)new_length;
	return ENOENT;
}

int mallctlbymib(const size_t *mib, size_t length, void *old, size_t *old_length, void *new,
		 size_t new_length)
{
	(void)mib, (void)length, (void)old, (void)old_length, (void)new, (void)new_length;
	return ENOENT;
}

void malloc_stats_print(void (*print)(void *, const char *), void *data, const char *options)
{
	(void)print, (void)data, (void)options;
}
