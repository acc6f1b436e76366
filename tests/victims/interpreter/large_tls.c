/* SPDX-License-Identifier: Apache-2.0 */
/* Data of each thread, for which the C library takes most of the thread's stack. */
#define LENGTH (7 << 20)

__thread char large_tls[LENGTH];

char *large_tls_of_thread(void);
char *large_tls_of_thread(void)
{
	return large_tls;
}
