/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_TESTS_VICTIMS_SAMPLED_FORK_OFTEN_H
#define FLMEM_TESTS_VICTIMS_SAMPLED_FORK_OFTEN_H

/* Threads of a library that fork all the time, whose children use the dynamic linker. */

/*
 * Functions of the library: start the threads (returns an error number), and count the forked
 * children that have failed until now.
 */
int fork_often(void) __attribute__((visibility("default")));
int count_failed(void) __attribute__((visibility("default")));

/*
 * Functions that the library defines: what a child does, and how long a thread waits before the
 * next fork.
 */
_Noreturn void use_linker(void);
extern const long fork_pause_ms;

void sleep_ms(long ms);
/* Asks the linker for its list of objects. */
void walk_list(void);

#endif
