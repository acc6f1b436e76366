/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library with as many relocations as a large one has: pointers to a symbol that another library
 * may define.
 */
#define POINTERS "400000"

int relocated_place __attribute__((visibility("default")));

__asm__(".data\n"
	".balign 8\n"
	".rept " POINTERS "\n"
	".quad relocated_place\n"
	".endr\n"
	".text\n");
