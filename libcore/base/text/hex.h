/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_BASE_HEX_H
#define FLMEM_BASE_HEX_H

/*
 * Returns the value of four hexadecimal digits; -1 if there are fewer. Reads nothing after a NUL.
 */
int flmem_hex_read4(const char *digits);

#endif
