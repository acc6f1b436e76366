/* SPDX-License-Identifier: Apache-2.0 */
/* Executes the actions of keys in the live view. */
#include "live/live.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <flmem/text.h>
#include <flmem/trim.h>

#include "live/live_curses.h"
#include "print/print_format.h"
#include "print/print_trim.h"

#define ESCAPE	   27
#define RETURN_KEY '\r'

static void set_live_message(struct live *live, const char *text)
{
	snprintf(live->message, sizeof(live->message), "%s", text);
}

/* Shows the message before a slow operation starts. */
static void announce_operation(struct live *live, const char *what, pid_t pid)
{
	snprintf(live->message, sizeof(live->message), "%s process %d ...", what, (int)pid);
	live_draw(live);
}

static void remember_trimmable(struct live *live, struct flmem_u64 bytes)
{
	const struct flmem_watch_result *r = live_selected(live);
	struct live_process *p;

	pthread_mutex_lock(&live->table.lock);
	p = r ? live_table_find(&live->table, &r->process) : NULL;
	if (p)
		p->trimmable_bytes = bytes;
	pthread_mutex_unlock(&live->table.lock);
}

/* Shows the predicted release of a trim; false if the trim would be refused. */
static bool predict_live_release(struct live *live, const struct flmem_watch_result *r)
{
	const struct flmem_trim_options options = {
		.dry_run = true,
		.predict = true,
		.start_time = r->process.start_time,
	};
	struct flmem_trim_result result;
	char bytes[FORMAT_MAX];
	pid_t pid = r->process.pid;

	announce_operation(live, "reading the heap of", pid);
	if (flmem_trim_process(pid, &options, &result, NULL)) {
		snprintf(live->message, sizeof(live->message),
			 "process %d cannot be trimmed: %.400s", (int)pid, result.reason);
		return false;
	}
	remember_trimmable(live, result.predicted_bytes);
	if (result.predicted_bytes.unknown)
		snprintf(live->message, sizeof(live->message),
			 "process %d: a trim would release an unknown amount: %.300s", (int)pid,
			 result.predicted_bytes.unknown);
	else
		snprintf(live->message, sizeof(live->message),
			 "process %d: a trim would release about %s", (int)pid,
			 format_bytes(result.predicted_bytes.value, bytes));
	return true;
}

static void request_live_trim(struct live *live)
{
	const struct flmem_watch_result *r = live_selected(live);
	size_t length;

	if (!r || !predict_live_release(live, r))
		return;
	length = strlen(live->message);
	snprintf(live->message + length, sizeof(live->message) - length, ". Trim it now? (y/n)");
	live->mode = LIVE_CONFIRM;
}

static void show_trim_result(struct live *live, const struct flmem_trim_result *r)
{
	char text[RELEASE_MAX], stopped[FORMAT_MAX];

	if (r->outcome == FLMEM_TRIM_NOTHING)
		snprintf(live->message, sizeof(live->message), "process %d: nothing to release",
			 (int)r->pid);
	else
		snprintf(live->message, sizeof(live->message),
			 "process %d: %.300s, one thread borrowed for %s", (int)r->pid,
			 format_release(r, text),
			 r->stopped_us.unknown ? "an unknown time"
					       : format_us(r->stopped_us.value, stopped));
}

/* Trims the selected process, as `flmem trim --pid` does. */
static void trim_selected(struct live *live)
{
	const struct flmem_watch_result *r = live_selected(live);
	struct flmem_trim_options options = {0};
	struct flmem_trim_result result;

	live->mode = LIVE_ROWS;
	if (!r)
		return;
	options.start_time = r->process.start_time;
	announce_operation(live, "trimming", r->process.pid);
	if (flmem_trim_process(r->process.pid, &options, &result, NULL))
		snprintf(live->message, sizeof(live->message), "process %d: not trimmed: %.400s",
			 (int)r->process.pid, result.reason);
	else
		show_trim_result(live, &result);
	remember_trimmable(live, FLMEM_UNKNOWN("not predicted since the last trim"));
}

static void confirm_trim(struct live *live, int key)
{
	if (key == 'y' || key == 'Y') {
		trim_selected(live);
		return;
	}
	live->mode = LIVE_ROWS;
	set_live_message(live, "not trimmed");
}

static void change_order(struct live *live)
{
	live->order = (enum live_order)((live->order + 1) % LIVE_ORDERS);
	live_sort(live);
	snprintf(live->message, sizeof(live->message), "sorted by %s",
		 live_order_name(live->order));
}

static void move_selection(struct live *live, int key)
{
	size_t row = live->selected, page = live->shown ? live->shown : 1;

	if (key == KEY_UP || key == 'k')
		row -= row > 0;
	else if (key == KEY_DOWN || key == 'j')
		row++;
	else if (key == KEY_PPAGE)
		row = row > page ? row - page : 0;
	else if (key == KEY_NPAGE)
		row += page;
	else if (key == KEY_HOME)
		row = 0;
	else if (key == KEY_END)
		row = SIZE_MAX;
	live_select(live, row);
}

static void predict_selected(struct live *live)
{
	const struct flmem_watch_result *r = live_selected(live);

	if (r)
		predict_live_release(live, r);
}

void live_key(struct live *live, int key)
{
	if (live->mode == LIVE_CONFIRM) {
		if (key != KEY_RESIZE)
			confirm_trim(live, key);
		return;
	}
	if (live->mode == LIVE_HELP && key != KEY_RESIZE) {
		live->mode = LIVE_ROWS;
		if (key == '?' || key == 'h')
			return;
	}
	switch (key) {
	case 'q':
	case 'Q':
		live->quit = true;
		break;
	case '?':
	case 'h':
		live->mode = LIVE_HELP;
		break;
	case ESCAPE:
	case RETURN_KEY:
		live->mode = LIVE_ROWS;
		set_live_message(live, "");
		break;
	case 's':
		change_order(live);
		break;
	case 'm':
		predict_selected(live);
		break;
	case 't':
		request_live_trim(live);
		break;
	default:
		move_selection(live, key);
	}
}
