/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data and hardly any .bss, as libz and libm: their last page ends with what follows in the file.
 */

__attribute__((visibility("default"))) int few_numbers[4] = {1, 2, 3, 4};
__attribute__((visibility("default"))) int few_zeros[2];

__attribute__((visibility("default"))) int few_sum(void);

int few_sum(void)
{
	return few_numbers[0] + few_zeros[1];
}

#ifdef IS_LINKER
/* What glibc's dynamic linker exports for debuggers. */
__attribute__((visibility("default"))) int _r_debug;
#endif

#ifdef IS_MUSL
/* The same of musl's. */
__attribute__((visibility("default"))) int _dl_debug_addr;
#endif
