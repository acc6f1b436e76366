/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/start/emit_image.h"

#include <stdbool.h>
#include <string.h>

#define LOWER  "abcdefghijklmnopqrstuvwxyz"
#define UPPER  "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

#define TAG_MAX	 128U
#define NAME_MAX 255U /* of host and path */

static bool has_only(const char *text, size_t length, const char *bytes)
{
	for (size_t i = 0; i < length; i++)
		if (!text[i] || !strchr(bytes, text[i]))
			return false;
	return length;
}

/* "sha256:" and hexadecimal digits. */
static bool is_digest(const char *digest)
{
	size_t name = strcspn(digest, ":");

	return digest[name] && has_only(digest, name, LOWER UPPER DIGITS "+._-") &&
	       strlen(digest + name + 1) >= 32 &&
	       has_only(digest + name + 1, strlen(digest + name + 1), DIGITS "abcdefABCDEF");
}

static bool is_tag(const char *tag, size_t length)
{
	return length && length <= TAG_MAX && !strchr(".-", *tag) &&
	       has_only(tag, length, LOWER UPPER DIGITS "._-");
}

/* Docker takes a first part for a host if it could not be one of the path. */
static bool is_host(const char *part, size_t length)
{
	static const char local[] = "localhost";

	return memchr(part, '.', length) || memchr(part, ':', length) ||
	       (length == sizeof(local) - 1 && memcmp(part, local, length) == 0) ||
	       strcspn(part, UPPER) < length;
}

static bool is_path_part(const char *part, size_t length)
{
	return has_only(part, length, LOWER DIGITS "._-") && !strchr("._-", *part) &&
	       !strchr("._-", part[length - 1]);
}

static bool is_path(const char *path, size_t length)
{
	for (const char *end = path + length; path <= end;) {
		const char *slash = memchr(path, '/', (size_t)(end - path));
		size_t part = (size_t)((slash ? slash : end) - path);

		if (!is_path_part(path, part))
			return false;
		path += part + 1;
	}
	return true;
}

static const char *find_problem(const char *image)
{
	size_t length = strcspn(image, "@"), host = strcspn(image, "/"), tag;

	if (image[length] && !is_digest(image + length + 1))
		return "its digest is invalid; expected for example @sha256:0123...";
	for (tag = length; tag && !strchr(":/", image[tag - 1]);)
		tag--;
	if (tag && image[tag - 1] == ':') {
		if (!is_tag(image + tag, length - tag))
			return "its tag is invalid";
		length = tag - 1;
	}
	if (length > NAME_MAX)
		return "it is longer than 255 bytes";
	if (host < length && is_host(image, host)) {
		if (!has_only(image, host, LOWER UPPER DIGITS ".:-[]"))
			return "its registry is invalid";
		image += host + 1;
		length -= host + 1;
	}
	return is_path(image, length) ? NULL
				      : "its path has lowercase letters and digits, and '/', '.', "
					"'_' or '-' between them";
}

int flmem_emit_image_check(const char *image, struct flmem_error *err)
{
	const char *problem = find_problem(image);

	if (!problem)
		return 0;
	return flmem_error_set(err, FLMEM_EUSAGE, 0, "invalid image '%.100s': %s", image, problem);
}
