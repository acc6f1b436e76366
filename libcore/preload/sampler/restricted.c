/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles a program that restricts what its threads may ask of the kernel. A sample makes calls
 * that the program itself never makes, for which a filter kills it. So prctl() and syscall() lead
 * here: the profile ends before a filter is there, and with it all that the sampler asks of the
 * kernel. If the kernel refuses the filter, sampling goes on.
 *
 * Restrictions that do not use these functions are not seen (docs/limitations.md).
 */
#include "preload/sampler/restricted.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

#include "preload/sampler/got.h"
#include "preload/sampler/hold.h"
#include "preload/sampler/lifetime.h"

/* Both are new in Linux 5.11; the headers of older systems have neither. */
#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif
#define DISPATCH_OFF 0

#define PAUSE_NS  100000
#define WAITS_MAX 10000U /* time limit of at least a second for samples to end */

/* This counts the threads that are about to restrict the program, while they hold the profile. */
static uint32_t restricting;

struct restriction {
	int saved; /* errno of the program */
	bool held, whole;
	uint64_t now_ms;
};

static int early_prctl(int option, ...)
{
	unsigned long rest[4];
	va_list list;

	va_start(list, option);
	for (unsigned i = 0; i < 4; i++)
		rest[i] = va_arg(list, unsigned long);
	va_end(list);
	return (int)sampler_kernel_enter(SYS_prctl, (long)option, rest[0], rest[1], rest[2],
					 rest[3]);
}

int (*sampler_next_prctl)(int, ...) = early_prctl;
long (*sampler_next_syscall)(long, ...) = sampler_kernel_enter;

/*
 * Waits until samples have ended. Their threads may be in a system call, or about to make it. A
 * thread that was interrupted by a signal may never end its sample.
 */
static void wait_for_samples(void)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	const uint32_t *inside = &sampler_shown.state.inside;

	for (unsigned i = 0; i < WAITS_MAX; i++) {
		const uint32_t own =
			__atomic_load_n(&restricting, __ATOMIC_SEQ_CST) + sampler_thread.holds;

		if (__atomic_load_n(inside, __ATOMIC_SEQ_CST) <= own)
			return;
		sampler_kernel_enter(SYS_nanosleep, &pause, NULL);
	}
}

static void begin_restriction(struct restriction *now)
{
	*now = (struct restriction){.saved = errno, .held = sampler_hold()};
	if (now->held) {
		sampler_thread.holds--;
		__atomic_fetch_add(&restricting, 1, __ATOMIC_SEQ_CST);
		now->whole = sampler_file_is_whole();
		if (now->whole)
			sampler_timeline_tick(sampler_now_ms(), true);
	}
	__atomic_fetch_add(&sampler_quiet, 1, __ATOMIC_SEQ_CST);
	wait_for_samples();
	now->now_ms = sampler_now_ms();
	errno = now->saved;
}

/* Ends the profile without a call of the kernel: none is allowed from here on. */
static void end_profile_early(const struct restriction *now)
{
	struct flmem_profile_header *header = sampler_tables.header;

	sampler_stop();
	if (!now->whole)
		return;
	header->flags |= FLMEM_PROFILE_RESTRICTED;
	header->end_ms = now->now_ms;
	__atomic_store_n(&header->phase, FLMEM_PROFILE_ENDED, __ATOMIC_RELEASE);
}

static void end_restriction(const struct restriction *now, bool is_restricted)
{
	const int saved = errno;
	uint32_t quiet = __atomic_load_n(&sampler_quiet, __ATOMIC_SEQ_CST);

	if (is_restricted && now->held)
		end_profile_early(now);
	/* An order to attach may have restarted the count. */
	while (!is_restricted && quiet &&
	       !__atomic_compare_exchange_n(&sampler_quiet, &quiet, quiet - 1, false,
					    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
	if (now->held) {
		__atomic_fetch_sub(&restricting, 1, __ATOMIC_SEQ_CST);
		sampler_thread.holds++;
		sampler_release();
	}
	errno = saved;
}

/*
 * Returns whether this is a child of vfork(): what it does to itself does not restrict its parent,
 * whose memory it shares.
 */
static bool is_for_another(void)
{
	return !sampler_is_quiet() && sampler_is_vforked();
}

static bool prctl_restricts(int option, long value)
{
	if (option == PR_SET_SECCOMP)
		return true;
	/* The sampler needs the clock of the vDSO, which reads the time stamp counter. */
	if (option == PR_SET_TSC)
		return value == PR_TSC_SIGSEGV;
	return option == PR_SET_SYSCALL_USER_DISPATCH && value != DISPATCH_OFF;
}

long sampler_watch_prctl(int option, unsigned long a, unsigned long b, unsigned long c,
			 unsigned long d)
{
	struct restriction now;
	int rc;

	if (!prctl_restricts(option, (long)a) || is_for_another())
		return sampler_next_prctl(option, a, b, c, d);
	begin_restriction(&now);
	rc = sampler_next_prctl(option, a, b, c, d);
	end_restriction(&now, rc == 0);
	return rc;
}

/*
 * Returns whether the call has succeeded. A positive result is a descriptor for a new listener,
 * else the number of a thread that could not follow (TSYNC).
 */
static bool call_has_restricted(long number, long rc, unsigned long flags)
{
	return rc == 0 ||
	       (rc > 0 && (int)number == SYS_seccomp && (flags & SECCOMP_FILTER_FLAG_NEW_LISTENER));
}

/*
 * Returns whether the call may restrict the program. The kernel uses the lower half of both
 * numbers.
 */
static bool call_restricts(long number, long a, long b)
{
	const unsigned operation = (unsigned)a;

	if ((int)number == SYS_prctl)
		return prctl_restricts((int)a, b);
	return operation == SECCOMP_SET_MODE_STRICT || operation == SECCOMP_SET_MODE_FILTER;
}

/* `a` to `e` suffice: prctl() and seccomp() have five arguments at most. */
long sampler_watch_syscall(long number, long a, long b, long c, long d, long e)
{
	struct restriction now;
	long rc;

	if (!call_restricts(number, a, b) || is_for_another())
		return sampler_next_syscall(number, a, b, c, d, e);
	begin_restriction(&now);
	rc = sampler_next_syscall(number, a, b, c, d, e);
	end_restriction(&now, call_has_restricted(number, rc, (unsigned long)b));
	return rc;
}

void *sampler_watched_function(void *function)
{
	if (function && function == (void *)sampler_next_prctl)
		return (void *)(uintptr_t)sampler_own_prctl;
	if (function && function == (void *)sampler_next_syscall)
		return (void *)(uintptr_t)sampler_own_syscall;
	return NULL;
}

static const char *read_decimal(const char *text, uint32_t *ret_number)
{
	*ret_number = 0;
	for (; *text >= '0' && *text <= '9'; text++)
		*ret_number = *ret_number * 10 + (uint32_t)(*text - '0');
	return text;
}

static uint32_t find_status_number(const char *status, const char *name)
{
	const char *at = strstr(status, name);
	uint32_t number = 0;

	if (at)
		read_decimal(at + strlen(name), &number);
	return number;
}

/* Reads the state by system calls that the dynamic linker has just made for this library. */
bool sampler_restrictions_read(uint32_t *ret_mode, uint32_t *ret_filters)
{
	static char status[8192];
	size_t length = 0;
	ssize_t got = 0;
	int fd = sampler_open("/proc/self/status", O_RDONLY);

	if (fd < 0)
		return false;
	do {
		length += (size_t)got;
		got = sampler_read_file(fd, status + length, sizeof(status) - 1 - length);
	} while (got > 0);
	sampler_close(fd);
	status[length] = '\0';
	*ret_mode = find_status_number(status, "\nSeccomp:\t");
	*ret_filters = find_status_number(status, "\nSeccomp_filters:\t");
	return length > 0;
}

/*
 * Returns whether the process has other filters than the one that prepared the profile, or this is
 * not known.
 */
static bool has_new_restrictions(const char *known)
{
	uint32_t mode, filters, known_mode, known_filters = 0;

	if (!sampler_restrictions_read(&mode, &filters))
		return true;
	known = read_decimal(known, &known_mode);
	if (*known == ':')
		read_decimal(known + 1, &known_filters);
	return mode != known_mode || filters != known_filters;
}

void sampler_filters_are_known(void)
{
	__atomic_store_n(&sampler_quiet, 0, __ATOMIC_SEQ_CST);
}

bool sampler_begins_quiet(void)
{
	const char *known = getenv(FLMEM_PROFILE_FILTERS);

	if (has_new_restrictions(known ? known : ""))
		sampler_quiet = 1;
	return sampler_quiet != 0;
}

/*
 * These hooks jump on unless the call may restrict the program. Most calls of both are others, and
 * leave no trace on the stack: some programs have hardly any stack, and what begins a process or a
 * thread returns twice.
 */
#ifdef __x86_64__
#define WATCHED(name, code)                                            \
	__asm__(".text\n"                                              \
		".globl sampler_own_" #name "\n"                       \
		".hidden sampler_own_" #name "\n"                      \
		".type sampler_own_" #name ", @function\n"             \
		"sampler_own_" #name ":\n"                             \
		".cfi_startproc\n"                                     \
		"endbr64\n" code "jmp *sampler_next_" #name "(%rip)\n" \
		"1:\n"                                                 \
		"jmp sampler_watch_" #name "\n"                        \
		".cfi_endproc\n"                                       \
		".size sampler_own_" #name ", . - sampler_own_" #name "\n")
WATCHED(prctl, "cmpl $22, %edi\nje 1f\ncmpl $26, %edi\nje 1f\ncmpl $59, %edi\nje 1f\n");
WATCHED(syscall, "cmpl $157, %edi\nje 1f\ncmpl $317, %edi\nje 1f\n");
#else
#define WATCHED(name, code)                                                  \
	__asm__(".text\n"                                                    \
		".globl sampler_own_" #name "\n"                             \
		".hidden sampler_own_" #name "\n"                            \
		".type sampler_own_" #name ", %function\n"                   \
		"sampler_own_" #name ":\n"                                   \
		".cfi_startproc\n" code "adrp x16, sampler_next_" #name "\n" \
		"ldr x16, [x16, #:lo12:sampler_next_" #name "]\n"            \
		"br x16\n"                                                   \
		"1:\n"                                                       \
		"b sampler_watch_" #name "\n"                                \
		".cfi_endproc\n"                                             \
		".size sampler_own_" #name ", . - sampler_own_" #name "\n")
WATCHED(prctl, "cmp w0, #22\nb.eq 1f\ncmp w0, #26\nb.eq 1f\ncmp w0, #59\nb.eq 1f\n");
WATCHED(syscall, "cmp w0, #167\nb.eq 1f\ncmp w0, #277\nb.eq 1f\n");
#endif

/* The comparisons above use these numbers. */
_Static_assert(PR_SET_SECCOMP == 22 && PR_SET_TSC == 26 && PR_SET_SYSCALL_USER_DISPATCH == 59,
	       "numbers of prctl()");
#ifdef __x86_64__
_Static_assert(SYS_prctl == 157 && SYS_seccomp == 317, "numbers of calls");
#else
_Static_assert(SYS_prctl == 167 && SYS_seccomp == 277, "numbers of calls");
#endif

#ifndef SAMPLER_HIDES_HOOKS
__asm__(".globl prctl\n.type prctl, %function\n.set prctl, sampler_own_prctl\n"
	".globl syscall\n.type syscall, %function\n.set syscall, sampler_own_syscall\n");
#endif
