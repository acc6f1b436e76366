/* SPDX-License-Identifier: Apache-2.0 */
#include "safe_cases.h"

#include <errno.h>

uint64_t case_word(const void *pointer)
{
	return (uint64_t)(uintptr_t)pointer;
}

void case_call(struct probe *probe, long number, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	probe->number = (uint64_t)number;
	probe->args[0] = a;
	probe->args[1] = b;
	probe->args[2] = c;
	probe->args[3] = d;
	probe->args[4] = 0;
	probe->args[5] = 0;
}

const struct timespec *case_limit(struct site *site)
{
	site->limit = (struct timespec){.tv_nsec = CASE_LIMIT_MS * 1000000L};
	return &site->limit;
}

bool case_gives_zero(struct site *site, int64_t result)
{
	(void)site;
	return result == 0;
}

bool case_gives_again(struct site *site, int64_t result)
{
	(void)site;
	return result == -EAGAIN;
}

void case_mask(struct site *site)
{
	sigemptyset(&site->mask);
	sigaddset(&site->mask, SIGHUP);
}

const struct wait_case *const wait_case_tables[] = {wait_cases_fd, wait_cases_process, NULL};
