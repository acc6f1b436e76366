/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/error.h>

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/portable.h"
#include "base/text/shorten.h"

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

/*
 * Takes the whole text as message and frees it. NULL: there was no memory for it, and the message
 * stays.
 */
static void keep_message(struct flmem_error *err, char *whole)
{
	if (!whole)
		return;
	flmem_text_fit(whole, sizeof(err->message));
	snprintf(err->message, sizeof(err->message), "%s", whole);
	free(whole);
}

__attribute__((format(printf, 1, 0))) static char *print_whole(const char *format, va_list args,
							       const char *cause)
{
	FLMEM_AUTO_FREE char *text = NULL;
	char *whole;

	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	return text && asprintf(&whole, "%s%s", text, cause) >= 0 ? whole : NULL;
}

/* Advice that is the same whatever was opened. */
static const char *limit_advice(int sys_errno)
{
	switch (sys_errno) {
	case EMFILE:
		return "; raise the limit of the process (ulimit -n)";
	case ENFILE:
		return "; raise that of the system (fs.file-max)";
	case EIO:
		return "; check the disk and the kernel log (dmesg)";
	default:
		return "";
	}
}

__attribute__((format(printf, 4, 0))) static void set_error_message(struct flmem_error *err,
								    int code, int sys_errno,
								    const char *format,
								    va_list args)
{
	char text[128], cause[sizeof(text) + 64] = "";
	size_t room, length;
	va_list again;

	if (!err)
		return;
	err->code = code;
	err->sys_errno = sys_errno;
	if (sys_errno)
		snprintf(cause, sizeof(cause), ": %s%s",
			 flmem_errno_text(sys_errno, text, sizeof(text)), limit_advice(sys_errno));
	room = sizeof(err->message) - strlen(cause);
	va_copy(again, args);
	length = (size_t)vsnprintf(err->message, room, format, args);
	/* If there is no memory for the whole text, its end is truncated, not the cause. */
	memcpy(err->message + strlen(err->message), cause, strlen(cause) + 1);
	if (length >= room)
		keep_message(err, print_whole(format, again, cause));
	va_end(again);
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
	FLMEM_AUTO_FREE char *prefix = NULL;
	char *whole;
	va_list args;

	if (!err)
		return code;
	err->code = code;
	va_start(args, format);
	prefix = print_whole(format, args, ": ");
	va_end(args);
	if (prefix && asprintf(&whole, "%s%s", prefix, err->message) >= 0)
		keep_message(err, whole);
	return code;
}

void flmem_error_clear(struct flmem_error *err)
{
	if (err)
		*err = (struct flmem_error){0};
}

int flmem_code_of_open(int sys_errno)
{
	static const int failures[] = {EMFILE, ENFILE, ENOSPC,	  EDQUOT,   EIO,
				       ENOMEM, ESTALE, ETIMEDOUT, ENOTCONN, EINTR};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(failures); i++)
		if (sys_errno == failures[i])
			return FLMEM_EFAILED;
	return sys_errno == EACCES || sys_errno == EPERM ? FLMEM_EPERM : FLMEM_EUSAGE;
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
