/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As Debian's python3.13: a program at a fixed address that holds mimalloc for its own use, without
 * names, and takes the address of malloc. The linker makes its own entry for malloc then,
 * which is what the slots of all libraries lead to.
 */
#include <stdlib.h>

extern const char *const mimalloc_message;
extern void *(*const plain_malloc)(size_t size);

const char *const mimalloc_message = "mimalloc: warning: ";
void *(*const plain_malloc)(size_t size) = malloc;
