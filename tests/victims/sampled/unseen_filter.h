/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SAMPLED_UNSEEN_FILTER_H
#define SAMPLED_UNSEEN_FILTER_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>

/*
 * Sets a filter without a function of the C library, with which the sampler would end the profile
 * before. Returns 0, or an error.
 */
static inline long set_filter_unseen(const struct sock_fprog *filter)
{
#ifdef __x86_64__
	long rc;

	__asm__ volatile("syscall"
			 : "=a"(rc)
			 : "a"(SYS_seccomp), "D"(SECCOMP_SET_MODE_FILTER), "S"(0L), "d"(filter)
			 : "rcx", "r11", "memory");
	return rc;
#else
	register long number __asm__("x8") = SYS_seccomp;
	register long rc __asm__("x0") = SECCOMP_SET_MODE_FILTER;
	register long flags __asm__("x1") = 0;
	register const struct sock_fprog *program __asm__("x2") = filter;

	__asm__ volatile("svc #0" : "+r"(rc) : "r"(number), "r"(flags), "r"(program) : "memory");
	return rc;
#endif
}

#endif
