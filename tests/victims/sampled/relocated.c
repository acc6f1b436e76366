/* SPDX-License-Identifier: Apache-2.0 */
/* As many relocations as a large library has: pointers to a symbol that another one may define. */
#define POINTERS "400000"

int relocated_place __attribute__((visibility("default")));

__asm__(".data\n"
	".balign 8\n"
	".rept " POINTERS "\n"
	".quad relocated_place\n"
	".endr\n"
	".text\n");
