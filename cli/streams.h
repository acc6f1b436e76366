/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_STREAMS_H
#define FLMEM_CLI_STREAMS_H

/*
 * Keeps the numbers of standard descriptors that are closed from files that are opened later:
 * results and errors would be written into one of them, such as the memory of the target. To use
 * such a descriptor fails as before, and a program that is executed finds it closed.
 */
void streams_reserve_closed(void);

#endif
