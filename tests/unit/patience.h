/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_TESTS_PATIENCE_H
#define FLMEM_TESTS_PATIENCE_H

#include <stdbool.h>

/*
 * How much slower the clock of these tests runs. Where a time limit is certainly reached, a test
 * sets 1 and waits no longer than flmem; that also moves the clock far ahead.
 */
#define PATIENCE_SLOWER 20U
extern unsigned patience_slower;

/*
 * Until patience_watch_end() another thread moves the clock an hour ahead each time that this
 * function returns true: the event that flmem waits for has become impossible, and each time limit
 * that has begun is over. Later ones are as long as before.
 */
void patience_watch(bool (*is_impossible)(void));
void patience_watch_end(void);

#endif
