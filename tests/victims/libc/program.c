/* SPDX-License-Identifier: Apache-2.0 */
/* Linked to another C library; looked at, never run. */
#include <stdlib.h>

int main(void)
{
	free(malloc(1));
	return 0;
}
