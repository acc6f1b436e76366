/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/error.h>

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/portable.h"

static const struct {
	int code;
	int status;
	const char *name;
	const char *meaning;
} codes[] = {{0, 0, "ok", "done"},
#define CODE_ROW(name_, text_, status_, meaning_) {FLMEM_E##name_, status_, text_, meaning_},
	     FLMEM_CODES(CODE_ROW)
#undef CODE_ROW
};

#define CODE_COUNT (sizeof(codes) / sizeof(codes[0]))

static void append_errno(struct flmem_error *err)
{
	size_t used = strlen(err->message);
	char text[128];

	snprintf(err->message + used, sizeof(err->message) - used, ": %s",
		 flmem_errno_text(err->sys_errno, text, sizeof(text)));
}

__attribute__((format(printf, 4, 0))) static void set_error_message(struct flmem_error *err,
								    int code, int sys_errno,
								    const char *format,
								    va_list args)
{
	if (!err)
		return;
	err->code = code;
	err->sys_errno = sys_errno;
	vsnprintf(err->message, sizeof(err->message), format, args);
	if (sys_errno)
		append_errno(err);
}

int flmem_error_set(struct flmem_error *err, int code, int sys_errno, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	set_error_message(err, code, sys_errno, format, args);
	va_end(args);
	return code;
}

int flmem_error_nomem(struct flmem_error *err, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	set_error_message(err, FLMEM_EFAILED, ENOMEM, format, args);
	va_end(args);
	return FLMEM_EFAILED;
}

int flmem_error_prefix(struct flmem_error *err, int code, const char *format, ...)
{
	char prefix[FLMEM_ERROR_MESSAGE_MAX];
	size_t length, keep;
	va_list args;

	if (!err)
		return code;
	err->code = code;
	va_start(args, format);
	vsnprintf(prefix, sizeof(prefix), format, args);
	va_end(args);
	length = strlen(prefix);
	if (length + 2 >= sizeof(err->message))
		return code;
	keep = strnlen(err->message, sizeof(err->message) - length - 3);
	memmove(err->message + length + 2, err->message, keep);
	memcpy(err->message, prefix, length);
	memcpy(err->message + length, ": ", 2);
	err->message[length + 2 + keep] = '\0';
	return code;
}

void flmem_error_clear(struct flmem_error *err)
{
	if (err)
		*err = (struct flmem_error){0};
}

int flmem_code_exit_status(int code)
{
	for (size_t i = 0; i < CODE_COUNT; i++)
		if (codes[i].code == code)
			return codes[i].status;
	return flmem_code_exit_status(FLMEM_EFAILED);
}

const char *flmem_code_name(int code)
{
	for (size_t i = 0; i < CODE_COUNT; i++)
		if (codes[i].code == code)
			return codes[i].name;
	return flmem_code_name(FLMEM_EFAILED);
}

const char *flmem_exit_status_meaning(int status)
{
	for (size_t i = 0; i < CODE_COUNT; i++)
		if (codes[i].status == status)
			return codes[i].meaning;
	return NULL;
}
