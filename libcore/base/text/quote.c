/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/quote.h"

#include <stdbool.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"

static const char not_utf8[] = "a value that is not UTF-8";
static const char controls[] = "control characters";

/* Appends a value that needs no quoting in any of the formats; returns false for others. */
static bool put_bare(struct flmem_buf *out, const char *value)
{
	if (!*value || value[strspn(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					   "0123456789_./:,+-")])
		return false;
	flmem_buf_puts(out, value);
	return true;
}

/* Wraps a value in single quotes and writes `escape` before each byte of `special`. */
static void put_single_quoted(struct flmem_buf *out, const char *value, const char *special,
			      const char *escape)
{
	flmem_buf_putc(out, '\'');
	for (const char *p = value; *p; p++) {
		if (strchr(special, *p))
			flmem_buf_puts(out, escape);
		flmem_buf_putc(out, *p);
	}
	flmem_buf_putc(out, '\'');
}

const char *flmem_quote_sh(struct flmem_buf *out, const char *value)
{
	if (put_bare(out, value))
		return NULL;
	flmem_buf_putc(out, '\'');
	for (const char *p = value; *p; p++) {
		if (*p == '\'')
			flmem_buf_puts(out, "'\\''");
		else
			flmem_buf_putc(out, *p);
	}
	flmem_buf_putc(out, '\'');
	return NULL;
}

const char *flmem_quote_fish(struct flmem_buf *out, const char *value)
{
	if (!put_bare(out, value))
		put_single_quoted(out, value, "'\\", "\\");
	return NULL;
}

/*
 * csh replaces history references even between single quotes, unless a backslash precedes the '!',
 * which it then removes; so that character is quoted separately, outside the quotes.
 */
const char *flmem_quote_csh(struct flmem_buf *out, const char *value)
{
	if (strpbrk(value, "\n\r"))
		return "line breaks";
	if (put_bare(out, value))
		return NULL;
	flmem_buf_putc(out, '\'');
	for (const char *p = value; *p; p++) {
		if (*p == '\'' || *p == '!')
			flmem_buf_printf(out, "'\\%c'", *p);
		else
			flmem_buf_putc(out, *p);
	}
	flmem_buf_putc(out, '\'');
	return NULL;
}

/*
 * There is no single dotenv syntax. Single quotes are literal everywhere, except that python-dotenv
 * still expands ${NAME} in them and takes \\ and \' as escapes; double quotes know \\, \" and \n
 * everywhere, but compose expands $ in them.
 */
const char *flmem_quote_dotenv(struct flmem_buf *out, const char *value)
{
	if (!flmem_text_is_utf8(value))
		return not_utf8;
	if (strstr(value, "${"))
		return "'${', which some readers expand whatever the quotes";
	if (strchr(value, '\r'))
		return "carriage returns";
	if (put_bare(out, value))
		return NULL;
	if (!strpbrk(value, "'\\")) {
		put_single_quoted(out, value, "", "");
		return NULL;
	}
	if (strpbrk(value, "$`"))
		return "'$' or '`' together with a quote or a backslash";
	flmem_buf_putc(out, '"');
	for (const char *p = value; *p; p++) {
		if (*p == '\n')
			flmem_buf_puts(out, "\\n");
		else if (*p == '"' || *p == '\\')
			flmem_buf_printf(out, "\\%c", *p);
		else
			flmem_buf_putc(out, *p);
	}
	flmem_buf_putc(out, '"');
	return NULL;
}

/* The rest of the line is the value, without quotes (docker/cli, opts/file.go). */
const char *flmem_quote_docker(struct flmem_buf *out, const char *value)
{
	if (strpbrk(value, "\n\r"))
		return "line breaks";
	if (!flmem_text_is_utf8(value))
		return not_utf8;
	flmem_buf_puts(out, value);
	return NULL;
}

/*
 * Escapes a character that must be escaped in a double-quoted scalar (YAML 1.2, 5.1), or that a
 * YAML 1.1 reader folds as a line break. Returns the number of bytes that the escape replaces, or
 * 0.
 */
static size_t put_yaml_escape(struct flmem_buf *out, const unsigned char *p)
{
	static const struct {
		const char *bytes;
		const char *escape;
	} rows[] = {
		{"\"", "\\\""},
		{"\\", "\\\\"},
		{"\xe2\x80\xa8", "\\u2028"},
		{"\xe2\x80\xa9", "\\u2029"},
		{"\xef\xbb\xbf", "\\ufeff"},
		{"\xef\xbf\xbe", "\\ufffe"},
		{"\xef\xbf\xbf", "\\uffff"},
	};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		if (!flmem_text_starts((const char *)p, rows[i].bytes))
			continue;
		flmem_buf_puts(out, rows[i].escape);
		return strlen(rows[i].bytes);
	}
	if (p[0] == 0xc2 && p[1] <= 0x9f) {
		flmem_buf_printf(out, "\\x%02x", p[1]);
		return 2;
	}
	if (p[0] >= 0x20 && p[0] != 0x7f)
		return 0;
	flmem_buf_printf(out, "\\x%02x", p[0]);
	return 1;
}

static const char *put_yaml_quoted(struct flmem_buf *out, const char *value, bool double_dollars)
{
	const unsigned char *p = (const unsigned char *)value;

	if (!flmem_text_is_utf8(value))
		return not_utf8;
	flmem_buf_putc(out, '"');
	while (*p) {
		size_t escaped = put_yaml_escape(out, p);

		p += escaped;
		if (escaped)
			continue;
		if (double_dollars && *p == '$')
			flmem_buf_putc(out, '$');
		flmem_buf_putc(out, (char)*p++);
	}
	flmem_buf_putc(out, '"');
	return NULL;
}

const char *flmem_quote_yaml(struct flmem_buf *out, const char *value)
{
	return put_yaml_quoted(out, value, false);
}

const char *flmem_quote_k8s(struct flmem_buf *out, const char *value)
{
	return put_yaml_quoted(out, value, true);
}

/* A literal block has no escapes, and a YAML 1.1 reader ends a line at all of these characters. */
const char *flmem_quote_sh_in_yaml(struct flmem_buf *out, const char *value)
{
	static const char *const breaks[] = {"\xc2\x85", "\xe2\x80\xa8", "\xe2\x80\xa9",
					     "\xef\xbb\xbf"};

	if (!flmem_text_is_utf8(value))
		return not_utf8;
	for (const unsigned char *p = (const unsigned char *)value; *p; p++)
		if (*p < 0x20 || *p == 0x7f || (*p == 0xc2 && p[1] < 0xa0))
			return controls;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(breaks); i++)
		if (strstr(value, breaks[i]))
			return controls;
	return flmem_quote_sh(out, value);
}

/* Uses C escapes inside quotes, and %% for a percent sign (systemd.syntax(7)). */
static const char *put_systemd_quoted(struct flmem_buf *out, const char *value, const char *doubled)
{
	if (!flmem_text_is_utf8(value))
		return not_utf8;
	/* The same condition as unichar_is_valid() of systemd. */
	if (!flmem_text_is_assigned_utf8(value))
		return "noncharacters of Unicode";
	for (const unsigned char *p = (const unsigned char *)value; *p; p++)
		if ((*p < 0x20 && *p != '\n' && *p != '\t') || *p == 0x7f)
			return controls;
	if (put_bare(out, value))
		return NULL;
	flmem_buf_putc(out, '"');
	for (const char *p = value; *p; p++) {
		if (*p == '"' || *p == '\\')
			flmem_buf_printf(out, "\\%c", *p);
		else if (*p == '\n')
			flmem_buf_puts(out, "\\n");
		else if (*p == '\t')
			flmem_buf_puts(out, "\\t");
		else if (strchr(doubled, *p))
			flmem_buf_printf(out, "%c%c", *p, *p);
		else
			flmem_buf_putc(out, *p);
	}
	flmem_buf_putc(out, '"');
	return NULL;
}

const char *flmem_quote_systemd(struct flmem_buf *out, const char *value)
{
	return put_systemd_quoted(out, value, "%");
}

const char *flmem_quote_systemd_command(struct flmem_buf *out, const char *value)
{
	return put_systemd_quoted(out, value, "%$");
}
