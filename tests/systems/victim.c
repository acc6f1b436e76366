/* SPDX-License-Identifier: Apache-2.0 */
/* Retains memory, and checks every byte that it has kept when it is sent a line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROWS  20000
#define BYTES 3000

static unsigned char *rows[ROWS];

static void fill(void)
{
	for (int i = 0; i < ROWS; i++) {
		rows[i] = malloc(BYTES);
		if (!rows[i])
			exit(1);
		memset(rows[i], i & 0xff, BYTES);
	}
	for (int i = 0; i < ROWS; i++)
		if (i % 8)
			free(rows[i]);
}

static int count_wrong(void)
{
	int wrong = 0;

	for (int i = 0; i < ROWS; i += 8)
		for (int k = 0; k < BYTES; k++)
			wrong += rows[i][k] != (i & 0xff);
	return wrong;
}

int main(void)
{
	char line[64];

	fill();
	printf("ready, pages of %ld bytes\n", sysconf(_SC_PAGESIZE));
	fflush(stdout);
	while (read(0, line, sizeof(line)) > 0) {
		printf("well %d\n", count_wrong());
		fflush(stdout);
	}
	return 0;
}
