/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resembles Debian's python3.13: a program at a fixed address that holds mimalloc for its own use,
 * without names, and takes the address of malloc. The linker then makes a PLT entry for malloc in
 * the program, and the slots of all libraries lead to it.
 */
#include <stdlib.h>

extern const char *const mimalloc_message;
extern void *(*const plain_malloc)(size_t size);

const char *const mimalloc_message = "mimalloc: warning: ";
void *(*const plain_malloc)(size_t size) = malloc;
