/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/model.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <flmem/text.h>

#include "base/cleanup.h"
#include "base/files/io.h"
#include "base/text/text.h"
#include "model/known_models.h"
#include "model/shards.h"
#include "model/tensors.h"

#define FILES_MAX 10000U
#define INDEX	  FLMEM_SHARDS_INDEX

typedef int add_function(int fd, const char *path, struct flmem_tensors *tensors,
			 struct flmem_error *err);

/* Kinds of files, recognised by name. In a folder only the first existing kind is used. */
static const struct file_kind {
	const char *suffix;
	add_function *add;
} model_kinds[] = {
	{".safetensors", flmem_safetensors_add}, {".bin", flmem_checkpoint_add},
	{".pt", flmem_checkpoint_add},		 {".pth", flmem_checkpoint_add},
	{".ckpt", flmem_checkpoint_add},
};

void flmem_model_clear(struct flmem_model *model)
{
	free(model->name);
	*model = (struct flmem_model){0};
}

static const struct file_kind *kind_of(const char *name)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(model_kinds); i++)
		if (flmem_text_ends(name, model_kinds[i].suffix))
			return &model_kinds[i];
	return NULL;
}

static int add_file(int dirfd, const char *name, const char *path, struct flmem_tensors *tensors,
		    struct flmem_error *err)
{
	FLMEM_AUTO_CLOSE int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	const struct file_kind *kind = kind_of(name);
	struct stat status;

	if (fd < 0 || fstat(fd, &status) < 0)
		return flmem_error_set(err, flmem_code_of_open(errno), errno, "cannot read '%s'",
				       path);
	if (!S_ISREG(status.st_mode))
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "'%s' is not a regular file", path);
	if (!kind)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' is not a known kind of model file; use a "
				       ".safetensors, .bin, .pt, .pth or .ckpt file, or --params",
				       path);
	return kind->add(fd, path, tensors, err);
}

static int add_below(int dirfd, const char *folder, const char *name, struct flmem_tensors *tensors,
		     struct flmem_error *err)
{
	FLMEM_AUTO_FREE char *path = NULL;

	if (asprintf(&path, "%s/%s", folder, name) < 0) {
		path = NULL;
		return flmem_error_nomem(err, "cannot read '%s'", folder);
	}
	return add_file(dirfd, name, path, tensors, err);
}

/* Adds the files of a folder. With an index, these are its shards and no others. */
static int add_indexed(int dirfd, const char *folder, struct flmem_tensors *tensors,
		       struct flmem_error *err)
{
	FLMEM_AUTO_SHARDS struct flmem_shards shards = FLMEM_SHARDS_INIT;
	int rc = flmem_shards_read(dirfd, folder, &shards, err);

	for (size_t i = 0; i < shards.file_count && !rc; i++)
		rc = add_below(dirfd, folder, shards.files[i], tensors, err);
	return rc;
}

static int add_kind(DIR *dir, const char *folder, const struct file_kind *kind, size_t *ret_files,
		    struct flmem_tensors *tensors, struct flmem_error *err)
{
	const struct dirent *entry;
	size_t seen = 0;

	rewinddir(dir);
	while ((entry = readdir(dir))) {
		int rc;

		if (++seen > FILES_MAX)
			return flmem_error_set(
				err, FLMEM_EUSAGE, 0,
				"'%s' has more than %u entries; give the model's own folder",
				folder, FILES_MAX);
		if (entry->d_name[0] == '.' || !flmem_text_ends(entry->d_name, kind->suffix))
			continue;
		rc = add_below(dirfd(dir), folder, entry->d_name, tensors, err);
		if (rc)
			return rc;
		++*ret_files;
	}
	return 0;
}

static int add_folder(const char *folder, struct flmem_tensors *tensors, struct flmem_error *err)
{
	FLMEM_AUTO_DIR DIR *dir = opendir(folder);
	size_t files = 0;
	int rc = 0;

	if (!dir)
		return flmem_error_set(err, flmem_code_of_open(errno), errno, "cannot read '%s'",
				       folder);
	if (faccessat(dirfd(dir), INDEX, F_OK, 0) == 0)
		return add_indexed(dirfd(dir), folder, tensors, err);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(model_kinds) && !rc && !files; i++)
		rc = add_kind(dir, folder, &model_kinds[i], &files, tensors, err);
	if (!rc && !files)
		rc = flmem_error_set(err, FLMEM_EUSAGE, 0,
				     "'%s' contains no .safetensors, .bin, .pt, .pth or .ckpt file",
				     folder);
	return rc;
}

static int measure_model(const char *what, const struct flmem_dtype *dtype,
			 struct flmem_tensors *tensors, struct flmem_error *err)
{
	const struct flmem_known_model *known = flmem_known_model_find(what);
	struct stat status;

	if (known) {
		flmem_known_model_measure(known, dtype ?: flmem_dtype_find(known->dtype), tensors);
		return 0;
	}
	if (stat(what, &status) < 0)
		return flmem_error_set(err, flmem_code_of_open(errno), errno,
				       "'%s' is neither the name of a known model nor a file",
				       what);
	tensors->counted = tensors->listed = true;
	return S_ISDIR(status.st_mode) ? add_folder(what, tensors, err)
				       : add_file(AT_FDCWD, what, what, tensors, err);
}

static int find_dtype(const char *name, const struct flmem_dtype **ret_dtype,
		      struct flmem_error *err)
{
	const struct flmem_dtype *found = name ? flmem_dtype_by_option(name) : NULL;

	if (name && !found)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "invalid number type '%.60s'; expected for example fp32, "
				       "fp16, bf16, float16, int8",
				       name);
	*ret_dtype = found;
	return 0;
}

/* Converts all sizes to another type. FLMEM_EUSAGE if their types are unknown or mixed. */
static int convert_type(struct flmem_tensors *tensors, const struct flmem_dtype *dtype,
			const char *what, struct flmem_error *err)
{
	uint64_t bits, largest;

	if (!dtype || (tensors->counted && !tensors->mixed && tensors->dtype == dtype))
		return 0;
	if (!tensors->counted || tensors->mixed || !tensors->dtype)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "the types in '%s' are unknown or mixed, so its size as %s "
				       "is not known; omit --dtype, or give --params",
				       what, dtype->name);
	if (__builtin_mul_overflow(tensors->elements, dtype->bits, &bits) ||
	    __builtin_mul_overflow(tensors->largest_bytes, 8U, &largest))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' exceeds the memory of any machine", what);
	/* Bits did not overflow, and the largest tensor is a part of them. */
	tensors->bytes = bits / 8;
	tensors->largest_bytes = largest / tensors->dtype->bits * dtype->bits / 8;
	tensors->dtype = dtype;
	return 0;
}

static int fill_model(const char *name, const struct flmem_tensors *tensors,
		      struct flmem_model *ret_model, struct flmem_error *err)
{
	char *copy = strdup(name);

	if (!copy)
		return flmem_error_nomem(err, "cannot store the name '%s'", name);
	*ret_model = (struct flmem_model){
		.name = copy,
		.dtype = !tensors->counted ? NULL
			 : tensors->mixed  ? "mixed"
			 : tensors->dtype  ? tensors->dtype->name
					   : NULL,
		.bytes = tensors->bytes,
		.parameters = tensors->counted
				      ? FLMEM_KNOWN(tensors->elements)
				      : FLMEM_UNKNOWN("only its pickle contains the types"),
		.tensors = tensors->listed ? FLMEM_KNOWN(tensors->count)
					   : FLMEM_UNKNOWN("its tensors are not listed"),
		.largest_bytes = tensors->listed ? FLMEM_KNOWN(tensors->largest_bytes)
						 : FLMEM_UNKNOWN("its tensors are not listed"),
	};
	return 0;
}

int flmem_model_read(const char *what, const char *dtype, struct flmem_model *ret_model,
		     struct flmem_error *err)
{
	const struct flmem_dtype *wanted = NULL;
	struct flmem_tensors tensors = {0};
	int rc = find_dtype(dtype, &wanted, err);

	if (!rc)
		rc = measure_model(what, wanted, &tensors, err);
	if (!rc && !tensors.bytes)
		rc = flmem_error_set(err, FLMEM_EUSAGE, 0, "'%s' has no weights", what);
	if (!rc)
		rc = convert_type(&tensors, wanted, what, err);
	return rc ? rc : fill_model(what, &tensors, ret_model, err);
}

int flmem_model_make(uint64_t parameters, const char *dtype, struct flmem_model *ret_model,
		     struct flmem_error *err)
{
	struct flmem_tensors tensors = {.elements = parameters, .counted = true};
	char name[64];
	uint64_t bits;
	int rc = find_dtype(dtype ?: "fp32", &tensors.dtype, err);

	if (rc)
		return rc;
	if (!parameters || __builtin_mul_overflow(parameters, tensors.dtype->bits, &bits))
		return flmem_error_set(
			err, FLMEM_EUSAGE, 0,
			"a model of %llu parameters exceeds the memory of any machine",
			(unsigned long long)parameters);
	tensors.bytes = bits / 8 + (bits % 8 != 0);
	flmem_text_counted(parameters, "parameter", name, sizeof(name));
	return fill_model(name, &tensors, ret_model, err);
}
