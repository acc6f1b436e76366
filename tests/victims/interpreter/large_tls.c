/* SPDX-License-Identifier: Apache-2.0 */
/* Thread-local data for which the C library takes most of a thread's stack. */
#define LENGTH (7 << 20)

__thread char large_tls[LENGTH];

char *large_tls_of_thread(void);
char *large_tls_of_thread(void)
{
	return large_tls;
}
