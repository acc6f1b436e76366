/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_LIMITS_GROUP_ROOM_H
#define FLMEM_PROC_LIMITS_GROUP_ROOM_H

/*
 * Computes how much memory control groups still allow. Beyond the limit (memory.max) the kernel
 * kills a process, and beyond memory.high it slows it down.
 */

#include <stdbool.h>
#include <stdint.h>

#include <flmem/error.h>

struct flmem_process;

/*
 * Returns how much more memory the groups of a process allow; UINT64_MAX: no limit, or none that is
 * visible here. Pages of files that nothing has mapped can be dropped, and count as free. The
 * mounts are those below `rootfd`. `until_slow`: memory beyond memory.high does not count, either.
 */
uint64_t flmem_group_room_left(int rootfd, const struct flmem_process *process, bool until_slow);

/*
 * FLMEM_EUNSAFE if the groups of a process leave less than `bytes`, which are needed for `what`;
 * `how` is the advice to get more.
 */
int flmem_group_room_check(const struct flmem_process *process, uint64_t bytes, const char *what,
			   const char *how, struct flmem_error *err);

#endif
