/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROFILER_DEMANGLE_H
#define FLMEM_PROFILER_DEMANGLE_H

#include <stdbool.h>
#include <stddef.h>

#define FLMEM_DEMANGLED_MAX 512

/*
 * Prints the name of a C++ function (Itanium C++ ABI, 5.1) without its parameters and with "<...>"
 * for template arguments: "_ZN2at5emptyEl" is "at::empty". Symbols come from untrusted files: the
 * demanglers of compilers expand substitutions, so that a short symbol may fill memory; this one
 * only skips them. Returns false if the symbol is not such a name, or has an unknown form.
 */
bool flmem_demangle(const char *symbol, size_t length, char out[FLMEM_DEMANGLED_MAX]);

#endif
