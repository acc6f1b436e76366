/* SPDX-License-Identifier: Apache-2.0 */
/*
 * safe_ia32: a 32-bit process without a C library, built with -m32 -nostdlib -static: prints
 * `ready PID` and sleeps without limit.
 */
#define SYS_WRITE     4
#define SYS_GETPID    20
#define SYS_NANOSLEEP 162

static long system_call(long number, long a, long b, long c)
{
	long result;

	__asm__ volatile("int $0x80"
			 : "=a"(result)
			 : "a"(number), "b"(a), "c"(b), "d"(c)
			 : "memory");
	return result;
}

void _start(void);

void _start(void)
{
	char text[] = "ready 0000000\n";
	long pid = system_call(SYS_GETPID, 0, 0, 0);
	long nap[2] = {1, 0};

	for (unsigned i = sizeof(text) - 3; pid > 0 && text[i] != ' '; i--, pid /= 10)
		text[i] = (char)('0' + pid % 10);
	system_call(SYS_WRITE, 1, (long)text, sizeof(text) - 1);
	for (;;)
		system_call(SYS_NANOSLEEP, (long)nap, 0, 0);
}
