/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/files/io.h"
#include "elf/image.h"

#define SAMPLE(name) VICTIMS "/elf/" name

static struct flmem_image *open_sample(const char *path)
{
	struct flmem_error err = {0};
	struct flmem_image *image = NULL;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		fail_msg("cannot open %s: %s", path, strerror(errno));
	if (flmem_image_open(fd, &image, &err))
		fail_msg("%s: %s", path, err.message);
	return image;
}

static void check_library(const char *path)
{
	FLMEM_AUTO_IMAGE struct flmem_image *image = open_sample(path);
	struct flmem_symbol symbol;
	uint64_t text, size;
	int value = 0;

	assert_true(flmem_image_find_dynamic(image, "sample_function", &symbol));
	assert_int_equal(symbol.type, STT_FUNC);
	assert_true(flmem_image_find_section(image, ".text", &text, &size));
	assert_in_range(symbol.value, text, text + size - 1);
	assert_true(flmem_image_find_dynamic(image, "sample_data", &symbol));
	assert_int_equal(symbol.type, STT_OBJECT);
	assert_true(flmem_image_read_address(image, symbol.value, &value, sizeof(value)));
	assert_int_equal(value, 42);
	assert_true(flmem_image_find_dynamic(image, "sample_counted", &symbol));
	assert_int_equal(symbol.type, STT_GNU_IFUNC);
	/* Imports, hidden symbols and tails of names are not definitions. */
	assert_false(flmem_image_find_dynamic(image, "malloc", &symbol));
	assert_false(flmem_image_find_dynamic(image, "sample_hidden", &symbol));
	assert_false(flmem_image_find_dynamic(image, "_function", &symbol));
	assert_false(flmem_image_find_dynamic(image, "sample_functio", &symbol));
	assert_false(flmem_image_find_dynamic(image, "", &symbol));
}

static void symbols_are_found_by_either_hash_table(void **state)
{
	(void)state;
	check_library(SAMPLE("gnu-hash.so"));
	check_library(SAMPLE("sysv-hash.so"));
	check_library(SAMPLE("stripped.so"));
}

static void hidden_symbols_are_found_until_stripped(void **state)
{
	FLMEM_AUTO_IMAGE struct flmem_image *full = open_sample(SAMPLE("gnu-hash.so"));
	FLMEM_AUTO_IMAGE struct flmem_image *bare = open_sample(SAMPLE("stripped.so"));
	struct flmem_symbol symbol;

	(void)state;
	assert_true(flmem_image_find_any(full, "sample_hidden", &symbol));
	assert_false(flmem_image_find_any(full, "sample_hidde", &symbol));
	assert_false(flmem_image_find_any(full, "hidden", &symbol));
	assert_false(flmem_image_find_any(bare, "sample_hidden", &symbol));
	assert_true(flmem_image_find_any(bare, "sample_function", &symbol));
}

static void programs_that_name_a_dynamic_linker_are_known(void **state)
{
	static const struct {
		const char *path;
		bool interpreter;
	} rows[] = {
		{SAMPLE("gnu-hash.so"), false},
		{SAMPLE("static"), false},
		{SAMPLE("static-stripped"), false},
		{SAMPLE("static-pie"), false},
		{SAMPLE("fixed"), true},
		{SAMPLE("no-exports"), true},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		FLMEM_AUTO_IMAGE struct flmem_image *image = open_sample(rows[i].path);

		assert_int_equal(flmem_image_has_interpreter(image), rows[i].interpreter);
	}
}

static void static_programs_have_their_symbols_in_symtab(void **state)
{
	static const char *const paths[] = {SAMPLE("static"), SAMPLE("static-pie")};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(paths); i++) {
		FLMEM_AUTO_IMAGE struct flmem_image *image = open_sample(paths[i]);
		struct flmem_symbol symbol;

		assert_false(flmem_image_find_dynamic(image, "malloc", &symbol));
		assert_true(flmem_image_find_any(image, "malloc", &symbol));
		assert_true(flmem_image_find_any(image, "program_allocate", &symbol));
		assert_int_equal(symbol.binding, STB_LOCAL);
	}
}

static void got_slots_are_found_for_imports(void **state)
{
	static const char *const paths[] = {
		SAMPLE("gnu-hash.so"), SAMPLE("sysv-hash.so"), SAMPLE("stripped.so"),
		SAMPLE("fixed"),       SAMPLE("no-exports"),
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(paths); i++) {
		FLMEM_AUTO_IMAGE struct flmem_image *image = open_sample(paths[i]);
		uint64_t slot = 0, other = 0;

		assert_true(flmem_image_find_got_slot(image, "malloc", &slot));
		assert_int_not_equal(slot, 0);
		assert_int_equal(slot % 8, 0);
		assert_false(flmem_image_find_got_slot(image, "calloc", &other));
	}
}

static void sections_and_bytes_are_found(void **state)
{
	FLMEM_AUTO_IMAGE struct flmem_image *image = open_sample(SAMPLE("gnu-hash.so"));
	static const char marker[] = "flmem sample marker";
	struct flmem_symbol symbol;
	uint64_t address, size;
	int64_t offset;
	char found[sizeof(marker)];

	(void)state;
	assert_true(flmem_image_find_section(image, ".rodata", &address, &size));
	assert_false(flmem_image_find_section(image, ".rodat", &address, &size));
	assert_false(flmem_image_find_section(image, ".PyRuntime", &address, &size));
	offset = flmem_image_find_bytes(image, marker, sizeof(marker), 0);
	assert_true(offset > 0);
	assert_true(flmem_image_find_dynamic(image, "sample_marker", &symbol));
	assert_true(flmem_image_read_address(image, symbol.value, found, sizeof(found)));
	assert_memory_equal(found, marker, sizeof(marker));
	assert_int_equal(
		flmem_image_find_bytes(image, marker, sizeof(marker), (uint64_t)offset + 1), -1);
	assert_int_equal(flmem_image_find_bytes(image, "no such text", 12, 0), -1);
}

static void markers_are_found_wherever_they_stand(void **state)
{
	static const struct flmem_marker markers[] = {
		{"flmem sample marker", 19}, {"no such marker", 14}, {"lmem sample marker", 18},
		{"mem sample marker\0", 18}, {"sample marker", 13},
	};
	FLMEM_AUTO_IMAGE struct flmem_image *image = open_sample(SAMPLE("gnu-hash.so"));
	FLMEM_AUTO_IMAGE struct flmem_image *other = open_sample(SAMPLE("fixed"));

	(void)state;
	assert_int_equal(flmem_image_find_markers(image, markers, FLMEM_ARRAY_SIZE(markers)), 0x1d);
	assert_int_equal(flmem_image_find_markers(other, markers, FLMEM_ARRAY_SIZE(markers)), 0);
}

/* Makes a file of one read-only segment, with the marker at `offset`. */
static int marker_file(size_t offset, const char *marker)
{
	size_t size = 200000, length = strlen(marker);
	FLMEM_AUTO_FREE unsigned char *bytes = calloc(1, size);
	Elf64_Phdr segment = {.p_type = PT_LOAD,
			      .p_flags = PF_R,
			      .p_filesz = size,
			      .p_memsz = size,
			      .p_align = 4096};
	Elf64_Ehdr header = {.e_type = ET_DYN,
			     .e_phoff = sizeof(header),
			     .e_phentsize = sizeof(segment),
			     .e_phnum = 1};
	int fd = memfd_create("markers", MFD_CLOEXEC);

	assert_non_null(bytes);
	memcpy(header.e_ident, ELFMAG, SELFMAG);
	header.e_ident[EI_CLASS] = ELFCLASS64;
	header.e_ident[EI_DATA] = ELFDATA2LSB;
	memcpy(bytes, &header, sizeof(header));
	memcpy(bytes + sizeof(header), &segment, sizeof(segment));
	memcpy(bytes + offset, marker, length);
	assert_int_equal(flmem_io_write_all(fd, bytes, size), 0);
	return fd;
}

static void markers_are_found_across_chunks(void **state)
{
	static const struct flmem_marker marker = {"0123456789a", 11};

	(void)state;
	for (size_t offset = 65536 - 300; offset < 65536 + 20; offset++) {
		FLMEM_AUTO_IMAGE struct flmem_image *image = NULL;
		int fd = marker_file(offset, "0123456789a");

		assert_int_equal(flmem_image_open(fd, &image, NULL), 0);
		assert_int_equal(flmem_image_find_markers(image, &marker, 1), 1);
		assert_int_equal(flmem_image_find_bytes(image, marker.bytes, marker.length, 0),
				 offset);
	}
}

/* --- hostile files: a good one, changed in memory --- */

struct copy {
	unsigned char *bytes;
	size_t size;
};

static struct copy read_copy(const char *path)
{
	struct flmem_buf buf = FLMEM_BUF_INIT;

	assert_int_equal(flmem_io_read_file_at(AT_FDCWD, path, 1 << 24, &buf), 0);
	return (struct copy){(unsigned char *)buf.data, buf.length};
}

static int open_copy(const struct copy *copy, struct flmem_image **ret_image)
{
	int fd = memfd_create("copy", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(flmem_io_write_all(fd, copy->bytes, copy->size), 0);
	return flmem_image_open(fd, ret_image, NULL);
}

/* Makes every query; any answer is accepted, as long as the queries return. */
static void ask_everything(struct flmem_image *image)
{
	struct flmem_symbol symbol;
	uint64_t a, b;
	char name[16];

	(void)flmem_image_find_any(image, "sample_function", &symbol);
	(void)flmem_image_find_any(image, "no_such_symbol", &symbol);
	(void)flmem_image_find_got_slot(image, "malloc", &a);
	(void)flmem_image_find_section(image, ".rodata", &a, &b);
	(void)flmem_image_find_bytes(image, "marker", 6, 0);
	(void)flmem_image_bias(image, 0x7f0000000000, 0, true, &a);
	(void)flmem_image_interpreter(image, name, sizeof(name));
}

static void ask_copy(const struct copy *copy)
{
	FLMEM_AUTO_IMAGE struct flmem_image *image = NULL;

	if (!open_copy(copy, &image))
		ask_everything(image);
}

static void files_cut_short_anywhere_are_survived(void **state)
{
	struct copy copy = read_copy(SAMPLE("gnu-hash.so"));
	size_t full = copy.size;

	(void)state;
	for (copy.size = 0; copy.size < full; copy.size += copy.size < 1024 ? 8 : 500)
		ask_copy(&copy);
	free(copy.bytes);
}

static void what_is_no_elf_file_is_refused(void **state)
{
	struct copy copy = read_copy(SAMPLE("gnu-hash.so"));
	static const struct {
		size_t at;
		unsigned char value;
	} rows[] = {
		{0, 'X'},
		{EI_CLASS, ELFCLASS32},
		{EI_DATA, ELFDATA2MSB},
		{offsetof(Elf64_Ehdr, e_type), ET_REL},
		{offsetof(Elf64_Ehdr, e_phentsize), 1},
		{offsetof(Elf64_Ehdr, e_phnum) + 1, 0xff},
		{offsetof(Elf64_Ehdr, e_phoff) + 7, 0xff},
	};
	struct flmem_image *image = NULL;

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		unsigned char kept = copy.bytes[rows[i].at];

		copy.bytes[rows[i].at] = rows[i].value;
		assert_int_equal(open_copy(&copy, &image), FLMEM_EUNSUPPORTED);
		assert_null(image);
		copy.bytes[rows[i].at] = kept;
	}
	free(copy.bytes);
}

/* Returns the offset of a dynamic tag's value in the file, 0 when it has none. */
static size_t tag_value(const struct copy *copy, int64_t tag)
{
	const Elf64_Ehdr *header = (const void *)copy->bytes;
	const Elf64_Phdr *rows = (const void *)(copy->bytes + header->e_phoff);

	for (unsigned i = 0; i < header->e_phnum; i++) {
		size_t at = rows[i].p_offset, end = at + rows[i].p_filesz;

		for (; rows[i].p_type == PT_DYNAMIC && at < end; at += sizeof(Elf64_Dyn)) {
			const Elf64_Dyn *entry = (const void *)(copy->bytes + at);

			if (entry->d_tag == tag)
				return at + offsetof(Elf64_Dyn, d_un);
		}
	}
	return 0;
}

static void absurd_dynamic_values_are_survived(void **state)
{
	static const int64_t tags[] = {
		DT_GNU_HASH, DT_SYMTAB,	  DT_STRTAB, DT_STRSZ,
		DT_JMPREL,   DT_PLTRELSZ, DT_RELA,   DT_RELASZ,
	};
	static const uint64_t values[] = {0, 1, 0xfff, UINT32_MAX, INT64_MAX, UINT64_MAX - 7};
	struct copy copy = read_copy(SAMPLE("gnu-hash.so"));

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(tags); i++) {
		size_t at = tag_value(&copy, tags[i]);
		uint64_t kept;

		assert_int_not_equal(at, 0);
		memcpy(&kept, copy.bytes + at, sizeof(kept));
		for (size_t k = 0; k < FLMEM_ARRAY_SIZE(values); k++) {
			memcpy(copy.bytes + at, &values[k], sizeof(values[k]));
			ask_copy(&copy);
		}
		memcpy(copy.bytes + at, &kept, sizeof(kept));
	}
	free(copy.bytes);
}

/* Returns a hash table; they are in the first segment, where address and offset are the same. */
static uint32_t *hash_words(const struct copy *copy, int64_t tag)
{
	uint64_t address;

	memcpy(&address, copy->bytes + tag_value(copy, tag), sizeof(address));
	assert_true(address + 64 < copy->size);
	return (uint32_t *)(void *)(copy->bytes + address);
}

static void cyclic_hash_chains_end(void **state)
{
	struct copy copy = read_copy(SAMPLE("sysv-hash.so"));
	uint32_t *words = hash_words(&copy, DT_HASH), buckets = words[0], chains = words[1];

	(void)state;
	for (uint32_t i = 0; i < buckets; i++)
		words[2 + i] = 1;
	for (uint32_t i = 0; i < chains; i++)
		words[2 + buckets + i] = 1;
	ask_copy(&copy);
	words[1] = UINT32_MAX;
	ask_copy(&copy);
	words[0] = UINT32_MAX;
	ask_copy(&copy);
	words[0] = 0;
	ask_copy(&copy);
	free(copy.bytes);
}

static void endless_gnu_chains_end(void **state)
{
	static const uint32_t absurd[] = {0, 1, 3, 31, 0x10000, UINT32_MAX};
	struct copy copy = read_copy(SAMPLE("gnu-hash.so"));
	uint32_t *words = hash_words(&copy, DT_GNU_HASH), kept[4];

	(void)state;
	memcpy(kept, words, sizeof(kept));
	for (size_t field = 0; field < FLMEM_ARRAY_SIZE(kept); field++) {
		for (size_t i = 0; i < FLMEM_ARRAY_SIZE(absurd); i++) {
			words[field] = absurd[i];
			ask_copy(&copy);
		}
		words[field] = kept[field];
	}
	/* The bloom filter accepts everything, and chains have no end. */
	for (uint32_t i = 0; i < kept[2] * 2; i++)
		words[4 + i] = UINT32_MAX;
	for (uint32_t *p = words + 4 + (size_t)kept[2] * 2 + kept[0];
	     (unsigned char *)(p + 1) < copy.bytes + copy.size; p++)
		*p &= ~1U;
	ask_copy(&copy);
	free(copy.bytes);
}

static void absurd_section_tables_are_survived(void **state)
{
	struct copy copy = read_copy(SAMPLE("gnu-hash.so"));
	Elf64_Ehdr *header = (void *)copy.bytes, kept = *header;
	Elf64_Shdr *sections = (void *)(copy.bytes + kept.e_shoff);

	(void)state;
	header->e_shnum = UINT16_MAX;
	ask_copy(&copy);
	header->e_shoff = UINT64_MAX - 32;
	ask_copy(&copy);
	header->e_shoff = copy.size - 8;
	ask_copy(&copy);
	*header = kept;
	header->e_shstrndx = UINT16_MAX;
	ask_copy(&copy);
	*header = kept;
	for (unsigned i = 0; i < kept.e_shnum; i++) {
		sections[i].sh_size = UINT64_MAX - sections[i].sh_offset - 1;
		ask_copy(&copy);
		sections[i].sh_link = UINT32_MAX;
		sections[i].sh_name = UINT32_MAX;
		ask_copy(&copy);
	}
	free(copy.bytes);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(symbols_are_found_by_either_hash_table),
		cmocka_unit_test(hidden_symbols_are_found_until_stripped),
		cmocka_unit_test(programs_that_name_a_dynamic_linker_are_known),
		cmocka_unit_test(static_programs_have_their_symbols_in_symtab),
		cmocka_unit_test(got_slots_are_found_for_imports),
		cmocka_unit_test(sections_and_bytes_are_found),
		cmocka_unit_test(markers_are_found_wherever_they_stand),
		cmocka_unit_test(markers_are_found_across_chunks),
		cmocka_unit_test(files_cut_short_anywhere_are_survived),
		cmocka_unit_test(what_is_no_elf_file_is_refused),
		cmocka_unit_test(absurd_dynamic_values_are_survived),
		cmocka_unit_test(cyclic_hash_chains_end),
		cmocka_unit_test(endless_gnu_chains_end),
		cmocka_unit_test(absurd_section_tables_are_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
