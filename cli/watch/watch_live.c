/* SPDX-License-Identifier: Apache-2.0 */
/* Shows the live view of a watch on a terminal. */
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <termios.h>
#include <unistd.h>

#include <flmem/text.h>

#include "live/live.h"
#include "live/live_curses.h"
#include "live/live_restore.h"
#include "watch/watch_output.h"

#define DRAW_EVERY_MS	 200  /* shortest time between drawings */
#define REFRESH_EVERY_MS 1000 /* shortest time between updates of trends */
#define IDLE_MS		 1000 /* longest time without samples and keys */

struct live_view {
	struct live live;
	struct flmem_watch_options *watch;
	struct flmem_watch_snapshot *own_snapshot; /* NULL: another output owns it */
	SCREEN *screen;
	pthread_t thread;
	bool runs;
	int wake; /* eventfd that is readable after new samples, or the end */
	bool over;
	sigset_t mask; /* previous mask of the watch's thread */
};

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000U + (uint64_t)now.tv_nsec / 1000000U;
}

static void wake_view(const struct live_view *view)
{
	const uint64_t one = 1;
	ssize_t put = write(view->wake, &one, sizeof(one));

	(void)put; /* a failure means that it is awake already */
}

static bool is_over(struct live_view *view)
{
	return __atomic_load_n(&view->over, __ATOMIC_ACQUIRE);
}

/* Reads the keys. Returns false at the end of input. */
static bool read_keys(struct live_view *view, int revents)
{
	int key;

	while ((key = nc.wgetch(live_curses_screen())) != ERR) {
		live_key(&view->live, key);
		if (view->live.quit)
			return true;
	}
	return !(revents & (POLLHUP | POLLERR | POLLNVAL));
}

/* Waits for a key or a sample; a resize interrupts the wait. */
static void wait_and_read(struct live_view *view, int timeout_ms)
{
	struct pollfd files[] = {
		{.fd = view->wake, .events = POLLIN},
		{.fd = STDIN_FILENO, .events = POLLIN},
	};
	uint64_t count;

	if (poll(files, 2, timeout_ms) < 0)
		files[0].revents = files[1].revents = 0;
	if (files[0].revents && read(view->wake, &count, sizeof(count)) < 0 && errno != EAGAIN)
		view->live.quit = true;
	if (!read_keys(view, files[1].revents))
		view->live.quit = true;
}

/*
 * Blocks or unblocks the signals of curses: the view's thread receives these, the watch's thread
 * all others.
 */
static void set_curses_signals(int how)
{
	static const int of_curses[] = {SIGWINCH, SIGTSTP, SIGCONT};
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(of_curses) / sizeof(of_curses[0]); i++)
		sigaddset(&set, of_curses[i]);
	pthread_sigmask(how, &set, NULL);
}

static void *run_view(void *context)
{
	struct live_view *view = context;
	uint64_t drawn = 0, refreshed = 0;

	set_curses_signals(SIG_UNBLOCK);
	while (!is_over(view) && !view->live.quit) {
		uint64_t now = now_ms();

		if (!refreshed || now - refreshed >= REFRESH_EVERY_MS) {
			live_refresh(&view->live);
			refreshed = now;
		}
		live_draw(&view->live);
		drawn = now_ms();
		wait_and_read(view, IDLE_MS);
		/* Keys take effect immediately; samples redraw at a limited rate. */
		while (!is_over(view) && !view->live.quit && now_ms() - drawn < DRAW_EVERY_MS / 4)
			wait_and_read(view, DRAW_EVERY_MS / 4);
	}
	/* Ends the watch like Ctrl-C. */
	if (!is_over(view))
		kill(getpid(), SIGINT);
	return NULL;
}

static bool on_live_sample(void *state, const struct flmem_watch_sample *sample)
{
	struct live_view *view = state;

	return live_table_sample(&view->live.table, sample);
}

static bool on_live_action(void *state, const struct flmem_watch_action *action)
{
	struct live_view *view = state;

	live_table_action(&view->live.table, action);
	return true;
}

static void on_warning(void *state, const char *text)
{
	struct live_view *view = state;

	live_table_note(&view->live.table, text);
}

static bool on_tick(void *state)
{
	wake_view(state);
	return true;
}

static void start_colours(struct live *live)
{
	const char *none = getenv("NO_COLOR");
	static const short pairs[] = {COLOR_RED, COLOR_GREEN, COLOR_YELLOW};

	live->colours = !(none && *none) && nc.has_colors() && nc.start_color() == OK;
	if (!live->colours)
		return;
	nc.use_default_colors();
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
		nc.init_pair((short)(i + 1), pairs[i], -1);
}

/* Says why there is no screen: TERM may name a terminal of another host (ssh). */
static void report_unknown_terminal(void)
{
	char shown[64];

	fprintf(stderr,
		"flmem: no description of the terminal '%s' is installed; printing lines instead\n",
		flmem_text_escape(getenv("TERM"), shown, sizeof(shown)));
}

/* Opens the screen. Returns false if curses does not support the terminal. */
static bool open_screen(struct live_view *view)
{
	live_restore_prepare();
	view->screen = nc.newterm(NULL, stdout, stdin);
	if (!view->screen) {
		live_restore_disarm();
		report_unknown_terminal();
		return false;
	}
	live_restore_arm();
	nc.cbreak();
	nc.noecho();
	nc.curs_set(0);
	nc.set_escdelay(50);
	nc.keypad(live_curses_screen(), true);
	nc.nodelay(live_curses_screen(), true);
	start_colours(&view->live);
	return true;
}

/* Starts the thread with all signals blocked, so that signals of the watch go to other threads. */
static bool start_live_thread(struct live_view *view)
{
	sigset_t all;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &view->mask);
	rc = pthread_create(&view->thread, NULL, run_view, view);
	pthread_sigmask(SIG_SETMASK, &view->mask, NULL);
	set_curses_signals(SIG_BLOCK);
	view->runs = rc == 0;
	return view->runs;
}

/* Restores the terminal; the rest of the view remains. */
static void end_screen(struct live_view *view)
{
	if (view->runs) {
		__atomic_store_n(&view->over, true, __ATOMIC_RELEASE);
		wake_view(view);
		/* Ctrl-S may have stopped the output. */
		tcflow(STDOUT_FILENO, TCOON);
		pthread_join(view->thread, NULL);
		view->runs = false;
		pthread_sigmask(SIG_SETMASK, &view->mask, NULL);
	}
	if (view->screen) {
		nc.endwin();
		nc.delscreen(view->screen);
		live_restore_disarm();
		view->screen = NULL;
	}
}

static int finish_view(void *state, const struct flmem_watch_summary *summary,
		       const struct flmem_watch_advice *advice, struct flmem_error *err)
{
	(void)summary;
	(void)advice;
	(void)err;
	end_screen(state);
	return 0;
}

static void close_view(void *state)
{
	struct live_view *view = state;

	end_screen(view);
	if (view->wake >= 0)
		close(view->wake);
	flmem_watch_summary_clear(&view->live.state.summary);
	if (view->own_snapshot) {
		view->watch->snapshot = NULL;
		flmem_watch_snapshot_free(view->own_snapshot);
	}
	free(view->live.sorted);
	free(view->live.table.processes);
	pthread_mutex_destroy(&view->live.table.lock);
	free(view);
}

static bool is_terminal(void)
{
	const char *terminal = getenv("TERM");

	return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && terminal && *terminal &&
	       strcmp(terminal, "dumb") != 0;
}

static struct live_view *new_view(struct flmem_watch_options *watch)
{
	struct live_view *view = calloc(1, sizeof(*view));

	if (!view)
		return NULL;
	view->watch = watch;
	pthread_mutex_init(&view->live.table.lock, NULL);
	view->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	setlocale(LC_CTYPE, "");
	view->live.unicode = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
	return view;
}

static bool use_snapshot(struct live_view *view)
{
	if (!view->watch->snapshot && flmem_watch_snapshot_new(&view->own_snapshot, NULL))
		return false;
	if (view->own_snapshot)
		view->watch->snapshot = view->own_snapshot;
	view->live.snapshot = view->watch->snapshot;
	return true;
}

bool watch_output_live(struct flmem_watch_options *watch, struct watch_output *ret_output)
{
	struct flmem_error missing = {0};
	struct live_view *view;

	if (!is_terminal())
		return false;
	if (!live_curses_load(&missing)) {
		fprintf(stderr, "flmem: %s; printing lines instead\n", missing.message);
		return false;
	}
	view = new_view(watch);
	if (!view)
		return false;
	if (view->wake < 0 || !use_snapshot(view) || !open_screen(view) ||
	    !start_live_thread(view)) {
		close_view(view);
		return false;
	}
	*ret_output = (struct watch_output){
		.state = view,
		.sample = on_live_sample,
		.action = on_live_action,
		.tick = on_tick,
		.warning = on_warning,
		.finish = finish_view,
		.close = close_view,
	};
	return true;
}
