/* SPDX-License-Identifier: Apache-2.0 */
#include "safe_cases.h"

#include <errno.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "safe_common.h"

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

#ifdef SYS_poll
void case_poll(struct site *site, struct probe *probe, int milliseconds)
{
	case_call(probe, SYS_poll, case_word(&site->poll), 1, (uint32_t)milliseconds, 0);
}

void case_select(struct site *site, struct probe *probe)
{
	/* The kernel takes it as a timeval. */
	site->limit = (struct timespec){.tv_nsec = CASE_LIMIT_MS * 1000};
	case_call(probe, SYS_select, (uint64_t)site->read_fd + 1, case_word(&site->fds), 0, 0);
	probe->args[4] = case_word(&site->limit);
}

void case_epoll(struct site *site, struct probe *probe, int milliseconds)
{
	case_call(probe, SYS_epoll_wait, (uint64_t)site->wait_fd, case_word(&site->event), 1,
		  (uint32_t)milliseconds);
}

void case_pause(struct probe *probe)
{
	case_call(probe, SYS_pause, 0, 0, 0, 0);
}
#else /* the calls that C libraries make for these functions on newer processors */
void case_poll(struct site *site, struct probe *probe, int milliseconds)
{
	case_call(probe, SYS_ppoll, case_word(&site->poll), 1,
		  milliseconds < 0 ? 0 : case_word(case_limit(site)), 0);
}

void case_select(struct site *site, struct probe *probe)
{
	case_call(probe, SYS_pselect6, (uint64_t)site->read_fd + 1, case_word(&site->fds), 0, 0);
	probe->args[4] = case_word(case_limit(site));
}

void case_epoll(struct site *site, struct probe *probe, int milliseconds)
{
	case_call(probe, SYS_epoll_pwait, (uint64_t)site->wait_fd, case_word(&site->event), 1,
		  (uint32_t)milliseconds);
}

void case_pause(struct probe *probe)
{
	case_call(probe, SYS_ppoll, 0, 0, 0, 0);
}
#endif

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

bool case_gives_one(struct site *site, int64_t result)
{
	(void)site;
	return result == 1;
}

void case_limit_socket(int fd, int option, long milliseconds)
{
	struct timeval limit = {milliseconds / 1000, milliseconds % 1000 * 1000};

	if (setsockopt(fd, SOL_SOCKET, option, &limit, sizeof(limit)) != 0)
		victim_die("setsockopt");
}

void case_open_pipe(struct site *site)
{
	int fds[2];

	if (pipe(fds) != 0)
		victim_die("pipe");
	site->read_fd = fds[0];
	site->write_fd = fds[1];
}

void case_wake_pipe(struct site *site)
{
	if (write(site->write_fd, "!", 1) != 1)
		_exit(1);
}

bool case_drained(struct site *site, int64_t result)
{
	return result == 1 && read(site->read_fd, site->buffer, 1) == 1;
}

const struct wait_table wait_tables[] = {
	{"borrowed", wait_cases_fd},
	{"borrowed", wait_cases_process},
	{"timed", wait_cases_timed},
	{"timed", wait_cases_constant},
	{"left", wait_cases_send},
	{"left", wait_cases_rare},
	{"connect", wait_cases_connect},
	{"whole", wait_cases_whole},
	{0},
};
