/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces http.c where libcurl's headers are not installed: no file can be opened. */
#include "net/http.h"

#include "net/headers.h"

int flmem_http_open(const struct flmem_http_access *access, struct flmem_http **ret_http,
		    struct flmem_error *err)
{
	int rc = flmem_headers_check(access->options, err);

	*ret_http = NULL;
	return rc ? rc
		  : flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
				    "this flmem was built without libcurl, which reads http:// and "
				    "https:// addresses; download the file first");
}

void flmem_http_close(struct flmem_http *http)
{
	(void)http;
}

void flmem_http_file_close(struct flmem_http_file *file)
{
	(void)file;
}

int flmem_http_file_open(struct flmem_http *http, const char *url,
			 struct flmem_http_file **ret_file, struct flmem_error *err)
{
	(void)http;
	(void)url;
	(void)ret_file;
	return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0, "there is no libcurl");
}

const char *flmem_http_file_name(const struct flmem_http_file *file)
{
	(void)file;
	return "";
}

uint64_t flmem_http_file_size(const struct flmem_http_file *file)
{
	(void)file;
	return 0;
}

uint64_t flmem_http_file_mix(const struct flmem_http_file *file, uint64_t hash)
{
	(void)file;
	return hash;
}

void flmem_http_file_expect(struct flmem_http_file *file, uint64_t offset, uint64_t bytes)
{
	(void)file;
	(void)offset;
	(void)bytes;
}

int flmem_http_file_read(struct flmem_http_file *file, uint64_t offset, uint64_t bytes, char *out,
			 struct flmem_error *err)
{
	(void)file;
	(void)offset;
	(void)bytes;
	(void)out;
	return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0, "there is no libcurl");
}

int flmem_http_file_check(struct flmem_http_file *file, struct flmem_error *err)
{
	(void)file;
	return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0, "there is no libcurl");
}
