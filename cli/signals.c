/* SPDX-License-Identifier: Apache-2.0 */
#include "signals.h"

#include <signal.h>
#include <stddef.h>
#include <sys/signalfd.h>

static struct sigaction found_sigpipe, found_sigxfsz;

void signals_prepare(void)
{
	const struct sigaction ignored = {.sa_handler = SIG_IGN};

	sigaction(SIGPIPE, &ignored, &found_sigpipe);
	sigaction(SIGXFSZ, &ignored, &found_sigxfsz);
}

int signals_catch_end(void)
{
	sigset_t ends;

	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigprocmask(SIG_BLOCK, &ends, NULL);
	return signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
}

void signals_restore(void)
{
	sigaction(SIGPIPE, &found_sigpipe, NULL);
	sigaction(SIGXFSZ, &found_sigxfsz, NULL);
}
