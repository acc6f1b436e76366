/* SPDX-License-Identifier: Apache-2.0 */
/* Draws the live view. */
#include "live/live.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

#include <flmem/text.h>

#include "live/live_curses.h"
#include "print/print_format.h"

#define LINE_MAX_COLUMNS 512
#define TEXT_MAX	 512
#define WHO_FROM	 116 /* columns of a screen that shows role and site */

/* This is the minimum screen: header, column titles, one row, message, keys. */
#define ROWS_MIN    5
#define COLUMNS_MIN 20

enum draw_pair {
	PLAIN,
	BAD,
	GOOD,
	NOTED
};

/*
 * Draws untrusted text in at most `columns` columns, padded with blanks. Characters of zero width
 * (direction marks among them) are left out. Returns the columns used.
 */
static int put_live_text(const struct live *live, const char *text, int columns)
{
	wchar_t line[LINE_MAX_COLUMNS + 1];
	char shown[TEXT_MAX];
	const char *p = flmem_text_escape(text, shown, sizeof(shown));
	const char *end = p + strlen(p);
	mbstate_t state = {0};
	int used = 0, count = 0;

	(void)live;
	columns = columns > LINE_MAX_COLUMNS ? LINE_MAX_COLUMNS : columns;
	while (p < end && count < LINE_MAX_COLUMNS) {
		wchar_t c;
		size_t length = mbrtowc(&c, p, (size_t)(end - p), &state);
		int width;

		if (length == 0 || length > (size_t)(end - p)) {
			state = (mbstate_t){0};
			length = 1;
			c = L'?';
		}
		p += length;
		width = wcwidth(c);
		if (width <= 0)
			continue;
		if (used + width > columns)
			break;
		line[count++] = c;
		used += width;
	}
	for (; used < columns && count < LINE_MAX_COLUMNS; used++)
		line[count++] = L' ';
	nc.waddnwstr(live_curses_screen(), line, count);
	return used;
}

static void put_right(const struct live *live, const char *text, int columns)
{
	int length = (int)strlen(text);

	if (length < columns)
		put_live_text(live, "", columns - length);
	put_live_text(live, text, length < columns ? length : columns);
}

static void set_style(const struct live *live, attr_t attributes, enum draw_pair pair)
{
	nc.wattr_set(live_curses_screen(), attributes, live->colours ? (short)pair : 0, NULL);
}

/* This is one cell of a row. */
struct cell {
	const struct flmem_watch_result *result;
	const struct live_process *process; /* NULL: no sample yet */
	int width;
	bool selected, has_who;
};

static void put_pid(const struct live *live, const struct cell *cell)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", (int)cell->result->process.pid);
	put_right(live, text, cell->width);
}

static void put_role(const struct live *live, const struct cell *cell)
{
	const struct flmem_watch_process *p = &cell->result->process;
	const char *role = flmem_role_name(p->role);
	char text[128];

	snprintf(text, sizeof(text), "%s%s%.80s", role ? role : "-", p->site ? " " : "",
		 p->site ? p->site : "");
	put_live_text(live, text, cell->width);
}

static uint64_t highest_sample(const struct live_process *p, size_t count)
{
	uint64_t most = 1;

	for (size_t i = 0; i < count; i++)
		if (p->recent[i] > most)
			most = p->recent[i];
	return most;
}

/* Draws a spark line of the latest samples, newest on the right, scaled from 0 to their maximum. */
static void put_spark(const struct live *live, const struct cell *cell)
{
	static const wchar_t blocks[] = L"▁▂▃▄▅▆▇█", signs[] = L"_.-:=+*#";
	const wchar_t *levels = live->unicode ? blocks : signs;
	const struct live_process *p = cell->process;
	size_t kept = p->samples < LIVE_RECENT ? (size_t)p->samples : LIVE_RECENT;
	size_t shown = kept < (size_t)cell->width ? kept : (size_t)cell->width;
	uint64_t most = highest_sample(p, kept);

	put_live_text(live, "", cell->width - (int)shown);
	for (size_t i = 0; i < shown; i++) {
		uint64_t bytes = p->recent[(p->samples - shown + i) % LIVE_RECENT];
		size_t level = (size_t)((double)bytes / (double)most * 7.999);

		nc.waddnwstr(live_curses_screen(), &levels[level], 1);
	}
}

static void put_rss(const struct live *live, const struct cell *cell)
{
	char text[FORMAT_MAX];

	put_right(live, format_bytes(cell->process->rss_bytes, text), cell->width);
}

static void put_trimmable(const struct live *live, const struct cell *cell)
{
	char text[FORMAT_MAX];

	put_right(live, format_bytes_or(cell->process->trimmable_bytes, "-", text), cell->width);
}

static enum draw_pair pair_of(enum flmem_trend_verdict verdict)
{
	switch (verdict) {
	case FLMEM_TREND_CLIMBING:
		return BAD;
	case FLMEM_TREND_STEPPED:
		return NOTED;
	case FLMEM_TREND_FLAT:
	case FLMEM_TREND_FALLING:
		return GOOD;
	case FLMEM_TREND_TOO_EARLY:
		break;
	}
	return PLAIN;
}

static void put_live_trend(const struct live *live, const struct cell *cell)
{
	enum flmem_trend_verdict verdict = cell->result->trend.verdict;
	attr_t selected = cell->selected ? A_REVERSE : A_NORMAL;

	set_style(live, selected | (verdict == FLMEM_TREND_CLIMBING ? A_BOLD : A_NORMAL),
		  pair_of(verdict));
	put_live_text(live, flmem_trend_verdict_name(verdict), cell->width);
	set_style(live, selected, PLAIN);
}

static void put_live_growth(const struct live *live, const struct cell *cell)
{
	const struct flmem_trend *t = &cell->result->trend;
	bool by_round = t->basis == FLMEM_TREND_BY_ROUND;
	struct flmem_i64 growth = by_round ? t->growth_per_round_bytes : t->growth_per_hour_bytes;
	char bytes[FORMAT_MAX], text[FORMAT_MAX + 16];

	if (growth.unknown || t->low_bytes.unknown) {
		put_right(live, "-", cell->width);
		return;
	}
	format_bytes(growth.value < 0 ? -(uint64_t)growth.value : (uint64_t)growth.value, bytes);
	snprintf(text, sizeof(text), "%c%s/%s", growth.value < 0 ? '-' : '+', bytes,
		 by_round ? "round" : "h");
	put_right(live, text, cell->width);
}

static void put_limit(const struct live *live, const struct cell *cell)
{
	const struct flmem_u64 *left = &cell->result->forecast.exhausted_in_s;
	char text[FORMAT_MAX];

	put_right(live, left->unknown ? "-" : format_span(left->value, text), cell->width);
}

/* Draws the site where its column is not shown, and the script rather than its interpreter. */
static void put_live_command(const struct live *live, const struct cell *cell)
{
	const struct flmem_watch_process *p = &cell->result->process;
	char text[TEXT_MAX];

	snprintf(text, sizeof(text), "%.80s%s%s", p->site && !cell->has_who ? p->site : "",
		 p->site && !cell->has_who ? " " : "", live_program(p->command));
	put_live_text(live, text, cell->width);
}

/*
 * These are the columns from left to right; `from` is the screen width that a column needs. The
 * last fills the row.
 */
static const struct {
	const char *title;
	int width, from;
	bool right, needs_sample;
	void (*put)(const struct live *live, const struct cell *cell);
} columns[] = {
	{"PID", 7, 0, true, false, put_pid},
	{"WHO", 22, WHO_FROM, false, false, put_role},
	{"MEMORY", 14, 46, false, true, put_spark},
	{"RSS", 9, 0, true, true, put_rss},
	{"TRIMMABLE", 9, 92, true, true, put_trimmable},
	{"TREND", 9, 28, false, false, put_live_trend},
	{"GROWTH", 15, 62, true, false, put_live_growth},
	{"LIMIT IN", 9, 72, true, false, put_limit},
	{"COMMAND", 1, 80, false, false, put_live_command},
};
#define COLUMNS (sizeof(columns) / sizeof(columns[0]))

static void put_titles(const struct live *live, int width)
{
	int used = 0;

	set_style(live, A_REVERSE, PLAIN);
	for (size_t i = 0; i < COLUMNS; i++) {
		int room = i + 1 < COLUMNS ? columns[i].width : width - used;

		if (width < columns[i].from)
			continue;
		if (columns[i].right)
			put_right(live, columns[i].title, room);
		else
			put_live_text(live, columns[i].title, room);
		used += room;
		if (used < width)
			used += put_live_text(live, "", 1);
	}
	put_live_text(live, "", width - used);
	set_style(live, A_NORMAL, PLAIN);
}

static void put_row(struct live *live, size_t row, int width)
{
	struct cell cell = {
		.result = &live->state.summary.results[live->sorted[row]],
		.selected = row == live->selected,
		.has_who = width >= WHO_FROM,
	};
	int used = 0;

	cell.process = live_table_find(&live->table, &cell.result->process);
	set_style(live, cell.selected ? A_REVERSE : A_NORMAL, PLAIN);
	for (size_t i = 0; i < COLUMNS; i++) {
		cell.width = i + 1 < COLUMNS ? columns[i].width : width - used;
		if (width < columns[i].from)
			continue;
		if (columns[i].needs_sample && !cell.process)
			put_live_text(live, "", cell.width);
		else
			columns[i].put(live, &cell);
		used += cell.width;
		if (used < width)
			used += put_live_text(live, "", 1);
	}
	put_live_text(live, "", width - used);
	set_style(live, A_NORMAL, PLAIN);
}

/* Describes the limit with the least headroom. */
static void describe_limit(const struct live *live, char *out, size_t size)
{
	const struct flmem_watch_result *nearest = NULL;
	char limit[FORMAT_MAX], left[FORMAT_MAX];

	for (size_t i = 0; i < live->state.summary.count; i++) {
		const struct flmem_watch_result *r = &live->state.summary.results[i];

		if (!r->limit_bytes.unknown && !r->headroom_bytes.unknown &&
		    (!nearest || r->headroom_bytes.value < nearest->headroom_bytes.value))
			nearest = r;
	}
	out[0] = '\0';
	if (nearest)
		snprintf(out, size, ", %s limit %s, %s left",
			 nearest->limit_is_cgroup ? "cgroup" : "host",
			 format_bytes(nearest->limit_bytes.value, limit),
			 format_bytes(nearest->headroom_bytes.value, left));
}

static void put_header(struct live *live, int width)
{
	char text[TEXT_MAX], limit[128], rounds[96] = "", span[FORMAT_MAX];
	char count[FLMEM_TEXT_COUNTED_MAX];

	describe_limit(live, limit, sizeof(limit));
	if (!live->state.round.unknown)
		snprintf(rounds, sizeof(rounds), ", round %" PRIu64 " runs (%" PRIu64 " complete)",
			 live->state.round.value, live->state.summary.rounds);
	else if (live->state.summary.rounds)
		snprintf(rounds, sizeof(rounds), ", %s",
			 flmem_text_counted(live->state.summary.rounds, "round", count,
					    sizeof(count)));
	snprintf(text, sizeof(text), "flmem watch: %" PRIu64 " alive, by %s, %s%s%s",
		 live->state.alive, live_order_name(live->order),
		 format_span(live->table.elapsed_us / 1000000U, span), rounds, limit);
	set_style(live, A_BOLD, PLAIN);
	put_live_text(live, text, width);
	set_style(live, A_NORMAL, PLAIN);
}

static void put_help(const struct live *live, int height, int width)
{
	static const char *const lines[] = {
		"  up, down, k, j    select a process",
		"  s                 sort by memory, growth, time to the limit, pid",
		"  m                 predict what a trim would release",
		"  t                 trim it (asks first), as flmem trim --pid does",
		"  q, Ctrl-C         end the watch, with its summary",
		"  ?                 this help",
		"",
		"  A row shows the latest samples, scaled to their maximum, the trend and,",
		"  while memory climbs, the time until its limit is reached. RSS that does",
		"  not fall is not a leak; memory that is higher after each round is.",
	};

	for (int i = 0; i < height && i < (int)(sizeof(lines) / sizeof(lines[0])); i++) {
		nc.wmove(live_curses_screen(), 2 + i, 0);
		put_live_text(live, lines[i], width);
	}
}

/* Scrolls so that the selected row is visible. */
static void scroll_to_selected(struct live *live, size_t room)
{
	live->shown = room;
	if (live->selected < live->first)
		live->first = live->selected;
	if (live->selected >= live->first + room)
		live->first = live->selected - room + 1;
	if (live->first + room > live->state.summary.count)
		live->first =
			live->state.summary.count > room ? live->state.summary.count - room : 0;
}

static void put_live_rows(struct live *live, int height, int width)
{
	size_t room = (size_t)height;

	scroll_to_selected(live, room);
	for (size_t i = 0; i < room && live->first + i < live->state.summary.count; i++) {
		nc.wmove(live_curses_screen(), 2 + (int)i, 0);
		put_row(live, live->first + i, width);
	}
	if (!live->have_state) {
		nc.wmove(live_curses_screen(), 2, 0);
		put_live_text(live, "waiting for the first samples", width);
	}
}

static void put_frame(struct live *live, int height, int width)
{
	WINDOW *screen = live_curses_screen();

	nc.wmove(screen, 0, 0);
	put_header(live, width);
	nc.wmove(screen, 1, 0);
	put_titles(live, width);
	if (live->mode == LIVE_HELP)
		put_help(live, height - 4, width);
	else
		put_live_rows(live, height - 4, width);
	nc.wmove(screen, height - 2, 0);
	set_style(live, live->mode == LIVE_CONFIRM ? A_BOLD : A_NORMAL, PLAIN);
	put_live_text(live, live->message, width);
	nc.wmove(screen, height - 1, 0);
	set_style(live, A_DIM, PLAIN);
	/* The last cell is left empty: writing it would scroll some terminals. */
	put_live_text(live, "q quit  s sort  m measure  t trim  ? help", width - 1);
	set_style(live, A_NORMAL, PLAIN);
}

void live_draw(struct live *live)
{
	WINDOW *screen = live_curses_screen();
	int height = nc.getmaxy(screen), width = nc.getmaxx(screen);

	nc.werase(screen);
	nc.wmove(screen, 0, 0);
	pthread_mutex_lock(&live->table.lock);
	if (live->table.note[0] && live->mode != LIVE_CONFIRM) {
		snprintf(live->message, sizeof(live->message), "%s", live->table.note);
		live->table.note[0] = '\0';
	}
	if (height < ROWS_MIN || width < COLUMNS_MIN)
		put_live_text(live, "too small; q quits", width - 1);
	else
		put_frame(live, height, width);
	pthread_mutex_unlock(&live->table.lock);
	nc.wnoutrefresh(screen);
	nc.doupdate();
}
