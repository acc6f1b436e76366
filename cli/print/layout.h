/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_LAYOUT_H
#define FLMEM_CLI_LAYOUT_H

/* Text in two columns, labels left, cut or wrapped to the screen width. */

#include <stdio.h>

#define LAYOUT_LABEL	12 /* columns */
#define LAYOUT_TEXT_MAX 512

/* Columns of the terminal, or `otherwise` if `out` is not a terminal. */
int layout_width(FILE *out, int otherwise);

/* A label, or blanks under it on further lines. */
void layout_label(const char *text, FILE *out);

/* Untrusted text, escaped; at most LAYOUT_TEXT_MAX bytes of it. */
void layout_put(const char *text, FILE *out);

/* The label, then the escaped text, wrapped between words; ends the line. */
void layout_wrap(const char *label, const char *text, FILE *out);

/* Prints words wrapped at 79 columns, continuing at `column`; `indent` is the current column. */
void layout_fold(const char *text, int column, int indent, FILE *out);

#endif
