/* SPDX-License-Identifier: Apache-2.0 */
/* Reads ELF files, by every query that flmem makes. */
#include "elf/image.h"
#include "file.h"
#include "fuzz.h"

static void ask(struct flmem_image *image)
{
	static const char *const names[] = {"malloc", "mallctl", "mi_version", "_PyRuntime", ""};
	struct flmem_symbol symbol;
	uint64_t a, b;
	char name[32];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		flmem_image_find_dynamic(image, names[i], &symbol);
		flmem_image_find_any(image, names[i], &symbol);
		flmem_image_find_got_slot(image, names[i], &a);
	}
	flmem_image_bias(image, 0x400000, 0, true, &a);
	if (flmem_image_interpreter(image, name, sizeof(name)) && !memchr(name, '\0', sizeof(name)))
		abort();
	flmem_image_find_section(image, ".PyRuntime", &a, &b);
	flmem_image_find_bytes(image, "GNU C Library", 13, 0);
	flmem_image_find_code(image, "\x0f\x05\xc3", 3, &a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct flmem_image *image;

	if (flmem_image_open(fuzz_file(data, size), &image, NULL) == 0) {
		ask(image);
		flmem_image_free(image);
	}
	return 0;
}
