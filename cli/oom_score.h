/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_OOM_SCORE_H
#define FLMEM_CLI_OOM_SCORE_H

/*
 * Where memory runs out, the kernel ends flmem rather than another process: in the control group of
 * its target it may be flmem that takes the last of it. Children inherit that, also programs that
 * they execute.
 */
void oom_end_first(void);

#endif
