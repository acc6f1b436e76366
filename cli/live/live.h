/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_LIVE_H
#define FLMEM_CLI_LIVE_H

/*
 * Shows the live view of a watch. The thread of the watch adds samples (live_table.c). A second
 * thread reads keys and draws (watch_live.c, live_keys.c, live_draw.c), so that neither waits for
 * the other. Trends come from the snapshot of the watch.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/watch.h>

#define LIVE_RECENT  64U /* samples of a spark line */
#define LIVE_MESSAGE 512U

/* This is the data of one process. */
struct live_process {
	pid_t pid;
	uint64_t start_time;
	uint64_t rss_bytes;
	uint64_t recent[LIVE_RECENT]; /* ring of RSS values in bytes */
	uint64_t samples;
	struct flmem_u64 trimmable_bytes; /* as of the last prediction */
};

struct live_table {
	pthread_mutex_t lock; /* protects all members */
	struct live_process *processes;
	size_t count, room, last;
	uint64_t elapsed_us;
	char note[LIVE_MESSAGE]; /* last action of the policy; kept until it is shown */
};

enum live_order {
	LIVE_BY_RSS,
	LIVE_BY_GROWTH,
	LIVE_BY_LIMIT,
	LIVE_BY_PID,
	LIVE_ORDERS,
};

enum live_mode {
	LIVE_ROWS,
	LIVE_HELP,
	LIVE_CONFIRM, /* the user has to confirm a trim */
};

struct live {
	struct live_table table;
	struct flmem_watch_snapshot *snapshot;
	bool unicode, colours;

	/* Only the thread of the view uses the fields below. */
	struct flmem_watch_snapshot_data state;
	bool have_state;
	size_t *sorted; /* indices of state.summary.results, in the order of rows */
	size_t sorted_room;
	enum live_order order;
	enum live_mode mode;
	/* Row numbers: selected, first on the screen, and number shown. */
	size_t selected, first, shown;
	pid_t selected_pid; /* this process stays selected when rows move; 0: none */
	uint64_t selected_start;
	char message[LIVE_MESSAGE];
	bool quit;
};

/* Adds a sample. Returns false if memory is out. */
bool live_table_sample(struct live_table *table, const struct flmem_watch_sample *sample);

void live_table_action(struct live_table *table, const struct flmem_watch_action *action);

/* Shows the text in the line of messages. */
void live_table_note(struct live_table *table, const char *text);

/* Finds the process. Call it with the lock held. Returns NULL for an unknown process. */
struct live_process *live_table_find(struct live_table *table,
				     const struct flmem_watch_process *process);

/* Reads the snapshot again and sorts. */
void live_refresh(struct live *live);

/* Sorts the rows; the selected process stays selected. */
void live_sort(struct live *live);

const char *live_order_name(enum live_order order);

/*
 * Returns the part of a command line that names the program: without its directory, or its
 * interpreter.
 */
const char *live_program(const char *command);

/* Returns the selected process, or NULL. */
const struct flmem_watch_result *live_selected(const struct live *live);

/* Selects this row, or the last one. */
void live_select(struct live *live, size_t row);

/* Draws all in the memory of curses, then updates the screen. */
void live_draw(struct live *live);

/* Handles a key code of curses. */
void live_key(struct live *live, int key);

#endif
