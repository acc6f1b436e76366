/* SPDX-License-Identifier: Apache-2.0 */
/* A malloc_trim() that takes until the Python program that has loaded it has gone on. */
#include <stdint.h>
#include <unistd.h>

#define PAUSE_US 10000

volatile uint64_t rounds; /* of the program */

int malloc_trim(size_t pad);
int malloc_trim(size_t pad)
{
	uint64_t before = rounds;

	while (rounds < before + 2)
		usleep(PAUSE_US);
	return pad != 0;
}
