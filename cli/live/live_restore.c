/* SPDX-License-Identifier: Apache-2.0 */
#include "live/live_restore.h"

#include <signal.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "live/live_curses.h"

#define LEAVE_MAX 128U

/*
 * These signals are handled. SIGINT and SIGTERM end the watch in order, and SIGKILL cannot be
 * handled.
 */
static const int signals[] = {SIGHUP, SIGQUIT, SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGSYS};
#define SIGNALS (sizeof(signals) / sizeof(signals[0]))

static struct sigaction found[SIGNALS];
static struct termios modes;
static volatile sig_atomic_t have_modes;
static char leave[LEAVE_MAX];
static volatile sig_atomic_t leave_length;

/*
 * Restores the terminal by async-signal-safe calls only, and raises the signal again for the
 * previous handler.
 */
static void restore_terminal(int number)
{
	ssize_t put = leave_length ? write(STDOUT_FILENO, leave, (size_t)leave_length) : 0;

	(void)put;
	if (have_modes)
		tcsetattr(STDIN_FILENO, TCSANOW, &modes);
	for (size_t i = 0; i < SIGNALS; i++)
		if (signals[i] == number)
			sigaction(number, &found[i], NULL);
	raise(number);
}

void live_restore_prepare(void)
{
	struct sigaction action = {.sa_handler = restore_terminal};

	sigfillset(&action.sa_mask);
	leave_length = 0;
	have_modes = tcgetattr(STDIN_FILENO, &modes) == 0;
	for (size_t i = 0; i < SIGNALS; i++)
		sigaction(signals[i], &action, &found[i]);
}

/* Appends the terminfo string, without padding delays. */
static size_t append_capability(const char *name, size_t length)
{
	const char *p = nc.tigetstr(name);

	if (!p || p == (const char *)-1)
		return length;
	while (*p && length < LEAVE_MAX) {
		const char *end = p[0] == '$' && p[1] == '<' ? strchr(p, '>') : NULL;

		if (end)
			p = end + 1;
		else
			leave[length++] = *p++;
	}
	return length;
}

void live_restore_arm(void)
{
	static const char *const names[] = {"sgr0", "cnorm", "rmkx", "rmcup"};
	size_t length = 0;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		length = append_capability(names[i], length);
	leave_length = (sig_atomic_t)length;
}

void live_restore_disarm(void)
{
	leave_length = 0;
	for (size_t i = 0; i < SIGNALS; i++)
		sigaction(signals[i], &found[i], NULL);
}
