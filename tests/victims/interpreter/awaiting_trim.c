/* SPDX-License-Identifier: Apache-2.0 */
/* A malloc_trim() that lasts until the Python program that has loaded it has made progress. */
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
