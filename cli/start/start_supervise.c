/* SPDX-License-Identifier: Apache-2.0 */
#include "start/start.h"

#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <flmem/parse.h>
#include <flmem/supervise.h>
#include <flmem/text.h>

#include "print/print_format.h"
#include "signals.h"

/* Prints one line on stderr for each event. */
static void print_supervise_event(void *unused, const struct flmem_supervise_news *news)
{
	char shown[ESCAPED_MESSAGE_MAX];

	(void)unused;
	fputs("flmem start: ", stderr);
	if (news->pid)
		fprintf(stderr, "process %d ", (int)news->pid);
	else
		fputs("the command ", stderr);
	fputs(flmem_supervise_event_meaning(news->event), stderr);
	if (news->event == FLMEM_SUPERVISE_ENDED && WIFSIGNALED(news->number))
		fprintf(stderr, " by signal %d", WTERMSIG(news->number));
	else if (news->event == FLMEM_SUPERVISE_ENDED)
		fprintf(stderr, " with status %d", WEXITSTATUS(news->number));
	else if (news->event == FLMEM_SUPERVISE_SIGNAL)
		fprintf(stderr, " (%d)", news->number);
	if (news->text)
		fprintf(stderr, ": %s", flmem_text_escape(news->text, shown, sizeof(shown)));
	fputc('\n', stderr);
}

static int read_duration(const char *option, const char *text, uint64_t *ret_us,
			 struct flmem_error *err)
{
	if (!text || flmem_parse_duration(text, ret_us, NULL) == 0)
		return 0;
	return flmem_parse_invalid(FLMEM_VALUE_DURATION, text, option, err);
}

/*
 * Ends with the signal of the command, so that the parent sees it, but without a second core file.
 */
static int end_like_command(int wait_status)
{
	const struct rlimit no_core = {0, 0};
	sigset_t own;

	if (!WIFSIGNALED(wait_status))
		return WEXITSTATUS(wait_status);
	setrlimit(RLIMIT_CORE, &no_core);
	signal(WTERMSIG(wait_status), SIG_DFL);
	sigemptyset(&own);
	sigaddset(&own, WTERMSIG(wait_status));
	sigprocmask(SIG_UNBLOCK, &own, NULL);
	raise(WTERMSIG(wait_status));
	return 128 + WTERMSIG(wait_status);
}

int start_supervise(const struct start_options *options, char *const *argv,
		    char *const *environment, int *ret_status, struct flmem_error *err)
{
	struct flmem_supervise_options o = {
		.workspace = options->workspace,
		.argv = argv,
		.environment = environment,
		.wait_us = FLMEM_SUPERVISE_WAIT_AUTO,
		.grace_us = FLMEM_SUPERVISE_GRACE_US,
		.notify = print_supervise_event,
	};
	int wait_status = 0;
	int rc = read_duration("wait", options->wait, &o.wait_us, err);

	if (!rc)
		rc = read_duration("grace", options->grace, &o.grace_us, err);
	if (rc)
		return rc;
	signals_restore();
	rc = flmem_supervise(&o, &wait_status, err);
	signals_prepare();
	if (!rc)
		*ret_status = end_like_command(wait_status);
	return rc;
}
