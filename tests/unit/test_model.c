/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the sizes of models, by their files and by their names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <flmem/plan.h>

#include "base/cleanup.h"
#include "base/files/io.h"
#include "base/text/buf.h"
#include "model/tensor_file.h"
#include "model/tensor_list.h"

struct folder {
	char path[64];
};

static int make_folder(void **state)
{
	struct folder *folder = calloc(1, sizeof(*folder));

	assert_non_null(folder);
	snprintf(folder->path, sizeof(folder->path), "/tmp/flmem-model-XXXXXX");
	assert_non_null(mkdtemp(folder->path));
	*state = folder;
	return 0;
}

static int remove_folder(void **state)
{
	struct folder *folder = *state;
	char command[128];

	snprintf(command, sizeof(command), "rm -r '%s'", folder->path);
	assert_int_equal(system(command), 0);
	free(folder);
	return 0;
}

static void put_number(struct flmem_buf *buf, uint64_t value, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		flmem_buf_putc(buf, (char)(i < sizeof(value) ? value >> 8 * i : 0));
}

/* Writes `name` in the folder and returns its path, in a static buffer. */
static const char *put_file(const struct folder *folder, const char *name,
			    const struct flmem_buf *bytes)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s", folder->path, name);
	assert_int_equal(flmem_io_write_file(path, bytes->data, bytes->length, 0600, true, NULL),
			 0);
	return path;
}

/* Writes a safetensors file with this header and so many bytes after it. */
static const char *put_safetensors(const struct folder *folder, const char *name,
				   const char *header, size_t data)
{
	FLMEM_AUTO_BUF struct flmem_buf bytes = FLMEM_BUF_INIT;

	put_number(&bytes, strlen(header), 8);
	flmem_buf_puts(&bytes, header);
	for (size_t i = 0; i < data; i++)
		flmem_buf_putc(&bytes, 'x');
	return put_file(folder, name, &bytes);
}

static void safetensors_are_summed_from_their_header(void **state)
{
	const char *path = put_safetensors(
		*state, "m.safetensors",
		"{\"__metadata__\":{\"format\":\"pt\"},"
		"\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[4,28]},"
		"\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
		"\"none\":{\"dtype\":\"F32\",\"shape\":[0,7],\"data_offsets\":[4,4]}}  ",
		28);
	struct flmem_model model;

	assert_int_equal(flmem_model_read(path, NULL, &model, NULL), 0);
	assert_int_equal(model.bytes, 28);
	assert_int_equal(model.parameters.value, 7);
	assert_int_equal(model.tensors.value, 3);
	assert_int_equal(model.largest_bytes.value, 24);
	assert_string_equal(model.dtype, "fp32");
	flmem_model_clear(&model);
	assert_int_equal(flmem_model_read(path, "bf16", &model, NULL), 0);
	assert_int_equal(model.bytes, 14);
	assert_int_equal(model.largest_bytes.value, 12);
	flmem_model_clear(&model);
}

static const struct {
	const char *header;
	size_t data;
	const char *message;
} unsound[] = {
	{"[]", 0, "not an object"},
	{"{\"a\":", 0, "not a valid safetensors"},
	{"{}", 3, "do not end with the file"},
	{"{\"a\":{\"dtype\":\"F99\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "dtype"},
	{"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "shape"},
	{"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", 4, "shape"},
	{"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "fill"},
	{"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, "range"},
	{"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,8]}}", 4, "range"},
	{"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,4]}}", 4, "range"},
	{"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "hole"},
	{"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
	 "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
	 4, "overlaps"},
	{"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
	 "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
	 8, "twice"},
	{"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296,4],"
	 "\"data_offsets\":[0,0]}}",
	 0, "shape"},
	{"{\"a\":{\"dtype\":\"F4\",\"shape\":[1],\"data_offsets\":[0,0]}}", 0, "fill"},
	{"{\"a\":1}", 0, "dtype"},
	{"{\"a\":{}}", 0, "dtype"},
	{"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", 0, "twice"},
	{"{\"a\":{\"dtype\":\"F32\",\"shape\":[01]}}", 0, "shape"},
	{"{\"a\":{\"dtype\":\"U8\",\"shape\":[9223372036854775808],"
	 "\"data_offsets\":[0,9223372036854775808]}}",
	 0, "range"},
	{"{\"a\":{\"dtype\":\"U8\",\"shape\":[18446744073709551616],"
	 "\"data_offsets\":[0,0]}}",
	 0, "shape"},
	{"{\"__metadata__\":{\"a\":1}}", 0, "unexpected character"},
	{"{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"
	 "\"data_offsets\":[0,1]}}",
	 1, "more than 16 dimensions"},
	{"{\"__metadata__\":{\"a\":\"b\"},\"__metadata__\":{}}", 0, "twice"},
	{"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "twice"},
	{"{\"a\\u0000\":1}", 0, "escape"},
	{"{\"a\\ud800\":1}", 0, "surrogate"},
	{"{\"a\\x\":1}", 0, "escape"},
	{"{\"a\n\":1}", 0, "control character"},
	{"{\"a", 0, "ends in a string"},
	{"{\"a\xff\":1}", 0, "UTF-8"},
	{"{} x", 0, "after its object"},
	{"{\"a\":{\"more\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", 0, "too deep"},
	{"{\"a\":{\"more\":{\"b\":[1,]}}}", 0, "unexpected character"},
};

static void safetensors_that_are_not_sound_are_refused(void **state)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(unsound); i++) {
		const char *path = put_safetensors(*state, "bad.safetensors", unsound[i].header,
						   unsound[i].data);
		struct flmem_model model = {.bytes = 77};
		struct flmem_error err = {0};

		assert_int_equal(flmem_model_read(path, NULL, &model, &err), FLMEM_EUSAGE);
		assert_int_equal(model.bytes, 77);
		if (!strstr(err.message, unsound[i].message))
			fail_msg("row %zu: %s", i, err.message);
	}
}

/* A descriptor for writing stands for a disk with an error: a read fails, but the size is known. */
static void a_read_that_fails_is_no_damaged_model(void **state)
{
	static const char header[] =
		"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}";
	const char *path = put_safetensors(*state, "e.safetensors", header, 2);
	FLMEM_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CLOEXEC);
	FLMEM_AUTO_TENSOR_LIST struct flmem_tensor_list list = {0};
	FLMEM_AUTO(flmem_tensor_file_clear) struct flmem_tensor_file file = {0};
	struct flmem_error err = {0};

	assert_int_equal(flmem_safetensors_read(FLMEM_SOURCE_FD(fd), path, &list, &err),
			 FLMEM_EFAILED);
	assert_int_equal(err.sys_errno, EBADF);
	assert_non_null(strstr(err.message, "cannot read"));
	err = (struct flmem_error){0};
	assert_int_equal(
		flmem_tensor_file_read(FLMEM_SOURCE_FD(fd), path, NULL, &file, &list, &err),
		FLMEM_EFAILED);
	assert_int_equal(err.sys_errno, EBADF);
}

static void names_and_unknown_fields_are_read_as_json_says(void **state)
{
	static const char header[] =
		"{\"b\\u00e9\\ud83d\\ude00\":{\"more\":{\"x\":[1.5e3,true,{}],\"y\":[]},"
		"\"data_offsets\":[0,2],\"shape\":[2],\"dtype\":\"U8\"} ,"
		"\"a\\t\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[2,6]}}";
	const char *path = put_safetensors(*state, "n.safetensors", header, 6);
	FLMEM_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	FLMEM_AUTO_TENSOR_LIST struct flmem_tensor_list list = {0};
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	const struct flmem_tensor *order[2];

	assert_int_equal(flmem_safetensors_read(FLMEM_SOURCE_FD(fd), path, &list, NULL), 0);
	assert_int_equal(list.count, 2);
	assert_string_equal(list.tensors[0].name, "a\t");
	assert_string_equal(list.tensors[1].name, "b\u00e9\U0001f600");
	assert_int_equal(list.tensors[1].offset, 8 + strlen(header));
	assert_ptr_equal(flmem_tensor_list_find(&list, "a\t"), &list.tensors[0]);
	assert_null(flmem_tensor_list_find(&list, "c"));
	order[0] = &list.tensors[0];
	order[1] = &list.tensors[1];
	assert_true(flmem_tensor_compare_stored(&order[0], &order[1]) < 0);
	flmem_safetensors_print(&list, order, &text);
	assert_int_equal(text.length % 8, 0);
	assert_int_equal(text.data[0], text.length - 8);
	assert_string_equal(text.data + 8,
			    "{\"a\\t\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
			    "\"b\u00e9\U0001f600\":{\"dtype\":\"U8\",\"shape\":[2],"
			    "\"data_offsets\":[4,6]}}       ");
}

static void many_tensors_are_read(void **state)
{
	const size_t count = 200000;
	FLMEM_AUTO_BUF struct flmem_buf header = FLMEM_BUF_INIT;
	struct flmem_model model;
	const char *path;

	for (size_t i = 0; i < count; i++)
		flmem_buf_printf(&header,
				 "%c\"t%zu\":{\"dtype\":\"U8\",\"shape\":[1],"
				 "\"data_offsets\":[%zu,%zu]}",
				 i ? ',' : '{', i, i, i + 1);
	flmem_buf_putc(&header, '}');
	path = put_safetensors(*state, "many.safetensors", header.data, count);
	assert_int_equal(flmem_model_read(path, NULL, &model, NULL), 0);
	assert_int_equal(model.tensors.value, count);
	flmem_model_clear(&model);
}

static void a_header_that_leaves_the_file_is_refused(void **state)
{
	static const uint64_t lengths[] = {UINT64_MAX, UINT64_MAX - 7, 3, 1000};
	struct flmem_error err = {0};
	struct flmem_model model;

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(lengths); i++) {
		FLMEM_AUTO_BUF struct flmem_buf bytes = FLMEM_BUF_INIT;

		put_number(&bytes, lengths[i], 8);
		flmem_buf_puts(&bytes, "{}");
		assert_int_equal(flmem_model_read(put_file(*state, "h.safetensors", &bytes), NULL,
						  &model, &err),
				 FLMEM_EUSAGE);
		assert_non_null(strstr(err.message, "after the end of the file"));
	}
}

static void shards_are_those_of_the_index(void **state)
{
	static const char tensor[] = "{\"a\":{\"dtype\":\"BF16\",\"shape\":[4],"
				     "\"data_offsets\":[0,8]}}";
	static const char index[] = "{\"metadata\":{\"total_size\":16},\"weight_map\":{"
				    "\"a\":\"x-1.safetensors\",\"b\":\"x-2.safetensors\","
				    "\"c\":\"x-1.safetensors\"}}";
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	const struct folder *folder = *state;
	struct flmem_error err = {0};
	struct flmem_model model;

	put_safetensors(folder, "x-1.safetensors", tensor, 8);
	put_safetensors(folder, "x-2.safetensors", tensor, 8);
	put_safetensors(folder, "consolidated.safetensors", tensor, 8);
	flmem_buf_puts(&text, index);
	put_file(folder, "model.safetensors.index.json", &text);
	assert_int_equal(flmem_model_read(folder->path, NULL, &model, NULL), 0);
	assert_int_equal(model.bytes, 16);
	assert_int_equal(model.parameters.value, 8);
	flmem_model_clear(&model);
	flmem_buf_reset(&text);
	flmem_buf_puts(&text, "{\"weight_map\":{\"a\":\"../x-1.safetensors\"}}");
	put_file(folder, "model.safetensors.index.json", &text);
	assert_int_equal(flmem_model_read(folder->path, NULL, &model, &err), FLMEM_EUSAGE);
	assert_non_null(strstr(err.message, "outside"));
}

static void put_entry(struct flmem_buf *directory, const char *name, uint64_t size, unsigned method)
{
	bool large = size >= UINT32_MAX;

	put_number(directory, 0x02014b50, 4);
	put_number(directory, 0, 6);
	put_number(directory, method, 2);
	put_number(directory, 0, 12);
	put_number(directory, large ? UINT32_MAX : size, 4);
	put_number(directory, strlen(name), 2);
	put_number(directory, large ? 12 : 0, 2);
	put_number(directory, 0, 14);
	flmem_buf_puts(directory, name);
	if (large) {
		put_number(directory, 1, 2);
		put_number(directory, 8, 2);
		put_number(directory, size, 8);
	}
}

/* Writes an archive of `hole` bytes, then the directory. */
static const char *put_archive(const struct folder *folder, size_t hole,
			       const struct flmem_buf *directory)
{
	FLMEM_AUTO_BUF struct flmem_buf bytes = FLMEM_BUF_INIT;
	unsigned entries = 0;

	for (size_t i = 0; i < hole; i++)
		flmem_buf_putc(&bytes, 'x');
	flmem_buf_append(&bytes, directory->data, directory->length);
	for (size_t i = 0; i + 4 <= directory->length; i++)
		entries += !memcmp(directory->data + i, "PK\1\2", 4);
	put_number(&bytes, 0x06054b50, 4);
	put_number(&bytes, 0, 4);
	put_number(&bytes, entries, 2);
	put_number(&bytes, entries, 2);
	put_number(&bytes, directory->length, 4);
	put_number(&bytes, hole, 4);
	put_number(&bytes, 0, 2);
	return put_file(folder, "m.pt", &bytes);
}

static void checkpoints_are_summed_from_their_directory(void **state)
{
	FLMEM_AUTO_BUF struct flmem_buf directory = FLMEM_BUF_INIT;
	struct flmem_error err = {0};
	struct flmem_model model;

	put_entry(&directory, "m/data.pkl", 50, 8);
	put_entry(&directory, "m/data/0", 64, 0);
	put_entry(&directory, "m/data/1", 100, 0);
	put_entry(&directory, "m/data/serialization_id", 40, 0);
	assert_int_equal(flmem_model_read(put_archive(*state, 300, &directory), NULL, &model, NULL),
			 0);
	assert_int_equal(model.bytes, 164);
	assert_int_equal(model.tensors.value, 2);
	assert_int_equal(model.largest_bytes.value, 100);
	assert_non_null(model.parameters.unknown);
	assert_null(model.dtype);
	flmem_model_clear(&model);
	assert_int_equal(
		flmem_model_read(put_archive(*state, 300, &directory), "bf16", &model, &err),
		FLMEM_EUSAGE);
}

static void checkpoints_that_are_not_sound_are_refused(void **state)
{
	static const struct {
		const char *name;
		uint64_t size;
		unsigned method;
	} rows[] = {
		{"m/data/0", 1000, 0},
		{"m/data/0", UINT64_C(1) << 40, 0},
		{"m/data/0", 10, 8},
		{"m/other", 10, 0},
	};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		FLMEM_AUTO_BUF struct flmem_buf directory = FLMEM_BUF_INIT;
		struct flmem_model model;

		put_entry(&directory, rows[i].name, rows[i].size, rows[i].method);
		assert_int_equal(
			flmem_model_read(put_archive(*state, 20, &directory), NULL, &model, NULL),
			FLMEM_EUSAGE);
		directory.length--; /* the directory is cut off */
		assert_int_equal(
			flmem_model_read(put_archive(*state, 20, &directory), NULL, &model, NULL),
			FLMEM_EUSAGE);
	}
}

static void known_models_have_their_published_sizes(void **state)
{
	static const struct {
		const char *name;
		uint64_t parameters, tensors;
	} rows[] = {
		{"llama-3.1-8b", UINT64_C(8030261248), 291},
		{"Llama-3.1-70B", UINT64_C(70553706496), 723},
		{"llama-3.1-405b", UINT64_C(405853388800), 1137},
		{"llama-3.2-1b", UINT64_C(1235814400), 146},
		{"llama-3.2-3b", UINT64_C(3212749824), 254},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		struct flmem_model model;

		assert_int_equal(flmem_model_read(rows[i].name, NULL, &model, NULL), 0);
		assert_int_equal(model.parameters.value, rows[i].parameters);
		assert_int_equal(model.bytes, 2 * rows[i].parameters);
		assert_int_equal(model.tensors.value, rows[i].tensors);
		flmem_model_clear(&model);
	}
}

static void types_have_the_names_of_other_programs_too(void **state)
{
	static const struct {
		const char *written, *name;
	} types[] = {
		{"float16", "fp16"}, {"torch.bfloat16", "bf16"},    {"float32", "fp32"},
		{"F16", "fp16"},     {"float8_e4m3fn", "fp8-e4m3"},
	};
	struct flmem_model model;

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(types); i++) {
		assert_int_equal(flmem_model_make(1000, types[i].written, &model, NULL), 0);
		assert_string_equal(model.dtype, types[i].name);
		flmem_model_clear(&model);
	}
}

static void what_is_no_model_is_refused(void **state)
{
	const struct folder *folder = *state;
	struct flmem_model model;

	assert_int_equal(flmem_model_read("llama-9", NULL, &model, NULL), FLMEM_EUSAGE);
	assert_int_equal(flmem_model_read("/dev/null", NULL, &model, NULL), FLMEM_EUSAGE);
	assert_int_equal(flmem_model_read(folder->path, NULL, &model, NULL), FLMEM_EUSAGE);
	assert_int_equal(flmem_model_read("llama-3.1-8b", "fp33", &model, NULL), FLMEM_EUSAGE);
	assert_int_equal(flmem_model_make(1000, "float17", &model, NULL), FLMEM_EUSAGE);
	assert_int_equal(flmem_model_make(0, NULL, &model, NULL), FLMEM_EUSAGE);
	assert_int_equal(flmem_model_make(UINT64_MAX, NULL, &model, NULL), FLMEM_EUSAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(types_have_the_names_of_other_programs_too),
		cmocka_unit_test_setup_teardown(safetensors_are_summed_from_their_header,
						make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(safetensors_that_are_not_sound_are_refused,
						make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(a_header_that_leaves_the_file_is_refused,
						make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(a_read_that_fails_is_no_damaged_model, make_folder,
						remove_folder),
		cmocka_unit_test_setup_teardown(names_and_unknown_fields_are_read_as_json_says,
						make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(many_tensors_are_read, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(shards_are_those_of_the_index, make_folder,
						remove_folder),
		cmocka_unit_test_setup_teardown(checkpoints_are_summed_from_their_directory,
						make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(checkpoints_that_are_not_sound_are_refused,
						make_folder, remove_folder),
		cmocka_unit_test(known_models_have_their_published_sizes),
		cmocka_unit_test_setup_teardown(what_is_no_model_is_refused, make_folder,
						remove_folder),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
