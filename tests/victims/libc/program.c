/* SPDX-License-Identifier: Apache-2.0 */
/* A program linked to another C library; it is read, never run. */
#include <stdlib.h>

int main(void)
{
	free(malloc(1));
	return 0;
}
