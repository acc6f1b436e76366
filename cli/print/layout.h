/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_LAYOUT_H
#define FLMEM_CLI_LAYOUT_H

/* Prints text in two columns, labels on the left, cut or wrapped to the screen width. */

#include <stdio.h>

#define LAYOUT_LABEL	12 /* width of a label in columns */
#define LAYOUT_TEXT_MAX 512

/* Returns the columns of the terminal, or `otherwise` if `out` is not a terminal. */
int layout_width(FILE *out, int otherwise);

/* Prints a label, or blanks under it on further lines. */
void layout_label(const char *text, FILE *out);

/* Prints untrusted text, escaped; at most LAYOUT_TEXT_MAX bytes of it. */
void layout_put(const char *text, FILE *out);

/* Prints the label, then the escaped text, wrapped between words, and ends the line. */
void layout_wrap(const char *label, const char *text, FILE *out);

/* Prints words wrapped at 79 columns, continuing at `column`; `indent` is the current column. */
void layout_fold(const char *text, int column, int indent, FILE *out);

#endif
