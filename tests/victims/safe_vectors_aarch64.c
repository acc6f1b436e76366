/* SPDX-License-Identifier: Apache-2.0 */
/*
 * safe_vectors_aarch64 MODE [check]: state of the processor that a frame of a borrowed thread does
 * not hold.
 *	sve		the only thread computes with vectors of SVE and never waits
 *	sve-beside	a thread does, the main thread waits
 *	za		the main thread waits with data in the matrix register of SME
 *	mte		the main thread waits, and its memory tags are checked
 * Status 77: the processor or the kernel lacks it; with `check` nothing else is found out.
 */
#include "safe_common.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define HAS_SVE	     (1UL << 22) /* AT_HWCAP */
#define HAS_MTE	     (1UL << 18) /* AT_HWCAP2 */
#define HAS_SME	     (1UL << 23)
#define SET_TAGS     55 /* PR_SET_TAGGED_ADDR_CTRL */
#define TAGS_CHECKED 3	/* PR_TAGGED_ADDR_ENABLE, PR_MTE_TCF_SYNC */
#define VECTOR_MAX   256
#define VECTORS	     32
#define SPINS	     3000000UL
#define WAIT_NS	     40000000L

#define ALL_VECTORS(what)                                                                        \
	what(0) what(1) what(2) what(3) what(4) what(5) what(6) what(7) what(8) what(9) what(10) \
		what(11) what(12) what(13) what(14) what(15) what(16) what(17) what(18) what(19) \
			what(20) what(21) what(22) what(23) what(24) what(25) what(26) what(27)  \
				what(28) what(29) what(30) what(31)
#define LOAD(i)	   "ldr z" #i ", [%0, #" #i ", mul vl]\n"
#define STORE(i)   "str z" #i ", [%1, #" #i ", mul vl]\n"
#define CLOBBER(i) , "v" #i

static size_t vector_bytes(void)
{
	size_t bytes;

	__asm__(".arch_extension sve\nrdvl %0, #1" : "=r"(bytes));
	return bytes;
}

/* Fills the vectors, computes for a while without a call, and returns what they hold then. */
static void spin_with_vectors(const unsigned char *from, unsigned char *to)
{
	unsigned long left = SPINS;

	__asm__ volatile(".arch_extension sve\n" ALL_VECTORS(LOAD) "1: subs %2, %2, #1\n"
								   "b.ne 1b\n" ALL_VECTORS(STORE)
			 : "+r"(from), "+r"(to), "+r"(left)
			 :
			 : "memory", "cc" ALL_VECTORS(CLOBBER));
}

static _Noreturn void compute_with_vectors(void)
{
	static unsigned char from[VECTORS * VECTOR_MAX], to[VECTORS * VECTOR_MAX];
	size_t length = VECTORS * vector_bytes();
	uint32_t seed = 7;

	for (;;) {
		for (size_t i = 0; i < length; i++)
			from[i] = (unsigned char)random_next(&seed);
		spin_with_vectors(from, to);
		if (memcmp(from, to, length) != 0)
			victim_fail("a vector register was changed");
		victim_round();
	}
}

static void *compute(void *unused)
{
	(void)unused;
	thread_started();
	compute_with_vectors();
}

static void start_matrix(void)
{
	__asm__ volatile(".arch_extension sme\nsmstart za" : : : "memory");
}

static size_t matrix_row_bytes(void)
{
	size_t bytes;

	__asm__(".arch_extension sme\nrdsvl %0, #1" : "=r"(bytes));
	return bytes;
}

static void load_matrix_row(unsigned row, const unsigned char *from)
{
	__asm__ volatile(".arch_extension sme\nmov w12, %w0\nldr za[w12, 0], [%1]"
			 :
			 : "r"(row), "r"(from)
			 : "w12", "memory");
}

static void store_matrix_row(unsigned row, unsigned char *to)
{
	__asm__ volatile(".arch_extension sme\nmov w12, %w0\nstr za[w12, 0], [%1]"
			 :
			 : "r"(row), "r"(to)
			 : "w12", "memory");
}

static void nap(void)
{
	struct timespec time = {.tv_nsec = WAIT_NS};

	if (nanosleep(&time, NULL) != 0)
		victim_fail("nanosleep failed with errno %d", errno);
}

static void wait_with_matrix(void)
{
	unsigned char from[VECTOR_MAX], to[VECTOR_MAX];
	unsigned bytes = (unsigned)matrix_row_bytes();

	for (unsigned row = 0; row < bytes; row++) {
		memset(from, (int)row + 1, bytes);
		load_matrix_row(row, from);
	}
	nap();
	for (unsigned row = 0; row < bytes; row++) {
		memset(from, (int)row + 1, bytes);
		store_matrix_row(row, to);
		if (memcmp(from, to, bytes) != 0)
			victim_fail("row %u of the matrix register was changed", row);
	}
}

/* Starts the check of memory tags, if this processor and kernel have it. */
static bool has_it(const char *mode)
{
	if (strcmp(mode, "za") == 0)
		return getauxval(AT_HWCAP2) & HAS_SME;
	if (strcmp(mode, "mte") == 0)
		return getauxval(AT_HWCAP2) & HAS_MTE &&
		       prctl(SET_TAGS, TAGS_CHECKED, 0, 0, 0) == 0;
	return getauxval(AT_HWCAP) & HAS_SVE;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	bool matrix = strcmp(mode, "za") == 0;

	if (!has_it(mode))
		return 77;
	if (argc > 2)
		return 0;
	victim_open();
	heap_spread();
	if (matrix)
		start_matrix();
	if (strcmp(mode, "sve-beside") == 0)
		threads_start(1, compute, NULL);
	victim_ready();
	if (strcmp(mode, "sve") == 0)
		compute_with_vectors();
	for (;;) {
		if (matrix)
			wait_with_matrix();
		else
			nap();
		heap_check();
		victim_round();
	}
}
