/* SPDX-License-Identifier: Apache-2.0 */
#include "signals.h"

#include <signal.h>

static struct sigaction found_sigpipe;

void signals_prepare(void)
{
	const struct sigaction ignored = {.sa_handler = SIG_IGN};

	sigaction(SIGPIPE, &ignored, &found_sigpipe);
}

void signals_restore(void)
{
	sigaction(SIGPIPE, &found_sigpipe, NULL);
}
