/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_OOM_SCORE_H
#define FLMEM_CLI_OOM_SCORE_H

/*
 * Makes the kernel kill flmem rather than another process when memory runs out: in the control
 * group of its target flmem may be the one that takes the last of it. Children inherit this score,
 * even when they execute a program.
 */
void oom_end_first(void);

#endif
