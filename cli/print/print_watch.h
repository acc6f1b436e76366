/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_PRINT_WATCH_H
#define FLMEM_CLI_PRINT_WATCH_H

/* Prints a watch as text: a line for each event, and the summary. */

#include <flmem/watch.h>

void print_watch_sample(const struct flmem_watch_sample *sample);
void print_watch_round(const struct flmem_watch_round *round);
void print_watch_action(const struct flmem_watch_action *action);
void print_watch_summary(const struct flmem_watch_summary *summary);

#endif
