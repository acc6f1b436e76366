/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_TESTS_PATIENCE_H
#define FLMEM_TESTS_PATIENCE_H

/*
 * How much slower the clock of these tests goes. Where a time limit is sure to be reached, a test
 * sets 1 and waits no longer than flmem; that also moves the clock far ahead.
 */
#define PATIENCE_SLOWER 20U
extern unsigned patience_slower;

#endif
