/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library with data and hardly any .bss, like libz and libm: its last page ends with the file's
 * content after the data.
 */

__attribute__((visibility("default"))) int few_numbers[4] = {1, 2, 3, 4};
__attribute__((visibility("default"))) int few_zeros[2];

__attribute__((visibility("default"))) int few_sum(void);

int few_sum(void)
{
	return few_numbers[0] + few_zeros[1];
}

#ifdef IS_LINKER
/* Names that glibc's dynamic linker exports for debuggers. */
__attribute__((visibility("default"))) int _r_debug;
#endif

#ifdef IS_MUSL
/* Names that musl's dynamic linker exports for debuggers. */
__attribute__((visibility("default"))) int _dl_debug_addr;
#endif
