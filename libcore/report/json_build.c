/* SPDX-License-Identifier: Apache-2.0 */
#include "report/json_build.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <flmem/report.h>
#include <flmem/text.h>

#include "base/cleanup.h"
#include "base/text/buf.h"

cJSON *flmem_json_report(const char *command)
{
	cJSON *root = cJSON_CreateObject();
	char schema[64];

	snprintf(schema, sizeof(schema), "flmem.%s/1", command);
	cJSON_AddStringToObject(root, "schema", schema);
	return root;
}

void flmem_json_add_u64(cJSON *object, const char *name, uint64_t number)
{
	char digits[24];

	snprintf(digits, sizeof(digits), "%" PRIu64, number);
	cJSON_AddRawToObject(object, name, digits);
}

void flmem_json_add_real(cJSON *object, const char *name, double number)
{
	char digits[32];

	if (!isfinite(number)) {
		cJSON_AddNullToObject(object, name);
		return;
	}
	snprintf(digits, sizeof(digits), "%.17g", number);
	cJSON_AddRawToObject(object, name, digits);
}

void flmem_json_add_value(cJSON *object, cJSON *unknown, const char *name, struct flmem_u64 value)
{
	if (!value.unknown) {
		flmem_json_add_u64(object, name, value.value);
		return;
	}
	cJSON_AddNullToObject(object, name);
	cJSON_AddStringToObject(unknown, name, value.unknown);
}

/* Returns a heap copy that is valid UTF-8, or NULL when memory is out. */
static char *clean_text(const char *text)
{
	size_t size = strlen(text) * 4 + 1; /* worst case: every byte becomes \xNN */
	char *clean = malloc(size);

	return clean ? flmem_text_escape(text, clean, size) : NULL;
}

void flmem_json_add_text(cJSON *object, const char *name, const char *text)
{
	FLMEM_AUTO_FREE char *clean = text ? clean_text(text) : NULL;

	if (!text)
		cJSON_AddNullToObject(object, name);
	else if (clean)
		cJSON_AddStringToObject(object, name, clean);
}

static bool is_like_escape(const char *text)
{
	return text[0] == '\\' && text[1] == 'x' && isxdigit((unsigned char)text[2]) &&
	       isxdigit((unsigned char)text[3]);
}

void flmem_json_add_name(cJSON *object, const char *name, const char *text)
{
	FLMEM_AUTO_BUF struct flmem_buf exact = FLMEM_BUF_INIT;

	for (const char *p = text; p && *p; p++)
		if (is_like_escape(p))
			flmem_buf_puts(&exact, "\\x5c");
		else
			flmem_buf_putc(&exact, *p);
	if (!exact.failed)
		flmem_json_add_text(object, name, text && exact.data ? exact.data : text);
}

void flmem_json_append_text(cJSON *array, const char *text)
{
	FLMEM_AUTO_FREE char *clean = clean_text(text);

	if (clean)
		cJSON_AddItemToArray(array, cJSON_CreateString(clean));
}

void flmem_json_add_keyed(cJSON *object, const char *name, cJSON *item)
{
	FLMEM_AUTO_FREE char *clean = clean_text(name);

	if (!clean || !cJSON_AddItemToObject(object, clean, item))
		cJSON_Delete(item);
}

static char *take_text(cJSON *root, char *text)
{
	char *line = NULL;

	cJSON_Delete(root);
	if (text && asprintf(&line, "%s\n", text) < 0)
		line = NULL;
	cJSON_free(text);
	return line;
}

char *flmem_json_take(cJSON *root)
{
	return take_text(root, cJSON_Print(root));
}

char *flmem_json_take_line(cJSON *root)
{
	return take_text(root, cJSON_PrintUnformatted(root));
}

char *flmem_report_error_json(const char *command, const struct flmem_error *error)
{
	cJSON *root = flmem_json_report(command);
	cJSON *object = cJSON_AddObjectToObject(root, "error");

	cJSON_AddStringToObject(object, "code", flmem_code_name(error->code));
	cJSON_AddNumberToObject(object, "exit_status", flmem_code_exit_status(error->code));
	flmem_json_add_text(object, "message", error->message);
	return flmem_json_take_line(root); /* some commands print an object per line */
}
