/* SPDX-License-Identifier: Apache-2.0 */
/* Linked to another C library; read, never run. */
#include <stdlib.h>

int main(void)
{
	free(malloc(1));
	return 0;
}
