/* SPDX-License-Identifier: Apache-2.0 */
#include "live/live.h"

#include <stdio.h>
#include <stdlib.h>

#include <flmem/sort.h>

#include "print/print_format.h"
#include "print/print_trim.h"

static const char not_predicted[] = "not predicted yet";

struct live_process *live_table_find(struct live_table *table,
				     const struct flmem_watch_process *process)
{
	for (size_t i = 0; i < table->count; i++) {
		size_t at = (table->last + 1 + i) % table->count;
		struct live_process *p = &table->processes[at];

		if (p->pid != process->pid || p->start_time != process->start_time)
			continue;
		table->last = at;
		return p;
	}
	return NULL;
}

static struct live_process *add_process(struct live_table *table,
					const struct flmem_watch_process *process)
{
	size_t room = table->room ? table->room * 2 : 16;
	struct live_process *grown = table->processes;

	if (table->count == table->room) {
		grown = reallocarray(table->processes, room, sizeof(*grown));
		if (!grown)
			return NULL;
		table->processes = grown;
		table->room = room;
	}
	table->processes[table->count] = (struct live_process){
		.pid = process->pid,
		.start_time = process->start_time,
		.trimmable_bytes = FLMEM_UNKNOWN(not_predicted),
	};
	return &table->processes[table->count++];
}

bool live_table_sample(struct live_table *table, const struct flmem_watch_sample *sample)
{
	struct live_process *p;

	pthread_mutex_lock(&table->lock);
	table->elapsed_us = sample->elapsed_us;
	p = live_table_find(table, sample->process);
	if (!p)
		p = add_process(table, sample->process);
	if (p) {
		p->rss_bytes = sample->rss_bytes;
		p->recent[p->samples++ % LIVE_RECENT] = sample->rss_bytes;
	}
	pthread_mutex_unlock(&table->lock);
	return p;
}

void live_table_action(struct live_table *table, const struct flmem_watch_action *action)
{
	char text[RELEASE_MAX], released[RELEASE_MAX + 4] = "";

	if (action->result && !action->released_bytes.unknown)
		snprintf(released, sizeof(released), ", %s", format_release(action->result, text));
	pthread_mutex_lock(&table->lock);
	snprintf(table->note, sizeof(table->note), "auto: process %d %s%.200s: %.250s",
		 (int)action->process->pid, flmem_watch_action_name(action->kind), released,
		 action->reason);
	pthread_mutex_unlock(&table->lock);
}

void live_table_note(struct live_table *table, const char *text)
{
	pthread_mutex_lock(&table->lock);
	snprintf(table->note, sizeof(table->note), "%s", text);
	pthread_mutex_unlock(&table->lock);
}

const char *live_order_name(enum live_order order)
{
	static const char *const names[] = {
		[LIVE_BY_RSS] = "resident memory",
		[LIVE_BY_GROWTH] = "growth",
		[LIVE_BY_LIMIT] = "time to the limit",
		[LIVE_BY_PID] = "pid",
	};

	return names[order];
}

static int64_t growth_of(const struct flmem_watch_result *r)
{
	return r->trend.growth_per_hour_bytes.unknown ? INT64_MIN
						      : r->trend.growth_per_hour_bytes.value;
}

static uint64_t seconds_left(const struct flmem_watch_result *r)
{
	return r->forecast.exhausted_in_s.unknown ? UINT64_MAX : r->forecast.exhausted_in_s.value;
}

static int compare_pids(const struct flmem_watch_result *a, const struct flmem_watch_result *b)
{
	return (a->process.pid > b->process.pid) - (a->process.pid < b->process.pid);
}

static int compare_results(const struct flmem_watch_result *a, const struct flmem_watch_result *b,
			   enum live_order order)
{
	int result = 0;

	switch (order) {
	case LIVE_BY_RSS:
		result = (a->last_bytes.value < b->last_bytes.value) -
			 (a->last_bytes.value > b->last_bytes.value);
		break;
	case LIVE_BY_GROWTH:
		result = (growth_of(a) < growth_of(b)) - (growth_of(a) > growth_of(b));
		break;
	case LIVE_BY_LIMIT:
		result = (seconds_left(a) > seconds_left(b)) - (seconds_left(a) < seconds_left(b));
		break;
	case LIVE_BY_PID:
	case LIVE_ORDERS:
		break;
	}
	return result ? result : compare_pids(a, b);
}

static int compare_live_rows(const void *a, const void *b, void *context)
{
	const struct live *live = context;
	const struct flmem_watch_result *results = live->state.summary.results;

	return compare_results(&results[*(const size_t *)a], &results[*(const size_t *)b],
			       live->order);
}

const struct flmem_watch_result *live_selected(const struct live *live)
{
	return live->selected < live->state.summary.count
		       ? &live->state.summary.results[live->sorted[live->selected]]
		       : NULL;
}

void live_select(struct live *live, size_t row)
{
	size_t count = live->state.summary.count;
	const struct flmem_watch_result *r;

	live->selected = row < count ? row : (count ? count - 1 : 0);
	r = live_selected(live);
	live->selected_pid = r ? r->process.pid : 0;
	live->selected_start = r ? r->process.start_time : 0;
}

static size_t row_of_selected(const struct live *live)
{
	for (size_t i = 0; i < live->state.summary.count; i++) {
		const struct flmem_watch_process *p =
			&live->state.summary.results[live->sorted[i]].process;

		if (p->pid == live->selected_pid && p->start_time == live->selected_start)
			return i;
	}
	return live->selected;
}

void live_sort(struct live *live)
{
	size_t count = live->state.summary.count;

	if (count > live->sorted_room) {
		size_t *grown = reallocarray(live->sorted, count, sizeof(*grown));

		if (!grown) {
			live->state.summary.count = live->sorted_room;
			return;
		}
		live->sorted = grown;
		live->sorted_room = count;
	}
	for (size_t i = 0; i < count; i++)
		live->sorted[i] = i;
	flmem_sort(live->sorted, count, sizeof(*live->sorted), compare_live_rows, live);
	live_select(live, row_of_selected(live));
}

void live_refresh(struct live *live)
{
	struct flmem_watch_snapshot_data state;

	if (flmem_watch_snapshot_read(live->snapshot, &state, NULL))
		return;
	flmem_watch_summary_clear(&live->state.summary);
	live->state = state;
	live->have_state = true;
	live_sort(live);
}
